//! Queries over snapshots: answers, errors, and the threads they run on.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};

use super::*;
use crate::columns::{ColumnStore, ColumnTable};

fn table(rows: i64) -> Arc<ColumnTable> {
    let ids = Arc::new(Int64Array::from_iter_values(0..rows));
    let batch = RecordBatch::try_from_iter([("id", ids as _)]).unwrap();
    Arc::new(ColumnTable::build("ship", batch.schema(), vec![vec![0]], vec![batch]).unwrap())
}

fn number(output: &QueryOutput) -> i64 {
    output.batches[0].column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0)
}

#[test]
fn an_answer_says_which_snapshot_it_was_read_from() {
    let store = ColumnStore::new();
    store.publish([table(10)], "as loaded");
    let before = store.snapshot();
    store.publish([table(20)], "refresh 1");
    let engine = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
    let ask = |snapshot| engine.query(snapshot, "select count(*) from ship", None).unwrap();
    assert_eq!((number(&ask(&before)), ask(&before).snapshot.as_str()), (10, "as loaded"));
    assert_eq!((number(&ask(&store.snapshot())), ask(&store.snapshot()).snapshot.as_str()), (20, "refresh 1"));
}

#[test]
fn every_degree_of_parallelism_and_client_gets_the_same_answer() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(500_000)]));
    let engine = QueryEngine::new(QueryOptions { dop: 1, workers: 2, ..QueryOptions::default() }).unwrap();
    let sql = "select sum(a.id) from ship a, ship b where a.id = b.id and b.id >= 250000 and b.id < 250010";
    std::thread::scope(|scope| {
        for dop in [None, Some(0), Some(1), Some(2), Some(7)] {
            let (engine, snapshot) = (&engine, &snapshot);
            scope.spawn(move || assert_eq!(number(&engine.query(snapshot, sql, dop).unwrap()), 2_500_045, "{dop:?}"));
        }
    });
}

#[test]
fn a_limit_is_kept() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(200_000)]));
    let engine = QueryEngine::new(QueryOptions::default()).unwrap();
    let ask =
        |sql| engine.query(&snapshot, sql, Some(2)).unwrap().batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(ask("select id from ship limit 17"), 17);
    assert_eq!(ask("select id from ship where id % 1000 = 3 limit 17"), 17);
    assert_eq!(ask("select id from ship where id < 5 limit 17"), 5);
}

#[test]
fn errors_are_values_that_say_what_is_wrong() {
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table(10)]));
    let engine = QueryEngine::new(QueryOptions::default()).unwrap();
    let ask = |sql| engine.query(&snapshot, sql, None).unwrap_err();
    for sql in ["selec 1", "select id from boat", "select name from ship"] {
        assert!(matches!(ask(sql), QueryError::Plan(_)), "{sql}: {}", ask(sql));
    }
    let error = ask("select 1 / (id - 5) from ship");
    assert!(matches!(&error, QueryError::Execute(message) if message.contains("ivide by zero")), "{error}");
    assert_eq!(number(&engine.query(&snapshot, "select count(*) from ship", None).unwrap()), 10);
}
