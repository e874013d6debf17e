//! Scans of a table with a share of its rows changed since the columns were made, relative to the same scans without
//! changes, in turns. Also scans of a table with all changes folded.
//!
//! Each scan reads a snapshot that no query has read before, and before it one more row of each chunk changes, so the
//! overlay of an earlier snapshot cannot be reused unchanged.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use plimsoll_engine::columns::table::CHUNK_ROWS;
use plimsoll_engine::delta::Propagation;
use plimsoll_engine::query::{QueryEngine, QueryOptions};
use plimsoll_engine::table_set::TableSet;
use plimsoll_engine::transaction::{Connection, Purpose};
use plimsoll_engine::value::Value;
use plimsoll_engine::{Engine, EngineOptions};
use plimsoll_model::statistics::{Samples, compare_settings};
use plimsoll_policy::Priority;

use crate::{declaration, loaded};

/// Tables: the share of rows that have changed, and whether the changes are folded.
const TABLES: [(f64, bool); 5] = [(0.0, false), (0.001, false), (0.01, false), (0.1, false), (0.1, true)];

/// Scans of a table whose `n1` to `n4` and `label` have changed in some rows, and whose `id`, `class` and `note` have not.
const QUERIES: [(&str, &str); 8] = [
    ("sum of a changed column", "select sum(n1) from stock"),
    ("sum of two changed columns", "select sum(n1 + n2) from stock"),
    ("sum of a column that has not changed", "select sum(class) from stock"),
    ("condition on a changed column", "select count(*) from stock where n3 > 1000"),
    ("condition on a column that has not", "select sum(n1) from stock where class < 20"),
    ("groups in arrays, sums of a changed column", "select class, count(*), sum(n1) from stock group by class"),
    ("the largest of a changed column", "select id, n2 from stock order by n2 desc limit 10"),
    ("condition on a changed text", "select count(*) from stock where label like '%7'"),
];

/// Rows changed by a commit.
const CHANGES: i64 = 100;

/// A table with this share of its rows changed.
fn changed(engine: &Arc<Engine>, rows: i64, (share, is_folded): (f64, bool)) -> TableSet {
    let number = |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..rows).map(of))) as ArrayRef;
    let text = || Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("{row:0>11}")))) as ArrayRef;
    let mixed = |row: i64| row.wrapping_mul(7_919) % 100_003;
    let columns =
        vec![number(|row| row), number(mixed), number(mixed), number(mixed), number(mixed), number(|row| row % 100)];
    let columns = columns.into_iter().chain([text(), text()]).collect();
    let table = declaration(&["id", "n1", "n2", "n3", "n4", "class"], &["label", "note"], 12);
    let set = loaded(engine, Propagation::Paused, table, columns);
    let count = (rows as f64 * share) as i64;
    let mut connection = engine.connect();
    for first in (0..count).step_by(CHANGES as usize) {
        connection.begin(Priority::LOW, 0);
        for change in first..count.min(first + CHANGES) {
            update(&mut connection, &set, rows / count * change, change);
        }
        connection.commit().unwrap();
    }
    if is_folded {
        set.refresh().unwrap();
    }
    set
}

fn update(connection: &mut Connection, set: &TableSet, id: i64, value: i64) {
    let table = set.rows(0).unwrap().number;
    let row = connection.find(table, &[Value::Int(id)], Purpose::Write).unwrap().unwrap();
    (1..=4).for_each(|column| connection.set(table, row, column, Value::Int(value % 100_003)).unwrap());
    connection.set(table, row, 6, Value::Text(&format!("{value:0>11}"))).unwrap();
}

/// Nanoseconds that a query takes on a new snapshot. If its table, with `changed` rows, has changes that are not
/// folded, each chunk gets one more change before.
fn ask(queries: &QueryEngine, connection: &mut Connection, set: &TableSet, sql: &str, changed: Option<i64>) -> f64 {
    if let Some(rows) = changed {
        connection.begin(Priority::LOW, 0);
        for id in (0..rows).step_by(CHUNK_ROWS) {
            update(connection, set, id, 1);
        }
        connection.commit().unwrap();
    }
    let snapshot = set.snapshot();
    let began = Instant::now();
    queries.query(&snapshot, sql, None).unwrap();
    began.elapsed().as_nanos() as f64
}

pub fn print(rows: i64, rounds: usize) {
    let engine = Engine::new(EngineOptions::default());
    let sets = TABLES.map(|table| changed(&engine, rows, table));
    let queries = QueryEngine::new(QueryOptions { dop: 1, workers: 1, ..QueryOptions::default() }).unwrap();
    let mut connection = engine.connect();
    println!(
        "a scan with 0.1, 1 and 10 % of {rows} rows changed, and with 10 % changed and folded, over none, with 95 % intervals"
    );
    for (name, sql) in QUERIES {
        let mut times = TABLES.map(|_| Vec::new());
        for round in 0..=rounds {
            for ((set, (share, is_folded)), times) in sets.iter().zip(TABLES).zip(&mut times) {
                let time = ask(&queries, &mut connection, set, sql, (share > 0.0 && !is_folded).then_some(rows));
                // The first one runs with cold caches.
                times.extend((round > 0).then_some(time));
            }
        }
        let samples = Samples::complete(&times);
        let ratio = |table: usize| {
            let ratio = compare_settings(&samples, table, 0, None).ratio?;
            let (low, high) = (ratio.low?, ratio.high?);
            Some(format!("{:.2} ({low:.2} to {high:.2})", ratio.value))
        };
        let ratios = (1..TABLES.len()).map(|table| ratio(table).unwrap_or_else(|| "-".to_owned()));
        let milliseconds = times[0].iter().sum::<f64>() / times[0].len() as f64 / 1e6;
        println!("{name:<44} {milliseconds:>7.2} ms   {}", ratios.collect::<Vec<_>>().join("   "));
    }
}
