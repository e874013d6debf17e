//! The moments at which looks are due.

use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg32;

/// One moment in each period, drawn at random.
#[derive(Debug)]
pub(super) struct Schedule {
    period: Duration,
    random: Pcg32,
    /// The period whose moment comes next.
    next: u32,
    /// Moments that had already passed when the next one was requested. A count.
    pub(super) left_out: u64,
}

impl Schedule {
    /// Moments from the time 0 on.
    pub(super) fn new(period: Duration, seed: u64) -> Self {
        Schedule { period, random: Pcg32::new(seed, 0), next: 0, left_out: 0 }
    }

    /// The next moment that is not before `now`; earlier ones are skipped.
    pub(super) fn next(&mut self, now: Duration) -> Duration {
        loop {
            let due = self.period.mul_f64(f64::from(self.next) + self.random.random::<f64>());
            self.next += 1;
            if due >= now {
                return due;
            }
            self.left_out += 1;
        }
    }

    /// Whether a look that began then was late.
    pub(super) fn is_late(&self, due: Duration, began: Duration) -> bool {
        began.saturating_sub(due) > self.period / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);

    #[test]
    fn every_period_has_one_moment() {
        let mut schedule = Schedule::new(PERIOD, 7);
        let mut sum = Duration::ZERO;
        for period in 0..1000 {
            let due = schedule.next(PERIOD * period);
            assert!((PERIOD * period..PERIOD * (period + 1)).contains(&due), "{due:?} in {period}");
            sum += due - PERIOD * period;
        }
        assert_eq!(schedule.left_out, 0);
        let mean = sum / 1000;
        assert!((Duration::from_micros(4_600)..Duration::from_micros(5_400)).contains(&mean), "{mean:?}");
    }

    #[test]
    fn what_has_passed_is_left_out_and_not_caught_up() {
        let mut schedule = Schedule::new(PERIOD, 7);
        schedule.next(Duration::ZERO);
        let due = schedule.next(PERIOD * 100);
        assert!((PERIOD * 100..PERIOD * 101).contains(&due), "{due:?}");
        assert_eq!(schedule.left_out, 99);
        assert!(schedule.next(due) >= PERIOD * 101);
        assert!(schedule.is_late(PERIOD, PERIOD * 2) && !schedule.is_late(PERIOD, PERIOD + PERIOD / 2));
    }
}
