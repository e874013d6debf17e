//! `ldsf`, largest dependency set first, and `bldsf`, the same in batches of shared requests.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Batch, Contender, Facts, LockScheduler, LockSchedulerKind, Rank, Requester};

pub(super) const KIND: LockSchedulerKind = LockSchedulerKind {
    name: "ldsf",
    about: "when a lock becomes free: the request, or all that can share it, for which most transactions wait, directly or by a chain",
    example: "ldsf",
    at_server: &[],
    make: |name| (name == KIND.name).then(|| LargestDependencySet::scheduler(KIND.name, |_| 1.0)),
};

pub(super) const BATCHED_KIND: LockSchedulerKind = LockSchedulerKind {
    name: "bldsf",
    about: "as ldsf, but of those that can share it only as many as let most transactions proceed per expected time",
    example: "bldsf",
    at_server: &[],
    make: |name| (name == BATCHED_KIND.name).then(|| LargestDependencySet::scheduler(BATCHED_KIND.name, delay)),
};

/// `f(k)`: how much longer the last of `k` transactions takes than one of them, on average. It is 1 for one, less than
/// `k` for more, and grows ever more slowly. The paper leaves its form open. For exponential times it would be the
/// harmonic number of `k`, from which this differs by at most 27 % up to 64.
fn delay(together: usize) -> f64 {
    (1.0 + together as f64).log2()
}

/// Grants a lock where most transactions can proceed: Tian and others (VLDB 2018). LDSF is their algorithm 1, bLDSF their
/// algorithm 2.
///
/// The dependency set `g(t)` of a transaction is itself, and every transaction that waits for a lock that one of the set
/// holds. When a lock becomes free, `p` is the largest `|g(t)|` of the requests that cannot share it. Of those that can,
/// `q` is the largest `|g(t1) ∪ … ∪ g(tk)| / f(k)` of a batch. The batch is granted if `q ≥ p`, and otherwise the one
/// request. In LDSF `f` is 1, so that the batch is all of them. Algorithm 1 is printed with its two results exchanged.
/// The text around it, and algorithm 2, have them as here.
///
/// To find the best batch is to solve a covering problem. Only the batches of the `k` largest sets are compared, which is
/// exact if the sets have nothing in common. If every request can share the lock, all are granted, because none would
/// gain if some waited.
///
/// Many requests may overtake one with few dependents again and again. Nothing bounds its wait.
///
/// T1 holds a row; T2, and then T3, wait for it. T4 waits for another row, which T3 holds. T1 releases its row: T3 is
/// served, because T4 depends on it.
#[derive(Debug)]
struct LargestDependencySet {
    name: &'static str,
    /// `f`, of a number of transactions from 1.
    delay: fn(usize) -> f64,
}

/// Requests that can share the lock, and how many transactions they let proceed per expected time.
struct SharedBatch {
    members: Vec<usize>,
    speed: f64,
}

impl LargestDependencySet {
    fn scheduler(name: &'static str, delay: fn(usize) -> f64) -> Arc<dyn LockScheduler> {
        Arc::new(LargestDependencySet { name, delay })
    }

    /// The best batch of a group. Of equal ones the larger, because it lets more transactions run at once.
    fn best_of_group(&self, contenders: &[Contender], group: u8) -> SharedBatch {
        let mut members: Vec<usize> = (0..contenders.len()).filter(|at| contenders[*at].group == Some(group)).collect();
        members.sort_by_key(|at| Reverse(contenders[*at].dependents.len()));
        let mut dependents: BTreeSet<u32> = BTreeSet::new();
        let (mut best, mut speed) = (0, 0.0);
        for (at, member) in members.iter().enumerate() {
            dependents.extend(&contenders[*member].dependents);
            let of_these = dependents.len() as f64 / (self.delay)(at + 1);
            if of_these >= speed {
                (best, speed) = (at + 1, of_these);
            }
        }
        members.truncate(best);
        SharedBatch { members, speed }
    }
}

/// The request with most dependents among those that `counts` selects; of equals the first to arrive.
fn largest(contenders: &[Contender], counts: impl Fn(&Contender) -> bool) -> Option<usize> {
    let places = (0..contenders.len()).filter(|at| counts(&contenders[*at]));
    places.min_by_key(|at| Reverse(contenders[*at].dependents.len()))
}

