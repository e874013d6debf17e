//! The part of column files that stays in memory: a cache of pieces, one column of one chunk each.
//!
//! [`SecondChance`] chooses the pieces that leave when others need room. A piece is pinned as long as a query holds its
//! values, or anything that points into them, such as a batch: its memory would not become free. The bound counts all
//! memory into which files were read, until it is free again. If pinned memory alone exceeds the bound, queries
//! continue: pieces that have no room are read for their reader alone, and [`ColumnReads::held_bytes_peak`] shows by how
//! much the bound was exceeded.
//!
//! A piece that several queries need at the same time is read once, and none of them holds the lock while it is read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::buffer::Buffer;
use parking_lot::{Condvar, Mutex};
use plimsoll_policy::SecondChance;

/// The pieces of any number of column files that stay in memory.
#[derive(Debug)]
pub struct ColumnCache {
    state: Mutex<CacheState>,
    /// A piece was read, or could not be.
    arrived: Condvar,
    memory: Arc<MemoryGauge>,
    // Relaxed throughout: no decision depends on these counts.
    read_bytes: AtomicU64,
    found_bytes: AtomicU64,
}

/// What has been read from column files, and what of them is in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnReads {
    /// Bytes that were read from the disk, in whole pages.
    pub read_bytes: u64,
    /// Bytes that need not be read, because the cache held them or another query was reading them. `None` if the cache
    /// may hold nothing.
    pub found_bytes: Option<u64>,
    /// The most bytes that were in memory at a time since the last call of [`ColumnCache::reads`], pinned ones included.
    pub held_bytes_peak: u64,
}

/// A piece: its file and its offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PieceKey {
    pub(super) file: u64,
    pub(super) offset: u64,
}

/// The size of a piece in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceSize {
    /// In the file, in whole pages.
    pub(super) read: u64,
    /// In memory.
    pub(super) held: u64,
}

/// A piece as it was read.
#[derive(Debug)]
pub(super) struct ReadPiece {
    pub(super) values: ArrayRef,
    /// The memory into which the values point.
    pub(super) memory: Buffer,
}

#[derive(Debug, Default)]
struct CacheState {
    bytes_max: u64,
    order: SecondChance<PieceKey>,
    pieces: HashMap<PieceKey, Piece>,
    file_count: u64,
}

#[derive(Debug)]
enum Piece {
    /// A query reads it. Others find its values here, even if the cache has no room for it.
    Coming(Arc<OnceLock<ArrayRef>>),
    Held(HeldPiece),
}

#[derive(Debug)]
struct HeldPiece {
    values: ArrayRef,
    memory: Buffer,
    /// References to the memory by `values` and `memory`.
    own_references: usize,
}

impl HeldPiece {
    /// Whether something outside of the cache holds the values or their memory. While the cache's lock is held, this can
    /// change from true to false only, because new references are copies of existing ones.
    fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.values) > 1 || self.memory.strong_count() > self.own_references
    }
}

