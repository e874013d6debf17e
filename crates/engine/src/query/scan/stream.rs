//! One partition of a running scan.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, MutableArrayData, make_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, concat};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::RecordBatchStream;
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::Stream;
use itertools::Itertools;

use crate::columns::ColumnTable;
use crate::columns::encode::ChunkColumn;
use crate::columns::table::LoadedColumns;
use crate::query::predicate::Morsel;
use crate::query::scan::ColumnScan;
use crate::query::scan::stream::filters::Filters;
use crate::query::scan::stream::supply::{ChunkQueue, Supplied, Supply};
use crate::query::usage::UsageMeter;

mod filters;
mod supply;

/// Columns of a chunk, and which of its rows: the first, and how many.
type NextRows = (Arc<LoadedColumns>, usize, usize);

/// Rows looked at in one go: large enough to keep per-call costs away, small enough that the columns of a morsel stay in the
/// second cache level.
const MORSEL_ROWS: usize = 32 * 1024;

/// One partition of a running scan.
pub struct ScanStream {
    table: Arc<ColumnTable>,
    projection: Vec<usize>,
    schema: SchemaRef,
    filters: Filters,
    supply: Supply,
    /// The chunk in work and the next row in it.
    place: Option<(Supplied, usize)>,
    batch_rows: usize,
    /// How many rows may still be returned.
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
        let strided = ChunkQueue::Strided { next: partition, step: scan.partitions };
        let queue = queue.map_or(strided, ChunkQueue::Shared);
        let tested = scan.filters.iter().flat_map(collect_columns).map(|column| column.index());
        let meter = context.session_config().get_extension::<UsageMeter>();
        let columns = scan.projection.iter().copied().chain(tested).sorted().dedup();
        ScanStream {
            table: Arc::clone(&scan.table),
            projection: scan.projection.clone(),
            schema: Arc::clone(&scan.schema),
            filters: Filters::new(Arc::clone(&scan.table), &scan.filters),
            supply: Supply::new(Arc::clone(&scan.table), columns, queue, meter),
            place: None,
            batch_rows: context.session_config().batch_size(),
            remaining: scan.fetch.unwrap_or(usize::MAX),
            // An operator that keeps a batch is charged for all of the memory that the batch points into, which would be the
            // whole chunk time and again.
            compacts: matches!(context.memory_pool().memory_limit(), MemoryLimit::Finite(_)),
            waiting: Waiting::default(),
            metrics: BaselineMetrics::new(&scan.metrics, partition),
        }
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<RecordBatch>>> {
        while self.remaining > 0 {
            let Some((columns, offset, rows)) = ready!(self.poll_morsel(context))? else {
                return Poll::Ready(self.flush());
            };
            let table = Arc::clone(&self.table);
            let morsel = Morsel { table: &table, columns: &columns, offset, rows };
            let selected = self.filters.select(&morsel)?;
            let batch = match selected {
                None => Some(self.assemble(&morsel)?),
                Some(selected) => self.keep(&morsel, selected)?,
            };
            if batch.is_some() {
                return Poll::Ready(Ok(batch));
            }
        }
        Poll::Ready(Ok(None))
    }

    /// The columns of the chunk in work, and the next rows of it.
    fn poll_morsel(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<NextRows>>> {
        loop {
            // Without conditions a morsel becomes a batch as it is; with a grant, batches must not be larger than asked for.
            let rows_max = if self.filters.are_empty() || self.compacts { self.batch_rows } else { MORSEL_ROWS };
            if let Some((chunk, next)) = &mut self.place
                && *next < chunk.rows
            {
                let offset = *next;
                let rows = rows_max.min(chunk.rows - offset);
                *next += rows;
                return Poll::Ready(Ok(Some((Arc::clone(&chunk.columns), offset, rows))));
            }
            self.place = None;
            let Some(chunk) = ready!(self.supply.poll_next(context, &mut self.filters))? else {
                return Poll::Ready(Ok(None));
            };
            self.place = Some((chunk, 0));
        }
    }

    /// Takes the selected rows of a morsel; returns a batch once enough rows have come together.
    fn keep(&mut self, morsel: &Morsel<'_>, selected: BooleanBuffer) -> Result<Option<RecordBatch>> {
        let count = selected.count_set_bits();
        if count == 0 {
            return Ok(None);
        }
        let columns = self.projection.iter().map(|&column| morsel.column(column));
        let piece: Vec<ChunkColumn> = if count == morsel.rows {
            columns.collect()
        } else {
            let filter = FilterBuilder::new(&BooleanArray::new(selected, None)).optimize().build();
            let gather = |column: ChunkColumn| Ok(column.with_physical(filter.filter(column.physical())?));
            columns.map(gather).collect::<Result<_>>()?
        };
        self.waiting.rows += count;
        self.waiting.pieces.push(piece);
        if self.waiting.rows < self.batch_rows { Ok(None) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let Waiting { rows, pieces } = std::mem::take(&mut self.waiting);
        if rows == 0 {
            return Ok(None);
        }
        let join = |place: usize| -> Result<ArrayRef> {
            let first = &pieces[0][place];
            let joined = match &pieces[..] {
                [_] => Arc::clone(first.physical()),
                many => {
                    concat(&many.iter().map(|piece| piece[place].physical().as_ref()).collect::<Vec<&dyn Array>>())?
                }
            };
            Ok(first.with_physical(joined).values(self.table.dictionary(self.projection[place]))?)
        };
        let columns = (0..self.projection.len()).map(join).collect::<Result<Vec<_>>>()?;
        self.batch(columns, rows).map(Some)
    }

    /// All rows of a morsel.
    fn assemble(&mut self, morsel: &Morsel<'_>) -> Result<RecordBatch> {
        let values = |&column: &usize| Ok(morsel.column(column).values(self.table.dictionary(column))?);
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

/// The same rows in memory of their own.
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
