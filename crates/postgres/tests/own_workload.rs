//! Workloads of users' own on a private server: the guide's examples as they are, and mistakes that only a server sees.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::AtomicBool;

use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress, Outcome};
use plimsoll_workload::database::{Database, DatabaseError};
use plimsoll_workload::registry;

fn server() -> PostgresDatabase {
    let server = PrivateServer::start(ServerSettings::for_this_machine());
    PostgresDatabase::private(server.unwrap_or_else(|error| panic!("{error}")))
}

fn workload(kind: &str, scale: f64) -> Box<dyn Benchmark> {
    let made = registry::make(kind, Some(scale), &BTreeMap::new(), 7);
    made.unwrap_or_else(|error| panic!("{error}")).0
}

fn load(benchmark: &dyn Benchmark, database: &dyn Database) {
    database.drop_tables(benchmark.schema()).unwrap();
    let progress = LoadProgress { report: &|_, _, _| {}, stop: &AtomicBool::new(false) };
    benchmark.load(database, &progress).unwrap_or_else(|error| panic!("{error}"));
}

/// Runs clients in turn, each so many requests; how often each transaction was done.
fn run(benchmark: &dyn Benchmark, database: &dyn Database, clients: usize, requests: usize) -> Vec<usize> {
    benchmark.prepare(database).unwrap_or_else(|error| panic!("{error}"));
    let mut counts = vec![0; benchmark.transactions().len()];
    for number in 0..clients {
        let (mut client, mut session) = (benchmark.client(number, 7), database.session(benchmark.schema()).unwrap());
        for _ in 0..requests {
            let drawn = client.draw();
            let outcome = client.run(&mut *session).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(outcome, Outcome::Committed);
            counts[drawn] += 1;
        }
    }
    counts
}

fn all_hold(benchmark: &dyn Benchmark, database: &dyn Database) {
    let lines = benchmark.check(database).unwrap();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.holds == Some(true)), "{lines:#?}");
}

/// The first cell of an answer, as text.
fn cell(benchmark: &dyn Benchmark, database: &dyn Database, sql: &str) -> String {
    let answer = database.session(benchmark.schema()).unwrap().query(sql).unwrap();
    plimsoll_workload::tpch::cells::text_rows(&answer.batches).unwrap()[0][0].clone().unwrap_or_default()
}

#[test]
fn the_guides_shop_runs_and_its_checks_hold() {
    let (database, shop) = (server(), workload("file:../../docs/examples/shop.toml", 0.1));
    load(&*shop, &database);
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
    load(&*shop, &database);
    assert_eq!(cell(&*shop, &database, "SELECT count(*) FROM orders"), "2000");
}

#[test]
fn pgbench_scripts_run_on_tables_as_pgbench_makes_them() {
    let database = server();
    let kind = "file:../../docs/examples/tpcb-like.sql@2,../../docs/examples/simple-update.sql@1,\
                ../../docs/examples/select-only.sql@1,../../docs/examples/hot-accounts.sql@4";
    let scripts = workload(kind, 1.0);
    load(&*scripts, &database);
    all_hold(&*scripts, &database);
    let counts = run(&*scripts, &database, 2, 200);
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    let history = cell(&*scripts, &database, "SELECT count(*) FROM pgbench_history");
    assert_eq!(history, (counts[0] + counts[1]).to_string());
    // Hot accounts keeps the sum of all accounts; the others note what they add.
    let [accounts, noted] =
        ["SELECT sum(abalance)::bigint FROM pgbench_accounts", "SELECT sum(delta)::bigint FROM pgbench_history"]
            .map(|sql| cell(&*scripts, &database, sql));
    assert_eq!(accounts, noted);
    let [branches, tellers] =
        ["SELECT sum(bbalance)::bigint FROM pgbench_branches", "SELECT sum(tbalance)::bigint FROM pgbench_tellers"]
            .map(|sql| cell(&*scripts, &database, sql));
    assert_eq!(branches, tellers);
}

