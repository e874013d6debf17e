//! The data that a running transaction needs besides its input: reusable result buffers, and the last names.

use std::sync::Arc;

use crate::database::{self, DatabaseError, Session};
use crate::statement::{Rows, Statement, Value};

/// Buffers that a client keeps between transactions, so that running allocates nothing.
#[derive(Debug)]
pub(super) struct Buffers {
    /// The rows of the last statement.
    pub(super) rows: Rows,
    /// Further rows, if those of the last statement must stay readable during the next.
    pub(super) more_rows: Rows,
    /// Text put together for a parameter.
    pub(super) text: String,
    /// All last names by number.
    pub(super) last_names: Arc<[String]>,
}

impl Buffers {
    pub(super) fn new(last_names: Arc<[String]>) -> Self {
        Buffers { rows: Rows::new(), more_rows: Rows::new(), text: String::new(), last_names }
    }
}

/// Runs a statement that must find its row, as [`database::execute_one`] does.
pub(super) fn execute_one(
    session: &mut dyn Session,
    statement: &Statement<'_>,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    database::execute_one(session, "tpcc", statement, parameters, rows)
}
