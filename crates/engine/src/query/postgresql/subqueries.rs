//! Subqueries. DataFusion makes joins of them; allowed are the forms whose joins keep PostgreSQL's rows.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Limit, LogicalPlan, Operator, Subquery};

use super::expressions::{Scope, Typed, condition, value};
use super::kinds::Kind;
use super::{Result, casts, fault, plans, refused};

const REMEDY: &str = "join a subquery in FROM instead";

/// A condition of WHERE or HAVING: subqueries are allowed where AND joins them with the rest.
pub fn filter(predicate: &Expr, scope: Scope) -> Result<Expr> {
    let scope = Scope { has_subqueries: true, ..scope };
    let parts = split_conjunction(predicate).into_iter().map(|part| conjunct(part, scope, false));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    match parts.into_iter().reduce(Expr::and) {
        Some(all) => Ok(all),
        None => condition(predicate, scope),
    }
}

fn conjunct(part: &Expr, scope: Scope, is_negated: bool) -> Result<Expr> {
    match part {
        Expr::Not(inner) if matches!(**inner, Expr::InSubquery(_) | Expr::Exists(_) | Expr::Not(_)) => {
            conjunct(inner, scope, !is_negated)
        }
        Expr::InSubquery(of) => is_in(of, scope, is_negated),
        Expr::Exists(of) => exists(of, scope, is_negated),
        _ if is_negated => Ok(Expr::Not(Box::new(condition(part, scope)?))),
        _ => condition(part, scope),
    }
}

fn is_in(of: &InSubquery, scope: Scope, is_negated: bool) -> Result<Expr> {
    let subquery = translated(&of.subquery, scope)?;
    let negated = of.negated != is_negated;
    if negated && is_correlated(&subquery) {
        return refused("NOT IN (SELECT …) with columns of the outer query", "write NOT EXISTS");
    }
    if is_correlated(&subquery) {
        check_correlation(&subquery.subquery, "IN")?;
    }
    let left = value(&of.expr, scope)?;
    let kind = left.kind.common(kind_of(&subquery))?;
    if matches!(kind, Kind::Other | Kind::Unknown) {
        return refused(format_args!("{} IN (SELECT …) of {kind}", left.kind), "select another type");
    }
    let plan = plans::united(Arc::unwrap_or_clone(subquery.subquery), &[kind])?;
    let subquery = Subquery { subquery: Arc::new(plan), ..subquery };
    let left = casts::implicit(left, kind)?;
    Ok(Expr::InSubquery(InSubquery::new(Box::new(left.expr), subquery, negated)))
}

fn exists(of: &Exists, scope: Scope, is_negated: bool) -> Result<Expr> {
    let subquery = translated(&of.subquery, scope)?;
    check_correlation(&subquery.subquery, "EXISTS")?;
    Ok(Expr::Exists(Exists::new(subquery, of.negated != is_negated)))
}

/// A subquery that gives one value.
pub fn scalar(of: &Subquery, scope: Scope) -> Result<Typed> {
    if !scope.has_subqueries {
        return refused("a subquery in ON, GROUP BY, ORDER BY or within an aggregate function", REMEDY);
    }
    let subquery = translated(of, scope)?;
    if is_correlated(&subquery) {
        check_scalar(&subquery.subquery)?;
    } else if !gives_one_row(&subquery.subquery) {
        return refused("a subquery as a value that may give several rows", "write LIMIT 1 or an aggregate function");
    }
    let kind = kind_of(&subquery);
    Ok(Typed { expr: Expr::ScalarSubquery(subquery), kind })
}

/// A column of the query around this one, with its type there.
pub fn outer_column(column: &Column, scope: Scope) -> Result<Typed> {
    let found = scope.outers.last().and_then(|outer| outer.field_from_column(column).ok());
    let Some(field) = found else {
        return refused(format_args!("`{column}` of a query two levels further out"), REMEDY);
    };
    let kind = Kind::of(field.data_type());
    Ok(Typed { expr: Expr::OuterReferenceColumn(Arc::clone(field), column.clone()), kind })
}

fn kind_of(subquery: &Subquery) -> Kind {
    subquery.subquery.schema().fields().first().map_or(Kind::Other, |field| Kind::of(field.data_type()))
}

