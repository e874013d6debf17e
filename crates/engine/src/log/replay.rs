//! Redo: applies the changes in a log.
//!
//! # Over an image that was taken while transactions ran
//! A checkpoint reads each row at another moment, so its contents are not a state that the tables have ever had. Redo
//! from the log sequence number at its beginning, B, makes them one. Take one row *name*: a primary key, or in a table
//! without one a row's number. Let every unit from B on be applied in order, where
//!
//! - an insertion of a name that exists overwrites the whole row,
//! - a change or a deletion of a name that does not exist is skipped.
//!
//! 1. Units before B are in the image: they were appended with the row's lock held and the row already changed, and the
//!    image read it later, under its own lock.
//! 2. If a unit from B on inserts or deletes the name, then the last such unit decides whether it exists and with which
//!    values, regardless of the earlier state. The changes that follow bring each column to its last value.
//! 3. If none does, the name existed throughout or never, and the image has it accordingly. A column that no unit from
//!    B on changes is in the image as it has been since before B; any other gets the value of the last unit that
//!    changes it. The image may contain some of these changes already. That makes no difference: a change states a
//!    column's new value, not a difference.
//!
//! The image may even have a key twice, if the key moved from one slot to another between the reading of both. Then
//! units from B on have deleted it, and case 2 holds for either of the two rows. During redo the tables may be
//! inconsistent, for instance with a later row's column overwritten by an earlier row's value; at the end they are
//! consistent. The same argument covers applying the log a second time from B, so a crash during recovery is harmless.
//!
//! The image contains nothing of units after E, the log's end when the image was complete. So from E on every change
//! must find its row; otherwise the log is damaged, which is reported. The log must reach E at least; otherwise the
//! image has changes whose transactions are partly lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reader::ReadError;
use super::record::{LoggedTransaction, LoggedValue, Record, RowName};
use crate::table::heap::{RowId, RowState};
use crate::table::{RowTable, TableError};
use crate::value::Value;

/// Why a log does not fit the tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A row does not fit.
    #[error("the transaction at {lsn} of the log: {source}")]
    Table {
        /// Its place.
        lsn: u64,
        /// The error of the table.
        source: TableError,
    },
    /// A row to be changed does not exist.
    #[error("the transaction at {lsn} of the log changes a row of table {table} that is not there: {row:?}")]
    NoSuchRow {
        /// Its place.
        lsn: u64,
        /// The table.
        table: String,
        /// The row.
        row: RowName,
    },
    /// A row to be inserted exists already.
    #[error("the transaction at {lsn} of the log inserts a row into table {table} that is there already")]
    RowExists {
        /// Its place.
        lsn: u64,
        /// The table.
        table: String,
    },
    /// A row has other columns than its table.
    #[error("the transaction at {lsn} of the log has rows of another shape than those of table {table}")]
    Shape {
        /// Its place.
        lsn: u64,
        /// The table.
        table: String,
    },
    /// A table does not exist.
    #[error("the transaction at {lsn} of the log is about table number {table}, which is not there")]
    NoSuchTable {
        /// Its place.
        lsn: u64,
        /// Its number.
        table: u32,
    },
}

/// The place of a record, and how strictly it must fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordPlace {
    /// The place of its unit.
    pub(crate) lsn: u64,
    /// Whether the tables may already contain this change, or later ones.
    pub(crate) is_fuzzy: bool,
}

/// Applies every transaction to the tables that `table` finds by their numbers in the log; changes of other tables are
/// skipped, because these were dropped. Returns the number of transactions. The tables must be in the state at the
/// beginning of the log, including row numbers of tables without a primary key, and must not be used by others at the
/// same time.
pub fn replay(
    transactions: impl Iterator<Item = Result<LoggedTransaction, ReadError>>,
    table: impl Fn(u32) -> Option<Arc<RowTable>>,
) -> Result<u64, ReplayError> {
    let mut count = 0;
    let mut changed = BTreeMap::new();
    for transaction in transactions {
        let LoggedTransaction { lsn, records, .. } = transaction?;
        for record in records {
            if let Some(number) = row_table(&record)
                && let Some(table) = table(number)
            {
                apply(&table, record, RecordPlace { lsn, is_fuzzy: false })?;
                changed.insert(number, table);
            }
        }
        count += 1;
    }
    changed.values().for_each(|table| table.heap.collect_free());
    Ok(count)
}

