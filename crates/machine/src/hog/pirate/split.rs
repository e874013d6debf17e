//! Distinguishes hits from misses by the time of loads, with an interval of confidence.
//!
//! Two calibrated distributions, of loads known to hit and of loads known to miss, give the threshold that separates them
//! best, and how often it errs in either direction. The share of misses among other loads is then corrected for both
//! errors (the estimator of Rogan and Gladen, 1978, for the prevalence of a disease by an imperfect test).

use std::fmt;
use std::time::Duration;

const BIN_NS: u64 = 2;

/// Loads slower than the last bin, 2 us, were interrupted and are ignored.
const BINS: usize = 1024;

/// A threshold with a lower separation (1 is perfect, 0 is none) is not used.
const SEPARATION_MIN: f64 = 0.5;

/// Fewer loads than this give no estimate.
const COUNT_MIN: u64 = 100;

/// Half the width of a 95 % interval in standard deviations.
const Z: f64 = 1.96;

/// How long loads took.
#[derive(Clone)]
pub struct Timings {
    bins: Box<[u64]>,
    late: u64,
}

impl Default for Timings {
    fn default() -> Timings {
        Timings { bins: vec![0; BINS].into(), late: 0 }
    }
}

impl fmt::Debug for Timings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Timings({} loads, median {:?} ns, {} late)", self.count(), self.median_ns(), self.late)
    }
}

impl Timings {
    /// Adds a load.
    pub fn add(&mut self, took: Duration) {
        match self.bins.get_mut((took.as_nanos() / u128::from(BIN_NS)) as usize) {
            Some(bin) => *bin += 1,
            None => self.late += 1,
        }
    }

    /// Adds all of another and leaves that empty.
    pub fn take(&mut self, other: &mut Timings) {
        for (bin, more) in self.bins.iter_mut().zip(&mut other.bins) {
            *bin += std::mem::take(more);
        }
        self.late += std::mem::take(&mut other.late);
    }

    /// Loads that were not interrupted.
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Loads that took so long that they must have been interrupted.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Half of the loads took no longer than this, nanoseconds; `None` if there are none.
    pub(crate) fn median_ns(&self) -> Option<f64> {
        let half = self.count().div_ceil(2);
        let mut seen = 0;
        let at = self.bins.iter().position(|bin| {
            seen += bin;
            seen >= half && half > 0
        })?;
        Some((at as u64 * BIN_NS) as f64 + BIN_NS as f64 / 2.0)
    }

    fn at_or_above(&self, bin: usize) -> u64 {
        self.bins[bin..].iter().sum()
    }
}

/// How hits and misses are distinguished on a core.
#[derive(Debug, Clone)]
pub struct Split {
    /// The first bin that counts as a miss.
    bin: usize,
    hits: Timings,
    misses: Timings,
}

/// The share of loads that missed, 0 to 1, with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MissShare {
    /// The estimate.
    pub share: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

impl Split {
    /// Calibrates with loads known to hit and loads known to miss.
    pub fn between(hits: &Timings, misses: &Timings) -> Split {
        let separation =
            |bin: usize| share(misses.at_or_above(bin), misses.count()) - share(hits.at_or_above(bin), hits.count());
        let separations: Vec<f64> = (0..BINS).map(separation).collect();
        let best = separations.iter().copied().fold(0.0, f64::max);
        // Between two clear modes many thresholds are equally good; the middle one tolerates the largest shift of
        // either mode.
        let near_best = |value: &f64| *value >= best - 0.005;
        let first = separations.iter().position(near_best).unwrap_or(0);
        let last = first + separations[first..].iter().take_while(|value| near_best(value)).count().saturating_sub(1);
        Split { bin: (first + last) / 2, hits: hits.clone(), misses: misses.clone() }
    }

    /// How well misses are distinguished from hits, from 0 (not at all) to 1 (perfectly).
    pub(crate) fn separation(&self) -> f64 {
        share(self.misses.at_or_above(self.bin), self.misses.count())
            - share(self.hits.at_or_above(self.bin), self.hits.count())
    }

