//! CH-benCHmark over the reference database, and its check over prepared answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use arrow::array::{ArrayRef, AsArray, Int64Array, new_empty_array};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use serde_json::json;

use super::*;
use crate::fixture::{digest, run_clients};
use crate::memory::MemoryDatabase;
use crate::recording::{Recording, count, ints};
use crate::schema::ColumnKind;
use crate::tpcc::TABLES;

fn made(parameters: serde_json::Value, seed: u64) -> Box<dyn Benchmark> {
    crate::registry::make("ch", Some(1.0), &serde_json::from_value(parameters).unwrap(), seed).unwrap().0
}

fn load_into(benchmark: &dyn Benchmark, database: &dyn Database) {
    let (stop, most) = (AtomicBool::new(false), std::sync::Mutex::new((0, 0)));
    let report = |done, all, _: &str| {
        let mut most = most.lock().unwrap();
        *most = (*most).max((done, all));
    };
    benchmark.load(database, &LoadProgress { report: &report, stop: &stop }).unwrap();
    let (done, all) = *most.lock().unwrap();
    assert_eq!(done, all, "progress ends at all rows");
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<String> {
    batch.column(column).as_string_view().iter().map(|text| text.expect("no column may be null").to_owned()).collect()
}

#[test]
fn suppliers_nations_and_regions_fit_together() {
    let [suppliers, nations, regions] = population::TABLES.map(|(table, rows)| {
        let batch = population::make(table, 3);
        assert_eq!(batch, population::make(table, 3));
        assert_eq!((batch.num_rows() as u64, batch.schema()), (rows, SCHEMA.tables[table].arrow()));
        for (column, array) in SCHEMA.tables[table].columns.iter().zip(batch.columns()) {
            if let ColumnKind::Text(bytes_max) = column.kind {
                assert!(array.as_string_view().iter().flatten().all(|text| text.len() <= bytes_max), "{}", column.name);
            }
        }
        batch
    });
    assert_ne!(suppliers, population::make(schema::SUPPLIER, 4));
    assert_eq!(ints(&suppliers, 0), (0..10_000).collect::<Vec<_>>());
    assert_eq!(texts(&suppliers, 6).iter().filter(|comment| comment.contains("bad")).count(), 100);
    let mut per_nation = BTreeMap::<i64, u32>::new();
    for nation in ints(&suppliers, 3) {
        *per_nation.entry(nation).or_default() += 1;
    }
    assert_eq!(per_nation.keys().copied().collect::<BTreeSet<_>>(), ints(&nations, 0).into_iter().collect());
    assert!(per_nation.values().all(|suppliers| (161..=162).contains(suppliers)), "{per_nation:?}");

    let names = texts(&nations, 1);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 62);
    let key = |name: &str| ints(&nations, 0)[names.iter().position(|known| known == name).expect(name)];
    let states = i64::from(b'A')..=i64::from(b'Z');
    assert!(states.clone().all(|key| ints(&nations, 0).contains(&key)), "a customer's state is any two capitals");
    assert!(states.contains(&key("Germany")) && states.contains(&key("Cambodia")));
    assert_eq!(ints(&regions, 0), [0, 1, 2, 3, 4]);
    assert_eq!(ints(&nations, 2).into_iter().collect::<BTreeSet<_>>(), ints(&regions, 0).into_iter().collect());
    assert!(texts(&regions, 1).iter().any(|name| name == "Europe"));
}

#[test]
fn transactions_do_to_these_tables_what_they_do_to_tpc_c_s() {
    let benchmarks: [Box<dyn Benchmark>; 2] = [made(json!({ "mix": "transactions" }), 5), Box::new(Tpcc::new(1, 5))];
    let digests = benchmarks.map(|benchmark| {
        let database = MemoryDatabase::new();
        load_into(benchmark.as_ref(), &database);
        let loaded = digest(&database, benchmark.schema(), TABLES.len());
        run_clients(benchmark.as_ref(), &database, 1, 500);
        (loaded, digest(&database, benchmark.schema(), TABLES.len()))
    });
    assert_eq!(digests[0], digests[1]);
    assert_ne!(digests[0].0, digests[0].1);
}

