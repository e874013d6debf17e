//! The rows that a scan looks at in one go: a run of a chunk's rows, with the new values that some of them have, or images that are laid
//! over it.
//!
//! New values are put into a copy of the run, not of the chunk, so that the copy is still in the second cache level when it is read; and
//! only of columns that are read of rows that came so far. Conditions that can be evaluated on values as they are kept need no copy:
//! they are evaluated as if nothing had changed, and once more on the new values.

use std::cell::{Cell, OnceCell};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::error::ArrowError;

use crate::columns::chunk::LoadedColumns;
use crate::columns::encode::ChunkColumn;
use crate::columns::{ChunkOverlay, Patch};

/// Some rows of a chunk, or some images that are laid over it.
pub struct Morsel<'a> {
    pub columns: &'a LoadedColumns,
    pub offset: usize,
    pub rows: usize,
    /// Whether these are images, whose values need not lie between the table's minima and maxima.
    pub are_images: bool,
    /// Columns with new values of some of these rows, for which the same holds.
    pub patched: &'a [PatchedColumn],
}

/// Some of the rows of a morsel.
pub struct Picked {
    rows: BooleanBuffer,
    filter: FilterPredicate,
}

impl Picked {
    /// The rows whose bits are set, with this number of columns.
    pub fn new(rows: BooleanBuffer, columns: usize) -> Self {
        let filter = FilterBuilder::new(&BooleanArray::new(rows.clone(), None));
        // Finding the rows beforehand saves time if it is done once for several columns.
        let filter = if columns > 1 { filter.optimize() } else { filter };
        Picked { rows, filter: filter.build() }
    }
}

impl Morsel<'_> {
    /// One column of these rows, as it is kept.
    pub fn column(&self, column: usize) -> ChunkColumn {
        let kept = self.kept(column);
        match self.patched(column) {
            Some(patched) => ChunkColumn::Plain(Arc::clone(patched.values(&kept))),
            None => kept,
        }
    }

    /// One column of some of these rows, as it is kept.
    pub fn pick(&self, column: usize, picked: &Picked) -> Result<ChunkColumn, ArrowError> {
        let pick = |column: ChunkColumn| Ok(column.with_physical(picked.filter.filter(column.physical())?));
        match self.patched(column) {
            None => pick(self.kept(column)),
            // All of them were needed before.
            Some(patched) if patched.values.get().is_some() => pick(self.column(column)),
            Some(patched) => {
                let own = pick(self.kept(column))?.values()?;
                let put = || patched.patch().over_selected(own, patched.first, &picked.rows);
                Ok(ChunkColumn::Plain(patched.timed(put)))
            }
        }
    }

    /// One column of these rows as the chunk or the images have it, without the new values that some rows have.
    pub fn kept(&self, column: usize) -> ChunkColumn {
        self.columns.column(column).slice(self.offset, self.rows)
    }

    /// The new values of a column, if some of these rows have any.
    pub fn patched(&self, column: usize) -> Option<&PatchedColumn> {
        self.patched.iter().find(|patched| patched.patch().column == column)
    }
}

/// A column of some rows of a chunk with new values, which are put in their places when the column is first read.
pub struct PatchedColumn {
    overlay: Arc<ChunkOverlay>,
    patch: usize,
    first: usize,
    /// Which of the patch's values are of these rows.
    new: Range<usize>,
    values: OnceCell<ArrayRef>,
    time: Cell<Duration>,
}

impl PatchedColumn {
    /// The columns with new values at these positions of a chunk.
    pub fn within(overlay: &Arc<ChunkOverlay>, positions: Range<usize>) -> Vec<PatchedColumn> {
        let of_rows = |(patch, all): (usize, &Patch)| {
            let new = all.within(positions.clone());
            let (overlay, first, values) = (Arc::clone(overlay), positions.start, OnceCell::new());
            (!new.is_empty()).then_some(PatchedColumn { overlay, patch, first, new, values, time: Cell::default() })
        };
        overlay.patches.iter().enumerate().filter_map(of_rows).collect()
    }

    /// How long it took to put new values in their places.
    pub fn time(&self) -> Duration {
        self.time.get()
    }

    /// Corrects the result of a condition on the chunk's own values for the new values. `passes` returns which of the
    /// new values pass; `None` if it cannot.
    pub fn corrected(
        &self,
        passing: &BooleanBuffer,
        passes: impl FnOnce(ArrayRef) -> Option<BooleanBuffer>,
    ) -> Option<BooleanBuffer> {
        self.timed(|| {
            let Patch { positions, values, .. } = self.patch();
            let new = passes(values.slice(self.new.start, self.new.len()))?;
            let mut corrected = BooleanBufferBuilder::new(passing.len());
            corrected.append_buffer(passing);
            for (&position, passes) in positions[self.new.clone()].iter().zip(&new) {
                corrected.set_bit(position as usize - self.first, passes);
            }
            Some(corrected.finish())
        })
    }

    fn patch(&self) -> &Patch {
        &self.overlay.patches[self.patch]
    }

    fn values(&self, kept: &ChunkColumn) -> &ArrayRef {
        self.values.get_or_init(|| {
            self.timed(|| {
                let own = kept.values().expect("numbers are kept in a form that gives their values");
                self.patch().over(own, self.first)
            })
        })
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.time.set(self.time.get() + began.elapsed());
        result
    }
}
