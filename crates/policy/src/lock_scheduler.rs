//! Lock scheduling: the order in which waiting requests for a lock are granted, and what happens to a holder that blocks them.
//!
//! A host (the engine's lock manager, or the governor) calls a scheduler at three moments:
//!
//! 1. **A request has to wait.** The host asks [`LockScheduler::rank`] where in the queue it goes: lower ranks are
//!    granted first, equal ranks in order of arrival. A conversion (a holder that asks for a stronger mode) is always
//!    ahead of every rank, because the lock cannot become free for another request before the conversion is granted. When a waiter's
//!    priority changes (it inherits), the host asks again.
//! 2. **A holder blocks the request**: its grant conflicts with the request, or it waits ahead to convert its grant. The
//!    host asks [`LockScheduler::verdict`] for each such pair, and carries out the [`Verdict`]. It asks when the
//!    pair arises (the request begins to wait, or another transaction is granted the lock ahead of it), and again when either
//!    priority has changed or the holder itself begins to wait. A scheduler whose [`LockScheduler::blockers`] are
//!    [`Blockers::HoldersAndQueue`] is asked about every request ahead in the queue, too.
//! 3. **A lock becomes free**: its last holder releases it, and several requests wait. If the scheduler needs
//!    [`Facts`], the host collects them for each of these requests, and asks [`LockScheduler::choose`] which ones to
//!    grant. Other schedulers are not asked, and the host collects nothing.
//!
//! A holder that was [promoted](crate::StarvationBound) is above every requester, and hosts never roll it back for a requester.
//!
//! The seven schedulers of the study, a variant of the last, and three from later work, which know no priorities:
//!
//! | name | rank | verdict on a holder |
//! |---|---|---|
//! | standard | all equal | wait |
//! | nprio | high before low | wait |
//! | nprio-inherit | as nprio | `Inherit` when low blocks high |
//! | pabort | as nprio | `Preempt` when low blocks high |
//! | pow | as nprio | `PreemptIfWaiting` when low blocks high |
//! | cr(d) | as nprio | `PreemptAfter(d)` when low blocks high |
//! | wdl | all equal | `PreemptIfWaiting`, for every requester; on requests ahead in the queue, too |
//! | wdl-holders | all equal | `PreemptIfWaiting`, for every requester |
//! | vats | by age, when the lock becomes free | wait |
//! | ldsf | by dependents, when the lock becomes free | wait |
//! | bldsf | by dependents for each unit of delay, when the lock becomes free | wait |
//!
//! "Low blocks high" is: the holder's present priority is below the requester's.
//!
//! Source: McWherter, *Sharing DBMS among Multiple Users while Providing Performance Isolation*, 2.7, 3.6, 3.8.
//! Of the last three: Huang and others, *A Top-Down Approach to Achieving Performance Predictability in Database
//! Systems*, SIGMOD 2017; Tian and others, *Contention-Aware Lock Scheduling for Transactional Databases*, VLDB 2018.

mod conditional_restart;
mod largest_dependency_set;
mod nprio;
mod nprio_inherit;
mod pabort;
mod pow;
mod standard;
mod vats;
mod wdl;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::{PreemptionKind, Priority};

/// A place in a lock's queue: lower is served first, equal places in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rank(pub u8);

impl Rank {
    /// The place of all requests that were not [chosen](LockScheduler::choose): behind those that were.
    pub const REST: Rank = Rank(u8::MAX);

    /// More urgent priorities get lower ranks.
    pub fn by_priority(priority: Priority) -> Self {
        Rank(u8::MAX - priority.level())
    }
}

/// The transaction that asks for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// Its present priority, inherited or promoted included.
    pub priority: Priority,
    /// How often its work has been rolled back for another transaction so far. A count.
    pub rollbacks: u32,
}

/// A transaction that blocks a requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stance {
    /// Its present priority, inherited or promoted included.
    pub priority: Priority,
    /// Whether it waits for some lock itself.
    pub waiting: bool,
    /// How often its work has been rolled back for another transaction so far. A count.
    pub rollbacks: u32,
}

/// The transactions about which a scheduler gives verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blockers {
    /// Those that hold the lock in a conflicting mode, or wait ahead to convert their grant.
    Holders,
    /// The holders, and every transaction whose request is ahead in the same queue: all for which the requester waits.
    HoldersAndQueue,
}

