//! Filter pushdown: a condition passes an operator only where its columns are known to be the same ones below it.
//!
//! DataFusion looks a condition's columns up in an operator's input by their names. That reads another column where an
//! input has two columns of one name, as a join of tables that both have an `id` gives, where the branches of a union
//! use names otherwise, and where the key of a semi join has the name of another column on the other side.
//! [`PushFilters`] asks the same operators, and then compares their answers with the positions of the columns. A
//! condition that would have read another column stays where it is.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
    PushedDownPredicate,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::query::array_aggregate::ArrayAggregateExec;

type Plan = Arc<dyn ExecutionPlan>;
type Condition = Arc<dyn PhysicalExpr>;

/// Stands for DataFusion's `FilterPushdown` of the same phase.
#[derive(Debug)]
pub struct PushFilters {
    phase: FilterPushdownPhase,
}

impl PushFilters {
    pub fn replace(rules: &mut [Arc<dyn PhysicalOptimizerRule + Send + Sync>]) {
        for (name, phase) in
            [("FilterPushdown", FilterPushdownPhase::Pre), ("FilterPushdown(Post)", FilterPushdownPhase::Post)]
        {
            let rule = rules.iter_mut().find(|rule| rule.name() == name).expect("DataFusion has that rule");
            *rule = Arc::new(PushFilters { phase });
        }
    }
}

