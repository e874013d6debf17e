//! `nprio-inherit`: priority queues, and a transaction that blocks a high-priority one inherits its priority.

use super::{ByPriority, LockSchedulerKind, Verdict};

/// Serves waiters as `nprio` does, and gives a low-priority transaction that blocks a high-priority one its priority
/// for the rest of its life, so that it waits less and is through sooner. NP-LQ-Inherit of MW 2.7.2, NPrioinher of MW
/// 3.6.1.
///
/// It is transitive: the holder asks again with its inherited priority, and finds its own holders below it.
///
/// Low L2 holds a row, low L1 holds another and waits for L2's, and high H begins to wait for L1's: L1 becomes high and
/// goes ahead of every low waiter for L2's row, and then L2 becomes high.
pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "nprio-inherit",
    about: "the most urgent waiter first; a transaction that blocks a more urgent one becomes as urgent",
    example: "nprio-inherit",
    at_server: &[],
    make: |name| (name == "nprio-inherit").then(|| ByPriority::scheduler("nprio-inherit", Verdict::Inherit)),
};
