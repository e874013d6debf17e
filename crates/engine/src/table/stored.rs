//! Reads the columns of a row, whether from the heap or from a copy.

use super::heap::{Heap, RowId};
use super::layout::ColumnPlace;
#[cfg(test)]
use super::layout::{ColumnSet, RowLayout};
use crate::value::ColumnType;

/// A row whose columns can be read one by one.
pub trait StoredRow {
    /// Whether a column is null.
    fn is_null(&self, column: usize) -> bool;
    /// The integer in a column that is not null.
    fn int(&self, column: usize) -> i64;
    /// Appends the text in a column that is not null.
    fn text(&self, column: usize, into: &mut String);
}

/// A row in the heap. Read under its lock, or while no thread writes.
#[derive(Debug, Clone, Copy)]
pub struct HeapRow<'a> {
    pub heap: &'a Heap,
    pub row: RowId,
}

impl StoredRow for HeapRow<'_> {
    fn is_null(&self, column: usize) -> bool {
        self.heap.is_null(self.row, column)
    }

    fn int(&self, column: usize) -> i64 {
        self.heap.int(self.row, column)
    }

    fn text(&self, column: usize, into: &mut String) {
        self.heap.text(self.row, column, into);
    }
}

/// Copies the words that [`Heap::image`] has made of these columns to their places in a row. The header is copied too:
/// it has the null bits of all columns, and is the newer one.
#[cfg(test)]
pub(crate) fn apply_image(layout: &RowLayout, columns: ColumnSet, image: &[u64], row: &mut [u64]) {
    let mut rest = image;
    for run in layout.runs(columns) {
        let (words, later) = rest.split_at(run.len());
        row[run].copy_from_slice(words);
        rest = later;
    }
}

/// One column of a row, in a copy that the heap made under the row's lock: the header and the words of some columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageColumn<'a> {
    pub(crate) place: ColumnPlace,
    /// The words, the header first.
    pub(crate) words: &'a [u64],
    /// The position of this column's first word.
    pub(crate) offset: usize,
}

impl StoredRow for ImageColumn<'_> {
    fn is_null(&self, column: usize) -> bool {
        self.words[0] >> (8 + column) & 1 == 1
    }

    fn int(&self, column: usize) -> i64 {
        let word = self.words[self.offset];
        match self.place.kind {
            ColumnType::Int64 => word as i64,
            ColumnType::Int32 => i64::from((word >> self.place.shift) as u32 as i32),
            ColumnType::Text(_) => panic!("column {column} is text"),
        }
    }

    fn text(&self, _column: usize, into: &mut String) {
        let words = &self.words[self.offset..self.offset + self.place.words as usize];
        let length = usize::from(words[0] as u16);
        // The first word begins with the length. The image was taken under the row's lock, so the text is whole.
        let mut bytes = std::mem::take(into).into_bytes();
        let end = bytes.len() + length;
        bytes.extend_from_slice(&words[0].to_le_bytes()[2..]);
        words[1..].iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.truncate(end);
        *into = String::from_utf8(bytes).expect("texts were stored from strings");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::heap::tests::heap;
    use crate::value::Value;

    #[test]
    fn an_image_reads_as_the_row_did_when_it_was_taken() {
        let kinds =
            [ColumnType::Int32, ColumnType::Text(40), ColumnType::Int32, ColumnType::Int64, ColumnType::Text(5)];
        let heap = heap(&kinds);
        for text in ["", "five5", "six666", "seven77", "fourteen bytes", "exactly forty bytes are what fits in it."] {
            let row = heap.allocate();
            heap.write(row, &[Value::Int(-5), Value::Text(text), Value::Int(7), Value::Int(i64::MIN), Value::Null]);
            let mut words = Vec::new();
            heap.image(row, ColumnSet::ALL, &mut words);
            heap.write(row, &[Value::Null, Value::Text("later"), Value::Null, Value::Null, Value::Null]);
            let image = |column| {
                let place = heap.layout().place(column);
                ImageColumn { place, words: &words, offset: place.word as usize }
            };
            let mut read = "before ".to_owned();
            image(1).text(1, &mut read);
            assert_eq!(read, format!("before {text}"));
            assert_eq!((image(0).int(0), image(2).int(2), image(3).int(3)), (-5, 7, i64::MIN));
            assert_eq!([0, 1, 2, 3, 4].map(|column| image(column).is_null(column)), [false, false, false, false, true]);
        }
    }

    #[test]
    fn an_image_of_some_columns_changes_these_and_no_others() {
        let kinds = [ColumnType::Int32, ColumnType::Text(20), ColumnType::Int32, ColumnType::Int64];
        let heap = heap(&kinds);
        let row = heap.allocate();
        heap.write(row, &[Value::Int(1), Value::Text("before"), Value::Int(2), Value::Null]);
        let mut words = Vec::new();
        heap.image(row, ColumnSet::ALL, &mut words);
        for (column, value) in [(0, Value::Int(5)), (1, Value::Text("twenty bytes of text")), (3, Value::Int(7))] {
            heap.set(row, column, value);
        }
        let mut later = Vec::new();
        let changed = [0, 1, 3].into_iter().map(ColumnSet::one).fold(ColumnSet::default(), ColumnSet::with);
        heap.image(row, changed, &mut later);
        assert_eq!(later.len(), 1 + 1 + 3 + 1);
        let image = |column| ImageColumn {
            place: heap.layout().place(column),
            words: &later,
            offset: heap.layout().offset_in(changed, column),
        };
        assert_eq!([image(0).int(0), image(3).int(3)], [5, 7]);
        let mut name = String::new();
        image(1).text(1, &mut name);
        assert_eq!(name, "twenty bytes of text");
        apply_image(heap.layout(), changed, &later, &mut words);
        let mut expect = Vec::new();
        heap.image(row, ColumnSet::ALL, &mut expect);
        assert_eq!(words, expect);
    }
}
