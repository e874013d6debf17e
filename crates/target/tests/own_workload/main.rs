//! Workloads of users' own, read from files: the guide's unchanged examples on either target, then tests of each target
//! only.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod embedded;
mod server;

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;

use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress, Outcome};
use plimsoll_workload::database::Database;
use plimsoll_workload::registry;
use plimsoll_workload::tpch::cells::text_rows;

fn embedded(options: &[&str]) -> Embedded {
    Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap()).unwrap()
}

fn server() -> PostgresDatabase {
    let server = PrivateServer::start(ServerSettings::for_this_machine());
    PostgresDatabase::private(server.unwrap_or_else(|error| panic!("{error}")))
}

fn workload(kind: &str, scale: f64) -> Box<dyn Benchmark> {
    let made = registry::make(kind, Some(scale), &BTreeMap::new(), 7);
    made.unwrap_or_else(|error| panic!("{error}")).0
}

/// The workload of a file with this name and text.
fn written(name: &str, text: &str) -> Box<dyn Benchmark> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    workload(&format!("file:{}", file.display()), 1.0)
}

fn load(benchmark: &dyn Benchmark, database: &dyn Database) -> Result<(), String> {
    database.drop_tables(benchmark.schema()).unwrap();
    let progress = LoadProgress { report: &|_, _, _| {}, stop: &AtomicBool::new(false) };
    benchmark.load(database, &progress).map_err(|error| error.to_string())
}

/// Whether the workload of such a file can be loaded and its statements prepared.
fn prepared(database: &dyn Database, name: &str, text: &str) -> Result<(), String> {
    let made = written(name, text);
    load(&*made, database)?;
    made.prepare(database).map_err(|error| error.to_string())
}

/// Runs clients at the same time, each with this number of requests. Returns how often each transaction was done.
fn run(benchmark: &dyn Benchmark, database: &dyn Database, clients: usize, requests: usize) -> Vec<usize> {
    benchmark.prepare(database).unwrap_or_else(|error| panic!("{error}"));
    let client = |number: usize| {
        let (mut client, mut session) = (benchmark.client(number, 7), database.session(benchmark.schema()).unwrap());
        let mut counts = vec![0; benchmark.transactions().len()];
        for _ in 0..requests {
            let drawn = client.draw();
            loop {
                match client.run(&mut *session) {
                    Ok(outcome) => break assert_eq!(outcome, Outcome::Committed),
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
            counts[drawn] += 1;
        }
        counts
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        all.reduce(|a, b| a.iter().zip(b).map(|(a, b)| a + b).collect()).unwrap()
    })
}

fn all_hold(benchmark: &dyn Benchmark, database: &dyn Database) {
    let lines = benchmark.check(database).unwrap();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.holds == Some(true)), "{lines:#?}");
}

/// The first cell of an answer, as text.
fn cell(benchmark: &dyn Benchmark, database: &dyn Database, sql: &str) -> String {
    database.refresh(benchmark.schema()).unwrap();
    let answer = database.session(benchmark.schema()).unwrap().query(sql).unwrap();
    text_rows(&answer.batches).unwrap()[0][0].clone().unwrap_or_default()
}

#[test]
fn the_guides_shop_runs_on_the_embedded_engine() {
    the_guides_shop_runs_and_its_checks_hold(&embedded(&[]));
}

#[test]
fn the_guides_shop_runs_on_a_server() {
    the_guides_shop_runs_and_its_checks_hold(&server());
}

#[test]
fn pgbench_scripts_run_on_the_embedded_engine() {
    pgbench_scripts_run_on_tables_as_pgbench_makes_them(&embedded(&[]));
}

#[test]
fn pgbench_scripts_run_on_a_server() {
    pgbench_scripts_run_on_tables_as_pgbench_makes_them(&server());
}

fn the_guides_shop_runs_and_its_checks_hold(database: &dyn Database) {
    let shop = workload("file:../../docs/examples/shop.toml", 0.1);
    load(&*shop, database).unwrap();
    all_hold(&*shop, database);
    let counts = run(&*shop, database, 3, 200);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    all_hold(&*shop, database);
    assert_eq!(cell(&*shop, database, "SELECT count(*) FROM orders"), (2000 + counts[1]).to_string());
    // A second run continues after the numbers of the first.
    let more = run(&*shop, database, 3, 50);
    all_hold(&*shop, database);
    assert_eq!(cell(&*shop, database, "SELECT count(*) FROM orders"), (2000 + counts[1] + more[1]).to_string());
    // After reloading, it is in its initial state.
    load(&*shop, database).unwrap();
    assert_eq!(cell(&*shop, database, "SELECT count(*) FROM orders"), "2000");
}

fn pgbench_scripts_run_on_tables_as_pgbench_makes_them(database: &dyn Database) {
    let kind = "file:../../docs/examples/tpcb-like.sql@2,../../docs/examples/simple-update.sql@1,\
                ../../docs/examples/select-only.sql@1,../../docs/examples/hot-accounts.sql@4";
    let scripts = workload(kind, 1.0);
    load(&*scripts, database).unwrap();
    all_hold(&*scripts, database);
    let counts = run(&*scripts, database, 2, 200);
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    let history = cell(&*scripts, database, "SELECT count(*) FROM pgbench_history");
    assert_eq!(history, (counts[0] + counts[1]).to_string());
    // Hot accounts keeps the sum of all accounts; the other scripts record the amounts that they add.
    let [accounts, noted] =
        ["SELECT sum(abalance)::bigint FROM pgbench_accounts", "SELECT sum(delta)::bigint FROM pgbench_history"]
            .map(|sql| cell(&*scripts, database, sql));
    assert_eq!(accounts, noted);
    let [branches, tellers] =
        ["SELECT sum(bbalance)::bigint FROM pgbench_branches", "SELECT sum(tbalance)::bigint FROM pgbench_tellers"]
            .map(|sql| cell(&*scripts, database, sql));
    assert_eq!(branches, tellers);
    let this_century = "SELECT count(*) FROM pgbench_history WHERE mtime > timestamp '2020-01-01'";
    assert_eq!(cell(&*scripts, database, this_century), history);
}
