//! What a query merges: the changes that the chunks of its snapshot lack, made for a chunk when it is first asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::{BooleanBufferBuilder, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use arrow::error::ArrowError;

use super::changes::Changes;
use super::segment::Segment;
use crate::clock::Clock;
use crate::columns::chunk::Chunk;
use crate::columns::overlay::{ChunkOverlay, Overlay};
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
    made: OnceLock<Result<Arc<ChunkOverlay>, String>>,
}

impl LazyOverlay {
    /// The changes of these chunks of a version, by number.
    pub(super) fn new(
        reading: &Arc<Reading>,
        current: &Arc<ColumnTable>,
        chunks: impl Iterator<Item = (usize, Vec<Arc<Segment>>)>,
    ) -> Self {
        let lazy = |(chunk, segments)| (chunk, LazyChunk { segments, made: OnceLock::new() });
        LazyOverlay { reading: Arc::clone(reading), current: Arc::clone(current), chunks: chunks.map(lazy).collect() }
    }

    fn make(&self, number: usize, chunk: &LazyChunk) -> Result<Arc<ChunkOverlay>, ArrowError> {
        let Reading { layout, schema, meter, clock } = &*self.reading;
        let began = clock.now();
        let changes = Changes::of(layout, &chunk.segments);
        let base = self.current.chunks().get(number).map(Arc::as_ref);
        let column = |(column, field): (usize, &Arc<Field>)| changes.column(column, field.data_type(), base);
        let columns = schema.fields().iter().enumerate().map(column).collect::<Result<_, _>>()?;
        let images = RecordBatch::try_new(Arc::clone(schema), columns)?;
        let base_rows = base.map_or(0, Chunk::rows);
        let mut masked = BooleanBufferBuilder::new(base_rows);
        masked.append_n(base_rows, false);
        let positions = changes.positions();
        let of_base = positions.iter().map(|row| row.position as usize).filter(|&at| at < base_rows);
        of_base.for_each(|position| masked.set_bit(position, true));
        meter.tuples.fetch_add(positions.len() as u64, Ordering::Relaxed);
        meter.nanos.fetch_add(clock.now().saturating_sub(began).as_nanos() as u64, Ordering::Relaxed);
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

    fn chunk(&self, chunk: usize) -> Result<Option<Arc<ChunkOverlay>>, ArrowError> {
        let Some(lazy) = self.chunks.get(&chunk) else { return Ok(None) };
        let made = lazy.made.get_or_init(|| self.make(chunk, lazy).map_err(|error| error.to_string()));
        made.clone().map(Some).map_err(ArrowError::ComputeError)
    }
}