impl LockScheduler for LargestDependencySet {
    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }

    fn rank(&self, _requester: &Requester) -> Rank {
        Rank::REST
    }

    fn facts(&self) -> Facts {
        Facts::Dependents
    }

    fn choose(&self, contenders: &[Contender]) -> Batch {
        let groups: BTreeSet<u8> = contenders.iter().filter_map(|contender| contender.group).collect();
        let batches = groups.into_iter().map(|group| (group, self.best_of_group(contenders, group)));
        let shared = batches.max_by(|(_, a), (_, b)| a.speed.total_cmp(&b.speed));
        let alone = largest(contenders, |contender| contender.group.is_none());
        let size = alone.map_or(0.0, |at| contenders[at].dependents.len() as f64);
        match shared {
            Some((group, SharedBatch { members, speed })) if speed >= size => {
                let then = largest(contenders, |contender| contender.group != Some(group));
                let granted = if then.is_some() { members } else { (0..contenders.len()).collect() };
                Batch { granted, then }
            }
            _ => Batch { granted: alone.into_iter().collect(), then: None },
        }
    }

    fn leaves_holders_alone(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::contenders;
    use super::*;
    use crate::lock_scheduler;

    /// What `ldsf` and `bldsf` grant first and second.
    fn check(groups: &str, dependents: &[&[u32]], ldsf: (&[usize], Option<usize>), bldsf: (&[usize], Option<usize>)) {
        let contenders = contenders(groups, dependents);
        for (name, (granted, then)) in [("ldsf", ldsf), ("bldsf", bldsf)] {
            let scheduler = lock_scheduler(name).expect("listed");
            let expect = Batch { granted: granted.to_vec(), then };
            assert_eq!(scheduler.choose(&contenders), expect, "{name} {groups} {dependents:?}");
        }
    }

    #[test]
    fn the_largest_set_goes_first_and_among_equals_the_first_to_arrive() {
        check("xx", &[&[1], &[2, 9]], (&[1], None), (&[1], None));
        check("xx", &[&[1], &[2]], (&[0], None), (&[0], None));
        check("xxx", &[&[1], &[2, 8], &[3, 9]], (&[1], None), (&[1], None));
    }

    #[test]
    fn shared_requests_count_together_and_win_a_tie() {
        check("xs", &[&[1], &[2]], (&[1], Some(0)), (&[1], Some(0)));
        // 3 to 2; per expected time at most 3 / 2 to 2.
        check("xsss", &[&[1, 9], &[2], &[3], &[4]], (&[1, 2, 3], Some(0)), (&[0], None));
        // Those that depend on both count once.
        check("xss", &[&[1, 7, 8], &[2, 9], &[3, 9]], (&[1, 2], Some(0)), (&[0], None));
        check("xss", &[&[1, 7, 8, 6], &[2, 9], &[3, 9]], (&[0], None), (&[0], None));
    }

    #[test]
    fn a_batch_is_as_large_as_it_is_fast() {
        // One set of 4 and two of 1: 4 / 1, 5 / 1.58, 6 / 2.
        let dependents: [&[u32]; 4] = [&[1, 2, 3], &[4], &[5, 6, 7, 8], &[9]];
        check("xsss", &dependents, (&[2, 1, 3], Some(0)), (&[2], Some(0)));
        // Sets of 4 and 3: 4 / 1 and 7 / 1.58, which is more.
        let dependents: [&[u32]; 3] = [&[1], &[4, 5, 6], &[7, 8, 9, 10]];
        check("xss", &dependents, (&[2, 1], Some(0)), (&[2, 1], Some(0)));
    }

    #[test]
    fn where_all_can_share_all_are_granted() {
        check("ss", &[&[1], &[2, 3, 4, 5]], (&[0, 1], None), (&[0, 1], None));
    }

    #[test]
    fn groups_that_exclude_each_other_compete() {
        let dependents: [&[u32]; 3] = [&[1], &[2, 7], &[3, 8, 9]];
        check("rri", &dependents, (&[1, 0], Some(2)), (&[2], Some(1)));
    }

    #[test]
    fn the_delay_is_one_for_one_and_below_the_number_of_transactions() {
        assert_eq!(delay(1), 1.0);
        let mut harmonic = 1.0;
        for together in 2..=64 {
            harmonic += 1.0 / together as f64;
            assert!(delay(together) < together as f64 && delay(together) > delay(together - 1));
            assert!((delay(together) / harmonic - 1.0).abs() < 0.27, "{together}: {} {harmonic}", delay(together));
        }
    }
}
