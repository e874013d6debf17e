//! How long clients run before the window opens: for a given time, or until their throughput is steady. Steadiness is
//! judged in both cases, after a given time when it ends.
//!
//! # When throughput is steady
//!
//! While clients warm up, the completed requests of each workload are counted in steps of at least half a second. After
//! each step every workload is judged by its last four intervals. They are of equal length, the shortest for which
//!
//! - together they span at least the last half of the warm-up, and
//! - 100 requests have completed in each on average, so that counting noise is 10 % at most.
//!
//! With `m` completed requests in an interval on average, the workload is steady if both hold:
//!
//! - **no trend**: the completed requests of the first two intervals and of the last two differ by at most 5 % of `2m`,
//!   plus `sqrt(4m)`;
//! - **small spread**: the highest and the lowest of the four differ by at most 15 % of `m`, plus `4 sqrt(m)`.
//!
//! The window opens when all workloads are steady at once. The square roots are counting noise: a Poisson count of mean
//! `m` has the standard deviation `sqrt(m)`, and the difference of two halves that hold `4m` together has `sqrt(4m)`.
//! Of the latter only one is allowed for: noise alone exceeds it in a third of cases, but then the next look is half a
//! second later, whereas a trend taken for noise spoils the window. The range of four intervals exceeds 3.6 deviations
//! in 5 % and 4.4 in 1 % of cases (studentized range). The shares are what machines scatter beyond counting noise.
//!
//! Judging the last half, not the last seconds, makes the rule independent of how slow the approach is: over a fixed
//! span a cache that fills for minutes looks as steady as one that is full. A throughput that approaches its end value
//! exponentially passes within 3 % of that value, if it is at least 1000 per second. The rule cannot foresee changes: a
//! throughput that is even for some seconds and changes later passes too early.

use std::fmt;
use std::time::Duration;

use super::clock::Nanos;

/// The least length of a step.
const STEP: Duration = Duration::from_millis(500);

/// Into how many intervals the span that is judged is divided.
const INTERVALS: usize = 4;

/// Least mean number of completed requests in an interval.
const COMPLETED_MIN: f64 = 100.0;

/// How much the halves of the span may differ, relative to their mean, beyond counting noise.
const TREND: f64 = 0.05;

/// How much the intervals of the span may range, relative to their mean, beyond counting noise.
const SPREAD: f64 = 0.15;

/// How long clients run before the window opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// This time. Opening the observer's sensors takes additional time.
    For(Duration),
    /// Until the throughput of every workload is steady, but not longer than `at_most`; the window then opens anyway,
    /// and [`DriveMeasurement::warnings`](super::DriveMeasurement::warnings) names the workload that was not steady.
    ///
    /// Throughput is steady if, over the last half of the warm-up, at least two seconds and at least 400 completed
    /// requests, it neither rises nor falls by more than 5 % nor scatters by more than 15 %, apart from counting noise.
    UntilSteady {
        /// The bound. Below two seconds nothing can be judged.
        at_most: Duration,
    },
}

impl WarmUp {
    /// How long it can take, opening the observer's sensors apart.
    pub fn at_most(self) -> Duration {
        match self {
            WarmUp::For(length) | WarmUp::UntilSteady { at_most: length } => length,
        }
    }
}

/// The result of the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WarmUpMeasurement {
    /// For how long clients had worked when the window opened.
    pub lasted: Duration,
    /// Whether the throughput of every workload had become steady; `None` if the warm-up was too short, or too few
    /// requests completed, to judge.
    pub is_steady: Option<bool>,
}

/// How many requests each workload has completed by some moment.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// The moment.
    pub at: Nanos,
    /// By workload, since the beginning. Counts.
    pub completed: Vec<u64>,
}

/// Whether every workload is steady; `None` if that cannot be judged for some workload, and no other is known to be
/// unsteady.
pub(super) fn are_steady(verdicts: &[Verdict]) -> Option<bool> {
    let is_steady = |verdict: &Verdict| match verdict {
        Verdict::Steady => Some(true),
        Verdict::TooShort | Verdict::TooFew(_) => None,
        Verdict::Trend(_) | Verdict::Spread(_) => Some(false),
    };
    let all: Vec<Option<bool>> = verdicts.iter().map(is_steady).collect();
    if all.contains(&Some(false)) { Some(false) } else { all.into_iter().all(|one| one == Some(true)).then_some(true) }
}