fn translated(of: &Subquery, scope: Scope) -> Result<Subquery> {
    let outers = [scope.outers, &[Arc::new(scope.columns.clone())]].concat();
    let plan = plans::translate_within((*of.subquery).clone(), &outers)?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: of.spans.clone() })
}

fn is_correlated(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
}

fn names_outer(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::OuterReferenceColumn(..)))).unwrap_or(true)
}

/// Whether this node or one below it names columns of the outer query.
fn reaches_out(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// Columns of the outer query are only named by the conditions over the FROM of the subquery: DataFusion drops or doubles rows where
/// an aggregation, a LIMIT or DISTINCT lies between.
fn check_correlation(plan: &LogicalPlan, of: &str) -> Result<()> {
    match plan {
        LogicalPlan::Projection(projection) if !projection.expr.iter().any(names_outer) => {
            check_correlation(&projection.input, of)
        }
        LogicalPlan::Filter(filter) => check_correlation(&filter.input, of),
        LogicalPlan::SubqueryAlias(alias) if !reaches_out(&alias.input) => Ok(()),
        LogicalPlan::TableScan(_) | LogicalPlan::Join(_) | LogicalPlan::EmptyRelation(_) if !reaches_out(plan) => {
            Ok(())
        }
        _ => refused(
            format_args!(
                "{of} (SELECT …) with aggregate functions, DISTINCT, LIMIT or UNION, or with columns of the outer query outside of its WHERE"
            ),
            REMEDY,
        ),
    }
}

/// One aggregation without groups, that is NULL without rows, over rows that equal the outer row's.
fn check_scalar(plan: &LogicalPlan) -> Result<()> {
    let otherwise = || {
        refused(
            "a correlated subquery as a value, other than (SELECT sum, min, max or avg … WHERE inner = outer AND …)",
            REMEDY,
        )
    };
    match plan {
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_strict) => check_scalar(&projection.input),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            let is_null_without_rows = aggregate.aggr_expr.iter().all(is_null_without_rows);
            let is_right = !aggregate.aggr_expr.iter().any(names_outer) && is_null_without_rows;
            if is_right && equals_outer(&aggregate.input) { Ok(()) } else { otherwise() }
        }
        _ => otherwise(),
    }
}

/// Counts are not NULL without rows, but those that `avg` is made of go into a quotient, which is.
fn is_null_without_rows(aggregate: &Expr) -> bool {
    match aggregate {
        Expr::Alias(alias) => super::aggregates::is_part_of_average(&alias.name) || is_null_without_rows(&alias.expr),
        Expr::AggregateFunction(function) => function.func.name() != "count",
        _ => false,
    }
}

fn equals_outer(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    let is_equality = |part: &Expr| match part {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => names_outer(left) != names_outer(right),
        _ => false,
    };
    let is_right = |part: &&Expr| !names_outer(part) || is_equality(part);
    split_conjunction(&filter.predicate).iter().all(is_right)
        && (equals_outer(&filter.input) || !reaches_out(&filter.input))
}

/// Whether an expression has columns, and is NULL wherever one of them is.
fn is_strict(expr: &Expr) -> bool {
    let mut is_strict = !expr.column_refs().is_empty();
    let seen = expr.apply(|part| {
        is_strict &= match part {
            Expr::ScalarFunction(function) => function.func.inner().is_strict(),
            Expr::BinaryExpr(binary) => !matches!(binary.op, Operator::And | Operator::Or),
            Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) | Expr::Cast(_) | Expr::Negative(_) => true,
            _ => false,
        };
        Ok(TreeNodeRecursion::Continue)
    });
    seen.map_err(fault).is_ok() && is_strict
}

fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => gives_one_row(&projection.input),
        LogicalPlan::Filter(filter) => gives_one_row(&filter.input),
        LogicalPlan::Sort(sort) => gives_one_row(&sort.input),
        LogicalPlan::SubqueryAlias(alias) => gives_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(Limit { fetch: Some(fetch), .. }) => {
            matches!(&**fetch, Expr::Literal(datafusion::common::ScalarValue::Int64(Some(0 | 1)), _))
        }
        _ => false,
    }
}
