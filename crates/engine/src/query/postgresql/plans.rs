//! Logical plans: each node over inputs of known meaning.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Distinct, Expr, Filter, Join, JoinType, LogicalPlan, Projection, Sort, SubqueryAlias, Union, Window,
};

use super::aggregates::aggregation;
use super::expressions::{Scope, Typed, condition, value};
use super::kinds::Kind;
use super::{Result, casts, fault, refused, subqueries, windows};

/// A plan with PostgreSQL's meaning.
pub fn translate(plan: LogicalPlan) -> Result<LogicalPlan> {
    translate_within(plan, &[])
}

/// The plan of a subquery within these queries.
pub fn translate_within(plan: LogicalPlan, outers: &[DFSchemaRef]) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Projection(of) => {
            let input = translate_within(unwrapped(of.input), outers)?;
            let expressions = projected(&of.expr, &scope(input.schema(), outers, true))?;
            Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input)).map_err(fault)?))
        }
        LogicalPlan::Filter(of) => {
            let input = translate_within(unwrapped(of.input), outers)?;
            let predicate = subqueries::filter(&of.predicate, scope(input.schema(), outers, true))?;
            Ok(LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input)).map_err(fault)?))
        }
        LogicalPlan::Aggregate(of) => {
            let input = translate_within((*of.input).clone(), outers)?;
            let schema = Arc::clone(input.schema());
            aggregation(&of, input, scope(&schema, outers, false))
        }
        LogicalPlan::Window(of) => {
            let input = translate_within(unwrapped(of.input), outers)?;
            let scope = scope(input.schema(), outers, false);
            let expressions = of.window_expr.iter().map(|expr| windowed(expr, scope)).collect::<Result<Vec<_>>>()?;
            let window = LogicalPlan::Window(Window::try_new(expressions, Arc::new(input)).map_err(fault)?);
            as_bigints(window)
        }
        LogicalPlan::Sort(of) => {
            let input = translate_within(unwrapped(of.input), outers)?;
            let scope = scope(input.schema(), outers, false);
            let expr = of.expr.iter().map(|key| windows::sort(key, scope)).collect::<Result<Vec<_>>>()?;
            Ok(LogicalPlan::Sort(Sort { expr, input: Arc::new(input), fetch: of.fetch }))
        }
        LogicalPlan::Join(of) => join(of, outers),
        LogicalPlan::Union(of) => union(of, outers),
        LogicalPlan::Limit(mut of) => {
            let is_literal = |expr: &Option<Box<Expr>>| {
                expr.as_deref().is_none_or(|expr| matches!(expr, Expr::Literal(value, _) if !value.is_null()))
            };
            if !is_literal(&of.skip) || !is_literal(&of.fetch) {
                return refused("LIMIT and OFFSET of an expression", "write a number");
            }
            of.input = Arc::new(translate_within(unwrapped(of.input), outers)?);
            Ok(LogicalPlan::Limit(of))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let input = translate_within(unwrapped(input), outers)?;
            Ok(LogicalPlan::Distinct(Distinct::All(Arc::new(input))))
        }
        LogicalPlan::SubqueryAlias(of) => {
            let input = translate_within(unwrapped(of.input), outers)?;
            Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), of.alias).map_err(fault)?))
        }
        LogicalPlan::TableScan(_) | LogicalPlan::EmptyRelation(_) => Ok(plan),
        LogicalPlan::Explain(mut of) => {
            of.plan = Arc::new(translate_within(unwrapped(of.plan), outers)?);
            Ok(LogicalPlan::Explain(of))
        }
        LogicalPlan::Analyze(mut of) => {
            of.input = Arc::new(translate_within(unwrapped(of.input), outers)?);
            Ok(LogicalPlan::Analyze(of))
        }
        other => refused(format_args!("{}", other.display()), "see the list of what queries may contain"),
    }
}

fn unwrapped(plan: Arc<LogicalPlan>) -> LogicalPlan {
    Arc::unwrap_or_clone(plan)
}

fn scope<'a>(columns: &'a DFSchema, outers: &'a [DFSchemaRef], has_subqueries: bool) -> Scope<'a> {
    Scope { columns, outers, has_subqueries }
}

/// The columns of a result keep their names.
fn projected(expressions: &[Expr], scope: &Scope) -> Result<Vec<Expr>> {
    let names = NamePreserver::new_for_projection();
    let projected = expressions.iter().map(|expr| {
        let name = names.save(expr);
        let typed = value(expr, *scope)?;
        Ok(name.restore(typed.expr))
    });
    projected.collect()
}

fn windowed(expr: &Expr, scope: Scope) -> Result<Expr> {
    let name = NamePreserver::new_for_projection().save(expr);
    match expr.clone().unalias() {
        Expr::WindowFunction(function) => Ok(name.restore(windows::window(&function, scope)?)),
        other => refused(format_args!("`{other}`"), "see the list of window functions"),
    }
}

