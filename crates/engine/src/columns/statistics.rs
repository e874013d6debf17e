//! What is known about a table's columns: the facts that prune chunks and that the optimizer orders joins by.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array, new_empty_array};
use arrow::compute::kernels::cmp::gt;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use datafusion::common::hash_utils::{HLL_RANDOM_STATE, create_hashes};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use crate::columns::distinct::DistinctSketch;
use crate::columns::encode::EncodedColumn;

/// Facts about a whole table.
#[derive(Debug, Clone)]
pub struct TableStatistics {
    /// How many rows there are.
    pub rows: usize,
    /// One entry per column.
    pub columns: Vec<ColumnSummary>,
    /// Rows from all over the table. The optimizer evaluates conditions on them, which sees
    /// correlations and patterns that no minimum and maximum can.
    pub sample: RecordBatch,
}

/// Facts about one column of a table.
#[derive(Debug, Clone)]
pub struct ColumnSummary {
    /// The smallest value, null if there is none.
    pub min: ScalarValue,
    /// The largest value, null if there is none.
    pub max: ScalarValue,
    /// How many values are null.
    pub null_count: usize,
    /// How many different values there are, not counting null.
    pub distinct: DistinctCount,
    /// The bytes that all values take in the type in which queries see them.
    pub byte_size: usize,
    /// Whether the rows are in ascending order of this column, nulls nowhere.
    pub ascending: bool,
    /// The same facts for each chunk: what a scan may skip is decided on these.
    pub zones: Zones,
}

/// A number of distinct values, and whether it is counted or estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistinctCount {
    /// Counted.
    Exact(usize),
    /// Estimated.
    Estimate(usize),
}

impl DistinctCount {
    /// The number.
    pub fn value(self) -> usize {
        match self {
            DistinctCount::Exact(count) | DistinctCount::Estimate(count) => count,
        }
    }
}

/// Minimum, maximum and null count of each chunk of a column, as arrays with one entry per chunk.
#[derive(Debug, Clone)]
pub struct Zones {
    /// The smallest values.
    pub min: ArrayRef,
    /// The largest values.
    pub max: ArrayRef,
    /// The null counts, `UInt64`.
    pub null_count: ArrayRef,
}

/// Looks at every value of a column.
pub fn summarize(column: &EncodedColumn, kept: &DataType, unique: bool) -> Result<ColumnSummary, DataFusionError> {
    let mut sketch = DistinctSketch::default();
    let mut hashes = Vec::new();
    let (mut mins, mut maxes, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    let mut ascending = !column.chunks.is_empty();
    let (mut byte_size, mut rows) = (0, 0);
    for chunk in &column.chunks {
        let values = chunk.values(column.dictionary.as_ref())?;
        let min = min_of(&values)?;
        ascending = ascending
            && values.null_count() == 0
            && maxes.last().is_none_or(|last: &ScalarValue| last.partial_cmp(&min).is_some_and(|order| order.is_le()))
            && is_ascending(&values)?;
        mins.push(min);
        maxes.push(max_of(&values)?);
        nulls.push(values.logical_null_count() as u64);
        byte_size += output_size(&values);
        rows += values.len();
        if column.dictionary.is_none() && !unique {
            hashes.clear();
            hashes.resize(values.len(), 0);
            create_hashes([&values], &HLL_RANDOM_STATE, &mut hashes)?;
            (0..values.len()).filter(|&row| values.is_valid(row)).for_each(|row| sketch.add_hash(hashes[row]));
        }
    }
    let null_count = nulls.iter().sum::<u64>() as usize;
    let distinct = match &column.dictionary {
        Some(entries) => DistinctCount::Exact(entries.len()),
        None if unique => DistinctCount::Exact(rows - null_count),
        None => DistinctCount::Estimate((sketch.estimate().round() as usize).min(rows - null_count)),
    };
    let zones =
        Zones { min: zone(mins, kept)?, max: zone(maxes, kept)?, null_count: Arc::new(UInt64Array::from(nulls)) };
    let (min, max) = (min_of(&zones.min)?, max_of(&zones.max)?);
    Ok(ColumnSummary { min, max, null_count, distinct, byte_size, ascending, zones })
}

fn min_of(values: &ArrayRef) -> Result<ScalarValue, DataFusionError> {
    let mut min = MinAccumulator::try_new(values.data_type())?;
    min.update_batch(&[Arc::clone(values)])?;
    min.evaluate()
}

fn max_of(values: &ArrayRef) -> Result<ScalarValue, DataFusionError> {
    let mut max = MaxAccumulator::try_new(values.data_type())?;
    max.update_batch(&[Arc::clone(values)])?;
    max.evaluate()
}

/// One value per chunk; a table without rows has no chunks, and still a type.
fn zone(values: Vec<ScalarValue>, kept: &DataType) -> Result<ArrayRef, DataFusionError> {
    if values.is_empty() { Ok(new_empty_array(kept)) } else { ScalarValue::iter_to_array(values) }
}

fn is_ascending(values: &ArrayRef) -> Result<bool, DataFusionError> {
    if values.len() < 2 {
        return Ok(true);
    }
    if values.data_type().is_nested() {
        return Ok(false);
    }
    let (before, after) = (values.slice(0, values.len() - 1), values.slice(1, values.len() - 1));
    Ok(gt(&before, &after)?.true_count() == 0)
}

/// Text is counted by its length, not by the buffers it shares with other rows.
fn output_size(values: &ArrayRef) -> usize {
    match values.as_string_view_opt() {
        Some(text) => text.views().len() * 16 + text.total_buffer_bytes_used(),
        None => values.get_array_memory_size(),
    }
}