impl PhysicalOptimizerRule for PushFilters {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        Ok(push(&plan, vec![], self.phase, config)?.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "push_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Offers conditions to a plan, and those that its operators have. Says which of the conditions the plan answers for from now on.
fn push(
    node: &Plan,
    conditions: Vec<Condition>,
    phase: FilterPushdownPhase,
    config: &ConfigOptions,
) -> Result<FilterPushdownPropagation<Plan>> {
    let description = node.gather_filters_for_pushdown(phase, conditions.clone(), config)?;
    let (below, own) = (description.parent_filters(), description.self_filters());
    let is_same = |place: usize| {
        let condition: &Condition = &conditions[place];
        let is_same = |(child, below): (usize, &Vec<PushedDownPredicate>)| match below[place].discriminant {
            PushedDown::Yes => reads_the_same(node, child, condition, &below[place].predicate),
            PushedDown::No => true,
        };
        is_stable(condition) && below.iter().enumerate().all(is_same)
    };
    let is_same: Vec<bool> = (0..conditions.len()).map(is_same).collect();

    let mut children = Vec::with_capacity(below.len());
    let mut answers = vec![Vec::with_capacity(below.len()); conditions.len()];
    let mut own_answers = Vec::with_capacity(below.len());
    for ((child, below), own) in node.children().into_iter().zip(below).zip(own) {
        let is_offered = |place: usize| is_same[place] && matches!(below[place].discriminant, PushedDown::Yes);
        let offered = (0..conditions.len()).filter(|place| is_offered(*place));
        let offered = offered.map(|place| Arc::clone(&below[place].predicate));
        let stable = own.iter().filter(|condition| is_stable(condition)).cloned();
        let pushed = push(child, stable.chain(offered).collect(), phase, config)?;
        children.push(pushed.updated_node.unwrap_or_else(|| Arc::clone(child)));
        let mut taken = pushed.filters.into_iter();
        let own = own.into_iter().map(|own| next_if(is_stable(&own), &mut taken).wrap_expression(own));
        own_answers.push(own.collect());
        for (place, answers) in answers.iter_mut().enumerate() {
            answers.push(next_if(is_offered(place), &mut taken));
        }
    }

    let renewed = replace_children_if_necessary(Arc::clone(node), children)?;
    // An operator may evaluate conditions that its inputs do not, but it does not see conditions that it would look up
    // by a wrong name.
    let known = conditions.into_iter().zip(answers).zip(&is_same).filter(|(_, is_same)| **is_same);
    let known = known.map(|((filter, child_results), _)| ChildFilterPushdownResult { filter, child_results });
    let told = ChildPushdownResult { parent_filters: known.collect(), self_filters: own_answers };
    let mut result = renewed.handle_child_pushdown_result(phase, told, config)?;
    let mut known = result.filters.into_iter();
    result.filters = is_same.into_iter().map(|is_same| next_if(is_same, &mut known)).collect();
    if result.updated_node.is_none() && !Arc::ptr_eq(&renewed, node) {
        result.updated_node = Some(renewed);
    }
    Ok(result)
}

/// The answer about a condition if it was offered.
fn next_if(is_offered: bool, answers: &mut impl Iterator<Item = PushedDown>) -> PushedDown {
    if is_offered { answers.next().unwrap_or(PushedDown::No) } else { PushedDown::No }
}

/// Whether it says the same of a row each time.
fn is_stable(condition: &Condition) -> bool {
    !condition.exists(|part| Ok(is_volatile(part))).unwrap_or(true)
}

/// Whether a condition on an operator's output reads the same columns as the one that the operator made of it for one of its inputs.
fn reads_the_same(node: &Plan, child: usize, condition: &Condition, below: &Condition) -> bool {
    let columns = columns(condition);
    if node.is::<ProjectionExec>() {
        // The input's columns are those of the expressions, which have been found by name.
        let schema = node.schema();
        let count = |name: &str| schema.fields().iter().filter(|field| field.name() == name).count();
        let is_own = |column: &Column| {
            schema.fields().get(column.index()).is_some_and(|field| field.name() == column.name())
                && count(column.name()) == 1
        };
        return columns.iter().all(is_own);
    }
    let below = self::columns(below);
    let is_same = |(column, below): (&Column, &Column)| comes_from(node, child, column.index(), below.index());
    columns.len() == below.len() && columns.iter().zip(&below).all(is_same)
}

/// Whether the operator's column `place` has the values of column `below` of an input, in all rows that the condition decides about.
fn comes_from(node: &Plan, child: usize, place: usize, below: usize) -> bool {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let (_, columns) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
        let place = join.projection.as_ref().map_or(place, |projection| projection[place]);
        let side = if child == 0 { JoinSide::Left } else { JoinSide::Right };
        let Some(column) = columns.get(place) else { return false };
        // A row that a semi join returns has an equal key on the other side.
        let is_key = || {
            let at = |key: &Condition, place| key.downcast_ref::<Column>().is_some_and(|key| key.index() == place);
            join.on().iter().any(|(left, right)| match join.join_type() {
                JoinType::LeftSemi => at(left, column.index) && at(right, below),
                JoinType::RightSemi => at(right, column.index) && at(left, below),
                _ => false,
            })
        };
        return if column.side == side { column.index == below } else { column.side != JoinSide::None && is_key() };
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let key = aggregate.group_expr().expr().get(place).and_then(|(key, _)| key.downcast_ref::<Column>());
        return key.is_some_and(|key| key.index() == below);
    }
    if let Some(aggregate) = node.downcast_ref::<ArrayAggregateExec>() {
        return aggregate.scanned(place) == Some(below);
    }
    if let Some(projection) = node.downcast_ref::<FilterExec>().and_then(|filter| filter.projection().as_ref()) {
        return projection.get(place) == Some(&below);
    }
    // All others return the columns that they read.
    let is_like =
        node.children().get(child).is_some_and(|child| child.schema().fields().len() == node.schema().fields().len());
    is_like && place == below
}

/// The columns that a condition reads, in the order of its text.
fn columns(condition: &Condition) -> Vec<Column> {
    let mut columns = vec![];
    let visit = |part: &Condition| {
        columns.extend(part.downcast_ref::<Column>().cloned());
        Ok(TreeNodeRecursion::Continue)
    };
    condition.apply(visit).expect("the visit cannot fail");
    columns
}

#[cfg(test)]
mod tests;
