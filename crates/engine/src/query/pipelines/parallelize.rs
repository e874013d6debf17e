//! Gives each pipeline of a plan its own number of partitions.
//!
//! The rule gets a plan made for one partition, which therefore has no exchange in it, and rebuilds it from the leaves:
//!
//! - a scan is cut into as many partitions as its pipeline has;
//! - an aggregation is done at once if both its input and its output have one partition. Otherwise each partition of the input is
//!   aggregated by itself, and the groups are put together by one partition, or by several that share them by hash;
//! - an aggregation in arrays has a thread for each partition of its scan; if it has many groups, they are divided into partitions by
//!   ranges;
//! - a sort is done by each partition, and the sorted partitions are merged;
//! - the build side of a hash join is collected once and shared by the partitions of the probe side, or, if it is large, both sides are
//!   distributed by hash over the partitions of the probe side;
//! - where one partition is needed, as for a limit, partitions are put together.
//!
//! Which pipelines there are does not depend on degrees, so that equal plans have equal lists of pipelines. The rule builds the plan
//! twice: serially, to see the pipelines, and with the degrees chosen for them.
//!
//! A plan with an operator that is not in this list stays as it is, and the request names the operator. So does one that
//! DataFusion's own check of plans refuses. Scans of the plan must claim no order ([`ColumnScan::without_order`]): a sort that was left
//! out because one partition is in order would be missing with two.
//!
//! [`ColumnScan::without_order`]: crate::query::scan::ColumnScan::without_order

mod aggregates;

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use parking_lot::Mutex;
use plimsoll_policy::{DEGREE_MAX, PipelineFacts};

use crate::query::array_aggregate::ArrayAggregateExec;
use crate::query::pipelines::meter::{MeterExec, PipelineMeter, PipelineMeters};
use crate::query::scan::ColumnScan;

/// The rule's findings in a plan.
#[derive(Debug, Clone)]
pub struct Pipelines {
    /// The beginning of each pipeline and the facts about it.
    pub facts: Vec<PipelineFacts>,
    /// Their beginnings in words, equal for plans with the same pipelines: `lineitem, aggregate, sort`.
    pub shape: String,
}

pub type ChooseDegrees = Box<dyn FnOnce(&Pipelines) -> Vec<u32> + Send>;

/// A request to make a plan parallel, and its outcome.
#[derive(Default)]
pub enum Request {
    /// Nothing is asked for: the plan stays as it is.
    #[default]
    None,
    /// By these degrees.
    Asked(ChooseDegrees),
    /// Done, with the meters of its pipelines.
    Done(Arc<PipelineMeters>),
    /// Not done, because of this operator.
    Unknown(String),
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Request::None => "None",
            Request::Asked(_) => "Asked",
            Request::Done(_) => "Done",
            Request::Unknown(_) => "Unknown",
        })
    }
}

/// Where a planner finds the request for the current plan, and leaves the outcome.
pub type RequestSlot = Arc<Mutex<Request>>;

/// The rule. It takes the request from its slot.
#[derive(Debug)]
pub struct Parallelize {
    slot: RequestSlot,
}

impl Parallelize {
    pub fn new(slot: RequestSlot) -> Self {
        Parallelize { slot }
    }
}

impl PhysicalOptimizerRule for Parallelize {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut slot = self.slot.lock();
        let choose = match std::mem::take(&mut *slot) {
            Request::Asked(choose) => choose,
            other => {
                *slot = other;
                return Ok(plan);
            }
        };
        let (parallel, request) = match rebuilt(&plan, config, choose) {
            Ok((parallel, meters)) => (parallel, Request::Done(meters)),
            Err(Stop::Unknown(operator)) => (plan, Request::Unknown(operator)),
            Err(Stop::Failed(error)) => return Err(error),
        };
        *slot = request;
        Ok(parallel)
    }

    fn name(&self) -> &str {
        "parallelize"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

enum Stop {
    Unknown(String),
    Failed(DataFusionError),
}

impl From<DataFusionError> for Stop {
    fn from(error: DataFusionError) -> Self {
        Stop::Failed(error)
    }
}

type Rebuilt<T> = std::result::Result<T, Stop>;

fn rebuilt(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
    choose: ChooseDegrees,
) -> Rebuilt<(Arc<dyn ExecutionPlan>, Arc<PipelineMeters>)> {
    let mut serial = Builder::new(&[], config);
    serial.whole(plan)?;
    let pipelines = Pipelines { facts: serial.facts, shape: serial.names.join(", ") };
    let degrees = choose(&pipelines);
    let mut builder = Builder::new(&degrees, config);
    let parallel = builder.whole(plan)?;
    let checked = SanityCheckPlan::new().optimize(parallel, config);
    let parallel = checked.map_err(|_| Stop::Unknown("a combination of operators".to_owned()))?;
    Ok((parallel, builder.meters))
}

/// An operator whose rows still flow: it belongs to a pipeline that has not ended.
struct Open {
    plan: Arc<dyn ExecutionPlan>,
    pipeline: usize,
}

impl Open {
    fn partitions(&self) -> usize {
        self.plan.output_partitioning().partition_count()
    }
}

/// Builds a plan with a degree for each pipeline, in the order in which they begin; 1 for those beyond the list.
struct Builder<'a> {
    degrees: &'a [u32],
    config: &'a ConfigOptions,
    facts: Vec<PipelineFacts>,
    names: Vec<String>,
    meters: Arc<PipelineMeters>,
}

