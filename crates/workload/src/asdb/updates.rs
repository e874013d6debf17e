//! The two transactions that change values in place.

use super::execute_one;
use super::request::REVISED;
use super::schema::SCHEMA;
use crate::database::{DatabaseError, Session};
use crate::keyed;
use crate::statement::{Rows, Statement, Value};

/// Update Heavy: revises documents all over the table.
pub(super) fn update_heavy(
    documents: &[i64; REVISED],
    time: i64,
    title: &str,
    session: &mut dyn Session,
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    for &document in documents {
        let revision = [Value::Int(document), Value::Int(time), Value::Text(title)];
        execute_one(session, &REVISE, &revision, rows)?;
    }
    Ok(())
}

/// Update Lite, of a hot account: (account, amount) → (balance, updates).
pub(super) static ADD_TO_BALANCE: Statement = keyed::statement!(
    SCHEMA,
    "add_to_balance",
    "UPDATE account SET a_balance = a_balance + $2::bigint * 0.01, a_updates = a_updates + 1 WHERE a_id = $1 \
     RETURNING (a_balance * 100)::bigint, a_updates"
);

/// (document, time, title) → (version).
static REVISE: Statement = keyed::statement!(
    SCHEMA,
    "revise",
    "UPDATE document SET d_version = d_version + 1, d_changed = $2, d_title = $3 WHERE d_id = $1 RETURNING d_version"
);

pub(super) static STATEMENTS: [&Statement; 2] = [&ADD_TO_BALANCE, &REVISE];
