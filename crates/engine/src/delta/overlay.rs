//! The changes that a query merges: those that the chunks of its snapshot lack. The overlay of a chunk is made for the
//! columns that are read, at the first request. A row changed only in other columns stays in place, so a scan need not
//! copy its neighbours to leave it out. So does a row changed in columns of numbers: its new values are put in place,
//! batch by batch.
//!
//! Changes are only appended while a version is current. So the next snapshot reuses the overlay of the one before if
//! the chunk has not changed since. Otherwise it extends the overlay by the changes since, which are few if snapshots
//! follow each other closely.

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

/// The cost of merging so far, for all queries of a set of tables.
#[derive(Debug, Default)]
pub(super) struct MergeMeter {
    /// Changed rows that were merged. Relaxed, as below: no decision depends on these figures.
    pub(super) tuples: AtomicU64,
    pub(super) nanos: AtomicU64,
}

impl MergeMeter {
    pub(super) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// Everything needed to read a table's changes.
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
    /// The number of changes in them.
    changes: usize,
    /// The columns that were written in any row: every column if a row came or went.
    written: ColumnSet,
    /// Overlays made for this snapshot and earlier ones, the last used at the end: at most [`MADE_MAX`].
    made: Mutex<Vec<BuiltOverlay>>,
}

/// Sets of columns whose overlays are kept: the scans of a query may read different columns of the same table.
const MADE_MAX: usize = 3;

/// An overlay is extended if at most this share of the changes is new. Merging a change into an existing overlay takes
/// longer than adding it to a new one.
const EXTENDED_SHARE: f64 = 0.1;

#[derive(Debug, Clone)]
struct BuiltOverlay {
    columns: Arc<[usize]>,
    /// The number of the chunk's changes that it shows, from the first.
    changes: usize,
    overlay: Arc<ChunkOverlay>,
}

impl LazyOverlay {
    /// The changes that a version of a table lacks, by chunk. `before` has those of an earlier snapshot of the table.
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

    /// Makes the overlay for these columns; `earlier` is an older one for them.
    fn make(
        &self,
        chunk: &LazyChunk,
        columns: &[usize],
        earlier: Option<&BuiltOverlay>,
    ) -> Result<BuiltOverlay, ArrowError> {
        let Reading { meter, clock, .. } = &*self.reading;
        let began = clock.now();
        let few = |made: &&BuiltOverlay| (chunk.changes - made.changes) as f64 <= EXTENDED_SHARE * chunk.changes as f64;
        let extended = earlier.filter(few).map(|earlier| self.extend(chunk, columns, earlier)).transpose()?.flatten();
        let (overlay, rows) = match extended {
            Some(extended) => extended,
            None => self.make_anew(chunk, columns)?,
        };
        meter.tuples.fetch_add(rows as u64, Ordering::Relaxed);
        meter.nanos.fetch_add(clock.now().saturating_sub(began).as_nanos() as u64, Ordering::Relaxed);
        Ok(BuiltOverlay { columns: columns.into(), changes: chunk.changes, overlay: Arc::new(overlay) })
    }

    /// The overlay of all changes, and the number of rows looked at.
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

    /// An earlier overlay with the changes since, and the number of rows that these have changed. `None` if they do
    /// more than give new values to rows that it shows in place.
    fn extend(
        &self,
        chunk: &LazyChunk,
        columns: &[usize],
        earlier: &BuiltOverlay,
    ) -> Result<Option<(ChunkOverlay, usize)>, ArrowError> {
        let changes = Changes::of(&self.reading.layout, changes_after(&chunk.segments, earlier.changes));
        let Seen { patched, rows, .. } = self.see(&changes, chunk.base.as_deref(), columns);
        let ChunkOverlay { masked, images, patches, entries } = &*earlier.overlay;
        // Also if a new row takes the place of a deleted one, for any columns.
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
        // Text is stored as codes, or beside its views: neither has room for another value.
        let is_fixed = |&column: &usize| !self.reading.schema.field(column).data_type().is_primitive();
        changes.seen(base, read.clone().collect(), read.filter(is_fixed).collect())
    }

    /// The new values of these columns in rows that stay in place.
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
        // The lock is held while an overlay is made. A new snapshot does not wait for it.
        let made = before.filter(is_same).and_then(|before| Some(before.made.try_lock()?.clone())).unwrap_or_default();
        let changes = segments.iter().map(|segment| segment.len()).sum();
        let written = segments.iter().fold(ColumnSet::default(), |written, segment| written.with(segment.written()));
        LazyChunk { base, segments, changes, written, made: Mutex::new(made) }
    }

    /// Whether a query that reads these columns sees any of the changes. Without inserts and deletes, all of them are
    /// updates of rows of the chunk.
    fn concerns(&self, columns: &[usize]) -> bool {
        self.written == ColumnSet::ALL || self.written.meets(columns.iter().copied().collect())
    }
}

/// A bit for each row, set at these positions; empty if there are none.
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
        // Held while the overlay is made: another scan of the same columns needs the same one.
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
