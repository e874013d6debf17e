//! Folding: a chunk and its changes become the chunk's next version.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, UInt32Array, new_empty_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, interleave, take};
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use super::changes::Changes;
use super::segment::{Segment, changes_after};
use crate::columns::chunk::Chunk;
use crate::columns::overlay::Patch;
use crate::columns::table::ColumnTable;
use crate::table::layout::RowLayout;

/// The next version of a chunk, with the changes of these segments. The table may have fewer chunks.
pub(super) fn fold(
    table: &ColumnTable,
    chunk: usize,
    layout: &RowLayout,
    segments: &[Arc<Segment>],
) -> Result<Chunk, DataFusionError> {
    let changes = Changes::of(layout, changes_after(segments, 0));
    let kind = |column: usize| table.schema().field(column).data_type();
    // An empty chunk exists only because a later one does; it is no guide for encoding the first rows.
    let base = table.chunks().get(chunk).map(Arc::as_ref).filter(|base| base.rows() > 0);
    let mut merge = Merge::plan(&changes, base.map_or(0, Chunk::rows), base.and_then(Chunk::live));
    let all = 0..table.schema().fields().len();
    if let Some(base) = base.filter(|_| merge.has_same_rows) {
        // Rows were only updated: only the written columns are made again.
        let written: Vec<usize> = all.filter(|&column| changes.has_written(column)).collect();
        let loaded = base.load(&written)?;
        let next = |&column: &usize| {
            let before = loaded.column(column).values()?;
            Ok((column, merge.column(column, &before)?))
        };
        let next = written.iter().map(next).collect::<Result<Vec<_>, ArrowError>>()?;
        return base.with_columns(table.schema(), &next);
    }
    let before = match base {
        Some(base) => base.to_arrays()?,
        None => all.map(|column| new_empty_array(kind(column))).collect(),
    };
    let next = before.iter().enumerate().map(|(column, before)| merge.column(column, before));
    let next = next.collect::<Result<Vec<_>, _>>()?;
    Chunk::encode(table.schema(), &next, merge.live, base)
}

/// The origin of each row of the next version.
struct Merge<'a> {
    changes: &'a Changes<'a>,
    rows: usize,
    /// For each position the source, 0 for the chunk and 1 for the changes, and the row there. This plan has all
    /// positions from the chunk, because written rows differ between columns. Empty until a column needs it.
    sources: Vec<(usize, usize)>,
    /// The positions that hold rows; `None` if all do.
    live: Option<BooleanBuffer>,
    /// Whether exactly these positions held rows before.
    has_same_rows: bool,
    base_rows: usize,
}

impl<'a> Merge<'a> {
    fn plan(changes: &'a Changes<'a>, base_rows: usize, live: Option<&BooleanBuffer>) -> Self {
        let positions = changes.positions();
        let end = positions.iter().rfind(|row| row.columns.is_some()).map_or(0, |row| row.position as usize + 1);
        let rows = base_rows.max(end);
        let mut is_live = BooleanBufferBuilder::new(rows);
        match live {
            Some(live) => is_live.append_buffer(live),
            None => is_live.append_n(base_rows, true),
        }
        is_live.append_n(rows - base_rows, false);
        let mut has_same_rows = rows == base_rows;
        for row in positions {
            let position = row.position as usize;
            has_same_rows &= position >= rows || is_live.get_bit(position) == row.columns.is_some();
            // A row that was inserted and deleted between two versions may lie behind the end.
            if position < rows {
                is_live.set_bit(position, row.columns.is_some());
            }
        }
        let live = is_live.finish();
        let has_holes = live.count_set_bits() < rows;
        Merge { changes, rows, sources: Vec::new(), live: has_holes.then_some(live), has_same_rows, base_rows }
    }

    /// A column of the next version.
    fn column(&mut self, column: usize, before: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.rows == 0 {
            return Ok(before.slice(0, 0));
        }
        let (changes, kind) = (self.changes, before.data_type());
        let written = changes.written(changes.positions(), column, kind)?;
        let positions = changes.positions().iter().filter(|row| row.has_written(column)).map(|row| row.position);
        if kind.is_primitive() {
            let patch = Patch { column, positions: positions.collect(), values: written };
            return Ok(patch.over(self.lengthened(before, &patch.values)?, 0));
        }
        if self.sources.is_empty() {
            self.sources = (0..self.rows).map(|row| unwritten(row, self.base_rows)).collect();
        }
        for (at, position) in positions.clone().enumerate() {
            self.sources[position as usize] = (1, at);
        }
        let merged = interleave(&[before, &written], &self.sources);
        for position in positions {
            self.sources[position as usize] = unwritten(position as usize, self.base_rows);
        }
        merged
    }

