//! Preemption from outside: decides which transactions of a server are rolled back because others wait for them.
//!
//! An engine asks a [`LockScheduler`] at the moment at which a request has to wait. A governor only looks at its server
//! now and then, and sees a [`WaitGraph`]: which transactions wait for which at this moment. [`decide`] asks the same
//! schedulers about this graph. Because it looks only now and then, three things differ:
//!
//! - `PreemptIfWaiting` is carried out if the holder waits now, and otherwise left for the next look; `PreemptAfter(d)`
//!   is carried out if it has blocked the waiter for `d` or longer.
//! - Transactions that are not ours, or can no longer be rolled back, block others and are not touched. The scheduler
//!   is therefore asked about every transaction that a waiter waits for, even indirectly. Each chain is followed until
//!   a transaction is rolled back, because the transactions behind it then no longer block the waiter.
//! - [`decide`] leaves transactions in a cycle alone. [`cycles`] chooses the victim that breaks a cycle, without a more important
//!   waiter. A cycle without a possible victim is left to the server, which finds deadlocks and aborts one of their transactions.
//!
//! A host that knows the cost of a rollback weighs it first (`worth`), and marks holders as not preemptible if rolling
//! them back costs more than it saves.
//!
//! No transaction is rolled back for one of equal or lower priority, nor while it is
//! [promoted](crate::StarvationBound), regardless of the scheduler's answer. Transactions of the lowest priority cause
//! no rollbacks.
//!
//! The policies that can be chosen, each in the list of its [scheduler](LockSchedulerKind::at_server):
//!
//! | name | rule |
//! |---|---|
//! | never | no transaction is rolled back |
//! | pabort | a transaction that blocks a more urgent one is rolled back |
//! | pow | a transaction that blocks a more urgent one and waits itself is rolled back |
//! | track | as pow, but it is only counted |
//! | after(d) | a transaction that blocks a more urgent one for longer than d is rolled back |
//!
//! Source: McWherter, *Sharing DBMS among Multiple Users while Providing Performance Isolation*, 3.8.

mod cycle;
mod look;
mod worth;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{CpuScheduler, LOCK_SCHEDULERS, LockScheduler, LockSchedulerKind, Priority, StarvationBound};

pub use cycle::{Cycle, cycles};
pub use look::{decide, waiters_behind};
pub use worth::{Outlook, Price, StayTimes};

/// The state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The server works for it.
    Runs,
    /// It waits for a lock.
    WaitsForLock,
    /// It waits for its client's next message.
    WaitsForClient,
    /// It is prepared for a commit in two phases: no process works for it, and it is not ours to roll back.
    Prepared,
    /// It is not ours, and is never touched in any state.
    Foreign,
}

/// A transaction that waits or is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Distinguishes it from others, such as its process number; breaks ties.
    pub id: u64,
    /// Its own priority, that of its class.
    pub priority: Priority,
    /// How often it has been rolled back for other transactions so far. A count.
    pub rollbacks: u32,
    /// Its state.
    pub activity: Activity,
    /// Whether a rollback is possible at all: its class allows it, and it has not begun to commit.
    pub preemptible: bool,
    /// For how long it has been waiting, as far as is known; zero if it does not wait.
    pub waited: Duration,
    /// When it began, by the clock of [`WaitGraph::now`].
    pub began: Duration,
    /// How often it was run again after the server had failed it, or after it was rolled back to break a cycle. A
    /// count.
    pub aborts: u32,
    /// The effect on its client if it is rolled back to break a cycle; `None` if it must not be.
    pub cycle_loss: Option<CycleLoss>,
}

/// The effect on a client whose transaction is rolled back to break a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleLoss {
    /// None, as far as is known: the transaction is replayed.
    Unnoticed,
    /// An error, after which the client runs the transaction again itself; its class declares that.
    Told,
}

/// A transaction waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The waiting transaction: a place in [`WaitGraph::transactions`].
    pub waiter: usize,
    /// The transaction that it waits for: a place in the same list.
    pub blocker: usize,
    /// When this was first seen; `None` if that is now.
    pub since: Option<Duration>,
    /// Whether the previous look showed it, too, with both at the same statement as now.
    pub stands: bool,
    /// Whether the blocker is only the next in line for what the waiter wants, such as a row that a third transaction has changed.
    /// If it were rolled back, the waiter would take its place in the line, and wait for what it waits for.
    pub is_line: bool,
}

/// Which transactions wait for which at a moment.
///
/// Processes that work for one transaction (parallel workers) are one transaction here; edges from it to itself are
/// ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitGraph {
    /// The moment.
    pub now: Duration,
    /// The transactions.
    pub transactions: Vec<Standing>,
    /// The waits.
    pub edges: Vec<Edge>,
}

/// The rules of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// Which holders are rolled back, or inherit.
    pub locks: &'a dyn LockScheduler,
    /// Which holders get the CPU share of their waiters; `None` where the host does not schedule cores.
    pub cpu: Option<&'a dyn CpuScheduler>,
    /// How often a transaction may lose.
    pub bound: StarvationBound,
    /// Whether a transaction that waits for its client counts as one that waits.
    pub idle_counts_as_waiting: bool,
}

