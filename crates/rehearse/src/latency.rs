//! Latencies of the recording against those of a replay, with intervals over windows of time.
//!
//! Units near in time share what the machine does then, so they are no independent samples. The time of the replay is cut
//! into windows; the interval is that of the figures over draws of windows with repetition (a bootstrap of blocks). The
//! same windows are drawn for both sides, so that a moment with more work counts for both.

use plimsoll_model::statistics::{Finding, Noise, Samples, compare_settings};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Serialize;

/// Into how many windows time is cut.
pub(crate) const WINDOWS: usize = 40;
/// With fewer windows that have units, no interval is given.
const WINDOWS_MIN: usize = 8;
const DRAWS: usize = 200;
/// The sum over all draws of the values looked at, above which draws become fewer.
const WORK_MAX: usize = 100_000_000;
const SEED: u64 = 7;

/// A figure with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Lower end; `None` if too little was seen.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// Figures of a distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The mean, microseconds.
    pub mean_us: Estimate,
    /// The median.
    pub p50_us: Estimate,
    /// The 95th percentile.
    pub p95_us: Estimate,
}

/// Two distributions of the same units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latencies {
    /// Units that both have.
    pub calls: usize,
    /// In the recording.
    pub recorded: Latency,
    /// In this run.
    pub now: Latency,
    /// Now over recorded: of the means,
    pub mean_ratio: Estimate,
    /// of the medians,
    pub p50_ratio: Estimate,
    /// and of the 95th percentiles.
    pub p95_ratio: Estimate,
}

/// A unit in both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair {
    pub window: usize,
    pub recorded_us: f64,
    pub now_us: f64,
}

/// The windows drawn for one resample: how often each counts.
type Weights = [u32; WINDOWS];

/// Compares the latencies of units; `None` without any.
pub(crate) fn compare(pairs: &[Pair]) -> Option<Latencies> {
    if pairs.is_empty() {
        return None;
    }
    let recorded = Sorted::of(pairs, |pair| pair.recorded_us);
    let now = Sorted::of(pairs, |pair| pair.now_us);
    let draws: Vec<[f64; 6]> = draws(pairs).iter().map(|weights| figures(&recorded, &now, weights)).collect();
    let all = figures(&recorded, &now, &[1; WINDOWS]);
    let estimate = |figure: &dyn Fn(&[f64; 6]) -> f64| estimate(figure(&all), draws.iter().map(figure).collect());
    let side = |first: usize| Latency {
        mean_us: estimate(&|it| it[first]),
        p50_us: estimate(&|it| it[first + 1]),
        p95_us: estimate(&|it| it[first + 2]),
    };
    let ratio = |at: usize| estimate(&|it| it[at + 3] / it[at].max(1.0));
    Some(Latencies {
        calls: pairs.len(),
        recorded: side(0),
        now: side(3),
        mean_ratio: ratio(0),
        p50_ratio: ratio(1),
        p95_ratio: ratio(2),
    })
}

/// How often each window is drawn, for every draw.
fn draws(pairs: &[Pair]) -> Vec<Weights> {
    let mut seen: Vec<usize> = pairs.iter().map(|pair| pair.window).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() < WINDOWS_MIN {
        return Vec::new();
    }
    let mut random = Pcg64::seed_from_u64(SEED);
    let count = DRAWS.min(WORK_MAX / pairs.len()).max(50);
    let draw = |_| {
        let mut weights = [0; WINDOWS];
        for _ in 0..seen.len() {
            weights[seen[random.random_range(0..seen.len())]] += 1;
        }
        weights
    };
    (0..count).map(draw).collect()
}

/// Mean, median and 95th percentile of both sides.
fn figures(recorded: &Sorted, now: &Sorted, weights: &Weights) -> [f64; 6] {
    let ([a, b, c], [d, e, f]) = (recorded.figures(weights), now.figures(weights));
    [a, b, c, d, e, f]
}

fn estimate(value: f64, mut drawn: Vec<f64>) -> Estimate {
    drawn.sort_by(f64::total_cmp);
    let at =
        |share: f64| drawn.get(((drawn.len() as f64 * share) as usize).min(drawn.len().saturating_sub(1))).copied();
    Estimate { value, low: at(0.025), high: at(0.975) }
}

/// Values in order, each with its window.
struct Sorted(Vec<(f64, usize)>);

impl Sorted {
    fn of(pairs: &[Pair], value: impl Fn(&Pair) -> f64) -> Self {
        let mut all: Vec<(f64, usize)> = pairs.iter().map(|pair| (value(pair), pair.window.min(WINDOWS - 1))).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        Sorted(all)
    }

