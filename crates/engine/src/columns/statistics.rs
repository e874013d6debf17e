//! Statistics of a table's columns, which the optimizer uses to prune chunks and to order joins.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, new_empty_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::compute::kernels::cmp::gt;
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use datafusion::common::hash_utils::{HLL_RANDOM_STATE, create_hashes};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use crate::columns::distinct::DistinctSketch;
use crate::columns::encode::EncodedColumn;

/// Facts about a whole table. Holes are not counted.
#[derive(Debug, Clone)]
pub struct TableStatistics {
    /// The number of rows.
    pub rows: usize,
    /// The number of rows when the sample was taken.
    pub sampled_rows: usize,
    /// One entry per column.
    pub columns: Vec<ColumnSummary>,
    /// Rows from all over the table. The optimizer evaluates conditions on them, which finds correlations and patterns
    /// that minimum and maximum cannot show.
    pub sample: RecordBatch,
}

/// Facts about one column of a table.
#[derive(Debug, Clone)]
pub struct ColumnSummary {
    /// The smallest value; null if the column has none.
    pub min: ScalarValue,
    /// The largest value; null if the column has none.
    pub max: ScalarValue,
    /// The number of nulls.
    pub null_count: usize,
    /// The number of distinct values, not counting null.
    pub distinct: DistinctCount,
    /// The bytes that all values take in the type in which queries see them.
    pub byte_size: usize,
    /// Whether the rows are in ascending order of this column, without nulls.
    pub ascending: bool,
    /// The same facts for each chunk. They decide which chunks a scan may skip.
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

/// Facts about one column of one chunk. Holes are not counted.
#[derive(Debug, Clone)]
pub struct ChunkSummary {
    /// The smallest value; null if the chunk has none.
    pub min: ScalarValue,
    /// The largest value; null if the chunk has none.
    pub max: ScalarValue,
    /// The number of nulls.
    pub null_count: usize,
    /// The bytes that the values take in the type in which queries see them.
    pub byte_size: usize,
    /// Whether the rows are in ascending order of this column, without nulls.
    pub ascending: bool,
}

impl ChunkSummary {
    /// Looks at every value; `live` marks the rows that exist.
    pub fn of(values: &ArrayRef, live: Option<&BooleanBuffer>) -> Result<Self, DataFusionError> {
        let values = shown(values, live)?;
        Ok(ChunkSummary {
            min: min_of(&values)?,
            max: max_of(&values)?,
            null_count: values.logical_null_count(),
            byte_size: output_size(&values),
            ascending: values.null_count() == 0 && is_ascending(&values)?,
        })
    }

    /// The summary of no rows.
    pub fn of_nothing(kept: &DataType) -> Result<Self, DataFusionError> {
        ChunkSummary::of(&new_empty_array(kept), None)
    }
}

impl ColumnSummary {
    /// Combines the facts about all chunks.
    pub fn of(chunks: &[&ChunkSummary], kept: &DataType, distinct: DistinctCount) -> Result<Self, DataFusionError> {
        let follows = |pair: &[&ChunkSummary]| pair[0].max.partial_cmp(&pair[1].min).is_some_and(|order| order.is_le());
        let nulls = chunks.iter().map(|chunk| chunk.null_count as u64);
        let zones = Zones {
            min: zone(chunks.iter().map(|chunk| chunk.min.clone()), kept)?,
            max: zone(chunks.iter().map(|chunk| chunk.max.clone()), kept)?,
            null_count: Arc::new(UInt64Array::from_iter_values(nulls)),
        };
        Ok(ColumnSummary {
            min: min_of(&zones.min)?,
            max: max_of(&zones.max)?,
            null_count: chunks.iter().map(|chunk| chunk.null_count).sum(),
            distinct,
            byte_size: chunks.iter().map(|chunk| chunk.byte_size).sum(),
            ascending: !chunks.is_empty()
                && chunks.iter().all(|chunk| chunk.ascending)
                && chunks.windows(2).all(follows),
            zones,
        })
    }
}

/// Looks at every value of a column, whose chunks have the holes that `live` says. Returns the facts about each chunk,
/// and the number of distinct values in all.
pub fn summarize(
    column: &EncodedColumn,
    live: &[Option<BooleanBuffer>],
    unique: bool,
) -> Result<(Vec<ChunkSummary>, DistinctCount), DataFusionError> {
    let mut sketch = DistinctSketch::default();
    let mut hashes = Vec::new();
    let mut chunks = Vec::new();
    let mut present = 0;
    for (chunk, live) in column.chunks.iter().zip(live) {
        let values = shown(&chunk.values()?, live.as_ref())?;
        chunks.push(ChunkSummary::of(&values, None)?);
        present += values.len() - values.logical_null_count();
        if column.dictionary.is_none() && !unique {
            hashes.clear();
            hashes.resize(values.len(), 0);
            create_hashes([&values], &HLL_RANDOM_STATE, &mut hashes)?;
            (0..values.len()).filter(|&row| values.is_valid(row)).for_each(|row| sketch.add_hash(hashes[row]));
        }
    }
    let distinct = match &column.dictionary {
        // The dictionary also contains the values of holes.
        Some(entries) if live.iter().any(Option::is_some) => DistinctCount::Estimate(entries.len().min(present)),
        Some(entries) => DistinctCount::Exact(entries.len()),
        None if unique => DistinctCount::Exact(present),
        None => DistinctCount::Estimate((sketch.estimate().round() as usize).min(present)),
    };
    Ok((chunks, distinct))
}

/// The values of the rows that exist.
fn shown(values: &ArrayRef, live: Option<&BooleanBuffer>) -> Result<ArrayRef, DataFusionError> {
    match live {
        Some(live) => Ok(filter(values, &BooleanArray::new(live.clone(), None))?),
        None => Ok(Arc::clone(values)),
    }
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
fn zone(values: impl ExactSizeIterator<Item = ScalarValue>, kept: &DataType) -> Result<ArrayRef, DataFusionError> {
    if values.len() == 0 { Ok(new_empty_array(kept)) } else { ScalarValue::iter_to_array(values) }
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