/// Ranks and row numbers are unsigned in DataFusion.
fn as_bigints(window: LogicalPlan) -> Result<LogicalPlan> {
    let fields = window.schema().fields().iter();
    let kinds = fields.map(|field| match field.data_type() {
        DataType::UInt64 => Kind::Bigint,
        other => Kind::of(other),
    });
    let kinds = kinds.collect::<Vec<_>>();
    united(window, &kinds)
}

fn join(of: Join, outers: &[DFSchemaRef]) -> Result<LogicalPlan> {
    if matches!(of.join_type, JoinType::LeftSemi | JoinType::LeftAnti) && of.filter.is_none() {
        return set_operation(of, outers);
    }
    if !matches!(of.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full) {
        return refused(format_args!("a {} join", of.join_type), "write EXISTS or IN");
    }
    let left = translate_within(unwrapped(of.left), outers)?;
    let right = translate_within(unwrapped(of.right), outers)?;
    let columns = merge_schema(&[&left, &right]);
    let scope = scope(&columns, outers, false);
    let mut conditions = of.filter.iter().map(|filter| condition(filter, scope)).collect::<Result<Vec<_>>>()?;
    for (a, b) in &of.on {
        conditions.push(condition(&a.clone().eq(b.clone()), scope)?);
    }
    let filter = conditions.into_iter().reduce(Expr::and);
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        Vec::new(),
        filter,
        of.join_type,
        of.join_constraint,
        of.null_equality,
        of.null_aware,
    );
    Ok(LogicalPlan::Join(join.map_err(fault)?))
}

/// INTERSECT and EXCEPT are joins whose keys are the columns, and where null equals null.
fn set_operation(of: Join, outers: &[DFSchemaRef]) -> Result<LogicalPlan> {
    let left = translate_within(unwrapped(of.left), outers)?;
    let right = translate_within(unwrapped(of.right), outers)?;
    let kind = |(a, b): (&FieldRef, &FieldRef)| Kind::of(a.data_type()).common(Kind::of(b.data_type()));
    let pairs = left.schema().fields().iter().zip(right.schema().fields());
    let kinds = pairs.map(kind).collect::<Result<Vec<_>>>()?;
    let (left, right) = (united(left, &kinds)?, united(right, &kinds)?);
    let mut on = Vec::new();
    for (a, b) in &of.on {
        let a = value(a, scope(left.schema(), outers, false))?;
        let b = value(b, scope(right.schema(), outers, false))?;
        on.push((a.expr, b.expr));
    }
    let (left, right) = (Arc::new(left), Arc::new(right));
    let join = Join::try_new(left, right, on, None, of.join_type, of.join_constraint, of.null_equality, of.null_aware);
    Ok(LogicalPlan::Join(join.map_err(fault)?))
}

/// The columns of a UNION have the types that all inputs have together.
fn union(of: Union, outers: &[DFSchemaRef]) -> Result<LogicalPlan> {
    let inputs = of.inputs.into_iter().map(|input| translate_within(unwrapped(input), outers));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    if inputs.iter().any(|input| input.schema().fields().len() != width) {
        return refused("a UNION of different numbers of columns", "give each SELECT the same number");
    }
    let kinds = (0..width).map(|place| {
        let kinds = inputs.iter().map(|input| Kind::of(input.schema().field(place).data_type()));
        kinds.into_iter().try_fold(Kind::Unknown, Kind::common)
    });
    let kinds = kinds.collect::<Result<Vec<_>>>()?;
    let inputs = inputs.into_iter().map(|input| Ok(Arc::new(united(input, &kinds)?))).collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs).map_err(fault)?))
}

/// The input with its columns as these types.
pub fn united(input: LogicalPlan, kinds: &[Kind]) -> Result<LogicalPlan> {
    let columns = input.schema().columns();
    let is_same = |(place, kind): (usize, &Kind)| Kind::of(input.schema().field(place).data_type()) == *kind;
    if kinds.iter().enumerate().all(is_same) {
        return Ok(input);
    }
    let mut expressions = Vec::new();
    for (column, kind) in columns.into_iter().zip(kinds) {
        let name = column.name().to_owned();
        let from = Kind::of(input.schema().field_from_column(&column).map_err(fault)?.data_type());
        let relation = column.relation.clone();
        let typed = casts::widened(Typed { expr: Expr::Column(column), kind: from }, *kind);
        expressions.push(match typed.expr {
            plain @ Expr::Column(Column { .. }) => plain,
            cast => cast.alias_qualified(relation, name),
        });
    }
    Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input)).map_err(fault)?))
}
