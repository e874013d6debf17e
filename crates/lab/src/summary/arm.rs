//! One workload in one arm: its cell, and the runs behind it.

use crate::figures::{Reading, figure};
use crate::results::{Estimate, Interval, WorkloadResult};

/// One workload in one arm.
#[derive(Debug, Clone, Default)]
pub struct Arm<'a> {
    /// Its valid runs merged; `None` without one.
    pub cell: Option<&'a Estimate>,
    /// The result of the workload in each valid run, in the order they ran.
    pub runs: Vec<&'a WorkloadResult>,
    /// How many runs were invalid and ignored.
    pub left_out: usize,
}

/// A percentile of latency, microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    /// Over the requests of all runs.
    pub value: f64,
    /// The smallest of the runs.
    pub low: f64,
    /// The largest of the runs.
    pub high: f64,
}

impl<'a> Arm<'a> {
    /// Figures over all runs; `None` without a valid run.
    pub fn reading(&self) -> Option<Reading<'a>> {
        self.cell.map(Reading::of_cell)
    }

    /// The figure of that name over all runs; `None` if it is not known.
    pub fn figure(&self, key: &str) -> Option<f64> {
        figure(key).value(&self.reading()?)
    }

    /// Completed requests per second. `None` without a valid run.
    pub fn throughput(&self) -> Option<Interval> {
        self.cell.map(|cell| cell.throughput_per_s)
    }

    /// The fewest requests that a run completed.
    pub fn completed_min(&self) -> Option<u64> {
        self.runs.iter().map(|run| run.all.completed).min()
    }

    /// The percentile of that name over all runs, and its range over those runs that have enough requests to determine
    /// it.
    pub fn percentile(&self, key: &str) -> Option<Percentile> {
        let (cell, value) = (self.cell?, self.figure(key)?);
        let read = |run: &&'a WorkloadResult| {
            let (device, achieved) = (&cell.device, &cell.achieved);
            figure(key).value(&Reading { device, achieved, workload: run, part: &run.all })
        };
        let of_runs = self.runs.iter().filter_map(read);
        let (low, high) = of_runs.fold((value, value), |(low, high), of_run| (low.min(of_run), high.max(of_run)));
        Some(Percentile { value, low, high })
    }
}