/// The table whose row a record is about; `None` if it is not about a row.
pub(crate) fn row_table(record: &Record) -> Option<u32> {
    match record {
        Record::Insert { table, .. } | Record::Update { table, .. } | Record::Delete { table, .. } => Some(*table),
        Record::CreateTable { .. } | Record::DropTable { .. } | Record::KeepSet { .. } => None,
    }
}

/// Applies a record about a row to its table. After the last record, the heap's free slots must be
/// [collected](crate::table::heap::Heap::collect_free).
pub(crate) fn apply(table: &RowTable, record: Record, place: RecordPlace) -> Result<(), ReplayError> {
    let RecordPlace { lsn, is_fuzzy } = place;
    let failed = |source: TableError| ReplayError::Table { lsn, source };
    match record {
        Record::Insert { row, values, .. } => {
            let values: Vec<Value<'_>> = values.iter().map(LoggedValue::value).collect();
            if values.len() != table.spec.columns.len() {
                return Err(ReplayError::Shape { lsn, table: table.spec.name.clone() });
            }
            table.check(&values).map_err(|error| failed(error.into()))?;
            if !put(table, row, &values, is_fuzzy) {
                return Err(ReplayError::RowExists { lsn, table: table.spec.name.clone() });
            }
        }
        Record::Update { row, columns, .. } => match find(table, &row) {
            Some(here) => {
                for (column, value) in columns {
                    let column = usize::from(column);
                    if column >= table.spec.columns.len() {
                        return Err(ReplayError::Shape { lsn, table: table.spec.name.clone() });
                    }
                    table.check_column(column, &value.value()).map_err(|error| failed(error.into()))?;
                    table.heap.set(here, column, value.value());
                }
            }
            None => is_fuzzy.then_some(()).ok_or_else(|| no_such_row(table, row, lsn))?,
        },
        Record::Delete { row, .. } => match find(table, &row) {
            Some(here) => remove(table, here),
            None => is_fuzzy.then_some(()).ok_or_else(|| no_such_row(table, row, lsn))?,
        },
        Record::CreateTable { .. } | Record::DropTable { .. } | Record::KeepSet { .. } => {
            unreachable!("a record about a table and not about its rows")
        }
    }
    Ok(())
}

fn no_such_row(table: &RowTable, row: RowName, lsn: u64) -> ReplayError {
    ReplayError::NoSuchRow { lsn, table: table.spec.name.clone(), row }
}

/// Writes a row under its name. False, without writing, if it exists and must not.
fn put(table: &RowTable, number: RowId, values: &[Value<'_>], may_be_there: bool) -> bool {
    let has_key = !table.spec.primary_key.is_empty();
    let found = if has_key {
        let index = &table.indexes[0];
        index.get(&index.keys.of_row(values, 0))
    } else {
        live(table, number)
    };
    if found.is_some() && !may_be_there {
        return false;
    }
    if let Some(row) = found {
        remove_keys(table, row);
    }
    let row = match found {
        Some(row) => row,
        None if has_key => table.heap.allocate(),
        None => number,
    };
    table.heap.reserve(row);
    table.heap.write(row, values);
    for index in &table.indexes {
        let is_new = index.load(&index.keys.of_row(values, row), row);
        assert!(is_new, "the key of a row that was not there, or whose keys were removed");
    }
    true
}

/// Removes a row. Its slot is not reused before all free slots are collected, because a row may be placed there by
/// number.
fn remove(table: &RowTable, row: RowId) {
    remove_keys(table, row);
    table.heap.set_state(row, RowState::Free);
}

fn remove_keys(table: &RowTable, row: RowId) {
    for index in &table.indexes {
        let key = table.key_of(index, row);
        index.remove_latched(&index.place(&key), &key, row);
    }
}

fn find(table: &RowTable, row: &RowName) -> Option<RowId> {
    match row {
        RowName::Number(number) => live(table, *number),
        RowName::Key(key) => {
            let values: Vec<Value<'_>> = key.iter().map(LoggedValue::value).collect();
            let index = &table.indexes[0];
            index.get(&index.keys.low(&values))
        }
    }
}

fn live(table: &RowTable, row: RowId) -> Option<RowId> {
    (row < table.heap.slot_count() && table.heap.state(row) == RowState::Live).then_some(row)
}
