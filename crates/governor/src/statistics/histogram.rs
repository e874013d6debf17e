//! A histogram of times to which any thread adds without waiting.
//!
//! Buckets are sixteenths of powers of two of microseconds, so a percentile is accurate to 3.2 %. The bounds for
//! Prometheus ([`Counts::below`]) coincide with bounds of buckets, so those numbers are exact.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of buckets for each power of two.
const PARTS: usize = 16;
/// The binary logarithm of `PARTS`.
const PARTS_LOG: u32 = PARTS.trailing_zeros();
/// The logarithm of the longest time in microseconds (72 minutes): longer ones are counted as that long.
const LOG_MAX: u32 = 32;
/// One bucket for each microsecond below [`PARTS`], then [`PARTS`] for each power of two.
const BUCKETS: usize = PARTS + (LOG_MAX - PARTS_LOG) as usize * PARTS;

/// A histogram.
pub struct Histogram {
    buckets: Box<[AtomicU64; BUCKETS]>,
    sum_micros: AtomicU64,
}

impl Histogram {
    pub fn record(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min((1 << LOG_MAX) - 1);
        // Relaxed: counts are read by operators, and order nothing.
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The counts up to now.
    pub fn counts(&self) -> Counts {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        Counts { buckets, sum_micros: self.sum_micros.load(Ordering::Relaxed) }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = Box::new([const { AtomicU64::new(0) }; BUCKETS]);
        Histogram { buckets, sum_micros: AtomicU64::new(0) }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Histogram({} times)", self.counts().count())
    }
}

/// The counts of a histogram at a moment, or between two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    buckets: Box<[u64]>,
    sum_micros: u64,
}

impl Counts {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_micros)
    }

    /// The mean; `None` without any.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| Duration::from_secs_f64(self.sum().as_secs_f64() / count as f64))
    }

    /// The counts since an earlier moment.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        Counts {
            buckets: pairs.map(|(now, then)| now.saturating_sub(*then)).collect(),
            sum_micros: self.sum_micros.saturating_sub(earlier.sum_micros),
        }
    }

    /// The time that this share of all times does not exceed, 0.95 for the 95th percentile: the middle of its bucket.
    /// `None` without any.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (place, in_bucket) in self.buckets.iter().enumerate() {
            seen += in_bucket;
            if seen >= rank {
                return Some(middle(place));
            }
        }
        None
    }

    /// Every time that was counted, as the middle of its bucket, with its count; ascending.
    pub fn lengths(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(place, count)| (middle(place), *count))
    }

    /// How many times were shorter than 2^`log` microseconds; exact.
    pub fn below(&self, log: u32) -> u64 {
        self.buckets[..bucket(1 << log.min(LOG_MAX - 1))].iter().sum()
    }
}

fn bucket(micros: u64) -> usize {
    if micros < PARTS as u64 {
        return micros as usize;
    }
    let log = micros.ilog2();
    let part = (micros >> (log - PARTS_LOG)) as usize - PARTS;
    PARTS + (log - PARTS_LOG) as usize * PARTS + part
}

/// The shortest time of a bucket, microseconds.
fn lower_bound(bucket: usize) -> u64 {
    match bucket.checked_sub(PARTS) {
        None => bucket as u64,
        Some(above) => ((PARTS + above % PARTS) as u64) << (above / PARTS),
    }
}

fn middle(bucket: usize) -> Duration {
    Duration::from_nanos((lower_bound(bucket) + lower_bound(bucket + 1)) * 500)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> Histogram {
        let histogram = Histogram::default();
        millis.into_iter().for_each(|millis| histogram.record(Duration::from_millis(millis)));
        histogram
    }

    #[test]
    fn percentiles_are_right_to_a_few_percent() {
        let counts = of(1..=1000).counts();
        assert_eq!(counts.count(), 1000);
        assert_eq!(counts.sum(), Duration::from_millis(500_500));
        assert_eq!(counts.mean(), Some(Duration::from_micros(500_500)));
        for (share, millis) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = counts.percentile(share).expect("times were counted").as_secs_f64() * 1e3;
            assert!((found / millis - 1.0).abs() < 0.035, "{share}: {found}");
        }
    }

    #[test]
    fn nothing_has_no_percentile() {
        let counts = Histogram::default().counts();
        assert_eq!((counts.count(), counts.percentile(0.5), counts.mean()), (0, None, None));
    }

    #[test]
    fn a_difference_is_what_came_between() {
        let histogram = of([1, 1, 1]);
        let before = histogram.counts();
        histogram.record(Duration::from_millis(64));
        let between = histogram.counts().since(&before);
        assert_eq!((between.count(), between.sum()), (1, Duration::from_millis(64)));
    }

    #[test]
    fn what_is_longer_than_the_longest_counts_as_that() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_secs(1_000_000));
        assert_eq!(histogram.counts().count(), 1);
        assert_eq!(histogram.counts().below(30), 0);
    }

    proptest! {
        #[test]
        fn a_time_lies_in_its_bucket(micros in 0u64..1 << LOG_MAX) {
            let place = bucket(micros);
            prop_assert!(place < BUCKETS);
            prop_assert!(lower_bound(place) <= micros && micros < lower_bound(place + 1));
        }

        #[test]
        fn counts_below_a_power_of_two_are_exact(times in prop::collection::vec(0u64..1 << 30, 0..50), log in 4u32..31) {
            let histogram = Histogram::default();
            times.iter().for_each(|micros| histogram.record(Duration::from_micros(*micros)));
            let expect = times.iter().filter(|micros| **micros < 1 << log).count() as u64;
            prop_assert_eq!(histogram.counts().below(log), expect);
        }
    }
}
