//! Changes rows: set, insert, delete.

use super::{Connection, TransactionError, Work, gap_name};
use crate::lock::head::Answer;
use crate::lock::{LockName, Mode};
use crate::table::heap::{RowId, RowState};
use crate::table::index::{Gap, Index};
use crate::table::key::Key;
use crate::table::{IndexKind, RowTable};
use crate::value::Value;

impl Connection {
    /// Writes one column of a row that this transaction has found.
    pub fn set(&mut self, table: u32, row: RowId, column: usize, value: Value<'_>) -> Result<(), TransactionError> {
        self.run(table, Mode::IX, |work, table| {
            table.check_column(column, &value)?;
            if table.is_indexed(column) {
                let column = table.spec.columns[column].name.clone();
                return Err(TransactionError::IndexedColumn { table: table.spec.name.clone(), column });
            }
            work.lock(LockName::row(table.number, row), Mode::X)?;
            work.undo.column(table, row, column);
            table.heap.set(row, column, value);
            Ok(())
        })
    }

    /// Deletes a row that this transaction has found.
    pub fn delete(&mut self, table: u32, row: RowId) -> Result<(), TransactionError> {
        self.run(table, Mode::IX, |work, table| {
            work.lock(LockName::row(table.number, row), Mode::X)?;
            // The keys stay until the commit, so a transaction that looks for the row finds its lock and waits.
            work.undo.deletion(table, row);
            table.heap.set_state(row, RowState::Deleted);
            Ok(())
        })
    }

    /// Inserts a row, all columns in order.
    pub fn insert(&mut self, table: u32, values: &[Value<'_>]) -> Result<RowId, TransactionError> {
        self.run(table, Mode::IX, |work, table| {
            table.check(values)?;
            let row = table.heap.allocate();
            // Recorded first, so that any failure below is rolled back with the rest.
            work.undo.insertion(table, row);
            // Locked before it becomes visible: a checkpoint scans all slots and reads every row that is not locked.
            work.lock(LockName::row(table.number, row), Mode::X)?;
            table.heap.write(row, values);
            for (position, index) in table.indexes.iter().enumerate() {
                let key = index.keys.of_row(values, row);
                work.insert_key(table, position, index, &key, row)?;
            }
            Ok(row)
        })
    }
}

impl Work {
    fn insert_key(
        &mut self,
        table: &RowTable,
        position: usize,
        index: &Index,
        key: &Key,
        row: RowId,
    ) -> Result<(), TransactionError> {
        // After a wait for a gap, the insertion lock is held until the key is inserted, so that others cannot get ahead
        // again.
        let outcome = loop {
            match self.try_insert_key(table, position, index, key, row) {
                Attempt::Done => break Ok(()),
                Attempt::GapIsRead(gap) => {
                    // A reader may have inherited a gap on which the insertion lock is already held. The lock is
                    // released and requested again, behind the reader; otherwise this loop would never end.
                    if let Some(at) = self.gaps.iter().position(|(held, _)| *held == gap) {
                        let gap = self.gaps.swap_remove(at);
                        self.give_up_gap(gap);
                    }
                    match self.request(gap, Mode::IX) {
                        Ok(answer) => self.gaps.push((gap, answer)),
                        Err(error) => break Err(error),
                    }
                }
                Attempt::KeyExists(other) => {
                    if let Err(error) = self.wait_for_key(table, index, key, other) {
                        break Err(error);
                    }
                }
            }
        };
        while let Some(gap) = self.gaps.pop() {
            self.give_up_gap(gap);
        }
        outcome
    }

    /// Releases the lock for inserting into a gap. The transaction may have inherited a read lock on the gap while it
    /// held the other; then the read lock is not in its list yet.
    fn give_up_gap(&mut self, (gap, answer): (LockName, Answer)) {
        let is_held = answer != Answer::Held && self.engine.locks().give_up_intention(&self.member, gap);
        if is_held && answer == Answer::Granted {
            self.held.push(gap);
        }
    }

    fn try_insert_key(&mut self, table: &RowTable, position: usize, index: &Index, key: &Key, row: RowId) -> Attempt {
        let locks = self.engine.locks();
        let place = index.place(key);
        if let Some(other) = place.present {
            let is_own_deletion = self.undo.has_deleted(table.number, other);
            if !is_own_deletion {
                return Attempt::KeyExists(other);
            }
            // The key moves from the row that this transaction has deleted, and the locks on its gap move too.
            let [from, to] = [other, row].map(|row| gap_name(index, Gap::Below(row)));
            let todo = locks.inherit(from, to);
            index.replace_latched(&place, key, row);
            self.undo.replacement(table.number, position, other, row);
            drop(place);
            locks.carry_out(todo);
            return Attempt::Done;
        }
        let gap = gap_name(index, place.above.gap);
        let state = locks.gap_state(&self.member, gap);
        if state.read_by_others {
            return Attempt::GapIsRead(gap);
        }
        if state.read_by_me && index.kind() == IndexKind::Tree {
            // The gap that this transaction has read is split into two; it keeps both locked.
            let lower = gap_name(index, Gap::Below(row));
            if locks.grant_new_gap(&self.member, lower) == Answer::Granted {
                self.held.push(lower);
            }
        }
        let inserted = index.insert_latched(&place, key, row);
        assert!(inserted, "the key was not there a moment ago, and its place is held");
        Attempt::Done
    }

    /// Waits until the transaction that wrote the row with this key has ended; an error if the key then still exists.
    fn wait_for_key(
        &mut self,
        table: &RowTable,
        index: &Index,
        key: &Key,
        other: RowId,
    ) -> Result<(), TransactionError> {
        self.lock(LockName::row(table.number, other), Mode::S)?;
        if index.get(key) == Some(other) && table.heap.state(other) == RowState::Live {
            return Err(TransactionError::Duplicate { table: table.spec.name.clone() });
        }
        Ok(())
    }
}

/// The outcome of an attempt to insert a key.
enum Attempt {
    Done,
    /// Another transaction relies on this gap to stay empty.
    GapIsRead(LockName),
    /// The key exists, perhaps only because of a transaction that has not ended.
    KeyExists(RowId),
}
