//! Transactions that the server has failed by itself, or that were rolled back to break a cycle: by cause and outcome.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_policy::NoReplay;

use super::count;

const CAUSES: usize = AbortCause::ALL.len();

/// Why a transaction was rolled back without a request of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortCause {
    /// The server has chosen it as the victim of a deadlock: 40P01.
    Deadlock,
    /// The server could not serialize it: 40001.
    Serialization,
    /// It was in a cycle of waiters, which the governor has broken before the server did.
    Cycle,
    /// It has waited for a strong lock for as long as the guard lets it at once.
    LockWait,
}

impl AbortCause {
    pub const ALL: [AbortCause; 4] =
        [AbortCause::Deadlock, AbortCause::Serialization, AbortCause::Cycle, AbortCause::LockWait];

    /// The cause that an SQLSTATE of the server stands for; `None` for every other error.
    pub(crate) fn of_sqlstate(state: &[u8]) -> Option<AbortCause> {
        match state {
            b"40P01" => Some(AbortCause::Deadlock),
            b"40001" => Some(AbortCause::Serialization),
            _ => None,
        }
    }

    /// The word used in metrics; it must not change.
    pub fn name(self) -> &'static str {
        match self {
            AbortCause::Deadlock => "deadlock",
            AbortCause::Serialization => "serialization",
            AbortCause::Cycle => "cycle",
            AbortCause::LockWait => "lock-wait",
        }
    }
}

/// The outcome of an aborted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortOutcome {
    /// It was replayed, and its client did not notice.
    Replayed,
    /// It was aborted again while it was replayed; the outcome is counted there.
    Again,
    /// An answer differed in the replay: its client got the error.
    Differed,
    /// The server did not confirm that nothing of a failed COMMIT remains: its client got the error.
    Unconfirmed,
    /// Its client cancelled or disconnected while it was replayed.
    Abandoned,
    /// It was not replayed, for this reason: its client got the error.
    NotReplayed(NoReplay),
}

impl AbortOutcome {
    /// All outcomes, in the order in which they are counted.
    pub fn all() -> impl Iterator<Item = AbortOutcome> {
        let others = [
            AbortOutcome::Replayed,
            AbortOutcome::Again,
            AbortOutcome::Differed,
            AbortOutcome::Unconfirmed,
            AbortOutcome::Abandoned,
        ];
        others.into_iter().chain(NoReplay::all().map(AbortOutcome::NotReplayed))
    }

    /// The word used in metrics; it must not change. A reason against a replay has its own.
    pub fn name(self) -> &'static str {
        match self {
            AbortOutcome::Replayed => "replayed",
            AbortOutcome::Again => "again",
            AbortOutcome::Differed => "differed",
            AbortOutcome::Unconfirmed => "unconfirmed",
            AbortOutcome::Abandoned => "abandoned",
            AbortOutcome::NotReplayed(why) => why.name(),
        }
    }
}

/// The counts of a class.
#[derive(Debug)]
pub struct Aborts([Vec<AtomicU64>; CAUSES]);

impl Aborts {
    pub(super) fn new() -> Self {
        Aborts(array::from_fn(|_| AbortOutcome::all().map(|_| AtomicU64::default()).collect()))
    }

    pub fn count(&self, cause: AbortCause, outcome: AbortOutcome) {
        let place = AbortOutcome::all().position(|one| one == outcome);
        place.and_then(|place| self.0[cause as usize].get(place)).into_iter().for_each(count);
    }

    /// All counts that are not zero.
    pub fn counted(&self) -> impl Iterator<Item = (AbortCause, AbortOutcome, u64)> {
        let of_cause = |cause: AbortCause| {
            // Relaxed: counters are read by operators, and order nothing.
            let counts = self.0[cause as usize].iter().map(|count| count.load(Ordering::Relaxed));
            AbortOutcome::all().zip(counts).map(move |(outcome, count)| (cause, outcome, count))
        };
        AbortCause::ALL.into_iter().flat_map(of_cause).filter(|(_, _, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll_policy::Unsafe;

    use super::*;

    #[test]
    fn each_cause_and_outcome_has_a_count_of_its_own() {
        let aborts = Aborts::new();
        for outcome in AbortOutcome::all() {
            aborts.count(AbortCause::Deadlock, outcome);
        }
        aborts.count(AbortCause::Cycle, AbortOutcome::NotReplayed(NoReplay::Unsafe(Unsafe::Copy)));
        aborts.count(AbortCause::Cycle, AbortOutcome::NotReplayed(NoReplay::Unsafe(Unsafe::Copy)));
        let counted: Vec<_> = aborts.counted().collect();
        assert_eq!(counted.len(), AbortOutcome::all().count() + 1);
        let copy = AbortOutcome::NotReplayed(NoReplay::Unsafe(Unsafe::Copy));
        assert_eq!(counted.last(), Some(&(AbortCause::Cycle, copy, 2)));
        let names: BTreeSet<&str> = AbortOutcome::all().map(AbortOutcome::name).collect();
        assert_eq!(names.len(), AbortOutcome::all().count());
    }

    #[test]
    fn only_two_errors_are_aborts_of_the_server() {
        let known =
            ["40P01", "40001", "40002", "57014", "23505"].map(|state| AbortCause::of_sqlstate(state.as_bytes()));
        assert_eq!(known, [Some(AbortCause::Deadlock), Some(AbortCause::Serialization), None, None, None]);
    }
}
