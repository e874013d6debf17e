//! One workload alone against together: the noise floor, interference, and whether a difference is to be believed.

use super::{Arm, Percentile, Spread, Workload};
use crate::results::Latency;

/// The difference that a single repeat may show by chance. One repeat says nothing about its own noise; runs of a
/// minute on a quiet machine commonly differ by a few percent, so this errs on the side of seeing nothing.
pub(super) const UNREPEATED_NOISE: f64 = 0.1;

/// How much a high percentile must grow to be worth a sentence where throughput did not change.
const LATENCY_GROWTH: f64 = 1.5;

/// Throughput together divided by throughput alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Ratio of the means over repeats.
    pub ratio: f64,
    /// The smallest ratio any pair of repeats gives.
    pub low: f64,
    /// The largest ratio any pair of repeats gives.
    pub high: f64,
}

/// Half the spread between repeats relative to their mean, of the arm where that is larger.
pub(super) fn noise_floor(alone: &Arm, together: &Arm) -> Option<f64> {
    let of_arm = |throughputs: &[f64]| {
        let spread = Spread::of(throughputs).filter(|spread| throughputs.len() >= 2 && spread.mean > 0.0)?;
        Some((spread.high - spread.low) / 2.0 / spread.mean)
    };
    comparable(alone, together).iter().filter_map(|arm| of_arm(arm)).reduce(f64::max)
}

/// Ratio of the means; the smallest and largest ratio over every pair of a repeat together and a repeat alone. A repeat
/// alone that completed nothing gives no ratio and is in no pair.
pub(super) fn interference(alone: &Arm, together: &Arm) -> Option<Ratio> {
    let [alone, together] = comparable(alone, together);
    let mean_alone = Spread::of(&alone)?.mean;
    let shared = Spread::of(&together)?;
    if mean_alone <= 0.0 {
        return None;
    }
    let running = alone.into_iter().filter(|&throughput| throughput > 0.0);
    let (least, most) = running.fold((f64::MAX, 0.0f64), |(least, most), t| (least.min(t), most.max(t)));
    Some(Ratio { ratio: shared.mean / mean_alone, low: shared.low / most, high: shared.high / least })
}

fn comparable(alone: &Arm, together: &Arm) -> [Vec<f64>; 2] {
    let [alone, together] = [alone, together].map(|arm| arm.runs.iter().map(|run| run.result).collect::<Vec<_>>());
    super::equal_mix::comparable(&alone, &together)
}

/// What the comparison of throughputs shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// There is no valid run in the arm named.
    NotMeasured(&'static str),
    /// Nothing completed alone, so there is nothing to compare with.
    IdleAlone,
    /// Nothing completed together.
    Stopped,
    /// A difference, if there is one, cannot be told from chance.
    NoDifference(Blur),
    /// Less throughput together.
    Slower,
    /// More throughput together.
    Faster,
}

/// Why a difference cannot be told from chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Blur {
    /// It is within the noise floor.
    NoiseFloor(f64),
    /// Some repeat together was as fast as one alone.
    RangesOverlap,
    /// One request more or less in the window makes that much; so few completed.
    FewRequests(u64),
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
    if interference.high <= 0.0 {
        return Verdict::Stopped;
    }
    let difference = (1.0 - interference.ratio).abs();
    let completed_min = workload.alone.completed_min().min(workload.together.completed_min()).unwrap_or(0);
    match workload.noise_floor {
        Some(floor) if difference <= floor => return Verdict::NoDifference(Blur::NoiseFloor(floor)),
        Some(_) if (interference.low..=interference.high).contains(&1.0) => {
            return Verdict::NoDifference(Blur::RangesOverlap);
        }
        None if difference <= UNREPEATED_NOISE => return Verdict::NoDifference(Blur::OneRepeat),
        _ => {}
    }
    if difference * completed_min.max(1) as f64 <= 1.0 {
        return Verdict::NoDifference(Blur::FewRequests(completed_min));
    }
    if interference.ratio < 1.0 { Verdict::Slower } else { Verdict::Faster }
}

/// A percentile by its name.
type Named = (&'static str, fn(&Latency) -> Option<u64>);

/// The highest percentile that both arms can tell.
#[derive(Debug, Clone, Copy)]
pub struct Tail {
    /// `p99`, `p95` or `p50`.
    pub name: &'static str,
    /// Alone.
    pub alone: Percentile,
    /// Together.
    pub together: Percentile,
}

impl Tail {
    /// `None` where nothing can be compared. The 99.9th is left out: it moves too much between repeats.
    pub fn of(workload: &Workload) -> Option<Self> {
        let named: [Named; 3] = [("p99", |l| l.p99), ("p95", |l| l.p95), ("p50", |l| l.p50)];
        named.into_iter().find_map(|(name, which)| {
            let alone = workload.alone.percentile(|result| result.latency_us, which)?;
            let together = workload.together.percentile(|result| result.latency_us, which)?;
            Some(Self { name, alone, together })
        })
    }

    /// Together over alone.
    pub fn growth(&self) -> f64 {
        self.together.value as f64 / self.alone.value.max(1) as f64
    }

    /// Whether every repeat together is worse than every repeat alone, and by enough to matter.
    pub fn grew(&self) -> bool {
        self.together.low > self.alone.high && self.growth() >= LATENCY_GROWTH
    }
}
