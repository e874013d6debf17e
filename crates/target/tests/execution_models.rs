//! Execution models side by side: vectors, a row at a time, and DuckDB. Their answers agree, and DuckDB's process ends
//! when it should.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_target::Target;
use plimsoll_testing::{python, says, until};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::{Database, DatabaseError, OptionChange};
use plimsoll_workload::registry::benchmark;
use plimsoll_workload::tpch::cells::{TextRow, text_rows};

/// More rows than any test waits for.
const ENDLESS: &str =
    "select count(*) from lineitem a, lineitem b, lineitem c where a.l_comment < b.l_comment || c.l_comment";

fn open(url: &str, options: &[&str]) -> Box<dyn Database> {
    let python = format!("python={}", python().display());
    let own = (url == "duckdb:").then_some(python.as_str());
    Target::parse(url, own.into_iter().chain(options.iter().copied())).unwrap().open().unwrap()
}

/// A benchmark and such a database with its data.
fn loaded(spec: &str, url: &str, options: &[&str]) -> (Box<dyn Benchmark>, Box<dyn Database>) {
    let (benchmark, _) = benchmark(spec, 7).unwrap();
    let database = open(url, options);
    let stop = AtomicBool::new(false);
    benchmark.load(&*database, &LoadProgress { report: &|_, _, _| (), stop: &stop }).unwrap();
    (benchmark, database)
}

/// The answers to queries, each a name and its SQL, by name.
fn answers(
    benchmark: &dyn Benchmark,
    database: &dyn Database,
    queries: &[(String, String)],
) -> Vec<(String, Vec<TextRow>)> {
    let mut session = database.session(benchmark.schema()).unwrap();
    let mut answer = |(name, sql): &(String, String)| {
        let answer = session.query(sql).unwrap_or_else(|error| panic!("{name}: {error} in\n{sql}"));
        (name.clone(), text_rows(&answer.batches).unwrap())
    };
    queries.iter().map(&mut answer).collect()
}

/// Whether two cells are the same text, or numbers that differ by rounding: DuckDB divides in binary fractions.
fn is_same(one: &Option<String>, other: &Option<String>) -> bool {
    let number = |cell: &Option<String>| cell.as_ref().and_then(|text| text.parse::<f64>().ok());
    match (number(one), number(other)) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-6 * one.abs().max(1.0),
        _ => one == other,
    }
}

/// Both must have the same rows in the same order.
#[track_caller]
fn assert_same(found: &[(String, Vec<TextRow>)], expected: &[(String, Vec<TextRow>)]) {
    assert_eq!(found.len(), expected.len());
    for ((name, found), (_, expected)) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len(), "{name}");
        let rows = || found.iter().zip(expected);
        let differs = rows().find(|(found, expected)| !found.iter().zip(*expected).all(|(a, b)| is_same(a, b)));
        assert_eq!(differs, None, "{name}");
    }
}

#[test]
fn duckdb_answers_all_queries_as_the_engine_does() {
    let (tpch, engine) = loaded("tpch:0.01", "embedded:", &["dop=2"]);
    let (_, duckdb) = loaded("tpch:0.01", "duckdb:", &["dop=2"]);
    let queries = tpch.queries();
    assert_eq!(queries.len(), 22);
    assert_same(&answers(&*tpch, &*duckdb, &queries), &answers(&*tpch, &*engine, &queries));
}

#[test]
fn a_row_at_a_time_the_queries_of_the_exhibit_answer_as_with_vectors() {
    let (tpch, database) = loaded("tpch:0.01", "embedded:", &["dop=1"]);
    let mut queries = tpch.queries();
    queries.retain(|(name, _)| ["q1", "q3", "q6", "q9", "q18"].contains(&name.as_str()));
    let with = |rows: &str| {
        assert_eq!(database.set_option("batch_rows", rows), Ok(OptionChange::Applied));
        answers(&*tpch, &*database, &queries)
    };
    assert_same(&with("1"), &with("16384"));
}

/// The scan evaluates conditions on whole morsels; it also did so with small batches, so that conditions were always vectorised.
#[test]
fn with_batches_of_one_row_a_condition_sees_one_row_at_a_time() {
    let (tpch, database) = loaded("tpch:0.01", "embedded:", &["dop=1"]);
    let batches = |rows: &str| {
        assert_eq!(database.set_option("batch_rows", rows), Ok(OptionChange::Applied));
        let mut session = database.session(tpch.schema()).unwrap();
        session.query("select s_suppkey, s_name from supplier where s_suppkey > 0").unwrap().batches
    };
    assert_eq!(batches("16384").len(), 1);
    let rows: Vec<usize> = batches("1").iter().map(|batch| batch.num_rows()).collect();
    assert_eq!(rows, vec![1; 100]);
}

