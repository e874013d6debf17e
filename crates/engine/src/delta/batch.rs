//! What a commit publishes: the rows that it has changed, whole, as they are at its end.

use std::sync::Arc;
use std::time::Duration;

use super::inbox::Inbox;
use crate::table::RowTable;
use crate::table::heap::{RowId, RowState};

/// Where a table's changes go.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    /// Of the set that the table belongs to.
    pub(super) inbox: Arc<Inbox>,
    /// The table's position in that set.
    pub(super) table: u32,
}

/// The changes of one transaction in the tables of one set.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitBatch {
    /// Its place in the order of commits, from 1.
    pub(super) seq: u64,
    /// When it was published.
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
}

/// What the delta counts for a change beside its image: its entry while it is on its way, and later in its chunk.
pub(super) const CHANGE_BYTES: u64 = 32;

impl CommitBatch {
    /// Adds a row as it is now, under its lock.
    fn push(&mut self, table: u32, rows: &RowTable, row: RowId) {
        let before = self.words.len();
        // A row that this transaction has deleted is no longer live; that it may never have been there for others is all the same.
        if rows.heap.state(row) == RowState::Live {
            rows.heap.image(row, &mut self.words);
        }
        self.changes.push(Change { table, words: (self.words.len() - before) as u32, row });
    }

    /// Adds a row with an image that need not be one.
    #[cfg(test)]
    pub(super) fn push_image(&mut self, table: u32, row: RowId, image: &[u64]) {
        self.words.extend_from_slice(image);
        self.changes.push(Change { table, words: image.len() as u32, row });
    }

    /// Each change: the table, the row, and its image; `None` if the row is deleted.
    pub(super) fn changes(&self) -> impl Iterator<Item = (u32, RowId, Option<&[u64]>)> {
        let mut start = 0;
        self.changes.iter().map(move |change| {
            let image = &self.words[start..start + change.words as usize];
            start += image.len();
            (change.table, change.row, (!image.is_empty()).then_some(image))
        })
    }

    /// How many rows it has changed.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// What it counts against the bound of the delta.
    pub(super) fn bytes(&self) -> u64 {
        self.changes.len() as u64 * CHANGE_BYTES + self.words.len() as u64 * 8
    }
}

/// Publishes what a transaction has changed, while it still holds all of its locks and can no longer be rolled back.
/// `rows` are pairs of table and row in order, each once; tables without an outlet are passed by.
///
/// The changes of a transaction in several sets become a batch for each: a query reads the tables of one set.
pub(crate) fn publish<'a>(rows: &[(u32, RowId)], table: impl Fn(u32) -> &'a RowTable) {
    let mut batches: Vec<(&Arc<Inbox>, CommitBatch)> = Vec::new();
    for run in rows.chunk_by(|a, b| a.0 == b.0) {
        let table = table(run[0].0);
        let Some(outlet) = table.outlet() else { continue };
        let at = batches.iter().position(|(inbox, _)| Arc::ptr_eq(inbox, &outlet.inbox)).unwrap_or_else(|| {
            batches.push((&outlet.inbox, CommitBatch::default()));
            batches.len() - 1
        });
        let batch = &mut batches[at].1;
        batch.changes.reserve(run.len());
        batch.words.reserve(run.len() * table.heap.layout().words());
        run.iter().for_each(|&(_, row)| batch.push(outlet.table, table, row));
    }
    batches.into_iter().for_each(|(inbox, batch)| inbox.publish(batch));
}
