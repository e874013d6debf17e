//! Knees: the smallest allocation of a resource that is sufficient for a share of full performance (SR table 4).
//!
//! [`knee`] answers for a measured curve, [`search::KneeSearch`] chooses which allocations to measure so that the answer costs few
//! runs. [`bracket`] always answers, with two amounts between which the knee lies. `isotonic` is the monotone fit that both use, `resample` draws curves that could have been measured as well.
//!
//! # Definition
//! Performance must grow with the allocation, so the means are fitted by the nearest curve that never falls. An allocation is
//! *sufficient* for a share q if the lower confidence bound (one-sided, 95 %) of its fitted mean reaches q times the mean of
//! the full (largest) allocation. The claim is careful: at noise that is not small beside the steps of the curve the
//! allocation named is larger than the true knee. Its interval, in which the full allocation's mean has noise too,
//! shows where the true knee is.
//!
//! Three kinds of curve are special. On a *flat* curve the smallest allocation suffices. For a curve that *falls* as
//! the allocation grows, by more than noise and by more than 1 - q, no knee is claimed, because the largest allocation
//! is not a valid reference; the reason states the peak. If *noise* is so large that q cannot be told from 1, no knee
//! is claimed either.

use thiserror::Error;

use crate::statistics::{Deviation, Noise, Samples};

pub mod bracket;
mod isotonic;
mod resample;
pub mod search;
#[cfg(test)]
mod tests;

use resample::Resampled;

/// The shares of full performance that studies ask for (SR table 4).
pub const SHARES: [f64; 2] = [0.90, 0.95];

/// The confidence of the bound that must reach the share.
const BOUND_CONFIDENCE: f64 = 0.95;
/// The confidence of the allocation's interval.
const INTERVAL_CONFIDENCE: f64 = 0.95;

/// Smallest sufficient allocations of one curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Knee {
    /// One per requested share, in that order.
    pub levels: Vec<Level>,
    /// The monotone fit: `(allocation, mean)`, ascending.
    pub fit: Vec<(f64, f64)>,
}

/// The sufficient allocation for one share of full performance.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// The share, 0 to 1.
    pub share: f64,
    /// The smallest measured allocation whose lower confidence bound reaches the share; `None` if not determined.
    pub allocation: Option<f64>,
    /// Lower end of the 95 % interval of the smallest measured allocation that truly reaches the share.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Why it is not determined.
    pub why_not: Option<WhyNot>,
}

/// Why no sufficient allocation is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum WhyNot {
    /// There are too few allocations for a curve.
    #[error("{0} allocation was measured; a knee needs at least two")]
    FewAllocations(usize),
    /// No spread is known.
    #[error("no allocation ran twice, so noise is not known; set repeats to 2 or more")]
    NoRepeats,
    /// There is no performance to take a share of.
    #[error("nothing completed at the full allocation, {0}")]
    NothingCompleted(f64),
    /// Noise hides the difference between the share and the whole.
    #[error("a difference of {:.0} % is inside the noise, {:.1} %; {}", difference * 100.0, noise * 100.0, repeats_told(*repeats, *suffices))]
    InsideNoise {
        /// 1 minus the share.
        difference: f64,
        /// The least relative difference from the full allocation that is not noise.
        noise: f64,
        /// The repeats of each allocation.
        repeats: usize,
        /// The repeats that are expected to suffice; `None` if no reasonable number does.
        suffices: Option<usize>,
    },
    /// More of the resource is worse.
    #[error("performance falls by {:.1} % from {from} to {to}, beyond noise: the full allocation is not the best", drop * 100.0)]
    Falls {
        /// The allocation with the peak.
        from: f64,
        /// The larger allocation with the lowest mean beyond the peak.
        to: f64,
        /// How much lower it is, relative to the peak.
        drop: f64,
    },
}

/// More repeats than these are not worth waiting for.
const REPEATS_MAX: usize = 200;

/// How much longer to measure.
fn repeats_told(repeats: usize, suffices: Option<usize>) -> String {
    match suffices {
        Some(enough) => format!(
            "about {enough} repeats instead of {repeats}, which take {:.1} times as long, would show it",
            enough as f64 / repeats.max(1) as f64
        ),
        None => {
            format!("{REPEATS_MAX} repeats would not show it; measure on a quieter machine, or with longer windows")
        }
    }
}

