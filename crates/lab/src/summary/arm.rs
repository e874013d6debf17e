//! The repeats of one workload in one arm, merged.

use crate::results::{Counters, Latency, Point, TimeShare, WorkloadResult};

/// The repeats of one workload in one arm.
#[derive(Debug, Clone, Default)]
pub struct Arm<'a> {
    /// The valid runs, in the order they ran.
    pub runs: Vec<Run<'a>>,
    /// How many runs were invalid and count for nothing.
    pub left_out: usize,
}

/// One run of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The point it is part of.
    pub point: &'a Point,
    /// What the workload did.
    pub result: &'a WorkloadResult,
}

/// A mean and how far the repeats lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Mean over repeats.
    pub mean: f64,
    /// The smallest repeat.
    pub low: f64,
    /// The largest repeat.
    pub high: f64,
}

/// A percentile of latency over repeats, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentile {
    /// Of the repeat with the median throughput.
    pub value: u64,
    /// The smallest of the repeats.
    pub low: u64,
    /// The largest of the repeats.
    pub high: u64,
}

/// Hardware counters as rates, over all repeats. `None` where an event was not counted in every repeat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Instructions per core cycle.
    pub ipc: Option<f64>,
    /// First-level data cache load misses per 1000 instructions.
    pub l1d_misses: Option<f64>,
    /// Last-level cache misses per 1000 instructions.
    pub llc_misses: Option<f64>,
    /// Mispredicted branches per 1000 instructions.
    pub branch_misses: Option<f64>,
    /// Instructions, user mode, per completed request.
    pub instructions_per_request: Option<f64>,
    /// The least share of the window in which a repeat was counted.
    pub coverage: f64,
}

impl<'a> Arm<'a> {
    /// Adds a run, or counts it as left out if its point is invalid.
    pub(super) fn add(&mut self, point: &'a Point, result: &'a WorkloadResult) {
        if point.valid && result.all.throughput_per_s.is_finite() {
            self.runs.push(Run { point, result });
        } else {
            self.left_out += 1;
        }
    }

    /// Completed requests per second. `None` without a valid run.
    pub fn throughput(&self) -> Option<Spread> {
        Spread::of(&self.throughputs())
    }

    /// Completed requests per second of each repeat.
    pub fn throughputs(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.result.all.throughput_per_s).collect()
    }

    /// The fewest requests that a repeat completed.
    pub fn completed_min(&self) -> Option<u64> {
        self.runs.iter().map(|run| run.result.all.completed).min()
    }

    /// The repeat with the median throughput; of an even number, the lower of the middle two.
    pub fn representative(&self) -> Option<&'a WorkloadResult> {
        let mut runs = self.runs.iter().map(|run| run.result).collect::<Vec<_>>();
        runs.sort_by(|a, b| a.all.throughput_per_s.total_cmp(&b.all.throughput_per_s));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }

    /// A percentile of what `part` picks: the whole workload, a class, a kind of transaction. `None` where the
    /// representative repeat has none.
    pub fn percentile(
        &self,
        part: impl Fn(&WorkloadResult) -> Option<Latency>,
        which: impl Fn(&Latency) -> Option<u64>,
    ) -> Option<Percentile> {
        let of = |result| part(result).and_then(|latency| which(&latency));
        let value = of(self.representative()?)?;
        let all = self.runs.iter().filter_map(|run| of(run.result));
        let (low, high) = all.fold((value, value), |(low, high), v| (low.min(v), high.max(v)));
        Some(Percentile { value, low, high })
    }

    /// Mean response time over every request of every repeat, microseconds. Means, unlike percentiles, do merge.
    pub fn mean_latency_us(&self) -> Option<f64> {
        let parts =
            self.runs.iter().filter_map(|run| Some((run.result.all.latency_us?.mean, run.result.all.completed as f64)));
        let (sum, count) = parts.fold((0.0, 0.0), |(sum, count), (mean, n)| (sum + mean * n, count + n));
        (count > 0.0).then(|| sum / count)
    }

    /// Mean over repeats of each part of response time. A part that a repeat could not measure is within `other`, so
    /// that the parts still add up to 1.
    pub fn time_share(&self) -> Option<TimeShare> {
        let shares = self.runs.iter().filter_map(|run| Some((run.result.all.time_share?, 1.0))).collect::<Vec<_>>();
        TimeShare::mean(&shares)
    }

    /// Hardware counters of the workload's own threads. `None` where no repeat has any.
    pub fn rates(&self) -> Option<Rates> {
        let counters = self.runs.iter().filter_map(|run| run.result.counters).collect::<Vec<_>>();
        let completed = self.runs.iter().filter(|r| r.result.counters.is_some()).map(|r| r.result.all.completed).sum();
        Rates::of(&counters, completed)
    }
}

impl Spread {
    /// `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some(Self { mean: values.iter().sum::<f64>() / values.len() as f64, low, high })
    }
}

impl Rates {
    /// Adds up the counts of repeats before it divides, so that a longer repeat weighs more. `None` of nothing.
    pub fn of(counters: &[Counters], completed: u64) -> Option<Self> {
        let coverage = counters.iter().map(|c| c.coverage).reduce(f64::min)?;
        let sum = |event: fn(&Counters) -> Option<u64>| counters.iter().map(event).sum::<Option<u64>>();
        let over = |part: Option<u64>, whole: Option<u64>| match (part, whole) {
            (Some(part), Some(whole)) if whole > 0 => Some(part as f64 / whole as f64),
            _ => None,
        };
        let instructions = sum(|c| c.instructions);
        let per_thousand = |misses| over(misses, instructions).map(|ratio| ratio * 1000.0);
        Some(Self {
            ipc: over(instructions, sum(|c| c.cycles)),
            l1d_misses: per_thousand(sum(|c| c.l1d_misses)),
            llc_misses: per_thousand(sum(|c| c.llc_misses)),
            branch_misses: per_thousand(sum(|c| c.branch_misses)),
            instructions_per_request: over(instructions, Some(completed)),
            coverage,
        })
    }
}
