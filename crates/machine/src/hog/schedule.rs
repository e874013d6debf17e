//! Keeping a rate: how long to wait after each piece of work.

use std::time::Duration;

/// The longest delay that work may catch up. Later units are skipped, so that a pause of the machine is not followed by
/// a burst.
const BEHIND_MAX: Duration = Duration::from_millis(100);

/// Shorter waits are combined: the kernel cannot sleep that briefly.
const WAIT_MIN: Duration = Duration::from_micros(200);

/// A schedule of units (bytes) at a steady rate. The caller supplies the clock: the time since any fixed moment.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Units per second; infinite for no limit.
    rate: f64,
    /// When the first unit was due, moved forward by skipped time. Never negative.
    start: Duration,
    done: f64,
}

impl Schedule {
    /// A schedule that begins at `now`. `rate` is above 0; infinity is as fast as possible.
    pub fn new(rate: f64, now: Duration) -> Schedule {
        assert!(rate > 0.0, "a rate of {rate}");
        Schedule { rate, start: now, done: 0.0 }
    }

    /// Records `units` as done, and returns how long to wait before more; `None` if more is due already.
    pub fn done(&mut self, units: f64, now: Duration) -> Option<Duration> {
        self.done += units;
        let due = self.start + Duration::from_secs_f64(self.done / self.rate);
        if let Some(behind) = now.checked_sub(due + BEHIND_MAX) {
            self.start += behind;
        }
        due.checked_sub(now).filter(|wait| *wait >= WAIT_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Works in pieces of `units` that take `piece` each until `end`, with a stall of `stall` in the middle; returns
    /// the rate reached without the stall.
    fn run(rate: f64, units: f64, piece: Duration, end: Duration, stall: Duration) -> f64 {
        let (mut now, mut done) = (Duration::from_secs(5), 0.0);
        let begin = now;
        let mut schedule = Schedule::new(rate, now);
        let mut stalled = false;
        while now < begin + end {
            now += piece;
            if !stalled && now > begin + end / 2 {
                now += stall;
                stalled = true;
            }
            done += units;
            now += schedule.done(units, now).unwrap_or_default();
        }
        done / (now - begin - stall).as_secs_f64()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_below_what_can_be_done_is_kept() {
        for rate in [1e3, 1e6, 5e8, 4e9] {
            // A piece takes a tenth of the time available for it.
            let units = rate / 1000.0;
            let reached = run(rate, units, Duration::from_micros(100), SECOND, Duration::ZERO);
            assert!((reached / rate - 1.0).abs() < 0.01, "{reached} of {rate}");
        }
    }

    #[test]
    fn a_rate_that_cannot_be_reached_never_waits() {
        let mut schedule = Schedule::new(1e6, Duration::ZERO);
        for second in 1..10 {
            assert_eq!(schedule.done(5e5, SECOND * second), None);
        }
        let mut unlimited = Schedule::new(f64::INFINITY, Duration::ZERO);
        assert_eq!(unlimited.done(1e12, Duration::ZERO), None);
    }

    #[test]
    fn a_stall_is_not_made_up_for() {
        let reached = run(1e6, 1e3, Duration::from_micros(100), SECOND, SECOND);
        assert!((1.0..1.15).contains(&(reached / 1e6)), "{reached}: what is due of 100 ms is made up for, no more");
    }

    #[test]
    fn short_waits_are_put_together() {
        let mut schedule = Schedule::new(1e6, Duration::ZERO);
        assert_eq!(schedule.done(100.0, Duration::ZERO), None, "100 us");
        assert_eq!(schedule.done(200.0, Duration::ZERO), Some(Duration::from_micros(300)));
    }
}
