//! The two transactions that add entries, and the one that deletes them.
//!
//! An account's entries have consecutive numbers, and the account says which: whoever adds or deletes holds the account's
//! row, so numbers are unique without a sequence, and the account's count and sum can be held against its entries.

use super::desk::{Desk, execute_one};
use super::request::NewEntry;
use super::schema::*;
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, Session};
use crate::statement::{Intent, Statement, Value};

/// Insert Lite and Insert Heavy: adds entries, each at its product's price.
pub(super) fn insert(
    entries: &[NewEntry],
    time: i64,
    text: &str,
    session: &mut dyn Session,
    desk: &mut Desk,
) -> Result<Outcome, DatabaseError> {
    session.begin()?;
    for entry in entries {
        let [account, product, quantity] = [entry.account, entry.product, entry.quantity].map(Value::Int);
        execute_one(session, &READ_PRICE, &[product], &mut desk.rows)?;
        let amount = Value::Int(entry.quantity * desk.rows.int(0, 0));
        execute_one(session, &TAKE_NUMBER, &[account, amount], &mut desk.rows)?;
        let number = Value::Int(desk.rows.int(0, 0));
        let row = [account, number, product, quantity, amount, Value::Int(time), Value::Text(text)];
        session.execute(&INSERT_ENTRY, &row, &mut desk.rows)?;
    }
    session.commit()?;
    Ok(Outcome::Committed)
}

/// Delete: takes the oldest entries of accounts, and returns how many there were to take.
pub(super) fn delete(
    accounts: &[(i64, i64)],
    session: &mut dyn Session,
    desk: &mut Desk,
) -> Result<(Outcome, u64), DatabaseError> {
    session.begin()?;
    let mut deleted = 0;
    for &(account, wanted) in accounts {
        let account = Value::Int(account);
        execute_one(session, &LOCK_ACCOUNT, &[account], &mut desk.rows)?;
        let (first, next) = (desk.rows.int(0, 0), desk.rows.int(0, 1));
        let count = wanted.min(next - first);
        if count == 0 {
            continue;
        }
        let last = Value::Int(first + count - 1);
        execute_one(session, &DELETE_ENTRIES, &[account, Value::Int(first), last], &mut desk.rows)?;
        let (found, amount) = (desk.rows.int(0, 0), Value::Int(desk.rows.int(0, 1)));
        execute_one(session, &SETTLE, &[account, Value::Int(found), amount], &mut desk.rows)?;
        deleted += found as u64;
    }
    session.commit()?;
    Ok((Outcome::Committed, deleted))
}

/// (product) → (price, name).
static READ_PRICE: Statement = Statement {
    name: "read_price",
    sql: "SELECT (p_price * 100)::bigint, p_name FROM product WHERE p_id = $1",
    native: &|access, parameters, rows| {
        if let Some(product) = access.find(primary(PRODUCT), parameters, Intent::Read)? {
            rows.start(2);
            rows.append_stored(access, &SCHEMA, product, &[P_PRICE, P_NAME]);
        }
        Ok(())
    },
};

/// (account, amount) → (the number of the entry to be added).
static TAKE_NUMBER: Statement = Statement {
    name: "take_number",
    sql: "UPDATE account SET a_next = a_next + 1, a_total = a_total + $2::bigint * 0.01 WHERE a_id = $1 \
          RETURNING a_next - 1",
    native: &|access, parameters, rows| {
        let Some(account) = access.find(primary(ACCOUNT), &parameters[..1], Intent::Write)? else { return Ok(()) };
        let number = access.int(account, A_NEXT);
        access.set(account, A_NEXT, Value::Int(number + 1))?;
        access.set(account, A_TOTAL, Value::Int(access.int(account, A_TOTAL) + parameters[1].int()))?;
        rows.push(&[Value::Int(number)]);
        Ok(())
    },
};

/// (account, number, product, quantity, amount, time, text).
static INSERT_ENTRY: Statement = Statement {
    name: "insert_entry",
    sql: "INSERT INTO entry (e_account, e_number, e_product, e_quantity, e_amount, e_time, e_text) \
          VALUES ($1, $2, $3, $4, $5::bigint * 0.01, $6, $7)",
    native: &|access, parameters, rows| {
        access.insert(ENTRY, parameters)?;
        rows.set_affected(1);
        Ok(())
    },
};

/// (account) → (first entry, next entry); the account is locked to be changed.
static LOCK_ACCOUNT: Statement = Statement {
    name: "lock_account",
    sql: "SELECT a_first, a_next FROM account WHERE a_id = $1 FOR UPDATE",
    native: &|access, parameters, rows| {
        if let Some(account) = access.find(primary(ACCOUNT), parameters, Intent::Update)? {
            rows.start(2);
            rows.append_stored(access, &SCHEMA, account, &[A_FIRST, A_NEXT]);
        }
        Ok(())
    },
};

/// (account, first, last) → (entries deleted, the sum of their amounts); always one row.
static DELETE_ENTRIES: Statement = Statement {
    name: "delete_entries",
    sql: "WITH deleted AS (DELETE FROM entry WHERE e_account = $1 AND e_number >= $2 AND e_number <= $3 \
          RETURNING e_amount) SELECT count(*), (COALESCE(sum(e_amount), 0) * 100)::bigint FROM deleted",
    native: &|access, parameters, rows| {
        let &[account, first, last] = parameters else { panic!("three parameters") };
        let mut entries = Vec::with_capacity(4);
        access.find_all(primary(ENTRY), &[account, first], &[account, last], Intent::Write, &mut entries)?;
        let mut amount = 0;
        for &entry in &entries {
            amount += access.int(entry, E_AMOUNT);
            access.delete(entry)?;
        }
        rows.push(&[Value::Int(entries.len() as i64), Value::Int(amount)]);
        Ok(())
    },
};

/// (account, entries, amount) → (first entry): so many entries of that amount are no longer there.
static SETTLE: Statement = Statement {
    name: "settle",
    sql: "UPDATE account SET a_first = a_first + $2, a_total = a_total - $3::bigint * 0.01 WHERE a_id = $1 \
          RETURNING a_first",
    native: &|access, parameters, rows| {
        let Some(account) = access.find(primary(ACCOUNT), &parameters[..1], Intent::Write)? else { return Ok(()) };
        let first = Value::Int(access.int(account, A_FIRST) + parameters[1].int());
        access.set(account, A_FIRST, first)?;
        access.set(account, A_TOTAL, Value::Int(access.int(account, A_TOTAL) - parameters[2].int()))?;
        rows.push(&[first]);
        Ok(())
    },
};

/// Every statement of these transactions.
pub(super) static STATEMENTS: [&Statement; 6] =
    [&READ_PRICE, &TAKE_NUMBER, &INSERT_ENTRY, &LOCK_ACCOUNT, &DELETE_ENTRIES, &SETTLE];
