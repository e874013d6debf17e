//! One column operator at a time over integers made for it: the three queries of NO fig. 2.
//!
//! In reading order: [`numbers`] makes the data, [`scan`] is query 1, [`group`] query 2, [`key_join`] query 3; each
//! declares its table or tables (NO fig. 3, under names that no SQL reserves), its query, and the check of its answer,
//! which is computed from the same numbers.
//!
//! The study's system keeps each column as codes into an ordered dictionary, so that the number of distinct values
//! determines the size of the dictionary, which the query reads at random. A target that stores plain integers has no
//! such dictionary: there, the number of groups or keys matters.

pub(crate) mod group;
pub(crate) mod key_join;
mod numbers;
pub(crate) mod scan;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use arrow::record_batch::RecordBatch;

use crate::registry::Possible;
use crate::schema::Table;

const SCALE_UNIT: &str = "millions of rows";

/// From the smallest that is more than one part to twice the 10^9 rows of the study.
const SCALE_POSSIBLE: Possible = Possible::Number { low: 0.01, high: 2_000.0 };

/// As many different values or keys as 32 bits hold.
const VALUES_POSSIBLE: Possible = Possible::Whole { low: 1.0, high: i32::MAX as f64 };

fn row_count(scale: f64) -> u64 {
    (scale * 1e6).round() as u64
}

fn batch(table: &Table, columns: Vec<Vec<i32>>) -> RecordBatch {
    let arrays = columns.into_iter().map(|column| Arc::new(Int32Array::from(column)) as ArrayRef);
    RecordBatch::try_new(table.arrow(), arrays.collect()).expect("the columns are those of the table")
}
