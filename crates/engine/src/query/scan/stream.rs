//! One partition of a running scan.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, MutableArrayData, make_array};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::RecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::Stream;

use crate::columns::encode::{ChunkColumn, join_values};
use crate::query::morsel::{Morsel, Picked};
use crate::query::scan::ColumnScan;
use crate::query::scan::stream::morsels::{Morsels, NextRows};

mod filters;
mod merge;
pub mod morsels;
mod supply;

/// One partition of a running scan.
pub struct ScanStream {
    projection: Vec<usize>,
    schema: SchemaRef,
    morsels: Morsels,
    /// The number of rows in a batch of rows that were picked from their chunks.
    full_rows: usize,
    /// The number of rows that may still be returned.
    remaining: usize,
    /// Whether batches are copied out of their chunks.
    compacts: bool,
    waiting: Waiting,
    metrics: BaselineMetrics,
}

/// Selected rows that do not fill a batch yet, by column, still encoded.
#[derive(Default)]
struct Waiting {
    rows: usize,
    pieces: Vec<Vec<ChunkColumn>>,
}

impl ScanStream {
    /// Starts a partition; partitions that share `queue` share the work.
    pub fn new(scan: &ColumnScan, partition: usize, queue: Option<Arc<AtomicUsize>>, context: &TaskContext) -> Self {
        let morsels = Morsels::new(scan, &scan.projection, partition, queue, context);
        let table = scan.version.columns();
        let batch_rows = context.session_config().batch_size();
        // Nearly all rows of a morsel make a separate batch: waiting for the few missing ones would copy all of them.
        let has_holes = scan.version.overlay().is_some() || table.chunks().iter().any(|chunk| chunk.live().is_some());
        ScanStream {
            projection: scan.projection.clone(),
            schema: Arc::clone(&scan.schema),
            compacts: morsels.are_batches(),
            morsels,
            full_rows: if has_holes { batch_rows / 2 } else { batch_rows },
            remaining: scan.fetch.unwrap_or(usize::MAX),
            waiting: Waiting::default(),
            metrics: BaselineMetrics::new(&scan.metrics, partition),
        }
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        while self.remaining > 0 {
            let Some(next) = ready!(self.morsels.poll_next(context))? else {
                return Poll::Ready(self.flush());
            };
            let started = next.are_images.then(Instant::now);
            let batch = self.take_rows(&next)?;
            self.morsels.spent_on_changes(started.map_or_else(|| next.patch_time(), |started| started.elapsed()));
            if batch.is_some() {
                return Poll::Ready(Ok(batch));
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Selects rows; returns a batch once it is full.
    fn take_rows(&mut self, next: &NextRows) -> Result<Option<RecordBatch>> {
        match self.morsels.select(next)? {
            // Rows that wait go first: an order that the scan promises is kept.
            None if self.waiting.rows == 0 => self.assemble(&next.morsel()).map(Some),
            selected => self.keep(&next.morsel(), selected),
        }
    }

    /// Takes the selected rows of a morsel, all if `selected` is `None`; returns a batch once it is full.
    fn keep(&mut self, morsel: &Morsel<'_>, selected: Option<BooleanBuffer>) -> Result<Option<RecordBatch>> {
        let count = selected.as_ref().map_or(morsel.rows, BooleanBuffer::count_set_bits);
        if count == 0 {
            return Ok(None);
        }
        let piece: Vec<ChunkColumn> = match selected.filter(|_| count < morsel.rows) {
            None => self.projection.iter().map(|&column| morsel.column(column)).collect(),
            Some(selected) => {
                let picked = Picked::new(selected, self.projection.len());
                let pick = |&column: &usize| morsel.pick(column, &picked);
                self.projection.iter().map(pick).collect::<Result<_, _>>()?
            }
        };
        self.waiting.rows += count;
        self.waiting.pieces.push(piece);
        if self.waiting.rows < self.full_rows { Ok(None) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let Waiting { rows, pieces } = std::mem::take(&mut self.waiting);
        if rows == 0 {
            return Ok(None);
        }
        let join = |place: usize| -> Result<ArrayRef> {
            Ok(join_values(&pieces.iter().map(|piece| &piece[place]).collect::<Vec<_>>())?)
        };
        let columns = (0..self.projection.len()).map(join).collect::<Result<Vec<_>>>()?;
        self.batch(columns, rows).map(Some)
    }

    /// All rows of a morsel.
    fn assemble(&mut self, morsel: &Morsel<'_>) -> Result<RecordBatch> {
        let values = |&column: &usize| Ok(morsel.column(column).values()?);
        let columns = self.projection.iter().map(values).collect::<Result<Vec<_>>>()?;
        self.batch(columns, morsel.rows)
    }

    fn batch(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let batch = if rows > self.remaining { batch.slice(0, self.remaining) } else { batch };
        let batch = if self.compacts { compact(&batch)? } else { batch };
        self.remaining -= batch.num_rows();
        Ok(batch)
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let batch = self.poll_batch(context).map(Result::transpose);
        self.metrics.record_poll(batch)
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// The same rows in separate memory.
fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let copy = |column: &ArrayRef| -> Result<ArrayRef> {
        if let Some(texts) = column.as_string_view_opt() {
            return Ok(Arc::new(texts.gc()));
        }
        let data = column.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len())?;
        Ok(make_array(copy.freeze()))
    };
    let columns = batch.columns().iter().map(copy).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// Whether an expression is filled in by another operator while the query runs.
fn is_dynamic(expression: &Arc<dyn PhysicalExpr>) -> bool {
    snapshot_generation(expression) != 0
}