/// Values of every type go in and out, as parameters, from queries, and as results of earlier statements.
#[test]
fn parameters_fit_columns_of_any_type() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("types.toml");
    let text = r#"
setup = """
CREATE TABLE kinds (id bigint PRIMARY KEY, small smallint, whole integer, exact numeric(10, 3), rough double precision,
    flag boolean, word text, code char(4), day date, at timestamp, zoned timestamptz, span interval, key uuid, bag jsonb, list integer[]);
INSERT INTO kinds SELECT 1, 2, 3, 4.125, 0.5, true, 'it''s', 'ab', '2020-02-29', '2020-02-29 12:30', '2020-02-29 12:30+02',
    '1 day', '00000000-0000-0000-0000-00000000002a', '{"a": [1, 2]}', '{1,2,3}';
"""
[[check]]
what = "the copy is as the first row"
sql = "SELECT small, whole, exact, rough, flag, word, code, day, at, zoned, span, key, bag, list[1:2] FROM kinds WHERE id = 2"
equal = "SELECT small, whole, exact, rough, flag, word, code, day, at, zoned, span, key, bag, list[1:2] FROM kinds WHERE id = 1"
[[transaction]]
name = "copy"
parameters.id = { sequence = 1, query = "SELECT max(id) FROM kinds" }
parameters.exact = { query = "SELECT exact FROM kinds" }
parameters.key = { query = "SELECT key FROM kinds" }
parameters.rough = { constant = 0.5 }
parameters.flag = { constant = true }
parameters.span = { constant = "1 day" }
parameters.small = { result = "first.small" }
parameters.whole = { result = "first.whole" }
parameters.word = { result = "first.word" }
parameters.code = { result = "first.code" }
parameters.day = { result = "first.day" }
parameters.at = { result = "first.at" }
parameters.zoned = { result = "first.zoned" }
parameters.bag = { result = "first.bag" }
parameters.list = { result = "first.list" }
statements = [
  { name = "first", sql = "SELECT small, whole, word, code, day, at, zoned, bag, list FROM kinds WHERE id = 1" },
  "INSERT INTO kinds VALUES (:id, :small, :whole, :exact, :rough, :flag, :word, :code, :day, :at, :zoned, :span, :key, :bag, :list)",
  "SELECT list[:small: :whole], list[1:2], :word::text || ':x', $$ :y $$ FROM kinds -- :z",
]
"#;
    fs::write(&file, text).unwrap();
    let kind = format!("file:{}", file.display());
    let (database, kinds) = (server(), workload(&kind, 1.0));
    load(&*kinds, &database);
    assert_eq!(run(&*kinds, &database, 1, 1), [1]);
    all_hold(&*kinds, &database);
}

/// A mistake is told before anything runs, with the place of the statement.
#[test]
fn mistakes_in_sql_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let database = server();
    let prepared = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        let made = workload(&format!("file:{}", file.display()), 1.0);
        let progress = LoadProgress { report: &|_, _, _| {}, stop: &AtomicBool::new(false) };
        let loaded = made.load(&database, &progress).map_err(|error| error.to_string());
        loaded.and_then(|()| made.prepare(&database).map_err(|error| error.to_string()))
    };
    let table = "setup = \"CREATE TABLE t (a int)\"\n[[transaction]]\nname = \"a\"\n";
    let good = prepared("good.toml", &format!("{table}statements = [\"SELECT a FROM t\"]"));
    assert_eq!(good, Ok(()));
    for (name, text, expect) in [
        ("b.toml", format!("{table}statements = [\n\"SELECT b FROM t\"]"), "b.toml:5: statement `a.1`: "),
        ("c.toml", format!("{table}statements = [\"SELEC 1\"]"), "c.toml:4: statement `a.1`"),
        ("d.toml", "setup = \"\"\"\nSELECT 1;\nCREATE TABLE t (a nothing);\"\"\"\n[[transaction]]\nname = \"a\"\nstatements = [\"SELECT 1\"]".to_owned(), "d.toml:3: the setup failed"),
        ("e.sql", "\n\nSELECT 1 FROM nowhere;".to_owned(), "e.sql:3: statement `e.1`"),
        ("f.toml", "[[transaction]]\nname = \"a\"\nparameters.x = { query = \"SELECT 1 FROM nowhere\" }\nstatements = [\"SELECT :x::int\"]".to_owned(), "f.toml:3: the values of a parameter"),
    ] {
        let error = prepared(name, &text).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }
}

