//! The place of each column in a row.
//!
//! A row is a number of 64-bit words. Word 0 is the header: the row's [`RowState`](super::heap::RowState) in the low byte and a null bit for each
//! column above it. Columns follow at fixed offsets: 64-bit integers take a word, 32-bit integers half a word, text of at most
//! n bytes a length of two bytes and n bytes, rounded up to whole words. Reading one column decodes one column.

use std::ops::Range;

use crate::value::{ColumnSpec, ColumnType};

/// The most columns a table can have: a null bit each in the header above the state.
pub(crate) const COLUMNS_MAX: usize = 56;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ColumnSet(u64);

const _: () = assert!(COLUMNS_MAX <= u64::BITS as usize, "each column has a bit");

impl ColumnSet {
    /// All columns.
    pub(crate) const ALL: ColumnSet = ColumnSet(u64::MAX);

    pub(crate) fn one(column: usize) -> Self {
        ColumnSet(1 << column)
    }

    pub(crate) fn with(self, other: ColumnSet) -> Self {
        ColumnSet(self.0 | other.0)
    }

    /// Whether the two sets have a column in common.
    pub(crate) fn meets(self, others: ColumnSet) -> bool {
        self.0 & others.0 != 0
    }

    pub(crate) fn contains(self, column: usize) -> bool {
        self.0 >> column & 1 == 1
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        let next = move || {
            let column = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (column < u64::BITS as usize).then_some(column)
        };
        std::iter::from_fn(next)
    }
}

impl FromIterator<usize> for ColumnSet {
    fn from_iter<I: IntoIterator<Item = usize>>(columns: I) -> Self {
        columns.into_iter().fold(ColumnSet::default(), |set, column| set.with(ColumnSet::one(column)))
    }
}

/// A table as declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSpec {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<ColumnSpec>,
    /// Positions of the primary key's columns, most significant first. Empty: the table has no index but those in `secondary`.
    pub primary_key: Vec<usize>,
    /// Further indexes, as positions of columns.
    pub secondary: Vec<Vec<usize>>,
}

/// The place of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnPlace {
    /// The word it begins in.
    pub word: u32,
    /// How many words it touches.
    pub words: u32,
    /// For a 32-bit integer: its first bit within the word, 0 or 32.
    pub shift: u32,
    /// Its type.
    pub kind: ColumnType,
}

/// The places of all columns of a table.
#[derive(Debug, Clone)]
pub struct RowLayout {
    places: Vec<ColumnPlace>,
    words: usize,
}

impl RowLayout {
    /// The layout of these columns.
    pub fn new(columns: &[ColumnSpec]) -> Self {
        let mut next_word = 1;
        // A word whose upper half is still free.
        let mut half: Option<u32> = None;
        let places = columns
            .iter()
            .map(|column| {
                let mut take = |words: u32| {
                    next_word += words;
                    next_word - words
                };
                let (word, words, shift) = match column.kind {
                    ColumnType::Int64 => (take(1), 1, 0),
                    ColumnType::Int32 => match half.take() {
                        Some(word) => (word, 1, 32),
                        None => {
                            let word = take(1);
                            half = Some(word);
                            (word, 1, 0)
                        }
                    },
                    ColumnType::Text(max) => {
                        let words = (2 + u32::from(max)).div_ceil(8);
                        (take(words), words, 0)
                    }
                };
                ColumnPlace { word, words, shift, kind: column.kind }
            })
            .collect();
        RowLayout { places, words: next_word as usize }
    }

    /// The place of a column.
    #[inline]
    pub fn place(&self, column: usize) -> ColumnPlace {
        self.places[column]
    }

    /// Words of a row.
    #[inline]
    pub fn words(&self) -> usize {
        self.words
    }

    /// The words with the values of these columns, as runs: the header with its null bits first. A word that two of the
    /// columns share is included twice, unless all columns are requested.
    pub(crate) fn runs(&self, columns: ColumnSet) -> impl Iterator<Item = Range<usize>> + '_ {
        let is_whole = columns == ColumnSet::ALL;
        let (first, rest) = if is_whole { (0..self.words, ColumnSet::default()) } else { (0..1, columns) };
        let run = |column| {
            let place = self.place(column);
            place.word as usize..(place.word + place.words) as usize
        };
        std::iter::once(first).chain(rest.iter().map(run))
    }

    /// The position of a column's first word among those of [`runs`](Self::runs).
    pub(crate) fn offset_in(&self, columns: ColumnSet, column: usize) -> usize {
        if columns == ColumnSet::ALL {
            return self.place(column).word as usize;
        }
        let before = columns.iter().take_while(|&before| before < column);
        1 + before.map(|before| self.place(before).words as usize).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_do_not_overlap_and_small_ones_share_a_word() {
        let kinds = [ColumnType::Int32, ColumnType::Int64, ColumnType::Int32, ColumnType::Text(6), ColumnType::Text(7)];
        let columns: Vec<_> =
            kinds.iter().map(|&kind| ColumnSpec { name: String::new(), kind, nullable: false }).collect();
        let layout = RowLayout::new(&columns);
        let places: Vec<_> =
            (0..5).map(|at| layout.place(at)).map(|place| (place.word, place.words, place.shift)).collect();
        assert_eq!(places, [(1, 1, 0), (2, 1, 0), (1, 1, 32), (3, 1, 0), (4, 2, 0)]);
        assert_eq!(layout.words(), 6);
        let runs = |columns: ColumnSet| layout.runs(columns).map(|run| (run.start, run.end)).collect::<Vec<_>>();
        assert_eq!(runs(ColumnSet::ALL), [(0, 6)]);
        assert_eq!(runs(ColumnSet::default()), [(0, 1)]);
        let some = ColumnSet::one(4).with(ColumnSet::one(1));
        assert_eq!(runs(some), [(0, 1), (2, 3), (4, 6)]);
        assert_eq!([1, 4].map(|column| layout.offset_in(some, column)), [1, 2]);
        assert_eq!([0, 1, 2, 3, 4].map(|column| layout.offset_in(ColumnSet::ALL, column)), [1, 2, 1, 3, 4]);
    }
}
