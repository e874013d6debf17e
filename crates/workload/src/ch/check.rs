//! Whether the tables beside TPC-C's are whole, and whether every query returns something.

use super::Ch;
use super::population::{BAD, SUPPLIERS, SUPPLIERS_PER_BAD_ONE, TABLES};
use super::queries::{COUNTED, QUERIES, QuerySpec};
use super::schema::SCHEMA;
use crate::benchmark::{Benchmark, CheckLine};
use crate::condition::{Condition, judge};
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{answer, first_integer, line, row_count_line};
use crate::tpcc::{DISTRICTS_PER_WAREHOUSE, ORDERS_DELIVERED, ORDERS_LOADED};
use crate::tpch::cells::TextRow;

/// TPC-C's lines, then those of the three tables, then one for each query.
pub(super) fn check(ch: &Ch, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    let mut lines = ch.tpcc.check(database)?;
    let mut session = database.session(&SCHEMA)?;
    let session = session.as_mut();
    for (table, rows) in TABLES {
        lines.push(row_count_line(session, SCHEMA.tables[table].name, rows));
    }
    for condition in conditions() {
        lines.push(judge(session, &condition)?);
    }
    let counted = is_counted(ch, session)?;
    lines.extend(QUERIES.iter().map(|query| query_line(session, query, ch.tpcc.warehouses(), counted)));
    Ok(lines)
}

/// Conditions on the three tables that hold at any time.
fn conditions() -> Vec<Condition> {
    let bad = SUPPLIERS / SUPPLIERS_PER_BAD_ONE;
    let highest = SUPPLIERS - 1;
    vec![
        Condition {
            what: "supplier: keys are 0 to 9999, each remainder of a division by 10000",
            violations: format!(
                "SELECT key_min, key_max FROM (SELECT min(su_suppkey) AS key_min, max(su_suppkey) AS key_max \
                 FROM supplier) AS s WHERE key_min <> 0 OR key_max <> {highest}"
            ),
        },
        Condition {
            what: "supplier: one in a hundred has a bad comment",
            violations: format!(
                "SELECT bad_count FROM (SELECT count(*) AS bad_count FROM supplier \
                 WHERE su_comment LIKE '%{BAD}%') AS s WHERE bad_count <> {bad}"
            ),
        },
        Condition {
            what: "nation: every supplier has one, every nation has suppliers",
            violations: "SELECT n_nationkey, supplier_key, supplier_count FROM nation \
                         FULL JOIN (SELECT su_nationkey AS supplier_key, count(*) AS supplier_count FROM supplier \
                         GROUP BY su_nationkey) AS s ON supplier_key = n_nationkey \
                         WHERE n_nationkey IS NULL OR supplier_key IS NULL"
                .to_owned(),
        },
        Condition {
            what: "nation: every customer's state begins with the character of one",
            violations: "SELECT c_w_id, c_d_id, c_id, c_state FROM customer \
                         LEFT JOIN nation ON n_nationkey = ascii(substring(c_state from 1 for 1)) \
                         WHERE n_nationkey IS NULL"
                .to_owned(),
        },
        Condition {
            what: "region: every nation has one, every region has nations",
            violations: "SELECT r_regionkey, nation_region, nation_count FROM region \
                         FULL JOIN (SELECT n_regionkey AS nation_region, count(*) AS nation_count FROM nation \
                         GROUP BY n_regionkey) AS n ON nation_region = r_regionkey \
                         WHERE r_regionkey IS NULL OR nation_region IS NULL"
                .to_owned(),
        },
    ]
}

/// Whether the data are those for which numbers of rows are known, as they were loaded.
fn is_counted(ch: &Ch, session: &mut dyn Session) -> Result<bool, DatabaseError> {
    if (ch.tpcc.warehouses(), ch.seed) != COUNTED || ch.tpcc.why_touched(session)?.is_some() {
        return Ok(false);
    }
    // Deliveries alone are neither orders nor payments.
    let undelivered = ch.tpcc.warehouses() * DISTRICTS_PER_WAREHOUSE * (ORDERS_LOADED - ORDERS_DELIVERED);
    Ok(first_integer(session, "SELECT count(*) FROM new_order") == Ok(undelivered))
}

/// Whether a query returns rows, none of them only nulls, and the expected number of rows where that is known.
fn query_line(session: &mut dyn Session, query: &QuerySpec, warehouses: i64, counted: bool) -> CheckLine {
    let what = match counted {
        true => format!("{} returns {} rows, none of nulls alone", query.name, query.rows),
        false => format!("{} returns rows, none of nulls alone", query.name),
    };
    let found = answer(session, &query.sql(warehouses));
    line(what, found.and_then(|rows| judge_rows(&rows, counted.then_some(query.rows))))
}

fn judge_rows(rows: &[TextRow], expected: Option<usize>) -> Result<String, String> {
    let found = format!("{} rows", rows.len());
    if rows.is_empty() || expected.is_some_and(|expected| expected != rows.len()) {
        return Err(found);
    }
    match rows.iter().position(|row| row.iter().all(Option::is_none)) {
        Some(row) => Err(format!("row {} of {} has nothing but nulls", row + 1, rows.len())),
        None => Ok(found),
    }
}
