//! The rows that a scan looks at in one go: a run of a chunk's rows, with the new values that some of them have, or images that are laid
//! over it.
//!
//! New values are put into a copy of the run, not of the chunk, so that the copy is still in the second cache level when it is read; and
//! only of columns that are read of rows that came so far.

use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::ArrayRef;

use crate::columns::chunk::LoadedColumns;
use crate::columns::encode::ChunkColumn;
use crate::columns::{ChunkOverlay, Patch};

/// Some rows of a chunk, or some images that are laid over it.
pub struct Morsel<'a> {
    /// The columns.
    pub columns: &'a LoadedColumns,
    /// The first row within them.
    pub offset: usize,
    /// How many rows.
    pub rows: usize,
    /// Whether these are images, whose values need not lie between the table's minima and maxima.
    pub are_images: bool,
    /// Columns with new values of some of these rows, for which the same holds.
    pub patched: &'a [PatchedColumn],
}

impl Morsel<'_> {
    /// One column of these rows, as it is kept.
    pub fn column(&self, column: usize) -> ChunkColumn {
        let kept = self.columns.column(column).slice(self.offset, self.rows);
        match self.patch(column) {
            Some(patched) => ChunkColumn::Plain(Arc::clone(patched.values(&kept, self.offset))),
            None => kept,
        }
    }

    /// Whether the table's minima and maxima hold for the values of a column.
    pub fn is_within_bounds(&self, column: usize) -> bool {
        !self.are_images && self.patch(column).is_none()
    }

    fn patch(&self, column: usize) -> Option<&PatchedColumn> {
        self.patched.iter().find(|patched| patched.patch().column == column)
    }
}

/// A column of some rows of a chunk with new values, which are put in their places when the column is first read.
pub struct PatchedColumn {
    overlay: Arc<ChunkOverlay>,
    /// Which of the overlay's patches.
    patch: usize,
    values: OnceCell<ArrayRef>,
    time: Cell<Duration>,
}

impl PatchedColumn {
    /// The columns with new values at these positions of a chunk.
    pub fn within(overlay: &Arc<ChunkOverlay>, positions: Range<usize>) -> Vec<PatchedColumn> {
        let is_there = |patch: &Patch| !patch.within(positions.clone()).is_empty();
        let patches = overlay.patches.iter().enumerate().filter(|(_, patch)| is_there(patch));
        let column = |(patch, _)| {
            let (overlay, values) = (Arc::clone(overlay), OnceCell::new());
            PatchedColumn { overlay, patch, values, time: Cell::default() }
        };
        patches.map(column).collect()
    }

    /// How long it took to put new values in their places.
    pub fn time(&self) -> Duration {
        self.time.get()
    }

    fn patch(&self) -> &Patch {
        &self.overlay.patches[self.patch]
    }

    fn values(&self, own: &ChunkColumn, offset: usize) -> &ArrayRef {
        self.values.get_or_init(|| {
            let began = Instant::now();
            let own = own.values().expect("numbers are kept in a form from which they can be had");
            let values = self.patch().over(&own, offset);
            self.time.set(began.elapsed());
            values
        })
    }
}
