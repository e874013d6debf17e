//! CPU scheduling: the CPU share of a transaction's thread, and what happens to a holder that blocks a requester.
//!
//! A transaction needs a core before it can ask for anything else, so scheduling cores also schedules disks
//! and locks (MW 2.7.3). A host gives the thread that works for a transaction the [`CpuScheduler::nice`]
//! value of its **CPU priority**, and asks [`CpuScheduler::verdict`] when it asks the [lock
//! scheduler](crate::LockScheduler): when a holder blocks a requester. It carries out both verdicts, as
//! [`CpuVerdict::joined`] says.
//!
//! The CPU priority of a transaction is the higher of its present priority, which lock schedulers raise, and the
//! priority inherited here. Inheritance here changes no queue.
//!
//! | name | nice | verdict on a holder |
//! |---|---|---|
//! | none | all equal | wait |
//! | cpu-prio | low after all others | wait |
//! | cpu-prio-inherit | as cpu-prio | `Inherit` when low blocks high |
//! | p-cpu | as cpu-prio | `Preempt` when low blocks high |
//!
//! "Low blocks high" is: the holder's CPU priority is below the requester's.
//!
//! Source: McWherter, *Sharing DBMS among Multiple Users while Providing Performance Isolation*, 2.7.2.

use std::fmt::Debug;

use crate::{Priority, Requester, Stance, Verdict};

/// What a host must do about the thread of a transaction that blocks a requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuVerdict {
    /// Nothing: the requester waits.
    Wait,
    /// Give the holder the requester's CPU priority for the rest of its life, and so on along the chain. Queues stay as
    /// they are.
    Inherit,
    /// Roll the holder back at once.
    Preempt,
}

impl CpuVerdict {
    /// The verdict on the holder where the lock scheduler said `lock`: `Preempt` if either returns it, since no verdict is
    /// stronger, and otherwise the lock scheduler's. [`CpuVerdict::Inherit`] goes with every verdict that leaves
    /// the holder running, for it acts on its thread alone.
    ///
    /// ```
    /// use plimsoll_policy::{CpuVerdict, Verdict};
    ///
    /// assert_eq!(CpuVerdict::Preempt.joined(Verdict::Inherit), Verdict::Preempt);
    /// assert_eq!(CpuVerdict::Inherit.joined(Verdict::PreemptIfWaiting), Verdict::PreemptIfWaiting);
    /// ```
    #[must_use]
    pub fn joined(self, lock: Verdict) -> Verdict {
        match self {
            CpuVerdict::Preempt => Verdict::Preempt,
            CpuVerdict::Wait | CpuVerdict::Inherit => lock,
        }
    }
}

/// Decides the CPU shares of threads, and the fate of holders that block others.
///
/// Implementations are pure: equal facts give equal answers. In `requester` and `holder` the priority is the CPU
/// priority.
pub trait CpuScheduler: Debug + Send + Sync {
    /// The name used in experiment files and results.
    fn name(&self) -> &'static str;

    /// A short description, for people.
    fn about(&self) -> &'static str;

    /// The nice value (`nice(2)`, higher is less) of a thread that works for a transaction of that CPU priority, in a
    /// process whose own is 0; where it is not, the two are added. Between 0 and 19.
    fn nice(&self, priority: Priority) -> i32;

    /// The verdict on `holder`, which blocks `requester`.
    fn verdict(&self, requester: &Requester, holder: &Stance) -> CpuVerdict {
        let _ = (requester, holder);
        CpuVerdict::Wait
    }

    /// Whether every verdict is [`CpuVerdict::Wait`], so that a host need not ask.
    fn leaves_holders_alone(&self) -> bool {
        false
    }
}

/// All CPU schedulers, in the order of the table in the module documentation.
pub static CPU_SCHEDULERS: &[&dyn CpuScheduler] = &[&NONE, &CPU_PRIO, &CPU_PRIO_INHERIT, &P_CPU];

/// The CPU scheduler of that name, if there is one.
pub fn cpu_scheduler(name: &str) -> Option<&'static dyn CpuScheduler> {
    CPU_SCHEDULERS.iter().copied().find(|scheduler| scheduler.name() == name)
}

/// The nice value of work below high priority, under all schedulers that use priorities; high priority has 0.
///
/// MW 2.7.2 has -20 and +20. Values below 0 are for administrators, and a machine where the threads of a database go
/// before everything else is hard to stop; with 0 and 19 high priority still has 68 times the weight of low (1024 to 15
/// in Linux, which gives each step a factor of about 1.25).
const NICE_OF_LOW: i32 = 19;

/// A scheduler with two nice values, and one verdict on every holder below the requester.
#[derive(Debug)]
struct ByPriority {
    name: &'static str,
    about: &'static str,
    nice_of_low: i32,
    on_lower_holder: CpuVerdict,
}