    /// A column as the chunk has it, with a value for each position of the next version.
    fn lengthened(&self, before: &ArrayRef, written: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let missing = self.rows - self.base_rows;
        if missing == 0 {
            return Ok(Arc::clone(before));
        }
        let some = if self.base_rows > 0 { before } else { written };
        let rest = take(some, &UInt32Array::from(vec![0; missing]), None)?;
        concat(&[before, &rest])
    }
}

/// The source of a position that was not written. Beyond the chunk's end no row exists: the value of another row fills
/// the position, and is never shown.
fn unwritten(position: usize, base_rows: usize) -> (usize, usize) {
    match position {
        position if position < base_rows => (0, position),
        _ if base_rows > 0 => (0, 0),
        _ => (1, 0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use arrow::array::{Int64Array, RecordBatch, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::delta::batch::Image;
    use crate::query::printed::rows;
    use crate::table::heap::Heap;
    use crate::table::layout::ColumnSet;
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

    /// The new values of a row, or `None`.
    type Written<'a> = (u32, Option<(i64, &'a str)>);

    /// Adds an image of these columns of a row.
    fn push(segment: &mut Segment, columns: ColumnSet, &(position, values): &Written<'_>) {
        let heap = Heap::new(layout());
        let mut words = Vec::new();
        if let Some((id, name)) = values {
            let row = heap.allocate();
            heap.write(row, &[Value::Int(id), Value::Text(name)]);
            heap.image(row, columns, &mut words);
        }
        segment.push(position, Image::new(columns, &words));
    }

    /// One segment of whole rows.
    fn segments(changes: &[Written<'_>]) -> Vec<Arc<Segment>> {
        let mut segment = Segment::new(Duration::ZERO, &Arc::new(AtomicU64::new(0)));
        changes.iter().for_each(|change| push(&mut segment, ColumnSet::ALL, change));
        vec![Arc::new(segment)]
    }

    fn check(table: &ColumnTable, chunk: usize, changes: &[Written<'_>], expect: &str) -> Chunk {
        check_segments(table, chunk, &segments(changes), expect)
    }

    fn check_segments(table: &ColumnTable, chunk: usize, segments: &[Arc<Segment>], expect: &str) -> Chunk {
        let folded = fold(table, chunk, &layout(), segments).unwrap();
        let batch = folded.to_batch(table.schema()).unwrap();
        let lines: Vec<_> = rows(&[batch]).into_iter().map(|row| row.join(" ")).collect();
        assert_eq!(lines.join(", "), expect);
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
        let mut segment = Segment::new(Duration::ZERO, &Arc::new(AtomicU64::new(0)));
        // The image has no value for the name.
        push(&mut segment, ColumnSet::one(0), &(1, Some((11, "no"))));
        push(&mut segment, ColumnSet::one(0), &(2, Some((22, "no"))));
        let updates = vec![Arc::new(segment)];
        let folded = check_segments(&table, 0, &updates, "0 ship 0, 11 ship 1, 22 ship 2");
        let kept = |chunk: &Chunk, column: usize| Arc::clone(chunk.load(&[column]).unwrap().column(column).physical());
        assert!(Arc::ptr_eq(&kept(&folded, 1), &kept(&table.chunks()[0], 1)));
        assert!(!Arc::ptr_eq(&kept(&folded, 0), &kept(&table.chunks()[0], 0)));
        let [mut gone, mut renamed] = [(); 2].map(|()| Segment::new(Duration::ZERO, &Arc::new(AtomicU64::new(0))));
        push(&mut gone, ColumnSet::ALL, &(0, None));
        push(&mut gone, ColumnSet::ALL, &(0, Some((5, "new"))));
        push(&mut renamed, ColumnSet::one(1), &(0, Some((-1, "newer"))));
        push(&mut renamed, ColumnSet::one(1), &(2, Some((-1, "two"))));
        push(&mut renamed, ColumnSet::ALL, &(1, None));
        let segments: Vec<_> = updates.into_iter().chain([Arc::new(gone), Arc::new(renamed)]).collect();
        check_segments(&table, 0, &segments, "5 newer, 22 two");
    }
}
