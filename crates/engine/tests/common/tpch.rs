//! TPC-H for tests of the query engine: tables, and answers as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;
use plimsoll_engine::columns::{ColumnSnapshot, ColumnTable};
use plimsoll_engine::query::QueryEngine;
use plimsoll_workload::tpch::tables::SCHEMA;

#[path = "../../benches/tpch/data.rs"]
#[allow(dead_code, reason = "the bench exports the data, too")]
mod data;

/// Lineitem then has ten chunks, orders three, and the other tables one or two.
pub const SCALE: f64 = 0.1;

/// The tables.
pub fn tables() -> impl Iterator<Item = ColumnTable> {
    SCHEMA.tables.iter().map(|table| {
        let rows = data::make(table.name, SCALE);
        ColumnTable::build(table.name, table.arrow(), vec![table.primary_key.to_vec()], rows).unwrap()
    })
}

fn cell(column: &ArrayRef, row: usize) -> String {
    match column.data_type() {
        // Sums of binary fractions depend on the order of their addition.
        DataType::Float64 if column.is_valid(row) => format!("{:.6e}", column.as_primitive::<Float64Type>().value(row)),
        _ => array_value_to_string(column, row).unwrap(),
    }
}

/// Each row as a line.
pub fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let line = |batch: &RecordBatch, row: usize| {
        batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" | ")
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| line(batch, row))).collect()
}

/// The rows of a query; sorted where it leaves their order open.
pub fn answer(engine: &QueryEngine, snapshot: &Arc<ColumnSnapshot>, sql: &str, is_ordered: bool) -> Vec<String> {
    let output = engine.query(snapshot, sql, None).unwrap_or_else(|error| panic!("{error} in\n{sql}"));
    let mut rows = rows(&output.batches);
    if !is_ordered {
        rows.sort();
    }
    rows
}
