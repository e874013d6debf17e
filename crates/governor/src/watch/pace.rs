//! How long to wait between two looks.
//!
//! Looking costs the server: for a moment nobody can begin or end waiting for a lock, nor commit. So a look is followed by
//! at least twice the time that it took, and by longer and longer pauses while it shows what the last one showed.

use std::time::Duration;

/// How many times the shortest pause the longest one is: while somebody is blocked, and while nobody is.
const BLOCKED_FACTOR_MAX: u32 = 8;
const FREE_FACTOR_MAX: u32 = 32;

/// After a look the server has at least this many times as long without one.
const REST_FACTOR: u32 = 2;

/// What a look has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Whether anything was another than the last time, or was changed by what was done.
    pub changed: bool,
    /// Whether anybody waits.
    pub blocked: bool,
}

/// How fast to go on.
#[derive(Debug)]
pub(super) struct Pace {
    factor: u32,
    took: Duration,
}

impl Pace {
    /// At first, fast.
    pub(super) fn new() -> Self {
        Pace { factor: 1, took: Duration::ZERO }
    }

    /// A look took so long and showed this.
    pub(super) fn note(&mut self, took: Duration, seen: Seen) {
        self.took = took;
        let factor_max = if seen.blocked { BLOCKED_FACTOR_MAX } else { FREE_FACTOR_MAX };
        self.factor = if seen.changed { 1 } else { (self.factor * 2).min(factor_max) };
    }

    /// Until the next look, if nobody rings.
    pub(super) fn pause(&self, interval: Duration) -> Duration {
        (interval * self.factor).max(self.took * REST_FACTOR)
    }

    /// What is left of the time that the server is to have without a look, so long after the last one began.
    pub(super) fn rest(&self, interval: Duration, since: Duration) -> Duration {
        (interval.max(self.took * REST_FACTOR) + self.took).saturating_sub(since)
    }

    /// Somebody else is late.
    pub(super) fn hurry(&mut self) {
        self.factor = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_nothing_changes() {
        let (interval, took) = (Duration::from_millis(2), Duration::from_micros(300));
        let mut pace = Pace::new();
        let mut pauses = |seen: Seen, looks: usize| {
            (0..looks).for_each(|_| pace.note(took, seen));
            pace.pause(interval).as_millis()
        };
        let (same, free) = (Seen { changed: false, blocked: true }, Seen { changed: false, blocked: false });
        assert_eq!(pauses(Seen { changed: true, blocked: true }, 3), 2);
        assert_eq!(pauses(same, 1), 4);
        assert_eq!(pauses(same, 9), 16);
        assert_eq!(pauses(free, 9), 64);
        assert_eq!(pauses(Seen { changed: true, blocked: false }, 1), 2);
    }

    #[test]
    fn slow_looks_are_far_between() {
        let mut pace = Pace::new();
        pace.note(Duration::from_millis(30), Seen { changed: true, blocked: true });
        let interval = Duration::from_millis(2);
        assert_eq!(pace.pause(interval), Duration::from_millis(60));
        assert_eq!(pace.rest(interval, Duration::from_millis(40)), Duration::from_millis(50));
        assert_eq!(pace.rest(interval, Duration::from_millis(400)), Duration::ZERO);
    }
}
