//! What a query merges: the changes that the chunks of its snapshot lack, made for a chunk when it is first asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::BooleanBufferBuilder;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::segment::{Segment, newest};
use crate::clock::Clock;
use crate::columns::overlay::{ChunkOverlay, Overlay};
use crate::table::layout::RowLayout;
use crate::table::stored::RowImage;
use crate::table_set::convert::batch_of;

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
    chunks: BTreeMap<usize, LazyChunk>,
}

#[derive(Debug)]
struct LazyChunk {
    segments: Vec<Arc<Segment>>,
    base_rows: usize,
    made: OnceLock<Result<Arc<ChunkOverlay>, String>>,
}

impl LazyOverlay {
    /// The changes of these chunks: for each its number, its rows without them, and its segments.
    pub(super) fn new(reading: &Arc<Reading>, chunks: impl Iterator<Item = (usize, usize, Vec<Arc<Segment>>)>) -> Self {
        let lazy = |(chunk, base_rows, segments)| (chunk, LazyChunk { segments, base_rows, made: OnceLock::new() });
        LazyOverlay { reading: Arc::clone(reading), chunks: chunks.map(lazy).collect() }
    }

    fn make(&self, chunk: &LazyChunk) -> Result<Arc<ChunkOverlay>, ArrowError> {
        let Reading { layout, schema, meter, clock } = &*self.reading;
        let began = clock.now();
        let changes = newest(&chunk.segments);
        let images: Vec<_> =
            changes.iter().filter_map(|(_, words)| Some(RowImage { layout, words: (*words)? })).collect();
        let images = batch_of(&images, schema)?;
        let mut masked = BooleanBufferBuilder::new(chunk.base_rows);
        masked.append_n(chunk.base_rows, false);
        let of_base = changes.iter().map(|(position, _)| *position as usize).filter(|&at| at < chunk.base_rows);
        of_base.for_each(|position| masked.set_bit(position, true));
        meter.tuples.fetch_add(changes.len() as u64, Ordering::Relaxed);
        meter.nanos.fetch_add(clock.now().saturating_sub(began).as_nanos() as u64, Ordering::Relaxed);
        Ok(Arc::new(ChunkOverlay { masked: masked.finish(), images, entries: changes.len() }))
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
        let Some(chunk) = self.chunks.get(&chunk) else { return Ok(None) };
        let made = chunk.made.get_or_init(|| self.make(chunk).map_err(|error| error.to_string()));
        made.clone().map(Some).map_err(ArrowError::ComputeError)
    }
}
