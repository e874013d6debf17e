//! `standard`: first come, first served.

use std::borrow::Cow;
use std::sync::Arc;

use super::{LockScheduler, LockSchedulerKind, Rank, Requester};

pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "standard",
    about: "first come, first served",
    example: "standard",
    make: |name| (name == "standard").then(|| Arc::new(Standard) as _),
};

/// Serves every lock's queue in order of arrival and lets holders be. The baseline of MW 2.7.
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
    use super::*;
    use crate::{Priority, Stance, Verdict};

    #[test]
    fn priority_makes_no_difference() {
        let [low, high] = Priority::USUAL.map(|priority| Requester { priority, rollbacks: 0 });
        assert_eq!(Standard.rank(&low), Standard.rank(&high));
        let holder = Stance { priority: Priority::LOW, waiting: true, rollbacks: 0 };
        assert_eq!(Standard.verdict(&high, &holder), Verdict::Wait);
    }
}
