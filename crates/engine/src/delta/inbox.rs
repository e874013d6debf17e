//! Where commits are published: the one place that gives them their order, and where transactions wait if they must.
//!
//! The mutex is held for a push, never for work that grows with the delta, so that a query that takes everything out delays a
//! commit by an exchange of vectors.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use plimsoll_policy::WaitCounts;

use super::batch::CommitBatch;
use super::signals::Signals;
use crate::clock::Clock;

/// Batches in a piece of the inbox. A full piece is never copied to make room.
const PIECE_BATCHES: usize = 1024;

/// Pieces of empty batches that are kept for their memory.
const SPARE_PIECES_MAX: usize = 4;

/// The commits of one set of tables, in order, until somebody takes them out.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Transactions wait here, for room or for the end of a blocking propagation.
    waiting: Condvar,
    /// From how many bytes on transactions wait; `None`: they never do.
    stall_bytes: Option<u64>,
    /// From how many bytes on the delta is more than it should be.
    bytes_max: u64,
    /// From how many bytes on propagation is woken.
    press_bytes: u64,
    signals: Arc<Signals>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    pieces: Vec<Vec<CommitBatch>>,
    /// Empty batches: with each commit that is published one goes to its transaction for the next.
    spares: Vec<Vec<CommitBatch>>,
    /// Blocking propagations under way.
    held_back: usize,
    /// Nothing is published any more: the set is gone, or its propagation has failed.
    is_closed: bool,
    counts: InboxCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct InboxCounts {
    /// The place of the last commit in their order.
    pub(super) seq: u64,
    /// Rows changed by all of them.
    pub(super) tuples: u64,
    /// Bytes of changes that are not folded.
    pub(super) bytes: u64,
    pub(super) bytes_peak: u64,
    /// Commits that waited.
    pub(super) stalls: u64,
    /// Commits that were published when the delta was full.
    pub(super) overruns: u64,
    /// How long commits waited for the lock of the inbox. Waits for room and for the end of a blocking propagation are not in it.
    pub(super) waits: WaitCounts,
}

impl Inbox {
    pub(super) fn new(bytes_max: u64, does_stall: bool, signals: Arc<Signals>, clock: Arc<dyn Clock>) -> Self {
        Inbox {
            state: Mutex::default(),
            waiting: Condvar::new(),
            stall_bytes: does_stall.then_some(bytes_max),
            bytes_max,
            press_bytes: (bytes_max / 2).max(1),
            signals,
            clock,
        }
    }

    /// Gives a batch its place in the order of commits. Its transaction holds all of its locks, so that whatever depends on
    /// it comes after it: every prefix of the order is a state that some serial order has produced.
    ///
    /// Returns an empty batch.
    pub(super) fn publish(&self, mut batch: CommitBatch) -> CommitBatch {
        let bytes = batch.bytes();
        let (mut state, waited) = self.lock();
        state.counts.waits.add(waited);
        if self.must_wait(&state) {
            self.wait(&mut state);
        }
        if state.is_closed {
            batch.clear();
            return batch;
        }
        let was_pressed = state.counts.bytes >= self.press_bytes;
        let counts = &mut state.counts;
        counts.overruns += u64::from(counts.bytes >= self.bytes_max);
        counts.seq += 1;
        counts.tuples += batch.len() as u64;
        counts.bytes += bytes;
        counts.bytes_peak = counts.bytes_peak.max(counts.bytes);
        let is_pressed = counts.bytes >= self.press_bytes;
        (batch.seq, batch.at) = (counts.seq, self.clock.now());
        if state.pieces.last().is_none_or(|piece| piece.len() == PIECE_BATCHES) {
            state.pieces.push(Vec::with_capacity(PIECE_BATCHES));
        }
        state.pieces.last_mut().expect("it was pushed if there was none").push(batch);
        let spare = state.spare();
        drop(state);
        if is_pressed && !was_pressed {
            self.signals.press();
        }
        spare
    }

    /// For a commit: how long it was kept waiting by a snapshot, a fold or another commit that is here.
    fn lock(&self) -> (MutexGuard<'_, State>, Duration) {
        if let Some(state) = self.state.try_lock() {
            return (state, Duration::ZERO);
        }
        let began = self.clock.now();
        let state = self.state.lock();
        (state, self.clock.now().saturating_sub(began))
    }

    /// Whether a commit has to wait. A delta below its bound takes any batch, so that one larger than the bound gets in.
    fn must_wait(&self, state: &State) -> bool {
        let is_full = self.stall_bytes.is_some_and(|bytes| state.counts.bytes >= bytes);
        !state.is_closed && (is_full || state.held_back > 0)
    }

    /// Propagation takes no locks of transactions, so that it always comes to an end, whatever the waiting one holds.
    #[cold]
    fn wait(&self, state: &mut MutexGuard<'_, State>) {
        while self.must_wait(state) {
            self.waiting.wait(state);
        }
        state.counts.stalls += 1;
    }

    /// Everything that was published since the last call, in order, and the counts as of then.
    pub(super) fn take(&self) -> (Vec<Vec<CommitBatch>>, InboxCounts) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.pieces), state.counts)
    }

    /// Takes batches that are not needed any more, to have their memory used again.
    pub(super) fn give_back(&self, mut pieces: Vec<Vec<CommitBatch>>) {
        pieces.iter_mut().flatten().for_each(CommitBatch::clear);
        let mut state = self.state.lock();
        let room = SPARE_PIECES_MAX.saturating_sub(state.spares.len());
        let rest = pieces.split_off(pieces.len().min(room));
        state.spares.append(&mut pieces);
        drop(state);
        drop(rest);
    }

    /// Changes of so many bytes are folded.
    pub(super) fn free(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.counts.bytes -= bytes;
        drop(state);
        self.waiting.notify_all();
    }

    /// Whether propagation is to fold whatever there is.
    pub(super) fn is_pressed(&self) -> bool {
        self.state.lock().counts.bytes >= self.press_bytes
    }

    /// Lets commits wait until the guard goes.
    pub(super) fn hold_back(&self) -> HeldBack<'_> {
        self.state.lock().held_back += 1;
        HeldBack(self)
    }

    /// Takes nothing any more, and lets go whoever waits.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let batches = (std::mem::take(&mut state.pieces), std::mem::take(&mut state.spares));
        drop(state);
        drop(batches);
        self.waiting.notify_all();
    }
}

impl State {
    /// An empty batch, with memory if there is one.
    fn spare(&mut self) -> CommitBatch {
        while let Some(piece) = self.spares.last_mut() {
            if let Some(spare) = piece.pop() {
                return spare;
            }
            self.spares.pop();
        }
        CommitBatch::default()
    }
}

/// Commits wait.
pub(super) struct HeldBack<'a>(&'a Inbox);

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.0.state.lock().held_back -= 1;
        self.0.waiting.notify_all();
    }
}