/// What a host must do about a transaction that blocks a requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Nothing: the requester waits.
    Wait,
    /// Give the holder the requester's priority for the rest of its life, and so on along the chain.
    Inherit,
    /// Roll the holder back at once.
    Preempt,
    /// Roll the holder back if it waits for a lock now, or as soon as it does while it still blocks the requester.
    PreemptIfWaiting,
    /// Roll the holder back if it still blocks the requester after this time.
    PreemptAfter(Duration),
}

/// What a scheduler must know about the waiters of a lock that becomes free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facts {
    /// Nothing: the order of ranks and arrivals is kept.
    Nothing,
    /// The ages of their transactions.
    Ages,
    /// The transactions that depend on them.
    Dependents,
}

/// A request that waits for a lock that becomes free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// Requests of one group can hold the lock together; `None` for a request that can share it with no equal one.
    pub group: Option<u8>,
    /// The number of its transaction: it increases with each transaction that begins.
    pub began: u64,
    /// The numbers of the transactions that wait for a lock that its transaction holds, of those that wait for one that
    /// these hold, and so on, and of its own. Each once; empty if the scheduler did not ask for [`Facts::Dependents`].
    pub dependents: Vec<u32>,
}

/// The requests that are granted when a lock becomes free. Requests are places in the list of contenders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Granted together.
    pub granted: Vec<usize>,
    /// Goes ahead of all others that are not granted now, so that they cannot join the batch.
    pub then: Option<usize>,
}

/// Decides the order of a lock's queue and what happens to holders that block it.
///
/// Implementations are pure: equal facts give equal answers. The documentation of the module says when a host asks.
pub trait LockScheduler: Debug + Send + Sync {
    /// The name used in experiment files and results, parameters included: `cr(300ms)`.
    fn name(&self) -> Cow<'static, str>;

    /// Where a request that has to wait goes in the queue.
    fn rank(&self, requester: &Requester) -> Rank;

    /// The transactions about which [`verdict`](Self::verdict) is asked.
    fn blockers(&self) -> Blockers {
        Blockers::Holders
    }

    /// The verdict on `holder`, which blocks `requester`; one of the [`blockers`](Self::blockers).
    fn verdict(&self, requester: &Requester, holder: &Stance) -> Verdict {
        let _ = (requester, holder);
        Verdict::Wait
    }

    /// What [`choose`](Self::choose) must know. A host does not ask a scheduler that needs nothing.
    fn facts(&self) -> Facts {
        Facts::Nothing
    }

    /// The requests to grant of those that wait for a lock that becomes free: at least two, in order of arrival.
    fn choose(&self, contenders: &[Contender]) -> Batch {
        Batch { granted: (0..contenders.len()).collect(), then: None }
    }

    /// Whether every verdict is [`Verdict::Wait`], so that a host need not ask.
    fn leaves_holders_alone(&self) -> bool {
        false
    }
}

/// One line of the list of schedulers.
#[derive(Debug)]
pub struct LockSchedulerKind {
    /// The name, with a placeholder for the parameter: `pow`, `cr(d)`.
    pub name: &'static str,
    /// A short description, for people.
    pub about: &'static str,
    /// An example of a complete name.
    pub example: &'static str,
    /// The governor's policies that use it; empty if it would have to order the queues of a server.
    pub at_server: &'static [PreemptionKind],
    /// Makes the scheduler from its name; `None` for other names.
    pub(crate) make: fn(&str) -> Option<Arc<dyn LockScheduler>>,
}

/// All schedulers, in the order of the table in the module documentation.
pub static LOCK_SCHEDULERS: &[LockSchedulerKind] = &[
    standard::KIND,
    nprio::KIND,
    nprio_inherit::KIND,
    pabort::KIND,
    pow::KIND,
    conditional_restart::KIND,
    wdl::KIND,
    wdl::HOLDERS_KIND,
    vats::KIND,
    largest_dependency_set::KIND,
    largest_dependency_set::BATCHED_KIND,
];

/// The scheduler of that name, if there is one.
pub fn lock_scheduler(name: &str) -> Option<Arc<dyn LockScheduler>> {
    LOCK_SCHEDULERS.iter().find_map(|kind| (kind.make)(name))
}

/// The base of the schedulers with priorities: the most urgent waiter first, and one verdict on every holder below the
/// requester.
#[derive(Debug)]
struct ByPriority {
    name: Cow<'static, str>,
    on_lower_holder: Verdict,
}

impl ByPriority {
    fn scheduler(name: impl Into<Cow<'static, str>>, on_lower_holder: Verdict) -> Arc<dyn LockScheduler> {
        Arc::new(ByPriority { name: name.into(), on_lower_holder })
    }
}