/// Story: a column was misspelt in a statement with parameters. The error showed `PREPARE plimsoll_check AS … $1` and a place
/// counted in that text, so that its author looked for it in vain in the file.
#[test]
fn errors_show_the_statement_as_the_file_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = server();
    let made = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        workload(&format!("file:{}", file.display()), 1.0)
    };
    let head = "setup = \"CREATE TABLE t (a int); INSERT INTO t VALUES (0)\"\n[parameters]\nfirst = { constant = 1 }\nlast = { constant = 7 }\n[[transaction]]\nname = \"a\"\n";
    let wrong = made("wrong.toml", &format!("{head}statements = [\"SELECT :first::int, :last::int, b FROM t\"]"));
    load(&*wrong, &database);
    let error = wrong.prepare(&database).unwrap_err().to_string();
    let expect = "wrong.toml:7: statement `a.1`: ERROR 42703: column \"b\" does not exist, at `b FROM t`; it is \
                  `SELECT :first::int, :last::int, b FROM t`";
    assert!(error.ends_with(expect), "{error}");

    let division =
        made("division.toml", &format!("{head}statements = [\"SELECT :first::int, :last::int / a FROM t\"]"));
    load(&*division, &database);
    division.prepare(&database).unwrap();
    let mut client = division.client(0, 7);
    client.draw();
    let error = client.run(&mut *database.session(division.schema()).unwrap()).unwrap_err().to_string();
    let expect = "division.toml:7: statement `a.1` failed: ERROR 22012: division by zero; it was \
                  `SELECT :first::int, :last::int / a FROM t` with :first = 1, :last = 7";
    assert!(error.ends_with(expect), "{error}");
}

/// Story: the rules of an operator's settings tell classes by user, and all clients of an experiment came as one. A server of our own
/// makes the user that a workload asks for, who may use its tables.
#[test]
fn clients_log_in_as_the_user_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let database = server();
    let file = folder.path().join("users.toml");
    let text = "setup = \"CREATE TABLE t (a int); INSERT INTO t VALUES (1)\"\n[[transaction]]\nname = \"a\"\n\
                statements = [\"UPDATE t SET a = 1 / (session_user = 'shop')::int\"]";
    fs::write(&file, text).unwrap();
    let made = workload(&format!("file:{}", file.display()), 1.0);
    load(&*made, &database);
    made.prepare(&database).unwrap();
    let mut client = made.client(0, 7);
    client.draw();
    // Twice, for the second client finds the user.
    for _ in 0..2 {
        let mut session = database.session_as(made.schema(), "shop").unwrap();
        client.run(&mut *session).unwrap();
    }
    let mut other = database.session(made.schema()).unwrap();
    assert!(client.run(&mut *other).unwrap_err().to_string().contains("division by zero"));
}