    /// Why timings cannot be used here; `None` if they can.
    pub fn refusal(&self) -> Option<String> {
        let counts = self.hits.count().min(self.misses.count());
        if counts < COUNT_MIN {
            return Some(format!("the split between hits and misses was calibrated with {counts} loads only"));
        }
        (self.separation() < SEPARATION_MIN).then(|| {
            format!(
                "loads that hit the last level cache ({}) cannot be told from loads that miss it ({}) by their time here",
                in_words(&self.hits),
                in_words(&self.misses)
            )
        })
    }

    /// The median of calibrated hits and of calibrated misses, nanoseconds including the cost of the clock.
    pub(crate) fn medians_ns(&self) -> (Option<f64>, Option<f64>) {
        (self.hits.median_ns(), self.misses.median_ns())
    }

    /// The share of misses among these loads; `None` if there are too few of them, or the split is too poor.
    ///
    /// Calibrated hits that look like misses may have been misses (others use the cache during calibration too), and
    /// vice versa. Also, all loads may be slower than they were during calibration. The interval covers both, and
    /// thresholds a third and two thirds of the way from hits to misses.
    pub(crate) fn misses_among(&self, loads: &Timings) -> Option<MissShare> {
        if loads.count() < COUNT_MIN || self.refusal().is_some() {
            return None;
        }
        let best = self.misses_by(self.bin, loads);
        let others = self.other_bins().map(|bin| self.misses_by(bin, loads));
        let low = others.iter().fold(best.low, |low, other| low.min(other.low));
        let high = others.iter().fold(best.high, |high, other| high.max(other.high));
        Some(MissShare { share: best.share, low, high })
    }

    /// Thresholds a third and two thirds of the way from the median hit to the median miss.
    fn other_bins(&self) -> [usize; 2] {
        let (Some(hit), Some(miss)) = self.medians_ns() else { return [self.bin; 2] };
        [1.0, 2.0].map(|thirds| ((hit + (miss - hit) * thirds / 3.0) / BIN_NS as f64) as usize)
    }

