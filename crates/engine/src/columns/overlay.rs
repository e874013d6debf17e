//! The changes since the columns were made, as a query sees them. For each chunk: the positions to hide, the rows to
//! show in their place, and new values of rows that stay in their places.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanBufferBuilder, MutableArrayData, PrimitiveArray, make_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::downcast_primitive_array;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::columns::chunk::Chunk;

/// The changes that a snapshot shows on top of one table's chunks. They belong to one moment: equal calls return equal
/// answers as long as the overlay lives.
pub trait Overlay: Debug + Send + Sync {
    /// All changes are in chunks with a smaller number. Chunks beyond the table's last one have images only.
    fn chunk_count(&self) -> usize;

    /// The most positions that may be changed. For estimates.
    fn entries(&self) -> usize;

    /// The changes of a chunk for a query that reads these columns, which are in ascending order; `None` if it sees
    /// none. If only other columns of a row have changed, the row may be shown as the chunk has it. The call may
    /// compute the changes, on the thread of the scan; that time counts as the query's merge time.
    fn chunk(&self, chunk: usize, columns: &[usize]) -> Result<Option<Arc<ChunkOverlay>>, ArrowError>;
}

/// The changes of one chunk.
#[derive(Debug)]
pub struct ChunkOverlay {
    /// Set where the chunk's own row is hidden, because it was deleted or has an image. Positions beyond its end are not hidden.
    pub masked: BooleanBuffer,
    /// The newest state of each row that was added, or was changed and is not patched, in any order. Deleted rows are
    /// left out. Has at least the columns that were requested.
    pub images: Images,
    /// New values of rows that the chunk has and shows, for columns of numbers; at most one patch for each requested
    /// column.
    pub patches: Vec<Patch>,
    /// The number of changed rows in it, for the rate at which changes are merged.
    pub entries: usize,
}

/// Rows that are laid over a chunk.
#[derive(Debug, Clone)]
pub struct Images {
    /// Their number.
    pub rows: usize,
    /// An array for each column of the table, in the type that the table keeps; `None` for columns that were not
    /// requested.
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

impl Images {
    /// All columns, which must have been requested.
    pub fn to_batch(&self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter().map(|column| column.clone().expect("all columns were requested"));
        RecordBatch::try_new(Arc::clone(schema), columns.collect())
    }
}

impl Patch {
    /// The range of its values that belong to these positions of the chunk.
    pub fn within(&self, positions: Range<usize>) -> Range<usize> {
        let place = |position: usize| self.positions.partition_point(|&patched| (patched as usize) < position);
        place(positions.start)..place(positions.end)
    }

    /// The chunk's own values from position `offset` on, with the new values in their places. Reuses the memory of
    /// `own` if the array is not shared.
    pub fn over(&self, own: ArrayRef, offset: usize) -> ArrayRef {
        let new = self.within(offset..offset + own.len());
        let places: Vec<_> = new.map(|at| (self.positions[at] as usize - offset, at)).collect();
        self.put(own, &places)
    }

    /// The same for the selected rows: `own` has a value for each row whose bit is set.
    pub fn over_selected(&self, own: ArrayRef, offset: usize, selected: &BooleanBuffer) -> ArrayRef {
        let words: Vec<u64> = selected.bit_chunks().iter_padded().collect();
        let (mut places, mut word, mut before) = (Vec::new(), 0, 0);
        for at in self.within(offset..offset + selected.len()) {
            let row = self.positions[at] as usize - offset;
            while word < row / 64 {
                before += words[word].count_ones() as usize;
                word += 1;
            }
            let bit = 1 << (row % 64);
            if words[word] & bit != 0 {
                places.push((before + (words[word] & (bit - 1)).count_ones() as usize, at));
            }
        }
        self.put(own, &places)
    }

    /// Puts the new values at these places. A place is an index into `own` and an index into the new values.
    fn put(&self, own: ArrayRef, places: &[(usize, usize)]) -> ArrayRef {
        if places.is_empty() {
            return own;
        }
        let values = &self.values;
        downcast_primitive_array!(
            values => Arc::new(patched(own, places, values)),
            kind => unreachable!("there are no patches of type {kind}")
        )
    }

