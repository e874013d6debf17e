//! What a query merges: the changes that the chunks of its snapshot lack, made for a chunk and the columns that are read when they are asked
//! for. A row that was changed in other columns only stays where the chunk has it: a scan need not copy its neighbours to leave it out.
//! So does one that was changed in columns of numbers: its new values are put in their places, batch by batch.
//!
//! The changes that a version of a chunk lacks only grow at their end. So what was made for one snapshot serves the next as it is if the chunk
//! has not changed since, and otherwise it can be extended by the changes since, which are few if snapshots follow each other closely.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parking_lot::Mutex;

use super::changes::{ChangedPosition, Changes, Seen};
use super::segment::{ChunkDelta, Segment, changes_after};
use crate::clock::Clock;
use crate::columns::chunk::Chunk;
use crate::columns::overlay::{ChunkOverlay, Images, Overlay, Patch};
use crate::columns::table::ColumnTable;
use crate::table::layout::{ColumnSet, RowLayout};

/// What merging has cost so far, by all queries of a set of tables.
#[derive(Debug, Default)]
pub(super) struct MergeMeter {
    /// Changed rows that were merged. Relaxed, as below: figures that nothing is decided by.
    pub(super) tuples: AtomicU64,
    pub(super) nanos: AtomicU64,
}

impl MergeMeter {
    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// What is needed to read a table's changes.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) layout: RowLayout,
    pub(super) schema: SchemaRef,
    pub(super) meter: Arc<MergeMeter>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The changes of one table.
#[derive(Debug)]
pub(super) struct LazyOverlay {
    reading: Arc<Reading>,
    chunks: BTreeMap<usize, LazyChunk>,
}

#[derive(Debug)]
struct LazyChunk {
    /// The version that lacks the changes; `None` behind the table's last chunk.
    base: Option<Arc<Chunk>>,
    segments: Vec<Arc<Segment>>,
    /// How many changes these have.
    changes: usize,
    /// The columns that were written in any row: every column if a row came or went.
    written: ColumnSet,
    /// What was made for this snapshot and those before, the last used at the end: at most [`MADE_MAX`].
    made: Mutex<Vec<Made>>,
}

/// Sets of columns whose changes are kept: the scans of a query may read different ones of the same table.
const MADE_MAX: usize = 3;

/// What was made is extended if at most this share of the changes came since: to put each in its place takes longer than to go on to the next.
const EXTENDED_SHARE: f64 = 0.1;

#[derive(Debug, Clone)]
struct Made {
    columns: Arc<[usize]>,
    /// How many of the chunk's changes it shows: the first.
    changes: usize,
    overlay: Arc<ChunkOverlay>,
}

impl LazyOverlay {
    /// The changes that a version of a table lacks, by chunk. `before` is what an earlier snapshot has shown of the table.
    pub(super) fn new(
        reading: &Arc<Reading>,
        current: &ColumnTable,
        changes: &BTreeMap<usize, ChunkDelta>,
        before: Option<&LazyOverlay>,
    ) -> Self {
        let lazy = |(&number, delta): (&usize, &ChunkDelta)| {
            let before = before.and_then(|before| before.chunks.get(&number));
            (number, LazyChunk::new(current.chunks().get(number).cloned(), delta.segments(), before))
        };
        LazyOverlay { reading: Arc::clone(reading), chunks: changes.iter().map(lazy).collect() }
    }

    /// Makes what these columns need; `earlier` is what was made before for them.
    fn make(&self, chunk: &LazyChunk, columns: &[usize], earlier: Option<&Made>) -> Result<Made, ArrowError> {
        let Reading { meter, clock, .. } = &*self.reading;
        let began = clock.now();
        let few = |made: &&Made| (chunk.changes - made.changes) as f64 <= EXTENDED_SHARE * chunk.changes as f64;
        let extended = earlier.filter(few).map(|earlier| self.extend(chunk, columns, earlier)).transpose()?.flatten();
        let (overlay, rows) = match extended {
            Some(extended) => extended,
            None => self.make_anew(chunk, columns)?,
        };
        meter.tuples.fetch_add(rows as u64, Ordering::Relaxed);
        meter.nanos.fetch_add(clock.now().saturating_sub(began).as_nanos() as u64, Ordering::Relaxed);
        Ok(Made { columns: columns.into(), changes: chunk.changes, overlay: Arc::new(overlay) })
    }

    /// What all changes come to, and how many rows were looked at for it.
    fn make_anew(&self, chunk: &LazyChunk, columns: &[usize]) -> Result<(ChunkOverlay, usize), ArrowError> {
        let Reading { layout, schema, .. } = &*self.reading;
        let base = chunk.base.as_deref();
        let changes = Changes::of(layout, changes_after(&chunk.segments, 0));
        let Seen { patched, images: rows, hidden, rows: entries } = self.see(&changes, base, columns);
        let mut images = Images { rows: rows.len(), columns: vec![None; schema.fields().len()] };
        for &column in columns {
            images.columns[column] = Some(changes.column(&rows, column, schema.field(column).data_type(), base)?);
        }
        let patches = self.patches(&changes, &patched, columns)?;
        Ok((ChunkOverlay { masked: mask(base.map_or(0, Chunk::rows), &hidden), images, patches, entries }, entries))
    }