    fn figures(&self, weights: &Weights) -> [f64; 3] {
        let weight = |window: usize| u64::from(weights[window]);
        let (count, sum) = self.0.iter().fold((0, 0.0), |(count, sum), (value, window)| {
            (count + weight(*window), sum + value * weight(*window) as f64)
        });
        if count == 0 {
            return [0.0; 3];
        }
        let targets = [0.5, 0.95].map(|share| ((count as f64 * share).ceil() as u64).max(1));
        let (mut passed, mut found, mut next) = (0, [0.0; 2], 0);
        for (value, window) in &self.0 {
            passed += weight(*window);
            while next < targets.len() && passed >= targets[next] {
                found[next] = *value;
                next += 1;
            }
        }
        [sum / count as f64, found[0], found[1]]
    }
}

/// How many times as fast one server is as the other, from its mean latency in each turn: Student's t on the ratios of
/// turns. The finding is a difference only if it exceeds the noise floor, too, because many kinds of units are compared.
pub(crate) fn times_as_fast(ours: &[f64], others: &[f64]) -> Option<(Estimate, Finding)> {
    if ours.is_empty() || others.is_empty() {
        return None;
    }
    let speeds = |means: &[f64]| means.iter().map(|mean| 1.0 / mean.max(1e-3)).collect::<Vec<_>>();
    let samples = Samples::complete(&[speeds(others), speeds(ours)]);
    let found = compare_settings(&samples, 1, 0, Noise::of(&samples).as_ref());
    let ratio = found.ratio?;
    Some((Estimate { value: ratio.value, low: ratio.low, high: ratio.high }, found.finding))
}

/// A value of a sorted list that a share of it does not exceed.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rand_distr_free::normal;

    use super::*;

    /// Sums of uniform draws: close enough to normal for a test, without another dependency.
    mod rand_distr_free {
        use rand::RngExt;

        pub fn normal(random: &mut impl rand::Rng) -> f64 {
            (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
        }
    }

    #[test]
    fn figures_are_those_of_the_values() {
        let pairs: Vec<Pair> = (1..=100)
            .map(|at| Pair { window: at % WINDOWS, recorded_us: at as f64, now_us: 2.0 * at as f64 })
            .collect();
        let found = compare(&pairs).unwrap();
        assert_eq!((found.recorded.p50_us.value, found.recorded.p95_us.value), (50.0, 95.0));
        assert_eq!((found.now.mean_us.value, found.mean_ratio.value), (101.0, 2.0));
        assert_eq!(found.mean_ratio.low.zip(found.mean_ratio.high), Some((2.0, 2.0)), "each unit is twice as slow");
        assert!(compare(&[]).is_none() && compare(&pairs[..5]).unwrap().now.p50_us.low.is_none());
        assert_eq!((quantile(&[1, 2, 3, 4], 0.5), quantile(&[], 0.5), quantile(&[7], 0.95)), (2, 0, 7));
    }

    /// Windows that are slow as a whole: intervals over units would be far too narrow.
    #[test]
    fn intervals_contain_the_truth_where_windows_differ() {
        let mut random = Pcg64::seed_from_u64(1);
        let (trials, mut covered) = (200, 0);
        for _ in 0..trials {
            let mut pairs = Vec::new();
            for window in 0..WINDOWS {
                let slow = (0.2 * normal(&mut random)).exp();
                for _ in 0..30 {
                    let recorded_us = 1_000.0 * (0.3 * normal(&mut random)).exp();
                    let now_us = 1_300.0 * slow * (0.3 * normal(&mut random)).exp();
                    pairs.push(Pair { window, recorded_us, now_us });
                }
            }
            let ratio = compare(&pairs).unwrap().mean_ratio;
            // The mean of the window's factor is exp(0.2² / 2).
            let truth = 1.3 * (0.02_f64).exp();
            covered += usize::from(ratio.low.unwrap() <= truth && truth <= ratio.high.unwrap());
        }
        let share = covered as f64 / trials as f64;
        assert!(share >= 0.90, "intervals of 95 % cover {share}");
    }

    #[test]
    fn a_server_is_as_many_times_faster_as_its_turns_say() {
        let (found, finding) = times_as_fast(&[100.0, 101.0, 99.0], &[120.0, 122.0, 119.0]).unwrap();
        assert_eq!(finding, Finding::Faster);
        assert!(
            (found.value - 1.204).abs() < 0.01 && found.low.unwrap() > 1.15 && found.high.unwrap() < 1.25,
            "{found:?}"
        );
        let (_, noisy) = times_as_fast(&[100.0, 130.0, 90.0], &[105.0, 95.0, 125.0]).unwrap();
        assert_eq!(noisy, Finding::NoDifference);
        assert_eq!(times_as_fast(&[100.0], &[120.0]).unwrap().0.low, None, "one turn has no spread");
        assert_eq!(times_as_fast(&[], &[]), None);
    }
}
