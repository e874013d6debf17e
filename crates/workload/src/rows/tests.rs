//! Transactions on the reference database, and the check of the resulting data.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, StringArray, StructArray};
use arrow::record_batch::RecordBatch;
use serde_json::json;

use super::client::TransactionKind;
use super::data::{initial_sum, initial_value, write_text};
use super::schema::TEXT_BYTES;
use super::*;
use crate::benchmark::Outcome;
use crate::fixture::{check_statements, load_into, loaded};
use crate::footprint::column_bytes_per_row;
use crate::keyed::tests::beyond;
use crate::memory::MemoryDatabase;
use crate::recording::{Recording, count, number};
use crate::statement::Value;

/// A table of 2000 rows.
fn rows(columns: Columns, rows_per_transaction: usize, updates: f64) -> RandomRows {
    RandomRows { scale: 0.002, columns, rows_per_transaction, updates, inserts: 0.0, work: Arc::default() }
}

/// Every key with its value, as text.
fn contents(benchmark: &RandomRows, database: &MemoryDatabase) -> BTreeMap<String, String> {
    let shown = |value: Value<'_>| match value {
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.to_owned(),
        Value::Null => panic!("no column may be null"),
    };
    let mut contents = BTreeMap::new();
    let visit = &mut |row: &[Value<'_>]| drop(contents.insert(shown(row[0]), shown(row[1])));
    database.scan(benchmark.schema(), PAIRS, visit).unwrap();
    contents
}

fn text(number: i64) -> String {
    let mut text = String::new();
    write_text(number, &mut text);
    text
}

#[test]
fn the_table_holds_every_key_with_its_first_value() {
    for (columns, expect) in [(Columns::BigInt, i64::to_string as fn(&i64) -> String), (Columns::Text, |&n| text(n))] {
        let benchmark = rows(columns, 1, 0.0);
        let found = contents(&benchmark, &loaded(&benchmark));
        assert_eq!(found, (1..=2_000).map(|key| (expect(&key), expect(&initial_value(key)))).collect());
    }
}

#[test]
fn texts_have_their_length_and_sort_as_their_numbers() {
    let mut last = String::new();
    for number in [0, 1, 2, 9, 10, 123_456, 12_500_000_000] {
        let text = text(number);
        assert_eq!(text.len(), TEXT_BYTES);
        assert!(text > last);
        last = text;
    }
}

#[test]
fn updates_are_counted_and_change_as_many_values() {
    for columns in [Columns::BigInt, Columns::Text] {
        let benchmark = rows(columns, 10, 0.5);
        let database = loaded(&benchmark);
        let mut session = database.session(benchmark.schema()).unwrap();
        let mut client = benchmark.rows_client(0, 7);
        let mut expected = contents(&benchmark, &database);
        let mut updates = 0;
        for _ in 0..200 {
            let drawn = client.draw();
            assert_eq!(client.run(session.as_mut()).unwrap(), Outcome::Committed);
            if drawn != TransactionKind::Update as usize {
                continue;
            }
            updates += 1;
            for touch in client.touched() {
                let (key, value) = match columns {
                    Columns::BigInt => (touch.key.to_string(), None),
                    Columns::Text => (text(touch.key), Some(text(touch.value))),
                };
                let known = expected.get_mut(&key).unwrap();
                *known = value.unwrap_or_else(|| (known.parse::<i64>().unwrap() + 1).to_string());
            }
        }
        assert_eq!(contents(&benchmark, &database), expected);
        assert!((70..=130).contains(&updates), "{updates}");
        assert_eq!(benchmark.work.updated.load(Ordering::Relaxed), 10 * updates);
    }
}

#[test]
fn insertions_are_counted_and_each_client_adds_keys_of_its_own() {
    for columns in [Columns::BigInt, Columns::Text] {
        let benchmark = RandomRows { inserts: 0.5, ..rows(columns, 10, 0.5) };
        let database = loaded(&benchmark);
        let mut session = database.session(benchmark.schema()).unwrap();
        let mut clients = [0, 1].map(|number| benchmark.rows_client(number, 7));
        let mut inserted = Vec::new();
        for _ in 0..100 {
            for client in &mut clients {
                let is_insert = client.draw() == TransactionKind::Insert as usize;
                inserted.extend(client.touched().iter().filter(|_| is_insert).map(|touch| touch.key));
                assert_eq!(client.run(session.as_mut()).unwrap(), Outcome::Committed);
            }
        }
        assert!((700..1_300).contains(&inserted.len()), "{}", inserted.len());
        assert!(inserted.iter().all(|&key| key > 2_000));
        assert_eq!(contents(&benchmark, &database).len(), 2_000 + inserted.len(), "no key is inserted twice");
        assert_eq!(benchmark.work.inserted.load(Ordering::Relaxed), inserted.len() as u64);
        assert_eq!(benchmark.writes(), Writes::Grows);
    }
}

