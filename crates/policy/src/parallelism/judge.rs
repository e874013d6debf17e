//! Whether one way to run a query is faster than another, from a few noisy times.
//!
//! Times are compared by their logarithms, because disturbances stretch a query by a factor. All ways to run a template
//! share one estimate of the noise, because most are run only once or twice.

use std::time::Duration;

/// Times kept of one way to run a query; older ones are less relevant.
const TIMES_MAX: usize = 8;

/// The standard deviation of a time's logarithm that is assumed before any was repeated, and how many repeats that is worth.
const NOISE: (f64, f64) = (0.08, 4.0);

/// Standard errors by which a time must be lower to count as lower. Dozens of ways are compared with the best, so that 2 would
/// let one in forty through by chance.
const CERTAIN: f64 = 2.5;

/// A way that looks slower by this many standard errors is not run again.
const HOPELESS: f64 = 1.0;

/// A smaller gain does not count as one.
const GAIN_MIN: f64 = 0.02;

/// After this many runs of both, an undecided comparison counts as no better.
const RUNS_MAX: usize = 5;

/// The times of one way to run a query.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// Logarithms of seconds, the newest last.
    logs: Vec<f64>,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The first is faster, beyond noise.
    Better,
    /// It is not.
    NotBetter,
    /// Run the first once more.
    RunFirst,
    /// Run the second once more.
    RunSecond,
}

impl Times {
    pub(super) fn add(&mut self, time: Duration) {
        if self.logs.len() == TIMES_MAX {
            self.logs.remove(0);
        }
        // A clock that stood still must not give minus infinity.
        self.logs.push(time.as_secs_f64().max(1e-9).ln());
    }

    pub(super) fn count(&self) -> usize {
        self.logs.len()
    }

    /// The mean logarithm; 0 without a time.
    pub(super) fn mean(&self) -> f64 {
        mean(&self.logs)
    }

    /// The typical time: the geometric mean.
    pub(super) fn typical(&self) -> Option<Duration> {
        (!self.logs.is_empty()).then(|| Duration::from_secs_f64(self.mean().exp()))
    }
}

pub(super) fn mean(logs: &[f64]) -> f64 {
    if logs.is_empty() { 0.0 } else { logs.iter().sum::<f64>() / logs.len() as f64 }
}

/// The standard deviation of a single time's logarithm, over all ways to run the query.
pub(super) fn noise<'a>(all: impl Iterator<Item = &'a Times>) -> f64 {
    let (mut squares, mut freedom) = (NOISE.0 * NOISE.0 * NOISE.1, NOISE.1);
    for times in all {
        let centre = times.mean();
        squares += times.logs.iter().map(|log| (log - centre).powi(2)).sum::<f64>();
        freedom += times.count().saturating_sub(1) as f64;
    }
    (squares / freedom).sqrt()
}

/// Whether the first is faster than the second. Both were run at least once.
pub(super) fn judge(first: &Times, second: &Times, noise: f64) -> Judgement {
    let gain = second.mean() - first.mean();
    let error = noise * (1.0 / first.count() as f64 + 1.0 / second.count() as f64).sqrt();
    if gain > CERTAIN * error && gain > GAIN_MIN {
        Judgement::Better
    } else if gain < -HOPELESS * error || first.count().min(second.count()) >= RUNS_MAX {
        Judgement::NotBetter
    } else if second.count() < first.count() {
        Judgement::RunSecond
    } else {
        Judgement::RunFirst
    }
}

/// Whether the mean of recent times differs from the reference, in either direction, by more than noise and by more
/// than a tenth, because times drift by that much without a reason.
pub(super) fn has_moved(recent: &[f64], reference: &Times, noise: f64) -> bool {
    let error = noise * (1.0 / recent.len() as f64 + 1.0 / reference.count().max(1) as f64).sqrt();
    (mean(recent) - reference.mean()).abs() > 3.0 * error + 0.1
}