impl<'a> Builder<'a> {
    fn new(degrees: &'a [u32], config: &'a ConfigOptions) -> Self {
        Builder { degrees, config, facts: Vec::new(), names: Vec::new(), meters: Arc::default() }
    }

    /// The whole plan, which has one partition again.
    fn whole(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Rebuilt<Arc<dyn ExecutionPlan>> {
        let top = self.open(plan)?;
        Ok(self.single(top))
    }

    /// Notes that a pipeline begins, and tells its number and degree. `like` has the rows that enter it.
    fn begin(&mut self, name: &str, like: &dyn ExecutionPlan, degree_max: u32) -> (usize, usize) {
        let statistics = StatisticsContext::new().compute(like, &StatisticsArgs::new());
        let rows = statistics.ok().and_then(|statistics| match statistics.num_rows {
            Precision::Exact(rows) | Precision::Inexact(rows) => Some(rows as u64),
            Precision::Absent => None,
        });
        self.facts.push(PipelineFacts { rows, degree_max: degree_max.max(1) });
        self.names.push(name.to_owned());
        let pipeline = self.facts.len() - 1;
        let degree = self.degrees.get(pipeline).copied().unwrap_or(1).clamp(1, degree_max.max(1));
        (pipeline, degree as usize)
    }

    fn end(&self, open: Open) -> Arc<dyn ExecutionPlan> {
        Arc::new(MeterExec::new(open.plan, self.meter(open.pipeline)))
    }

    fn meter(&self, pipeline: usize) -> PipelineMeter {
        PipelineMeter::new(pipeline, Arc::clone(&self.meters))
    }

    /// Ends a pipeline and puts its partitions together.
    fn single(&self, open: Open) -> Arc<dyn ExecutionPlan> {
        let is_single = open.partitions() == 1;
        let ended = self.end(open);
        if is_single { ended } else { Arc::new(CoalescePartitionsExec::new(ended)) }
    }

    fn open(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Rebuilt<Open> {
        if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            return self.source(plan, source);
        }
        if plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>() {
            let (pipeline, _) = self.begin(plan.name(), plan.as_ref(), 1);
            return Ok(Open { plan: Arc::clone(plan), pipeline });
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(plan, aggregate);
        }
        if let Some(aggregate) = plan.downcast_ref::<ArrayAggregateExec>() {
            return self.array_aggregate(plan, aggregate);
        }
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            return self.sort(plan, sort);
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let joined = self.hash_join(join)?;
            return Ok(self.fenced(joined));
        }
        if plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<CooperativeExec>() {
            let input = self.open(only_child(plan)?)?;
            let pipeline = input.pipeline;
            let plan = with_inputs(plan, vec![input.plan])?;
            return Ok(self.fenced(Open { plan, pipeline }));
        }
        if plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>() {
            let [left, right] = plan.children()[..] else { return Err(Stop::Unknown(plan.name().to_owned())) };
            let left = self.open(left)?;
            let left = self.single(left);
            let right = self.open(right)?;
            let pipeline = right.pipeline;
            return Ok(Open { plan: with_inputs(plan, vec![left, right.plan])?, pipeline });
        }
        if plan.is::<ScalarSubqueryExec>() {
            return self.scalar_subqueries(plan);
        }
        let needs_one = plan.is::<GlobalLimitExec>()
            || plan.is::<LocalLimitExec>()
            || plan.is::<CoalescePartitionsExec>()
            || plan.is::<BoundedWindowAggExec>()
            || plan.is::<WindowAggExec>();
        if needs_one {
            let input = self.open(only_child(plan)?)?;
            let input = self.single(input);
            let (pipeline, _) = self.begin(plan.name(), plan.as_ref(), 1);
            return Ok(Open { plan: with_inputs(plan, vec![input])?, pipeline });
        }
        Err(Stop::Unknown(plan.name().to_owned()))
    }

