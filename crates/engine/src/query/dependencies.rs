//! Functional dependencies between columns, without those that DataFusion claims wrongly.
//!
//! DataFusion keeps functional dependencies with the schema of a logical plan: `key determines these columns`. A join keeps those of
//! its inputs, each for the columns of its side. But an aggregation over it (also a DISTINCT) says of each key among its groups that it
//! determines all of its columns, those of the other side, too (`aggregate_functional_dependencies`, DataFusion 55.2). By that a sort
//! loses keys, and groups are merged. Of an aggregation it is only known that all of its groups' keys together determine the rest.
//! [`Dependencies`] leaves only that, before the rules that look at it and where SQL names a relation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Dependency, FunctionalDependence, FunctionalDependencies, Result};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::TableFactor;

/// The rules that use dependencies.
const READERS: [&str; 4] =
    ["replace_distinct_aggregate", "eliminate_join", "eliminate_duplicated_expr", "optimize_projections"];

/// A rule, and a planner of relations, after which a plan claims only known dependencies.
#[derive(Debug, Default)]
pub struct Dependencies {
    /// Whether the relation that comes next has been here and is to be planned by DataFusion.
    is_asking: AtomicBool,
}

impl Dependencies {
    /// Puts it before each rule that looks at dependencies.
    pub fn insert(rules: &mut Vec<Arc<dyn OptimizerRule + Send + Sync>>) {
        for name in READERS {
            let place = rules.iter().position(|rule| rule.name() == name).expect("DataFusion has that rule");
            rules.insert(place, Arc::new(Dependencies::default()));
        }
    }
}

impl OptimizerRule for Dependencies {
    fn name(&self) -> &str {
        "dependencies"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        with_known_dependencies(plan)
    }
}

impl RelationPlanner for Dependencies {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if self.is_asking.swap(false, Ordering::Relaxed) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        self.is_asking.store(true, Ordering::Relaxed);
        let plan = with_known_dependencies(context.plan(relation)?)?.data;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

fn with_known_dependencies(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let claims_too_much = |node: &LogicalPlan| match node {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.schema.functional_dependencies().iter().any(|claim| !is_whole_key(aggregate, claim))
        }
        _ => false,
    };
    if !plan.exists(|node| Ok(claims_too_much(node)))? {
        return Ok(Transformed::no(plan));
    }
    plan.transform_up_with_subqueries(|node| {
        let node = node.recompute_schema()?;
        let LogicalPlan::Aggregate(mut aggregate) = node else { return Ok(Transformed::yes(node)) };
        // `Aggregate::try_new_with_schema` would claim the same again.
        let schema = aggregate.schema.as_ref().clone().with_functional_dependencies(known(&aggregate))?;
        aggregate.schema = Arc::new(schema);
        Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
    })
}

/// How many keys groups have; `None` if some groups leave keys out.
fn keys(aggregate: &Aggregate) -> Option<usize> {
    let is_set = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
    (!is_set).then_some(aggregate.group_expr.len())
}

fn is_whole_key(aggregate: &Aggregate, claim: &FunctionalDependence) -> bool {
    keys(aggregate).is_some_and(|keys| keys > 0 && (0..keys).all(|key| claim.source_indices.contains(&key)))
}

fn known(aggregate: &Aggregate) -> FunctionalDependencies {
    let Some(keys) = keys(aggregate).filter(|keys| *keys > 0) else { return FunctionalDependencies::empty() };
    let (fields, all) = (aggregate.schema.fields(), (0..aggregate.schema.fields().len()).collect());
    let is_nullable = fields[..keys].iter().any(|field| field.is_nullable());
    let claim = FunctionalDependence::new((0..keys).collect(), all, is_nullable).with_mode(Dependency::Single);
    FunctionalDependencies::new(vec![claim])
}

#[cfg(test)]
mod tests;
