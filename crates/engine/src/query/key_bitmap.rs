//! The keys of a hash join's build side as bits, one for each number that the probe side's column can have.
//!
//! DataFusion hands the scan on a join's probe side a condition that looks each row's key up in the join's hash table. Here the build
//! side sets a bit for each of its keys on the way, and the scan looks at bits instead: they are made once and shared by all
//! partitions, need no hash, and take a thirtieth of the memory, so that they stay in the cache. The bits are exact, unlike those of
//! a Bloom filter (Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970): the key itself says which one it has.
//!
//! [`KeyBitmaps`] finds joins on one integer column whose condition has reached a [`ColumnScan`]; bits and condition belong together
//! by the condition's id. A scan takes the bits when DataFusion publishes the condition, by which time the build side is complete.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use arrow::array::{Array, AsArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Int32Type, Int64Type, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{NullEquality, Result, internal_err};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{Stream, StreamExt};

use crate::query::pass_through::{PassThrough, PassThroughExec};
use crate::query::scan::ColumnScan;

/// The numbers that there may be for each row of the table: a bit costs far less than a row, but it is not free.
const NUMBERS_PER_ROW_MAX: usize = 16;

/// Bits for the numbers from the smallest to the largest of a column.
#[derive(Debug)]
pub struct KeyBits {
    /// The condition that says the same.
    expression_id: u64,
    pub first: i64,
    count: usize,
    /// The bits and their memory. Empty until all keys are known, and if there was no memory for them.
    bits: OnceLock<(BooleanBuffer, MemoryReservation)>,
}

impl KeyBits {
    /// Whether it says what a condition says that is filled in while the query runs.
    pub fn says(&self, condition: &Arc<dyn PhysicalExpr>) -> bool {
        condition.expression_id() == Some(self.expression_id)
    }

    /// Which numbers are keys, as soon as that is known.
    pub fn get(&self) -> Option<&BooleanBuffer> {
        self.bits.get().map(|(bits, _)| bits)
    }
}

/// Puts [`KeyBitmapExec`] on build sides. Runs after DataFusion has handed conditions to scans.
#[derive(Debug)]
pub struct KeyBitmaps;

