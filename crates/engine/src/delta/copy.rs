//! The column copy of a set of tables and the changes that it lacks: the current version of each chunk, and its
//! changes.
//!
//! Invariants, all under the mutex of [`ColumnCopy`]:
//! 1. The changes of a chunk are exactly those of the commits up to `seq` that its version lacks.
//! 2. A snapshot takes the versions and the changes of all chunks at once, so it is the state after the first `seq`
//!    commits.
//! 3. Only the thread that folds a chunk replaces its version, and in the same step it removes the changes that it has
//!    folded. Until then changes are only appended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::DeltaTable;
use super::inbox::{Inbox, InboxCounts};
use super::overlay::{LazyOverlay, MergeMeter, Reading};
use super::segment::{ChunkDelta, Segment};
use crate::clock::Clock;
use crate::columns::chunk::Chunk;
use crate::columns::overlay::Overlay;
use crate::columns::store::SnapshotTable;
use crate::columns::table::{CHUNK_ROWS, ColumnTable};
use crate::columns::{ColumnError, ColumnSnapshot};

/// The versions of all chunks of a set, and the changes that they lack.
#[derive(Debug)]
pub(super) struct ColumnCopy {
    state: Mutex<CopyState>,
    /// Held while a version of a table is made, so that only one is made at a time. Taken before `state`.
    replacing: Vec<Mutex<()>>,
    inbox: Arc<Inbox>,
    meter: Arc<MergeMeter>,
    /// Bytes of all live segments.
    segment_bytes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct CopyState {
    /// Commits up to this one have been taken out of the inbox.
    seq: u64,
    tables: Vec<TableCopy>,
    /// The label of the state after the first `label_seq` commits.
    label: String,
    label_seq: u64,
    latest: Option<SharedSnapshot>,
    /// Chunk versions that were replaced.
    replaced: Vec<Weak<Chunk>>,
    #[cfg(test)]
    history: Vec<super::batch::CommitBatch>,
}

#[derive(Debug)]
struct TableCopy {
    current: Arc<ColumnTable>,
    changes: BTreeMap<usize, ChunkDelta>,
    reading: Arc<Reading>,
    /// The changes that the last snapshot shows, while it is in use.
    shown: Weak<LazyOverlay>,
}

/// A snapshot that several queries may share.
#[derive(Debug, Clone)]
struct SharedSnapshot {
    snapshot: Arc<ColumnSnapshot>,
    /// When it was the latest state.
    at: Duration,
    /// Tuples published by then.
    tuples: u64,
}

/// Changes of a chunk that are to be folded.
pub(super) struct Job {
    pub(super) chunk: usize,
    pub(super) segments: Vec<Arc<Segment>>,
}

/// The changes that the copy lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) counts: InboxCounts,
    pub(super) tuples: u64,
    pub(super) oldest: Option<Duration>,
    pub(super) segment_bytes: u64,
    pub(super) old_versions: usize,
}

impl ColumnCopy {
    pub(super) fn new(tables: Vec<DeltaTable>, label: &str, inbox: &Arc<Inbox>, clock: &Arc<dyn Clock>) -> Self {
        let meter = Arc::<MergeMeter>::default();
        let copy = |table: DeltaTable| {
            let schema = Arc::clone(table.columns.schema());
            let (meter, clock) = (Arc::clone(&meter), Arc::clone(clock));
            let reading = Arc::new(Reading { layout: table.layout, schema, meter, clock });
            TableCopy { current: table.columns, changes: BTreeMap::new(), reading, shown: Weak::new() }
        };
        let tables: Vec<TableCopy> = tables.into_iter().map(copy).collect();
        let replacing = tables.iter().map(|_| Mutex::default()).collect();
        let state = CopyState {
            seq: 0,
            tables,
            label: label.to_owned(),
            label_seq: 0,
            latest: None,
            replaced: Vec::new(),
            #[cfg(test)]
            history: Vec::new(),
        };
        let segment_bytes = Arc::default();
        ColumnCopy { state: Mutex::new(state), replacing, inbox: Arc::clone(inbox), meter, segment_bytes }
    }

    pub(super) fn table_count(&self) -> usize {
        self.replacing.len()
    }

    /// Whether the chunks of a table are in a file.
    pub(super) fn is_on_disk(&self, table: usize) -> bool {
        self.current(table).0.file().is_some()
    }

    pub(super) fn meter(&self) -> &MergeMeter {
        &self.meter
    }

    /// Takes the published batches out of the inbox and distributes their changes among the chunks.
    fn take_in(&self) -> (MutexGuard<'_, CopyState>, InboxCounts) {
        let mut state = self.state.lock();
        let (pieces, counts) = self.inbox.take();
        // By table and chunk.
        let mut fresh: Vec<Vec<Option<Segment>>> = state.tables.iter().map(|_| Vec::new()).collect();
        for batch in pieces.iter().flatten() {
            for (table, row, image) in batch.changes() {
                let (chunk, position) = (row as usize / CHUNK_ROWS, row as usize % CHUNK_ROWS);
                let chunks = &mut fresh[table as usize];
                if chunk >= chunks.len() {
                    chunks.resize_with(chunk + 1, || None);
                }
                let segment = chunks[chunk].get_or_insert_with(|| Segment::new(batch.at, &self.segment_bytes));
                segment.push(position as u32, image);
            }
        }
        for (table, chunks) in state.tables.iter_mut().zip(fresh) {
            for (chunk, segment) in chunks.into_iter().enumerate() {
                if let Some(segment) = segment {
                    table.changes.entry(chunk).or_default().push(segment);
                }
            }
        }
        state.seq = counts.seq;
        #[cfg(test)]
        state.history.extend(pieces.iter().flatten().cloned());
        self.inbox.give_back(pieces);
        (state, counts)
    }

