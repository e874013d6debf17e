//! The edge of a job: what is below runs on the pool of its class.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};
use plimsoll_policy::cache_class::CacheClass;

use crate::query::jobs::JobRunner;

/// Batches of a partition that may be on their way from one pool to the other.
const BATCHES_AHEAD: usize = 2;

/// Hands its input to the pool of a class, and passes on what comes back. Without pools it does nothing.
#[derive(Debug, Clone)]
pub struct JobExec {
    input: Arc<dyn ExecutionPlan>,
    class: CacheClass,
}

impl JobExec {
    /// Runs `input` as a job of this class.
    pub fn new(input: Arc<dyn ExecutionPlan>, class: CacheClass) -> Self {
        JobExec { input, class }
    }

    /// The class of what is below.
    pub fn class(&self) -> CacheClass {
        self.class
    }
}

impl DisplayAs for JobExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobExec: class={}", self.class)
    }
}

impl ExecutionPlan for JobExec {
    fn name(&self) -> &str {
        "JobExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop().filter(|_| children.is_empty()) else {
            return internal_err!("a job has one input");
        };
        Ok(Arc::new(JobExec::new(input, self.class)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(runner) = context.session_config().get_extension::<JobRunner>() else {
            return self.input.execute(partition, context);
        };
        let (input, class, schema) = (Arc::clone(&self.input), self.class, self.schema());
        // Begun when the first batch is wanted: the probe side of a join waits until the build side has told the scan which rows it
        // needs. The input is executed there, so that what it starts at once is on the pool of the class, too.
        let job = async move {
            let mut builder = RecordBatchReceiverStream::builder(schema, BATCHES_AHEAD);
            let sender = builder.tx();
            let work = async move {
                let mut batches = input.execute(partition, context)?;
                while let Some(batch) = batches.next().await {
                    let is_last = batch.is_err();
                    // Nobody wants more where a limit above has had enough.
                    if sender.send(batch).await.is_err() || is_last {
                        break;
                    }
                }
                Ok(())
            };
            builder.spawn_on(runner.stay(class, work), runner.begin(class));
            builder.build()
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(job).flatten())))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }
}
