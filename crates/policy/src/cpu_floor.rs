//! The weight of work that gets idle cores only, so that it keeps a floor of the cores beside work that leaves none idle.
//!
//! Work in an idle control group yields at once, and gets nothing beside work that never pauses. A group with a weight
//! gets its share of each core that others compete for, and its processes keep a core for a slice. [`CpuFloor`] keeps
//! the group idle as long as it still gets its floor, and otherwise finds the smallest weight that gives it the floor:
//!
//! - The weight goes up by half in each window in which the work waited for cores and got less than its floor.
//! - It goes down by a fifth in each window in which the work got a quarter more than its floor, or hardly waited; below
//!   the smallest weight the group is idle again.
//! - Time for which cores were idle counts as received, because the work could have used it. Processes that become
//!   ready together, as scans do when a disk limit releases them, wait for each other beside idle cores.
//! - Work that asks for little, such as a scan that waits for a disk most of the time, cannot use its whole floor. Its floor is half of
//!   the time for which it ran or waited for a core.
//!
//! The number and the weights of competing processes need not be known. This is the multiplicative form of
//! CockroachDB's elastic CPU control, with the work's own CPU time as the signal.

use std::time::Duration;

/// The first weight: a tenth of the default of a process or group, which is 100.
const WEIGHT_FIRST: f64 = 10.0;
const WEIGHT_MIN: f64 = 1.0;
/// The largest: ten processes.
const WEIGHT_MAX: f64 = 1000.0;
/// How a weight grows and shrinks in a window.
const GROWTH: f64 = 1.5;
const SHRINKING: f64 = 0.8;
/// Work with less than this share of its floor lacks cores,
const LACKS: f64 = 0.95;
/// and work with more than this share has more than it needs.
const AMPLE: f64 = 1.25;
/// Work with little demand gets at least this share of its demand.
const SHARE_OF_ASKED: f64 = 0.5;
/// Work that waits for cores for less than this share of all cores' time wants no more than it gets.
const WAITS: f64 = 0.05;

/// The CPU use of the work in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuSeen {
    /// The length of the window, below one second.
    pub window: Duration,
    /// The number of cores.
    pub cores: u32,
    /// The time that its processes ran, summed.
    pub ran: Duration,
    /// The time that they were ready and waited for a core, summed.
    pub waited: Duration,
    /// The idle time of these cores, summed; `None` if it is not known.
    pub idle: Option<Duration>,
}

/// The controller. The module documentation has its rules.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuFloor {
    weight: Option<f64>,
}

impl CpuFloor {
    /// The weight of the group, where 100 is the default of a process; `None` if it gets idle cores only.
    pub fn weight(&self) -> Option<u32> {
        self.weight.map(|weight| weight.round() as u32)
    }

