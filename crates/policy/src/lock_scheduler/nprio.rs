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

/// Serves high-priority waiters before low-priority ones, and takes nothing from holders. NP-LQ of MW 2.7.
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
    use super::*;
    use crate::{Priority, Stance, Verdict};

    #[test]
    fn high_goes_first_and_nobody_is_preempted() {
        let [low, high] = Priority::USUAL.map(|priority| Requester { priority, rollbacks: 0 });
        assert!(NPrio.rank(&high) < NPrio.rank(&low));
        let holder = Stance { priority: Priority::LOW, waiting: true, rollbacks: 0 };
        assert_eq!(NPrio.verdict(&high, &holder), Verdict::Wait);
    }
}
