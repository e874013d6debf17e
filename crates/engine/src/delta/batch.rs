//! The batch that a commit publishes: for each changed row, the final values of the columns that it has written.
//!
//! An update writes few of many columns. Copying whole rows would take most of the time of publishing, because the rest
//! of a row is not in the cache of the core that has changed it.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::inbox::Inbox;
use crate::table::heap::{Heap, RowId, RowState};
use crate::table::layout::ColumnSet;

/// Where the changes of a table are published.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    /// The inbox of the set that the table belongs to.
    pub(super) inbox: Arc<Inbox>,
    /// The table's position in that set.
    pub(super) table: u32,
    /// Whether rows are published whole, because missing columns would have to be read from the disk.
    pub(super) is_whole: bool,
}

/// A row that a transaction has changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangedRow {
    pub(crate) table: u32,
    pub(crate) row: RowId,
    /// The columns that were written; all of them if the row was inserted.
    pub(crate) columns: ColumnSet,
}

/// The changes of one transaction to the tables of one set.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitBatch {
    /// Its place in the order of commits, from 1.
    pub(super) seq: u64,
    pub(super) at: Duration,
    changes: Vec<Change>,
    /// The words of all images, one after the other.
    words: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    table: u32,
    /// Words of the image; 0 for a deletion.
    words: u32,
    row: RowId,
    columns: ColumnSet,
}

/// The values of some columns of a row, as [`Heap::image`] encodes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Image<'a> {
    pub(super) columns: ColumnSet,
    pub(super) words: &'a [u64],
}

impl<'a> Image<'a> {
    /// `None` if there are no words, that is, if the row is deleted.
    pub(super) fn new(columns: ColumnSet, words: &'a [u64]) -> Option<Self> {
        (!words.is_empty()).then_some(Image { columns, words })
    }
}

/// Bytes counted for a change beside its image: its entry in the batch, and later in its chunk.
pub(super) const CHANGE_BYTES: u64 = 32;

const _: () = assert!(size_of::<Change>() as u64 <= CHANGE_BYTES, "a change on its way is counted in full");

/// A batch with more words than this is not reused: there are many batches, and long transactions are rare.
const WORDS_KEPT_MAX: usize = 4096;

impl CommitBatch {
    /// Adds a row as it is now, under its lock.
    fn push(&mut self, outlet: &Outlet, heap: &Heap, changed: &ChangedRow) {
        let before = self.words.len();
        let columns = if outlet.is_whole { ColumnSet::ALL } else { changed.columns };
        // A row that this transaction has deleted is no longer live. It does not matter if other transactions have
        // never seen it.
        if heap.state(changed.row) == RowState::Live {
            heap.image(changed.row, columns, &mut self.words);
        }
        let words = (self.words.len() - before) as u32;
        self.changes.push(Change { table: outlet.table, words, row: changed.row, columns });
    }

    /// Adds a row with these words as its image, which need not be a valid one.
    #[cfg(test)]
    pub(super) fn push_image(&mut self, table: u32, row: RowId, image: &[u64]) {
        self.words.extend_from_slice(image);
        self.changes.push(Change { table, words: image.len() as u32, row, columns: ColumnSet::ALL });
    }

    /// Each change: the table, the row, and its image; `None` if the row is deleted.
    pub(super) fn changes(&self) -> impl Iterator<Item = (u32, RowId, Option<Image<'_>>)> {
        let mut start = 0;
        self.changes.iter().map(move |change| {
            let words = &self.words[start..start + change.words as usize];
            start += words.len();
            (change.table, change.row, Image::new(change.columns, words))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The bytes that it counts against the bound of the delta.
    pub(super) fn bytes(&self) -> u64 {
        self.changes.len() as u64 * CHANGE_BYTES + self.words.len() as u64 * 8
    }

    /// Empties it and keeps its memory for reuse.
    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.words.clear();
        self.words.shrink_to(WORDS_KEPT_MAX);
        self.changes.shrink_to(WORDS_KEPT_MAX);
    }
}

/// Publishes the changes of a transaction, while it still holds all of its locks and can no longer be rolled back.
/// `changed` is in order of table and row, each row once. `table` gives the outlet and the rows of a table; one without an
/// outlet is skipped. `spare` is a batch whose memory may be used, and is replaced by another one: committers and
/// propagation exchange memory.
///
/// The changes of a transaction to several sets become one batch per set: a query reads the tables of one set.
pub(crate) fn publish<'a>(
    changed: &[ChangedRow],
    table: impl Fn(u32) -> Option<(&'a Outlet, &'a Heap)>,
    spare: &mut CommitBatch,
) {
    let mut batches: SmallVec<[(&Arc<Inbox>, CommitBatch); 1]> = SmallVec::new();
    for run in changed.chunk_by(|a, b| a.table == b.table) {
        let Some((outlet, heap)) = table(run[0].table) else { continue };
        let at = batches.iter().position(|(inbox, _)| Arc::ptr_eq(inbox, &outlet.inbox)).unwrap_or_else(|| {
            batches.push((&outlet.inbox, std::mem::take(spare)));
            batches.len() - 1
        });
        let batch = &mut batches[at].1;
        run.iter().for_each(|row| batch.push(outlet, heap, row));
    }
    batches.into_iter().for_each(|(inbox, batch)| *spare = inbox.publish(batch));
}