    /// Processes one window. `floor` is the share of all cores that the work is to get at least, 0 to 1. Returns the
    /// new weight.
    pub fn step(&mut self, floor: f64, seen: &CpuSeen) -> Option<u32> {
        let all = seen.window.as_secs_f64() * f64::from(seen.cores);
        if all <= 0.0 {
            return self.weight();
        }
        let [has, waits, idle] =
            [seen.ran, seen.waited, seen.idle.unwrap_or_default()].map(|time| time.as_secs_f64() / all);
        let is_wanting = waits >= WAITS;
        let floor = floor.min(SHARE_OF_ASKED * (has + waits));
        self.weight = match self.weight {
            weight if is_wanting && has + idle < LACKS * floor => {
                Some(weight.map_or(WEIGHT_FIRST, |weight| (weight * GROWTH).min(WEIGHT_MAX)))
            }
            Some(weight) if !is_wanting || has > AMPLE * floor => {
                Some(weight * SHRINKING).filter(|weight| *weight >= WEIGHT_MIN)
            }
            weight => weight,
        };
        self.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(250);

    /// Cores on which others want a share of the time, by `others` processes of weight 100 on each core, beside one low process on each.
    struct Cores {
        others: f64,
        want: f64,
    }

    impl Cores {
        /// The CPU time and the waiting time of the low work in a window.
        fn seen(&self, weight: Option<u32>, wants: f64) -> CpuSeen {
            let left = 1.0 - self.want;
            let entitled = weight.map_or(0.0, |weight| f64::from(weight) / (f64::from(weight) + 100.0 * self.others));
            let has = left.max(entitled).min(wants);
            let waited = if has < wants { 1.0 - has } else { 0.0 };
            let of = |share: f64| WINDOW.mul_f64(2.0 * share);
            CpuSeen { window: WINDOW, cores: 2, ran: of(has), waited: of(waited), idle: None }
        }
    }

    fn share(seen: &CpuSeen) -> f64 {
        seen.ran.as_secs_f64() / (2.0 * WINDOW.as_secs_f64())
    }

    #[test]
    fn it_gets_its_floor_beside_work_that_leaves_nothing_and_not_much_more() {
        for others in [1.0, 2.0, 4.0] {
            for floor in [0.05, 0.2, 0.4] {
                let (cores, mut control) = (Cores { others, want: 1.0 }, CpuFloor::default());
                let mut seen = cores.seen(None, 1.0);
                for _ in 0..12 {
                    seen = cores.seen(control.step(floor, &seen), 1.0);
                }
                let settled = share(&seen);
                assert!(settled >= LACKS * floor && settled <= 1.5 * floor, "{others} {floor}: {settled}, {control:?}");
                let before = control;
                for _ in 0..100 {
                    seen = cores.seen(control.step(floor, &seen), 1.0);
                    assert!(share(&seen) >= LACKS * floor && share(&seen) <= 1.5 * floor, "{before:?} {control:?}");
                }
            }
        }
    }

    #[test]
    fn it_stays_idle_where_enough_is_left_and_is_idle_again_soon_after() {
        let mut control = CpuFloor::default();
        let pauses = Cores { others: 2.0, want: 0.6 };
        for _ in 0..20 {
            assert_eq!(control.step(0.2, &pauses.seen(None, 1.0)), None);
        }
        let busy = Cores { others: 2.0, want: 1.0 };
        let mut seen = busy.seen(None, 1.0);
        for _ in 0..20 {
            seen = busy.seen(control.step(0.2, &seen), 1.0);
        }
        assert!(control.weight().is_some_and(|weight| weight > 20));
        let windows = (0..).find(|_| control.step(0.2, &pauses.seen(control.weight(), 1.0)).is_none());
        assert!(windows.is_some_and(|windows| windows <= 20), "five seconds: {windows:?}");
    }

    #[test]
    fn what_wants_little_gets_no_weight() {
        let mut control = CpuFloor::default();
        let busy = Cores { others: 2.0, want: 1.0 };
        for _ in 0..20 {
            // It wants nothing, and so neither runs nor waits.
            assert_eq!(control.step(0.2, &busy.seen(control.weight(), 0.0)), None);
        }
        let mut seen = busy.seen(None, 1.0);
        for _ in 0..20 {
            seen = busy.seen(control.step(0.2, &seen), 1.0);
        }
        assert!(control.weight().is_some());
        let _ = (0..30).map(|_| control.step(0.2, &busy.seen(control.weight(), 0.0))).last();
        assert_eq!(control.weight(), None, "what has nothing to do any more has given it back");
    }

    /// Scans whose reads are limited never use their floor. Their weight grew without end, and they kept cores from important work.
    #[test]
    fn work_that_waits_for_something_else_most_of_the_time_gets_no_weight_for_cores_that_it_does_not_want() {
        let mut control = CpuFloor::default();
        let of = |share: f64| WINDOW.mul_f64(2.0 * share);
        let scan = CpuSeen { window: WINDOW, cores: 2, ran: of(0.06), waited: of(0.055), idle: None };
        assert!((0..100).all(|_| control.step(0.1, &scan).is_none()), "{control:?}");
        // Work that hardly gets a core is starved all the same.
        let starved = CpuSeen { ran: of(0.005), ..scan };
        assert!((0..4).map(|_| control.step(0.1, &starved)).last().flatten().is_some());
        // Eight of them that a limit releases together wait for each other, beside cores that are mostly idle.
        let mut control = CpuFloor::default();
        let together = CpuSeen { ran: of(0.07), waited: of(0.2), idle: Some(of(0.75)), ..scan };
        assert!((0..100).all(|_| control.step(0.1, &together).is_none()), "{control:?}");
    }

    #[test]
    fn a_window_of_no_length_and_a_machine_that_nothing_can_be_taken_from_change_nothing_for_ever() {
        let mut control = CpuFloor::default();
        let nothing =
            CpuSeen { window: Duration::ZERO, cores: 2, ran: Duration::ZERO, waited: Duration::ZERO, idle: None };
        assert_eq!(control.step(0.2, &nothing), None);
        // It never gets its floor, as if its processes could run on one core only.
        let starved = CpuSeen { window: WINDOW, cores: 2, ran: Duration::ZERO, waited: WINDOW, idle: None };
        let most = (0..100).map(|_| control.step(0.5, &starved)).last().flatten();
        assert_eq!(most, Some(WEIGHT_MAX as u32));
    }
}
