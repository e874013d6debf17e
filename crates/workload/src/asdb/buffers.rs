//! What a running transaction needs besides its input.

use crate::database::{DatabaseError, Session, missing_row};
use crate::statement::{Rows, Statement, Value};

/// A buffer that a client keeps between transactions, so that running allocates little.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The rows of the last statement.
    pub(super) rows: Rows,
}

/// Runs a statement that must find its row. Where it does not, the data are not this benchmark's: the transaction is
/// rolled back and fails.
pub(super) fn execute_one(
    session: &mut dyn Session,
    statement: &Statement<'_>,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    session.execute(statement, parameters, rows)?;
    if rows.is_empty() {
        return Err(missing_row(session, "asdb", statement, parameters));
    }
    Ok(())
}
