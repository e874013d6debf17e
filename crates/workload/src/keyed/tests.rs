//! Programs compared with a plain model of the statements' meaning, and the statements that are refused.

mod locks;
mod model;

use std::borrow::Cow;

use super::*;
use crate::database::{Database, Session};
use crate::memory::MemoryDatabase;
use crate::schema::{Column, ColumnKind, Schema, SecondaryIndex, Storage, Table, column, nullable};
use crate::statement::{RowAccess, Rows, Value};

const COLUMNS: &[Column] = &[
    column("a", ColumnKind::Int),
    column("b", ColumnKind::Int),
    column("name", ColumnKind::Text(6)),
    nullable("n", ColumnKind::BigInt),
    nullable("price", ColumnKind::Decimal { precision: 8, scale: 2 }),
];

/// A table with one index more than its key.
static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("keyed"),
    tables: &[
        Table {
            name: "t",
            columns: COLUMNS,
            primary_key: &[0, 1],
            secondary: &[SecondaryIndex { name: "t_name", columns: &[2, 0] }],
            storage: Storage::RowsAndColumns,
            has_key_ranges: true,
        },
        Table {
            name: "log",
            columns: &[
                nullable("day", ColumnKind::Date),
                nullable("at", ColumnKind::Timestamp),
                nullable("line", ColumnKind::Text(20)),
            ],
            primary_key: &[],
            secondary: &[],
            storage: Storage::RowsAndColumns,
            has_key_ranges: false,
        },
    ],
};

/// When every transaction of these tests began: 1970-01-02 00:00:01.
const NOW_US: i64 = 86_401_000_000;

/// The names of those statements of a benchmark that are beyond the subset.
pub(crate) fn beyond(
    schema: &Schema,
    statements: impl Iterator<Item = &'static crate::statement::Statement<'static>>,
) -> Vec<&'static str> {
    let catalog = Catalog::of(schema);
    let is_beyond = |sql: &str| match Program::compile(&catalog, sql) {
        Ok(program) => {
            assert!(!format!("{program:?}").contains("Now"), "{sql} asks for the time");
            let range = program.key_range().map(|table| &catalog.tables()[table]);
            let is_declared = range.is_none_or(|table| table.has_key_ranges);
            assert!(is_declared, "{sql} reads a range of a primary key: declare its table with key ranges");
            false
        }
        Err(_) => true,
    };
    statements.filter(|statement| is_beyond(statement.sql)).map(|statement| statement.name).collect()
}

/// A session on empty tables, which compiles each statement that it runs.
struct Sql(Box<dyn Session>);

impl Sql {
    fn new() -> Self {
        let database = MemoryDatabase::new();
        database.create(&SCHEMA).unwrap();
        Sql(database.session(&SCHEMA).unwrap())
    }

