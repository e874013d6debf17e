//! The rules of schedulers that choose among the waiters of a lock that becomes free, as naively as possible.

use std::collections::BTreeSet;

use plimsoll_engine::lock::Mode;

use super::lock_host::Who;
use super::specification::{Specification, Waiter};

/// Which waiters are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The eldest transaction (VATS, Huang and others, SIGMOD 2017), with those next in age that share with it.
    Eldest,
    /// All that share, or one that does not: the side with the larger dependency set (LDSF, Tian and others, VLDB 2018).
    LargestDependencySet,
    /// The same with the best batch of those that share, whose set counts by its expected delay (bLDSF).
    FastestBatch,
}

impl Choice {
    /// Sets the places of all waiters of a free lock.
    pub fn place(self, specification: &Specification, waiters: &mut [Waiter]) {
        waiters.sort_by_key(|waiter| waiter.arrival);
        let (chosen, next) = match self {
            Choice::Eldest => eldest(specification, waiters),
            Choice::LargestDependencySet => largest(specification, waiters, |_| 1.0),
            Choice::FastestBatch => largest(specification, waiters, |k| (k as f64 + 1.0).log2()),
        };
        for waiter in waiters {
            waiter.place = match waiter.who {
                who if chosen.contains(&who) => 0,
                who if next == Some(who) => 1,
                _ => 2,
            };
        }
    }
}

/// Whether two requests can share the lock, for these rules: tables that are read do not occur here.
fn share(one: &Waiter, other: &Waiter) -> bool {
    let is_intention = |mode| matches!(mode, Mode::IS | Mode::IX);
    (is_intention(one.mode) && is_intention(other.mode)) || (one.mode == Mode::S && other.mode == Mode::S)
}

/// The waiters to grant, and the one to be ahead of the rest.
type Chosen = (Vec<Who>, Option<Who>);

fn eldest(specification: &Specification, waiters: &[Waiter]) -> Chosen {
    let mut by_age = waiters.to_vec();
    by_age.sort_by_key(|waiter| specification.transactions[waiter.who].began);
    let Some(first) = by_age.first().copied() else { return (vec![], None) };
    let rest = by_age.iter().skip(1);
    let joined: Vec<Who> = rest.take_while(|waiter| share(&first, waiter)).map(|waiter| waiter.who).collect();
    let next = by_age.get(1 + joined.len()).map(|waiter| waiter.who);
    ([vec![first.who], joined].concat(), next)
}

fn largest(specification: &Specification, waiters: &[Waiter], delay: impl Fn(usize) -> f64) -> Chosen {
    let set = |who: Who| dependents(specification, who);
    let biggest = |counts: &dyn Fn(&Waiter) -> bool| {
        let mut best: Option<Who> = None;
        for waiter in waiters.iter().filter(|waiter| counts(waiter)) {
            if best.is_none_or(|best| set(waiter.who).len() > set(best).len()) {
                best = Some(waiter.who);
            }
        }
        best
    };
    let alone = biggest(&|waiter| !share(waiter, waiter));
    let mut best: (f64, Chosen) = match alone {
        Some(who) => (set(who).len() as f64, (vec![who], None)),
        None => (0.0, (vec![], None)),
    };
    // Readers last, so that they win over inserters that are as fast.
    for mode in [Mode::IX, Mode::S] {
        let one = Waiter { who: 0, mode, is_conversion: false, arrival: 0, place: 2 };
        let mut batch: Vec<Who> =
            waiters.iter().filter(|waiter| share(waiter, &one)).map(|waiter| waiter.who).collect();
        batch.sort_by_key(|who| std::cmp::Reverse(set(*who).len()));
        let all = batch.clone();
        let next = biggest(&|waiter| !share(waiter, &one));
        for k in 1..=batch.len() {
            let union: BTreeSet<Who> = batch[..k].iter().flat_map(|who| set(*who)).collect();
            let speed = union.len() as f64 / delay(k);
            if speed >= best.0 {
                let chosen = if next.is_some() { all[..k].to_vec() } else { all.clone() };
                best = (speed, (chosen, next));
            }
        }
    }
    best.1
}

/// A transaction, and all that wait for a thing that one of them holds, until none is new.
fn dependents(specification: &Specification, who: Who) -> BTreeSet<Who> {
    let mut found = BTreeSet::from([who]);
    loop {
        let is_held = |lock: &super::specification::Lock| lock.grants.keys().any(|holder| found.contains(holder));
        let held = specification.locks.values().filter(|lock| is_held(lock));
        let more: BTreeSet<Who> = held.flat_map(|lock| lock.waiters.iter().map(|waiter| waiter.who)).collect();
        if more.is_subset(&found) {
            return found;
        }
        found.extend(more);
    }
}