    fn source(&mut self, plan: &Arc<dyn ExecutionPlan>, source: &DataSourceExec) -> Rebuilt<Open> {
        let Some(scan) = source.data_source().downcast_ref::<ColumnScan>() else {
            // Rows that are literals of the query, or statistics that answer it.
            let (pipeline, _) = self.begin(plan.name(), plan.as_ref(), 1);
            return match plan.output_partitioning().partition_count() {
                1 => Ok(Open { plan: Arc::clone(plan), pipeline }),
                _ => Err(Stop::Unknown(plan.name().to_owned())),
            };
        };
        let most = u32::try_from(scan.chunk_count()).unwrap_or(DEGREE_MAX).min(DEGREE_MAX);
        let (pipeline, degree) = self.begin(scan.table_name(), plan.as_ref(), most);
        let scan = DataSourceExec::from_data_source(scan.with_partitions(degree));
        Ok(self.fenced(Open { plan: scan, pipeline }))
    }

    /// Puts partitions together above an operator that returns a limited number of rows from each.
    fn fenced(&mut self, open: Open) -> Open {
        let Some(fetch) = open.plan.fetch() else { return open };
        let (pipeline, _) = self.begin("limit", open.plan.as_ref(), 1);
        let is_single = open.partitions() == 1;
        let ended = self.end(open);
        let plan = match is_single {
            true => ended,
            false => Arc::new(CoalescePartitionsExec::new(ended).with_fetch(Some(fetch))),
        };
        Open { plan, pipeline }
    }

    fn sort(&mut self, plan: &Arc<dyn ExecutionPlan>, sort: &SortExec) -> Rebuilt<Open> {
        let input = self.open(sort.input())?;
        let (pipeline, _) = self.begin("sort", plan.as_ref(), 1);
        if input.partitions() == 1 {
            let (from, plan) = (input.pipeline, with_inputs(plan, vec![input.plan])?);
            return Ok(Open { plan: self.end(Open { plan, pipeline: from }), pipeline });
        }
        let (order, fetch) = (sort.expr().clone(), sort.fetch());
        let each = SortExec::new(order.clone(), input.plan).with_fetch(fetch).with_preserve_partitioning(true);
        let each = self.end(Open { plan: Arc::new(each), pipeline: input.pipeline });
        Ok(Open { plan: Arc::new(SortPreservingMergeExec::new(order, each).with_fetch(fetch)), pipeline })
    }

    fn hash_join(&mut self, join: &HashJoinExec) -> Rebuilt<Open> {
        let build = self.open(join.left())?;
        let probe = self.open(join.right())?;
        let (degree, pipeline) = (probe.partitions(), probe.pipeline);
        let is_shared = degree == 1 || join.null_aware || self.is_small(join.left().as_ref(), degree);
        let (mode, build, probe) = if is_shared {
            (PartitionMode::CollectLeft, self.single(build), probe.plan)
        } else {
            let (left, right): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
            let exchange =
                |input, keys| RepartitionExec::try_new(input, Partitioning::Hash(keys, degree)).map(Arc::new);
            let (build, probe) = (exchange(self.end(build), left)?, exchange(self.end(probe), right)?);
            (PartitionMode::Partitioned, build as Arc<dyn ExecutionPlan>, probe as Arc<dyn ExecutionPlan>)
        };
        let joined = join.builder().with_new_children(vec![build, probe])?.with_partition_mode(mode);
        Ok(Open { plan: joined.build_exec()?, pipeline })
    }

    /// Whether a build side is so small that one thread makes its hash table for all. The thresholds are those of one partition.
    fn is_small(&self, build: &dyn ExecutionPlan, degree: usize) -> bool {
        let Ok(statistics) = StatisticsContext::new().compute(build, &StatisticsArgs::new()) else { return false };
        let optimizer = &self.config.optimizer;
        match (statistics.total_byte_size.get_value(), statistics.num_rows.get_value()) {
            (Some(bytes), _) => *bytes < optimizer.hash_join_single_partition_threshold / degree,
            (None, Some(rows)) => *rows < optimizer.hash_join_single_partition_threshold_rows / degree,
            (None, None) => false,
        }
    }

    fn scalar_subqueries(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Rebuilt<Open> {
        let children = plan.children();
        let (main, subqueries) = children.split_first().ok_or_else(|| Stop::Unknown(plan.name().to_owned()))?;
        let main = self.open(main)?;
        let pipeline = main.pipeline;
        let mut inputs = vec![main.plan];
        for subquery in subqueries {
            let subquery = self.open(subquery)?;
            inputs.push(self.single(subquery));
        }
        Ok(Open { plan: with_inputs(plan, inputs)?, pipeline })
    }
}

fn only_child(plan: &Arc<dyn ExecutionPlan>) -> Rebuilt<&Arc<dyn ExecutionPlan>> {
    match plan.children()[..] {
        [child] => Ok(child),
        _ => Err(Stop::Unknown(plan.name().to_owned())),
    }
}

fn with_inputs(plan: &Arc<dyn ExecutionPlan>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan).replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
