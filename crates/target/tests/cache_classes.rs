//! Queries in jobs of cache classes: the answers are those of queries that are not divided.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use plimsoll_workload::database::{Database, Login};

use common::{loaded, rows};

#[track_caller]
fn check(spec: &str, count: usize) {
    let (benchmark, database) = loaded(spec, &["dop=2"]);
    let queries = benchmark.queries();
    assert!(queries.len() >= count, "{}", queries.len());
    let answers = || {
        let mut session = database.query_session(benchmark.schema(), Login::default()).unwrap();
        queries.iter().map(|(_, sql)| rows(session.as_mut(), sql)).collect::<Vec<_>>()
    };
    let expect = answers();
    let mut is_per_task = true;
    for options in [
        &[("cache_classes", "on")][..],
        &[("parallelism", "static(2)")],
        &[("query_threads", "own"), ("parallelism", "planner")],
        &[("cache_switch", "per_pool")],
        &[("query_threads", "shared")],
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
        let switches = database.cache_switches().unwrap();
        is_per_task &= !options.contains(&("cache_switch", "per_pool"));
        assert_eq!(switches.count > 0, is_per_task, "threads of a pool are bound once: {switches:?} with {options:?}");
        // The study reports less than 100 us; a busy machine may interrupt a move.
        assert!(switches.time <= Duration::from_millis(10) * switches.count as u32, "{switches:?}");
    }
}

#[test]
fn the_queries_of_tpch_have_the_same_answers_in_jobs() {
    check("tpch:0.01", 22);
}

#[test]
fn the_operators_of_the_study_pass_their_checks_in_jobs() {
    for spec in ["scan:0.2", "group:0.2", "key_join:0.2"] {
        let (benchmark, database) = loaded(spec, &["dop=2"]);
        for (option, value) in [("cache_classes", "on"), ("cache_switch", "per_task")] {
            database.set_option(option, value).unwrap();
            for line in benchmark.check(&database).unwrap() {
                assert_eq!(line.holds, Some(true), "{spec} with {option}={value}: {}, {}", line.what, line.found);
            }
        }
    }
}
