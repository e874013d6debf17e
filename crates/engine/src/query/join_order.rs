//! The order of joins, by cost.
//!
//! DataFusion joins in the order of the query's text. This rule takes each tree of inner joins apart into its inputs and
//! conditions ([`graph`]), together with the semi and anti joins above them (made from `IN` and `EXISTS`), which only remove
//! rows and so may go wherever the columns they look at are present; finds the cheapest tree by dynamic programming over
//! subsets of inputs ([`search`]); and puts it together again. How many pairs of rows satisfy a condition on several inputs is
//! tried out ([`pairs`]).
//!
//! Every join it returns has its build side, from which the hash table is made, on the left: the smaller one by our
//! estimates. DataFusion is configured to leave it there.
//!
//! It runs once per query, right after conditions have been pushed down to the tables and before columns are dropped:
//! at that time a tree's inputs can be told apart best.

mod graph;
mod pairs;
mod search;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, Projection};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::query::estimate::estimate;
use crate::query::join_order::graph::{JoinGraph, turned};

/// Orders joins by estimated cost.
#[derive(Debug)]
pub struct JoinOrder;

impl JoinOrder {
    /// Adds it where filters have just reached the tables and no column has been dropped yet.
    pub fn insert(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
        let place = rules.iter().position(|rule| rule.name() == "push_down_filter");
        rules.insert(place.map_or(rules.len(), |place| place + 1), Arc::new(JoinOrder));
    }
}

impl OptimizerRule for JoinOrder {
    fn name(&self) -> &str {
        "join_order"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if columns_are_dropped(&plan)? { Ok(Transformed::no(plan)) } else { order(plan) }
    }
}

/// Whether the optimizer has been through the plan before.
fn columns_are_dropped(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if scan.projection.is_some());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

pub fn order(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        if !is_tree(&node) {
            return turn_outer(node);
        }
        let ordered = match JoinGraph::take_apart(&node)? {
            Some(graph) => graph.put_together(&node)?,
            None => return Ok(Transformed::no(node)),
        };
        // The inputs were ordered when the tree was taken apart.
        Ok(Transformed::new(ordered, true, TreeNodeRecursion::Jump))
    })
}

fn is_tree(node: &LogicalPlan) -> bool {
    let kinds = [JoinType::Inner, JoinType::LeftSemi, JoinType::LeftAnti];
    matches!(node, LogicalPlan::Join(join) if kinds.contains(&join.join_type))
}

/// Builds the hash table of an outer join from the smaller side, too. The inputs are ordered afterwards, which changes neither
/// their columns nor how many rows they are expected to have.
fn turn_outer(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let outer = [JoinType::Left, JoinType::Right, JoinType::Full];
    let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
    if !outer.contains(&join.join_type) || estimate(&join.left).rows <= estimate(&join.right).rows {
        return Ok(Transformed::no(node));
    }
    let columns = node.schema().columns().into_iter().map(Expr::Column).collect();
    let turned = Arc::new(LogicalPlan::Join(turned(join.clone())?));
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, turned)?)))
}

#[cfg(test)]
mod tests;
