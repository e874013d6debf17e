//! How long to wait between two looks, so that looking costs less than a share of one core.
//!
//! The total cost since the beginning, the next look included, is kept below a share of the elapsed time. Costlier
//! looks are therefore less frequent, and one costly query, such as for all statements, is followed by a pause.

use std::time::Duration;

/// The most that looking may cost, as a share of one core.
pub const BOUND: f64 = 0.01;

/// The cost aimed at: below the bound, because the cost of the next look is an estimate.
const AIM: f64 = 0.008;

/// The shortest time between two looks: shorter ones would show nothing that matters.
const INTERVAL_LEAST: Duration = Duration::from_millis(10);

/// The part of the cost that readings between windows may have.
const WINDOWS_AIM: f64 = 0.003;

/// The shortest window.
const WINDOW_LEAST: Duration = Duration::from_secs(1);

/// The length of a window, if the reading at its end costs this much.
pub(crate) fn window_length(cost: Duration) -> Duration {
    cost.div_f64(WINDOWS_AIM).max(WINDOW_LEAST)
}

/// Weight of the last cost in the estimate of the next one.
const WEIGHT: f64 = 0.2;

/// The pace of looks.
#[derive(Debug, Clone)]
pub struct Pace {
    /// An estimate of the cost of a look, CPU seconds.
    look_s: f64,
    /// The additional cost of a look at locks.
    locks_s: f64,
    /// When locks may be read again, since the beginning.
    locks_next: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        // At first, more than the cost of a look at a small server.
        Pace { look_s: 200e-6, locks_s: 200e-6, locks_next: Duration::ZERO }
    }
}

impl Pace {
    /// A look has cost this much CPU time, at the server and here.
    pub(crate) fn note_look(&mut self, cost: Duration) {
        self.look_s += WEIGHT * (cost.as_secs_f64() - self.look_s);
    }

    /// Reading locks has cost this much and was over `at`.
    pub(crate) fn note_locks(&mut self, at: Duration, cost: Duration) {
        self.locks_s += WEIGHT * (cost.as_secs_f64() - self.locks_s);
        // At most half of the aim goes to locks, however many sessions wait: reading them blocks the lock table.
        self.locks_next = at + Duration::from_secs_f64((2.0 * self.locks_s / AIM).max(INTERVAL_LEAST.as_secs_f64()));
    }

    /// Whether locks may be read at this moment.
    pub(crate) fn may_ask_for_locks(&self, at: Duration) -> bool {
        at >= self.locks_next
    }

    /// How long to wait `at` a moment by which the total cost is `spent`.
    pub fn pause(&self, at: Duration, spent: Duration) -> Duration {
        let due_s = (spent.as_secs_f64() + self.look_s) / AIM - at.as_secs_f64();
        let own_s = self.look_s / AIM;
        // The cost of a costly query is made up over a few looks, not by one long pause.
        let paid_s = due_s.clamp(own_s, 4.0 * own_s + 1.0);
        Duration::from_secs_f64(paid_s).max(INTERVAL_LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a minute of looks with these costs; returns the share of a core and the number of looks.
    fn minute(start: Duration, look: Duration, locks: Option<Duration>) -> (f64, usize) {
        let (mut pace, mut at, mut spent, mut looks) = (Pace::default(), Duration::ZERO, start, 0);
        while at < Duration::from_secs(60) {
            let pause = pace.pause(at, spent);
            assert!(pause >= INTERVAL_LEAST, "{pause:?}");
            at += pause;
            spent += look;
            pace.note_look(look);
            looks += 1;
            if let Some(cost) = locks.filter(|_| pace.may_ask_for_locks(at)) {
                spent += cost;
                pace.note_locks(at, cost);
            }
        }
        (spent.as_secs_f64() / at.as_secs_f64(), looks)
    }

    #[test]
    fn what_looking_costs_is_bounded_whatever_a_look_costs() {
        let micros = Duration::from_micros;
        for look in [20, 80, 300, 2_000, 20_000].map(micros) {
            for locks in [None, Some(micros(50)), Some(micros(3_000))] {
                let (share, looks) = minute(Duration::ZERO, look, locks);
                assert!(share <= BOUND, "{look:?} {locks:?}: {share} in {looks} looks");
                assert!(looks > 10, "{look:?} {locks:?}: {looks} looks");
            }
        }
    }

    #[test]
    fn cheap_looks_are_frequent_and_a_costly_beginning_is_paid_back() {
        assert!(minute(Duration::ZERO, Duration::from_micros(50), None).1 > 5_000);
        let (share, looks) = minute(Duration::from_millis(100), Duration::from_micros(100), None);
        assert!(share <= BOUND && looks > 1_000, "{share} {looks}");
    }
}
