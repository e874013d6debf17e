//! Whether the books balance, and whether the booked transfers were drawn by the rules.
//!
//! All checks query the database, also those of the clients' input: the history records it, also that of earlier runs.

use std::sync::atomic::Ordering;

use super::Tpcb;
use super::client::{DELTA_MAX, REMOTE_PERCENT};
use super::schema::{ACCOUNTS_PER_BRANCH, HISTORY_FILLER, SCHEMA, TELLERS_PER_BRANCH};
use crate::benchmark::CheckLine;
use crate::condition::{Condition, judge};
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{answer, first_integer, line, row_count_line, work_line};
use crate::share::share;

/// Row counts, conditions, and the audit of the input.
pub(super) fn check(benchmark: &Tpcb, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    database.refresh(&SCHEMA)?;
    let mut session = database.session(&SCHEMA)?;
    let session = session.as_mut();
    let per_branch = [("branch", 1), ("teller", TELLERS_PER_BRANCH), ("account", ACCOUNTS_PER_BRANCH)];
    let rows = |(table, count): (&str, i64)| row_count_line(session, table, (count * benchmark.branches) as u64);
    let mut lines: Vec<_> = per_branch.map(rows).into();
    lines.push(history_line(session, benchmark.completed.load(Ordering::Relaxed)));
    for &(what, violations) in CONDITIONS {
        lines.push(judge(session, &Condition { what, violations: violations.to_owned() })?);
    }
    lines.push(delta_line(session));
    lines.push(remote_line(session, benchmark.branches));
    Ok(lines)
}

/// `IS DISTINCT FROM` is in parentheses, because DataFusion's parser takes everything after it as its right side.
pub(super) const CONDITIONS: &[(&str, &str)] = &[
    (
        "the sums of accounts, tellers, branches and the history are equal",
        "SELECT accounts, tellers, branches, amounts FROM (SELECT sum(a_balance) AS accounts FROM account) AS a \
         CROSS JOIN (SELECT sum(t_balance) AS tellers FROM teller) AS t \
         CROSS JOIN (SELECT sum(b_balance) AS branches FROM branch) AS b \
         CROSS JOIN (SELECT COALESCE(sum(h_delta), 0) AS amounts FROM history) AS h \
         WHERE (accounts IS DISTINCT FROM amounts) OR (tellers IS DISTINCT FROM amounts) \
         OR (branches IS DISTINCT FROM amounts)",
    ),
    (
        "each branch's balance = the sum of its tellers' = the sum of its history",
        "SELECT b_id, b_balance, tellers, amounts FROM branch \
         LEFT JOIN (SELECT t_b_id, sum(t_balance) AS tellers FROM teller GROUP BY t_b_id) AS t ON t_b_id = b_id \
         LEFT JOIN (SELECT h_b_id, sum(h_delta) AS amounts FROM history GROUP BY h_b_id) AS h ON h_b_id = b_id \
         WHERE (b_balance IS DISTINCT FROM tellers) OR b_balance <> COALESCE(amounts, 0)",
    ),
    (
        "each teller's balance = the sum of its history",
        "SELECT t_id, t_balance, amounts FROM teller \
         LEFT JOIN (SELECT h_t_id, sum(h_delta) AS amounts FROM history GROUP BY h_t_id) AS h ON h_t_id = t_id \
         WHERE t_balance <> COALESCE(amounts, 0)",
    ),
    (
        "each account's balance = the sum of its history",
        "SELECT a_id, a_balance, amounts FROM account \
         LEFT JOIN (SELECT h_a_id, sum(h_delta) AS amounts FROM history GROUP BY h_a_id) AS h ON h_a_id = a_id \
         WHERE a_balance <> COALESCE(amounts, 0)",
    ),
    (
        "the history names accounts there are, and tellers with their branches",
        "SELECT h_t_id, h_b_id, h_a_id, t_b_id, a_id FROM history LEFT JOIN teller ON t_id = h_t_id \
         LEFT JOIN account ON a_id = h_a_id WHERE (t_b_id IS DISTINCT FROM h_b_id) OR a_id IS NULL",
    ),
];

/// Each transaction adds a row to the history.
fn history_line(session: &mut dyn Session, completed: u64) -> CheckLine {
    let completed = completed as i64;
    work_line(
        format!("the history has {completed} rows, one for each transaction"),
        first_integer(session, "select count(*) from history"),
        completed,
        |missing| format!("{missing} rows are missing"),
        |more| format!("{}, so others have run too, or {more} were booked twice", completed + more),
    )
}

/// Whether amounts and fillers are in their bounds.
fn delta_line(session: &mut dyn Session) -> CheckLine {
    let what = format!("amounts are -{DELTA_MAX} to {DELTA_MAX}, with {HISTORY_FILLER} bytes of filler");
    let sql = format!(
        "select count(*), cast(min(h_delta) as bigint), cast(max(h_delta) as bigint), \
         sum(case when h_delta < -{DELTA_MAX} or h_delta > {DELTA_MAX} \
         or char_length(h_filler) <> {HISTORY_FILLER} then 1 else 0 end) from history"
    );
    let found = answer(session, &sql).and_then(|rows| {
        let cells: Vec<Option<String>> = rows.into_iter().flatten().collect();
        match cells.as_slice() {
            [Some(rows), ..] if rows == "0" => Ok("nothing has been done yet".to_owned()),
            [Some(rows), Some(least), Some(greatest), Some(outside)] => {
                let shown = format!("of {rows} rows, {outside} are not; the amounts are {least} to {greatest}");
                if outside == "0" { Ok(shown) } else { Err(shown) }
            }
            other => Err(format!("the answer is {other:?}")),
        }
    });
    line(what, found)
}

/// How often the account was at another branch than the teller (TPC-B 5.3.5).
fn remote_line(session: &mut dyn Session, branches: i64) -> CheckLine {
    let probability = if branches > 1 { REMOTE_PERCENT as f64 / 100.0 } else { 0.0 };
    let what = "the account is at another branch than the teller".to_owned();
    let counts = first_integer(session, "select count(*) from history").and_then(|all| {
        let remote = "select count(*) from history join account on a_id = h_a_id where a_b_id <> h_b_id";
        Ok((first_integer(session, remote)?, all))
    });
    match counts {
        Ok((remote, all)) => share(what, remote as u64, all as u64, probability),
        Err(error) => line(what, Err(error)),
    }
}
