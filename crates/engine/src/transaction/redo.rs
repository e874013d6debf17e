//! A transaction's changes for the log, made from its undo list when it commits: rows as they are then, under its locks.

use super::undo::{Change, ChangeKind, used};
use super::{Tables, TransactionError, Work};
use crate::log::Ticket;

/// What has to be durable before a transaction may be acknowledged that has given up its locks already.
#[derive(Debug, Clone, Copy)]
pub(super) enum Debt {
    /// Its own unit.
    Unit(Ticket),
    /// All that others have appended: it has changed nothing, but may have read what is not durable.
    Others,
}

impl Work {
    /// Puts the changes into the log, of which there is one, with all locks still held. Under `sync` waits until they are durable, unless locks are
    /// given up early: then the wait is still owed.
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

    /// Waits for what is owed. If the log fails now the changes stay: others may have read them. But it has failed for
    /// everybody, so that nothing that depends on them will be acknowledged, and nothing is changed after them.
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
        // Columns of one row that were written one after the other become one record.
        let is_same_row = |a: &Change, b: &Change| {
            (a.table, a.row) == (b.table, b.row) && column(&a.kind).is_some() && column(&b.kind).is_some()
        };
        for run in self.undo.changes().chunk_by(is_same_row) {
            let (table, row) = (used(tables, run[0].table), run[0].row);
            match run[0].kind {
                ChangeKind::Column { .. } => {
                    // A transaction may write a column any number of times; a record has each once, as it is now.
                    let mut columns: Vec<usize> = run.iter().filter_map(|change| column(&change.kind)).collect();
                    columns.sort_unstable();
                    columns.dedup();
                    self.unit.update(table, row, columns.into_iter());
                }
                ChangeKind::Insertion => self.unit.insert(table, row),
                ChangeKind::Deletion => self.unit.delete(table, row),
                // Said already: the deletion of one row and the insertion of the other.
                ChangeKind::Replacement { .. } => {}
            }
        }
        self.unit.finish();
    }
}
