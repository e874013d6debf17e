//! A transaction's changes, for rolling it back, and the work that is left when it commits.

use super::{Tables, Work, gap_name};
use crate::delta::{self, ChangedRow};
use crate::table::RowTable;
use crate::table::heap::{RowId, RowState};
use crate::table::index::{Gap, Index};
use crate::table::layout::ColumnSet;

/// Changes in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Undo {
    changes: Vec<Change>,
    /// Old words of columns, one change's after the other's.
    saved: Vec<u64>,
    deletions: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) table: u32,
    pub(super) row: RowId,
    pub(super) kind: ChangeKind,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ChangeKind {
    /// A column was written; its old words begin here in `saved`.
    Column {
        column: u32,
        saved: usize,
    },
    Insertion,
    Deletion,
    /// In this index the row took over the key of a deleted one.
    Replacement {
        index: u32,
        deleted: RowId,
    },
}

impl Undo {
    pub(super) fn column(&mut self, table: &RowTable, row: RowId, column: usize) {
        let saved = self.saved.len();
        table.heap.save(row, table.heap.layout().place(column), &mut self.saved);
        self.push(table.number, row, ChangeKind::Column { column: column as u32, saved });
    }

    pub(super) fn insertion(&mut self, table: &RowTable, row: RowId) {
        self.push(table.number, row, ChangeKind::Insertion);
    }

    pub(super) fn deletion(&mut self, table: &RowTable, row: RowId) {
        self.deletions += 1;
        self.push(table.number, row, ChangeKind::Deletion);
    }

    pub(super) fn replacement(&mut self, table: u32, index: usize, deleted: RowId, row: RowId) {
        self.push(table, row, ChangeKind::Replacement { index: index as u32, deleted });
    }

    /// Whether this transaction has deleted that row. Looked up only when a key is inserted that exists.
    pub(super) fn has_deleted(&self, table: u32, row: RowId) -> bool {
        let is_it =
            |change: &Change| matches!(change.kind, ChangeKind::Deletion) && (change.table, change.row) == (table, row);
        self.deletions > 0 && self.changes.iter().any(is_it)
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    fn push(&mut self, table: u32, row: RowId, kind: ChangeKind) {
        self.changes.push(Change { table, row, kind });
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.saved.clear();
        self.deletions = 0;
    }
}

impl Work {
    /// Publishes the rows that the transaction has changed, as they are now: permanent, and under its locks. A deleted
    /// row's slot becomes free only afterwards, so a transaction that reuses it comes later in the order of commits.
    pub(super) fn publish(&mut self, tables: &Tables) {
        let changes = &self.undo.changes;
        if changes.iter().all(|change| used(tables, change.table).outlet().is_none()) {
            return;
        }
        let row = |change: &Change| {
            let columns = match change.kind {
                ChangeKind::Column { column, .. } => ColumnSet::one(column as usize),
                ChangeKind::Insertion | ChangeKind::Deletion => ColumnSet::ALL,
                ChangeKind::Replacement { .. } => return None,
            };
            Some(ChangedRow { table: change.table, row: change.row, columns })
        };
        self.changed.clear();
        self.changed.extend(changes.iter().filter_map(row));
        self.changed.sort_unstable_by_key(|changed| (changed.table, changed.row));
        self.changed.dedup_by(|later, kept| {
            let is_same = (later.table, later.row) == (kept.table, kept.row);
            if is_same {
                kept.columns = kept.columns.with(later.columns);
            }
            is_same
        });
        let of_table = |number| {
            let table = used(tables, number);
            Some((table.outlet()?, &table.heap))
        };
        delta::publish(&self.changed, of_table, &mut self.spare_batch);
    }

    /// Finishes deletions: removes their keys and frees their slots.
    pub(super) fn finish_deletions(&mut self, tables: &Tables) {
        if self.undo.deletions > 0 {
            for change in &self.undo.changes {
                if matches!(change.kind, ChangeKind::Deletion) {
                    let table = used(tables, change.table);
                    self.remove_row(table, change.row);
                }
            }
        }
        self.undo.clear();
    }

    /// Rolls back every change, the last first. If there were any, then waits for the engine's undo delay.
    pub(super) fn take_back(&mut self, tables: &Tables) {
        if self.undo.changes.is_empty() {
            return;
        }
        for change in self.undo.changes.iter().rev() {
            let table = used(tables, change.table);
            match change.kind {
                ChangeKind::Column { column, saved } => {
                    let place = table.heap.layout().place(column as usize);
                    let words = &self.undo.saved[saved..=saved + place.words as usize];
                    table.heap.restore(change.row, place, words);
                }
                ChangeKind::Deletion => table.heap.set_state(change.row, RowState::Live),
                ChangeKind::Insertion => self.remove_row(table, change.row),
                ChangeKind::Replacement { index, deleted } => {
                    let index = &table.indexes[index as usize];
                    let key = table.key_of(index, change.row);
                    let [from, to] = [change.row, deleted].map(|row| gap_name(index, Gap::Below(row)));
                    let place = index.place(&key);
                    let todo = self.engine.locks().inherit(from, to);
                    index.replace_latched(&place, &key, deleted);
                    drop(place);
                    self.engine.locks().carry_out(todo);
                }
            }
        }
        self.undo.clear();
        let delay = self.engine.options.undo_delay;
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
    }

    fn remove_row(&self, table: &RowTable, row: RowId) {
        for index in &table.indexes {
            self.remove_key(table, index, row);
        }
        table.heap.free(row);
    }

    /// Removes a row's key from an index, if it is there; locks on its gap are inherited by the gap above.
    fn remove_key(&self, table: &RowTable, index: &Index, row: RowId) {
        let key = table.key_of(index, row);
        let place = index.place(&key);
        // The key may belong to another row by now, or may never have been inserted.
        if place.present == Some(row) {
            let [from, to] = [Gap::Below(row), place.above.gap].map(|gap| gap_name(index, gap));
            let todo = self.engine.locks().inherit(from, to);
            index.remove_latched(&place, &key, row);
            drop(place);
            self.engine.locks().carry_out(todo);
        }
    }
}

/// A table that the transaction has changed.
pub(super) fn used(tables: &Tables, number: u32) -> &RowTable {
    tables[number as usize].as_ref().expect("the transaction has changed it")
}
