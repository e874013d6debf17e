//! The rows of one partition of a scan, some thousand at a time, and which of them satisfy all conditions: what a scan makes batches
//! of, and what operators that compute on columns as they are kept work on directly.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryLimit;

use crate::columns::chunk::LoadedColumns;
use crate::query::BATCH_ROWS;
use crate::query::morsel::{Morsel, PatchedColumn};
use crate::query::scan::ColumnScan;
use crate::query::scan::stream::filters::Filters;
use crate::query::scan::stream::merge::Merge;
use crate::query::scan::stream::supply::{ChunkQueue, Supplied, Supply};
use crate::query::usage::UsageMeter;

/// Rows looked at in one go: large enough to keep per-call costs away, small enough that the columns of a morsel stay in the
/// second cache level.
const MORSEL_ROWS: usize = 32 * 1024;

/// The rows of one partition.
pub struct Morsels {
    filters: Filters,
    supply: Supply,
    /// The chunk in work and the next row in it.
    place: Option<(Supplied, usize)>,
    batch_rows: usize,
    /// Whether no morsel may have more rows than a batch.
    are_batches: bool,
}

/// The next rows to look at.
pub struct NextRows {
    columns: Arc<LoadedColumns>,
    /// The first of them within the columns.
    offset: usize,
    rows: usize,
    /// Which of them to show; `None` for all.
    visible: Option<BooleanBuffer>,
    /// Whether these are images, which are laid over a chunk.
    pub are_images: bool,
    /// Columns with new values of some of the rows.
    patched: Vec<PatchedColumn>,
}

impl NextRows {
    /// The rows, those that are not to be shown included.
    pub fn morsel(&self) -> Morsel<'_> {
        let NextRows { columns, offset, rows, are_images, patched, .. } = self;
        Morsel { columns, offset: *offset, rows: *rows, are_images: *are_images, patched }
    }

    /// How long it took to put new values in their places.
    pub fn patch_time(&self) -> Duration {
        self.patched.iter().map(PatchedColumn::time).sum()
    }
}

impl Morsels {
    /// One partition of a scan that reads these columns of the table and those that its conditions name. Partitions that share
    /// `queue` share the work.
    pub fn new(
        scan: &ColumnScan,
        columns: &[usize],
        partition: usize,
        queue: Option<Arc<AtomicUsize>>,
        context: &TaskContext,
    ) -> Self {
        let strided = ChunkQueue::Strided { next: partition, step: scan.partitions };
        let queue = queue.map_or(strided, ChunkQueue::Shared);
        let meter = context.session_config().get_extension::<UsageMeter>();
        let columns = scan.columns_read(columns);
        let merge = scan.version.overlay().map(|overlay| Merge::new(overlay, &scan.metrics, partition, context));
        Morsels {
            filters: Filters::new(Arc::clone(scan.version.columns()), &scan.filters, &scan.key_bits),
            supply: Supply::new(&scan.version, columns, queue, meter, merge),
            place: None,
            batch_rows: context.session_config().batch_size(),
            // An operator that keeps a batch is charged for all of the memory that the batch points into, which would be the
            // whole chunk time and again.
            are_batches: matches!(context.memory_pool().memory_limit(), MemoryLimit::Finite(_)),
        }
    }

    /// Whether no morsel has more rows than a batch, because memory is limited.
    pub fn are_batches(&self) -> bool {
        self.are_batches
    }

    /// Counts time that went into images and new values.
    pub fn spent_on_changes(&self, time: Duration) {
        if let Some(merge) = self.supply.merge() {
            merge.spent(time);
        }
    }

    /// The next rows; `None` after the last.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<NextRows>>> {
        loop {
            // Without conditions a morsel becomes a batch as it is; with a grant, batches must not be larger than asked for; and if
            // fewer rows than by default are asked for, no operator is to handle more of them at a time.
            let is_batch = self.filters.are_empty() || self.are_batches || self.batch_rows < BATCH_ROWS;
            let rows_max = if is_batch { self.batch_rows } else { MORSEL_ROWS };
            if let Some((chunk, next)) = &mut self.place
                && *next < chunk.rows
            {
                let offset = *next;
                let rows = rows_max.min(chunk.rows - offset);
                *next += rows;
                let visible = chunk.visible.as_ref().map(|visible| visible.slice(offset, rows));
                let overlay = chunk.changes.as_ref().filter(|_| !chunk.are_images).map(|changes| &changes.overlay);
                return Poll::Ready(Ok(Some(NextRows {
                    columns: Arc::clone(&chunk.columns),
                    offset,
                    rows,
                    visible: visible.filter(BooleanBuffer::has_false),
                    are_images: chunk.are_images,
                    patched: overlay.map_or_else(Vec::new, |overlay| PatchedColumn::within(overlay, offset..*next)),
                })));
            }
            self.place = None;
            let Some(chunk) = ready!(self.supply.poll_next(context, &mut self.filters))? else {
                return Poll::Ready(Ok(None));
            };
            self.place = Some((chunk, 0));
        }
    }

    /// Which of these rows exist and satisfy all conditions; `None` for all of them.
    pub fn select(&mut self, next: &NextRows) -> Result<Option<BooleanBuffer>> {
        self.filters.select(&next.morsel(), next.visible.clone())
    }
}