impl LockScheduler for ByPriority {
    fn name(&self) -> Cow<'static, str> {
        self.name.clone()
    }

    fn rank(&self, requester: &Requester) -> Rank {
        Rank::by_priority(requester.priority)
    }

    fn verdict(&self, requester: &Requester, holder: &Stance) -> Verdict {
        if holder.priority < requester.priority { self.on_lower_holder } else { Verdict::Wait }
    }

    fn leaves_holders_alone(&self) -> bool {
        self.on_lower_holder == Verdict::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of every two of five levels, the promoted among them, the holder running and waiting.
    pub(super) fn pairs() -> Vec<(Requester, Stance)> {
        let levels = [0, 1, 2, 254].map(|level| Priority::of_level(level).expect("a level"));
        let levels: Vec<_> = levels.into_iter().chain([Priority::PROMOTED]).collect();
        let mut pairs = Vec::new();
        for &priority in &levels {
            for &blocked_by in &levels {
                for (waiting, rollbacks) in [(false, 0), (true, 3)] {
                    let holder = Stance { priority: blocked_by, waiting, rollbacks };
                    pairs.push((Requester { priority, rollbacks: 1 }, holder));
                }
            }
        }
        pairs
    }

    /// Contenders of these groups, `x` sharing with no other, and of these dependents.
    pub(super) fn contenders(groups: &str, dependents: &[&[u32]]) -> Vec<Contender> {
        let group = |letter| (letter != b'x').then_some(letter);
        let each = groups.bytes().zip(dependents).zip(0..);
        each.map(|((letter, numbers), began)| Contender { group: group(letter), began, dependents: numbers.to_vec() })
            .collect()
    }

    #[test]
    fn schedulers_by_priority_serve_high_first_and_have_one_verdict_on_whoever_is_below() {
        for (name, on_whoever_is_below) in [
            ("nprio", Verdict::Wait),
            ("nprio-inherit", Verdict::Inherit),
            ("pabort", Verdict::Preempt),
            ("pow", Verdict::PreemptIfWaiting),
            ("cr(300ms)", Verdict::PreemptAfter(Duration::from_millis(300))),
        ] {
            let scheduler = lock_scheduler(name).expect("listed");
            for (requester, holder) in pairs() {
                let expect = if holder.priority < requester.priority { on_whoever_is_below } else { Verdict::Wait };
                assert_eq!(scheduler.verdict(&requester, &holder), expect, "{name} {requester:?} {holder:?}");
                let other = Requester { priority: holder.priority, rollbacks: 7 };
                let order = scheduler.rank(&requester).cmp(&scheduler.rank(&other));
                assert_eq!(order, holder.priority.cmp(&requester.priority), "{name} {requester:?} {other:?}");
            }
        }
    }

    #[test]
    fn every_scheduler_is_found_by_its_name_and_documented() {
        let documentation = include_str!("lock_scheduler.rs");
        let rows: Vec<&str> = documentation.lines().filter(|line| line.starts_with("//! | ")).skip(1).collect();
        assert_eq!(rows.len(), LOCK_SCHEDULERS.len());
        for (kind, row) in LOCK_SCHEDULERS.iter().zip(rows) {
            let found = lock_scheduler(kind.example).expect("listed");
            assert_eq!(found.name(), kind.example);
            assert!(row.starts_with(&format!("//! | {} |", kind.name)), "{row}");
        }
        assert!(lock_scheduler("fifo").is_none());
    }

    #[test]
    fn only_the_contention_aware_schedulers_need_facts_and_they_rank_by_arrival() {
        for kind in LOCK_SCHEDULERS {
            let scheduler = lock_scheduler(kind.example).expect("listed");
            let facts = match kind.name {
                "vats" => Facts::Ages,
                "ldsf" | "bldsf" => Facts::Dependents,
                _ => Facts::Nothing,
            };
            assert_eq!(scheduler.facts(), facts, "{}", kind.name);
            let by_arrival = |(requester, _): &(Requester, Stance)| scheduler.rank(requester) == Rank::REST;
            assert!(facts == Facts::Nothing || pairs().iter().all(by_arrival), "{}", kind.name);
        }
    }

    #[test]
    fn who_leaves_holders_alone_waits_whoever_asks_and_the_others_do_not() {
        for kind in LOCK_SCHEDULERS {
            let scheduler = lock_scheduler(kind.example).expect("listed");
            let waits = pairs().iter().all(|(requester, holder)| scheduler.verdict(requester, holder) == Verdict::Wait);
            assert_eq!(waits, scheduler.leaves_holders_alone(), "{}", kind.name);
        }
    }
}