    fn run_program(&mut self, program: &Program, parameters: &[Value<'_>]) -> Result<Rows, DatabaseError> {
        let native = |access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows| {
            program.run(access, parameters, NOW_US, rows)
        };
        let mut rows = Rows::new();
        let statement = crate::statement::Statement { name: "test", sql: "", native: &native };
        self.0.execute(&statement, parameters, &mut rows).map(|()| rows)
    }

    fn try_run(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<Rows, String> {
        let program = Program::compile(&Catalog::of(&SCHEMA), sql).map_err(|error| error.to_string())?;
        self.run_program(&program, parameters).map_err(|error| error.to_string())
    }

    /// Rows as text: values by commas, rows by semicolons.
    fn run(&mut self, sql: &str, parameters: &[Value<'_>]) -> String {
        shown(&self.try_run(sql, parameters).unwrap_or_else(|error| panic!("{sql}: {error}")))
    }
}

fn shown(rows: &Rows) -> String {
    let value = |row, column| match rows.value(row, column) {
        Value::Null => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.to_owned(),
    };
    let row = |row| (0..rows.columns()).map(|column| value(row, column)).collect::<Vec<_>>().join(",");
    (0..rows.len()).map(row).collect::<Vec<_>>().join(";")
}

fn filled() -> Sql {
    let mut sql = Sql::new();
    let values = "(1, 1, 'ann', 10, 1.50), (1, 2, 'bob', NULL, NULL), (1, 3, 'ann', -5, 2), (2, 1, 'eve', 7, 0.05)";
    let rows = sql.try_run(&format!("INSERT INTO t VALUES {values}"), &[]).unwrap();
    assert_eq!(rows.affected(), 4);
    sql
}

#[test]
fn rows_are_found_by_key_and_by_range() {
    let mut sql = filled();
    let [one, two] = [1, 2].map(Value::Int);
    for (text, parameters, expect) in [
        ("SELECT name, price FROM t WHERE a = $1 AND b = $2", &[one, two][..], "bob,null"),
        ("SELECT * FROM t WHERE b = 1 AND a = $1", &[two], "2,1,eve,7,0.05"),
        ("SELECT b FROM t WHERE a = $1", &[one], "1;2;3"),
        ("SELECT b FROM t WHERE a = $1 ORDER BY b DESC LIMIT $2", &[one, two], "3;2"),
        ("SELECT x.b FROM t AS x WHERE x.a = 1 AND x.b > 1 AND n IS NOT NULL", &[], "3"),
        ("SELECT a, b FROM t WHERE name = 'ann' ORDER BY name, a", &[], "1,1;1,3"),
        ("SELECT name FROM t WHERE name > 'ann' ORDER BY name LIMIT 1", &[], "bob"),
        ("SELECT name FROM t WHERE name BETWEEN 'b' AND 'e' OR name = 'x'", &[], "refused"),
        ("SELECT name FROM t WHERE name >= 'b' AND name <= 'e'", &[], "bob"),
        ("SELECT name FROM t ORDER BY a DESC, b DESC LIMIT 2", &[], "eve;ann"),
        ("SELECT a FROM t WHERE a = NULL AND b = 1", &[], ""),
        ("SELECT a FROM t WHERE a = 3000000000 AND b = 1", &[], ""),
        ("SELECT b FROM t WHERE a = 1 AND b < 3000000000 AND b > -3000000000", &[], "1;2;3"),
        ("SELECT b FROM t WHERE a = 1 AND b >= 3000000000", &[], ""),
        ("SELECT name FROM t WHERE name = 'a text that is too long'", &[], ""),
        ("SELECT name FROM t WHERE name >= 'annnnnnnnnn' AND name < 'evelyn is too long'", &[], "bob;eve"),
        ("SELECT n AS b FROM t WHERE a = 1 ORDER BY b", &[], "refused"),
        ("SELECT a FROM t WHERE a = 1 AND b = 1 FOR UPDATE", &[], "1"),
        ("SELECT a FROM t WHERE a = 1 AND b IN (1, 3) FOR SHARE", &[], "1;1"),
        ("SELECT 1 + $1, $2 || 'x'", &[one, Value::Text("y")], "2,yx"),
    ] {
        let found = sql.try_run(text, parameters).map_or_else(|_| "refused".to_owned(), |rows| shown(&rows));
        assert_eq!(found, expect, "{text}");
    }
}

#[test]
fn aggregates_are_those_of_the_rows_that_are_found() {
    let mut sql = filled();
    for (text, expect) in [
        ("SELECT count(*), count(n), sum(n), min(b), max(price), sum(price) FROM t WHERE a = 1", "3,2,5,1,2.00,3.50"),
        ("SELECT count(*), sum(n), max(n) FROM t WHERE a = 9", "0,null,null"),
        ("SELECT coalesce(sum(n), 0)::bigint + 1 FROM t WHERE a = 9", "1"),
        ("SELECT min(name), max(name) FROM t WHERE name >= 'b'", "bob,eve"),
        ("SELECT max(a) FROM t", "2"),
        ("SELECT min(b) FROM t WHERE a = 1 AND b > 1", "2"),
        ("SELECT max(b) FROM t WHERE a = 9", "null"),
    ] {
        assert_eq!(sql.run(text, &[]), expect, "{text}");
    }
}

#[test]
fn rows_are_changed_and_returned() {
    let mut sql = filled();
    let text = "UPDATE t SET n = n + $1, price = price * $1 WHERE a = 1 AND b = 1 RETURNING n, price, price * 0.1";
    assert_eq!(sql.run(text, &[Value::Int(2)]), "12,3.00,0.300");
    let rows = sql.try_run("UPDATE t SET price = 0.125, n = a + b WHERE a = 1", &[]).unwrap();
    assert_eq!(rows.affected(), 3);
    assert_eq!(sql.run("SELECT b, n, price FROM t WHERE a = 1", &[]), "1,2,0.13;2,3,0.13;3,4,0.13");
    // Both from the old row.
    sql.run("UPDATE t SET n = price::bigint, price = n WHERE a = 1 AND b = 3", &[]);
    assert_eq!(sql.run("SELECT n, price FROM t WHERE a = 1 AND b = 3", &[]), "0,4.00");
    assert_eq!(sql.run("DELETE FROM t WHERE a = 1 AND b > 1 RETURNING b, name", &[]), "2,bob;3,ann");
    assert_eq!(sql.run("SELECT count(*) FROM t WHERE a = 1", &[]), "1");
    assert_eq!(
        sql.run("INSERT INTO t (b, a, name) VALUES (7, 7, $1) RETURNING *", &[Value::Int(5)]),
        "7,7,5,null,null"
    );
    let error = sql.try_run("INSERT INTO t (b, a, name) VALUES (7, 7, '')", &[]).unwrap_err();
    assert_eq!(error, "duplicate key in t");
}

/// Keys in the order of their columns are not computed, but a value that does not fit is found, too.
#[test]
fn keys_and_rows_are_parameters_in_any_form() {
    let mut sql = filled();
    let [one, two, large] = [1, 2, 1 << 40].map(Value::Int);
    let (by_key, insert) =
        ("SELECT b FROM t WHERE a = $1 AND b = $2", "INSERT INTO log VALUES ($1, $2, $3) RETURNING *");
    for (text, parameters, expect) in [
        (by_key, &[one, two][..], "2"),
        (by_key, &[Value::Text("1"), two], "2"),
        (by_key, &[Value::Null, two], ""),
        (by_key, &[one, large], "parameter $2: integer out of range"),
        ("SELECT b FROM t WHERE a = $2 AND b = $1", &[two, one], "2"),
        ("SELECT b FROM t WHERE a = $1::bigint AND b = $2", &[large, two], ""),
        (insert, &[one, large, Value::Text("x")], "1,1099511627776,x"),
        (insert, &[Value::Text("1970-01-03"), Value::Null, Value::Int(5)], "2,null,5"),
        (insert, &[large, two, Value::Null], "parameter $1: date out of range"),
        (
            insert,
            &[one, two, Value::Text("more than twenty bytes")],
            "text of 22 bytes in column `line`, which has room for 20",
        ),
        (insert, &[one, two, Value::Text("\0")], "parameter $3: text with a byte 0"),
        ("UPDATE t SET n = $3 WHERE a = $1 AND b = $2 RETURNING n", &[one, two, Value::Text("7")], "7"),
        ("UPDATE t SET n = $3 WHERE a = $1 AND b = $2 RETURNING n", &[one, two, Value::Null], "null"),
    ] {
        let found = sql.try_run(text, parameters).map_or_else(|error| error, |rows| shown(&rows));
        assert_eq!(found, expect, "{text}: {parameters:?}");
    }
}

#[test]
fn the_time_is_that_at_which_the_transaction_began() {
    let mut sql = Sql::new();
    let text = "INSERT INTO log VALUES (CURRENT_DATE, CURRENT_TIMESTAMP, 'x') RETURNING day, at, now() - at = interval '0 days'";
    assert!(
        sql.try_run(text, &[]).unwrap_err().contains("there is no such operator"),
        "intervals of two times have no type"
    );
    let text =
        "INSERT INTO log VALUES (CURRENT_DATE, now() + 2 * interval '1 hour', 'x') RETURNING day, at, day + 1 > at";
    assert_eq!(sql.run(text, &[]), format!("1,{},1", NOW_US + 7_200_000_000));
    let text = "INSERT INTO log (day) VALUES ($1) RETURNING day - date '1970-01-01', line";
    assert_eq!(sql.run(text, &[Value::Text("1970-03-01")]), "59,null");
}

/// The answers of PostgreSQL to the same statements.
#[test]
fn expressions_mean_what_they_mean_in_postgresql() {
    let mut sql = Sql::new();
    for (expression, expect) in [
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("7.5 % 2", "1.5"),
        ("1 - 1.50", "-0.50"),
        ("2147483647 + 1::bigint", "2147483648"),
        ("NULL AND false", "0"),
        ("NULL OR false", "null"),
        ("NOT (NULL = 1)", "null"),
        ("1 IN (2, NULL)", "null"),
        ("3 NOT BETWEEN 1 AND 2", "1"),
        ("coalesce(NULL, 2, 1.5)", "2"),
        ("CASE WHEN 1 > 2 THEN 'a' WHEN NULL THEN 'b' ELSE 'c' END", "c"),
        ("'12'::integer + 1", "13"),
        ("1.5::integer", "2"),
        ("12.345::numeric(4, 1)", "12.3"),
        ("'abcdef'::varchar(3)", "abc"),
        ("'a' || 1 || 2.50", "a12.50"),
        ("(1 = 1)::integer", "1"),
        ("date '2024-03-01' - 1 = date '2024-02-29'", "1"),
        ("'b' > 'a' AND 'a' = 'a'", "1"),
        ("5000000000 > 1", "1"),
    ] {
        assert_eq!(sql.run(&format!("SELECT {expression}"), &[]), expect, "{expression}");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let mut sql = filled();
    for (text, parameters, expect) in [
        ("SELECT $1::integer + 1", &[Value::Int(i32::MAX.into())][..], "integer out of range"),
        ("SELECT $1::bigint * 2", &[Value::Int(i64::MAX)], "bigint out of range"),
        ("SELECT 1 / $1", &[Value::Int(0)], "division by zero"),
        ("SELECT a FROM t WHERE a = $1 AND b = 1", &[Value::Int(1 << 40)], "parameter $1: integer out of range"),
        ("SELECT a FROM t WHERE a = $1 AND b = 1", &[Value::Text("x")], "parameter $1: invalid input for type integer"),
        ("SELECT a FROM t WHERE a = $1 AND b = 1", &[], "0 parameters are given, and 1 used"),
        ("UPDATE t SET price = 1000000 WHERE a = 1 AND b = 1", &[], "numeric field overflow"),
        ("INSERT INTO t VALUES (5, 5, 'abcdefg', 1, 1)", &[], "text of 7 bytes in column `name`"),
        ("INSERT INTO t VALUES (5, NULL, 'a', 1, 1)", &[], "null in column `b`"),
        ("SELECT a FROM t WHERE a = 1 LIMIT $1", &[Value::Int(-1)], "LIMIT must not be negative"),
    ] {
        let error = sql.try_run(text, parameters).unwrap_err();
        assert!(error.contains(expect), "{text}: {error}");
    }
}

/// Each with its place and the remedy.
#[test]
fn what_is_beyond_the_subset_is_refused() {
    let mut wrong = Vec::new();
    for (text, expect) in [
        ("SELEC 1", "1:1: Expected: an SQL statement"),
        ("SELECT 1; SELECT 2", "1:11: this is a second statement"),
        ("TRUNCATE t", "none of SELECT, INSERT, UPDATE and DELETE"),
        ("SELECT a\nFROM t\nWHERE nothing = 1", "3:7: `t` has no column `nothing`; it has a, b, name, n, price"),
        ("SELECT a FROM nowhere WHERE a = 1", "1:15: there is no table `nowhere`; there are: t, log"),
        ("SELECT y.a FROM t x WHERE a = 1", "1:8: there is no `y` in FROM; the table goes by `x`"),
        ("SELECT a FROM t WHERE price = 1", "1:10: every row of `t` would be looked at; compare a column of an index"),
        ("SELECT a FROM t WHERE b = 1 AND n = 1", "make an index on b, n"),
        ("SELECT count(*) FROM t", "every row of `t` would be looked at"),
        ("DELETE FROM log", "1:13: every row of `log` would be looked at"),
        ("SELECT a FROM t WHERE a = 1 ORDER BY n", "no index gives the rows in the order of n"),
        ("SELECT a FROM t WHERE a = 1 ORDER BY b, a DESC, n", "accepted"),
        ("SELECT a FROM t WHERE name = 'a' ORDER BY a, b", "no index gives the rows in the order of a, b"),
        ("SELECT a FROM t WHERE a = 1 ORDER BY b + 1", "rows are ordered by columns of an index"),
        ("SELECT a FROM t WHERE a = 1 LIMIT 1 OFFSET 2", "1:37: OFFSET would read rows to throw them away"),
        ("SELECT DISTINCT a FROM t WHERE a = 1", "1:8: this part of the statement is beyond"),
        ("SELECT a FROM t WHERE a = 1 GROUP BY a", "1:29: this part of the statement is beyond"),
        ("SELECT a, count(*) FROM t WHERE a = 1", "1:8: a column beside aggregates"),
        ("SELECT count(*) FROM t WHERE a = 1 HAVING count(*) > 1", "1:36: this part"),
        ("SELECT a FROM t, log WHERE a = 1", "1:18: a keyed statement has one table"),
        ("SELECT a FROM t JOIN log ON true WHERE a = 1", "joins are beyond keyed statements"),
        ("SELECT a FROM t WHERE a = (SELECT 1)", "is beyond keyed statements; use a keyed statement"),
        ("SELECT a FROM t WHERE a = 1 FOR UPDATE SKIP LOCKED", "1:40: rows are locked by FOR UPDATE"),
        ("SELECT a FROM public.t WHERE a = 1", "1:15: name the table without a schema"),
        ("WITH x AS (SELECT 1) SELECT a FROM t WHERE a = 1", "1:1: this part"),
        ("SELECT random()", "1:8: `random()` is beyond keyed statements"),
        ("SELECT $1 + $2", "1:8: the type of an operand is not known"),
        ("SELECT -$1", "the type of an operand is not known"),
        ("SELECT 1 WHERE true", "1:10: this part"),
        ("SELECT a = 'x' FROM t WHERE a = 1", "1:12: invalid input for type integer"),
        ("SELECT a || b FROM t WHERE a = 1", "|| joins texts"),
        ("SELECT name = 1 FROM t WHERE a = 1", "text and integer do not compare"),
        ("SELECT price / 2 FROM t WHERE a = 1", "numerics are not divided here"),
        ("SELECT 2147483647 + 1", "integer out of range"),
        ("UPDATE t SET a = 2 WHERE a = 1", "1:14: `a` belongs to an index"),
        ("UPDATE t SET n = 1, n = 2 WHERE a = 1", "1:21: `n` is set twice"),
        ("UPDATE t SET n = 1 FROM log WHERE a = 1", "1:20: this part"),
        ("UPDATE t SET n = 'x' WHERE a = 1", "1:18: invalid input for type bigint"),
        ("UPDATE t SET n = name WHERE a = 1", "1:18: column `n` is of type bigint, but this is of type text"),
        ("DELETE FROM t USING log WHERE a = 1", "1:15: this part"),
        ("DELETE FROM t WHERE a = 1 RETURNING count(*)", "RETURNING returns each row"),
        ("INSERT INTO t (a) VALUES (1, 2)", "1:27: 2 values are given for 1 columns"),
        ("INSERT INTO t (a, a) VALUES (1, 2)", "1:19: `a` is named twice"),
        ("INSERT INTO t SELECT 1", "1:15: this part"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "1:26: this part"),
        ("INSERT INTO log VALUES (1)", "column `day` is of type date, but this is of type integer"),
        ("UPDATE t SET n = $1, name = $1 WHERE a = 1", "belongs to an index"),
        ("UPDATE t SET n = $1, price = 1 WHERE a = 1 AND b = $1", "accepted"),
        ("SELECT a FROM t WHERE a = $1 AND name = $1", "text and integer do not compare"),
    ] {
        let found = Program::compile(&Catalog::of(&SCHEMA), text)
            .map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
        if !found.contains(expect) {
            wrong.push(format!("{text}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tables_are_declared_as_sql_declares_them() {
    let mut catalog = Catalog::default();
    let table =
        "CREATE TABLE \"Item\" (id int PRIMARY KEY, title VARCHAR(40) NOT NULL, price numeric(8, 2) DEFAULT 1.5,
        made timestamp DEFAULT now(), day date, note text) WITH (fillfactor = 90)";
    assert_eq!(catalog.declare(table), Ok(true));
    assert_eq!(catalog.declare("CREATE TABLE pair (a int, b bigint, CONSTRAINT k PRIMARY KEY (b, a))"), Ok(true));
    assert_eq!(catalog.declare("CREATE INDEX by_title ON \"Item\" (title, id)"), Ok(true));
    assert_eq!(catalog.declare("INSERT INTO pair VALUES (1, 2)"), Ok(false));
    let [item, pair] = catalog.tables() else { panic!("two tables") };
    let kinds: Vec<(ColumnKind, bool)> = item.columns.iter().map(|column| (column.kind, column.nullable)).collect();
    let decimal = ColumnKind::Decimal { precision: 8, scale: 2 };
    let expect = [
        (ColumnKind::Int, false),
        (ColumnKind::Text(40), false),
        (decimal, true),
        (ColumnKind::Timestamp, true),
        (ColumnKind::Date, true),
        (ColumnKind::Text(255), true),
    ];
    assert_eq!((item.name.as_str(), &kinds[..]), ("Item", &expect[..]));
    assert_eq!((&item.primary_key[..], &item.secondary[..]), (&[0][..], &[vec![1, 0]][..]));
    assert_eq!((&pair.primary_key[..], pair.columns[1].nullable), (&[1, 0][..], false));
    for (text, expect) in [
        ("CREATE TABLE t (a smallint)", "1:17: the type SMALLINT is not kept"),
        ("CREATE TABLE t (a timestamptz)", "is not kept by the embedded engine"),
        ("CREATE TABLE t (a numeric)", "a column of numbers needs its digits"),
        ("CREATE TABLE t (a numeric(20, 2))", "numeric(p, s)"),
        ("CREATE TABLE t (a boolean)", "a column of type boolean is not kept"),
        ("CREATE TABLE t (a int REFERENCES pair)", "does not check `REFERENCES pair`"),
        ("CREATE TABLE t (a int UNIQUE)", "does not check `UNIQUE`"),
        ("CREATE TABLE t (a int, CHECK (a > 0))", "does not check"),
        ("CREATE TABLE t (a int DEFAULT 'x')", "invalid input for type integer"),
        ("CREATE TABLE pair (a int)", "there is a table `pair` already"),
        ("CREATE TEMP TABLE t (a int)", "1:8: only CREATE TABLE name"),
        ("CREATE TABLE t (a varchar(60) PRIMARY KEY)", "keys of at most 56 bytes here, and this has 60"),
        ("CREATE UNIQUE INDEX i ON pair (a)", "1:8: only CREATE INDEX name ON table"),
        ("CREATE INDEX i ON pair (a DESC)", "an index has ascending columns here"),
        ("CREATE INDEX i ON pair (a, c)", "1:28: `pair` has no column `c`"),
        ("CREATE INDEX i ON \"Item\" (price)", "`price` may be null"),
    ] {
        let error = catalog.clone().declare(text).unwrap_err().to_string();
        assert!(error.contains(expect), "{text}: {error}");
    }
}

#[test]
fn tables_are_filled_by_series() {
    let mut catalog = Catalog::default();
    catalog
        .declare("CREATE TABLE item (id int PRIMARY KEY, half bigint, name varchar(9), price numeric(4, 2) DEFAULT 5)")
        .unwrap();
    let text = "INSERT INTO item (id, half, name) SELECT id, id / 2, 'n' || id FROM generate_series(3, (2 * 2.5)::integer) AS id";
    let filling = Filling::compile(&catalog, text).unwrap();
    assert_eq!((filling.table(), filling.runs()), (0, 3));
    let batch = filling.batch(&catalog.tables()[0], 1..3, NOW_US).unwrap();
    let cells = crate::tpch::cells::text_rows(&[batch]).unwrap();
    let cells: Vec<String> =
        cells.into_iter().map(|row| row.into_iter().map(Option::unwrap).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(cells, ["4,2,n4,5.00", "5,2,n5,5.00"]);
    let values = Filling::compile(&catalog, "INSERT INTO item VALUES (1, 1, 'a', 1), (2, 2, 'b', 2)").unwrap();
    assert_eq!((values.runs(), values.batch(&catalog.tables()[0], 0..1, 0).unwrap().num_rows()), (1, 2));
    for (text, expect) in [
        ("INSERT INTO item SELECT id FROM generate_series(1, 2.5) AS id", "the ends of a series are whole numbers"),
        ("INSERT INTO item SELECT id FROM generate_series(1, 9, 2) AS id", "a series has a first and a last number"),
        (
            "INSERT INTO item SELECT id FROM generate_series(1, 9) AS id WHERE id > 1",
            "1:61: a series gives all of its numbers",
        ),
        ("INSERT INTO item SELECT a FROM pair", "rows are inserted by VALUES, or by SELECT"),
        ("INSERT INTO item VALUES ($1)", "there are no parameters here"),
        ("SELECT setseed(0.5)", "1:1: tables are made and filled by CREATE TABLE"),
    ] {
        let error = Filling::compile(&catalog, text).unwrap_err().to_string();
        assert!(error.contains(expect), "{text}: {error}");
    }
    let long = Filling::compile(
        &catalog,
        "INSERT INTO item (id, name) SELECT id, 'a long name' FROM generate_series(1, 2) AS id",
    )
    .unwrap();
    assert!(long.batch(&catalog.tables()[0], 0..1, 0).unwrap_err().to_string().contains("has room for 9"));
}

#[test]
fn places_are_counted_in_characters() {
    let sql = "SELECT 'ä',\n  x";
    let error = Program::compile(&Catalog::default(), sql).unwrap_err();
    assert_eq!((error.line, error.column), (2, 3));
    assert_eq!(sql.chars().skip(error.characters_before(sql)).collect::<String>(), "x");
}
