//! Lock scheduling: who is served next when a lock is wanted by several, and what becomes of a holder in the way.
//!
//! A host (the engine's lock manager, later the governor) calls a scheduler at two moments:
//!
//! 1. **A request has to wait.** The host asks [`LockScheduler::rank`] where in the queue it goes: lower ranks are
//!    granted first, equal ranks in order of arrival. A conversion (a holder that asks for a stronger mode) is always
//!    ahead of every rank, because the lock cannot become free for anybody else before it is served.
//! 2. **A transaction stands in its way.** For each holder (or earlier waiter) whose grant conflicts with the request the
//!    host asks [`LockScheduler::verdict`], and does what the [`Verdict`] says. It asks again for every standing pair
//!    whenever a holder itself starts to wait, with `holder.waiting` now true, so that a scheduler can act on a chain.
//!
//! The seven published schedulers fit this shape:
//!
//! | name | rank | verdict on a holder |
//! |---|---|---|
//! | standard | all equal | wait |
//! | nprio | high before low | wait |
//! | nprio-inherit | as nprio | `Inherit` when low blocks high |
//! | pabort | as nprio | `Preempt` when low blocks high |
//! | pow | as nprio | `PreemptIfWaiting` when low blocks high |
//! | cr(d) | as nprio | `PreemptAfter(d)` when low blocks high |
//! | wdl | all equal | `PreemptIfWaiting`, whoever asks |
//!
//! Source: McWherter, *Sharing DBMS among Multiple Users while Providing Performance Isolation*, 2.7, 3.6, 3.8.

mod nprio;
mod standard;

use std::fmt::Debug;
use std::time::Duration;

use crate::Priority;

/// A place in a lock's queue: lower is served first, equal places in order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rank(pub u8);

/// The transaction that asks for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// Its present priority, inherited or promoted included.
    pub priority: Priority,
    /// How often its work has been rolled back for another's sake so far. A count.
    pub rollbacks: u32,
}

/// A transaction that stands in the way of a requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stance {
    /// Its present priority, inherited or promoted included.
    pub priority: Priority,
    /// Whether it waits for some other lock itself.
    pub waiting: bool,
    /// How often its work has been rolled back for another's sake so far. A count.
    pub rollbacks: u32,
}

/// What a host must do about one transaction that stands in a requester's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Nothing: the requester waits.
    Wait,
    /// Give the holder the requester's priority for the rest of its life, and so on along the chain.
    Inherit,
    /// Roll the holder back at once.
    Preempt,
    /// Roll the holder back if it waits for a lock now, or as soon as it does.
    PreemptIfWaiting,
    /// Roll the holder back if it is still in the way after this long.
    PreemptAfter(Duration),
}

/// Decides the order of a lock's queue and the fate of holders in the way.
///
/// Implementations are pure: equal facts give equal answers. The documentation of the module says when a host asks.
pub trait LockScheduler: Debug + Send + Sync {
    /// The name used in experiment files and results.
    fn name(&self) -> &'static str;

    /// Where a request that has to wait goes in the queue.
    fn rank(&self, requester: &Requester) -> Rank;

    /// What becomes of `holder`, which stands in the way of `requester`.
    fn verdict(&self, requester: &Requester, holder: &Stance) -> Verdict {
        let _ = (requester, holder);
        Verdict::Wait
    }
}

/// Every scheduler there is, in the order of the table in the module documentation.
pub static LOCK_SCHEDULERS: &[&'static dyn LockScheduler] = &[&standard::Standard, &nprio::NPrio];

/// The scheduler of that name, if there is one.
pub fn lock_scheduler(name: &str) -> Option<&'static dyn LockScheduler> {
    LOCK_SCHEDULERS.iter().copied().find(|scheduler| scheduler.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_is_found_by_its_name_and_documented() {
        let documentation = include_str!("lock_scheduler.rs");
        for scheduler in LOCK_SCHEDULERS {
            let found = lock_scheduler(scheduler.name()).expect("listed");
            assert_eq!(found.name(), scheduler.name());
            assert!(documentation.contains(&format!("//! | {} |", scheduler.name())));
        }
        assert!(lock_scheduler("fifo").is_none());
    }
}
