//! Aggregate functions.
//!
//! `sum` of `bigint` is a numeric in PostgreSQL, where DataFusion's wraps. `avg` is a quotient of a sum and a count here, for
//! PostgreSQL's digits: a projection over the aggregation divides.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, GroupingSet, LogicalPlan, Projection, lit,
};

use super::checked_sum::checked_sum;
use super::expressions::{Scope, Typed, condition, value};
use super::kinds::Kind;
use super::quotient::quotient;
use super::{Result, casts, fault, refused};

/// Ends the names of the sum and the count that an average is made of.
const PART_OF_AVERAGE: &str = " of avg";

/// DataFusion's sums have ten digits more than their summands, and at most 38. Sums of numerics with 28 digits have 38, and so
/// have sums of these. With more digits a sum may not fit.
const SUMMAND_DIGITS: u8 = 28;

/// Whether a column with this name is the sum or the count of an average.
pub fn is_part_of_average(name: &str) -> bool {
    name.ends_with(PART_OF_AVERAGE)
}

/// What the aggregation computes, and what the projection over it makes of that.
struct AggregationParts {
    computed: Vec<Expr>,
    results: Vec<Expr>,
    /// Whether a result is not just what was computed.
    is_projected: bool,
    /// Whether a function is of distinct values.
    has_distinct: bool,
}

/// An aggregation over an input of known meaning.
pub fn aggregation(of: &Aggregate, input: LogicalPlan, scope: Scope) -> Result<LogicalPlan> {
    let names = NamePreserver::new_for_projection();
    let group = of.group_expr.iter().map(|key| group_key(key, &names, scope)).collect::<Result<Vec<_>>>()?;
    let has_distinct = of.aggr_expr.iter().any(is_distinct);
    let mut parts = AggregationParts { computed: Vec::new(), results: Vec::new(), is_projected: false, has_distinct };
    for aggregate in &of.aggr_expr {
        let name = names.save(aggregate);
        let Expr::AggregateFunction(function) = aggregate.clone().unalias() else {
            return refused(format_args!("`{aggregate}`"), "see the list of aggregate functions");
        };
        let result = parts.add(&function, |expr| name.restore(expr), &aggregate.schema_name().to_string(), scope)?;
        parts.results.push(result);
    }
    let AggregationParts { computed, results, is_projected, .. } = parts;
    let aggregate = Aggregate::try_new(Arc::new(input), group, computed.clone()).map_err(fault)?;
    let keys = aggregate.schema.columns().len() - computed.len();
    let keys = aggregate.schema.columns().into_iter().take(keys).map(Expr::Column).collect::<Vec<_>>();
    let plan = LogicalPlan::Aggregate(aggregate);
    if !is_projected {
        return Ok(plan);
    }
    let all = [keys, results].concat();
    Ok(LogicalPlan::Projection(Projection::try_new(all, Arc::new(plan)).map_err(fault)?))
}

fn group_key(key: &Expr, names: &NamePreserver, scope: Scope) -> Result<Expr> {
    let is_column = |key: &Expr| matches!(key, Expr::Column(_));
    match key {
        Expr::GroupingSet(GroupingSet::Rollup(keys) | GroupingSet::Cube(keys)) if keys.iter().all(is_column) => {
            Ok(key.clone())
        }
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) if sets.iter().flatten().all(is_column) => Ok(key.clone()),
        Expr::GroupingSet(_) => refused("GROUPING SETS of expressions", "name columns of a subquery in FROM"),
        _ => {
            let name = names.save(key);
            let typed = value(key, scope)?;
            Ok(name.restore(typed.expr))
        }
    }
}

impl AggregationParts {
    /// Adds what is to be computed for a function, and returns the column of the result.
    fn add(
        &mut self,
        of: &AggregateFunction,
        named: impl FnOnce(Expr) -> Expr,
        name: &str,
        scope: Scope,
    ) -> Result<Expr> {
        let function = of.func.name();
        if !of.params.order_by.is_empty() || of.params.null_treatment.is_some() {
            return refused(format_args!("{function} with ORDER BY or IGNORE NULLS"), "order the rows of the result");
        }
        if function == "count" {
            let argument = count_argument(of, scope)?;
            return self.simple(rebuilt(of, &of.func, argument, scope)?, named);
        }
        let [argument] = &of.params.args[..] else {
            return refused(format_args!("the aggregate function {function} with several arguments"), "give one");
        };
        let argument = value(argument, scope)?;
        match function {
            "sum" => {
                let argument = self.summand(argument)?;
                let sum = sum_of(argument.kind, of.params.distinct)?;
                self.simple(rebuilt(of, &sum, vec![argument.expr], scope)?, named)
            }
            "avg" => self.average(of, argument, named, name, scope),
            "min" | "max" if is_ordered(argument.kind) => {
                self.simple(rebuilt(of, &of.func, vec![argument.expr], scope)?, named)
            }
            "bool_and" | "bool_or" if argument.kind == Kind::Boolean => {
                self.simple(rebuilt(of, &of.func, vec![argument.expr], scope)?, named)
            }
            _ => refused(
                format_args!("{function}({})", argument.kind),
                "take count, sum, avg, min, max, bool_and or bool_or of a type that they have in PostgreSQL",
            ),
        }
    }

