//! When sessions are to be looked at though nothing has come for them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// Moments, each with the connection that waits for it. What is no longer waited for stays until its moment comes, and is
/// left out by whoever asks: a connection knows its own moment.
#[derive(Debug, Default)]
pub(super) struct Timers {
    moments: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Timers {
    pub(super) fn add(&mut self, at: Instant, connection: u64) {
        self.moments.push(Reverse((at, connection)));
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u64)> {
        let Reverse((at, _)) = self.moments.peek()?;
        if *at > now {
            return None;
        }
        self.moments.pop().map(|Reverse(moment)| moment)
    }

    /// How long until the next; `None` if there is none.
    pub(super) fn until_next(&self, now: Instant) -> Option<Duration> {
        self.moments.peek().map(|Reverse((at, _))| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_none_too_early() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut timers = Timers::default();
        assert_eq!(timers.until_next(start), None);
        for (milliseconds, connection) in [(30, 3), (10, 1), (20, 2)] {
            timers.add(at(milliseconds), connection);
        }
        assert_eq!(timers.until_next(at(4)), Some(Duration::from_millis(6)));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(20)), Some((at(10), 1)));
        assert_eq!(timers.pop_due(at(20)), Some((at(20), 2)));
        assert_eq!(timers.pop_due(at(20)), None);
        assert_eq!(timers.until_next(at(40)), Some(Duration::ZERO));
    }
}
