//! Whether work was lost: accounts compared with their entries, and the data with the clients' work.

use super::Asdb;
use super::population::{BALANCE_LOADED, Sizes};
use super::schema::*;
use crate::benchmark::CheckLine;
use crate::condition::{Condition, judge};
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{first_integer, integer_line, line, row_count_line, work_line};

/// Checks the tables' rows, the invariants, the clients' work and the mix.
pub(super) fn check(asdb: &Asdb, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    database.refresh(&SCHEMA)?;
    let mut session = database.session(&SCHEMA)?;
    let session = session.as_mut();
    let (sizes, done) = (asdb.sizes, asdb.audit.done());
    let mut lines = Vec::new();
    for table in [RATE, SAMPLE, ACCOUNT, PRODUCT, DOCUMENT] {
        lines.push(row_count_line(session, SCHEMA.tables[table].name, sizes.rows(table)));
    }
    for condition in conditions() {
        lines.push(judge(session, &condition)?);
    }
    let loaded = sizes.rows(ENTRY) as i64;
    for (what, sql, before, by_clients) in [
        ("updates of balances", "SELECT CAST(sum(a_updates) AS bigint) FROM account", 0, done.updates),
        ("revisions of documents", "SELECT CAST(sum(d_version - 1) AS bigint) FROM document", 0, done.revisions),
        ("entries inserted", "SELECT CAST(sum(a_next - 1) AS bigint) FROM account", loaded, done.inserted),
        ("entries deleted", "SELECT CAST(sum(a_first - 1) AS bigint) FROM account", 0, done.deleted),
    ] {
        lines.push(counter_line(session, what, sql, before, by_clients));
    }
    lines.push(entries_line(session, sizes, done.inserted - done.deleted));
    let is_alone = lines.iter().all(|line| line.holds.is_some());
    lines.push(balance_line(session, sizes, done.added, is_alone));
    if !done.is_nothing() {
        lines.extend(done.judge_mix());
    }
    Ok(lines)
}

/// Conditions that hold at any time.
pub(super) fn conditions() -> Vec<Condition> {
    let condition = |what, violations: &str| Condition { what, violations: violations.to_owned() };
    vec![
        condition(
            "an account's entries are those from A_FIRST to before A_NEXT",
            "SELECT a_id, a_first, a_next, number_min, number_max, entry_count, e_account FROM account \
             FULL JOIN (SELECT e_account, min(e_number) AS number_min, max(e_number) AS number_max, \
             count(*) AS entry_count FROM entry GROUP BY e_account) AS e ON e_account = a_id \
             WHERE a_id IS NULL OR COALESCE(entry_count, 0) <> a_next - a_first OR number_min <> a_first \
             OR number_max <> a_next - 1",
        ),
        condition(
            "A_TOTAL = the sum of the account's entries",
            "SELECT a_id, a_total, amounts FROM account \
             LEFT JOIN (SELECT e_account, sum(e_amount) AS amounts FROM entry GROUP BY e_account) AS e \
             ON e_account = a_id WHERE a_total <> COALESCE(amounts, 0)",
        ),
        condition(
            "E_AMOUNT = quantity * price of the entry's product",
            "SELECT e_account, e_number, e_product, e_quantity, e_amount, p_price FROM entry \
             LEFT JOIN product ON p_id = e_product WHERE p_id IS NULL OR e_amount <> e_quantity * p_price",
        ),
        condition(
            "every branch has ten accounts",
            "SELECT a_branch, accounts FROM (SELECT a_branch, count(*) AS accounts FROM account GROUP BY a_branch) AS b \
             WHERE accounts <> 10",
        ),
        condition(
            "every account has a rate",
            "SELECT a_id, a_rate FROM account LEFT JOIN rate ON r_id = a_rate WHERE r_id IS NULL",
        ),
        condition(
            "every topic has fifty documents",
            "SELECT d_topic, documents FROM (SELECT d_topic, count(*) AS documents FROM document GROUP BY d_topic) AS d \
             WHERE documents <> 50",
        ),
        condition(
            "D_SIZE = the length of the document's body",
            "SELECT d_id, d_size FROM document WHERE d_size <> char_length(d_body)",
        ),
    ]
}

/// Whether a counter in the data equals the work of this process's clients.
fn counter_line(session: &mut dyn Session, what: &str, sql: &str, loaded: i64, by_clients: i64) -> CheckLine {
    work_line(
        format!("the data tell of {by_clients} {what} since loading"),
        first_integer(session, sql).map(|found| found - loaded),
        by_clients,
        |missing| format!("{missing} are missing"),
        |more| format!("others have run too, or {more} were done twice"),
    )
}

/// Whether the growing table has grown by the rows inserted less those deleted since loading, by any client.
fn entries_line(session: &mut dyn Session, sizes: Sizes, by_clients: i64) -> CheckLine {
    let what = "rows of entry = those loaded + inserted - deleted".to_owned();
    let counts = first_integer(session, "SELECT count(*) FROM entry").and_then(|rows| {
        let kept = first_integer(session, "SELECT CAST(sum(a_next - a_first) AS bigint) FROM account")?;
        Ok((rows, kept))
    });
    let grown = |rows: i64| rows - sizes.rows(ENTRY) as i64;
    line(
        what,
        counts.and_then(|(rows, kept)| match rows == kept {
            true => Ok(format!("{rows}, {:+} since loading, {by_clients:+} by these clients", grown(rows))),
            false => Err(format!("{rows}, while the accounts tell of {kept}")),
        }),
    )
}

/// Whether balances add up to the loaded sum plus the additions; known only if no other clients have run.
fn balance_line(session: &mut dyn Session, sizes: Sizes, added: i64, is_alone: bool) -> CheckLine {
    let expected = sizes.accounts() * BALANCE_LOADED + added;
    let what = format!("the sum of all balances is {expected} hundredths");
    if !is_alone {
        return CheckLine { what, holds: None, found: "not judged: others have run too".to_owned() };
    }
    integer_line(session, what, "SELECT CAST(sum(a_balance) * 100 AS bigint) FROM account", expected)
}
