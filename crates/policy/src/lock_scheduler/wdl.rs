//! `wdl`, wait-depth limited: no transaction waits for a waiter.

use std::borrow::Cow;
use std::sync::Arc;

use super::{LockScheduler, LockSchedulerKind, Rank, Requester, Stance, Verdict};

pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "wdl",
    about: "first come, first served; a transaction that waits and is waited for is rolled back",
    example: "wdl",
    at_server: &[],
    make: |name| (name == "wdl").then(|| Arc::new(WaitDepthLimited) as _),
};

/// Knows no priorities. In a chain T1 → T2 → T3 of transactions that wait for each other T2 is rolled back, so that no
/// chain has more than two. WDL of MW 3.8.3, after Thomasian.
///
/// Under contention every transaction is rolled back again and again: more than 50 times each in MW.
///
/// T2 holds a row and waits for T3; T1 begins to wait for T2's row. It makes no difference which of the two waits came
/// first, nor which transaction is more urgent.
#[derive(Debug)]
pub(super) struct WaitDepthLimited;

impl LockScheduler for WaitDepthLimited {
    fn name(&self) -> Cow<'static, str> {
        KIND.name.into()
    }

    fn rank(&self, _requester: &Requester) -> Rank {
        Rank::default()
    }

    fn verdict(&self, _requester: &Requester, _holder: &Stance) -> Verdict {
        Verdict::PreemptIfWaiting
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pairs;
    use super::*;

    #[test]
    fn priority_makes_no_difference() {
        for (requester, holder) in pairs() {
            assert_eq!(WaitDepthLimited.verdict(&requester, &holder), Verdict::PreemptIfWaiting);
            assert_eq!(WaitDepthLimited.rank(&requester), Rank(0));
        }
    }
}