#[test]
fn both_sides_of_the_mix_share_their_data() {
    let (queries, transactions) = (made(json!({}), 1), made(json!({ "mix": "transactions" }), 1));
    assert_eq!(queries.data(), transactions.data());
    assert_eq!(queries.data(), "ch:1:seed=1");
    assert_eq!((queries.writes(), transactions.writes()), (Writes::Nothing, Writes::Grows));
    assert!(queries.is_analytical() && !transactions.is_analytical());
    assert_eq!((queries.transactions().len(), transactions.transactions().len()), (22, 5));
    assert_eq!((queries.queries().len(), transactions.queries().len()), (22, 0));
    assert!(queries.estimated_bytes() > Tpcc::new(1, 1).estimated_bytes());
}

#[test]
fn a_stream_has_every_query_that_was_chosen_once_a_round() {
    for (parameters, chosen) in
        [(json!({}), NAMES.to_vec()), (json!({ "queries": ["q6", "q1", "q21"] }), vec!["q1", "q21", "q6"])]
    {
        let (benchmark, mut chosen) = (made(parameters, 3), chosen);
        chosen.sort_unstable();
        let stream = |number| {
            let mut client = benchmark.client(number, 7);
            (0..4 * chosen.len()).map(|_| benchmark.transactions()[client.draw()]).collect::<Vec<_>>()
        };
        for round in stream(0).chunks(chosen.len()) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, chosen);
        }
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
    }
}

/// So many rows of numbers.
fn numbers(rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..rows as i64))
}

/// The answers of a correct database: no violations, and for each query the known number of rows.
fn right(sql: &str, _: &[RecordBatch]) -> ArrayRef {
    match QUERIES.iter().find(|query| query.sql(1) == sql) {
        Some(query) => numbers(query.rows),
        None if sql == "SELECT count(*) FROM new_order" => count(9_000),
        None => new_empty_array(&DataType::Int64),
    }
}

/// The lines of a check that do not hold, of data with that seed and a database that answers so.
fn wrong(seed: u64, answer: crate::recording::Answer) -> Vec<(String, String)> {
    let benchmark = made(json!({}), seed);
    let database = Recording::new(benchmark.schema(), answer);
    for (table, _) in population::TABLES {
        database.load(benchmark.schema(), table, population::make(table, seed)).unwrap();
    }
    let lines = benchmark.check(&database).unwrap();
    assert_eq!(lines.iter().filter(|line| line.what.starts_with('q')).count(), 22);
    lines.into_iter().filter(|line| line.holds == Some(false)).map(|line| (line.what, line.found)).collect()
}

#[test]
fn the_check_finds_planted_faults() {
    assert_eq!(wrong(7, right), []);

    let fails = |answer: crate::recording::Answer, expect: (&str, &str)| {
        assert_eq!(wrong(7, answer), [(expect.0.to_owned(), expect.1.to_owned())]);
    };
    fn is(sql: &str, query: usize) -> bool {
        sql == QUERIES[query - 1].sql(1)
    }
    let q6 = "q6 returns 1 rows, none of nulls alone";
    fails(
        |sql, tables| match is(sql, 6) {
            true => Arc::new(Int64Array::from(vec![None])),
            false => right(sql, tables),
        },
        (q6, "row 1 of 1 has nothing but nulls"),
    );
    fails(|sql, tables| if is(sql, 6) { numbers(0) } else { right(sql, tables) }, (q6, "0 rows"));
    fails(|sql, tables| if is(sql, 6) { numbers(2) } else { right(sql, tables) }, (q6, "2 rows"));
    fails(
        |sql, tables| if sql.contains("'%bad%') AS s") { numbers(1) } else { right(sql, tables) },
        ("supplier: one in a hundred has a bad comment", "violated by answer 0"),
    );
    fails(
        |sql, tables| if sql.contains("FULL JOIN new_order") { numbers(1) } else { right(sql, tables) },
        ("5: an order has no carrier if and only if it is undelivered", "violated by answer 0"),
    );
}

#[test]
fn numbers_of_rows_are_compared_only_where_they_are_known() {
    fn two(sql: &str, tables: &[RecordBatch]) -> ArrayRef {
        if QUERIES.iter().any(|query| query.sql(1) == sql) { numbers(2) } else { right(sql, tables) }
    }
    assert!(wrong(7, two).len() > 10);
    assert_eq!(wrong(8, two), [], "another seed");
    let delivered: crate::recording::Answer = |sql, tables| match sql {
        "SELECT count(*) FROM new_order" => count(8_990),
        _ => two(sql, tables),
    };
    assert_eq!(wrong(7, delivered), [], "clients have run");
    assert_eq!(
        wrong(8, |sql, tables| if sql.starts_with("select\n") { numbers(0) } else { right(sql, tables) }).len(),
        21
    );
}