/// Warms up from `begin`, until every workload is steady if `warm_up` asks for that. Returns one verdict for each
/// workload, from the last reading.
///
/// `look` waits until a moment and returns a reading, or `None` if the run is over.
pub(super) fn watch_warm_up(
    begin: Nanos,
    warm_up: WarmUp,
    workloads: usize,
    mut look: impl FnMut(Nanos) -> Option<Reading>,
) -> Option<Vec<Verdict>> {
    let at_most = warm_up.at_most();
    let ends_early = matches!(warm_up, WarmUp::UntilSteady { .. });
    let mut steps = vec![Vec::new(); workloads];
    let mut before = Reading { at: begin, completed: vec![0; workloads] };
    // Equal lengths, so that the last step ends with the warm-up and none is too short.
    let count = (at_most.as_nanos() / STEP.as_nanos()).max(1) as Nanos;
    let length = (at_most.as_nanos() as Nanos / count).max(1);
    let end = begin + at_most.as_nanos() as Nanos;
    loop {
        // A late reading may have passed the ends of several steps, which then count as one.
        let number = (before.at - begin) / length + 1;
        let reading = look(if number < count { begin + number * length } else { end })?;
        for (workload, steps) in steps.iter_mut().enumerate() {
            let completed = reading.completed[workload] - before.completed[workload];
            steps.push(WarmUpStep { completed: completed as f64, length: (reading.at - before.at) as f64 });
        }
        let verdicts: Vec<Verdict> = steps.iter().map(|steps| judge(steps)).collect();
        let are_all_steady = || verdicts.iter().all(|verdict| *verdict == Verdict::Steady);
        if reading.at >= end || (ends_early && are_all_steady()) {
            return Some(verdicts);
        }
        before = reading;
    }
}

/// The work of one workload in one step of the warm-up.
#[derive(Debug, Clone, Copy)]
struct WarmUpStep {
    /// Requests completed. A count.
    completed: f64,
    /// Its length, in any unit.
    length: f64,
}

/// Whether a workload's throughput is steady, and if not, why. Prints as the end of a sentence about throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// It is.
    Steady,
    /// The warm-up has had fewer steps than there are intervals.
    TooShort,
    /// Too few requests have completed to judge.
    TooFew(f64),
    /// The increase from the first two intervals to the last two, relative to the mean.
    Trend(f64),
    /// Difference between the highest and the lowest of an interval, relative to the mean.
    Spread(f64),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Steady => write!(f, "was steady"),
            Verdict::TooShort => write!(f, "cannot be judged in less than {:?}", STEP * INTERVALS as u32),
            Verdict::TooFew(completed) => write!(
                f,
                "cannot be judged by {completed} completed requests, {} are needed",
                COMPLETED_MIN * INTERVALS as f64
            ),
            Verdict::Trend(change) => {
                let direction = if *change < 0.0 { "fell" } else { "rose" };
                write!(f, "{direction} by {:.0} % of its mean", change.abs() * 100.0)
            }
            Verdict::Spread(range) => write!(f, "scattered by {:.0} % of its mean", range * 100.0),
        }
    }
}

/// Judges one workload by its steps so far. See the module.
fn judge(steps: &[WarmUpStep]) -> Verdict {
    if steps.len() < INTERVALS {
        return Verdict::TooShort;
    }
    let shortest = steps.len().div_ceil(2 * INTERVALS);
    let intervals = (shortest..=steps.len() / INTERVALS)
        .map(|length| intervals(&steps[steps.len() - length * INTERVALS..], length))
        .find(|intervals| mean(intervals) >= COMPLETED_MIN);
    let Some(intervals) = intervals else {
        return Verdict::TooFew(steps.iter().map(|step| step.completed).sum());
    };
    let mean = mean(&intervals);
    let [a, b, c, d] = intervals;
    let trend = (c + d) - (a + b);
    if trend.abs() > TREND * 2.0 * mean + (4.0 * mean).sqrt() {
        return Verdict::Trend(trend / (2.0 * mean));
    }
    let spread = intervals.into_iter().fold(f64::MIN, f64::max) - intervals.into_iter().fold(f64::MAX, f64::min);
    if spread > SPREAD * mean + 4.0 * mean.sqrt() {
        return Verdict::Spread(spread / mean);
    }
    Verdict::Steady
}

/// Completed requests in each interval of `length` steps, scaled to the mean length of the intervals.
fn intervals(steps: &[WarmUpStep], length: usize) -> [f64; INTERVALS] {
    let mean_length = steps.iter().map(|step| step.length).sum::<f64>() / INTERVALS as f64;
    std::array::from_fn(|number| {
        let steps = &steps[number * length..(number + 1) * length];
        let completed: f64 = steps.iter().map(|step| step.completed).sum();
        completed * mean_length / steps.iter().map(|step| step.length).sum::<f64>()
    })
}

fn mean(intervals: &[f64; INTERVALS]) -> f64 {
    intervals.iter().sum::<f64>() / INTERVALS as f64
}

#[cfg(test)]
mod tests;