impl PhysicalOptimizerRule for KeyBitmaps {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match with_bits(&node)? {
            Some(join) => Ok(Transformed::yes(join)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "key_bitmaps"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join with bits for the scan that its condition has reached; `None` if it has reached none, or has no bits.
fn with_bits(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let [(build_key, _)] = join.on() else { return Ok(None) };
    let is_plain = join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware;
    let is_shared = *join.partition_mode() == PartitionMode::CollectLeft
        && join.left().output_partitioning().partition_count() == 1;
    let (Some(key), [condition]) = (build_key.downcast_ref::<Column>(), &join.dynamic_expressions_produced()[..])
    else {
        return Ok(None);
    };
    let Some(expression_id) = condition.expression_id().filter(|_| is_plain && is_shared) else { return Ok(None) };
    let kept = join.left().schema().field(key.index()).data_type().clone();
    let mut found = None;
    let probe = Arc::clone(join.right()).transform_up(|node| {
        let scan = ColumnScan::of(&node).filter(|_| found.is_none());
        let Some((scan, bits)) = scan.and_then(|scan| scan_with_bits(scan, expression_id, &kept)) else {
            return Ok(Transformed::no(node));
        };
        found = Some(bits);
        Ok(Transformed::yes(DataSourceExec::from_data_source(scan) as Arc<dyn ExecutionPlan>))
    })?;
    let Some(bits) = found else { return Ok(None) };
    let build = Arc::new(KeyBitmapExec::new(Arc::clone(join.left()), KeySetting { key: key.index(), bits }));
    replace_children_if_necessary(Arc::clone(node), vec![build, probe.data]).map(Some)
}

/// The scan with bits for a condition, if it has that condition on one column of this type.
fn scan_with_bits(scan: &ColumnScan, expression_id: u64, kept: &DataType) -> Option<(ColumnScan, Arc<KeyBits>)> {
    let condition = scan.filters().iter().find(|filter| filter.expression_id() == Some(expression_id))?;
    let [key] = condition.children()[..] else { return None };
    let column = key.downcast_ref::<Column>()?.index();
    let (first, count) = scan.integer_span(column, kept)?;
    if count > scan.table_rows().saturating_mul(NUMBERS_PER_ROW_MAX) {
        return None;
    }
    let bits = Arc::new(KeyBits { expression_id, first, count, bits: OnceLock::new() });
    Some((scan.with_key_bits(Arc::clone(&bits)), bits))
}

/// Passes rows on, and sets the bits of their keys.
pub type KeyBitmapExec = PassThroughExec<KeySetting>;

/// The column of the keys, and their bits.
#[derive(Debug, Clone)]
pub struct KeySetting {
    key: usize,
    bits: Arc<KeyBits>,
}

impl KeySetting {
    pub fn bytes(&self) -> u64 {
        self.bits.count.div_ceil(8) as u64
    }
}

impl PassThrough for KeySetting {
    const NAME: &'static str = "KeyBitmapExec";

    fn describe(&self, input: &Arc<dyn ExecutionPlan>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key={}, bits={}", input.schema().field(self.key).name(), self.bits.count)
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<SendableRecordBatchStream> {
        if input.output_partitioning().partition_count() != 1 {
            return internal_err!("the keys of several partitions would be published one after the other");
        }
        let input = input.execute(partition, Arc::clone(&context))?;
        let memory = MemoryConsumer::new("KeyBitmap").register(context.memory_pool());
        // Without bits the scan asks the join's hash table, as it would have.
        let setting = memory.try_grow(self.bits.count.div_ceil(8)).ok().map(|()| {
            let mut set = BooleanBufferBuilder::new(self.bits.count);
            set.append_n(self.bits.count, false);
            Setting { set, memory }
        });
        let metrics = BaselineMetrics::new(metrics, partition);
        Ok(Box::pin(KeyStream { input, key: self.key, bits: Arc::clone(&self.bits), setting, metrics }))
    }
}

struct Setting {
    set: BooleanBufferBuilder,
    memory: MemoryReservation,
}

struct KeyStream {
    input: SendableRecordBatchStream,
    key: usize,
    bits: Arc<KeyBits>,
    /// `None` once the bits are published, and if there are to be none.
    setting: Option<Setting>,
    metrics: BaselineMetrics,
}

impl KeyStream {
    fn set_bits(&mut self, batch: &RecordBatch) {
        let Some(Setting { set, .. }) = &mut self.setting else { return };
        let (first, count) = (self.bits.first, self.bits.count);
        // Keys that the probe side cannot have are far beyond the last bit.
        let mut set = |key: i64| {
            let place = key.wrapping_sub(first) as usize;
            if place < count {
                set.set_bit(place, true);
            }
        };
        let keys = batch.column(self.key);
        match keys.data_type() {
            DataType::Int32 => keys.as_primitive::<Int32Type>().iter().flatten().for_each(|key| set(i64::from(key))),
            _ => keys.as_primitive::<Int64Type>().iter().flatten().for_each(set),
        }
    }

    fn publish(&mut self) {
        if let Some(mut setting) = self.setting.take() {
            // Should the plan be run twice, the bits of both runs are the same.
            let _ = self.bits.bits.set((setting.set.finish(), setting.memory));
        }
    }
}

impl Stream for KeyStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = ready!(self.input.poll_next_unpin(context));
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        match &batch {
            Some(Ok(batch)) => self.set_bits(batch),
            // Bits of some keys would hide the rows of others.
            Some(Err(_)) => self.setting = None,
            None => self.publish(),
        }
        self.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for KeyStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests;
