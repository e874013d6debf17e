//! Tests of the embedded engine only: tables that outlive the process, and statements that it refuses.

use plimsoll_workload::database::Database;

use crate::{all_hold, cell, embedded, load, prepared, run, workload, written};

/// A database that outlives its process knows the tables of a workload that is read from its file again.
#[test]
fn tables_are_found_again_after_the_database_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let option = format!("data_folder={}", folder.path().join("data").display());
    let options = ["durability=sync", &option];
    let shop = || workload("file:../../docs/examples/shop.toml", 0.1);
    let orders = {
        let (database, shop) = (embedded(&options), shop());
        load(&*shop, &database).unwrap();
        run(&*shop, &database, 2, 30)[1]
    };
    let (database, shop) = (embedded(&options), shop());
    all_hold(&*shop, &database);
    assert_eq!(cell(&*shop, &database, "SELECT count(*) FROM orders"), (2000 + orders).to_string());
    run(&*shop, &database, 2, 30);
    all_hold(&*shop, &database);
}

/// Values of every type go in and out, as parameters, from queries, and as results of earlier statements.
#[test]
fn parameters_fit_columns_of_any_type() {
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
    let (database, kinds) = (embedded(&[]), written("types.toml", text));
    load(&*kinds, &database).unwrap();
    assert_eq!(run(&*kinds, &database, 1, 1), [1, 0]);
    all_hold(&*kinds, &database);
}

/// Which primary keys can be hash tables follows from the statements of the workload.
#[test]
fn tables_of_which_ranges_of_the_key_are_read_keep_trees() {
    let text = r#"
setup = """
CREATE TABLE points (id int PRIMARY KEY, seen int);
CREATE TABLE steps (id int, step int, seen int, PRIMARY KEY (id, step));
INSERT INTO points VALUES (1, 0), (2, 0);
INSERT INTO steps VALUES (1, 1, 0), (1, 2, 0), (2, 1, 0);
"""
[[check]]
what = "both steps of the first were counted as often"
sql = "SELECT sum(seen) FROM steps"
equal = "SELECT 2 * sum(seen) FROM points"
[[transaction]]
name = "walk"
statements = ["UPDATE points SET seen = seen + 1 WHERE id = 1", "UPDATE steps SET seen = seen + 1 WHERE id = 1"]
"#;
    let (database, walks) = (embedded(&["index=hash"]), written("walks.toml", text));
    load(&*walks, &database).unwrap();
    assert_eq!(run(&*walks, &database, 2, 20), [40]);
    all_hold(&*walks, &database);
    let indexes = database.indexes(walks.schema());
    assert_eq!(indexes, [("points".to_owned(), "hash"), ("steps".to_owned(), "tree")].into());
}

/// A mistake is reported before anything runs, with the place of the statement and the place in it.
#[test]
fn what_cannot_be_compiled_is_told_with_its_place() {
    let database = embedded(&[]);
    let table = "setup = \"CREATE TABLE t (a int PRIMARY KEY, b int)\"\n[[transaction]]\nname = \"x\"\n";
    let good =
        format!("{table}read_only = true\nstatements = [\"SELECT b FROM t WHERE a = 1\", \"SELECT sum(b) FROM t\"]");
    assert_eq!(prepared(&database, "good.toml", &good), Ok(()));
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
        let error = prepared(&database, name, &text).unwrap_err();
        assert!(error.contains(expect), "{error}");
    }
}
