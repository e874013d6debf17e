//! The figures that are drawn over a sweep, of an estimate and of each run behind it.

use crate::report::chart::Figure;
use crate::report::page::{Page, bare};
use crate::results::{Estimate, Interval, Latency, Part, WorkloadResult};

/// One figure of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) enum Measure {
    /// Completed requests per second.
    Throughput,
    /// Median latency over the requests of all repeats.
    Median,
    /// 99th percentile of latency over the requests of all repeats.
    P99,
    ClassThroughput(String),
    /// 95th percentile of one class's latency.
    ClassP95(String),
}

impl Measure {
    /// The name of its line; empty if the arm is enough.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Throughput => "",
            Self::Median => "p50",
            Self::P99 => "p99",
            Self::ClassThroughput(class) | Self::ClassP95(class) => class,
        }
    }

    /// The figure of an estimate with the repeats behind it; `None` if it could not be measured.
    pub(super) fn of(&self, page: &Page, estimate: &Estimate) -> Option<Figure> {
        let interval = match self {
            Self::Throughput => estimate.throughput_per_s,
            Self::Median => microseconds(estimate.measured.all.latency_us.as_ref(), |l| l.p50)?,
            Self::P99 => microseconds(estimate.measured.all.latency_us.as_ref(), |l| l.p99)?,
            Self::ClassThroughput(class) => bare(estimate.measured.classes.get(class)?.throughput_per_s),
            Self::ClassP95(class) => {
                microseconds(estimate.measured.classes.get(class)?.latency_us.as_ref(), |l| l.p95)?
            }
        };
        Figure::new(interval, page.samples(estimate, |result| self.of_run(result)))
    }

    fn of_run(&self, result: &WorkloadResult) -> Option<f64> {
        let part = |class: &String| -> Option<&Part> { result.classes.get(class) };
        let percentile = |us: Option<u64>| us.map(|us| us as f64);
        match self {
            Self::Throughput => Some(result.all.throughput_per_s),
            Self::Median => percentile(result.all.latency_us?.p50),
            Self::P99 => percentile(result.all.latency_us?.p99),
            Self::ClassThroughput(class) => part(class).map(|part| part.throughput_per_s),
            Self::ClassP95(class) => percentile(part(class)?.latency_us?.p95),
        }
    }
}

fn microseconds(latency: Option<&Latency>, percentile: impl Fn(&Latency) -> Option<u64>) -> Option<Interval> {
    latency.and_then(percentile).map(|us| bare(us as f64))
}

pub(super) fn classes(page: &Page, workload: &str) -> Vec<String> {
    let estimates = page.results.estimates.iter().filter(|e| e.workload == workload);
    let mut classes = estimates.flat_map(|e| e.measured.classes.keys().cloned()).collect::<Vec<_>>();
    classes.sort_unstable();
    classes.dedup();
    classes
}
