//! What a running transaction needs besides its input: result buffers that are kept, and the last names.

use std::sync::Arc;

use crate::database::{DatabaseError, Session, missing_row};
use crate::statement::{Rows, Statement, Value};

/// Buffers that a client keeps between transactions, so that running allocates nothing.
#[derive(Debug)]
pub(super) struct Buffers {
    /// The rows of the last statement.
    pub(super) rows: Rows,
    /// Further rows, where those of the last statement must stay readable during the next.
    pub(super) more_rows: Rows,
    /// Text put together for a parameter.
    pub(super) text: String,
    /// All last names by number.
    pub(super) last_names: Arc<[String]>,
}

impl Buffers {
    /// Empty buffers.
    pub(super) fn new(last_names: Arc<[String]>) -> Self {
        Buffers { rows: Rows::new(), more_rows: Rows::new(), text: String::new(), last_names }
    }
}

/// Runs a statement that must find its row. Where it does not, the data are not TPC-C's: the transaction is rolled back
/// and fails.
pub(super) fn execute_one(
    session: &mut dyn Session,
    statement: &Statement<'_>,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    session.execute(statement, parameters, rows)?;
    if rows.is_empty() {
        return Err(missing_row(session, "tpcc", statement, parameters));
    }
    Ok(())
}