#[test]
fn clients_insert_above_the_rows_of_earlier_runs() {
    for (columns, greatest) in [(Columns::BigInt, "9000".to_owned()), (Columns::Text, text(9_000))] {
        let benchmark = RandomRows { inserts: 1.0, ..rows(columns, 1, 0.0) };
        let database = Recording::answering(benchmark.schema(), move |sql, _| {
            assert_eq!(sql, "select max(pair_key) from pairs");
            Arc::new(StringArray::from(vec![greatest.clone()]))
        });
        benchmark.prepare(&database).unwrap();
        let mut client = benchmark.rows_client(2, 7);
        client.draw();
        assert_eq!(client.touched()[0].key, 9_003);
    }
}

#[test]
fn the_share_of_updates_is_what_was_asked_for() {
    for (updates, expect) in [(0.0, 0..=0), (0.1, 800..=1_200), (1.0, 10_000..=10_000)] {
        let mut client = rows(Columns::BigInt, 1, updates).rows_client(3, 7);
        let drawn = (0..10_000).filter(|_| TRANSACTIONS[client.draw()] == "update").count();
        assert!(expect.contains(&drawn), "{drawn} of 10000 for {updates}");
    }
}

#[test]
fn keys_are_uniform_and_equal_seeds_draw_equal_ones() {
    let mut clients = [0, 0, 1].map(|number| rows(Columns::BigInt, 100, 0.0).rows_client(number, 7));
    let mut tenths = [0; 10];
    for _ in 0..100 {
        for client in &mut clients {
            client.draw();
        }
        assert_eq!(clients[0].touched(), clients[1].touched());
        assert_ne!(clients[0].touched(), clients[2].touched());
        for touch in clients[0].touched() {
            tenths[(touch.key as usize - 1) / 200] += 1;
        }
    }
    // The standard deviation is 30.
    assert!(tenths.iter().all(|count| (850..1_150).contains(count)), "{tenths:?}");
}

#[test]
fn a_table_of_another_scale_is_noticed_and_left_as_it_was() {
    let small = rows(Columns::BigInt, 100, 1.0);
    let database = loaded(&small);
    let large = RandomRows { scale: 2.0, ..rows(Columns::BigInt, 100, 1.0) };
    let mut session = database.session(large.schema()).unwrap();
    let mut client = large.client(0, 7);
    client.draw();
    let error = client.run(session.as_mut()).unwrap_err().to_string();
    assert!(error.contains("were they loaded at this scale?"), "{error}");
    assert_eq!(contents(&small, &database), contents(&small, &loaded(&small)));
    assert_eq!(large.work.updated.load(Ordering::Relaxed), 0);
}

#[test]
fn what_loads_other_data_says_so_and_what_only_runs_otherwise_does_not() {
    let make = |scale, parameters: serde_json::Value| {
        crate::registry::make("rows", Some(scale), &serde_json::from_value(parameters).unwrap(), 1).unwrap().0
    };
    let plain = make(0.5, json!({}));
    assert_eq!((plain.data().as_str(), plain.writes()), ("rows_bigint:0.5", Writes::Nothing));
    let updating = make(0.5, json!({ "rows": 100, "updates": 0.1 }));
    assert_eq!((updating.data().as_str(), updating.writes()), ("rows_bigint:0.5", Writes::InPlace));
    assert_eq!(make(0.5, json!({ "columns": "text" })).data(), "rows_text:0.5");
    assert_eq!(make(1.0, json!({})).data(), "rows_bigint:1");
}

#[test]
fn the_estimate_of_the_column_copy_matches_what_is_loaded() {
    for columns in [Columns::BigInt, Columns::Text] {
        let benchmark = RandomRows { scale: 0.1, ..rows(columns, 1, 0.0) };
        let database = Recording::new(benchmark.schema(), |_, _| count(0));
        load_into(&benchmark, &database);
        let estimated = 1e5 * column_bytes_per_row(benchmark.table(), |_, bytes_max| bytes_max as f64);
        let ratio = database.bytes() as f64 / estimated;
        assert!((0.99..1.02).contains(&ratio), "{} bytes, {estimated} estimated", database.bytes());
        assert!(benchmark.estimated_bytes() as f64 > 2.0 * estimated, "rows and index come on top");
    }
}

