//! `cpu-prio`: high-priority threads first.

use super::{CpuScheduler, nice_by_priority};
use crate::Priority;

/// Threads of high priority get nearly all of a core that they and others want. CPU-Prio of MW 2.7.2.
///
/// A high-priority transaction that waits for a lock gains nothing: its holder may be a thread that gets no core.
/// [`cpu-prio-inherit`](super::cpu_prio_inherit) solves this.
///
/// ```
/// use plimsoll_policy::{CpuVerdict, Priority, Requester, Stance, cpu_scheduler};
///
/// let cpu_prio = cpu_scheduler("cpu-prio").expect("listed");
/// assert_eq!((cpu_prio.nice(Priority::LOW), cpu_prio.nice(Priority::HIGH)), (19, 0));
/// let requester = Requester { priority: Priority::HIGH, rollbacks: 0 };
/// let holder = Stance { priority: Priority::LOW, waiting: false, rollbacks: 0 };
/// assert_eq!(cpu_prio.verdict(&requester, &holder), CpuVerdict::Wait);
/// ```
#[derive(Debug)]
pub(super) struct CpuPrio;

impl CpuScheduler for CpuPrio {
    fn name(&self) -> &'static str {
        "cpu-prio"
    }

    fn about(&self) -> &'static str {
        "high-priority threads first"
    }

    fn nice(&self, priority: Priority) -> i32 {
        nice_by_priority(priority)
    }

    fn leaves_holders_alone(&self) -> bool {
        true
    }
}
