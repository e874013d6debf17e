//! Workloads of users' own on the embedded engine: the guide's examples as they are, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;

use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress, Outcome};
use plimsoll_workload::database::Database;
use plimsoll_workload::registry;
use plimsoll_workload::tpch::cells::text_rows;

fn database(options: &[&str]) -> Embedded {
    Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap()).unwrap()
}

fn workload(kind: &str, scale: f64) -> Box<dyn Benchmark> {
    let made = registry::make(kind, Some(scale), &BTreeMap::new(), 7);
    made.unwrap_or_else(|error| panic!("{error}")).0
}

fn try_load(benchmark: &dyn Benchmark, database: &dyn Database) -> Result<(), String> {
    database.drop_tables(benchmark.schema()).unwrap();
    let progress = LoadProgress { report: &|_, _, _| {}, stop: &AtomicBool::new(false) };
    benchmark.load(database, &progress).map_err(|error| error.to_string())
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
fn the_guides_shop_runs_and_its_checks_hold() {
    let (database, shop) = (database(&[]), workload("file:../../docs/examples/shop.toml", 0.1));
    try_load(&*shop, &database).unwrap();
    all_hold(&*shop, &database);
    let counts = run(&*shop, &database, 3, 200);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    all_hold(&*shop, &database);
    assert_eq!(cell(&*shop, &database, "SELECT count(*) FROM orders"), (2000 + counts[1]).to_string());
    // A second run goes on behind the numbers of the first.
    let more = run(&*shop, &database, 3, 50);
    all_hold(&*shop, &database);
    assert_eq!(cell(&*shop, &database, "SELECT count(*) FROM orders"), (2000 + counts[1] + more[1]).to_string());
    // Loaded anew it is as in the beginning.
    try_load(&*shop, &database).unwrap();
    assert_eq!(cell(&*shop, &database, "SELECT count(*) FROM orders"), "2000");
}

#[test]
fn pgbench_scripts_run_on_tables_as_pgbench_makes_them() {
    let database = database(&[]);
    let kind = "file:../../docs/examples/tpcb-like.sql@2,../../docs/examples/simple-update.sql@1,\
                ../../docs/examples/select-only.sql@1,../../docs/examples/hot-accounts.sql@4";
    let scripts = workload(kind, 1.0);
    try_load(&*scripts, &database).unwrap();
    all_hold(&*scripts, &database);
    let counts = run(&*scripts, &database, 2, 200);
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    let history = cell(&*scripts, &database, "SELECT count(*) FROM pgbench_history");
    assert_eq!(history, (counts[0] + counts[1]).to_string());
    // Hot accounts keeps the sum of all accounts; the others note what they add.
    let [accounts, noted] = ["SELECT sum(abalance) FROM pgbench_accounts", "SELECT sum(delta) FROM pgbench_history"]
        .map(|sql| cell(&*scripts, &database, sql));
    assert_eq!(accounts, noted);
    let [branches, tellers] =
        ["SELECT sum(bbalance) FROM pgbench_branches", "SELECT sum(tbalance) FROM pgbench_tellers"]
            .map(|sql| cell(&*scripts, &database, sql));
    assert_eq!(branches, tellers);
    let this_century = "SELECT count(*) FROM pgbench_history WHERE mtime > timestamp '2020-01-01'";
    assert_eq!(cell(&*scripts, &database, this_century), history);
}

/// A database that outlives its process knows the tables of a workload that is read from its file again.
#[test]
fn tables_are_found_again_after_the_database_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let option = format!("data_folder={}", folder.path().join("data").display());
    let options = ["durability=sync", &option];
    let shop = || workload("file:../../docs/examples/shop.toml", 0.1);
    let orders = {
        let (database, shop) = (database(&options), shop());
        try_load(&*shop, &database).unwrap();
        run(&*shop, &database, 2, 30)[1]
    };
    let (database, shop) = (database(&options), shop());
    all_hold(&*shop, &database);
    assert_eq!(cell(&*shop, &database, "SELECT count(*) FROM orders"), (2000 + orders).to_string());
    run(&*shop, &database, 2, 30);
    all_hold(&*shop, &database);
}

/// Values of every type go in and out, as parameters, from queries, and as results of earlier statements.
#[test]
fn parameters_fit_columns_of_any_type() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("types.toml");
    let text = r#"
