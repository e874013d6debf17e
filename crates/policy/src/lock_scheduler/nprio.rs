//! `nprio`: non-preemptive priority queues.

use super::{LockScheduler, Rank, Requester};
use crate::Priority;

/// Serves high-priority waiters before low-priority ones, and takes nothing from holders. NP-LQ of MW 2.7.
#[derive(Debug)]
pub(super) struct NPrio;

impl LockScheduler for NPrio {
    fn name(&self) -> &'static str {
        "nprio"
    }

    fn rank(&self, requester: &Requester) -> Rank {
        match requester.priority {
            Priority::High => Rank(0),
            Priority::Low => Rank(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Stance, Verdict};

    #[test]
    fn high_goes_first_and_nobody_is_preempted() {
        let [low, high] = Priority::ALL.map(|priority| Requester { priority, rollbacks: 0 });
        assert!(NPrio.rank(&high) < NPrio.rank(&low));
        let holder = Stance { priority: Priority::Low, waiting: true, rollbacks: 0 };
        assert_eq!(NPrio.verdict(&high, &holder), Verdict::Wait);
    }
}