    /// These new values and later ones; where a row has both, the later one counts.
    pub fn with_later(&self, later: &Patch) -> Result<Patch, ArrowError> {
        let (own_data, later_data) = (self.values.to_data(), later.values.to_data());
        let rows_max = self.positions.len() + later.positions.len();
        let mut positions = Vec::with_capacity(rows_max);
        let mut values = MutableArrayData::new(vec![&own_data, &later_data], false, rows_max);
        let mut next = 0;
        for (at, position) in later.positions.iter().enumerate() {
            let end = next + self.positions[next..].partition_point(|own| own < position);
            positions.extend_from_slice(&self.positions[next..end]);
            values.try_extend(0, next, end)?;
            positions.push(*position);
            values.try_extend(1, at, at + 1)?;
            next = end + usize::from(self.positions.get(end) == Some(position));
        }
        positions.extend_from_slice(&self.positions[next..]);
        values.try_extend(0, next, self.positions.len())?;
        Ok(Patch { column: self.column, positions, values: make_array(values.freeze()) })
    }
}

fn patched<T: ArrowPrimitiveType>(
    own: ArrayRef,
    places: &[(usize, usize)],
    new: &PrimitiveArray<T>,
) -> PrimitiveArray<T> {
    let (kind, values, nulls) = own.as_primitive::<T>().clone().into_parts();
    drop(own);
    // In the same memory if the array is not shared.
    let mut values: Vec<T::Native> = values.into();
    places.iter().for_each(|&(place, at)| values[place] = new.value(at));
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    let has_nulls = nulls.is_some() || places.iter().any(|&(_, at)| new.is_null(at));
    let nulls = has_nulls.then(|| {
        let mut valid = BooleanBufferBuilder::new(values.len());
        match nulls {
            Some(nulls) => valid.append_buffer(nulls.inner()),
            None => valid.append_n(values.len(), true),
        }
        places.iter().for_each(|&(place, at)| valid.set_bit(place, new.is_valid(at)));
        NullBuffer::new(valid.finish())
    });
    PrimitiveArray::new(values.into(), nulls).with_data_type(kind)
}

impl ChunkOverlay {
    /// The chunk's own rows that are shown; `None` for all of them.
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

    /// The chunk's own rows that are shown, with their new values. All columns must have been requested.
    pub fn own_rows(&self, chunk: &Chunk, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let mut arrays = chunk.to_arrays()?;
        for patch in &self.patches {
            let own = &mut arrays[patch.column];
            *own = patch.over(Arc::clone(own), 0);
        }
        let batch = RecordBatch::try_new(Arc::clone(schema), arrays)?;
        match self.visible(chunk) {
            Some(visible) => filter_record_batch(&batch, &visible.into()),
            None => Ok(batch),
        }
    }

    /// Marks those of the chunk's first `rows` rows that are shown with a new value in one of these columns.
    pub fn rewritten(&self, rows: usize, is_one: impl Fn(usize) -> bool) -> BooleanBuffer {
        let mut rewritten = BooleanBufferBuilder::new(rows);
        rewritten.append_n(rows, false);
        for patch in self.patches.iter().filter(|patch| is_one(patch.column)) {
            patch.positions.iter().for_each(|&position| rewritten.set_bit(position as usize, true));
        }
        rewritten.finish()
    }

    /// Its size in memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        let images = self.images.columns.iter().flatten().map(|column| column.get_array_memory_size());
        let patch = |patch: &Patch| patch.positions.len() * size_of::<u32>() + patch.values.get_array_memory_size();
        self.masked.inner().len() + images.sum::<usize>() + self.patches.iter().map(patch).sum::<usize>()
    }
}