/// An action to take. Transactions are places in [`WaitGraph::transactions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Roll a transaction back.
    Preempt {
        /// The transaction to roll back.
        victim: usize,
        /// The waiter that causes it: the most urgent one, and among equals the one that has waited longest.
        waiter: usize,
    },
    /// Give a transaction a priority for the rest of its life.
    Inherit {
        /// The transaction that inherits.
        holder: usize,
        /// The highest priority among its waiters.
        priority: Priority,
    },
}

/// A policy of a governor, in the list of the scheduler that decides for it.
#[derive(Debug)]
pub struct PreemptionKind {
    /// The name, with a placeholder for the parameter: `pow`, `after(d)`. The parameter is the scheduler's.
    pub name: &'static str,
    /// A short description, for people.
    pub about: &'static str,
    /// An example of a complete name.
    pub example: &'static str,
    /// Whether the scheduler's decisions are carried out; otherwise they are only counted.
    pub acts: bool,
}

/// All policies, in the order of the table in the module documentation.
pub fn preemption_policies() -> impl Iterator<Item = &'static PreemptionKind> {
    LOCK_SCHEDULERS.iter().flat_map(|scheduler| scheduler.at_server)
}

/// A name without its parameter: `cr` of `cr(300ms)`.
fn word(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

/// The chosen policy.
///
/// ```
/// use plimsoll_policy::PreemptionPolicy;
///
/// let after = PreemptionPolicy::parse("after(50ms)").expect("a policy");
/// assert_eq!((after.scheduler().name().as_ref(), after.acts(), after.watches()), ("cr(50ms)", true, true));
/// let track = PreemptionPolicy::parse("track").expect("a policy");
/// assert_eq!((track.scheduler().name().as_ref(), track.acts(), track.watches()), ("pow", false, true));
/// ```
#[derive(Debug, Clone)]
pub struct PreemptionPolicy {
    kind: &'static PreemptionKind,
    scheduler: Arc<dyn LockScheduler>,
}

impl PreemptionPolicy {
    /// The policy of that name; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        let make = |scheduler: &LockSchedulerKind, kind: &'static PreemptionKind| {
            let parameter = name.strip_prefix(word(kind.name))?;
            let scheduler = (scheduler.make)(&format!("{}{parameter}", word(scheduler.name)))?;
            Some(PreemptionPolicy { kind, scheduler })
        };
        LOCK_SCHEDULERS.iter().find_map(|scheduler| scheduler.at_server.iter().find_map(|kind| make(scheduler, kind)))
    }

    /// The scheduler that decides.
    pub fn scheduler(&self) -> &dyn LockScheduler {
        &*self.scheduler
    }

    /// Whether decisions are carried out; otherwise they are only counted.
    pub fn acts(&self) -> bool {
        self.kind.acts
    }

    /// Whether decisions are only counted, and no transaction is changed.
    pub fn only_tracks(&self) -> bool {
        self.watches() && !self.acts()
    }

    /// Whether the policy ever acts or counts, so that waits must be observed.
    pub fn watches(&self) -> bool {
        !self.scheduler.leaves_holders_alone()
    }
}

impl fmt::Display for PreemptionPolicy {
    /// The name, with lengths in the largest unit that needs no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduler = self.scheduler.name();
        write!(f, "{}{}", word(self.kind.name), &scheduler[word(&scheduler).len()..])
    }
}

impl PartialEq for PreemptionPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for PreemptionPolicy {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name_and_documented() {
        let documentation = include_str!("preemption.rs");
        let rows: Vec<&str> = documentation.lines().filter(|line| line.starts_with("//! | ")).skip(1).collect();
        let told: Vec<String> =
            preemption_policies().map(|kind| format!("//! | {} | {} |", kind.name, kind.about)).collect();
        assert_eq!(rows, told);
        for kind in preemption_policies() {
            let policy = PreemptionPolicy::parse(kind.example).expect("listed");
            assert_eq!(policy.to_string(), kind.example);
            assert_eq!(policy.watches(), kind.name != "never", "{}", kind.name);
            assert_eq!(policy.acts(), !["never", "track"].contains(&kind.name), "{}", kind.name);
        }
    }

    #[test]
    fn names_are_written_in_one_way_and_others_refused() {
        for (name, written) in [("after(1000ms)", Some("after(1s)")), ("after(500us)", Some("after(500us)"))] {
            assert_eq!(PreemptionPolicy::parse(name).map(|policy| policy.to_string()).as_deref(), written);
        }
        for name in [
            "",
            "after",
            "after()",
            "after(0ms)",
            "after(5)",
            "cr(50ms)",
            "standard",
            "nprio",
            "wdl",
            "POW",
            "track(5ms)",
        ] {
            assert!(PreemptionPolicy::parse(name).is_none(), "{name}");
        }
    }
}
