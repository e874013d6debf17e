//! When sessions must be checked even if no event arrives.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// Times, each with the connection that waits for it. An obsolete entry stays until its time comes, and the caller
/// ignores it: a connection knows its own time.
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

    /// The time until the next entry; `None` if there is none.
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
