//! The four transactions that only read. Three of them are one statement each.

use super::execute_one;
use super::schema::*;
use crate::database::{DatabaseError, Session};
use crate::keyed;
use crate::statement::{Intent, RowAccess, Rows, Statement, Value};

/// How many of an account's newest entries a Read Medium shows.
const NEWEST: i64 = 20;

/// Read Medium: a branch's accounts, and the newest entries of one of them.
pub(super) fn read_medium(
    branch: i64,
    place: usize,
    session: &mut dyn Session,
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    execute_one(session, &READ_BRANCH, &[Value::Int(branch)], rows)?;
    let row = place.min(rows.len() - 1);
    let (account, next) = (rows.int(row, 0), rows.int(row, 3));
    let newest = [account, next - NEWEST, next - 1].map(Value::Int);
    // An account whose entries were all deleted has no entries to show.
    session.execute(&READ_ENTRIES, &newest, rows)
}

/// Read Lite, of a hot account and its rate: (account) → (name, balance, updates, rate). Also written by hand, because
/// a keyed statement has one table.
pub(super) static READ_ACCOUNT: Statement = Statement {
    name: "read_account",
    sql: "SELECT a_name, (a_balance * 100)::bigint, a_updates, (r_rate * 10000)::bigint FROM account, rate \
          WHERE a_id = $1 AND r_id = a_rate",
    native: &|access, parameters, rows| {
        let Some(account) = access.find(primary(ACCOUNT), parameters, Intent::Read)? else { return Ok(()) };
        let key = [Value::Int(access.int(account, A_RATE))];
        let Some(rate) = access.find(primary(RATE), &key, Intent::Read)? else { return Ok(()) };
        rows.start(4);
        rows.append_stored(access, &SCHEMA, account, &[A_NAME, A_BALANCE, A_UPDATES]);
        rows.append_stored(access, &SCHEMA, rate, &[R_RATE]);
        Ok(())
    },
};

/// (branch) → (account, balance, first entry, next entry) of each account, in order.
static READ_BRANCH: Statement = keyed::statement!(
    SCHEMA,
    "read_branch",
    "SELECT a_id, (a_balance * 100)::bigint, a_first, a_next FROM account WHERE a_branch = $1 ORDER BY a_id"
);

/// (account, first, last) → (number, product, quantity, amount, time, text) of each entry between, in order.
static READ_ENTRIES: Statement = keyed::statement!(
    SCHEMA,
    "read_entries",
    "SELECT e_number, e_product, e_quantity, (e_amount * 100)::bigint, e_time, e_text FROM entry \
     WHERE e_account = $1 AND e_number >= $2 AND e_number <= $3 ORDER BY e_number"
);

/// Read Heavy, of rows all over the table: (topic) → (documents, bytes, versions, last change); always one row.
pub(super) static READ_TOPIC: Statement = keyed::statement!(
    SCHEMA,
    "read_topic",
    "SELECT count(*), COALESCE(sum(d_size), 0)::bigint, COALESCE(sum(d_version), 0)::bigint, max(d_changed) \
     FROM document WHERE d_topic = $1"
);

/// The modulus of the sum over pairs. The SQL text repeats this number.
const MODULUS: i64 = 9_973;

/// CPU Heavy: (addend) → (the sum over all pairs of samples of the remainder of value * weight + addend); always one
/// row. Also written by hand: a keyed statement neither pairs rows nor reads all of them.
pub(super) static SUM_PAIRS: Statement = Statement {
    name: "sum_pairs",
    sql: "SELECT COALESCE(sum((a.s_value::bigint * b.s_weight + $1::bigint) % 9973), 0)::bigint \
          FROM sample AS a CROSS JOIN sample AS b",
    native: &sum_pairs,
};

fn sum_pairs(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let addend = parameters[0].int();
    let mut samples = Vec::with_capacity(SAMPLES as usize);
    access.find_all(primary(SAMPLE), &[], &[], Intent::Read, &mut samples)?;
    let column = |column| samples.iter().map(|&sample| access.int(sample, column)).collect::<Vec<_>>();
    let (values, weights) = (column(S_VALUE), column(S_WEIGHT));
    let remainders = |value: &i64| weights.iter().map(|weight| (value * weight + addend) % MODULUS).sum::<i64>();
    rows.push(&[Value::Int(values.iter().map(remainders).sum())]);
    Ok(())
}

pub(super) static STATEMENTS: [&Statement; 5] = [&READ_ACCOUNT, &READ_BRANCH, &READ_ENTRIES, &READ_TOPIC, &SUM_PAIRS];