    /// An earlier overlay with the changes since, and how many rows these have changed. `None` if they are more than new values of
    /// rows that it shows in their places.
    fn extend(
        &self,
        chunk: &LazyChunk,
        columns: &[usize],
        earlier: &Made,
    ) -> Result<Option<(ChunkOverlay, usize)>, ArrowError> {
        let changes = Changes::of(&self.reading.layout, changes_after(&chunk.segments, earlier.changes));
        let Seen { patched, rows, .. } = self.see(&changes, chunk.base.as_deref(), columns);
        let ChunkOverlay { masked, images, patches, entries } = &*earlier.overlay;
        // Also of a row that comes again where one has gone, whatever is read.
        let is_masked = |row: &ChangedPosition| !masked.is_empty() && masked.value(row.position as usize);
        if patched.len() < rows || changes.positions().iter().any(is_masked) {
            return Ok(None);
        }
        let is_new =
            |row: &&ChangedPosition| patches.iter().all(|patch| patch.positions.binary_search(&row.position).is_err());
        let entries = entries + patched.iter().filter(is_new).count();
        let mut patches = patches.clone();
        for later in self.patches(&changes, &patched, columns)? {
            match patches.iter_mut().find(|patch| patch.column == later.column) {
                Some(patch) => *patch = patch.with_later(&later)?,
                None => patches.push(later),
            }
        }
        Ok(Some((ChunkOverlay { masked: masked.clone(), images: images.clone(), patches, entries }, rows)))
    }

    /// How a query that reads these columns sees changes of a chunk.
    fn see(&self, changes: &Changes<'_>, base: Option<&Chunk>, columns: &[usize]) -> Seen {
        let read = columns.iter().copied();
        // Text is kept as codes, or beside its views: neither has a place for another value.
        let is_fixed = |&column: &usize| !self.reading.schema.field(column).data_type().is_primitive();
        changes.seen(base, read.clone().collect(), read.filter(is_fixed).collect())
    }

    /// The new values of these columns in rows that keep their places.
    fn patches(
        &self,
        changes: &Changes<'_>,
        rows: &[ChangedPosition],
        columns: &[usize],
    ) -> Result<Vec<Patch>, ArrowError> {
        let patch = |&column: &usize| {
            let positions = rows.iter().filter(|row| row.has_written(column)).map(|row| row.position);
            let positions: Vec<u32> = positions.collect();
            if positions.is_empty() {
                return None;
            }
            let values = changes.written(rows, column, self.reading.schema.field(column).data_type());
            Some(values.map(|values| Patch { column, positions, values }))
        };
        columns.iter().filter_map(patch).collect()
    }
}

impl LazyChunk {
    fn new(base: Option<Arc<Chunk>>, segments: Vec<Arc<Segment>>, before: Option<&LazyChunk>) -> Self {
        let is_same = |before: &&LazyChunk| match (&base, &before.base) {
            (Some(base), Some(before)) => Arc::ptr_eq(base, before),
            (None, None) => true,
            _ => false,
        };
        // Whoever makes something holds the lock meanwhile; nobody who wants a snapshot waits for that.
        let made = before.filter(is_same).and_then(|before| Some(before.made.try_lock()?.clone())).unwrap_or_default();
        let changes = segments.iter().map(|segment| segment.len()).sum();
        let written = segments.iter().fold(ColumnSet::default(), |written, segment| written.with(segment.written()));
        LazyChunk { base, segments, changes, written, made: Mutex::new(made) }
    }

    /// Whether a query that reads these columns sees any of the changes. If no row came or went, all of them are updates of rows that the
    /// chunk has.
    fn concerns(&self, columns: &[usize]) -> bool {
        self.written == ColumnSet::ALL || self.written.meets(columns.iter().copied().collect())
    }
}

/// A bit for each row, set for those at these positions; no bits if none is.
fn mask(rows: usize, positions: &[u32]) -> BooleanBuffer {
    let mut mask = BooleanBufferBuilder::new(rows);
    if !positions.is_empty() {
        mask.append_n(rows, false);
        positions.iter().for_each(|&position| mask.set_bit(position as usize, true));
    }
    mask.finish()
}

impl Overlay for LazyOverlay {
    fn chunk_count(&self) -> usize {
        self.chunks.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    fn entries(&self) -> usize {
        self.chunks.values().map(|chunk| chunk.changes).sum()
    }

    fn chunk(&self, chunk: usize, columns: &[usize]) -> Result<Option<Arc<ChunkOverlay>>, ArrowError> {
        let Some(lazy) = self.chunks.get(&chunk).filter(|lazy| lazy.concerns(columns)) else { return Ok(None) };
        // Held while it is made: another scan of the same columns wants the same.
        let mut made = lazy.made.lock();
        let found = made.iter().position(|made| *made.columns == *columns).map(|at| made.remove(at));
        let found = match found {
            Some(found) if found.changes == lazy.changes => found,
            earlier => self.make(lazy, columns, earlier.as_ref())?,
        };
        if made.len() == MADE_MAX {
            made.remove(0);
        }
        let overlay = Arc::clone(&found.overlay);
        made.push(found);
        Ok(Some(overlay))
    }
}
