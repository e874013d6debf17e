//! The context of an interaction: the session, result buffers, and the state of the shop's application; and how native
//! statements find and show rows.

use super::numbers::{NumberedTable, Numbers};
use super::schema::{SCHEMA, primary};
use crate::database::{DatabaseError, Session};
use crate::schema::{ColumnId, Index, TableId};
use crate::statement::{Intent, RowAccess, RowRef, Rows, Statement, Value};

/// The shop as an interaction uses it.
pub(super) struct Shop<'a> {
    pub(super) session: &'a mut dyn Session,
    /// The rows of the last statement.
    pub(super) rows: &'a mut Rows,
    pub(super) numbers: &'a Numbers,
    /// The time that rows are stamped with, in microseconds.
    pub(super) now: i64,
}

impl Shop<'_> {
    pub(super) fn execute(&mut self, statement: &Statement<'_>, parameters: &[Value<'_>]) -> Result<(), DatabaseError> {
        self.session.execute(statement, parameters, self.rows)
    }

    /// Runs a statement that must find or change a row. If it does not, the data are not TPC-W's: the transaction is
    /// rolled back and fails.
    pub(super) fn execute_one(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
    ) -> Result<(), DatabaseError> {
        self.execute(statement, parameters)?;
        if self.rows.is_empty() && self.rows.affected() == 0 {
            self.session.rollback()?;
            return Err(DatabaseError::Failed(format!(
                "{} found no row with {parameters:?}; load tpcw at this scale first",
                statement.name
            )));
        }
        Ok(())
    }

    pub(super) fn number(&self, of: NumberedTable) -> Value<'static> {
        Value::Int(self.numbers.take(of))
    }
}

/// The row of that number in a table whose key is one number.
pub(super) fn find(
    access: &mut dyn RowAccess,
    table: TableId,
    id: i64,
    intent: Intent,
) -> Result<Option<RowRef>, DatabaseError> {
    access.find(primary(table), &[Value::Int(id)], intent)
}

/// The row of a table whose number is in a column of another row.
pub(super) fn referred(
    access: &mut dyn RowAccess,
    row: RowRef,
    column: ColumnId,
    table: TableId,
    intent: Intent,
) -> Result<Option<RowRef>, DatabaseError> {
    let id = access.int(row, column);
    find(access, table, id, intent)
}

/// All rows of a range of an index, to be read.
pub(super) fn find_all(
    access: &mut dyn RowAccess,
    index: Index,
    low: &[Value<'_>],
    high: &[Value<'_>],
) -> Result<Vec<RowRef>, DatabaseError> {
    let mut found = Vec::new();
    access.find_all(index, low, high, Intent::Read, &mut found)?;
    Ok(found)
}

pub(super) fn text(access: &dyn RowAccess, row: RowRef, column: ColumnId) -> String {
    let mut text = String::new();
    access.text(row, column, &mut text);
    text
}

/// Adds a result row of columns of several rows.
pub(super) fn show(access: &dyn RowAccess, rows: &mut Rows, parts: &[(RowRef, &[ColumnId])]) {
    rows.start(parts.iter().map(|(_, columns)| columns.len()).sum());
    for (row, columns) in parts {
        rows.append_stored(access, &SCHEMA, *row, columns);
    }
}

/// Writes columns of a row, if it was found.
pub(super) fn set(
    access: &mut dyn RowAccess,
    found: Option<RowRef>,
    values: &[(ColumnId, Value<'_>)],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    if let Some(row) = found {
        for &(column, value) in values {
            access.set(row, column, value)?;
        }
        rows.set_affected(1);
    }
    Ok(())
}
