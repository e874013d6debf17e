//! The two transactions that add entries, and the one that deletes them.
//!
//! An account's entries have consecutive numbers, which the account's row records. A transaction that adds or deletes
//! entries locks that row, so numbers are unique without a sequence, and the account's count and sum can be compared
//! with its entries.

use super::execute_one;
use super::request::NewEntry;
use super::schema::SCHEMA;
use crate::database::{DatabaseError, Session};
use crate::keyed;
use crate::statement::{Rows, Statement, Value};

/// Insert Lite and Insert Heavy: adds entries, each at its product's price.
pub(super) fn insert(
    entries: &[NewEntry],
    time: i64,
    text: &str,
    session: &mut dyn Session,
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    for entry in entries {
        let [account, product, quantity] = [entry.account, entry.product, entry.quantity].map(Value::Int);
        execute_one(session, &READ_PRICE, &[product], rows)?;
        let amount = Value::Int(entry.quantity * rows.int(0, 0));
        execute_one(session, &TAKE_NUMBER, &[account, amount], rows)?;
        let number = Value::Int(rows.int(0, 0));
        let row = [account, number, product, quantity, amount, Value::Int(time), Value::Text(text)];
        session.execute(&INSERT_ENTRY, &row, rows)?;
    }
    Ok(())
}

/// Delete: takes the oldest entries of accounts, and returns how many there were to take.
pub(super) fn delete(
    accounts: &[(i64, i64)],
    session: &mut dyn Session,
    rows: &mut Rows,
) -> Result<u64, DatabaseError> {
    let mut deleted = 0;
    for &(account, wanted) in accounts {
        let account = Value::Int(account);
        execute_one(session, &LOCK_ACCOUNT, &[account], rows)?;
        let (first, next) = (rows.int(0, 0), rows.int(0, 1));
        let count = wanted.min(next - first);
        if count == 0 {
            continue;
        }
        let last = Value::Int(first + count - 1);
        execute_one(session, &DELETE_ENTRIES, &[account, Value::Int(first), last], rows)?;
        let (found, amount) = (rows.len(), (0..rows.len()).map(|entry| rows.int(entry, 0)).sum());
        execute_one(session, &SETTLE, &[account, Value::Int(found as i64), Value::Int(amount)], rows)?;
        deleted += found as u64;
    }
    Ok(deleted)
}

/// (product) → (price, name).
static READ_PRICE: Statement =
    keyed::statement!(SCHEMA, "read_price", "SELECT (p_price * 100)::bigint, p_name FROM product WHERE p_id = $1");

/// (account, amount) → (the number of the entry to be added).
static TAKE_NUMBER: Statement = keyed::statement!(
    SCHEMA,
    "take_number",
    "UPDATE account SET a_next = a_next + 1, a_total = a_total + $2::bigint * 0.01 WHERE a_id = $1 \
     RETURNING a_next - 1"
);

/// (account, number, product, quantity, amount, time, text).
static INSERT_ENTRY: Statement = keyed::statement!(
    SCHEMA,
    "insert_entry",
    "INSERT INTO entry (e_account, e_number, e_product, e_quantity, e_amount, e_time, e_text) \
     VALUES ($1, $2, $3, $4, $5::bigint * 0.01, $6, $7)"
);

/// (account) → (first entry, next entry); the account is locked to be changed.
static LOCK_ACCOUNT: Statement =
    keyed::statement!(SCHEMA, "lock_account", "SELECT a_first, a_next FROM account WHERE a_id = $1 FOR UPDATE");

/// (account, first, last) → (amount) of each entry that is deleted.
static DELETE_ENTRIES: Statement = keyed::statement!(
    SCHEMA,
    "delete_entries",
    "DELETE FROM entry WHERE e_account = $1 AND e_number >= $2 AND e_number <= $3 RETURNING (e_amount * 100)::bigint"
);

/// (account, entries, amount) → (first entry): removes a number of entries of that amount from the account.
static SETTLE: Statement = keyed::statement!(
    SCHEMA,
    "settle",
    "UPDATE account SET a_first = a_first + $2, a_total = a_total - $3::bigint * 0.01 WHERE a_id = $1 \
     RETURNING a_first"
);

pub(super) static STATEMENTS: [&Statement; 6] =
    [&READ_PRICE, &TAKE_NUMBER, &INSERT_ENTRY, &LOCK_ACCOUNT, &DELETE_ENTRIES, &SETTLE];
