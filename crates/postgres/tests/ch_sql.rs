//! CH-benCHmark on PostgreSQL: its 22 queries on data as loaded and after transactions, and its transactions. Each
//! statement of these returns what its native form returns.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/twin.rs"]
mod twin;

use plimsoll_workload::benchmark::{Benchmark, CheckLine};
use plimsoll_workload::database::Database;
use plimsoll_workload::registry::make;
use plimsoll_workload::tpch::cells::{TextRow, text_rows};
use twin::Twin;

fn ch(mix: &str) -> Box<dyn Benchmark> {
    let parameters = serde_json::from_value(serde_json::json!({ "mix": mix })).unwrap();
    make("ch", Some(1.0), &parameters, 7).unwrap().0
}

fn assert_holds(lines: &[CheckLine]) {
    let wrong = lines.iter().filter(|line| line.holds == Some(false)).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The answers to the queries that read only loaded orders and tables that never change. The others read stock and
/// balances, which change in place, and orders that wait for delivery.
fn loaded_only(queries: &dyn Benchmark, twin: &Twin) -> Vec<(String, Vec<TextRow>)> {
    let of_others = ["q2", "q3", "q11", "q16", "q20", "q22"];
    let texts = queries.queries().into_iter().filter(|(name, _)| !of_others.contains(&name.as_str()));
    let mut session = twin.sql().session(queries.schema()).unwrap();
    let answers = texts.map(|(name, text)| {
        let mut rows = text_rows(&session.query(&text).unwrap().batches).unwrap();
        // Some queries do not define the order of equal rows.
        rows.sort_unstable();
        (name, rows)
    });
    answers.collect()
}

#[test]
fn queries_return_rows_before_and_after_transactions_that_do_what_their_native_forms_do() {
    let (queries, transactions) = (ch("queries"), ch("transactions"));
    let twin = Twin::loaded(queries.as_ref());
    let lines = queries.check(twin.sql()).unwrap();
    assert_holds(&lines);
    let answers = |lines: &[CheckLine]| lines.iter().filter(|line| line.what.starts_with('q')).count();
    assert_eq!(answers(&lines), 22);
    assert!(lines.iter().any(|line| line.what == "q18 returns 9000 rows, none of nulls alone"), "{lines:#?}");

    let before = loaded_only(queries.as_ref(), &twin);
    twin.run(transactions.as_ref(), &[0, 1, 5], 460);
    twin.assert_equal_tables(transactions.as_ref());
    for ((name, before), (_, after)) in before.iter().zip(loaded_only(queries.as_ref(), &twin)) {
        assert!(*before == after, "the answer to {name} has changed, so it looks at what transactions have added");
    }
    let lines = transactions.check(twin.sql()).unwrap();
    assert_holds(&lines);
    assert_eq!(answers(&lines), 22);
    assert!(lines.iter().any(|line| line.what == "q18 returns rows, none of nulls alone"), "{lines:#?}");
}

#[test]
fn a_stream_of_queries_runs() {
    let queries = ch("queries");
    let twin = Twin::loaded(queries.as_ref());
    twin.run(queries.as_ref(), &[3], 22);
}
