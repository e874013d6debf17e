//! The share of combinations of rows that satisfy a condition on several inputs of a join tree, tried on samples.
//!
//! Small tables are their own samples, so that the share is exact where the product of the inputs is small: of two nations with
//! two candidates each, `(a = 'FRANCE' and b = 'GERMANY') or (a = 'GERMANY' and b = 'FRANCE')` keeps two pairs of four. A larger
//! input is represented by some rows of its table's sample.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::compute::{filter_record_batch, take, take_record_batch};
use arrow::record_batch::RecordBatch;
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::execution_props::ExecutionProps;

use crate::query::provider::ColumnTableProvider;

/// Combinations on which a condition is tried: evaluating it on this many takes far less than a millisecond.
const COMBINATIONS_MAX: usize = 16 * 1024;

/// The share of combinations of the inputs' rows that satisfy the condition; `None` if it cannot be tried.
pub fn passing_share(inputs: &[&LogicalPlan], condition: &Expr) -> Option<f64> {
    let samples: Vec<RecordBatch> = inputs.iter().map(|input| sample_of(input)).collect::<Option<_>>()?;
    let per_input = (COMBINATIONS_MAX as f64).powf(1.0 / inputs.len() as f64) as usize;
    let all_fit = samples.iter().map(RecordBatch::num_rows).product::<usize>() <= COMBINATIONS_MAX;
    let samples: Vec<RecordBatch> = match all_fit {
        true => samples,
        false => samples.iter().map(|sample| thinned(sample, per_input)).collect::<Result<_>>().ok()?,
    };
    let rows: usize = samples.iter().map(RecordBatch::num_rows).product();
    if rows == 0 {
        return None;
    }
    let passing = try_combinations(inputs, &samples, rows, condition).ok()?;
    // No hit among n combinations says that the share is below about 1 / n, not that it is nothing.
    Some((passing as f64).max(0.5) / rows as f64)
}

/// Rows of a plan that only filters and renames a table, with the plan's columns.
fn sample_of(plan: &LogicalPlan) -> Option<RecordBatch> {
    match plan {
        LogicalPlan::TableScan(scan) => sample_of_table(scan),
        LogicalPlan::SubqueryAlias(alias) => sample_of(&alias.input),
        LogicalPlan::Filter(filter) => {
            let sample = sample_of(&filter.input)?;
            passing_rows(&sample, filter.input.schema(), &filter.predicate).ok()
        }
        _ => None,
    }
}

fn sample_of_table(scan: &TableScan) -> Option<RecordBatch> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<ColumnTableProvider>()?.table();
    let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), table.schema()).ok()?;
    let filter = |sample: RecordBatch, condition| passing_rows(&sample, &schema, condition).ok();
    let sample = scan.filters.iter().try_fold(table.statistics().sample.clone(), filter)?;
    match &scan.projection {
        Some(projection) => sample.project(projection).ok(),
        None => Some(sample),
    }
}

fn passing_rows(sample: &RecordBatch, schema: &DFSchema, condition: &Expr) -> Result<RecordBatch> {
    let condition = create_physical_expr(condition, schema, &ExecutionProps::new(), &Default::default())?;
    let passing = condition.evaluate(sample)?.into_array(sample.num_rows())?;
    Ok(filter_record_batch(sample, passing.as_boolean())?)
}

/// At most this many rows, from all over the sample.
fn thinned(sample: &RecordBatch, rows_max: usize) -> Result<RecordBatch> {
    let step = sample.num_rows().div_ceil(rows_max).max(1);
    let rows = UInt64Array::from_iter_values((0..sample.num_rows() as u64).step_by(step));
    Ok(take_record_batch(sample, &rows)?)
}

/// How many of all combinations of the samples' rows satisfy the condition.
fn try_combinations(inputs: &[&LogicalPlan], samples: &[RecordBatch], rows: usize, condition: &Expr) -> Result<usize> {
    let mut schema = DFSchema::empty();
    let mut columns: Vec<ArrayRef> = Vec::new();
    // Counted like the digits of a number, the last input's fastest.
    let mut repeats = rows;
    for (input, sample) in inputs.iter().zip(samples) {
        repeats /= sample.num_rows();
        let place = |row: usize| (row / repeats % sample.num_rows()) as u64;
        let places = UInt64Array::from_iter_values((0..rows).map(place));
        for column in sample.columns() {
            columns.push(take(column, &places, None)?);
        }
        schema = schema.join(input.schema())?;
    }
    let combinations = RecordBatch::try_new(Arc::clone(schema.inner()), columns)?;
    Ok(passing_rows(&combinations, &schema, condition)?.num_rows())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};
    use datafusion::datasource::provider_as_source;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    use super::*;
    use crate::columns::{ColumnSnapshot, ColumnTable};

    /// A table of numbers from 0 and the words for them.
    fn table(name: &str, rows: i64, condition: Option<Expr>) -> LogicalPlan {
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|id| format!("word {id}"))));
        let batch = RecordBatch::try_from_iter([("id", ids), ("word", words)]).unwrap();
        let table = ColumnTable::build(name, batch.schema(), vec![vec![0]], vec![batch]).unwrap();
        let snapshot = ColumnSnapshot::new("as loaded", [Arc::new(table)]);
        let provider = ColumnTableProvider::new(snapshot.version(name).unwrap().clone());
        let scan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(provider)), None).unwrap();
        match condition {
            Some(condition) => scan.filter(condition).unwrap().build().unwrap(),
            None => scan.build().unwrap(),
        }
    }

    fn check(inputs: &[&LogicalPlan], condition: &Expr, expect: std::ops::Range<f64>) {
        let share = passing_share(inputs, condition).unwrap();
        assert!(expect.contains(&share), "{condition}: {share}");
    }

    #[test]
    fn small_products_are_tried_exactly_and_large_ones_on_samples() {
        let two =
            |table: &str| Some(col(format!("{table}.id")).eq(lit(3i64)).or(col(format!("{table}.id")).eq(lit(7i64))));
        let (a, b) = (table("a", 25, two("a")), table("b", 25, two("b")));
        let pair = |x: i64, y: i64| col("a.id").eq(lit(x)).and(col("b.id").eq(lit(y)));
        check(&[&a, &b], &pair(3, 7).or(pair(7, 3)), 0.5..0.501);
        check(&[&a, &b], &pair(3, 3), 0.25..0.251);
        check(&[&a, &b], &pair(1, 1), 0.1..0.13);
        let large = table("c", 100_000, None);
        check(&[&a, &large], &col("a.id").lt(col("c.id")), 0.99..1.01);
        check(&[&large, &b], &(col("b.id") * lit(10_000i64)).lt(col("c.id")), 0.45..0.55);
        let third = table("d", 5_000, None);
        check(&[&a, &large, &third], &(col("c.id") + col("a.id")).lt(col("d.id")), 0.01..0.07);
    }

    #[test]
    fn inputs_that_are_more_than_a_table_are_not_tried() {
        let joined = LogicalPlanBuilder::from(table("a", 5, None)).cross_join(table("b", 5, None)).unwrap();
        let c = table("c", 5, None);
        assert_eq!(passing_share(&[&joined.build().unwrap(), &c], &col("a.id").lt(col("c.id"))), None);
        let none = table("d", 0, None);
        assert_eq!(passing_share(&[&none, &c], &col("d.id").lt(col("c.id"))), None);
    }
}