impl CpuScheduler for ByPriority {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn nice(&self, priority: Priority) -> i32 {
        if priority >= Priority::HIGH { 0 } else { self.nice_of_low }
    }

    fn verdict(&self, requester: &Requester, holder: &Stance) -> CpuVerdict {
        if holder.priority < requester.priority { self.on_lower_holder } else { CpuVerdict::Wait }
    }

    fn leaves_holders_alone(&self) -> bool {
        self.on_lower_holder == CpuVerdict::Wait
    }
}

/// Every thread is equal. The "Default" of MW 2.7.3.
static NONE: ByPriority =
    ByPriority { name: "none", about: "every thread is equal", nice_of_low: 0, on_lower_holder: CpuVerdict::Wait };

/// Threads of high priority get nearly all of a core that they and others want. CPU-Prio of MW 2.7.2.
///
/// A high-priority transaction that waits for a lock gains nothing: its holder may be a thread that gets no core.
/// `cpu-prio-inherit` solves this.
static CPU_PRIO: ByPriority = ByPriority {
    name: "cpu-prio",
    about: "high-priority threads first",
    nice_of_low: NICE_OF_LOW,
    on_lower_holder: CpuVerdict::Wait,
};

/// As `cpu-prio`, but a low-priority holder that blocks a high-priority transaction gets its share of the cores.
/// CPU-Prio-Inherit of MW 2.7.2.
static CPU_PRIO_INHERIT: ByPriority = ByPriority {
    name: "cpu-prio-inherit",
    about: "high-priority threads first; a thread that blocks one becomes one",
    nice_of_low: NICE_OF_LOW,
    on_lower_holder: CpuVerdict::Inherit,
};

/// As `cpu-prio`, but a low-priority holder that blocks a high-priority transaction is rolled back. P-CPU of MW 2.7.2.
static P_CPU: ByPriority = ByPriority {
    name: "p-cpu",
    about: "high-priority threads first; a transaction that blocks one is rolled back",
    nice_of_low: NICE_OF_LOW,
    on_lower_holder: CpuVerdict::Preempt,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_found_by_its_name_and_documented() {
        let documentation = include_str!("cpu_scheduler.rs");
        let rows: Vec<&str> = documentation.lines().filter(|line| line.starts_with("//! | ")).skip(1).collect();
        assert_eq!(rows.len(), CPU_SCHEDULERS.len());
        for (scheduler, row) in CPU_SCHEDULERS.iter().zip(rows) {
            assert_eq!(cpu_scheduler(scheduler.name()).map(CpuScheduler::name), Some(scheduler.name()));
            assert!(row.starts_with(&format!("//! | {} |", scheduler.name())), "{row}");
        }
        assert!(cpu_scheduler("fifo").is_none());
    }

    #[test]
    fn nice_values_are_within_what_nice_takes_and_never_favour_the_lower_level() {
        for scheduler in CPU_SCHEDULERS {
            let values: Vec<i32> =
                (0..=254).filter_map(Priority::of_level).map(|level| scheduler.nice(level)).collect();
            assert!(values.iter().all(|value| (0..=19).contains(value)), "{scheduler:?}");
            assert!(values.is_sorted_by(|low, high| low >= high), "{scheduler:?}");
        }
    }

    #[test]
    fn each_has_its_nice_value_of_low_and_its_verdict_where_low_blocks_high() {
        let [low, high] = Priority::USUAL;
        for (name, nice_of_low, on_low) in [
            ("none", 0, CpuVerdict::Wait),
            ("cpu-prio", 19, CpuVerdict::Wait),
            ("cpu-prio-inherit", 19, CpuVerdict::Inherit),
            ("p-cpu", 19, CpuVerdict::Preempt),
        ] {
            let scheduler = cpu_scheduler(name).expect("listed");
            assert_eq!((scheduler.nice(low), scheduler.nice(high)), (nice_of_low, 0), "{name}");
            let verdict = |requester: Priority, holder: Priority| {
                let holder = Stance { priority: holder, waiting: false, rollbacks: 0 };
                scheduler.verdict(&Requester { priority: requester, rollbacks: 0 }, &holder)
            };
            assert_eq!(verdict(high, low), on_low, "{name}");
            assert_eq!([verdict(low, low), verdict(high, high)], [CpuVerdict::Wait; 2], "{name}");
        }
    }

    #[test]
    fn who_leaves_holders_alone_waits_whoever_asks_and_the_others_do_not() {
        let [low, high] = Priority::USUAL;
        let requester = Requester { priority: high, rollbacks: 0 };
        let holder = Stance { priority: low, waiting: true, rollbacks: 0 };
        for scheduler in CPU_SCHEDULERS {
            let waits = scheduler.verdict(&requester, &holder) == CpuVerdict::Wait;
            assert_eq!(waits, scheduler.leaves_holders_alone(), "{scheduler:?}");
        }
    }
}
