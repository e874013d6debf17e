//! `nprio`: non-preemptive priority queues.

use std::borrow::Cow;
use std::sync::Arc;

use super::{LockScheduler, LockSchedulerKind, Rank, Requester};

pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "nprio",
    about: "the most urgent waiter first",
    example: "nprio",
    make: |name| (name == "nprio").then(|| Arc::new(NPrio) as _),
};

/// Serves high-priority waiters before low-priority ones, and takes nothing from holders. NP-LQ of MW 2.7.2, NPrio of
/// MW 3.6.1.
///
/// Low L holds a row, another low transaction waits for it, and high H asks for it too: H is served second, when L
/// ends.
///
/// ```
/// use plimsoll_policy::{Priority, Requester, Stance, Verdict, lock_scheduler};
///
/// let nprio = lock_scheduler("nprio").expect("listed");
/// let requester = |priority| Requester { priority, rollbacks: 0 };
/// let holder = Stance { priority: Priority::LOW, waiting: false, rollbacks: 0 };
///
/// assert!(nprio.rank(&requester(Priority::HIGH)) < nprio.rank(&requester(Priority::LOW)));
/// assert_eq!(nprio.verdict(&requester(Priority::HIGH), &holder), Verdict::Wait);
/// ```
#[derive(Debug)]
pub(super) struct NPrio;

impl LockScheduler for NPrio {
    fn name(&self) -> Cow<'static, str> {
        KIND.name.into()
    }

    fn rank(&self, requester: &Requester) -> Rank {
        Rank::by_priority(requester.priority)
    }

    fn leaves_holders_alone(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_priority_scheduler;
    use super::*;
    use crate::Verdict;

    #[test]
    fn high_goes_first_and_nobody_is_preempted() {
        check_priority_scheduler(&NPrio, Verdict::Wait);
    }
}
