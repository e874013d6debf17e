//! The pirate's own misses by hardware counters, where there are any.

use super::split::MissShare;
use crate::counters::{CounterSet, Event, Plan, Watched};
use crate::cpu_time::current_thread_id;

/// The relative uncertainty of any count: loads outside the sweep, speculation.
const DOUBT: f64 = 0.02;

/// Counters of one thread.
pub struct MissCounter {
    counters: CounterSet,
    before: u64,
}

impl MissCounter {
    /// Counters of the calling thread; `None` if this machine has none or does not permit them.
    pub(crate) fn of_this_thread() -> Option<MissCounter> {
        // Never rotated: misses of the last level are in the first group.
        let plan = Plan::of_machine().ok()?;
        let mut counters = CounterSet::open(&plan, &Watched::Threads(vec![current_thread_id()])).ok()?;
        counters.enable().ok()?;
        Some(MissCounter { counters, before: 0 })
    }

    /// Last-level misses since the last call, and the share of time in which they were counted. `None` if they were not
    /// counted.
    pub fn misses(&mut self) -> Option<(u64, f64)> {
        let reading = self.counters.read();
        let now = reading.figure(Event::LlcMisses)?;
        let misses = now.count.saturating_sub(self.before);
        self.before = now.count;
        Some((misses, now.coverage))
    }
}

/// The share of `loads` that missed. Below a coverage of 1 the count was scaled up, which adds uncertainty.
pub fn share(misses: u64, loads: u64, coverage: f64) -> Option<MissShare> {
    if loads == 0 {
        return None;
    }
    let share = (misses as f64 / loads as f64).min(1.0);
    let doubt = share * (1.0 - coverage).clamp(0.0, 1.0) + DOUBT;
    Some(MissShare { share, low: (share - doubt).max(0.0), high: (share + doubt).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_with_doubt() {
        let check = |misses, loads, coverage, expect: Option<(f64, f64, f64)>| {
            let found = share(misses, loads, coverage).map(|found| {
                let round = |value: f64| (value * 1000.0).round() / 1000.0;
                (round(found.share), round(found.low), round(found.high))
            });
            assert_eq!(found, expect, "{misses} of {loads} at {coverage}");
        };
        check(0, 0, 1.0, None);
        check(0, 100, 1.0, Some((0.0, 0.0, 0.02)));
        check(50, 100, 1.0, Some((0.5, 0.48, 0.52)));
        check(50, 100, 0.8, Some((0.5, 0.38, 0.62)));
        check(500, 100, 1.0, Some((1.0, 0.98, 1.0)));
    }
}
