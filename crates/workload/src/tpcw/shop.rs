//! The context of an interaction: the session, result buffers, and the state of the shop's application; and how native
//! statements show and change rows.

use super::numbers::{NumberedTable, Numbers};
use super::schema::SCHEMA;
use crate::database::{DatabaseError, Session};
use crate::lookup;
pub(super) use crate::lookup::{find, find_all, referred, text};
use crate::schema::ColumnId;
use crate::statement::{RowAccess, RowRef, Rows, Statement, Value};

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

/// Adds a result row of columns of several rows.
pub(super) fn show(access: &dyn RowAccess, rows: &mut Rows, parts: &[(RowRef, &[ColumnId])]) {
    lookup::show(access, &SCHEMA, rows, parts);
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
