//! `standard`: first come, first served.

use std::borrow::Cow;
use std::sync::Arc;

use super::{LockScheduler, LockSchedulerKind, Rank, Requester};
use crate::PreemptionKind;

pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "standard",
    about: "first come, first served",
    example: "standard",
    at_server: &[PreemptionKind {
        name: "never",
        about: "no transaction is rolled back",
        example: "never",
        acts: false,
    }],
    make: |name| (name == "standard").then(|| Arc::new(Standard) as _),
};

/// Serves every lock's queue in order of arrival and leaves holders alone. Standard of MW 3.6.1, the baseline of the
/// others.
///
/// Low L holds a row, another low transaction waits for it, and high H asks for it too: H is served third.
#[derive(Debug)]
pub(super) struct Standard;

impl LockScheduler for Standard {
    fn name(&self) -> Cow<'static, str> {
        KIND.name.into()
    }

    fn rank(&self, _requester: &Requester) -> Rank {
        Rank(0)
    }

    fn leaves_holders_alone(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pairs;
    use super::*;
    use crate::Verdict;

    #[test]
    fn priority_makes_no_difference() {
        for (requester, holder) in pairs() {
            assert_eq!(Standard.rank(&requester), Rank(0));
            assert_eq!(Standard.verdict(&requester, &holder), Verdict::Wait);
        }
    }
}
