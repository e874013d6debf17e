//! A transaction's changes for the log, made from its undo list at commit: the rows as they are then, under its locks.

use super::undo::{Change, ChangeKind, used};
use super::{Tables, TransactionError, Work};
use crate::log::Ticket;

/// What must be durable before a transaction that has already released its locks may be acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Debt {
    /// Its own unit.
    Unit(Ticket),
    /// All units appended so far: the transaction has changed nothing, but may have read changes that are not durable.
    Others,
}

impl Work {
    /// Appends the changes to the log, with all locks still held. Under `sync`, waits until they are durable, or
    /// returns the remaining wait if locks are released early.
    pub(super) fn log_changes(&mut self, tables: &Tables) -> Result<Option<Debt>, TransactionError> {
        let is_early = self.engine.options.early_lock_release;
        if self.undo.changes().is_empty() {
            return Ok(is_early.then_some(Debt::Others));
        }
        self.describe_changes(tables);
        let ticket = self.engine.log().expect("who calls has looked").append(&self.unit)?;
        self.usage.log_wait += ticket.waited;
        let debt = Debt::Unit(ticket);
        if is_early { Ok(Some(debt)) } else { self.pay(debt).map(|()| None) }
    }

    /// Waits until the debt is durable. If the log fails now, the changes stay, because other transactions may have
    /// read them. But then the log has failed for all transactions: none that depends on them is acknowledged, and
    /// nothing is changed after them.
    pub(super) fn pay(&mut self, debt: Debt) -> Result<(), TransactionError> {
        let log = self.engine.log().expect("something is owed to it");
        self.usage.log_wait += match debt {
            Debt::Unit(ticket) => log.wait(ticket)?,
            Debt::Others => log.wait_for_others()?,
        };
        Ok(())
    }

    fn describe_changes(&mut self, tables: &Tables) {
        self.unit.clear();
        let column = |kind: &ChangeKind| match kind {
            ChangeKind::Column { column, .. } => Some(*column as usize),
            _ => None,
        };
        // Columns of one row that were written consecutively become one record.
        let is_same_row = |a: &Change, b: &Change| {
            (a.table, a.row) == (b.table, b.row) && column(&a.kind).is_some() && column(&b.kind).is_some()
        };
        for run in self.undo.changes().chunk_by(is_same_row) {
            let (table, row) = (used(tables, run[0].table), run[0].row);
            match run[0].kind {
                ChangeKind::Column { .. } => {
                    // A transaction may write a column any number of times; a record has each column once, with its
                    // present value.
                    let mut columns: Vec<usize> = run.iter().filter_map(|change| column(&change.kind)).collect();
                    columns.sort_unstable();
                    columns.dedup();
                    self.unit.update(table, row, columns.into_iter());
                }
                ChangeKind::Insertion => self.unit.insert(table, row),
                ChangeKind::Deletion => self.unit.delete(table, row),
                // The deletion of one row and the insertion of the other already say this.
                ChangeKind::Replacement { .. } => {}
            }
        }
        self.unit.finish();
    }
}
