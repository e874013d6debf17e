//! Estimates of a logical plan's rows, and of the distinct values in its columns.
//!
//! Base tables answer from their statistics and samples. Above them the textbook assumptions hold: conditions are independent,
//! values spread evenly, and the smaller set of join keys is contained in the larger (Selinger et al., "Access path selection
//! in a relational database management system", 1979). A join on a unique key is taken to be one from a foreign key.

use std::collections::HashSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, DFSchema, ScalarValue, Statistics};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, Filter, Join, JoinType, LogicalPlan, Operator, TableScan};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::execution_props::ExecutionProps;

use crate::query::provider::ColumnTableProvider;
use crate::query::selectivity::sample_selectivity;

/// The assumed rows of a table without statistics.
const UNKNOWN_ROWS: f64 = 1000.0;

/// The assumed share of rows that satisfy a condition that cannot be estimated.
pub const UNKNOWN_SHARE: f64 = 0.2;

/// An estimate of a plan's result.
#[derive(Debug, Clone)]
pub struct Estimate {
    pub rows: f64,
    /// One entry per output column.
    pub columns: Vec<ColumnEstimate>,
    /// Sets of output columns in which no two rows are equal, each with the number of rows before any condition was
    /// applied.
    pub unique: Vec<(HashSet<usize>, f64)>,
}

/// An estimate of one column of a result.
#[derive(Debug, Clone, Copy)]
pub struct ColumnEstimate {
    pub distinct: f64,
    /// The number of distinct values in the base table's column; the conditions so far have let some of them pass.
    pub domain: f64,
}

impl Estimate {
    fn unknown(columns: usize, rows: f64) -> Self {
        Estimate { rows, columns: vec![ColumnEstimate { distinct: rows, domain: rows }; columns], unique: Vec::new() }
    }

    /// The same columns when only this share of the rows is left.
    fn keep(mut self, share: f64) -> Self {
        let rows = self.rows;
        self.rows = (rows * share).max(1.0);
        for column in &mut self.columns {
            column.distinct = surviving(column.distinct, rows, share).min(self.rows);
        }
        self
    }

    /// How many different combinations of values some columns have.
    fn combinations(&self, columns: impl Iterator<Item = Option<usize>>) -> f64 {
        let distinct = |column: Option<usize>| column.map_or(self.rows, |column| self.columns[column].distinct);
        columns.map(distinct).product::<f64>().min(self.rows).max(1.0)
    }
}

/// Of `distinct` values spread over `rows` rows, how many are left when a share of the rows is.
fn surviving(distinct: f64, rows: f64, share: f64) -> f64 {
    let repeats = rows / distinct.max(1.0);
    (distinct * (1.0 - (1.0 - share.min(1.0)).powf(repeats))).max(1.0)
}

pub fn estimate(plan: &LogicalPlan) -> Estimate {
    let columns = plan.schema().fields().len();
    match plan {
        LogicalPlan::TableScan(scan) => table(scan).unwrap_or_else(|| Estimate::unknown(columns, UNKNOWN_ROWS)),
        LogicalPlan::Filter(filter) => filtered(filter),
        LogicalPlan::Projection(projection) => {
            project(&estimate(&projection.input), projection.input.schema(), &projection.expr)
        }
        LogicalPlan::Aggregate(aggregate) => aggregated(aggregate),
        LogicalPlan::Join(join) => joined(join),
        LogicalPlan::Limit(limit) => {
            let input = estimate(&limit.input);
            match limit.get_fetch_type() {
                Ok(datafusion::logical_expr::FetchType::Literal(Some(fetch))) if (fetch as f64) < input.rows => {
                    let share = fetch as f64 / input.rows;
                    input.keep(share)
                }
                _ => input,
            }
        }
        LogicalPlan::Union(union) => {
            let rows = union.inputs.iter().map(|input| estimate(input).rows).sum();
            Estimate::unknown(columns, rows)
        }
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => Estimate::unknown(columns, 1.0),
        // Sorts, aliases and similar nodes return all rows of their input.
        other => match other.inputs()[..] {
            [input] => {
                let input = estimate(input);
                if input.columns.len() == columns { input } else { Estimate::unknown(columns, input.rows) }
            }
            _ => Estimate::unknown(columns, UNKNOWN_ROWS),
        },
    }
}

