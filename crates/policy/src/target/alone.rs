//! The response times of a class while no class below it is at work.

use std::time::Duration;

use super::{Percentile, Times};

/// The least number of quiet seconds.
const SECONDS_LEAST: u32 = 10;

/// A percentile is believed if this many transactions lie beyond it.
const BEYOND_LEAST: f64 = 10.0;

/// A new value that differs by less than this share is taken for noise.
const DIFFERENCE_LEAST: f64 = 0.1;

/// Learns from quiet seconds. It never stops learning: the latest quiet seconds that are enough decide.
#[derive(Debug, Clone, Default)]
pub(super) struct Alone {
    learned: Option<Duration>,
    pool: Times,
    seconds: u32,
    was_quiet: bool,
}

impl Alone {
    /// The percentile alone; `None` before enough was seen.
    pub(super) fn learned(&self) -> Option<Duration> {
        self.learned
    }

    /// Notes one second, and returns whether the value changes. The first quiet second still has transactions that
    /// began beside others.
    pub(super) fn note(&mut self, ended: &Times, is_quiet: bool, percentile: Percentile) -> bool {
        if is_quiet && self.was_quiet {
            self.pool.merge(ended);
            self.seconds += 1;
        }
        self.was_quiet = is_quiet;
        let beyond = self.pool.count() as f64 * percentile.share_beyond();
        if self.seconds < SECONDS_LEAST || beyond < BEYOND_LEAST {
            return false;
        }
        let found = std::mem::take(&mut self.pool).percentile(percentile.share());
        self.seconds = 0;
        let is_other = |found: Duration| {
            let known = self.learned.map_or(0.0, |known| known.as_secs_f64());
            (found.as_secs_f64() - known).abs() > DIFFERENCE_LEAST * known
        };
        let changes = found.is_some_and(is_other);
        if changes {
            self.learned = found;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn only_quiet_seconds_teach_and_enough_of_them() {
        let percentile = "p95 < 1.3 x alone".parse::<Target>().expect("a target").percentile;
        let mut alone = Alone::default();
        let second = |millis: u64| [(Duration::from_millis(millis), 25)].into_iter().collect::<Times>();
        for _ in 0..20 {
            assert!(!alone.note(&second(90), false, percentile));
        }
        // The first quiet second has transactions that began beside others.
        assert!(!alone.note(&second(90), true, percentile));
        let learned: Vec<bool> = (0..10).map(|_| alone.note(&second(10), true, percentile)).collect();
        assert_eq!(learned.iter().position(|learned| *learned), Some(9));
        assert_eq!(alone.learned(), Some(Duration::from_millis(10)));
        let noise = (0..10).any(|_| alone.note(&second(11), true, percentile));
        assert!(!noise && alone.learned() == Some(Duration::from_millis(10)));
        let slower = (0..10).any(|_| alone.note(&second(15), true, percentile));
        assert!(slower && alone.learned() == Some(Duration::from_millis(15)));
    }
}