    /// A function whose result is what is computed.
    fn simple(&mut self, function: Expr, named: impl FnOnce(Expr) -> Expr) -> Result<Expr> {
        let function = named(function);
        let (relation, name) = function.qualified_name();
        self.computed.push(function);
        Ok(Expr::Column(Column::new(relation, name)))
    }

    /// A sum of `bigint` may be larger than one. Beside distinct values DataFusion adds up sums, which gives them more digits than the
    /// plan says, unless they have all digits that there are.
    fn summand(&self, argument: Typed) -> Result<Typed> {
        match argument.kind {
            Kind::Integer | Kind::Quotient(..) => Ok(argument),
            Kind::Numeric(digits, scale) if self.has_distinct => {
                Ok(casts::widened(argument, Kind::Numeric(digits.max(SUMMAND_DIGITS), scale)))
            }
            Kind::Numeric(..) => Ok(argument),
            Kind::Bigint => {
                let digits = if self.has_distinct { SUMMAND_DIGITS } else { 19 };
                Ok(casts::widened(argument, Kind::Numeric(digits, 0)))
            }
            kind => refused(format_args!("a sum or average of {kind}"), "give a number"),
        }
    }

    fn average(
        &mut self,
        of: &AggregateFunction,
        argument: Typed,
        named: impl FnOnce(Expr) -> Expr,
        name: &str,
        scope: Scope,
    ) -> Result<Expr> {
        if matches!(argument.kind, Kind::Quotient(..)) || !argument.kind.is_number() {
            return refused(format_args!("avg({})", argument.kind), "round it first, or give a number");
        }
        let summand = self.summand(argument)?;
        let sum = rebuilt(of, &sum_of(summand.kind, of.params.distinct)?, vec![summand.expr.clone()], scope)?;
        let total = Typed::of(sum.clone(), scope)?;
        let sum = self.part(sum, format!("sum {name}{PART_OF_AVERAGE}"));
        // Without nulls the rows are counted, once for all averages.
        let is_nullable = of.params.distinct || summand.expr.nullable(scope.columns).map_err(fault)?;
        let counted = if is_nullable { summand.expr } else { lit(1_i64) };
        let count = rebuilt(of, &count_udaf(), vec![counted], scope)?;
        let count = self.part(count, format!("count {name}{PART_OF_AVERAGE}"));
        let numeric = |expr, kind: Kind| casts::widened(Typed { expr, kind }, kind.as_numeric()).expr;
        self.is_projected = true;
        Ok(named(quotient(numeric(sum, total.kind), numeric(count, Kind::Bigint))))
    }

    /// A column of what is computed; the same is computed once.
    fn part(&mut self, function: Expr, name: String) -> Expr {
        let same = self.computed.iter().find(|computed| (*computed).clone().unalias() == function);
        let column = |expr: &Expr| {
            let (relation, name) = expr.qualified_name();
            Expr::Column(Column::new(relation, name))
        };
        if let Some(same) = same {
            return column(same);
        }
        let part = function.alias(name);
        let named = column(&part);
        self.computed.push(part);
        named
    }
}

fn is_distinct(aggregate: &Expr) -> bool {
    matches!(aggregate.clone().unalias(), Expr::AggregateFunction(function) if function.params.distinct)
}

fn is_ordered(kind: Kind) -> bool {
    kind.is_number() || matches!(kind, Kind::Text | Kind::Date | Kind::Timestamp)
}

/// The function that adds up values of a kind.
pub fn sum_of(kind: Kind, is_distinct: bool) -> Result<Arc<AggregateUDF>> {
    match kind {
        Kind::Numeric(..=SUMMAND_DIGITS, _) | Kind::Integer | Kind::Bigint => Ok(sum_udaf()),
        _ if is_distinct => refused(
            format_args!("a sum of DISTINCT numerics with more than {SUMMAND_DIGITS} digits"),
            format_args!("cast them to numeric({SUMMAND_DIGITS}, 2)"),
        ),
        _ => Ok(checked_sum()),
    }
}

/// `count(*)` is the count of a literal.
fn count_argument(of: &AggregateFunction, scope: Scope) -> Result<Vec<Expr>> {
    match &of.params.args[..] {
        [Expr::Literal(value, _)] if !value.is_null() => Ok(of.params.args.clone()),
        [argument] => Ok(vec![value(argument, scope)?.expr]),
        _ => refused("count of several values", "count one"),
    }
}

fn rebuilt(of: &AggregateFunction, function: &Arc<AggregateUDF>, arguments: Vec<Expr>, scope: Scope) -> Result<Expr> {
    let filter = of.params.filter.as_ref().map(|filter| condition(filter, scope)).transpose()?.map(Box::new);
    let function = Arc::clone(function);
    let rebuilt = AggregateFunction::new_udf(function, arguments, of.params.distinct, filter, Vec::new(), None);
    Ok(Expr::AggregateFunction(rebuilt))
}
