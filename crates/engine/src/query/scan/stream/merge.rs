//! Changes that a snapshot shows on top of the chunks, merged into a running scan chunk by chunk, and what that takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::BooleanBuffer;
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};

use crate::columns::{Chunk, ChunkOverlay, Overlay};
use crate::query::usage::UsageMeter;

/// The changes of one table, as one partition of a scan merges them.
pub struct Merge {
    overlay: Arc<dyn Overlay>,
    /// The merged changes are counted in the query's memory, but never refused, because they cannot be spilled.
    reservation: MemoryReservation,
    time: Time,
    tuples: Count,
    meter: Option<Arc<UsageMeter>>,
}

/// The changes of the chunk in work, and the memory that they take.
pub struct ChunkMerge {
    pub overlay: Arc<ChunkOverlay>,
    _reservation: MemoryReservation,
}

impl Merge {
    /// Merges an overlay in a partition of the scan with these metrics.
    pub fn new(
        overlay: &Arc<dyn Overlay>,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
        context: &TaskContext,
    ) -> Self {
        Merge {
            overlay: Arc::clone(overlay),
            reservation: MemoryConsumer::new("changes of a table").register(context.memory_pool()),
            time: MetricBuilder::new(metrics).subset_time("merge_time", partition),
            tuples: MetricBuilder::new(metrics).counter("merged_tuples", partition),
            meter: context.session_config().get_extension::<UsageMeter>(),
        }
    }

    /// The changes of a chunk that concern these columns; `None` if it has none.
    pub fn chunk(&self, chunk: usize, columns: &[usize]) -> Result<Option<ChunkMerge>> {
        let Some(overlay) = self.timed(|| self.overlay.chunk(chunk, columns))? else { return Ok(None) };
        self.tuples.add(overlay.entries);
        if let Some(meter) = &self.meter {
            meter.add(|usage| usage.merged_tuples += overlay.entries as u64);
        }
        let reservation = self.reservation.new_empty();
        reservation.grow(overlay.memory_bytes());
        Ok(Some(ChunkMerge { overlay, _reservation: reservation }))
    }

    /// Which of a chunk's own rows are shown; `None` for all of them.
    pub fn visible(&self, chunk: &Chunk, merge: &ChunkMerge) -> Option<BooleanBuffer> {
        self.timed(|| merge.overlay.visible(chunk))
    }

    /// Counts time that was spent on images and new values.
    pub fn spent(&self, time: Duration) {
        self.time.add_duration(time);
        if let Some(meter) = &self.meter {
            meter.add(|usage| usage.merge_time += time);
        }
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.spent(started.elapsed());
        result
    }
}
