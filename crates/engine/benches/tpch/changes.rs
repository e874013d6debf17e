//! A table with a share of its rows in changes instead of its chunks, as if each had been changed to its present
//! values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use plimsoll_engine::columns::{ChunkOverlay, ColumnTable, SnapshotTable};

/// The table with this share of its rows laid over it, at equal distances.
pub fn with_changes(table: Arc<ColumnTable>, share: f64) -> Result<SnapshotTable, ArrowError> {
    if share == 0.0 {
        return Ok(SnapshotTable::from(table));
    }
    let place = |row: usize| (row as f64 * share) as usize;
    let change = |(number, batch): (usize, _)| {
        let rows = table.chunks()[number].rows();
        let masked = BooleanBuffer::collect_bool(rows, |row| place(row + 1) > place(row));
        let images = filter_record_batch(&batch, &BooleanArray::new(masked.clone(), None))?;
        let entries = images.num_rows();
        Ok((number, Arc::new(ChunkOverlay { masked, images: images.into(), patches: vec![], entries })))
    };
    let chunks =
        table.to_batches()?.into_iter().enumerate().map(change).collect::<Result<BTreeMap<_, _>, ArrowError>>()?;
    Ok(SnapshotTable::new(table, Some(Arc::new(chunks))))
}
