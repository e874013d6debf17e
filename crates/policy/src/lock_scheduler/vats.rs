//! `vats`, variance-aware transaction scheduling: the eldest transaction first.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Batch, Contender, Facts, LockScheduler, LockSchedulerKind, Rank, Requester};

pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "vats",
    about: "when a lock becomes free: the transaction that began first",
    example: "vats",
    at_server: &[],
    make: |name| (name == "vats").then(|| Arc::new(EldestFirst) as _),
};

/// Serves the eldest transaction first, so that transactions take equally long: VATS of Huang and others (SIGMOD
/// 2017). The eldest shares the lock with the next ones in age, up to the first that cannot share it. A transaction that
/// was rolled back is as old as its present attempt.
///
/// T1, T2 and T3 began in this order. T3 began to wait for a row before T2, and T1 releases it: T2 is served.
#[derive(Debug)]
pub(super) struct EldestFirst;

impl LockScheduler for EldestFirst {
    fn name(&self) -> Cow<'static, str> {
        KIND.name.into()
    }

    fn rank(&self, _requester: &Requester) -> Rank {
        Rank::REST
    }

    fn facts(&self) -> Facts {
        Facts::Ages
    }

    fn choose(&self, contenders: &[Contender]) -> Batch {
        let mut granted: Vec<usize> = (0..contenders.len()).collect();
        granted.sort_by_key(|at| contenders[*at].began);
        let group = granted.first().and_then(|eldest| contenders[*eldest].group);
        let joins = |at: &usize| group.is_some() && contenders[*at].group == group;
        let together = granted.iter().skip(1).position(|at| !joins(at)).map_or(granted.len(), |others| others + 1);
        let then = granted.get(together).copied();
        granted.truncate(together);
        Batch { granted, then }
    }

    fn leaves_holders_alone(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::contenders;
    use super::*;

    fn check(groups: &str, began: &[u64], granted: &[usize], then: Option<usize>) {
        let mut contenders = contenders(groups, &vec![&[][..]; groups.len()]);
        contenders.iter_mut().zip(began).for_each(|(contender, began)| contender.began = *began);
        let expect = Batch { granted: granted.to_vec(), then };
        assert_eq!(EldestFirst.choose(&contenders), expect, "{groups} {began:?}");
    }

    #[test]
    fn the_eldest_and_those_that_can_join_it_before_one_that_cannot() {
        check("xx", &[8, 7], &[1], Some(0));
        check("xs", &[7, 8], &[0], Some(1));
        check("ss", &[8, 7], &[1, 0], None);
        check("sxss", &[3, 2, 1, 4], &[2], Some(1));
        check("sxss", &[2, 3, 1, 4], &[2, 0], Some(1));
        check("sri", &[2, 3, 1], &[2], Some(0));
    }
}
