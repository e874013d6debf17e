//! What has changed since the columns were made, as a query sees it: for each chunk, which positions to hide, the rows to show in
//! their stead, and new values of rows that stay in their places.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::downcast_primitive_array;
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
    /// The newest state of each row that was added, or changed and not patched, and is there, in any order; at least the columns that were
    /// asked for.
    pub images: Images,
    /// New values of rows that the chunk has and shows, for columns of numbers; one at most for each column that was asked for.
    pub patches: Vec<Patch>,
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

/// New values of one column of a chunk's rows, of a primitive type.
#[derive(Debug, Clone)]
pub struct Patch {
    /// The column of the table.
    pub column: usize,
    /// The rows' positions in the chunk, in ascending order.
    pub positions: Vec<u32>,
    /// A value for each, in the type that the table keeps.
    pub values: ArrayRef,
}

impl From<RecordBatch> for Images {
    /// All columns.
    fn from(batch: RecordBatch) -> Self {
        Images { rows: batch.num_rows(), columns: batch.columns().iter().cloned().map(Some).collect() }
    }
}

impl Patch {
    /// Which of its values belong to these positions of the chunk.
    pub fn within(&self, positions: Range<usize>) -> Range<usize> {
        let place = |position: usize| self.positions.partition_point(|&patched| (patched as usize) < position);
        place(positions.start)..place(positions.end)
    }

    /// The chunk's own values from position `offset` on, a copy with the new ones in their places.
    pub fn over(&self, own: &ArrayRef, offset: usize) -> ArrayRef {
        let new = self.within(offset..offset + own.len());
        if new.is_empty() {
            return Arc::clone(own);
        }
        let places = self.positions[new.clone()].iter().map(|&position| position as usize - offset);
        let values = &self.values.slice(new.start, new.len());
        downcast_primitive_array!(
            (own, values) => Arc::new(patched(own, places, values)),
            (kind, other) => unreachable!("a column of type {kind} is not patched with {other}")
        )
    }
}

fn patched<T: ArrowPrimitiveType>(
    own: &PrimitiveArray<T>,
    places: impl Iterator<Item = usize> + Clone,
    new: &PrimitiveArray<T>,
) -> PrimitiveArray<T> {
    let mut values = own.values().to_vec();
    places.clone().zip(new.values().iter()).for_each(|(place, value)| values[place] = *value);
    let has_nulls = own.null_count() + new.null_count() > 0;
    let nulls = has_nulls.then(|| {
        let mut valid: Vec<bool> = (0..own.len()).map(|row| own.is_valid(row)).collect();
        places.enumerate().for_each(|(at, place)| valid[place] = new.is_valid(at));
        NullBuffer::from(valid)
    });
    PrimitiveArray::new(values.into(), nulls).with_data_type(own.data_type().clone())
}

impl ChunkOverlay {
    /// Which of the chunk's own rows are shown; `None` for all of them.
    pub fn visible(&self, chunk: &Chunk) -> Option<BooleanBuffer> {
        if self.masked.is_empty() {
            return chunk.live().cloned();
        }
        let rows = chunk.rows();
        let shown = match self.masked.len() {
            length if length >= rows => !&self.masked.slice(0, rows),
            length => BooleanBuffer::collect_bool(rows, |row| row >= length || !self.masked.value(row)),
        };
        Some(match chunk.live() {
            Some(live) => live & &shown,
            None => shown,
        })
    }

    /// The bytes that it takes in memory.
    pub fn memory_bytes(&self) -> usize {
        let images = self.images.columns.iter().flatten().map(|column| column.get_array_memory_size());
        let patch = |patch: &Patch| patch.positions.len() * size_of::<u32>() + patch.values.get_array_memory_size();
        self.masked.inner().len() + images.sum::<usize>() + self.patches.iter().map(patch).sum::<usize>()
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
    use arrow::array::{Decimal128Array, Int64Array};
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
            let overlay = ChunkOverlay { masked: masked.to_vec().into(), images, patches: vec![], entries: 1 };
            let visible = overlay.visible(&chunk(live));
            visible.map(|visible| visible.iter().collect::<Vec<_>>())
        };
        assert_eq!(visible(&[true, false, false, false], None).unwrap(), [false, true, true, true]);
        let live = Some([true, true, false, true]);
        assert_eq!(visible(&[true], live).unwrap(), [false, true, false, true], "a short mask hides no more");
        assert_eq!(visible(&[false, true, false, true, true, true], live).unwrap(), [true, false, false, false]);
        assert_eq!(visible(&[], live).unwrap(), [true, true, false, true]);
        assert_eq!(visible(&[], None), None, "all rows are shown");
    }

    #[test]
    fn new_values_are_put_over_those_of_a_part_of_the_chunk() {
        let column = |values: &[Option<i128>]| -> ArrayRef {
            let values = values.iter().copied().collect::<Decimal128Array>();
            Arc::new(values.with_precision_and_scale(12, 2).unwrap())
        };
        let patch = Patch { column: 0, positions: vec![1, 4, 6], values: column(&[Some(-1), None, Some(-6)]) };
        let own = column(&[Some(0), Some(1), None, Some(3), Some(4), Some(5), Some(6)]);
        let check = |offset: usize, expect: &[Option<i128>]| {
            assert_eq!(&patch.over(&own.slice(offset, expect.len()), offset), &column(expect), "from {offset}");
        };
        check(0, &[Some(0), Some(-1), None, Some(3), None, Some(5), Some(-6)]);
        check(1, &[Some(-1), None, Some(3)]);
        check(4, &[None, Some(5)]);
        check(2, &[None, Some(3)]);
        let unpatched = own.slice(2, 2);
        assert!(Arc::ptr_eq(&patch.over(&unpatched, 2), &unpatched), "what is not changed is not copied");
        let full = Patch { values: column(&[Some(-1), Some(-4), Some(-6)]), ..patch };
        assert!(full.over(&own.slice(3, 3), 3).nulls().is_none(), "no null bits where there are no nulls");
    }
}
