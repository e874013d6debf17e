//! Queries in jobs of cache classes: the answers are those of queries that are not divided.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::AtomicBool;

use arrow::util::display::array_value_to_string;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::{Database, Session};
use plimsoll_workload::registry::benchmark;

fn loaded(spec: &str) -> (Box<dyn Benchmark>, Embedded) {
    let (benchmark, _) = benchmark(spec, 7).unwrap();
    let database = Embedded::new(EmbeddedOptions::parse(["dop=2"]).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    benchmark.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &stop }).unwrap();
    (benchmark, database)
}

/// The rows of a query, in any order.
fn rows(session: &mut dyn Session, sql: &str) -> Vec<String> {
    let answer = session.query(sql).unwrap_or_else(|error| panic!("{error} in\n{sql}"));
    let mut rows = Vec::new();
    for batch in &answer.batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(cells.collect::<Vec<_>>().join(" | "));
        }
    }
    rows.sort();
    rows
}

#[track_caller]
fn check(spec: &str, count: usize) {
    let (benchmark, database) = loaded(spec);
    let queries = benchmark.queries();
    assert!(queries.len() >= count, "{}", queries.len());
    let answers = || {
        let mut session = database.query_session(benchmark.schema(), None).unwrap();
        queries.iter().map(|(_, sql)| rows(session.as_mut(), sql)).collect::<Vec<_>>()
    };
    let expect = answers();
    for options in [
        &[("cache_classes", "on")][..],
        &[("parallelism", "static(2)")],
        &[("cache_switch", "per_task")],
        &[("query_threads", "own"), ("parallelism", "planner")],
        &[("cache_switch", "per_pool")],
    ] {
        for (option, value) in options {
            database.set_option(option, value).unwrap();
        }
        // The second time, sizes of joins are those of the first.
        for _ in 0..2 {
            for ((name, _), (had, expect)) in queries.iter().zip(answers().iter().zip(&expect)) {
                assert_eq!(had, expect, "{name} with {options:?}");
            }
        }
        let jobs = database.cache_jobs().unwrap();
        assert!(jobs.started[0] > 0, "some scans were polluting: {jobs:?}");
    }
}

#[test]
fn the_queries_of_tpch_have_the_same_answers_in_jobs() {
    check("tpch:0.01", 22);
}

#[test]
fn the_operators_of_the_study_pass_their_checks_in_jobs() {
    for spec in ["scan:0.2", "group:0.2", "key_join:0.2"] {
        let (benchmark, database) = loaded(spec);
        for (option, value) in [("cache_classes", "on"), ("cache_switch", "per_task")] {
            database.set_option(option, value).unwrap();
            for line in benchmark.check(&database).unwrap() {
                assert_eq!(line.holds, Some(true), "{spec} with {option}={value}: {}, {}", line.what, line.found);
            }
        }
    }
}