impl ColumnCache {
    /// A cache for at most this many bytes; with 0 every query reads from the disk.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(ColumnCache {
            state: Mutex::new(CacheState { bytes_max, ..CacheState::default() }),
            arrived: Condvar::new(),
            memory: Arc::default(),
            read_bytes: AtomicU64::new(0),
            found_bytes: AtomicU64::new(0),
        })
    }

    /// Changes the bound, and evicts what exceeds it: pinned pieces, too, which then leave memory with their queries.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        let mut state = self.state.lock();
        state.bytes_max = bytes_max;
        let excess = state.order.bytes().saturating_sub(bytes_max);
        for key in state.order.evict(excess, |_| false) {
            state.pieces.remove(&key);
        }
        state.make_room(0, &self.memory);
    }

    /// The reads so far. Begins a new peak of the memory held.
    pub fn reads(&self) -> ColumnReads {
        let has_room = self.state.lock().bytes_max > 0;
        ColumnReads {
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            found_bytes: has_room.then(|| self.found_bytes.load(Ordering::Relaxed)),
            held_bytes_peak: self.memory.take_peak(),
        }
    }

    /// Bytes that are in memory, pinned ones included.
    pub fn held_bytes(&self) -> u64 {
        self.memory.held()
    }

    /// The number by which the pieces of a new file are known.
    pub(super) fn add_file(&self) -> u64 {
        let mut state = self.state.lock();
        state.file_count += 1;
        state.file_count
    }

    /// Removes the pieces of a file that no query can read any more.
    pub(super) fn forget_file(&self, file: u64) {
        let mut state = self.state.lock();
        let CacheState { order, pieces, .. } = &mut *state;
        order.forget(|key| key.file == file);
        let gone: Vec<(PieceKey, Piece)> = pieces.extract_if(|key, _| key.file == file).collect();
        drop(state);
        drop(gone);
    }

    /// A piece that the cache holds. The caller [counts](Self::count_found) what it uses.
    pub(super) fn find(&self, key: PieceKey) -> Option<ArrayRef> {
        let mut state = self.state.lock();
        let Some(Piece::Held(piece)) = state.pieces.get(&key) else { return None };
        let values = Arc::clone(&piece.values);
        state.order.touch(key);
        Some(values)
    }

    /// Counts bytes that a query found.
    pub(super) fn count_found(&self, bytes: u64) {
        self.found_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A piece of this size, and whether this call has read it from the disk. Blocks while it is read, here or by another
    /// query. If another query's read fails, this one reads again.
    pub(super) fn load<E>(
        &self,
        key: PieceKey,
        size: PieceSize,
        read: impl FnOnce(Reservation) -> Result<ReadPiece, E>,
    ) -> Result<(ArrayRef, bool), E> {
        let mut state = self.state.lock();
        loop {
            let found = match state.pieces.get(&key) {
                Some(Piece::Held(piece)) => Some(Arc::clone(&piece.values)),
                Some(Piece::Coming(coming)) => {
                    let coming = Arc::clone(coming);
                    self.arrived
                        .wait_while(&mut state, |state| coming.get().is_none() && state.is_coming(key, &coming));
                    coming.get().cloned()
                }
                None => break,
            };
            if let Some(values) = found {
                state.order.touch(key);
                self.count_found(size.read);
                return Ok((values, false));
            }
        }
        state.make_room(size.held, &self.memory);
        let reserved = MemoryGauge::reserve(&self.memory, size.held);
        let coming = Arc::new(OnceLock::new());
        if state.bytes_max > 0 {
            state.pieces.insert(key, Piece::Coming(Arc::clone(&coming)));
        }
        drop(state);
        let arrival = Arrival { cache: self, key, coming };
        let piece = read(reserved)?;
        self.read_bytes.fetch_add(size.read, Ordering::Relaxed);
        Ok((arrival.arrive(piece, size.held), true))
    }
}

impl CacheState {
    /// Evicts pieces until this many bytes fit, or all others are pinned.
    fn make_room(&mut self, bytes: u64, memory: &MemoryGauge) {
        let excess = (memory.held() + bytes).saturating_sub(self.bytes_max);
        let pieces = &self.pieces;
        let is_pinned = |key| matches!(pieces.get(&key), Some(Piece::Held(piece)) if piece.is_pinned());
        for key in self.order.evict(excess, is_pinned) {
            self.pieces.remove(&key);
        }
    }

    /// Whether the query that announced this piece is still reading it.
    fn is_coming(&self, key: PieceKey, coming: &Arc<OnceLock<ArrayRef>>) -> bool {
        matches!(self.pieces.get(&key), Some(Piece::Coming(announced)) if Arc::ptr_eq(announced, coming))
    }
}

/// The end of a read, whether it succeeds, fails or panics: queries that wait for the piece are woken.
struct Arrival<'a> {
    cache: &'a ColumnCache,
    key: PieceKey,
    coming: Arc<OnceLock<ArrayRef>>,
}

impl Arrival<'_> {
    /// Gives the values to all queries that wait for them, and to later ones if there is room.
    fn arrive(self, piece: ReadPiece, bytes: u64) -> ArrayRef {
        let ReadPiece { values, memory } = piece;
        let own_references = memory.strong_count();
        let mut state = self.cache.state.lock();
        if state.is_coming(self.key, &self.coming) && self.cache.memory.held() <= state.bytes_max {
            let held = HeldPiece { values: Arc::clone(&values), memory, own_references };
            state.pieces.insert(self.key, Piece::Held(held));
            state.order.add(self.key, bytes);
        }
        self.coming.set(Arc::clone(&values)).expect("a piece arrives once");
        values
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.lock();
        if state.is_coming(self.key, &self.coming) {
            state.pieces.remove(&self.key);
        }
        drop(state);
        self.cache.arrived.notify_all();
    }
}

/// The memory into which files were read and that is not free yet.
#[derive(Debug, Default)]
struct MemoryGauge {
    // Relaxed: reservations are made under the cache's lock, and one that is freed a moment later only evicts more.
    held: AtomicU64,
    peak: AtomicU64,
}

impl MemoryGauge {
    fn reserve(gauge: &Arc<MemoryGauge>, bytes: u64) -> Reservation {
        let held = gauge.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        gauge.peak.fetch_max(held, Ordering::Relaxed);
        Reservation { gauge: Arc::clone(gauge), bytes }
    }

    fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn take_peak(&self) -> u64 {
        self.peak.swap(self.held(), Ordering::Relaxed)
    }
}

/// Memory that counts as held until this value is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    gauge: Arc<MemoryGauge>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.gauge.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
