//! A histogram of waits by length. It is a plain value, so that two readings can be subtracted.

use std::time::Duration;

/// Buckets: none at all, up to 1 µs, and then four for each doubling, up to 8 s.
const BUCKETS: usize = 2 + 4 * 23;

/// Waits so far, by length. A length is known within a fifth; longer ones than 8 s are counted as 8 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitCounts {
    /// The first bucket counts requests that did not wait.
    counts: [u64; BUCKETS],
}

impl Default for WaitCounts {
    fn default() -> Self {
        WaitCounts { counts: [0; BUCKETS] }
    }
}

impl WaitCounts {
    /// Counts a wait; zero means that the request did not wait.
    pub fn add(&mut self, wait: Duration) {
        let bucket = match wait.as_nanos() {
            0 => 0,
            1..=1000 => 1,
            nanos => 1 + (4.0 * (nanos as f64 / 1000.0).log2()).ceil() as usize,
        };
        self.counts[bucket.min(BUCKETS - 1)] += 1;
    }

    /// Adds the counts of another histogram.
    pub fn add_all(&mut self, others: &WaitCounts) {
        self.counts.iter_mut().zip(others.counts).for_each(|(count, more)| *count += more);
    }

    /// The counts since an earlier reading.
    pub fn since(&self, earlier: &WaitCounts) -> WaitCounts {
        let mut counts = self.counts;
        counts.iter_mut().zip(earlier.counts).for_each(|(count, before)| *count = count.saturating_sub(before));
        WaitCounts { counts }
    }

    /// The number of requests counted, those that did not wait included.
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether none was counted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The wait that a share of them, 0 to 1, did not exceed. It is the upper end of its bucket, so that it is never
    /// reported as shorter than it was. `None` if there are none.
    pub fn at_most(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.len() as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        let bucket = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        })?;
        Some(match bucket {
            0 => Duration::ZERO,
            bucket => Duration::from_secs_f64(1e-6 * 2_f64.powf((bucket - 1) as f64 / 4.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_within_a_fifth_and_never_too_short() {
        for micros in [0, 1, 2, 3, 90, 100, 101, 5_000, 1_000_000, 8_000_000] {
            let mut counts = WaitCounts::default();
            let wait = Duration::from_micros(micros);
            counts.add(wait);
            let told = counts.at_most(1.0).expect("there is one");
            assert!(told + Duration::from_nanos(1) >= wait && told <= wait.mul_f64(1.2), "{wait:?} {told:?}");
        }
        let mut counts = WaitCounts::default();
        counts.add(Duration::from_nanos(40));
        counts.add(Duration::from_secs(3600));
        assert_eq!(counts.at_most(0.5), Some(Duration::from_micros(1)));
        assert_eq!(counts.at_most(1.0).expect("two").as_secs(), 8, "longer ones are in the last bucket");
    }

    #[test]
    fn shares_are_of_all_and_looks_can_be_subtracted() {
        let mut counts = WaitCounts::default();
        assert_eq!((counts.at_most(0.5), counts.is_empty()), (None, true));
        counts.add(Duration::from_secs(1));
        let earlier = counts;
        (0..9_985).for_each(|_| counts.add(Duration::ZERO));
        (0..15).for_each(|_| counts.add(Duration::from_micros(64)));
        let within = counts.since(&earlier);
        assert_eq!((within.len(), within.at_most(0.998)), (10_000, Some(Duration::ZERO)));
        assert_eq!(within.at_most(0.999), Some(Duration::from_micros(64)));
        assert_eq!(within.at_most(1.0), Some(Duration::from_micros(64)), "the second was before");
        let mut both = within;
        both.add_all(&earlier);
        assert_eq!(both, counts);
    }
}
