//! Changing rows: set, insert, delete.

use super::{Connection, TransactionError, Work};
use crate::lock::head::Answer;
use crate::lock::{LockName, Mode};
use crate::table::RowTable;
use crate::table::heap::{RowId, RowState};
use crate::table::index::Index;
use crate::table::key::Key;
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
            // The keys stay until the commit, so that whoever looks for the row meets its lock and waits.
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
            // Recorded first: whatever fails below is taken back with the rest.
            work.undo.insertion(table, row);
            // Locked before it is there: a checkpoint passes over all slots and reads whatever it finds unlocked.
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
        // Of gaps that had to be waited for, the right to insert is held until the key is in, lest others pass us again.
        let outcome = loop {
            match self.try_insert_key(table, position, index, key, row) {
                Attempt::Done => break Ok(()),
                Attempt::GapIsRead(gap) => {
                    // A reader may have inherited a gap whose right is held here already. The right is given up and asked
                    // for again, behind the reader; to insist on it would be to try for ever.
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

    /// Gives up the right to insert into a gap. What is left of it, the right of having read it, may have come to this
    /// transaction by inheritance while it held the other: then it is not in its list yet.
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
            // The key goes over from the row that this transaction has deleted, with all that is known of its gap.
            let [from, to] = [other, row].map(|row| LockName::gap(index.number, Some(row)));
            let todo = locks.inherit(from, to);
            index.replace_latched(&place, key, row);
            self.undo.replacement(table.number, position, other, row);
            drop(place);
            locks.carry_out(todo);
            return Attempt::Done;
        }
        let gap = LockName::gap(index.number, place.above.row);
        let state = locks.gap_state(&self.member, gap);
        if state.read_by_others {
            return Attempt::GapIsRead(gap);
        }
        if state.read_by_me {
            // The gap that this transaction has read falls into two; it goes on holding both.
            let lower = LockName::gap(index.number, Some(row));
            if locks.grant_new_gap(&self.member, lower) == Answer::Granted {
                self.held.push(lower);
            }
        }
        let inserted = index.insert_latched(&place, key, row);
        assert!(inserted, "the key was not there a moment ago, and its place is held");
        Attempt::Done
    }

    /// Waits until whoever wrote the row with this key has ended; an error if the key is then still there.
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

/// What came of an attempt to insert a key.
enum Attempt {
    Done,
    /// Another transaction relies on this gap staying empty.
    GapIsRead(LockName),
    /// The key is there, perhaps from or for a transaction that has not ended.
    KeyExists(RowId),
}
