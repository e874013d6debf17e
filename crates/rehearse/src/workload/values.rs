//! Values that a server makes up in a run, and where clients find them.
//!
//! Recorded clients share a board for each round through the capture, and wait for each other's units. Clients that draw sessions
//! have the values of their own session; those of another session are the last ones that any client has made in this run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Work;
use crate::plan::Planned;
use crate::replay::{Board, end};
use crate::skip::Reason;
use crate::value::Value;

/// What clients share in a run.
pub(super) struct Run {
    /// Kinds of units that the target cannot run.
    pub left_out: BTreeSet<usize>,
    /// Whether transactions only read.
    pub read_only: bool,
    /// Set when a client ends, for then all do: no client waits any more.
    pub is_over: AtomicBool,
    pub tally: Tally,
    slots: usize,
    awaited: usize,
    lanes: usize,
    /// The boards of rounds that not all clients have left, each with how many have.
    boards: Mutex<BTreeMap<u64, (Arc<Board>, usize)>>,
    /// The value of each number that was made last.
    latest: Vec<Mutex<Option<Value>>>,
}

impl Run {
    pub fn new(work: &Work, left_out: BTreeSet<usize>, read_only: bool) -> Self {
        let (slots, awaited) = (work.plan.slot_count, work.plan.awaited_count);
        let latest = (0..slots).map(|_| Mutex::new(None)).collect();
        let (is_over, boards, tally) = (AtomicBool::new(false), Mutex::default(), Tally::default());
        Run { left_out, read_only, is_over, tally, slots, awaited, lanes: work.lanes.len(), boards, latest }
    }

    /// The board of a round.
    pub fn board(&self, round: u64) -> Arc<Board> {
        let mut boards = self.boards.lock();
        let new = || (Arc::new(Board::new(self.slots, self.awaited)), 0);
        Arc::clone(&boards.entry(round).or_insert_with(new).0)
    }

    /// Notes that a recorded client has left a round.
    pub fn leave(&self, round: u64) {
        let mut boards = self.boards.lock();
        if let Some((_, left)) = boards.get_mut(&round) {
            *left += 1;
            if *left == self.lanes {
                boards.remove(&round);
            }
        }
    }

    /// Relaxed: it only ends waits early.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// What the clients of a run have done.
#[derive(Default)]
pub(super) struct Tally {
    /// Units that were sent.
    pub sent: AtomicU64,
    /// Units that failed, and had not failed in the recording.
    pub failed: AtomicU64,
    /// Units that succeeded, and had failed in the recording.
    pub recovered: AtomicU64,
    /// Units that were passed over.
    pub passed: Mutex<BTreeMap<Reason, u64>>,
    /// How far into the capture recorded clients have come, microseconds.
    pub reached_us: AtomicU64,
    /// Whether a client has begun the capture again.
    pub looped: AtomicBool,
}

impl Tally {
    pub fn pass(&self, reason: Reason) {
        *self.passed.lock().entry(reason).or_default() += 1;
    }
}

/// The values of a client.
pub(super) enum Values {
    /// Those of a round.
    Recorded(Arc<Board>),
    /// Those of the session that it has drawn, and those among them that no other client may use before the transaction ends.
    Drawn { own: BTreeMap<usize, Value>, unpublished: Vec<(usize, Value)> },
}

impl Values {
    /// Those of a session that begins.
    pub fn drawn() -> Self {
        Values::Drawn { own: BTreeMap::new(), unpublished: Vec::new() }
    }

    /// A value by its number, for a unit of that session.
    pub fn get(&self, slot: usize, session: usize, work: &Work, run: &Run) -> Option<Value> {
        match self {
            Values::Recorded(board) => board.value(slot).cloned(),
            Values::Drawn { own, .. } if work.makers[slot] == session => own.get(&slot).cloned(),
            Values::Drawn { .. } => run.latest[slot].lock().clone(),
        }
    }

    /// Notes a value that was made.
    pub fn put(&mut self, slot: usize, value: Value) {
        match self {
            Values::Recorded(board) => board.put(slot, Some(value)),
            Values::Drawn { own, unpublished } => {
                own.insert(slot, value.clone());
                unpublished.push((slot, value));
            }
        }
    }

    /// Notes that a transaction has ended: its rows are there for all, unless it failed.
    pub fn end_transaction(&mut self, failed: bool, run: &Run) {
        let Values::Drawn { unpublished, .. } = self else { return };
        for (slot, value) in unpublished.drain(..).filter(|_| !failed) {
            *run.latest[slot].lock() = Some(value);
        }
    }

    /// Notes that a unit is over.
    pub fn end(&self, planned: &Planned) {
        if let Values::Recorded(board) = self {
            end(planned, board);
        }
    }
}
