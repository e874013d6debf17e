//! `standard`: first come, first served.

use super::{LockScheduler, Rank, Requester};

/// Serves every lock's queue in order of arrival and lets holders be. The baseline of MW 2.7.
#[derive(Debug)]
pub(super) struct Standard;

impl LockScheduler for Standard {
    fn name(&self) -> &'static str {
        "standard"
    }

    fn rank(&self, _requester: &Requester) -> Rank {
        Rank(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Priority, Stance, Verdict};

    #[test]
    fn priority_makes_no_difference() {
        let [low, high] = Priority::ALL.map(|priority| Requester { priority, rollbacks: 0 });
        assert_eq!(Standard.rank(&low), Standard.rank(&high));
        let holder = Stance { priority: Priority::Low, waiting: true, rollbacks: 0 };
        assert_eq!(Standard.verdict(&high, &holder), Verdict::Wait);
    }
}
