//! Answers as text, for tests.

use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;

/// Every row of these batches, each cell as text.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let row = |batch: &RecordBatch, row: usize| {
        let cells = batch.columns().iter().map(|column| array_value_to_string(column, row));
        cells.map(|cell| cell.expect("every type of an answer can be printed")).collect()
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |number| row(batch, number))).collect()
}

/// The same, where the order of rows is left open.
pub(crate) fn sorted_rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut rows = rows(batches);
    rows.sort_unstable();
    rows
}
