//! TPC-H as a whole: data into a fake database, streams of queries, the check.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::record_batch::RecordBatch;

use super::*;
use crate::recording::Recording;

fn tpch(scale: f64) -> Tpch {
    Tpch::new(scale).unwrap()
}

/// A database that has no rows to return but 3 of one column.
fn three_rows() -> Recording {
    Recording::answering(&tables::SCHEMA, |_, _| std::sync::Arc::new(arrow::array::Int32Array::from(vec![1, 2, 3])))
}

fn out_of_order() -> Recording {
    Recording::failing(&tables::SCHEMA, "out of order")
}

#[test]
fn loading_fills_every_table_in_order_of_key() {
    let (database, last, stop) = (three_rows(), AtomicU64::new(0), AtomicBool::new(false));
    let report = |done: u64, all: u64, _: &str| {
        assert!(done <= all);
        assert!(last.swap(done, Ordering::Relaxed) <= done, "progress goes back");
    };
    tpch(0.01).load(&database, &LoadProgress { report: &report, stop: &stop }).unwrap();
    assert_eq!(database.steps(), ["create", "load", "finish"]);

    let loaded: Vec<RecordBatch> = (0..8).map(|table| database.table(table)).collect();
    for batch in &loaded {
        let keys = batch.column(0).as_primitive::<Int64Type>().values();
        assert!(keys.is_sorted(), "{:?} out of order", batch.schema());
    }
    let rows: Vec<u64> = loaded.iter().map(|batch| batch.num_rows() as u64).collect();
    assert_eq!(rows, [5, 25, 100, 1500, 2000, 8000, 15000, 60175]);
    assert_eq!(rows, load::row_counts(0.01));
    assert_eq!(last.load(Ordering::Relaxed), rows.iter().sum::<u64>());

    let bytes = database.bytes();
    let estimate = tpch(0.01).estimated_bytes() - TEXT_POOL_BYTES;
    let ratio = bytes as f64 / estimate as f64;
    assert!((0.8..=1.2).contains(&ratio), "{bytes} bytes loaded, {estimate} estimated");
}

#[test]
fn parts_of_a_table_make_the_whole() {
    for (table, schema) in tables::SCHEMA.tables.iter().enumerate().skip(2) {
        let concatenate = |parts: i32| {
            let batches = (1..=parts).flat_map(|part| load::batches(table, 0.01, part, parts).unwrap());
            arrow::compute::concat_batches(&schema.arrow(), &batches.collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(concatenate(1), concatenate(7), "{}", schema.name);
    }
}

#[test]
fn row_counts_are_those_of_the_specification() {
    let expect = vec![5, 25, 10_000, 150_000, 200_000, 800_000, 1_500_000, 6_001_215];
    assert_eq!(load::row_counts(1.0), expect);
}

#[test]
fn loading_stops_when_told_to() {
    let (database, stop) = (three_rows(), AtomicBool::new(false));
    let report = |done: u64, _: u64, _: &str| stop.store(done > 20_000, Ordering::Relaxed);
    let ended = tpch(0.01).load(&database, &LoadProgress { report: &report, stop: &stop });
    assert!(matches!(ended, Err(LoadError::Stopped)), "{ended:?}");
    assert_eq!(database.steps(), ["create", "load"]);
}

#[test]
fn scales_out_of_range_are_refused() {
    for scale in [0.0, -1.0, 0.009, 1e6, f64::NAN, f64::INFINITY] {
        assert!(Tpch::new(scale).is_err(), "{scale}");
    }
    let said = Tpch::new(0.001).unwrap_err().to_string();
    assert_eq!(said, "tpch has no scale 0.001; give a number from 0.01 to 100000");
}

#[test]
fn a_stream_has_every_query_once_a_round() {
    let mut client = tpch(0.01).client(0, 7);
    let rounds: Vec<Vec<usize>> = (0..4).map(|_| (0..22).map(|_| client.draw()).collect()).collect();
    for round in &rounds {
        assert_eq!(round.iter().copied().collect::<BTreeSet<_>>().len(), 22);
    }
    assert_ne!(rounds[0], rounds[1]);
}

#[test]
fn a_stream_has_only_the_queries_chosen() {
    let benchmark = tpch(0.01).with_queries(&["q6", "q1"]);
    assert_eq!(benchmark.transactions().len(), 22);
    let mut client = benchmark.client(0, 7);
    for _ in 0..20 {
        let drawn: BTreeSet<_> = [client.draw(), client.draw()].map(|query| benchmark.transactions()[query]).into();
        assert_eq!(drawn, BTreeSet::from(["q1", "q6"]));
    }
}

#[test]
fn equal_seeds_and_numbers_give_equal_streams_and_others_do_not() {
    let stream = |seed: u64, number: usize| {
        let mut client = client::QueryClient::new(seed, number, 1.0, (0..22).collect());
        let mut draw = || (client.draw(), client.sql().to_owned());
        (0..44).map(|_| draw()).collect::<Vec<_>>()
    };
    assert_eq!(stream(3, 1), stream(3, 1));
    assert_ne!(stream(3, 1), stream(3, 2));
    assert_ne!(stream(3, 1), stream(4, 1));
}

#[test]
fn a_client_counts_the_rows_it_received() {
    let mut client = client::QueryClient::new(1, 0, 1.0, (0..22).collect());
    let mut session = three_rows().session(&tables::SCHEMA).unwrap();
    client.draw();
    client.run(session.as_mut()).unwrap();
    client.run(session.as_mut()).unwrap();
    assert_eq!(client.rows(), 6);
}

#[test]
fn the_check_finds_wrong_answers_and_failing_queries() {
    for database in [out_of_order(), three_rows()] {
        let lines = tpch(1.0).check(&database).unwrap();
        assert_eq!(lines.len(), 8 + 22);
        for line in &lines {
            assert_eq!(line.holds, Some(false), "{line:?}");
        }
    }
    let lines = tpch(1.0).check(&three_rows()).unwrap();
    assert_eq!(lines[0].what, "region has 5 rows");
    assert_eq!(lines[0].found, "1");
    assert_eq!(lines[8].found, "3 rows, published 4");
    let lines = tpch(1.0).check(&out_of_order()).unwrap();
    assert_eq!(lines[8].found, "the query failed: out of order");
}

#[test]
fn where_nothing_is_published_the_check_says_so() {
    let lines = tpch(0.05).check(&three_rows()).unwrap();
    assert_eq!(lines.len(), 8 + 1 + 22);
    assert_eq!(lines[8].holds, None);
    assert_eq!(lines[8].found, "no published answers at scale 0.05; run with scale 1");
    assert_eq!(lines[9].what, "q1 returns 4 rows of 10 columns");
    assert_eq!(lines[9].found, "1 columns");
}
