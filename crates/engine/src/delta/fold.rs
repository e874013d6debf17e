//! Folding: a chunk and its changes become the chunk's next version.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{interleave, take};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use super::segment::{Segment, newest};
use crate::columns::chunk::Chunk;
use crate::columns::table::ColumnTable;
use crate::table::layout::RowLayout;
use crate::table::stored::RowImage;
use crate::table_set::convert::batch_of;

/// The next version of a chunk, in which these segments are folded. The table may have fewer chunks.
pub(super) fn fold(
    table: &ColumnTable,
    chunk: usize,
    layout: &RowLayout,
    segments: &[Arc<Segment>],
) -> Result<Chunk, DataFusionError> {
    let changes = newest(segments);
    let images: Vec<_> = changes.iter().filter_map(|(_, words)| Some(RowImage { layout, words: (*words)? })).collect();
    let images = batch_of(&images, table.schema())?;
    // An empty chunk is there only because a later one is; it says nothing about how to encode the first rows.
    let base = table.chunks().get(chunk).filter(|base| base.rows() > 0);
    let merge = Merge::plan(&changes, base.map_or(0, |base| base.rows()), base.and_then(|base| base.live()));
    match base {
        Some(base) if merge.has_same_rows => overwrite(base, table.schema(), &changes, &merge, &images),
        Some(base) => {
            let before = base.to_arrays()?;
            let merged = before.iter().zip(images.columns()).map(|(before, new)| merge.column(before, new));
            let merged = merged.collect::<Result<Vec<_>, _>>()?;
            Chunk::encode(table.schema(), &merged, merge.live, Some(base))
        }
        None => {
            let merged = images.columns().iter().map(|new| merge.column(&new.slice(0, 0), new));
            let merged = merged.collect::<Result<Vec<_>, _>>()?;
            Chunk::encode(table.schema(), &merged, merge.live, None)
        }
    }
}

/// The next version of a chunk of which rows were updated, and none added or deleted: an update changes few columns of many, and
/// only those are made anew.
fn overwrite(
    base: &Chunk,
    schema: &SchemaRef,
    changes: &[(u32, Option<&[u64]>)],
    merge: &Merge,
    images: &RecordBatch,
) -> Result<Chunk, DataFusionError> {
    let written = changes.iter().filter(|(_, image)| image.is_some());
    let positions = UInt32Array::from_iter_values(written.map(|(position, _)| *position));
    let mut changed = Vec::new();
    for (column, new) in images.columns().iter().enumerate() {
        let loaded = base.load(&[column])?;
        let kept = loaded.column(column);
        let before = kept.with_physical(take(kept.physical(), &positions, None)?).values()?;
        if before.as_ref() != new.as_ref() {
            changed.push((column, merge.column(&kept.values()?, new)?));
        }
    }
    base.with_columns(schema, &changed)
}

/// Where each row of the next version comes from.
struct Merge {
    /// For each position the source, 0 for the chunk and 1 for the images, and the row there.
    sources: Vec<(usize, usize)>,
    /// Which positions hold rows; `None` if all do.
    live: Option<BooleanBuffer>,
    /// Whether they held rows before, and no others did.
    has_same_rows: bool,
}

impl Merge {
    /// Positions without a row get some other row's values, which nobody sees.
    fn plan(changes: &[(u32, Option<&[u64]>)], base_rows: usize, live: Option<&BooleanBuffer>) -> Merge {
        let is_image = |change: &&(u32, Option<&[u64]>)| change.1.is_some();
        let end = changes.iter().rev().find(is_image).map_or(0, |(position, _)| *position as usize + 1);
        let rows = base_rows.max(end);
        let filler = if base_rows > 0 { (0, 0) } else { (1, 0) };
        let mut sources: Vec<(usize, usize)> = (0..base_rows).map(|row| (0, row)).collect();
        sources.resize(rows, filler);
        let mut is_live = BooleanBufferBuilder::new(rows);
        match live {
            Some(live) => is_live.append_buffer(live),
            None => is_live.append_n(base_rows, true),
        }
        is_live.append_n(rows - base_rows, false);
        let mut next_image = 0;
        let mut has_same_rows = rows == base_rows;
        for (position, image) in changes {
            let position = *position as usize;
            has_same_rows &= position >= rows || is_live.get_bit(position) == image.is_some();
            if image.is_some() {
                sources[position] = (1, next_image);
                next_image += 1;
            }
            // A row that came and went between two versions may lie behind the end.
            if position < rows {
                is_live.set_bit(position, image.is_some());
            }
        }
        let live = is_live.finish();
        let has_holes = live.count_set_bits() < rows;
        Merge { sources, live: has_holes.then_some(live), has_same_rows }
    }

