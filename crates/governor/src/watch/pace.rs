//! How long to wait between two looks.
//!
//! Looking costs the server: during a look no process can begin or end waiting for a lock, nor commit. A look is
//! therefore followed by at least twice the time that it took, and by longer and longer pauses while its results stay
//! the same.
//!
//! If sessions are late all the time, that would still be a third of a core. Looks therefore have a budget: 2 % of the
//! time, plus a tenth of the waiting that rollbacks have saved, those of cycles included. Looks without consequences become rare; looks that save
//! enough waiting do not.

use std::time::{Duration, Instant};

/// The longest pause as a multiple of the shortest: while a session is blocked, and while none is.
const BLOCKED_FACTOR_MAX: u32 = 8;
const FREE_FACTOR_MAX: u32 = 32;

/// After a look, the server has at least this many times the look's length without another one.
const REST_FACTOR: u32 = 2;

/// The share of the time that looks may take, as a divisor.
const SHARE: u32 = 50;

/// The additional share of the waiting saved by rollbacks, as a divisor.
const SHARE_OF_WON: u32 = 10;

/// The most look time that can be saved up: one second's worth.
const SAVED_MAX: Duration = Duration::from_millis(20);

/// The longest pause for lack of budget. Looks that take more than 2 ms each therefore exceed their share.
const WANT_MAX: Duration = Duration::from_millis(100);

/// The time that looks may take.
#[derive(Debug)]
pub(super) struct Budget {
    /// The balance in seconds; negative if looks have taken more than their share.
    left_s: f64,
    at: Instant,
}

impl Budget {
    /// A full budget.
    pub(super) fn new(now: Instant) -> Self {
        Budget { left_s: SAVED_MAX.as_secs_f64(), at: now }
    }

    /// Credits the time that has passed.
    fn earn(&mut self, now: Instant) {
        let gone = now.saturating_duration_since(std::mem::replace(&mut self.at, now));
        self.left_s = (self.left_s + (gone / SHARE).as_secs_f64()).min(SAVED_MAX.as_secs_f64());
    }

    /// Charges a look that has taken `took`; its consequences save `won` of waiting.
    pub(super) fn spend(&mut self, took: Duration, won: Duration, now: Instant) {
        self.earn(now);
        let left = self.left_s - took.as_secs_f64() + (won / SHARE_OF_WON).as_secs_f64();
        self.left_s = left.clamp(-(WANT_MAX / SHARE).as_secs_f64(), SAVED_MAX.as_secs_f64());
    }

    /// How long the next look must wait for lack of budget.
    pub(super) fn want(&mut self, now: Instant) -> Duration {
        self.earn(now);
        Duration::from_secs_f64((-self.left_s).max(0.0)) * SHARE
    }
}

/// The findings of a look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Whether anything differs from the last look, or was changed by our actions.
    pub changed: bool,
    /// Whether a session waits.
    pub blocked: bool,
}

/// The pause between looks.
#[derive(Debug)]
pub(super) struct Pace {
    factor: u32,
    took: Duration,
}

impl Pace {
    /// Starts with the shortest pause.
    pub(super) fn new() -> Self {
        Pace { factor: 1, took: Duration::ZERO }
    }

    /// Adjusts the pause to the length and the findings of a look.
    pub(super) fn note(&mut self, took: Duration, seen: Seen) {
        self.took = took;
        let factor_max = if seen.blocked { BLOCKED_FACTOR_MAX } else { FREE_FACTOR_MAX };
        self.factor = if seen.changed { 1 } else { (self.factor * 2).min(factor_max) };
    }

    /// The time until the next look, unless a session rings.
    pub(super) fn pause(&self, interval: Duration) -> Duration {
        (interval * self.factor).max(self.took * REST_FACTOR)
    }

    /// What remains of the pause that the server is due, given the time since the last look began.
    pub(super) fn rest(&self, interval: Duration, since: Duration) -> Duration {
        (interval.max(self.took * REST_FACTOR) + self.took).saturating_sub(since)
    }

    /// Another unit is late.
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

    /// The number of looks of that length in 10 s of constant contention, if every second one saves that much waiting.
    fn looks(took: Duration, won: Duration) -> u32 {
        let began = Instant::now();
        let (mut budget, mut pace) = (Budget::new(began), Pace::new());
        let (mut now, mut count) = (began, 0);
        while now < began + Duration::from_secs(10) {
            now += took;
            count += 1;
            let won = if count % 2 == 0 { won } else { Duration::ZERO };
            pace.note(took, Seen { changed: true, blocked: true });
            budget.spend(took, won, now);
            now += pace.pause(Duration::from_millis(2)).max(budget.want(now));
        }
        count
    }

    #[test]
    fn looks_under_constant_contention_take_a_fiftieth_of_the_time_unless_they_pay() {
        let took = Duration::from_micros(400);
        let share = |count: u32, took: Duration| count as f64 * took.as_secs_f64() / 10.0;
        let in_vain = share(looks(took, Duration::ZERO), took);
        assert!((0.018..0.023).contains(&in_vain), "{in_vain}");
        let paying = looks(took, Duration::from_millis(20));
        assert!(paying > 4000, "as often as the pace allows: {paying}");
        // For long looks the longest pause sets the limit.
        let long = share(looks(Duration::from_millis(10), Duration::ZERO), Duration::from_millis(10));
        assert!((0.05..0.12).contains(&long), "{long}");
    }

    #[test]
    fn a_budget_is_kept_for_a_second_and_no_longer() {
        let began = Instant::now();
        let mut budget = Budget::new(began);
        assert_eq!(budget.want(began), Duration::ZERO);
        budget.spend(Duration::from_millis(21), Duration::ZERO, began);
        let want = budget.want(began);
        assert!((45..55).contains(&want.as_millis()), "{want:?}");
        assert_eq!(budget.want(began + Duration::from_millis(60)), Duration::ZERO);
        budget.spend(Duration::from_millis(21), Duration::ZERO, began + Duration::from_secs(3600));
        assert!(budget.want(began + Duration::from_secs(3600)) > Duration::ZERO, "an hour saves no more than a second");
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
