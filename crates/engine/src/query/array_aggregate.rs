//! Aggregation of a scan's rows in arrays: the group of a row is a place in them, computed from its key, not looked up by hashing.
//!
//! Keys are texts that are kept as codes, and integers that lie close together; all combinations of their values have a
//! place, with a count and sums. Sums are of 64 bits wherever minima and maxima of the columns prove that they fit
//! ([`narrow`]), and move to 128 bits before they could overflow ([`totals`]). Rows come straight from the columns as
//! they are kept: nothing is decoded, copied or exchanged between partitions. Each thread has its own arrays, and the
//! results are read from all of them at once, so there is no second phase. If there are many groups, several partitions
//! read them, each a range. A thread's arrays are read only where it has added rows: if rows lie in the order of their
//! key, that is one thread for most groups.
//!
//! The direct aggregation of Boncz, Zukowski and Nes, "MonetDB/X100: hyper-pipelining query execution" (2005), with the narrow types
//! of Gubner and Boncz, "Exploring query execution strategies for JIT, vectorization and SIMD" (2017).
//!
//! [`ArrayAggregation`] replaces DataFusion's two phases over a [`ColumnScan`] with it wherever they compute only
//! counts, sums and averages of columns without nulls. Where changes are laid over the table, arrays have a margin
//! beyond its minima and maxima. An aggregation is left to DataFusion at its start if a change is beyond the margin, or
//! if its arrays do not fit the query's memory grant: DataFusion's can spill.

mod keys;
mod layout;
mod narrow;
mod run;
mod totals;
mod values;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, Statistics, internal_err};
use datafusion::datasource::source::DataSource;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, SchedulingType, replace_children_if_necessary,
};
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use itertools::Itertools;
use parking_lot::Mutex;

use crate::query::array_aggregate::layout::Layout;
use crate::query::array_aggregate::run::{Added, Results, add_up, all_of};
use crate::query::pipelines::meter::{MeterExec, PipelineMeter};
use crate::query::scan::ColumnScan;
use crate::query::scan::stream::morsels::Morsels;

/// Puts [`ArrayAggregateExec`] where it can be. Runs before exchanges are planned.
#[derive(Debug)]
pub struct ArrayAggregation;

