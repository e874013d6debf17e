//! Queries that group or sort by a key and by columns that the key does not determine.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::*;
use crate::columns::{ColumnSnapshot, ColumnTable};
use crate::query::printed::rows;
use crate::query::{QueryEngine, QueryOptions};

fn table(name: &str, keys: Vec<Vec<usize>>, columns: [(&str, &[i64]); 2]) -> Arc<ColumnTable> {
    let columns = columns.map(|(name, values)| (name, Arc::new(Int64Array::from(values.to_vec())) as ArrayRef, false));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    Arc::new(ColumnTable::build(name, batch.schema(), keys, vec![batch]).unwrap())
}

#[test]
fn the_key_of_one_input_does_not_determine_the_other_one() {
    // Each ship calls at ports: its key alone says nothing of them.
    let tables = [
        table("ship", vec![vec![0]], [("id", &[1, 2, 3]), ("age", &[7, 7, 8])]),
        table("call", vec![], [("ship", &[1, 1, 2, 2, 2, 3]), ("port", &[10, 20, 10, 20, 20, 5])]),
    ];
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", tables));
    let pairs = "select distinct s.id, c.port from ship s join call c on s.id = c.ship";
    let groups = "select s.id, c.port, count(*) as calls from (select id from ship group by id) s join call c on s.id = c.ship group by s.id, c.port";
    for (sql, expect) in [
        (format!("select id, port from ({pairs}) p order by id, port desc"), "1 20, 1 10, 2 20, 2 10, 3 5"),
        (format!("select id, count(*) from ({pairs}) p group by id order by id"), "1 2, 2 2, 3 1"),
        (format!("select count(*) from (select id, port, count(*) from ({pairs}) p group by id, port) q"), "5"),
        (format!("select id, count(*), sum(calls) from ({groups}) g group by id order by id"), "1 2 2, 2 2 3, 3 1 1"),
        (format!("with g as ({groups}) select id, count(*) from g group by id order by id"), "1 2, 2 2, 3 1"),
        (format!("select id, port from ({groups}) g order by id, port desc"), "1 20, 1 10, 2 20, 2 10, 3 5"),
        (format!("select count(*) from (select distinct id, port from ({pairs}) p) d"), "5"),
        // Columns that a key does determine may be selected without being grouped by.
        (
            "select id, age, count(*) from ship join call on id = ship group by id order by id".to_owned(),
            "1 7 2, 2 7 3, 3 8 1",
        ),
    ] {
        for dop in [1, 2] {
            let engine = QueryEngine::new(QueryOptions { dop, workers: 2, ..QueryOptions::default() }).unwrap();
            let had = engine.query(&snapshot, &sql, None).unwrap();
            let had: Vec<_> = rows(&had.batches).iter().map(|row| row.join(" ")).collect();
            assert_eq!(had.join(", "), expect, "{sql}");
        }
    }
}
