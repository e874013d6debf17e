//! `nprio`: non-preemptive priority queues.

use super::{ByPriority, LockSchedulerKind, Verdict};

/// Serves high-priority waiters before low-priority ones, and takes nothing from holders. NP-LQ of MW 2.7.2, NPrio of
/// MW 3.6.1.
///
/// Low L holds a row, another low transaction waits for it, and high H asks for it too: H is served second, when L
/// ends.
pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "nprio",
    about: "the most urgent waiter first",
    example: "nprio",
    at_server: &[],
    make: |name| (name == "nprio").then(|| ByPriority::scheduler("nprio", Verdict::Wait)),
};
