//! Tests of a PostgreSQL server only: its types, its errors, its users, and existing tables.

use plimsoll_workload::database::{Database, DatabaseError, Login};
use plimsoll_workload::statement::{Rows, Statement, sql_only};

use crate::{all_hold, cell, load, prepared, run, server, written};

/// Values of every type go in and out, as parameters, from queries, and as results of earlier statements.
#[test]
fn parameters_fit_columns_of_any_type() {
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
    let (database, kinds) = (server(), written("types.toml", text));
    load(&*kinds, &database).unwrap();
    assert_eq!(run(&*kinds, &database, 1, 1), [1]);
    all_hold(&*kinds, &database);
}

/// A mistake is reported before anything runs, with the place of the statement.
#[test]
fn mistakes_in_sql_are_told_with_their_place() {
    let database = server();
    let table = "setup = \"CREATE TABLE t (a int)\"\n[[transaction]]\nname = \"a\"\n";
    let good = prepared(&database, "good.toml", &format!("{table}statements = [\"SELECT a FROM t\"]"));
    assert_eq!(good, Ok(()));
    for (name, text, expect) in [
        ("b.toml", format!("{table}statements = [\n\"SELECT b FROM t\"]"), "b.toml:5: statement `a.1`: "),
        ("c.toml", format!("{table}statements = [\"SELEC 1\"]"), "c.toml:4: statement `a.1`"),
        ("d.toml", "setup = \"\"\"\nSELECT 1;\nCREATE TABLE t (a nothing);\"\"\"\n[[transaction]]\nname = \"a\"\nstatements = [\"SELECT 1\"]".to_owned(), "d.toml:3: the setup failed"),
        ("e.sql", "\n\nSELECT 1 FROM nowhere;".to_owned(), "e.sql:3: statement `e.1`"),
        ("f.toml", "[[transaction]]\nname = \"a\"\nparameters.x = { query = \"SELECT 1 FROM nowhere\" }\nstatements = [\"SELECT :x::int\"]".to_owned(), "f.toml:3: the values of a parameter"),
    ] {
        let error = prepared(&database, name, &text).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }
}

/// Story: a column was misspelt in a statement with parameters. The error showed `PREPARE plimsoll_check AS … $1` and a
/// place counted in that text, so that its author could not find it in the file.
#[test]
fn errors_show_the_statement_as_the_file_has_it() {
    let database = server();
    let head = "setup = \"CREATE TABLE t (a int); INSERT INTO t VALUES (0)\"\n[parameters]\nfirst = { constant = 1 }\nlast = { constant = 7 }\n[[transaction]]\nname = \"a\"\n";
    let wrong = written("wrong.toml", &format!("{head}statements = [\"SELECT :first::int, :last::int, b FROM t\"]"));
    load(&*wrong, &database).unwrap();
    let error = wrong.prepare(&database).unwrap_err().to_string();
    let expect = "wrong.toml:7: statement `a.1`: ERROR 42703: column \"b\" does not exist, at `b FROM t`; it is \
                  `SELECT :first::int, :last::int, b FROM t`";
    assert!(error.ends_with(expect), "{error}");

    let division =
        written("division.toml", &format!("{head}statements = [\"SELECT :first::int, :last::int / a FROM t\"]"));
    load(&*division, &database).unwrap();
    division.prepare(&database).unwrap();
    let mut client = division.client(0, 7);
    client.draw();
    let error = client.run(&mut *database.session(division.schema()).unwrap()).unwrap_err().to_string();
    let expect = "division.toml:7: statement `a.1` failed: ERROR 22012: division by zero; it was \
                  `SELECT :first::int, :last::int / a FROM t` with :first = 1, :last = 7";
    assert!(error.ends_with(expect), "{error}");
}

/// Story: an operator's settings assign classes by user, but all clients of an experiment logged in as one user. A
/// server that we started creates the user that a workload names, and lets it use the tables.
#[test]
fn clients_log_in_as_the_user_that_is_asked_for() {
    let database = server();
    let text = "setup = \"CREATE TABLE t (a int); INSERT INTO t VALUES (1)\"\n[[transaction]]\nname = \"a\"\n\
                statements = [\"UPDATE t SET a = 1 / (session_user = 'shop')::int\"]";
    let made = written("users.toml", text);
    load(&*made, &database).unwrap();
    made.prepare(&database).unwrap();
    let mut client = made.client(0, 7);
    client.draw();
    // Twice, because the second session finds the user.
    for _ in 0..2 {
        let mut session = database.session_as(made.schema(), Login { user: Some("shop"), ..Login::default() }).unwrap();
        client.run(&mut *session).unwrap();
    }
    let mut other = database.session(made.schema()).unwrap();
    assert!(client.run(&mut *other).unwrap_err().to_string().contains("division by zero"));
}

/// Existing tables are used and otherwise left alone; no tables are created.
#[test]
fn tables_of_the_user_are_used_as_they_are() {
    let text = "writes = \"in place\"\n[[transaction]]\nname = \"a\"\ntransaction = false\nparameters.a = { query = \"SELECT a FROM mine\" }\n\
                statements = [\"UPDATE mine SET b = b + 1 WHERE a = :a\"]\n[[check]]\nwhat = \"sum\"\nsql = \"SELECT sum(b) FROM mine\"\nexpect = 20";
    let (database, mine) = (server(), written("mine.toml", text));
    let script = "CREATE TABLE public.mine (a int PRIMARY KEY, b int); INSERT INTO public.mine SELECT id, 0 FROM generate_series(1, 5) id";
    database.run_script(mine.schema(), script).unwrap();
    load(&*mine, &database).unwrap();
    run(&*mine, &database, 2, 10);
    all_hold(&*mine, &database);
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'plimsoll%'";
    assert_eq!(cell(&*mine, &database, schemas), "0");
    // A statement that fails by itself leaves the session usable.
    let mut session = database.session(mine.schema()).unwrap();
    let mut rows = Rows::new();
    static BAD: Statement = Statement { name: "bad", sql: "INSERT INTO mine VALUES (1, 0)", native: &sql_only };
    assert!(matches!(session.execute(&BAD, &[], &mut rows), Err(DatabaseError::Duplicate { .. })));
    session.begin().unwrap();
    session.commit().unwrap();
}

/// Story: sessions identified prepared statements by address, so that no workload that was read from a file could ever
/// be freed. Statements of later workloads have the names of earlier ones, and may have their addresses.
#[test]
fn a_session_outlives_a_workload() {
    let (database, mine) = (server(), written("mine.sql", "INSERT INTO public.seen VALUES (0);"));
    database.run_script(mine.schema(), "CREATE TABLE public.seen (number int)").unwrap();
    let mut session = database.session(mine.schema()).unwrap();
    for number in 10..60 {
        // Of the same length as the previous text, whose memory it may get.
        let next = written("mine.sql", &format!("INSERT INTO public.seen VALUES ({number});"));
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

/// Names of result columns derived from the text are those that the server reports.
#[test]
fn columns_are_called_what_the_server_calls_them() {
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
    let (database, made) = (server(), written("names.sql", &text));
    load(&*made, &database).unwrap();
    run(&*made, &database, 1, 1);
    let mut session = database.session(made.schema()).unwrap();
    for (item, name) in items.iter().zip(names) {
        let sql =
            format!("SELECT {item} FROM (SELECT 1 AS a, 2 AS \"B\") t, (SELECT 3 AS c) f GROUP BY t.a, t.\"B\", f.c");
        let answer = session.query(&sql).unwrap();
        assert_eq!(answer.batches[0].schema().field(0).name(), name, "{item}");
    }
}