/// A database that answers the queries of the check from numbers that a test gives it: of all rows, of the number and
/// ends of the loaded keys, and of the sum.
fn answering(rows: i64, keys: [&'static str; 3], last: i64) -> Recording {
    let key = |name, key: &str| (name, Arc::new(StringArray::from(vec![key.to_owned()])) as ArrayRef);
    Recording::answering(&schema::BIGINT, move |sql, _| match sql {
        "select count(*) from pairs" => number(rows),
        sql if sql.starts_with("select count(*), min(pair_key), max(pair_key) from pairs where pair_key <= ") => {
            let columns = [key("count", keys[0]), key("min", keys[1]), key("max", keys[2])];
            Arc::new(StructArray::from(RecordBatch::try_from_iter(columns).unwrap()))
        }
        _ => number(last),
    })
}

#[test]
fn the_check_finds_lost_rows_keys_and_updates() {
    let benchmark = rows(Columns::BigInt, 1, 1.0);
    benchmark.work.updated.store(30, Ordering::Relaxed);
    benchmark.work.inserted.store(5, Ordering::Relaxed);
    let sum = initial_sum(2_000) + 30;
    let judged = |rows: i64, keys: [&'static str; 3], last: i64| {
        let lines = benchmark.check(&answering(rows, keys, last)).unwrap();
        lines.iter().map(|line| line.holds).collect::<Vec<_>>()
    };
    let (yes, no) = (Some(true), Some(false));
    let keys = ["2000", "1", "2000"];
    assert_eq!(judged(2_005, keys, sum), [yes, yes, yes]);
    assert_eq!(judged(2_004, keys, sum), [no, yes, yes]);
    assert_eq!(judged(2_005, ["1999", "1", "2000"], sum), [yes, no, yes]);
    assert_eq!(judged(2_005, ["2000", "2", "2000"], sum), [yes, no, yes]);
    assert_eq!(judged(2_005, ["2000", "1", "1999"], sum), [yes, no, yes]);
    assert_eq!(judged(2_005, keys, sum - 1), [yes, yes, no]);
    // Others may have driven clients on the same data before.
    assert_eq!(judged(2_006, keys, sum), [None, yes, yes]);
    assert_eq!(judged(2_005, keys, sum + 1), [yes, yes, None]);
    let lines = benchmark.check(&answering(2_005, keys, sum - 4)).unwrap();
    assert_eq!(lines[2].found, "4 updates are missing");

    let texts = rows(Columns::Text, 1, 1.0);
    let lines = texts.check(&answering(2_000, keys, 1)).unwrap();
    assert_eq!(lines.iter().map(|line| line.holds).collect::<Vec<_>>(), [yes, no, no], "{lines:?}");
}

#[test]
fn queries_share_the_table_and_their_check_finds_a_join_that_loses_rows() {
    let parameters = serde_json::from_value(json!({ "operator": "join" })).unwrap();
    let made = crate::registry::make("rows_query", Some(0.5), &parameters, 1).unwrap().0;
    assert_eq!((made.data().as_str(), made.writes(), made.is_analytical()), ("rows_bigint:0.5", Writes::Nothing, true));
    assert_eq!(made.transactions(), ["join"]);
    let query = query::RowsQuery { rows: rows(Columns::BigInt, 1, 0.0), is_join: false };
    let judged = |last| {
        let lines = query.check(&answering(2_000, ["2000", "1", "2000"], last)).unwrap();
        lines.iter().map(|line| line.holds).collect::<Vec<_>>()
    };
    // One number answers both queries: only nothing is twice itself.
    assert_eq!(judged(0), [Some(true), Some(true)]);
    assert_eq!(judged(7), [Some(true), Some(false)]);
}

#[test]
fn statements_have_names_of_their_own_and_are_compiled() {
    check_statements(statements(), 6);
    for columns in [Columns::BigInt, Columns::Text] {
        let suffix = format!("{columns:?}").to_lowercase();
        let of_columns = statements().filter(|statement| statement.name.ends_with(&suffix));
        assert_eq!(beyond(rows(columns, 1, 0.0).schema(), of_columns), [""; 0], "all are compiled");
    }
}
