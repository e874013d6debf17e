//! Doing again what a log says: on tables that hold what they held when it began.
//!
//! Not recovery: that needs the data as of a checkpoint, and there are none yet. It shows in tests, and to whoever doubts,
//! that the log holds what was acknowledged.

use std::collections::HashMap;
use std::sync::Arc;

use super::reader::ReadError;
use super::record::{LoggedTransaction, LoggedValue, Record, RowName};
use crate::table::heap::RowId;
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
        /// What the table said.
        source: TableError,
    },
    /// A row to be changed is not there.
    #[error("the transaction at {lsn} of the log changes a row of table {table} that is not there: {row:?}")]
    NoSuchRow {
        /// Its place.
        lsn: u64,
        /// The table.
        table: String,
        /// The row.
        row: RowName,
    },
}

/// Applies every transaction to the tables that `table` names by their numbers in the log; those of others are passed by, for
/// they were dropped. Says how many there were. Nobody else uses the tables meanwhile.
pub fn replay(
    transactions: impl Iterator<Item = Result<LoggedTransaction, ReadError>>,
    table: impl Fn(u32) -> Option<Arc<RowTable>>,
) -> Result<u64, ReplayError> {
    let mut count = 0;
    let mut rows = HashMap::new();
    for transaction in transactions {
        let LoggedTransaction { lsn, records } = transaction?;
        for record in records {
            let (Record::Insert { table: number, .. }
            | Record::Update { table: number, .. }
            | Record::Delete { table: number, .. }) = record;
            if let Some(table) = table(number) {
                apply(&table, record, lsn, &mut rows)?;
            }
        }
        count += 1;
    }
    Ok(count)
}

/// Rows that were inserted: table and number in the log, and the number here.
type Rows = HashMap<(u32, RowId), RowId>;

fn apply(table: &RowTable, record: Record, lsn: u64, rows: &mut Rows) -> Result<(), ReplayError> {
    let failed = |source: TableError| ReplayError::Table { lsn, source };
    match record {
        Record::Insert { row, values, .. } => {
            let values: Vec<Value<'_>> = values.iter().map(LoggedValue::value).collect();
            let here = table.load(&values).map_err(failed)?;
            if table.spec.primary_key.is_empty() {
                rows.insert((table.number, row), here);
            }
        }
        Record::Update { row, columns, .. } => {
            let here = find(table, row, lsn, rows)?;
            for (column, value) in columns {
                let column = usize::from(column);
                table.check_column(column, &value.value()).map_err(|error| failed(error.into()))?;
                table.heap.set(here, column, value.value());
            }
        }
        Record::Delete { row, .. } => {
            let here = find(table, row, lsn, rows)?;
            for index in &table.indexes {
                let key = table.key_of(index, here);
                index.remove_latched(&index.latch(), &key, here);
            }
            table.heap.free(here);
        }
    }
    Ok(())
}

fn find(table: &RowTable, row: RowName, lsn: u64, rows: &Rows) -> Result<RowId, ReplayError> {
    let found = match &row {
        RowName::Number(number) => rows.get(&(table.number, *number)).copied(),
        RowName::Key(key) => {
            let values: Vec<Value<'_>> = key.iter().map(LoggedValue::value).collect();
            let index = &table.indexes[0];
            index.get(&index.keys.low(&values))
        }
    };
    found.ok_or_else(|| ReplayError::NoSuchRow { lsn, table: table.spec.name.clone(), row })
}
