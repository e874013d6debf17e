//! `cpu-prio-inherit`: as `cpu-prio`, and a thread that blocks a high-priority transaction gets its CPU share.

use super::{CpuScheduler, CpuVerdict, nice_by_priority};
use crate::{Priority, Requester, Stance};

/// As `cpu-prio`, but a low-priority holder that blocks a high-priority transaction gets its share of the cores.
/// CPU-Prio-Inherit of MW 2.7.2.
///
/// ```
/// use plimsoll_policy::{CpuVerdict, Priority, Requester, Stance, cpu_scheduler};
///
/// let inherit = cpu_scheduler("cpu-prio-inherit").expect("listed");
/// let requester = Requester { priority: Priority::HIGH, rollbacks: 0 };
/// let holder = |priority| Stance { priority, waiting: false, rollbacks: 0 };
/// assert_eq!(inherit.verdict(&requester, &holder(Priority::LOW)), CpuVerdict::Inherit);
/// // It has what it is to get.
/// assert_eq!(inherit.verdict(&requester, &holder(Priority::HIGH)), CpuVerdict::Wait);
/// ```
#[derive(Debug)]
pub(super) struct CpuPrioInherit;

impl CpuScheduler for CpuPrioInherit {
    fn name(&self) -> &'static str {
        "cpu-prio-inherit"
    }

    fn about(&self) -> &'static str {
        "high-priority threads first; a thread that blocks one becomes one"
    }

    fn nice(&self, priority: Priority) -> i32 {
        nice_by_priority(priority)
    }

    fn verdict(&self, requester: &Requester, holder: &Stance) -> CpuVerdict {
        if holder.priority < requester.priority { CpuVerdict::Inherit } else { CpuVerdict::Wait }
    }
}