/// The smallest sufficient allocations of a curve.
///
/// Row `i` of `samples` has the runs at `allocations[i]`, in any order of allocations; allocations without runs are
/// left out. The noise is [`Noise::of`] all settings of the workload, among which the curve may be. Where all
/// allocations ran in the same blocks, drift of the machine cancels. `seed` is for resampling: equal arguments give
/// equal answers.
///
/// # Panics
/// If there are fewer rows than allocations.
pub fn knee(allocations: &[f64], samples: &Samples, noise: Option<&Noise>, shares: &[f64], seed: u64) -> Knee {
    let curve = Curve::of(allocations, samples);
    let fitted = isotonic::fit(&curve.means, &curve.weights());
    let fit = curve.allocations.iter().copied().zip(fitted).collect();
    let why_not = curve.why_not();
    let (resampled, noise) = match (why_not, noise) {
        (None, Some(noise)) => (Resampled::of(&curve, noise, seed), noise),
        _ => {
            let why_not = why_not.unwrap_or(WhyNot::NoRepeats);
            return Knee { levels: shares.iter().map(|share| Level::none(*share, why_not)).collect(), fit };
        }
    };
    let floor = curve.floor(noise);
    let level = |share: f64| {
        let fall = resampled.fall.filter(|fall| fall.drop > 1.0 - share);
        if let Some(Fall { from, to, drop }) = fall {
            let (from, to) = (curve.allocations[from], curve.allocations[to]);
            return Level::none(share, WhyNot::Falls { from, to, drop });
        }
        if floor > 1.0 - share {
            let (repeats, suffices) = (curve.least_repeats(), curve.suffices(noise, 1.0 - share));
            return Level::none(
                share,
                WhyNot::InsideNoise { difference: 1.0 - share, noise: floor, repeats, suffices },
            );
        }
        let full = curve.means.len() - 1;
        let first = |shares: Vec<f64>, least: f64| shares.iter().position(|share| *share >= least).unwrap_or(full);
        let index = first(resampled.reached(share), BOUND_CONFIDENCE);
        let low = first(resampled.sufficient(share), (1.0 - INTERVAL_CONFIDENCE) / 2.0).min(index);
        let high = first(resampled.sufficient(share), f64::midpoint(1.0, INTERVAL_CONFIDENCE)).max(index);
        let at = |index: usize| Some(curve.allocations[index]);
        Level { share, allocation: at(index), low: at(low), high: at(high), why_not: None }
    };
    Knee { levels: shares.iter().map(|share| level(*share)).collect(), fit }
}

impl Level {
    fn none(share: f64, why_not: WhyNot) -> Self {
        Self { share, allocation: None, low: None, high: None, why_not: Some(why_not) }
    }
}

/// The largest drop of a curve, as indices.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fall {
    from: usize,
    to: usize,
    /// Relative to `from`.
    drop: f64,
}

/// The measurements, by ascending allocation.
#[derive(Debug, Clone)]
struct Curve {
    allocations: Vec<f64>,
    means: Vec<f64>,
    repeats: Vec<usize>,
    /// Whether all allocations ran in the same blocks.
    is_paired: bool,
}

impl Curve {
    fn of(allocations: &[f64], samples: &Samples) -> Self {
        assert!(
            samples.settings() >= allocations.len(),
            "{} allocations, {} rows",
            allocations.len(),
            samples.settings()
        );
        let mut order: Vec<usize> = (0..allocations.len()).filter(|row| samples.repeats(*row) > 0).collect();
        order.sort_by(|a, b| allocations[*a].total_cmp(&allocations[*b]));
        let blocks = |row: usize| samples.runs(row).map(|run| run.0).collect::<Vec<_>>();
        Self {
            allocations: order.iter().map(|row| allocations[*row]).collect(),
            means: order.iter().filter_map(|row| samples.mean(*row)).collect(),
            repeats: order.iter().map(|row| samples.repeats(*row)).collect(),
            is_paired: order.windows(2).all(|pair| blocks(pair[0]) == blocks(pair[1])),
        }
    }

    fn weights(&self) -> Vec<f64> {
        self.repeats.iter().map(|repeats| *repeats as f64).collect()
    }

    fn why_not(&self) -> Option<WhyNot> {
        if self.means.len() < 2 {
            return Some(WhyNot::FewAllocations(self.means.len()));
        }
        let full = self.means.len() - 1;
        (self.means[full] <= 0.0).then(|| WhyNot::NothingCompleted(self.allocations[full]))
    }

    /// The noise that matters to comparisons along the curve.
    fn deviation(&self, noise: &Noise) -> Deviation {
        if self.is_paired { noise.within_block } else { noise.run }
    }

    /// How far below the full allocation a mean must lie to be beyond noise: the half width of a one-sided bound,
    /// relative.
    fn floor(&self, noise: &Noise) -> f64 {
        let mut repeats = self.repeats.clone();
        repeats.sort_unstable();
        let full = self.repeats[self.repeats.len() - 1];
        let share = 1.0 / full as f64 + 1.0 / repeats[repeats.len() / 2] as f64;
        bound(self.deviation(noise), share)
    }

    fn least_repeats(&self) -> usize {
        self.repeats.iter().copied().min().unwrap_or(0)
    }

    /// The least number of repeats of each allocation at which a difference is expected to be beyond noise: the deviation stays,
    /// and is known better.
    fn suffices(&self, noise: &Noise, difference: f64) -> Option<usize> {
        let (now, known) = (self.least_repeats(), self.deviation(noise));
        (now + 1..=REPEATS_MAX).find(|repeats| {
            let grown = (*repeats as f64 - 1.0) / (now as f64 - 1.0).max(1.0);
            let degrees_of_freedom = known.degrees_of_freedom * grown.max(1.0);
            bound(Deviation { degrees_of_freedom, ..known }, 2.0 / *repeats as f64) <= difference
        })
    }
}

/// The one-sided bound of a difference whose variance is `share` times that of one run, relative to the larger. A two-sided
/// interval of 90 % leaves 5 % on either side.
fn bound(deviation: Deviation, share: f64) -> f64 {
    let half_width = deviation.half_width(2.0 * BOUND_CONFIDENCE - 1.0, share);
    -(-half_width).exp_m1()
}
