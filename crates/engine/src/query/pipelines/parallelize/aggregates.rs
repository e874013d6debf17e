//! Aggregations of a plan that is being rebuilt.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use plimsoll_policy::DEGREE_MAX;

use super::{Builder, Open, Rebuilt, Stop, only_child, with_inputs};
use crate::query::array_aggregate::ArrayAggregateExec;

impl Builder<'_> {
    pub(super) fn aggregate(&mut self, plan: &Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> Rebuilt<Open> {
        // Two planned steps begin as one, whose input is that of the first step.
        let first = match aggregate.mode() {
            AggregateMode::Single | AggregateMode::SinglePartitioned => aggregate,
            AggregateMode::Final | AggregateMode::FinalPartitioned => below_coalesce(aggregate.input())
                .downcast_ref::<AggregateExec>()
                .filter(|below| *below.mode() == AggregateMode::Partial)
                .ok_or_else(|| Stop::Unknown("AggregateExec".to_owned()))?,
            _ => return Err(Stop::Unknown("AggregateExec".to_owned())),
        };
        let input = self.open(first.input())?;
        let is_ordered = aggregate.aggr_expr().iter().any(|function| !function.order_bys().is_empty());
        let is_whole = is_ordered || aggregate.limit_options().is_some();
        let has_groups = !first.group_expr().expr().is_empty();
        let (pipeline, degree) =
            self.begin("aggregate", plan.as_ref(), if has_groups && !is_whole { DEGREE_MAX } else { 1 });
        let is_one_step = *aggregate.mode() == AggregateMode::Single;
        if is_whole && !is_one_step {
            return Err(Stop::Unknown("AggregateExec".to_owned()));
        }
        if is_whole {
            let input = self.single(input);
            return Ok(Open { plan: with_inputs(plan, vec![input])?, pipeline });
        }
        if is_one_step && input.partitions() == 1 && degree == 1 {
            let (from, plan) = (input.pipeline, with_inputs(plan, vec![input.plan])?);
            return Ok(Open { plan: self.end(Open { plan, pipeline: from }), pipeline });
        }
        Ok(Open { plan: self.two_steps(first, input, degree)?, pipeline })
    }

    fn two_steps(&self, first: &AggregateExec, input: Open, degree: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let (group_by, schema) = (first.group_expr(), first.input_schema());
        let filters = first.filter_expr().to_vec();
        let partial = AggregateExec::try_new(
            AggregateMode::Partial,
            group_by.clone(),
            first.aggr_expr().to_vec(),
            filters.clone(),
            input.plan,
            Arc::clone(&schema),
        )?;
        // Functions may change with the order of their input (the first value of reversed rows is the last one).
        let functions = partial.aggr_expr().to_vec();
        let partial = Open { plan: Arc::new(partial), pipeline: input.pipeline };
        let group_by = group_by.as_final();
        let (mode, exchanged) = if degree == 1 {
            (AggregateMode::Final, self.single(partial))
        } else {
            let by_group = Partitioning::Hash(group_by.input_exprs(), degree);
            let exchange = RepartitionExec::try_new(self.end(partial), by_group)?;
            (AggregateMode::FinalPartitioned, Arc::new(exchange) as Arc<dyn ExecutionPlan>)
        };
        Ok(Arc::new(AggregateExec::try_new(mode, group_by, functions, filters, exchanged, schema)?))
    }

    /// In arrays: its threads are the partitions of the scan, whose pipeline ends here, and it puts their groups together itself, in as
    /// many partitions as the next pipeline has.
    pub(super) fn array_aggregate(
        &mut self,
        plan: &Arc<dyn ExecutionPlan>,
        aggregate: &ArrayAggregateExec,
    ) -> Rebuilt<Open> {
        let scan = self.open(only_child(plan)?)?;
        let most = u32::try_from(aggregate.partitions_max()).unwrap_or(DEGREE_MAX).min(DEGREE_MAX);
        let (pipeline, degree) = self.begin("array aggregate", plan.as_ref(), most);
        let plan = Arc::new(aggregate.over(scan.plan, Some(self.meter(scan.pipeline)), degree));
        Ok(Open { plan, pipeline })
    }
}

/// The operator whose partitions are put together here, or the plan itself.
fn below_coalesce(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    plan.downcast_ref::<CoalescePartitionsExec>().map_or(plan, CoalescePartitionsExec::input)
}