    fn column(&self, base: &dyn Array, images: &dyn Array) -> Result<ArrayRef, ArrowError> {
        if self.sources.is_empty() {
            return Ok(base.slice(0, 0));
        }
        interleave(&[base, images], &self.sources)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use arrow::array::{Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::table::heap::Heap;
    use crate::value::{ColumnSpec, ColumnType, Value};

    fn layout() -> RowLayout {
        let column = |kind| ColumnSpec { name: String::new(), kind, nullable: true };
        RowLayout::new(&[column(ColumnType::Int64), column(ColumnType::Text(20))])
    }

    fn table(rows: i64) -> ColumnTable {
        let fields = [("id", DataType::Int64), ("name", DataType::Utf8View)];
        let schema = Arc::new(Schema::new(fields.map(|(name, kind)| Field::new(name, kind, true)).to_vec()));
        let names = StringViewArray::from_iter_values((0..rows).map(|id| format!("ship {id}")));
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..rows)), Arc::new(names)];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        ColumnTable::build("ship", schema, vec![], vec![batch]).unwrap()
    }

    /// One segment of changes: the new values of a row, or none.
    fn segments(changes: &[(u32, Option<(i64, &str)>)]) -> Vec<Arc<Segment>> {
        let heap = Heap::new(layout());
        let mut segment = Segment::new(Duration::ZERO, &Arc::new(AtomicU64::new(0)));
        for &(position, values) in changes {
            let mut words = Vec::new();
            if let Some((id, name)) = values {
                let row = heap.allocate();
                heap.write(row, &[Value::Int(id), Value::Text(name)]);
                heap.image(row, &mut words);
            }
            segment.push(position, values.map(|_| &words[..]));
        }
        vec![Arc::new(segment)]
    }

    fn check(table: &ColumnTable, chunk: usize, changes: &[(u32, Option<(i64, &str)>)], expect: &str) -> Chunk {
        let folded = fold(table, chunk, &layout(), &segments(changes)).unwrap();
        let batch = folded.to_batch(table.schema()).unwrap();
        let row = |at: usize| {
            let [id, name] = [0, 1].map(|column| arrow::util::display::array_value_to_string(batch.column(column), at));
            format!("{} {}", id.unwrap(), name.unwrap())
        };
        assert_eq!((0..batch.num_rows()).map(row).collect::<Vec<_>>().join(", "), expect);
        folded
    }

    #[test]
    fn rows_are_updated_deleted_and_added() {
        let table = table(3);
        check(&table, 0, &[(1, Some((1, "b"))), (1, Some((1, "c")))], "0 ship 0, 1 c, 2 ship 2");
        let holes = check(&table, 0, &[(1, None), (5, Some((5, "e")))], "0 ship 0, 2 ship 2, 5 e");
        assert_eq!((holes.rows(), holes.live_rows()), (6, 3));
        let gone = check(&table, 0, &[(0, None), (1, None), (2, None), (9, None)], "");
        assert_eq!((gone.rows(), gone.live_rows()), (3, 0));
        check(&table, 4, &[(2, Some((7, "g"))), (0, None)], "7 g");
        check(&table, 4, &[(2, None)], "");
        let next = table.with_chunks(&[(0, Arc::new(holes)), (1, Arc::new(gone))]).unwrap();
        check(&next, 0, &[(1, Some((1, "back"))), (5, None)], "0 ship 0, 1 back, 2 ship 2");
        check(&next, 1, &[(1, Some((1, "back")))], "1 back");
        check(&next, 0, &[(3, None), (0, Some((0, "x"))), (700, None)], "0 x, 2 ship 2, 5 e");
    }

    #[test]
    fn an_update_copies_the_columns_that_it_changes() {
        let table = table(3);
        let folded =
            check(&table, 0, &[(1, Some((11, "ship 1"))), (2, Some((2, "ship 2")))], "0 ship 0, 11 ship 1, 2 ship 2");
        let kept = |chunk: &Chunk, column: usize| Arc::clone(chunk.load(&[column]).unwrap().column(column).physical());
        assert!(Arc::ptr_eq(&kept(&folded, 1), &kept(&table.chunks()[0], 1)));
        assert!(!Arc::ptr_eq(&kept(&folded, 0), &kept(&table.chunks()[0], 0)));
    }
}
