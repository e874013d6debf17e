//! Every kind of value to the server and back, and the server's notion of equality.

use plimsoll_pg::connection::Connection;
use plimsoll_pg::values::{RowSink, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::shared::{connection, database};

/// A result; its values as they are debugged: `Int(5)`, `Text("a")`, `Null`.
#[derive(Default)]
struct Seen {
    rows: Vec<Vec<String>>,
    affected: u64,
}

impl RowSink for Seen {
    fn clear(&mut self) {
        *self = Seen::default();
    }

    fn start(&mut self, columns: usize) {
        self.rows.push(Vec::with_capacity(columns));
    }

    fn append(&mut self, value: Value<'_>) {
        self.rows.last_mut().expect("a row has begun").push(format!("{value:?}"));
    }

    fn set_affected(&mut self, rows: u64) {
        self.affected = rows;
    }
}

/// One row of one column, as text for comparing: `Int(5)`, `Text("a")`, `Null`.
fn ask(connection: &mut Connection, sql: &str, parameters: &[Value<'_>]) -> Result<String, String> {
    let prepared = connection.prepare("", sql).map_err(|error| error.to_string())?;
    let mut seen = Seen::default();
    connection.execute(&prepared, parameters.iter().copied(), &mut seen).map_err(|error| error.to_string())?;
    assert_eq!(seen.rows.len(), 1, "{sql}");
    Ok(seen.rows[0][0].clone())
}

#[test]
fn parameters_of_every_type_arrive() {
    let database = database();
    let mut connection = connection(&database);
    let (int, text) = (Value::Int, Value::Text);
    for (of, value, expect) in [
        ("int2", int(-7), "Int(-7)"),
        ("int4", int(2_147_483_647), "Int(2147483647)"),
        ("int8", int(i64::MIN), "Int(-9223372036854775808)"),
        ("numeric", int(12_345), "Int(12345)"),
        ("numeric(12,2)", text("12.5"), "Text(\"12.50\")"),
        ("numeric", text("NaN"), "Text(\"NaN\")"),
        ("numeric", text("123456789012345678901234567890"), "Text(\"123456789012345678901234567890\")"),
        ("float8", int(3), "Text(\"3\")"),
        ("float4", text("0.25"), "Text(\"0.25\")"),
        ("bool", int(1), "Int(1)"),
        ("bool", text("off"), "Int(0)"),
        ("date", int(0), "Int(0)"),
        ("date", int(19_000), "Int(19000)"),
        ("date", text("1970-01-02"), "Int(1)"),
        ("date", text("infinity"), "Text(\"infinity\")"),
        ("timestamp", int(1_600_000_000_000_001), "Int(1600000000000001)"),
        ("timestamp", text("-infinity"), "Text(\"-infinity\")"),
        ("timestamptz", int(0), "Text(\"1970-01-01 00:00:00+00\")"),
        ("text", text("Grüße, 'quoted' \\ \u{1f6a2}"), "Text(\"Grüße, 'quoted' \\\\ \u{1f6a2}\")"),
        ("text", int(42), "Text(\"42\")"),
        ("varchar(3)", text(""), "Text(\"\")"),
        ("char(4)", text("ab"), "Text(\"ab  \")"),
        ("json", text("{\"a\": [1]}"), "Text(\"{\\\"a\\\": [1]}\")"),
        ("uuid", text("0188b3a4-3f5e-7000-8000-0000000000ff"), "Text(\"0188b3a4-3f5e-7000-8000-0000000000ff\")"),
        ("bytea", text("\\x00ff"), "Text(\"\\\\x00ff\")"),
        ("interval", text("1 day"), "Text(\"1 day\")"),
        ("oid", int(4_000_000_000), "Text(\"4000000000\")"),
        ("int4[]", text("{1,2}"), "Text(\"{1,2}\")"),
        ("int8", Value::Null, "Null"),
        ("text", Value::Null, "Null"),
        ("numeric", Value::Null, "Null"),
    ] {
        assert_eq!(ask(&mut connection, &format!("SELECT $1::{of}"), &[value]).as_deref(), Ok(expect), "{of}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_the_connection_goes_on() {
    let database = database();
    let mut connection = connection(&database);
    for (sql, parameters, expect) in [
        ("SELECT $1::int4", &[Value::Int(1 << 31)][..], "parameter $1: 2147483648 is out of the range of integer"),
        ("SELECT $1::int4", &[], "the statement has 1 parameters and was given 0"),
        ("SELECT $1::int4, $2::date", &[Value::Int(1), Value::Int(i64::MAX)], "parameter $2"),
        ("SELECT $1::int4", &[Value::Text("five")], "22P02: invalid input syntax for type integer"),
        ("SELECT $1::text", &[Value::Text("a\0b")], "22021"),
        ("SELECT $1::varchar(2)::int8 / 0", &[Value::Text("1")], "22012: division by zero"),
    ] {
        let told = ask(&mut connection, sql, parameters).expect_err(expect);
        assert!(told.contains(expect), "{told}");
        assert_eq!(ask(&mut connection, "SELECT 1", &[]).as_deref(), Ok("Int(1)"));
    }
}

#[test]
fn the_server_agrees_on_numbers_and_times() {
    let database = database();
    let mut connection = connection(&database);
    let integers = "SELECT ($1::int8)::text || ' ' || ($2::numeric)::text || ' ' || ($3::date - date '1970-01-01') || ' ' \
                    || (extract(epoch from $4::timestamp) * 1000000)::numeric(20,0)";
    let integers = connection.prepare("integers", integers).unwrap();
    let decimals = connection.prepare("decimals", "SELECT $1::numeric, ($1::numeric)::text").unwrap();
    let mut runner = TestRunner::new(Config::with_cases(300));
    let strategy = (
        any::<i64>(),
        any::<i64>(),
        -700_000_i64..2_000_000,
        -(1_i64 << 55)..1 << 58,
        "-?[0-9]{1,30}(\\.[0-9]{1,30})?",
    );
    let connection = std::cell::RefCell::new(connection);
    let outcome = runner.run(&strategy, |(one, two, days, time, decimal)| {
        let mut seen = Seen::default();
        let values = [one, two, days, time].map(Value::Int);
        connection.borrow_mut().execute(&integers, values.into_iter(), &mut seen).unwrap();
        prop_assert_eq!(&seen.rows[0][0], &format!("{:?}", Value::Text(&format!("{one} {two} {days} {time}"))));
        connection.borrow_mut().execute(&decimals, [Value::Text(&decimal)].into_iter(), &mut seen).unwrap();
        let [told, text] = seen.rows[0].as_slice() else { panic!("{:?}", seen.rows) };
        let as_text = told.strip_prefix("Int(").map(|number| format!("Text(\"{}\")", number.trim_end_matches(')')));
        prop_assert_eq!(&as_text.unwrap_or_else(|| told.clone()), text);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn rows_and_counts_of_changed_rows_are_told() {
    let database = database();
    let mut connection = connection(&database);
    connection.run("CREATE TEMP TABLE t (a int, b text)").unwrap();
    let mut seen = Seen::default();
    for (sql, rows_expected, affected) in [
        ("INSERT INTO t SELECT i, repeat('x', i) FROM generate_series(1, 3000) i", 0, 3_000),
        ("UPDATE t SET b = '' WHERE a <= 5", 0, 5),
        ("SELECT a, b FROM t ORDER BY a", 3_000, 0),
        ("DELETE FROM t WHERE a > 2990 RETURNING a", 10, 0),
        ("SELECT a FROM t WHERE a < 0", 0, 0),
        ("", 0, 0),
    ] {
        let prepared = connection.prepare("", sql).unwrap();
        connection.execute(&prepared, std::iter::empty(), &mut seen).unwrap();
        assert_eq!((seen.rows.len(), seen.affected), (rows_expected, affected), "{sql}");
        if rows_expected == 3_000 {
            let text = |row: usize| if row < 5 { String::new() } else { "x".repeat(row + 1) };
            let expect = |row: usize| [format!("Int({})", row + 1), format!("Text(\"{}\")", text(row))];
            assert!((0..3_000).all(|row| seen.rows[row] == expect(row)));
        }
    }
}
