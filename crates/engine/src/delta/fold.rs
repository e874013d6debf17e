//! Folding: a chunk and its changes become the chunk's next version.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::interleave;
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
    let base = table.chunks().get(chunk);
    let base_rows = base.map_or(0, |base| base.rows());
    let merge = Merge::plan(&changes, base_rows, base.and_then(|base| base.live()));
    let before = match base {
        Some(base) => base.to_arrays()?,
        None => images.columns().iter().map(|column| column.slice(0, 0)).collect(),
    };
    let merged = before.iter().zip(images.columns()).map(|(before, new)| merge.column(before, new));
    let merged = merged.collect::<Result<Vec<_>, _>>()?;
    Chunk::encode(table.schema(), &merged, merge.live, base.map(|base| &**base))
}

/// Where each row of the next version comes from.
struct Merge {
    /// For each position the source, 0 for the chunk and 1 for the images, and the row there.
    sources: Vec<(usize, usize)>,
    /// Which positions hold rows; `None` if all do.
    live: Option<BooleanBuffer>,
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
        for (position, image) in changes {
            let position = *position as usize;
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
        Merge { sources, live: has_holes.then_some(live) }
    }

    fn column(&self, base: &dyn Array, images: &dyn Array) -> Result<ArrayRef, ArrowError> {
        if self.sources.is_empty() {
            return Ok(base.slice(0, 0));
        }
        interleave(&[base, images], &self.sources)
    }
}
