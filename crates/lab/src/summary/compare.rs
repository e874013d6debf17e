//! One workload alone against together: whether a difference is significant.

use super::{Percentile, Workload};
use crate::results::Finding;

/// The difference that a single repeat may show by chance. One repeat shows nothing of its own noise; runs of a minute
/// on a quiet machine commonly differ by a few percent, so this errs on the side of seeing no difference.
pub(super) const UNREPEATED_NOISE: f64 = 0.1;

/// Requests that each window must hold before a study draws conclusions: with fewer, a single request is more than
/// noise.
pub(crate) const REQUESTS_MIN: u64 = 20;

/// A difference that a reader would act on. To call it "no difference" because noise is larger still would mislead.
const MATTERS: f64 = 0.15;

/// The growth of a high percentile that deserves a sentence although throughput did not change.
const LATENCY_GROWTH: f64 = 1.5;

/// The result of comparing throughputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// The arm named has no valid run.
    NotMeasured(&'static str),
    /// Nothing completed alone, so there is nothing to compare with.
    IdleAlone,
    /// Nothing completed together.
    Stopped,
    /// Some window holds fewer than [`REQUESTS_MIN`] requests, too few for a verdict.
    TooFew(u64),
    /// A difference, if there is one, cannot be distinguished from chance.
    NoDifference(Blur),
    /// The figures differ by enough to matter, but the difference could be noise.
    Unclear,
    Slower,
    Faster,
}

/// Why a difference cannot be distinguished from chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Blur {
    /// It is within the noise floor, or its 95 % interval contains no difference.
    Noise,
    /// There was one repeat, and the difference is less than [`UNREPEATED_NOISE`].
    OneRepeat,
}

/// Whether throughput together differs from throughput alone.
pub(super) fn verdict(workload: &Workload) -> Verdict {
    if workload.alone.runs.is_empty() {
        return Verdict::NotMeasured("alone");
    }
    if workload.together.runs.is_empty() {
        return Verdict::NotMeasured("together");
    }
    let Some(interference) = workload.interference else { return Verdict::IdleAlone };
    let (alone_min, together_min) = (workload.alone.completed_min(), workload.together.completed_min());
    let completed_min = alone_min.min(together_min).unwrap_or(0);
    // A workload that completes this many alone and none together has stopped; no further counting is needed.
    if interference.value <= 0.0 && alone_min >= Some(REQUESTS_MIN) {
        return Verdict::Stopped;
    }
    if completed_min < REQUESTS_MIN {
        return Verdict::TooFew(completed_min);
    }
    // Relative to the larger of the two, as the noise floor is.
    let difference = 1.0 - interference.value.min(1.0 / interference.value);
    let may_be_noise = |blur| if difference > MATTERS { Verdict::Unclear } else { Verdict::NoDifference(blur) };
    let contains_one = interference.low.zip(interference.high).is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high);
    match (workload.shown, workload.noise_floor) {
        (Some(Finding::Slower), _) => Verdict::Slower,
        (Some(Finding::Faster), _) => Verdict::Faster,
        (Some(Finding::NoDifference), Some(floor)) if difference <= floor => may_be_noise(Blur::Noise),
        (Some(Finding::NoDifference), _) => may_be_noise(if contains_one { Blur::Noise } else { Blur::OneRepeat }),
        // One repeat shows no noise; a difference far beyond the usual one between runs is reported anyway.
        _ if difference <= UNREPEATED_NOISE => Verdict::NoDifference(Blur::OneRepeat),
        _ if interference.value < 1.0 => Verdict::Slower,
        _ => Verdict::Faster,
    }
}

/// The highest percentile that both arms can determine.
#[derive(Debug, Clone, Copy)]
pub struct Tail {
    /// `p99`, `p95` or `p50`.
    pub name: &'static str,
    pub alone: Percentile,
    pub together: Percentile,
}

impl Tail {
    /// `None` if nothing can be compared. The 99.9th is left out: it moves too much between repeats.
    pub fn of(workload: &Workload) -> Option<Self> {
        ["p99", "p95", "p50"].into_iter().find_map(|name| {
            let key = format!("latency_us.{name}");
            let (alone, together) = (workload.alone.percentile(&key)?, workload.together.percentile(&key)?);
            Some(Self { name, alone, together })
        })
    }

    /// Together over alone.
    pub fn growth(&self) -> f64 {
        self.together.value / self.alone.value.max(1.0)
    }

    /// Whether every repeat together is worse than every repeat alone, and by enough to matter.
    pub fn grew(&self) -> bool {
        self.together.low > self.alone.high && self.growth() >= LATENCY_GROWTH
    }
}
