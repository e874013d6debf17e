//! The jobs of a plan, and their classes.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use plimsoll_policy::cache_class::{CacheClass, CacheOperator, job_class};

use crate::query::array_aggregate::ArrayAggregateExec;
use crate::query::jobs::exec::JobExec;
use crate::query::jobs::sizes::{KnownSizes, build_bytes};
use crate::query::key_bitmap::KeyBitmapExec;
use crate::query::pipelines::meter::MeterExec;

/// Functions that keep one value, however many rows they see.
const PLAIN_FUNCTIONS: [&str; 5] = ["avg", "count", "max", "min", "sum"];

#[derive(Debug)]
pub(super) struct Classifier {
    cache_bytes: Option<u64>,
    known: KnownSizes,
}

/// The uses of the cache in a job: kinds of operators with the bytes of their structures.
type Operators = Vec<(CacheOperator, Option<u64>)>;

impl Classifier {
    /// For a cache of `cache_bytes` bytes, and joins of known sizes.
    pub(super) fn new(cache_bytes: Option<u64>, known: KnownSizes) -> Self {
        Classifier { cache_bytes, known }
    }

    /// The plan with a [`JobExec`] wherever the class changes. It begins among the sensitive.
    pub(super) fn split(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        self.job(plan, CacheClass::Sensitive)
    }

    /// A job whose rows are wanted by one of the class `above`.
    fn job(&self, plan: &Arc<dyn ExecutionPlan>, above: CacheClass) -> Result<Arc<dyn ExecutionPlan>> {
        let mut operators = Operators::new();
        self.collect(plan, &mut operators);
        // One that only passes rows on is part of the job above.
        let class = match operators.is_empty() {
            true => above,
            false => job_class(operators, self.cache_bytes.unwrap_or(0)),
        };
        let plan = self.divided(plan, class)?;
        Ok(if class == above { plan } else { Arc::new(JobExec::new(plan, class)) })
    }

    /// The operators of a job, which ends where others begin.
    fn collect(&self, plan: &Arc<dyn ExecutionPlan>, operators: &mut Operators) {
        operators.extend(self.operator(plan));
        for (place, child) in plan.children().into_iter().enumerate() {
            if !begins_job(plan.as_ref(), place) {
                self.collect(child, operators);
            }
        }
    }

    /// The same plan with jobs below, itself in one of this class.
    fn divided(&self, plan: &Arc<dyn ExecutionPlan>, class: CacheClass) -> Result<Arc<dyn ExecutionPlan>> {
        let below = plan.children().into_iter().enumerate();
        let below = below.map(|(place, child)| match begins_job(plan.as_ref(), place) {
            true => self.job(child, class),
            false => self.divided(child, class),
        });
        replace_children_if_necessary(Arc::clone(plan), below.collect::<Result<_>>()?)
    }

    /// How an operator uses the cache; `None` if rows only pass through it.
    fn operator(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<(CacheOperator, Option<u64>)> {
        if plan.is::<DataSourceExec>() {
            return Some((CacheOperator::Scan, None));
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let bits = key_bitmap(join.left()).map_or(0, |bitmap| bitmap.passing.bytes());
            return Some((CacheOperator::Join, self.sized(build_bytes(join, &self.known).map(|bytes| bytes + bits))));
        }
        if let Some(bitmap) = plan.downcast_ref::<KeyBitmapExec>() {
            return Some((CacheOperator::Join, self.sized(Some(bitmap.passing.bytes()))));
        }
        let looks_up = match (plan.downcast_ref::<AggregateExec>(), plan.downcast_ref::<ArrayAggregateExec>()) {
            (Some(aggregate), _) => !is_plain(aggregate),
            (_, Some(aggregate)) => aggregate.has_keys(),
            _ => return (!passes_through(plan.as_ref())).then_some((CacheOperator::Other, None)),
        };
        looks_up.then_some((CacheOperator::Aggregation, None))
    }

    /// Bytes to compare with those of the cache, if these are known.
    fn sized(&self, bytes: Option<u64>) -> Option<u64> {
        bytes.filter(|_| self.cache_bytes.is_some())
    }
}

/// Whether rows change tasks between an operator and its child at this place.
fn begins_job(plan: &dyn ExecutionPlan, place: usize) -> bool {
    let exchanges =
        plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>();
    let builds = plan.is::<HashJoinExec>() || plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>();
    exchanges || builds && place == 0 || plan.is::<ScalarSubqueryExec>() && place > 0
}

/// Whether an aggregation keeps a few values only: no groups, and no sets of distinct values.
fn is_plain(aggregate: &AggregateExec) -> bool {
    let is_plain = |name: &str| PLAIN_FUNCTIONS.contains(&name);
    aggregate.group_expr().expr().is_empty()
        && aggregate.aggr_expr().iter().all(|function| !function.is_distinct() && is_plain(function.fun().name()))
}

/// Whether an operator keeps nothing of the rows that it passes on.
fn passes_through(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<EmptyExec>()
        || plan.is::<FilterExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<JobExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<MeterExec>()
        || plan.is::<PlaceholderRowExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<ScalarSubqueryExec>()
        || plan.is::<UnionExec>()
}

fn key_bitmap(build: &Arc<dyn ExecutionPlan>) -> Option<&KeyBitmapExec> {
    if let Some(bitmap) = build.downcast_ref::<KeyBitmapExec>() {
        return Some(bitmap);
    }
    let [below] = build.children()[..] else { return None };
    if passes_through(build.as_ref()) { key_bitmap(below) } else { None }
}
