//! `nprio`: non-preemptive priority queues.

use super::{ByPriority, LockSchedulerKind, Verdict};

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
pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "nprio",
    about: "the most urgent waiter first",
    example: "nprio",
    at_server: &[],
    make: |name| (name == "nprio").then(|| ByPriority::scheduler("nprio", Verdict::Wait)),
};
