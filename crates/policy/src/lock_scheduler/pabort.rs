//! `pabort`: priority queues, and a transaction that blocks a high-priority one is rolled back at once.

use super::{ByPriority, LockSchedulerKind, Verdict};
use crate::PreemptionKind;

/// Serves waiters as `nprio` does, and rolls a low-priority transaction back that blocks a high-priority one. P-LQ of
/// MW 2.7.2, PAbort (preemptive abort) of MW 3.6.1.
///
/// Its cost is work thrown away: a victim had done 75 to 90 % of a mean life (MW 3.7.2).
///
/// High H begins to wait for a row that low L holds. It makes no difference that L runs and may be nearly through.
pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "pabort",
    about: "the most urgent waiter first; a transaction that blocks a more urgent one is rolled back at once",
    example: "pabort",
    at_server: &[PreemptionKind {
        name: "pabort",
        about: "a transaction that blocks a more urgent one is rolled back",
        example: "pabort",
        acts: true,
    }],
    make: |name| (name == "pabort").then(|| ByPriority::scheduler("pabort", Verdict::Preempt)),
};
