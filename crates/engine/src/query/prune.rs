//! Which chunks a condition cannot match, from their minima and maxima.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::columns::ColumnTable;
use crate::columns::statistics::Zones;

/// For each chunk, whether it can hold rows that satisfy all conditions, whose columns are numbered as in the table.
pub fn possible_chunks(table: &ColumnTable, conditions: &[Arc<dyn PhysicalExpr>]) -> Vec<bool> {
    let all = vec![true; table.chunks().len()];
    if conditions.is_empty() || table.chunks().is_empty() {
        return all;
    }
    let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(table.schema()));
    // A condition that minima and maxima say nothing about is no error: every chunk stays possible.
    let pruned =
        builder.build(conjunction(conditions.to_vec())).and_then(|predicate| predicate.prune(&Chunks(table)).ok());
    pruned.unwrap_or(all)
}

struct Chunks<'a>(&'a ColumnTable);

impl Chunks<'_> {
    fn zones(&self, column: &Column) -> Option<&Zones> {
        let position = self.0.schema().index_of(&column.name).ok()?;
        Some(&self.0.statistics().columns[position].zones)
    }
}

impl PruningStatistics for Chunks<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.zones(column).map(|zones| Arc::clone(&zones.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.zones(column).map(|zones| Arc::clone(&zones.max))
    }

    fn num_containers(&self) -> usize {
        self.0.chunks().len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.zones(column).map(|zones| Arc::clone(&zones.null_count))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter_values(self.0.chunks().iter().map(|chunk| chunk.live_rows() as u64))))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