fn table(scan: &TableScan) -> Option<Estimate> {
    let provider = source_as_provider(&scan.source).ok()?;
    let Some(provider) = provider.downcast_ref::<ColumnTableProvider>() else {
        return stated(scan, &provider.statistics()?);
    };
    let table = provider.table();
    let share = conditions_share(provider, scan, &scan.filters.iter().collect::<Vec<_>>());
    let all: Vec<usize> = (0..table.schema().fields().len()).collect();
    let projection = scan.projection.as_ref().unwrap_or(&all);
    let column = |&column: &usize| {
        let domain = (table.statistics().columns[column].distinct.value() as f64).max(1.0);
        ColumnEstimate { distinct: domain, domain }
    };
    let rows = provider.rows().get_value().map_or(1.0, |rows| (*rows as f64).max(1.0));
    let place = |column: &usize| projection.iter().position(|projected| projected == column);
    let keys = table.unique_keys().iter();
    let unique = keys.filter_map(|key| Some((key.iter().map(place).collect::<Option<HashSet<_>>>()?, rows)));
    let whole = Estimate { rows, columns: projection.iter().map(column).collect(), unique: unique.collect() };
    Some(whole.keep(share))
}

/// A table that is not one of ours, by its statistics; `None` if they do not tell its rows. Its conditions are counted where
/// they are checked, above it.
fn stated(scan: &TableScan, statistics: &Statistics) -> Option<Estimate> {
    let rows = (*statistics.num_rows.get_value()? as f64).max(1.0);
    let all: Vec<usize> = (0..scan.source.schema().fields().len()).collect();
    let projection = scan.projection.as_ref().unwrap_or(&all);
    let column = |&column: &usize| {
        match statistics.column_statistics.get(column).and_then(distinct_values) {
            Some(values) => ColumnEstimate { distinct: values.clamp(1.0, rows), domain: values.clamp(1.0, rows) },
            // It may be a key or have few values. An equality then keeps the share of a condition that cannot be estimated.
            None => ColumnEstimate { distinct: rows.min(1.0 / UNKNOWN_SHARE), domain: rows },
        }
    };
    Some(Estimate { rows, columns: projection.iter().map(column).collect(), unique: Vec::new() })
}

/// The number of distinct values, or else the most that lie between the least and the greatest of a column of integers.
fn distinct_values(column: &ColumnStatistics) -> Option<f64> {
    if let Some(distinct) = column.distinct_count.get_value() {
        return Some(*distinct as f64);
    }
    let whole = |value: &ScalarValue| match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(whole)) if value.data_type().is_integer() || value.data_type() == DataType::Date32 => {
            whole
        }
        _ => None,
    };
    let end = |value: &Precision<ScalarValue>| value.get_value().and_then(whole);
    let (least, greatest) = (end(&column.min_value)?, end(&column.max_value)?);
    Some(greatest as f64 - least as f64 + 1.0)
}

/// The share of a table's rows that satisfy conditions, by trial on its sample.
fn conditions_share(provider: &ColumnTableProvider, scan: &TableScan, conditions: &[&Expr]) -> f64 {
    let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), provider.table().schema());
    let Ok(schema) = schema else { return UNKNOWN_SHARE };
    let properties = ExecutionProps::new();
    let mut unknown = 1.0;
    let mut physical = Vec::new();
    for condition in conditions {
        match create_physical_expr(condition, &schema, &properties, &Default::default()) {
            Ok(condition) => physical.push(condition),
            Err(_) => unknown *= UNKNOWN_SHARE,
        }
    }
    unknown * sample_selectivity(provider.table(), &physical)
}

fn filtered(filter: &Filter) -> Estimate {
    let input = estimate(&filter.input);
    let conditions = split_conjunction(&filter.predicate);
    if let LogicalPlan::TableScan(scan) = filter.input.as_ref()
        && let Ok(provider) = source_as_provider(&scan.source)
        && let Some(provider) = provider.downcast_ref::<ColumnTableProvider>()
    {
        let share = conditions_share(provider, scan, &conditions);
        return input.keep(share);
    }
    let schema = filter.input.schema();
    let share = conditions.iter().map(|condition| condition_share(condition, &input, schema)).product();
    input.keep(share)
}

/// A condition on columns that are not those of a base table any more.
fn condition_share(condition: &Expr, input: &Estimate, schema: &DFSchema) -> f64 {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return UNKNOWN_SHARE;
    };
    let distinct = [left, right].into_iter().filter_map(|side| position(side, schema));
    distinct.map(|column| 1.0 / input.columns[column].distinct).reduce(f64::min).unwrap_or(UNKNOWN_SHARE)
}

/// Which column of the input an expression is, if it is just that.
fn position(expression: &Expr, schema: &DFSchema) -> Option<usize> {
    match expression {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => position(&alias.expr, schema),
        // A cast does not merge values, except rarely.
        Expr::Cast(cast) => position(&cast.expr, schema),
        _ => None,
    }
}