/// Tables that are there are used and left alone; nothing is made.
#[test]
fn tables_of_the_user_are_used_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let text = "writes = \"in place\"\n[[transaction]]\nname = \"a\"\ntransaction = false\nparameters.a = { query = \"SELECT a FROM mine\" }\n\
                statements = [\"UPDATE mine SET b = b + 1 WHERE a = :a\"]\n[[check]]\nwhat = \"sum\"\nsql = \"SELECT sum(b) FROM mine\"\nexpect = 20";
    fs::write(&file, text).unwrap();
    let (database, mine) = (server(), workload(&format!("file:{}", file.display()), 1.0));
    let script = "CREATE TABLE public.mine (a int PRIMARY KEY, b int); INSERT INTO public.mine SELECT id, 0 FROM generate_series(1, 5) id";
    database.run_script(mine.schema(), script).unwrap();
    load(&*mine, &database);
    run(&*mine, &database, 2, 10);
    all_hold(&*mine, &database);
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'plimsoll%'";
    assert_eq!(cell(&*mine, &database, schemas), "0");
    // A statement that fails by itself leaves the session usable.
    let mut session = database.session(mine.schema()).unwrap();
    let mut rows = plimsoll_workload::statement::Rows::new();
    static BAD: plimsoll_workload::statement::Statement = plimsoll_workload::statement::Statement {
        name: "bad",
        sql: "INSERT INTO mine VALUES (1, 0)",
        native: &plimsoll_workload::statement::sql_only,
    };
    assert!(matches!(session.execute(&BAD, &[], &mut rows), Err(DatabaseError::Duplicate { .. })));
    session.begin().unwrap();
    session.commit().unwrap();
}

/// Story: sessions knew prepared statements by their addresses, so that no workload that was read from a file could ever be forgotten.
/// Statements of later workloads have the names of earlier ones, and may lie where those lay.
#[test]
fn a_session_outlives_a_workload() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.sql");
    let database = server();
    fs::write(&file, "INSERT INTO public.seen VALUES (0);").unwrap();
    let kind = format!("file:{}", file.display());
    let mine = workload(&kind, 1.0);
    database.run_script(mine.schema(), "CREATE TABLE public.seen (number int)").unwrap();
    let mut session = database.session(mine.schema()).unwrap();
    for number in 10..60 {
        // Of the same length as the one before, whose memory it may get.
        fs::write(&file, format!("INSERT INTO public.seen VALUES ({number});")).unwrap();
        let next = workload(&kind, 1.0);
        let mut client = next.client(0, 7);
        // Prepared the first time, found the second.
        for _ in 0..2 {
            client.draw();
            client.run(&mut *session).unwrap();
        }
    }
    let seen = "SELECT count(*) || ' of ' || count(DISTINCT number) || ' up to ' || max(number) FROM public.seen";
    assert_eq!(cell(&*mine, &database, seen), "100 of 50 up to 59");
}

/// Names of result columns are told from the text as the server tells them.
#[test]
fn columns_are_called_what_the_server_calls_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("names.sql");
    let items = [
        "a",
        "t.a",
        "\"B\"",
        "t.\"B\"",
        "a AS x",
        "a y",
        "count(*)",
        "a::text",
        "coalesce(a, 0)",
        "max(a) AS most",
        "f.c",
        "case when true then 1 end",
        "extract(year from now()) as y2",
        "(select 1) as z",
        "now()",
        "array[1] as list",
    ];
    // Each column that has a name becomes a variable, and is used.
    let mut text = String::new();
    for (number, item) in items.iter().enumerate() {
        let from = "FROM (SELECT 1 AS a, 2 AS \"B\") t, (SELECT 3 AS c) f";
        let group = "GROUP BY t.a, t.\"B\", f.c";
        text += &format!("SELECT {item} {from} {group} \\gset v{number}_\n");
    }
    let names = ["a", "a", "B", "B", "x", "y", "count", "a", "coalesce", "most", "c", "case", "y2", "z", "now", "list"];
    for (number, name) in names.iter().enumerate() {
        text += &format!("SELECT :v{number}_{name}::text;\n");
    }
    fs::write(&file, text).unwrap();
    let (database, made) = (server(), workload(&format!("file:{}", file.display()), 1.0));
    load(&*made, &database);
    run(&*made, &database, 1, 1);
    let mut session = database.session(made.schema()).unwrap();
    for (item, name) in items.iter().zip(names) {
        let sql =
            format!("SELECT {item} FROM (SELECT 1 AS a, 2 AS \"B\") t, (SELECT 3 AS c) f GROUP BY t.a, t.\"B\", f.c");
        let answer = session.query(&sql).unwrap();
        assert_eq!(answer.batches[0].schema().field(0).name(), name, "{item}");
    }
}
