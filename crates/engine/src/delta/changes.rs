//! What the changes of a chunk come to: each changed position once, with everything that was written there.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use itertools::Itertools;

use super::batch::Image;
use crate::columns::chunk::Chunk;
use crate::table::layout::{ColumnSet, RowLayout};
use crate::table::stored::ImageColumn;
use crate::table_set::convert::column_of;

/// The changes of a chunk. Nothing is copied: what was written stays where the segments have it.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    layout: &'a RowLayout,
    rows: Vec<ChangedPosition>,
    writes: Vec<Write<'a>>,
}

/// A position of a chunk that is not what it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangedPosition {
    pub(super) position: u32,
    /// What is known of the row that is there: all columns if it has come since, else those that were written, and the others are
    /// as the chunk has them. `None` if there is no row any more.
    pub(super) columns: Option<ColumnSet>,
    /// The last write of that row, [`NONE`] if there is none.
    last: u32,
}

/// What a commit has written of a row.
#[derive(Debug, Clone, Copy)]
struct Write<'a> {
    image: Image<'a>,
    /// The write of the same row before this one.
    before: u32,
}

/// There is no write.
const NONE: u32 = u32::MAX;

/// The changed rows of a chunk by how a query sees them that reads some columns.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Rows of the chunk whose new values can be put in their places.
    pub(super) patched: Vec<ChangedPosition>,
    /// Rows that are shown beside the chunk: new ones, and those of the chunk that cannot be patched.
    pub(super) images: Vec<ChangedPosition>,
    /// Positions of the chunk's rows that are gone or shown beside it.
    pub(super) hidden: Vec<u32>,
    /// How many changed rows were not left out.
    pub(super) rows: usize,
}

impl<'a> Changes<'a> {
    /// What changes come to that followed each other: each is a position, and the image or `None` if the row was deleted.
    pub(super) fn of(layout: &'a RowLayout, changes: impl Iterator<Item = (u32, Option<Image<'a>>)> + Clone) -> Self {
        let places = Places::of(changes.clone().map(|(position, _)| position));
        let fresh = |position| ChangedPosition { position, columns: Some(ColumnSet::default()), last: NONE };
        let mut rows: Vec<ChangedPosition> = places.positions().map(fresh).collect();
        let mut writes = Vec::with_capacity(rows.len());
        for (position, image) in changes {
            let row = &mut rows[places.rank(position)];
            (row.columns, row.last) = match image {
                Some(image) => {
                    writes.push(Write { image, before: row.last });
                    (Some(row.columns.unwrap_or_default().with(image.columns)), (writes.len() - 1) as u32)
                }
                None => (None, NONE),
            };
        }
        Changes { layout, rows, writes }
    }

    /// Every changed position, in ascending order.
    pub(super) fn positions(&self) -> &[ChangedPosition] {
        &self.rows
    }

    pub(super) fn has_written(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row.has_written(column))
    }

    /// What was written to a column of these rows, in their order, leaving out rows in which it was not.
    pub(super) fn written(
        &self,
        rows: &[ChangedPosition],
        column: usize,
        kind: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let place = self.layout.place(column);
        // Most rows were changed in the same columns as the one before.
        let (mut known, mut offset) = (ColumnSet::default(), 0);
        let written = rows.iter().filter(|row| row.has_written(column)).map(|row| {
            let Image { columns, words } = self.last_image(row, column);
            if columns != known {
                (known, offset) = (columns, self.layout.offset_in(columns, column));
            }
            ImageColumn { place, words, offset }
        });
        column_of(&written.collect::<Vec<_>>(), column, kind)
    }

    /// The last one that has a column, which was written in the row.
    fn last_image(&self, row: &ChangedPosition, column: usize) -> Image<'a> {
        let mut at = row.last;
        loop {
            let Write { image, before } = self.writes[at as usize];
            if image.columns.contains(column) {
                return image;
            }
            at = before;
        }
    }

    /// How a query sees the changes that reads these columns, of which those that are `fixed` in the chunk cannot be patched. Rows in which
    /// none of them was written are left out: the chunk has them as the query reads them.
    pub(super) fn seen(&self, base: Option<&Chunk>, read: ColumnSet, fixed: ColumnSet) -> Seen {
        let is_there = |position: usize| {
            base.is_some_and(|base| position < base.rows() && base.live().is_none_or(|live| live.value(position)))
        };
        let mut seen = Seen::default();
        for row in &self.rows {
            let is_there = is_there(row.position as usize);
            if is_there && row.columns.is_some_and(|written| !written.meets(read)) {
                continue;
            }
            seen.rows += 1;
            match row.columns {
                Some(written) if is_there && !written.meets(fixed) => seen.patched.push(*row),
                columns => {
                    seen.images.extend(columns.map(|_| *row));
                    seen.hidden.extend(is_there.then_some(row.position));
                }
            }
        }
        seen
    }

    /// A column of some changed rows that there are, in their order. What was not written is as the chunk has it.
    pub(super) fn column(
        &self,
        rows: &[ChangedPosition],
        column: usize,
        kind: &DataType,
        base: Option<&Chunk>,
    ) -> Result<ArrayRef, ArrowError> {
        let written = self.written(rows, column, kind)?;
        let kept: Vec<u32> = rows.iter().filter(|row| !row.has_written(column)).map(|row| row.position).collect();
        if kept.is_empty() {
            return Ok(written);
        }
        let loaded = base.expect("a row of which columns were written was in the chunk").load(&[column])?;
        let base = loaded.column(column);
        let kept = base.with_physical(take(base.physical(), &UInt32Array::from(kept), None)?).values()?;
        if written.is_empty() {
            return Ok(kept);
        }
        let mut next = [0, 0];
        let sources: Vec<_> = rows
            .iter()
            .map(|row| {
                let source = usize::from(row.has_written(column));
                next[source] += 1;
                (source, next[source] - 1)
            })
            .collect();
        interleave(&[&kept, &written], &sources)
    }
}

