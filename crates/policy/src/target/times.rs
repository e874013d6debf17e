//! A histogram of lengths of time.

use std::collections::BTreeMap;
use std::time::Duration;

/// Numbers of transactions by length. The host chooses the buckets, and adds each with a representative length.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times(BTreeMap<Duration, u64>);

impl Times {
    /// Counts transactions of that length.
    pub fn add(&mut self, length: Duration, count: u64) {
        if count > 0 {
            *self.0.entry(length).or_default() += count;
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Times) {
        other.0.iter().for_each(|(length, count)| self.add(*length, *count));
    }

    /// The number of all transactions.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// How many are longer than that.
    pub fn beyond(&self, bound: Duration) -> u64 {
        self.0.range(bound..).filter(|(length, _)| **length > bound).map(|(_, count)| count).sum()
    }

    /// The length that this share of all does not exceed, 0.95 for the 95th percentile. `None` if there are none.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|(length, count)| {
            seen += count;
            (seen >= rank).then_some(*length)
        })
    }
}

impl FromIterator<(Duration, u64)> for Times {
    fn from_iter<I: IntoIterator<Item = (Duration, u64)>>(lengths: I) -> Self {
        let mut times = Times::default();
        lengths.into_iter().for_each(|(length, count)| times.add(length, count));
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_agree_with_percentiles() {
        let ms = Duration::from_millis;
        let mut times: Times = (1..=100).map(|length| (ms(length), 1)).collect();
        assert_eq!((times.count(), times.percentile(0.95), times.beyond(ms(95))), (100, Some(ms(95)), 5));
        times.merge(&[(ms(200), 100), (ms(300), 0)].into_iter().collect());
        assert_eq!((times.count(), times.percentile(0.95), times.beyond(ms(200))), (200, Some(ms(200)), 0));
        assert_eq!((Times::default().percentile(0.5), Times::default().beyond(ms(1))), (None, 0));
    }
}
