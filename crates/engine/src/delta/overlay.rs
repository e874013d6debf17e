//! What a query merges: the changes that the chunks of its snapshot lack, made for a chunk and the columns that are read when they are asked
//! for. A row that was changed in other columns only stays where the chunk has it: a scan need not copy its neighbours to leave it out.
//! So does one that was changed in columns of numbers: its new values are put in their places, batch by batch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parking_lot::Mutex;

use super::changes::{Changes, Seen};
use super::segment::Segment;
use crate::clock::Clock;
use crate::columns::chunk::Chunk;
use crate::columns::overlay::{ChunkOverlay, Images, Overlay, Patch};
use crate::columns::table::ColumnTable;
use crate::table::layout::RowLayout;

/// What merging has cost so far, by all queries of a set of tables.
#[derive(Debug, Default)]
pub(super) struct MergeMeter {
    /// Changed positions that were merged. Relaxed, as below: figures that nothing is decided by.
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
    /// The version that lacks the changes.
    current: Arc<ColumnTable>,
    chunks: BTreeMap<usize, LazyChunk>,
}

#[derive(Debug)]
struct LazyChunk {
    segments: Vec<Arc<Segment>>,
    /// What was made last, the latest at the end: at most [`MADE_MAX`].
    made: Mutex<Vec<Made>>,
}

/// Sets of columns whose changes are kept: the scans of a query may read different ones of the same table.
const MADE_MAX: usize = 3;

#[derive(Debug)]
struct Made {
    columns: Box<[usize]>,
    overlay: Arc<ChunkOverlay>,
}

impl LazyOverlay {
    /// The changes of these chunks of a version, by number.
    pub(super) fn new(
        reading: &Arc<Reading>,
        current: &Arc<ColumnTable>,
        chunks: impl Iterator<Item = (usize, Vec<Arc<Segment>>)>,
    ) -> Self {
        let lazy = |(chunk, segments)| (chunk, LazyChunk { segments, made: Mutex::default() });
        LazyOverlay { reading: Arc::clone(reading), current: Arc::clone(current), chunks: chunks.map(lazy).collect() }
    }

    fn make(&self, number: usize, chunk: &LazyChunk, columns: &[usize]) -> Result<Arc<ChunkOverlay>, ArrowError> {
        let Reading { layout, schema, meter, clock } = &*self.reading;
        let began = clock.now();
        let changes = Changes::of(layout, &chunk.segments);
        let base = self.current.chunks().get(number).map(Arc::as_ref);
        let kind = |column: usize| schema.field(column).data_type();
        let read = columns.iter().copied();
        // Text is kept as codes, or beside its views: neither has a place for another value.
        let fixed = read.clone().filter(|&column| !kind(column).is_primitive()).collect();
        let Seen { patched, images: rows, hidden } = changes.seen(base, read.collect(), fixed);
        let mut images = Images { rows: rows.len(), columns: vec![None; schema.fields().len()] };
        let mut patches = Vec::new();
        for &column in columns {
            images.columns[column] = Some(changes.column(&rows, column, kind(column), base)?);
            let positions = patched.iter().filter(|row| row.has_written(column)).map(|row| row.position);
            let positions: Vec<u32> = positions.collect();
            if !positions.is_empty() {
                patches.push(Patch { column, positions, values: changes.written(&patched, column, kind(column))? });
            }
        }
        let entries = changes.positions().len();
        meter.tuples.fetch_add(entries as u64, Ordering::Relaxed);
        meter.nanos.fetch_add(clock.now().saturating_sub(began).as_nanos() as u64, Ordering::Relaxed);
        Ok(Arc::new(ChunkOverlay { masked: mask(base.map_or(0, Chunk::rows), &hidden), images, patches, entries }))
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
        self.chunks.values().flat_map(|chunk| &chunk.segments).map(|segment| segment.len()).sum()
    }

    fn chunk(&self, chunk: usize, columns: &[usize]) -> Result<Option<Arc<ChunkOverlay>>, ArrowError> {
        let Some(lazy) = self.chunks.get(&chunk) else { return Ok(None) };
        // Held while it is made: another scan of the same columns wants the same.
        let mut made = lazy.made.lock();
        if let Some(made) = made.iter().find(|made| *made.columns == *columns) {
            return Ok(Some(Arc::clone(&made.overlay)));
        }
        let overlay = self.make(chunk, lazy, columns)?;
        if made.len() == MADE_MAX {
            made.remove(0);
        }
        made.push(Made { columns: columns.into(), overlay: Arc::clone(&overlay) });
        Ok(Some(overlay))
    }
}