impl ChangedPosition {
    /// Whether a column was written in the row that is there.
    pub(super) fn has_written(&self, column: usize) -> bool {
        self.columns.is_some_and(|columns| columns.contains(column))
    }
}

/// Some positions of a chunk, each once: a bit for each from the first to the last, and how many are below each word of bits. They fit the
/// first cache level, where a number for each position would take a quarter of a megabyte, more than many a scan reads of the chunk.
struct Places {
    /// The number of the first word.
    first: usize,
    bits: Vec<u64>,
    below: Vec<u32>,
}

impl Places {
    fn of(positions: impl Iterator<Item = u32> + Clone) -> Self {
        let (least, most) = positions.clone().minmax().into_option().unwrap_or_default();
        let first = least as usize / 64;
        let mut bits = vec![0u64; most as usize / 64 + 1 - first];
        positions.for_each(|position| bits[position as usize / 64 - first] |= 1 << (position % 64));
        let mut count = 0;
        let below = |bits: &u64| {
            let below = count;
            count += bits.count_ones();
            below
        };
        let below = bits.iter().map(below).collect();
        Places { first, bits, below }
    }

    /// How many positions are below this one.
    fn rank(&self, position: u32) -> usize {
        let word = position as usize / 64 - self.first;
        let lower = self.bits[word] & ((1 << (position % 64)) - 1);
        (self.below[word] + lower.count_ones()) as usize
    }

    /// All of them, in ascending order.
    fn positions(&self) -> impl Iterator<Item = u32> {
        self.bits.iter().zip((self.first as u32 * 64..).step_by(64)).flat_map(|(bits, first)| {
            let mut rest = *bits;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(first + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::table::CHUNK_ROWS;

    #[test]
    fn places_are_counted_across_words() {
        let check = |given: &[u32], expect: &[u32]| {
            let places = Places::of(given.iter().copied());
            assert_eq!(places.positions().collect::<Vec<_>>(), expect);
            let ranks: Vec<usize> = expect.iter().map(|&position| places.rank(position)).collect();
            assert_eq!(ranks, (0..expect.len()).collect::<Vec<_>>());
        };
        let last = CHUNK_ROWS as u32 - 1;
        check(&[700, 0, 63, last, 64, 63, 0], &[0, 63, 64, 700, last]);
        check(&[191, 128, 700, 191], &[128, 191, 700]);
        check(&[last], &[last]);
        check(&[], &[]);
    }
}
