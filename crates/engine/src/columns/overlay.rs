//! What has changed since the columns were made, as a query sees it: for each chunk, which positions to hide, and the rows to
//! show in their stead.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::columns::chunk::Chunk;

/// The changes that a snapshot shows on top of one table's chunks. They are as of one moment: equal calls have equal answers for
/// as long as it lives.
pub trait Overlay: Debug + Send + Sync {
    /// All changes are in chunks with a smaller number. Chunks beyond the table's last have no rows but images.
    fn chunk_count(&self) -> usize;

    /// How many positions are changed, at most. For estimates.
    fn entries(&self) -> usize;

    /// The changes of a chunk for a query that reads these columns, in ascending order; `None` if it has none. A row of which other columns
    /// were changed may be shown as the chunk has it. May be computed by the call, on the thread of the scan that asks; the
    /// time counts as the query's merge time.
    fn chunk(&self, chunk: usize, columns: &[usize]) -> Result<Option<Arc<ChunkOverlay>>, ArrowError>;
}

/// The changes of one chunk.
#[derive(Debug)]
pub struct ChunkOverlay {
    /// Set where the chunk's own row is hidden, because it was deleted or has an image. Positions beyond its end are not hidden.
    pub masked: BooleanBuffer,
    /// The newest state of each row that was changed or added and is there, in any order; at least the columns that were asked for.
    pub images: Images,
    /// How many changes went into it, for the rate at which changes are merged.
    pub entries: usize,
}

/// Rows that are laid over a chunk.
#[derive(Debug, Clone)]
pub struct Images {
    /// How many.
    pub rows: usize,
    /// An array for each column of the table, in the type that the table keeps; `None` for columns that were not asked for.
    pub columns: Vec<Option<ArrayRef>>,
}

impl From<RecordBatch> for Images {
    /// All columns.
    fn from(batch: RecordBatch) -> Self {
        Images { rows: batch.num_rows(), columns: batch.columns().iter().cloned().map(Some).collect() }
    }
}

impl ChunkOverlay {
    /// Which of the chunk's own rows are shown.
    pub fn visible(&self, chunk: &Chunk) -> BooleanBuffer {
        let rows = chunk.rows();
        let shown = match self.masked.len() {
            length if length >= rows => !&self.masked.slice(0, rows),
            length => BooleanBuffer::collect_bool(rows, |row| row >= length || !self.masked.value(row)),
        };
        match chunk.live() {
            Some(live) => live & &shown,
            None => shown,
        }
    }

    /// The bytes that it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        let images = self.images.columns.iter().flatten().map(|column| column.get_array_memory_size());
        self.masked.inner().len() + images.sum::<usize>()
    }
}

/// Changes that are all at hand.
impl Overlay for BTreeMap<usize, Arc<ChunkOverlay>> {
    fn chunk_count(&self) -> usize {
        self.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    fn entries(&self) -> usize {
        self.values().map(|chunk| chunk.entries).sum()
    }

    fn chunk(&self, chunk: usize, _columns: &[usize]) -> Result<Option<Arc<ChunkOverlay>>, ArrowError> {
        Ok(self.get(&chunk).cloned())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn a_row_is_shown_if_it_is_live_and_not_hidden() {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let arrays: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![1, 2, 3, 4]))];
        let chunk = |live: Option<[bool; 4]>| {
            Chunk::encode(&schema, &arrays, live.map(|live| live.to_vec().into()), None).unwrap()
        };
        let visible = |masked: &[bool], live| {
            let images = RecordBatch::new_empty(Arc::clone(&schema)).into();
            let overlay = ChunkOverlay { masked: masked.to_vec().into(), images, entries: 1 };
            overlay.visible(&chunk(live)).iter().collect::<Vec<_>>()
        };
        assert_eq!(visible(&[true, false, false, false], None), [false, true, true, true]);
        let live = Some([true, true, false, true]);
        assert_eq!(visible(&[true], live), [false, true, false, true], "a short mask hides no more");
        assert_eq!(visible(&[false, true, false, true, true, true], live), [true, false, false, false]);
    }
}
