//! The memory grant of a query: a bound on the memory of its sorts, and of the hash tables of its aggregations and
//! joins.
//!
//! Each query has its own pool. Operators that cannot spill (above all the build side of a hash join) take memory
//! first. Those that can (sorts, aggregations, nested-loop joins) share the rest in equal parts, so one of them cannot
//! starve the next one up the plan. An operator that has used up its part spills to files. Batches on their way between
//! operators and partitions, and chunks that scans read ahead, are not counted. Batches get smaller with the grant, so
//! that operators can keep several; the smallest grants slow a query by that, too, and not only by spilling.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;

use crate::columns::DiskFolder;
use crate::query::pool::QueryPool;
use crate::query::spill::Spills;
use crate::query::usage::UsageMeter;

/// The assumed bytes of a row when batches are made to fit the grant.
const ROW_BYTES: usize = 256;

/// Batches that an operator should be able to keep on its share of the grant: merging spilled data needs two of each of
/// several files.
const BATCHES_PER_SHARE: usize = 16;

/// Rows in the smallest batches; below, the work per batch is all that remains.
const BATCH_ROWS_MIN: usize = 128;

/// The memory of each query, and the place of spilled data.
#[derive(Debug, Clone)]
pub struct MemoryGrant {
    bytes: usize,
    folder: DiskFolder,
}

impl MemoryGrant {
    pub fn new(mebibytes: usize, folder: DiskFolder) -> Self {
        MemoryGrant { bytes: mebibytes << 20, folder }
    }

    pub fn mebibytes(&self) -> usize {
        self.bytes >> 20
    }

    /// Fits the settings of a session with `partitions` partitions to the grant.
    pub fn configure(&self, mut config: SessionConfig, partitions: usize) -> SessionConfig {
        let share = self.bytes / partitions;
        let execution = &mut config.options_mut().execution;
        // A sort sets this aside for merging its spilled parts; the default of 10 MB would be more than a small grant.
        execution.sort_spill_reservation_bytes = execution.sort_spill_reservation_bytes.min(share / 8);
        let batch_rows = (share / BATCHES_PER_SHARE / ROW_BYTES).max(BATCH_ROWS_MIN).min(config.batch_size());
        config.with_batch_size(batch_rows)
    }

    pub fn runtime(&self, common: &RuntimeEnv, meter: &Arc<UsageMeter>) -> Result<Arc<RuntimeEnv>> {
        let spills = Arc::new(Spills::new(self.folder.clone(), Arc::clone(meter)));
        RuntimeEnvBuilder::from_runtime_env(common)
            .with_memory_pool(Arc::new(QueryPool::granted(self.bytes, Arc::clone(meter))))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_temp_file_factory(spills))
            .build_arc()
    }
}

/// The message of the pool, if it is the reason for an error.
pub fn exhausted(error: &DataFusionError) -> Option<&str> {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(what) => Some(what),
        _ => None,
    }
}