#[test]
fn every_benchmark_of_queries_finds_its_answers_in_duckdb() {
    for spec in ["projection:0.01", "selection:0.01", "join:0.01", "scan:0.1", "group:0.1", "key_join:0.1"] {
        let (benchmark, database) = loaded(spec, "duckdb:", &[]);
        let wrong: Vec<_> =
            benchmark.check(&*database).unwrap().into_iter().filter(|line| line.holds != Some(true)).collect();
        assert!(wrong.is_empty(), "{spec}: {wrong:?}");
        database.drop_tables(benchmark.schema()).unwrap();
        assert!(database.session(benchmark.schema()).is_err(), "{spec}: nothing is left");
    }
}

#[test]
fn duckdb_serves_clients_at_the_same_time_and_cancels_their_queries() {
    let (tpch, database) = loaded("tpch:0.01", "duckdb:", &["dop=2"]);
    let mut other = database.session(tpch.schema()).unwrap();
    let (mut session, has_ended) = (database.session(tpch.schema()).unwrap(), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let endless = threads.spawn(|| {
            let answer = session.query(ENDLESS).map(|answer| answer.batches.len());
            has_ended.store(true, Ordering::Relaxed);
            answer
        });
        let count = other.query("select count(*) from region").unwrap();
        assert_eq!(text_rows(&count.batches).unwrap(), [[Some("5".to_owned())]]);
        until("the query is cancelled", || {
            database.cancel_statements();
            has_ended.load(Ordering::Relaxed)
        });
        let error = endless.join().unwrap().unwrap_err().to_string();
        says(ENDLESS, &error, "INTERRUPT");
    });
    assert!(other.query("select 1").is_ok(), "connections outlive what was cancelled");
}

#[test]
fn a_query_of_a_killed_duckdb_fails_with_the_reason_and_a_dropped_one_has_ended() {
    let (tpch, database) = loaded("tpch:0.01", "duckdb:", &[]);
    let [process] = database.footprint().processes[..] else { panic!("one process") };
    let kill = |signal: &str| Command::new("sh").args(["-c", &format!("kill -{signal} {process}")]).output().unwrap();
    let mut session = database.session(tpch.schema()).unwrap();
    assert!(kill("KILL").status.success());
    let error = session.query(ENDLESS).unwrap_err();
    assert!(error.is_server_lost());
    says("killed", &error.to_string(), &format!("the process {process} of `duckdb:` has ended (signal: 9 (SIGKILL))"));
    assert!(database.session(tpch.schema()).is_err());

    let database = open("duckdb:", &[]);
    let [process] = database.footprint().processes[..] else { panic!("one process") };
    let lives = || Command::new("sh").args(["-c", &format!("kill -0 {process}")]).output().unwrap().status.success();
    assert!(lives());
    drop(database);
    assert!(!lives());
}

#[test]
fn duckdb_has_no_transactions_and_takes_threads_and_memory_in_place() {
    let (tpch, database) = loaded("tpch:0.01", "duckdb:", &["dop=1"]);
    let mut session = database.session(tpch.schema()).unwrap();
    let refused = session.begin().unwrap_err();
    assert!(matches!(refused, DatabaseError::Unsupported(_)));
    says("begin", &refused.to_string(), "run transactions on `embedded:` or `postgres:`");
    assert_eq!(database.set_option("dop", "2"), Ok(OptionChange::Applied));
    assert_eq!(database.set_option("memory_mib", "128"), Ok(OptionChange::Applied));
    assert_eq!(database.set_option("python", "python4"), Ok(OptionChange::NeedsReopening));
    let settings = session.query("select current_setting('threads'), current_setting('memory_limit')").unwrap();
    let expect = ["2", "128.0 MiB"].map(|value| Some(value.to_owned()));
    assert_eq!(text_rows(&settings.batches).unwrap(), [expect]);
    let groups = "select l_comment || p_name, count(*) from lineitem, part group by 1";
    let error = session.query(groups).unwrap_err().to_string();
    says("memory", &error, "Out of Memory");
    assert!(database.warnings().is_empty(), "{:?}", database.warnings());
    let outside = session.query("select * from read_csv('/etc/passwd')").unwrap_err().to_string();
    says("files", &outside, "disabled");
}

#[test]
fn a_python_that_cannot_serve_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    // Without its site, Python has no packages.
    let bare = program("bare", &format!("exec {} -S \"$@\"", python().display()));
    let other = program("other", "exit 3");
    for (python, expect) in [
        (bare.as_str(), "has no package `duckdb`; install it: "),
        (&bare, "-m pip install duckdb=="),
        (&other, "has ended without a connection (exit status: 3)"),
        ("/nowhere/python", "`/nowhere/python` cannot be started (No such file or directory"),
    ] {
        let error = Target::parse("duckdb:", [format!("python={python}").as_str()]).unwrap().open().err().unwrap();
        says(python, &error.to_string(), expect);
    }
}
