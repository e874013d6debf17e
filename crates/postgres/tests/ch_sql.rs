//! CH-benCHmark on PostgreSQL: its 22 queries on data as loaded and after transactions, and its transactions, each
//! statement of which returns what its native form returns.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/twin.rs"]
mod twin;

use plimsoll_workload::benchmark::{Benchmark, CheckLine};
use plimsoll_workload::registry::make;
use twin::Twin;

fn ch(mix: &str) -> Box<dyn Benchmark> {
    let parameters = serde_json::from_value(serde_json::json!({ "mix": mix })).unwrap();
    make("ch", Some(1.0), &parameters, 7).unwrap().0
}

fn assert_holds(lines: &[CheckLine]) {
    let wrong = lines.iter().filter(|line| line.holds == Some(false)).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{wrong:#?}");
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

    twin.run(transactions.as_ref(), &[0, 1, 5], 460);
    twin.assert_equal_tables(transactions.as_ref());
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