    /// The state after all commits that were published before this call.
    pub(super) fn snapshot(&self, now: Duration) -> Arc<ColumnSnapshot> {
        let (mut state, counts) = self.take_in();
        let state = &mut *state;
        if let Some(made) = &mut state.latest
            && made.snapshot.seq() == state.seq
            && is_same(&made.snapshot, &state.tables)
        {
            // Another query may have begun later and taken the lock first.
            made.at = made.at.max(now);
            return Arc::clone(&made.snapshot);
        }
        let snapshot = Arc::new(state.snapshot());
        state.latest = Some(SharedSnapshot { snapshot: Arc::clone(&snapshot), at: now, tuples: counts.tuples });
        snapshot
    }

    /// An earlier snapshot, if it was the latest state at that moment or after it.
    pub(super) fn made_since(&self, moment: Duration) -> Option<Arc<ColumnSnapshot>> {
        let state = self.state.lock();
        state.latest.as_ref().filter(|made| made.at >= moment).map(|made| Arc::clone(&made.snapshot))
    }

    pub(super) fn readable_since(&self, moment: Duration) -> Option<u64> {
        self.state.lock().latest.as_ref().filter(|made| made.at >= moment).map(|made| made.tuples)
    }

    /// Drops the last snapshot, unless a query still holds it.
    pub(super) fn forget_made_before(&self, moment: Duration) {
        let old = self.state.lock().latest.take_if(|made| made.at < moment);
        drop(old);
    }

    /// Labels the current state.
    pub(super) fn relabel(&self, label: String) {
        let (mut state, counts) = self.take_in();
        (state.label, state.label_seq) = (label, counts.seq);
        state.latest = None;
    }

    /// The chunks of a table that one thread is to fold: those for which the closure returns true.
    pub(super) fn begin_folding(&self, table: usize, is_wanted: impl Fn(usize, &ChunkDelta) -> bool) -> Vec<Job> {
        let (mut state, _) = self.take_in();
        let wanted = state.tables[table].changes.iter_mut().filter(|(chunk, delta)| is_wanted(**chunk, delta));
        wanted.map(|(&chunk, delta)| Job { chunk, segments: delta.begin_folding() }).collect()
    }

    /// The version of a table on which a chunk is folded. No other thread replaces the chunks that the caller folds.
    pub(super) fn current(&self, table: usize) -> (Arc<ColumnTable>, Arc<Reading>) {
        let state = self.state.lock();
        (Arc::clone(&state.tables[table].current), Arc::clone(&state.tables[table].reading))
    }

    /// Replaces the chunks that were folded by their next versions. Returns the bytes by which the delta is shorter.
    pub(super) fn replace(&self, table: usize, folded: &[(usize, Arc<Chunk>)]) -> Result<u64, ColumnError> {
        let _turn = self.replacing[table].lock();
        let (current, _) = self.current(table);
        let next = Arc::new(current.with_chunks(folded)?);
        drop(current);
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.tables[table].current, next);
        let mut gone = Vec::new();
        for (chunk, _) in folded {
            let changes = &mut state.tables[table].changes;
            let delta = changes.get_mut(chunk).expect("it is being folded");
            gone.extend(delta.end_folding());
            if delta.is_empty() {
                changes.remove(chunk);
            }
            state.replaced.extend(before.chunks().get(*chunk).map(Arc::downgrade));
        }
        state.replaced.retain(|version| version.strong_count() > 0);
        drop(state);
        // Data without other references is freed here, outside the lock.
        let bytes = gone.iter().map(|segment| segment.bytes()).sum();
        drop((before, gone));
        Ok(bytes)
    }

    pub(super) fn backlog(&self) -> Backlog {
        let (mut state, counts) = self.take_in();
        let changes = || state.tables.iter().flat_map(|table| table.changes.values());
        let tuples = changes().map(|delta| delta.len() as u64).sum();
        let oldest = changes().filter_map(ChunkDelta::oldest).min();
        let segment_bytes = self.segment_bytes.load(Ordering::Relaxed);
        state.replaced.retain(|version| version.strong_count() > 0);
        let old_versions = state.replaced.len();
        Backlog { counts, tuples, oldest, segment_bytes, old_versions }
    }

    #[cfg(test)]
    pub(super) fn history(&self) -> Vec<super::batch::CommitBatch> {
        self.take_in().0.history.clone()
    }
}

impl CopyState {
    fn snapshot(&mut self) -> ColumnSnapshot {
        let label = if self.seq == self.label_seq { self.label.clone() } else { format!("commit {}", self.seq) };
        ColumnSnapshot::at(label, self.seq, self.tables.iter_mut().map(TableCopy::view))
    }
}

impl TableCopy {
    fn view(&mut self) -> SnapshotTable {
        let before = self.shown.upgrade();
        let overlay = (!self.changes.is_empty())
            .then(|| Arc::new(LazyOverlay::new(&self.reading, &self.current, &self.changes, before.as_deref())));
        self.shown = overlay.as_ref().map_or_else(Weak::new, Arc::downgrade);
        SnapshotTable::new(Arc::clone(&self.current), overlay.map(|overlay| overlay as Arc<dyn Overlay>))
    }
}

/// Whether a snapshot has the current version of every table. If it has and is as recent, a new one would be the same.
fn is_same(snapshot: &ColumnSnapshot, tables: &[TableCopy]) -> bool {
    tables
        .iter()
        .all(|table| snapshot.table(table.current.name()).is_some_and(|version| Arc::ptr_eq(version, &table.current)))
}
