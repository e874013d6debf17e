//! What the changes of a chunk come to: each changed position once, with everything that was written there.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::segment::Segment;
use crate::columns::chunk::Chunk;
use crate::columns::table::CHUNK_ROWS;
use crate::table::layout::{ColumnSet, RowLayout};
use crate::table::stored::{RowImage, apply_image};
use crate::table_set::convert::column_of;

/// The changes of a chunk.
#[derive(Debug)]
pub(super) struct Changes<'a> {
    layout: &'a RowLayout,
    rows: Vec<ChangedPosition>,
    /// A whole row of words for each position that has one; only what stands in its columns means anything.
    words: Vec<u64>,
}

/// A position of a chunk that is not what it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangedPosition {
    /// Where in the chunk.
    pub(super) position: u32,
    /// What is known of the row that is there: all columns if it has come since, else those that were written, and the others are
    /// as the chunk has them. `None` if there is no row any more.
    pub(super) columns: Option<ColumnSet>,
    start: usize,
}

/// No change of a position was seen yet.
const UNSEEN: u32 = u32::MAX;

impl<'a> Changes<'a> {
    /// What these segments come to, the oldest first.
    pub(super) fn of(layout: &'a RowLayout, segments: &[Arc<Segment>]) -> Self {
        let count: usize = segments.iter().map(|segment| segment.len()).sum();
        let mut changes = Changes {
            layout,
            rows: Vec::new(),
            // So that growing never copies; memory that is not touched costs nothing.
            words: Vec::with_capacity(count.min(CHUNK_ROWS) * layout.words()),
        };
        let mut places = vec![UNSEEN; CHUNK_ROWS];
        for (position, image) in segments.iter().flat_map(|segment| segment.changes()) {
            let place = &mut places[position as usize];
            if *place == UNSEEN {
                *place = changes.rows.len() as u32;
                let start = changes.words.len();
                changes.words.resize(start + layout.words(), 0);
                changes.rows.push(ChangedPosition { position, columns: Some(ColumnSet::default()), start });
            }
            let row = &mut changes.rows[*place as usize];
            row.columns = image.map(|image| {
                let words = &mut changes.words[row.start..row.start + layout.words()];
                apply_image(layout, image.columns, image.words, words);
                row.columns.unwrap_or_default().with(image.columns)
            });
        }
        changes.rows.sort_unstable_by_key(|row| row.position);
        changes
    }

    /// Every changed position, in ascending order.
    pub(super) fn positions(&self) -> &[ChangedPosition] {
        &self.rows
    }

    /// Whether a column was written in any row.
    pub(super) fn has_written(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row.has_written(column))
    }

    /// What was written to a column, in order of position, leaving out rows in which it was not.
    pub(super) fn written(&self, column: usize, kind: &DataType) -> Result<ArrayRef, ArrowError> {
        self.written_in(&self.rows, column, kind)
    }

    fn written_in(&self, rows: &[ChangedPosition], column: usize, kind: &DataType) -> Result<ArrayRef, ArrowError> {
        let written = rows.iter().filter(|row| row.has_written(column));
        let images: Vec<_> =
            written.map(|row| RowImage { layout: self.layout, words: &self.words[row.start..] }).collect();
        column_of(&images, column, kind)
    }

    /// The changed rows that there are and that a query must see: new ones, whose place the chunk does not have or has as a hole, and those
    /// in which one of the columns was written that it reads. All others are there, as far as it reads them, as the chunk has them.
    pub(super) fn seen(&self, base: Option<&Chunk>, columns: ColumnSet) -> Vec<ChangedPosition> {
        let is_there = |position: usize| {
            base.is_some_and(|base| position < base.rows() && base.live().is_none_or(|live| live.value(position)))
        };
        let is_seen = |row: &&ChangedPosition| {
            row.columns.is_some_and(|written| written.meets(columns) || !is_there(row.position as usize))
        };
        self.rows.iter().filter(is_seen).copied().collect()
    }

    /// A column of some changed rows that there are, in their order. What was not written is as the chunk has it.
    pub(super) fn column(
        &self,
        rows: &[ChangedPosition],
        column: usize,
        kind: &DataType,
        base: Option<&Chunk>,
    ) -> Result<ArrayRef, ArrowError> {
        let written = self.written_in(rows, column, kind)?;
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