fn project(input: &Estimate, schema: &DFSchema, expressions: &[Expr]) -> Estimate {
    let sources: Vec<Option<usize>> = expressions.iter().map(|expression| position(expression, schema)).collect();
    let unknown = ColumnEstimate { distinct: input.rows, domain: input.rows };
    let columns = sources.iter().map(|source| source.map_or(unknown, |column| input.columns[column])).collect();
    let place = |column: &usize| sources.iter().position(|source| *source == Some(*column));
    let keys = input.unique.iter();
    let unique = keys.filter_map(|(key, rows)| Some((key.iter().map(place).collect::<Option<HashSet<_>>>()?, *rows)));
    Estimate { rows: input.rows, columns, unique: unique.collect() }
}

fn aggregated(aggregate: &Aggregate) -> Estimate {
    let input = estimate(&aggregate.input);
    let groups: Vec<_> =
        aggregate.group_expr.iter().map(|expression| position(expression, aggregate.input.schema())).collect();
    let rows = if groups.is_empty() { 1.0 } else { input.combinations(groups.iter().copied()) };
    let unknown = ColumnEstimate { distinct: rows, domain: rows };
    let mut columns: Vec<ColumnEstimate> =
        groups.iter().map(|group| group.map_or(unknown, |column| input.columns[column])).collect();
    columns.resize(aggregate.schema.fields().len(), unknown);
    // Before any condition there would have been a group for each combination that the base tables hold.
    let domain = groups.iter().map(|group| group.map_or(rows, |column| input.columns[column].domain)).product::<f64>();
    let unique = vec![((0..groups.len()).collect(), domain.max(rows))];
    Estimate { rows, columns, unique }
}

fn joined(join: &Join) -> Estimate {
    let (left, right) = (estimate(&join.left), estimate(&join.right));
    let keys: Vec<_> =
        join.on.iter().map(|(l, r)| (position(l, join.left.schema()), position(r, join.right.schema()))).collect();
    let filter = if join.filter.is_some() { UNKNOWN_SHARE } else { 1.0 };
    let share = keys.iter().map(|&(l, r)| key_match_share(&left, l, &right, r)).fold(1.0, f64::min);
    let reverse_share = keys.iter().map(|&(l, r)| key_match_share(&right, r, &left, l)).fold(1.0, f64::min);
    match join.join_type {
        JoinType::LeftSemi => left.keep(share),
        JoinType::LeftAnti => left.keep((1.0 - share).max(0.1)),
        JoinType::LeftMark => {
            let mut marked = left;
            marked.columns.push(ColumnEstimate { distinct: 2.0, domain: 2.0 });
            marked
        }
        JoinType::RightSemi => right.keep(reverse_share),
        JoinType::RightAnti => right.keep((1.0 - reverse_share).max(0.1)),
        JoinType::RightMark => Estimate::unknown(join.schema.fields().len(), right.rows),
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
            let matches = left.rows * right.rows * join_selectivity(&left, &right, &keys) * filter;
            let rows = match join.join_type {
                JoinType::Left => matches.max(left.rows),
                JoinType::Right => matches.max(right.rows),
                JoinType::Full => matches.max(left.rows + right.rows),
                _ => matches.max(1.0),
            };
            let columns = left.columns.iter().chain(&right.columns).copied();
            let capped = columns.map(|column| ColumnEstimate { distinct: column.distinct.min(rows), ..column });
            Estimate { rows, columns: capped.collect(), unique: Vec::new() }
        }
    }
}

/// The share of left rows whose key is among the right ones.
pub fn key_match_share(left: &Estimate, left_key: Option<usize>, right: &Estimate, right_key: Option<usize>) -> f64 {
    match (left_key, right_key) {
        (Some(l), Some(r)) => {
            let domain = left.columns[l].domain.max(right.columns[r].domain).max(1.0);
            (right.columns[r].distinct / domain).min(1.0)
        }
        _ => 1.0,
    }
}

/// The share of all pairs of rows that agree on the keys.
pub fn join_selectivity(left: &Estimate, right: &Estimate, keys: &[(Option<usize>, Option<usize>)]) -> f64 {
    let left_keys: HashSet<usize> = keys.iter().filter_map(|(left, _)| *left).collect();
    let right_keys: HashSet<usize> = keys.iter().filter_map(|(_, right)| *right).collect();
    let by_unique = left
        .unique
        .iter()
        .filter(|(key, _)| key.is_subset(&left_keys))
        .chain(right.unique.iter().filter(|(key, _)| key.is_subset(&right_keys)))
        .map(|(_, rows)| 1.0 / rows.max(1.0))
        .reduce(f64::min);
    by_unique.unwrap_or_else(|| {
        let domain = |estimate: &Estimate, key: Option<usize>| key.map_or(1.0, |key| estimate.columns[key].domain);
        let domains = |(l, r): &(Option<usize>, Option<usize>)| domain(left, *l).max(domain(right, *r)).max(1.0);
        let product: f64 = keys.iter().map(domains).product();
        // Columns of a composite key are rarely independent: no more combinations than rows on the larger side.
        1.0 / product.min(left.rows.max(right.rows)).max(1.0)
    })
}