    fn misses_by(&self, bin: usize, loads: &Timings) -> MissShare {
        let seen = wilson(loads.at_or_above(bin), loads.count());
        let false_misses = wilson(self.hits.at_or_above(bin), self.hits.count());
        let false_hits = wilson(self.misses.count() - self.misses.at_or_above(bin), self.misses.count());
        let corrected = |seen: f64, false_misses: f64, false_hits: f64| {
            ((seen - false_misses) / (1.0 - false_misses - false_hits).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        };
        MissShare {
            share: corrected(seen.share, false_misses.share, false_hits.share),
            low: corrected(seen.low, false_misses.high, 0.0),
            high: corrected(seen.high, 0.0, false_hits.high),
        }
    }
}

fn in_words(timings: &Timings) -> String {
    timings.median_ns().map_or_else(|| "none".to_owned(), |median| format!("median {median:.0} ns"))
}

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// The share of `part` in `all` with its 95 % interval (Wilson, 1927), which is accurate near 0 and 1 too.
fn wilson(part: u64, all: u64) -> MissShare {
    let (n, p) = (all.max(1) as f64, share(part, all));
    let middle = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    MissShare { share: p, low: (middle - half).max(0.0), high: (middle + half).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_speed::chase::Scatter;

    /// `count` loads around `centre` ns: half of them within `spread` ns, a tail to the right, and one in 500 interrupted.
    fn loads(scatter: &mut Scatter, count: usize, centre: usize, spread: usize) -> Timings {
        let mut timings = Timings::default();
        for _ in 0..count {
            let tail = if scatter.below(10) == 0 { scatter.below(spread * 4) } else { 0 };
            let interrupted = if scatter.below(500) == 0 { 5000 } else { 0 };
            let nanoseconds = centre + scatter.below(spread) + scatter.below(spread) + tail + interrupted;
            timings.add(Duration::from_nanos(nanoseconds as u64));
        }
        timings
    }

    fn mixed(scatter: &mut Scatter, count: usize, share: f64, spread: usize) -> Timings {
        let missed = (count as f64 * share) as usize;
        let mut all = loads(scatter, count - missed, 40, spread);
        all.take(&mut loads(scatter, missed, 130, spread));
        all
    }

    #[test]
    fn two_clear_modes() {
        let mut scatter = Scatter::new(1);
        let split = Split::between(&loads(&mut scatter, 8000, 40, 10), &loads(&mut scatter, 8000, 130, 10));
        assert!(split.separation() > 0.98 && split.refusal().is_none(), "{split:?}");
        assert!((75..135).contains(&(split.bin as u64 * BIN_NS)), "{split:?}");
        for share in [0.0, 0.01, 0.1, 0.5, 0.9, 1.0] {
            let found = split.misses_among(&mixed(&mut scatter, 20_000, share, 10)).unwrap();
            assert!((found.share - share).abs() < 0.01, "{share}: {found:?}");
            assert!(found.low <= share + 1e-9 && share <= found.high + 1e-9, "{share}: {found:?}");
            assert!(found.high - found.low < 0.06, "{share}: {found:?}");
        }
    }

    #[test]
    fn modes_that_overlap_widen_the_interval_and_are_corrected() {
        let mut scatter = Scatter::new(2);
        let split = Split::between(&loads(&mut scatter, 8000, 40, 60), &loads(&mut scatter, 8000, 130, 60));
        assert!((0.5..0.97).contains(&split.separation()), "{split:?}");
        for share in [0.0, 0.2, 0.5, 0.8, 1.0] {
            let found = split.misses_among(&mixed(&mut scatter, 20_000, share, 60)).unwrap();
            assert!((found.share - share).abs() < 0.03, "{share}: {found:?}");
            assert!(found.low <= share && share <= found.high, "{share}: {found:?}");
        }
    }

    /// Others evict some lines that calibration takes for hits: the estimate is then too low, but the interval covers
    /// the truth.
    #[test]
    fn a_calibration_that_others_disturb() {
        let mut scatter = Scatter::new(3);
        let split = Split::between(&mixed(&mut scatter, 8000, 0.1, 10), &loads(&mut scatter, 8000, 130, 10));
        let found = split.misses_among(&mixed(&mut scatter, 20_000, 0.3, 10)).unwrap();
        assert!(found.low < 0.3 && 0.3 < found.high, "{found:?}");
    }

    #[test]
    fn one_mode_is_refused() {
        let mut scatter = Scatter::new(4);
        let split = Split::between(&loads(&mut scatter, 8000, 100, 10), &loads(&mut scatter, 8000, 101, 10));
        assert!(split.refusal().is_some_and(|why| why.contains("cannot be told")), "{split:?}");
        assert_eq!(split.misses_among(&loads(&mut scatter, 8000, 100, 10)), None);
        let empty = Split::between(&Timings::default(), &Timings::default());
        assert!(empty.refusal().is_some_and(|why| why.contains("0 loads")));
    }

    #[test]
    fn few_loads_say_nothing() {
        let mut scatter = Scatter::new(5);
        let split = Split::between(&loads(&mut scatter, 8000, 40, 10), &loads(&mut scatter, 8000, 130, 10));
        assert_eq!(split.misses_among(&loads(&mut scatter, 50, 40, 10)), None);
    }

    #[test]
    fn timings_add_up() {
        let mut timings = Timings::default();
        for nanoseconds in [10, 20, 30, 5000] {
            timings.add(Duration::from_nanos(nanoseconds));
        }
        assert_eq!((timings.count(), timings.late(), timings.median_ns()), (3, 1, Some(21.0)));
        let mut all = Timings::default();
        all.take(&mut timings);
        assert_eq!((all.count(), all.late(), timings.count(), timings.late()), (3, 1, 0, 0));
        assert_eq!(timings.median_ns(), None);
    }
}
