//! The share of a table's rows that satisfy conditions, tried on the table's sample.
//!
//! A sample answers what minimum, maximum and distinct counts cannot: patterns, comparisons between columns, alternatives, and
//! conditions that depend on each other.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray};
use arrow::compute::and_kleene;
use arrow::record_batch::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;

use crate::columns::ColumnTable;

/// The share of rows that a condition is assumed to keep when it cannot be tried.
const UNKNOWN: f64 = 0.2;

/// The share of rows expected to satisfy all conditions, whose columns are numbered as in the table. Conditions that other
/// operators supply at run time count for nothing.
pub fn sample_selectivity(table: &ColumnTable, conditions: &[Arc<dyn PhysicalExpr>]) -> f64 {
    let sample = &table.statistics().sample;
    let rows = sample.num_rows();
    let mut unknown = 1.0;
    let mut passing: Option<BooleanArray> = None;
    for condition in conditions.iter().filter(|condition| snapshot_generation(condition) == 0) {
        match evaluate(condition, sample) {
            Ok(result) => {
                let combined = passing.as_ref().map(|passing| and_kleene(passing, &result));
                passing = Some(combined.transpose().ok().flatten().unwrap_or(result));
            }
            // The value of a subquery, for instance, is not there before the query runs.
            Err(_) => unknown *= UNKNOWN,
        }
    }
    let Some(passing) = passing.filter(|_| rows > 0) else {
        return unknown;
    };
    let hits = passing.true_count() as f64;
    if rows == table.rows() && rows == table.statistics().sampled_rows {
        return unknown * hits / rows as f64;
    }
    // No hit among n rows says that the share is below about 1 / n, not that it is nothing.
    unknown * hits.max(0.5) / rows as f64
}

fn evaluate(condition: &Arc<dyn PhysicalExpr>, sample: &RecordBatch) -> Result<BooleanArray> {
    let passing = condition.evaluate(sample)?.into_array(sample.num_rows())?;
    Ok(passing.as_boolean().clone())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::{DFSchema, ScalarValue};
    use datafusion::logical_expr::{Expr, col, lit};
    use datafusion::physical_expr::create_physical_expr;
    use datafusion::physical_expr::execution_props::ExecutionProps;

    use super::*;

    fn check(rows: i32, condition: Expr, expect: std::ops::Range<f64>) {
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int32, false),
            Field::new("word", DataType::Utf8View, false),
        ]));
        let words =
            StringArray::from_iter_values((0..rows).map(|id| ["red", "green", "blue", "grey"][id as usize % 4]));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from_iter_values(0..rows)), Arc::new(words)];
        let declared =
            Schema::new(vec![Field::new("id", DataType::Int32, false), Field::new("word", DataType::Utf8, false)]);
        let batch = RecordBatch::try_new(Arc::new(declared), columns).unwrap();
        let table = ColumnTable::build("t", Arc::clone(&schema), vec![], vec![batch]).unwrap();
        let df_schema = DFSchema::try_from(schema.as_ref().clone()).unwrap();
        let physical =
            create_physical_expr(&condition, &df_schema, &ExecutionProps::new(), &Default::default()).unwrap();
        let share = sample_selectivity(&table, &[physical]);
        assert!(expect.contains(&share), "{condition} of {rows}: {share}");
    }

    fn word(text: &str) -> Expr {
        lit(ScalarValue::Utf8View(Some(text.to_string())))
    }

    #[test]
    fn the_sample_tells_the_share_of_rows() {
        check(100, col("id").lt(lit(25)), 0.25..0.2501);
        check(100_000, col("id").lt(lit(25_000)), 0.24..0.26);
        check(100_000, col("word").like(word("gre%")), 0.45..0.55);
        check(100_000, col("word").eq(word("pink")), 1e-6..1e-3);
        check(100, col("word").eq(word("pink")), 0.0..1e-9);
    }
}
