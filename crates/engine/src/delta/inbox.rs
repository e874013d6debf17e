//! Where commits are published: the only place that orders commits, and the place where transactions may have to wait.
//!
//! The mutex is held for a push, and never for work that grows with the delta. A query that takes everything out
//! therefore delays a commit only by an exchange of vectors.

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

/// The commits of one set of tables, in order, until they are taken out.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<InboxState>,
    /// Transactions wait here, for room or for the end of a blocking propagation.
    waiting: Condvar,
    /// The bytes from which on transactions wait; `None` if they never do.
    stall_bytes: Option<u64>,
    /// The bytes from which on the delta counts as too long.
    bytes_max: u64,
    /// The bytes from which on propagation is woken.
    press_bytes: u64,
    signals: Arc<Signals>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct InboxState {
    pieces: Vec<Vec<CommitBatch>>,
    /// Empty batches. Each commit receives one in exchange for the batch that it publishes.
    spares: Vec<Vec<CommitBatch>>,
    /// Blocking propagations in progress.
    held_back: usize,
    /// Publishing has ended: the set was dropped, or its propagation has failed.
    is_closed: bool,
    counts: InboxCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct InboxCounts {
    /// The last commit's position in the order of commits.
    pub(super) seq: u64,
    /// Rows changed by all commits.
    pub(super) tuples: u64,
    /// Bytes of changes that are not folded.
    pub(super) bytes: u64,
    pub(super) bytes_peak: u64,
    /// Commits that waited.
    pub(super) stalls: u64,
    /// Commits that were published when the delta was full.
    pub(super) overruns: u64,
    /// How long commits waited for the lock of the inbox. Waits for room and for the end of a blocking propagation are
    /// not included.
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

    /// Gives a batch its place in the order of commits. Its transaction holds all of its locks, so commits that depend
    /// on it come after it: every prefix of the order is a state that some serial order has produced.
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

    /// Locks the state for a commit. Returns how long the commit waited for a snapshot, a fold or another commit.
    fn lock(&self) -> (MutexGuard<'_, InboxState>, Duration) {
        if let Some(state) = self.state.try_lock() {
            return (state, Duration::ZERO);
        }
        let began = self.clock.now();
        let state = self.state.lock();
        (state, self.clock.now().saturating_sub(began))
    }

    /// Whether a commit has to wait. A delta below its bound takes any batch, so that one larger than the bound gets in.
    fn must_wait(&self, state: &InboxState) -> bool {
        let is_full = self.stall_bytes.is_some_and(|bytes| state.counts.bytes >= bytes);
        !state.is_closed && (is_full || state.held_back > 0)
    }

    /// Always ends: propagation takes no transaction locks, so locks held by the waiting transaction cannot block it.
    #[cold]
    fn wait(&self, state: &mut MutexGuard<'_, InboxState>) {
        while self.must_wait(state) {
            self.waiting.wait(state);
        }
        state.counts.stalls += 1;
    }

    /// All batches that were published since the last call, in order, and the counts as of now.
    pub(super) fn take(&self) -> (Vec<Vec<CommitBatch>>, InboxCounts) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.pieces), state.counts)
    }

    /// Takes back batches that are not needed any more, to reuse their memory.
    pub(super) fn give_back(&self, mut pieces: Vec<Vec<CommitBatch>>) {
        pieces.iter_mut().flatten().for_each(CommitBatch::clear);
        let mut state = self.state.lock();
        let room = SPARE_PIECES_MAX.saturating_sub(state.spares.len());
        let rest = pieces.split_off(pieces.len().min(room));
        state.spares.append(&mut pieces);
        drop(state);
        drop(rest);
    }

    /// Changes of `bytes` bytes were folded.
    pub(super) fn free(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.counts.bytes -= bytes;
        drop(state);
        self.waiting.notify_all();
    }

    /// Whether propagation should fold all changes at once.
    pub(super) fn is_pressed(&self) -> bool {
        self.state.lock().counts.bytes >= self.press_bytes
    }

    /// Makes commits wait until the guard is dropped.
    pub(super) fn hold_back(&self) -> HeldBack<'_> {
        self.state.lock().held_back += 1;
        HeldBack(self)
    }

    /// Ends publishing and wakes all waiting commits.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let batches = (std::mem::take(&mut state.pieces), std::mem::take(&mut state.spares));
        drop(state);
        drop(batches);
        self.waiting.notify_all();
    }
}

impl InboxState {
    /// An empty batch, with reused memory if there is any.
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

/// Makes commits wait.
pub(super) struct HeldBack<'a>(&'a Inbox);

impl Drop for HeldBack<'_> {
    fn drop(&mut self) {
        self.0.state.lock().held_back -= 1;
        self.0.waiting.notify_all();
    }
}