impl PhysicalOptimizerRule for ArrayAggregation {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replace = |node: Arc<dyn ExecutionPlan>| match ArrayAggregateExec::in_place_of(&node) {
            Some(ours) => Ok(Transformed::yes(Arc::new(ours) as Arc<dyn ExecutionPlan>)),
            None => Ok(Transformed::no(node)),
        };
        plan.transform_up(replace).data()
    }

    fn name(&self) -> &str {
        "array_aggregation"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Counts, sums and averages by group, in arrays.
#[derive(Debug)]
pub struct ArrayAggregateExec {
    scan: Arc<dyn ExecutionPlan>,
    layout: Arc<Layout>,
    /// DataFusion's last phase, over its first one, over the scan this was made for.
    phases: Arc<dyn ExecutionPlan>,
    /// The number of partitions that read groups.
    partitions: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    meter: Option<PipelineMeter>,
    running: Arc<Mutex<Running>>,
}

/// The state that the partitions share, from the first that is executed to the last.
#[derive(Debug, Default)]
struct Running {
    work: Option<Work>,
    executed: usize,
}

/// How rows are aggregated, which is decided when the first partition is executed.
#[derive(Debug, Clone)]
enum Work {
    Arrays(Shared<BoxFuture<'static, std::result::Result<Arc<Added>, Arc<DataFusionError>>>>),
    Hashing(Arc<dyn ExecutionPlan>),
}

impl ArrayAggregateExec {
    /// An operator that replaces DataFusion's two phases; `None` if this is not the last of them, or the work cannot be
    /// done in arrays.
    pub fn in_place_of(node: &Arc<dyn ExecutionPlan>) -> Option<ArrayAggregateExec> {
        let last = node.downcast_ref::<AggregateExec>()?;
        let is_last = matches!(last.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
        let first = last.input().downcast_ref::<AggregateExec>()?;
        if !is_last || *first.mode() != AggregateMode::Partial || last.limit_options().is_some() {
            return None;
        }
        let projection = first.input().downcast_ref::<ProjectionExec>();
        let scan = projection.map_or(first.input(), ProjectionExec::input);
        let resolve = |expression: &Arc<dyn PhysicalExpr>| match projection {
            Some(projection) => projection.projection_expr().unproject_expr(expression),
            None => Ok(Arc::clone(expression)),
        };
        let layout = Layout::new(first, ColumnScan::of(scan)?, &resolve)?;
        let partitions = layout.partitions_max().min(ColumnScan::of(scan)?.partitions());
        Some(Self::new(Arc::clone(scan), Arc::new(layout), Arc::clone(node), partitions, None))
    }

    fn new(
        scan: Arc<dyn ExecutionPlan>,
        layout: Arc<Layout>,
        phases: Arc<dyn ExecutionPlan>,
        partitions: usize,
        meter: Option<PipelineMeter>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(phases.schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        ArrayAggregateExec {
            scan,
            layout,
            phases,
            partitions,
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            metrics: ExecutionPlanMetricsSet::new(),
            meter,
            running: Arc::default(),
        }
    }

    /// The same over another scan of the same columns, perhaps in another number of partitions. With a meter their work is measured: it
    /// ends their pipeline. The groups are read off by `partitions`.
    pub fn over(&self, scan: Arc<dyn ExecutionPlan>, meter: Option<PipelineMeter>, partitions: usize) -> Self {
        Self::new(scan, Arc::clone(&self.layout), Arc::clone(&self.phases), partitions, meter)
    }

    /// The number of partitions among which reading groups is worthwhile.
    pub fn partitions_max(&self) -> usize {
        self.layout.partitions_max()
    }

    /// Whether rows are added up by keys, and not all together.
    pub fn has_keys(&self) -> bool {
        !self.layout.keys.is_empty()
    }

    /// The same by DataFusion's operators.
    pub fn by_hashing(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(last) = self.phases.downcast_ref::<AggregateExec>() else {
            return internal_err!("the last phase of an aggregation is one");
        };
        let first = with_leaf(last.input(), &self.scan)?;
        let first = match &self.meter {
            Some(meter) => Arc::new(MeterExec::new(first, meter.clone())),
            None => first,
        };
        let (groups, functions, filters) =
            (last.group_expr().clone(), last.aggr_expr().to_vec(), last.filter_expr().to_vec());
        let (mode, input): (_, Arc<dyn ExecutionPlan>) = match self.partitions {
            1 => (AggregateMode::Final, Arc::new(CoalescePartitionsExec::new(first))),
            several => {
                let by_group = Partitioning::Hash(groups.input_exprs(), several);
                (AggregateMode::FinalPartitioned, Arc::new(RepartitionExec::try_new(first, by_group)?))
            }
        };
        let last = AggregateExec::try_new(mode, groups, functions, filters, input, last.input_schema())?;
        Ok(Arc::new(last))
    }

    /// Which output columns are columns of the scan with the same name.
    fn same_columns(&self, scan: &ColumnScan) -> HashSet<usize> {
        let schema = self.schema();
        let is_same = |place: &usize| {
            let of_scan = self.scanned(*place);
            of_scan.is_some_and(|of_scan| scan.schema().field(of_scan).name() == schema.field(*place).name())
        };
        (0..self.layout.keys.len()).filter(is_same).collect()
    }

    /// Which of the scan's columns an output column is, or is made of.
    pub fn scanned(&self, place: usize) -> Option<usize> {
        let (key, scan) = (self.layout.keys.get(place)?, ColumnScan::of(&self.scan)?);
        scan.projection().iter().position(|column| *column == key.column)
    }

    /// The state that the next partition to be executed shares with the others.
    fn work(&self, context: &Arc<TaskContext>) -> Result<Work> {
        let mut running = self.running.lock();
        let work = match running.work.take() {
            Some(work) => work,
            None => self.start(context)?,
        };
        running.executed += 1;
        match running.executed < self.partitions {
            true => running.work = Some(work.clone()),
            // The totals go with the last stream, so that another execution of the plan starts afresh.
            false => running.executed = 0,
        }
        Ok(work)
    }

    fn start(&self, context: &Arc<TaskContext>) -> Result<Work> {
        let memory = MemoryConsumer::new("ArrayAggregate").register(context.memory_pool());
        match ColumnScan::of(&self.scan) {
            Some(scan)
                if memory.try_grow(self.layout.thread_bytes * scan.partitions()).is_ok()
                    && self.layout.holds_changes(scan)? =>
            {
                Ok(self.add_rows(scan, memory, context))
            }
            _ => Ok(Work::Hashing(self.by_hashing()?)),
        }
    }

    /// Adds up all rows, a thread for each partition of the scan.
    fn add_rows(&self, scan: &ColumnScan, memory: MemoryReservation, context: &Arc<TaskContext>) -> Work {
        let (scan, layout) = (scan.clone(), Arc::clone(&self.layout));
        let (context, meter) = (Arc::clone(context), self.meter.clone());
        let added = async move {
            // Started when the first batch is wanted: by then other operators may have told the scan which rows they need.
            let queue = Arc::new(AtomicUsize::new(0));
            let thread = |partition: usize| {
                let queue = Some(Arc::clone(&queue));
                let morsels = Morsels::new(&scan, &layout.columns, partition, queue, &context);
                let of_scan = BaselineMetrics::new(&scan.metrics(), partition);
                let work = add_up(Arc::clone(&layout), morsels, of_scan);
                match meter.clone() {
                    Some(meter) => SpawnedTask::spawn(meter.measure(partition, work)),
                    None => SpawnedTask::spawn(work),
                }
            };
            let threads = (0..scan.partitions()).map(thread).collect();
            all_of(threads, memory).await.map(Arc::new).map_err(Arc::new)
        };
        Work::Arrays(added.boxed().shared())
    }
}

impl DisplayAs for ArrayAggregateExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.schema();
        let keys = schema.fields().iter().take(self.layout.keys.len()).map(|field| field.name());
        let results = schema.fields().iter().skip(self.layout.keys.len()).map(|field| field.name());
        write!(f, "ArrayAggregateExec: keys=[{}], results=[{}]", keys.clone().join(", "), results.clone().join(", "))?;
        write!(f, ", places={}, partitions={}", self.layout.groups, self.partitions)
    }
}

impl ExecutionPlan for ArrayAggregateExec {
    fn name(&self) -> &str {
        "ArrayAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.scan]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(scan) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("an aggregation has one input");
        };
        Ok(Arc::new(self.over(scan, self.meter.clone(), self.partitions)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // A condition on keys removes whole groups, so that it may as well be asked of the rows.
        let keys = ColumnScan::of(&self.scan).map(|scan| self.same_columns(scan)).unwrap_or_default();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&filters, keys, &self.scan)?;
        Ok(FilterDescription::new().with_child(child))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition >= self.partitions {
            return internal_err!(
                "an array aggregation of {} partitions has no partition {partition}",
                self.partitions
            );
        }
        let added = match self.work(&context)? {
            Work::Arrays(added) => added,
            Work::Hashing(plan) => return plan.execute(partition, context),
        };
        let output = BaselineMetrics::new(&self.metrics, partition);
        let (layout, schema, time) = (Arc::clone(&self.layout), self.schema(), output.elapsed_compute().clone());
        let groups = self.layout.groups_of(partition, self.partitions);
        let batch_rows = context.session_config().batch_size();
        let results = added.map(move |added| match added {
            Ok(added) => Ok(stream::iter(Results { layout, schema, added, groups, batch_rows, time })),
            Err(error) => Err(DataFusionError::Shared(error)),
        });
        let batches = stream::once(results).try_flatten();
        let counted = batches.inspect_ok(move |batch| output.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let rows = ColumnScan::of(&self.scan).map_or(usize::MAX, ColumnScan::expected_rows);
        let mut statistics = Statistics::new_unknown(&self.schema());
        statistics.num_rows = Precision::Inexact(self.layout.groups.min(rows));
        Ok(Arc::new(statistics))
    }
}

/// A chain of operators over another leaf.
fn with_leaf(plan: &Arc<dyn ExecutionPlan>, leaf: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.children()[..] {
        [below] => replace_children_if_necessary(Arc::clone(plan), vec![with_leaf(below, leaf)?]),
        _ => Ok(Arc::clone(leaf)),
    }
}

#[cfg(test)]
mod tests;
