//! What a query merges: the changes that the chunks of its snapshot lack, made for a chunk and the columns that are read when they are asked
//! for. A row that was changed in other columns only stays where the chunk has it: a scan need not copy its neighbours to leave it out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::BooleanBufferBuilder;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parking_lot::Mutex;

use super::changes::Changes;
use super::segment::Segment;
use crate::clock::Clock;
use crate::columns::chunk::Chunk;
use crate::columns::overlay::{ChunkOverlay, Images, Overlay};
use crate::columns::table::ColumnTable;
use crate::table::layout::{ColumnSet, RowLayout};

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
    /// What was made last.
    made: Mutex<Option<Made>>,
}

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
        let lazy = |(chunk, segments)| (chunk, LazyChunk { segments, made: Mutex::new(None) });
        LazyOverlay { reading: Arc::clone(reading), current: Arc::clone(current), chunks: chunks.map(lazy).collect() }
    }

    fn make(&self, number: usize, chunk: &LazyChunk, columns: &[usize]) -> Result<Arc<ChunkOverlay>, ArrowError> {
        let Reading { layout, schema, meter, clock } = &*self.reading;
        let began = clock.now();
        let changes = Changes::of(layout, &chunk.segments);
        let base = self.current.chunks().get(number).map(Arc::as_ref);
        let read = columns.iter().fold(ColumnSet::default(), |set, column| set.with(ColumnSet::one(*column)));
        let seen = changes.seen(base, read);
        let mut images = vec![None; schema.fields().len()];
        for &column in columns {
            images[column] = Some(changes.column(&seen, column, schema.field(column).data_type(), base)?);
        }
        let base_rows = base.map_or(0, Chunk::rows);
        let mut masked = BooleanBufferBuilder::new(base_rows);
        masked.append_n(base_rows, false);
        let positions = changes.positions();
        let gone = positions.iter().filter(|row| row.columns.is_none());
        let hidden = gone.chain(&seen).map(|row| row.position as usize).filter(|&at| at < base_rows);
        hidden.for_each(|position| masked.set_bit(position, true));
        meter.tuples.fetch_add(positions.len() as u64, Ordering::Relaxed);
        meter.nanos.fetch_add(clock.now().saturating_sub(began).as_nanos() as u64, Ordering::Relaxed);
        let images = Images { rows: seen.len(), columns: images };
        Ok(Arc::new(ChunkOverlay { masked: masked.finish(), images, entries: positions.len() }))
    }
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
        if let Some(made) = made.as_ref().filter(|made| *made.columns == *columns) {
            return Ok(Some(Arc::clone(&made.overlay)));
        }
        let overlay = self.make(chunk, lazy, columns)?;
        *made = Some(Made { columns: columns.into(), overlay: Arc::clone(&overlay) });
        Ok(Some(overlay))
    }
}