/// Changes that are all in memory.
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
    use arrow::array::{BooleanArray, Decimal128Array, Int64Array};
    use arrow::compute::filter;
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

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
            let patched = patch.over(own.slice(offset, expect.len()), offset);
            assert_eq!(&patched, &column(expect), "from {offset}");
            // Of all rows, every second, every third, only those that have new values, and none.
            let selections: [fn(usize) -> bool; 5] =
                [|_| true, |row| row % 2 == 0, |row| row % 3 == 1, |row| [1, 4, 6].contains(&row), |_| false];
            for is_selected in selections {
                let selected = BooleanBuffer::collect_bool(expect.len(), |row| is_selected(offset + row));
                let some = |values: &ArrayRef| filter(values, &BooleanArray::new(selected.clone(), None)).unwrap();
                let found = patch.over_selected(some(&own.slice(offset, expect.len())), offset, &selected);
                assert_eq!(&found, &some(&column(expect)), "{selected:?} from {offset}");
            }
        };
        check(0, &[Some(0), Some(-1), None, Some(3), None, Some(5), Some(-6)]);
        check(1, &[Some(-1), None, Some(3)]);
        check(4, &[None, Some(5)]);
        check(2, &[None, Some(3)]);
        let unpatched = own.slice(2, 2);
        assert!(Arc::ptr_eq(&patch.over(Arc::clone(&unpatched), 2), &unpatched), "what is not changed is not copied");
        let full = Patch { values: column(&[Some(-1), Some(-4), Some(-6)]), ..patch };
        assert!(full.over(own.slice(3, 3), 3).nulls().is_none(), "no null bits where there are no nulls");
    }

    #[test]
    fn memory_that_nobody_else_has_is_used_again() {
        let patch = Patch { column: 0, positions: vec![1], values: Arc::new(Int64Array::from(vec![-1])) };
        let address = |values: &ArrayRef| values.as_primitive::<Int64Type>().values().as_ptr();
        let own: ArrayRef = Arc::new(Int64Array::from(vec![0, 1, 2]));
        let before = address(&own);
        let held = patch.over(Arc::clone(&own), 0);
        assert_ne!(address(&held), before);
        assert_eq!(own.as_primitive::<Int64Type>().values(), &[0, 1, 2]);
        assert_eq!(address(&patch.over(own, 0)), before);
    }

    #[test]
    fn places_are_counted_across_words_of_selected_rows() {
        let positions: Vec<u32> = vec![0, 63, 64, 130, 199];
        let values = Int64Array::from_iter_values(positions.iter().map(|&position| -i64::from(position) - 1));
        let patch = Patch { column: 0, positions, values: Arc::new(values) };
        let own: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200));
        let selected = BooleanArray::from_iter((0..200).map(|row| Some(row % 3 != 1)));
        let expect = filter(&patch.over(Arc::clone(&own), 0), &selected).unwrap();
        assert_eq!(&patch.over_selected(filter(&own, &selected).unwrap(), 0, selected.values()), &expect);
    }

    #[test]
    fn later_values_take_the_places_of_earlier_ones() {
        let patch = |pairs: &[(u32, Option<i64>)]| Patch {
            column: 0,
            positions: pairs.iter().map(|pair| pair.0).collect(),
            values: Arc::new(Int64Array::from_iter(pairs.iter().map(|pair| pair.1))),
        };
        let check = |earlier, later, expect| {
            let (found, expect) = (patch(earlier).with_later(&patch(later)).unwrap(), patch(expect));
            assert_eq!((found.positions, &found.values), (expect.positions, &expect.values));
        };
        let some = &[(3, Some(30)), (5, None), (9, Some(90))];
        check(some, &[], some);
        check(&[], some, some);
        check(some, &[(5, Some(51)), (9, None)], &[(3, Some(30)), (5, Some(51)), (9, None)]);
        check(
            some,
            &[(1, Some(1)), (3, Some(3)), (4, Some(4)), (12, Some(12))],
            &[(1, Some(1)), (3, Some(3)), (4, Some(4)), (5, None), (9, Some(90)), (12, Some(12))],
        );
    }
}
