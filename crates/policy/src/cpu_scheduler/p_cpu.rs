//! `p-cpu`: as `cpu-prio`, and a transaction that blocks a high-priority one is rolled back.

use super::{CpuScheduler, CpuVerdict, nice_by_priority};
use crate::{Priority, Requester, Stance};

/// As `cpu-prio`, but a low-priority holder that blocks a high-priority transaction is rolled back. P-CPU of MW 2.7.2.
///
/// ```
/// use plimsoll_policy::{CpuVerdict, Priority, Requester, Stance, cpu_scheduler};
///
/// let p_cpu = cpu_scheduler("p-cpu").expect("listed");
/// let requester = |priority| Requester { priority, rollbacks: 0 };
/// let holder = Stance { priority: Priority::LOW, waiting: false, rollbacks: 0 };
/// assert_eq!(p_cpu.verdict(&requester(Priority::HIGH), &holder), CpuVerdict::Preempt);
/// assert_eq!(p_cpu.verdict(&requester(Priority::LOW), &holder), CpuVerdict::Wait);
/// ```
#[derive(Debug)]
pub(super) struct PreemptiveCpu;

impl CpuScheduler for PreemptiveCpu {
    fn name(&self) -> &'static str {
        "p-cpu"
    }

    fn about(&self) -> &'static str {
        "high-priority threads first; a transaction that blocks one is rolled back"
    }

    fn nice(&self, priority: Priority) -> i32 {
        nice_by_priority(priority)
    }

    fn verdict(&self, requester: &Requester, holder: &Stance) -> CpuVerdict {
        if holder.priority < requester.priority { CpuVerdict::Preempt } else { CpuVerdict::Wait }
    }
}
