//! A transaction's changes for the log, made from its undo list when it commits: rows as they are then, under its locks.

use super::undo::{Change, Kind, used};
use super::{Tables, TransactionError, Work};

impl Work {
    /// Puts the changes into the log, and under `sync` waits until they are durable. With all locks still held.
    pub(super) fn log_changes(&mut self, tables: &Tables) -> Result<(), TransactionError> {
        if self.undo.changes().is_empty() {
            return Ok(());
        }
        self.describe_changes(tables);
        let Some(log) = self.engine.log() else { return Ok(()) };
        self.usage.log_wait += log.commit(&self.unit)?;
        Ok(())
    }

    fn describe_changes(&mut self, tables: &Tables) {
        self.unit.clear();
        let column = |kind: &Kind| match kind {
            Kind::Column { column, .. } => Some(*column as usize),
            _ => None,
        };
        // Columns of one row that were written one after the other become one record.
        let is_same_row = |a: &Change, b: &Change| {
            (a.table, a.row) == (b.table, b.row) && column(&a.kind).is_some() && column(&b.kind).is_some()
        };
        for run in self.undo.changes().chunk_by(is_same_row) {
            let (table, row) = (used(tables, run[0].table), run[0].row);
            match run[0].kind {
                Kind::Column { .. } => {
                    // A transaction may write a column any number of times; a record has each once, as it is now.
                    let mut columns: Vec<usize> = run.iter().filter_map(|change| column(&change.kind)).collect();
                    columns.sort_unstable();
                    columns.dedup();
                    self.unit.update(table, row, columns.into_iter());
                }
                Kind::Insertion => self.unit.insert(table, row),
                Kind::Deletion => self.unit.delete(table, row),
                // Said already: the deletion of one row and the insertion of the other.
                Kind::Replacement { .. } => {}
            }
        }
        self.unit.finish();
    }
}
