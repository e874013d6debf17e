//! `pow`, Preempt-On-Wait: priority queues, and a transaction that blocks a high-priority one is rolled back when it
//! waits itself.

use super::{ByPriority, LockSchedulerKind, Verdict};
use crate::PreemptionKind;

/// Serves waiters as `nprio` does, and rolls a low-priority transaction that blocks a high-priority one back if and
/// only if it waits for a lock itself, then or later. MW 3.8.1.
///
/// A holder that does not wait ends soon, so rolling it back would gain little and lose much. A holder that waits
/// does not end soon (MW 3.7: a transaction that never waits lives an eighteenth of the mean).
///
/// The example of MW 3.8.1: low L1, L2 and L3 hold a row in shared mode; L1 waits for another lock, L2 will wait for
/// one, and L3 will not. High H asks for the row in exclusive mode. L1 is rolled back at once; L2 when it begins to
/// wait, before it sleeps; L3 ends undisturbed.
pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "pow",
    about: "the most urgent waiter first; a transaction that blocks a more urgent one is rolled back if it waits itself, then or later",
    example: "pow",
    at_server: &[
        PreemptionKind {
            name: "pow",
            about: "a transaction that blocks a more urgent one and waits itself is rolled back",
            example: "pow",
            acts: true,
        },
        PreemptionKind { name: "track", about: "as pow, but it is only counted", example: "track", acts: false },
    ],
    make: |name| (name == "pow").then(|| ByPriority::scheduler("pow", Verdict::PreemptIfWaiting)),
};
