//! `wdl`, wait-depth limited: no transaction waits for a waiter. `wdl-holders`: the same, if only waits for holders
//! count.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Blockers, LockScheduler, LockSchedulerKind, Rank, Requester, Stance, Verdict};

pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "wdl",
    about: "first come, first served; a transaction that waits and is waited for, also by a request behind it in a queue, is rolled back",
    example: "wdl",
    at_server: &[],
    make: |name| (name == "wdl").then(|| Arc::new(WaitDepthLimited { blockers: Blockers::HoldersAndQueue }) as _),
};

pub(super) const HOLDERS_KIND: LockSchedulerKind = LockSchedulerKind {
    name: "wdl-holders",
    about: "as wdl, but only a transaction that holds a lock is waited for",
    example: "wdl-holders",
    at_server: &[],
    make: |name| (name == "wdl-holders").then(|| Arc::new(WaitDepthLimited { blockers: Blockers::Holders }) as _),
};

/// Knows no priorities. In a chain T1 → T2 → T3 of transactions that wait for each other T2 is rolled back, so that no
/// chain has more than two. WDL of MW 3.8.3, after Thomasian.
///
/// The study does not say whether T1 waits for T2 if T2 holds nothing that T1 wants and is only ahead in the same queue.
/// Its result requires it: more than 50 rollbacks of each transaction, and no progress. Each request that joins the queue of
/// a hot row rolls back the one ahead, whose transaction comes back to do the same. If only holders count
/// (`wdl-holders`), the same load makes progress, because a transaction that waits in a queue mostly holds nothing that
/// others want. A test of the lock manager simulates both (`engine/tests/hot_rows.rs`).
///
/// T3 holds a row and T2 waits for it; T1 begins to wait for the same row. `wdl` rolls T2 back, `wdl-holders` none. T2
/// holds a second row, for which T1 begins to wait instead: either rolls T2 back. It makes no difference which of the
/// two waits came first, nor which transaction is more urgent.
#[derive(Debug)]
pub(super) struct WaitDepthLimited {
    blockers: Blockers,
}

impl LockScheduler for WaitDepthLimited {
    fn name(&self) -> Cow<'static, str> {
        match self.blockers {
            Blockers::HoldersAndQueue => KIND.name.into(),
            Blockers::Holders => HOLDERS_KIND.name.into(),
        }
    }

    fn rank(&self, _requester: &Requester) -> Rank {
        Rank::default()
    }

    fn blockers(&self) -> Blockers {
        self.blockers
    }

    fn verdict(&self, _requester: &Requester, _holder: &Stance) -> Verdict {
        Verdict::PreemptIfWaiting
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pairs;
    use super::*;
    use crate::{LOCK_SCHEDULERS, lock_scheduler};

    #[test]
    fn priority_makes_no_difference() {
        for blockers in [Blockers::Holders, Blockers::HoldersAndQueue] {
            let scheduler = WaitDepthLimited { blockers };
            for (requester, holder) in pairs() {
                assert_eq!(scheduler.verdict(&requester, &holder), Verdict::PreemptIfWaiting);
                assert_eq!(scheduler.rank(&requester), Rank(0));
            }
        }
    }

    #[test]
    fn wdl_alone_counts_requests_that_are_only_ahead_in_the_queue() {
        for kind in LOCK_SCHEDULERS {
            let blockers = lock_scheduler(kind.example).expect("listed").blockers();
            assert_eq!(blockers == Blockers::HoldersAndQueue, kind.name == "wdl", "{}", kind.name);
        }
    }
}
