//! The combined changes of a chunk: each changed position once, with everything that was written there.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use itertools::Itertools;

use super::batch::Image;
use crate::columns::chunk::Chunk;
use crate::table::column::column_of;
use crate::table::layout::{ColumnSet, RowLayout};
use crate::table::stored::ImageColumn;

/// The changes of a chunk. Nothing is copied: the values stay in the segments.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    layout: &'a RowLayout,
    rows: Vec<ChangedPosition>,
    writes: Vec<Write<'a>>,
}

/// A position of a chunk that has changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangedPosition {
    pub(super) position: u32,
    /// The columns that were written: all of them if the row at this position is new. The chunk has the other columns.
    /// `None` if the position no longer has a row.
    pub(super) columns: Option<ColumnSet>,
    /// The last write of that row, or [`NONE`].
    last: u32,
}

/// A commit's write to a row.
#[derive(Debug, Clone, Copy)]
struct Write<'a> {
    image: Image<'a>,
    /// The write of the same row before this one.
    before: u32,
}

/// No write.
const NONE: u32 = u32::MAX;

/// The changed rows of a chunk, grouped by how a query that reads some columns sees them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Rows of the chunk whose new values can be put in their places.
    pub(super) patched: Vec<ChangedPosition>,
    /// Rows that are shown beside the chunk: new ones, and rows of the chunk that cannot be patched.
    pub(super) images: Vec<ChangedPosition>,
    /// Positions of the chunk's rows that are deleted or shown beside it.
    pub(super) hidden: Vec<u32>,
    /// The number of changed rows that concern the query.
    pub(super) rows: usize,
}

impl<'a> Changes<'a> {
    /// Combines successive changes. Each is a position and an image; `None` if the row was deleted.
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

    /// The values written to a column of these rows, in their order. Skips rows in which the column was not written.
    pub(super) fn written(
        &self,
        rows: &[ChangedPosition],
        column: usize,
        kind: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let place = self.layout.place(column);
        // Most rows were changed in the same columns as the row before.
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

    /// The last image that has a column, which was written in the row.
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

    /// How a query that reads the columns `read` sees the changes. Columns that are `fixed` in the chunk cannot be
    /// patched. Rows whose changes are all in other columns are left out: the query reads the chunk's values.
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

    /// A column of some changed rows, none of them deleted, in their order. The chunk has the values that were not
    /// written.
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
    /// Whether a column was written in the row at this position.
    pub(super) fn has_written(&self, column: usize) -> bool {
        self.columns.is_some_and(|columns| columns.contains(column))
    }
}

/// A set of positions of a chunk: a bit for each position from the first to the last, and for each word of bits the
/// number of positions below it. It fits the first cache level. A number for each position would take a quarter of a
/// megabyte, more than many scans read of the chunk.
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

    /// The number of positions below this one.
    fn rank(&self, position: u32) -> usize {
        let word = position as usize / 64 - self.first;
        let lower = self.bits[word] & ((1 << (position % 64)) - 1);
        (self.below[word] + lower.count_ones()) as usize
    }

    /// All positions, in ascending order.
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