setup = """
CREATE TABLE kinds (id bigint PRIMARY KEY, whole integer, exact numeric(10, 3), word text, day date, at timestamp);
INSERT INTO kinds VALUES (1, 3, 4.125, 'it''s', '2020-02-29', '2020-02-29 12:30');
"""
[[check]]
what = "the copy is as the first row"
sql = "SELECT whole, exact, word, day, at FROM kinds WHERE id = 2"
equal = "SELECT whole, exact, word, day, at FROM kinds WHERE id = 1"
[[transaction]]
name = "copy"
parameters.id = { sequence = 1, query = "SELECT max(id) FROM kinds" }
parameters.exact = { result = "first.exact" }
parameters.whole = { result = "first.whole" }
parameters.word = { result = "first.word" }
parameters.day = { result = "first.day" }
parameters.at = { result = "first.at" }
parameters.half = { constant = 0.5 }
parameters.yes = { constant = true }
statements = [
  { name = "first", sql = "SELECT whole, exact, word, day, at FROM kinds WHERE id = 1 AND exact > :half AND :yes::boolean" },
  "INSERT INTO kinds VALUES (:id, :whole, :exact, :word, :day, :at)",
]
[[transaction]]
name = "sum"
weight = 0.001
parameters.word = { constant = "it's" }
statements = ["SELECT sum(whole) FROM kinds WHERE word = :word GROUP BY word"]
"#;
    fs::write(&file, text).unwrap();
    let (database, kinds) = (database(&[]), workload(&format!("file:{}", file.display()), 1.0));
    try_load(&*kinds, &database).unwrap();
    assert_eq!(run(&*kinds, &database, 1, 1), [1, 0]);
    all_hold(&*kinds, &database);
}

/// A mistake is told before anything runs, with the place of the statement and the place in it.
#[test]
fn what_cannot_be_compiled_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let database = database(&[]);
    let prepared = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        let made = workload(&format!("file:{}", file.display()), 1.0);
        try_load(&*made, &database)?;
        made.prepare(&database).map_err(|error| error.to_string())
    };
    let table = "setup = \"CREATE TABLE t (a int PRIMARY KEY, b int)\"\n[[transaction]]\nname = \"x\"\n";
    let good =
        format!("{table}read_only = true\nstatements = [\"SELECT b FROM t WHERE a = 1\", \"SELECT sum(b) FROM t\"]");
    assert_eq!(prepared("good.toml", &good), Ok(()));
    for (name, text, expect) in [
        (
            "b.toml",
            format!("{table}parameters.one = {{ constant = 1 }}\nstatements = [\n\"\"\"\nUPDATE t SET b = 1\nWHERE a = :one AND c = 2\"\"\"]"),
            "b.toml:7: statement `x.1`, line 2, column 20: `t` has no column `c`; it has a, b, at `c = 2`; it is `UPDATE t SET b = 1 WHERE a = :one AND c = 2`",
        ),
        (
            "c.toml",
            format!("{table}statements = [\"SELECT sum(b) FROM t\", \"DELETE FROM t WHERE a = 1\"]"),
            "c.toml:4: statement `x.1`, line 1, column 15: every row of `t` would be looked at",
        ),
        (
            "d.toml",
            format!("{table}read_only = true\nstatements = [\"DELETE FROM t WHERE a = 1\"]"),
            "cannot execute DELETE in a read-only transaction",
        ),
        (
            "e.toml",
            "setup = \"\"\"\nCREATE TABLE t (a int);\nINSERT INTO t SELECT setseed(0.5);\"\"\"\n[[transaction]]\nname = \"x\"\nstatements = [\"SELECT 1\"]".to_owned(),
            "e.toml:3: the setup: rows are inserted by VALUES",
        ),
        ("f.sql", "SELECT 1;".to_owned(), "the workload uses tables that a server has; give it a `setup`"),
        (
            "g.toml",
            "setup = \"CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT 1 FROM generate_series(1, 2) AS id\"\n[[transaction]]\nname = \"x\"\nstatements = [\"SELECT 1\"]".to_owned(),
            "two rows of the same primary key",
        ),
        (
            "h.toml",
            "setup = \"CREATE TABLE t (a int NOT NULL); INSERT INTO t VALUES (NULL)\"\n[[transaction]]\nname = \"x\"\nstatements = [\"SELECT 1\"]".to_owned(),
            "h.toml:1: the setup failed: null in column `a`",
        ),
    ] {
        let error = prepared(name, &text).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }
}
