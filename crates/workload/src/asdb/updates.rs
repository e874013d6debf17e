//! The two transactions that change values in place.

use super::buffers::{Buffers, execute_one};
use super::request::REVISED;
use super::schema::SCHEMA;
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, Session};
use crate::keyed;
use crate::statement::{Statement, Value};

/// Update Lite: adds an amount to a hot account's balance.
pub(super) fn update_lite(
    account: i64,
    amount: i64,
    session: &mut dyn Session,
    buffers: &mut Buffers,
) -> Result<Outcome, DatabaseError> {
    session.begin()?;
    execute_one(session, &ADD_TO_BALANCE, &[account, amount].map(Value::Int), &mut buffers.rows)?;
    session.commit()?;
    Ok(Outcome::Committed)
}

/// Update Heavy: revises documents all over the table.
pub(super) fn update_heavy(
    documents: &[i64; REVISED],
    time: i64,
    title: &str,
    session: &mut dyn Session,
    buffers: &mut Buffers,
) -> Result<Outcome, DatabaseError> {
    session.begin()?;
    for &document in documents {
        let revision = [Value::Int(document), Value::Int(time), Value::Text(title)];
        execute_one(session, &REVISE, &revision, &mut buffers.rows)?;
    }
    session.commit()?;
    Ok(Outcome::Committed)
}

/// (account, amount) → (balance, updates).
static ADD_TO_BALANCE: Statement = keyed::statement!(
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

/// Every statement of these transactions.
pub(super) static STATEMENTS: [&Statement; 2] = [&ADD_TO_BALANCE, &REVISE];
