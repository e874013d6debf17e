//! Known cases: answers that were wrong once, and the tables of the guide.

use arrow::util::display::array_value_to_string;
use plimsoll_workload::database::Session;

use crate::databases::{Databases, Verdict, rows};

/// A check of an embedded database said "holds" of a balance that had overflowed, and a report missed rows, each without a word:
/// DataFusion's meaning of these queries was not PostgreSQL's.
const ONCE_WRONG: &[(&str, &str)] = &[
    ("SELECT sum(b) FROM t WHERE id IN (6, 2)", "9223372036854775809"),
    ("SELECT 3 NOT IN (1, NULL)", "NULL"),
    ("SELECT count(*) FROM t WHERE i NOT IN (1, NULL)", "0"),
    ("SELECT cast(1.50 AS integer)", "2"),
    ("SELECT cast(2.5 AS integer), cast(-2.5 AS integer), n::integer FROM t WHERE id = 3", "3 | -3 | 3"),
    ("SELECT count(*) FROM t WHERE n * 1.1 = 1.65", "1"),
    ("SELECT 7 / 2, -7 / 2, -7 % 3, 7.0 / 2", "3 | -3 | -1 | 3.5"),
    ("SELECT 1 / 3.0, 2.0 / 3", "0.33333333333333333333 | 0.66666666666666666667"),
    ("SELECT avg(i) FROM t WHERE id IN (1, 2, 14)", "2.6666666666666667"),
    ("SELECT sum(i), count(i), min(s), avg(n) FROM t WHERE id > 100", "NULL | 0 | NULL | NULL"),
    ("SELECT date '2020-01-31' + interval '1 month'", "2020-02-29T00:00:00"),
    ("SELECT substring('hello' FROM -1 FOR 4)", "he"),
    ("SELECT 'a' || NULL", "NULL"),
    ("SELECT CASE WHEN i = 0 THEN 0 ELSE 10 / i END FROM t WHERE id = 4", "0"),
    ("SELECT s FROM t WHERE id IN (1, 5) ORDER BY s", "a, NULL"),
    ("SELECT s FROM t WHERE id IN (1, 5) ORDER BY s DESC", "NULL, a"),
    ("SELECT count(*) FROM t WHERE s LIKE 'a\\%b%'", "1"),
    ("SELECT 'a ' = 'a'", "false"),
    ("SELECT extract(year FROM d) / 2 FROM t WHERE id = 3", "1009.5"),
    ("SELECT (SELECT sum(un) FROM u WHERE ui = 99)", "NULL"),
];

#[test]
fn answers_that_were_wrong_once_are_postgresqls() {
    let mut databases = Databases::start();
    for (sql, expect) in ONCE_WRONG {
        let answer = databases.embedded.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(rows(&answer.batches).join(", "), *expect, "{sql}");
        assert_eq!(databases.compare(sql), Verdict::Same, "{sql}");
    }
}

/// Overflow and division by zero are errors, as on a server.
#[test]
fn what_fails_in_postgresql_fails() {
    let mut databases = Databases::start();
    for sql in [
        "SELECT i + 1 FROM t WHERE id = 6",
        "SELECT b * 2 FROM t WHERE id = 6",
        "SELECT - i - 2 FROM t WHERE id = 6",
        "SELECT abs(i - 2) FROM t WHERE id = 7",
        "SELECT b::integer FROM t WHERE id = 6",
        "SELECT (m * 1000000000000)::bigint FROM t WHERE id = 6",
        "SELECT 10 / i FROM t WHERE id = 4",
        "SELECT 10 % i FROM t WHERE id = 4",
        "SELECT n / i FROM t WHERE id = 4",
        "SELECT n::numeric(4, 2) FROM t WHERE id = 10",
        "SELECT sum(10 / i) FROM t",
    ] {
        assert_eq!(databases.compare(sql), Verdict::BothFail, "{sql}");
    }
}

/// Story: a sum of products wrapped around beyond 128 bits. PostgreSQL has room for it; here it is an error.
#[test]
fn a_sum_beyond_38_digits_is_an_error() {
    let mut databases = Databases::start();
    let product = "b::numeric(19, 0) * b::numeric(19, 0)";
    for sql in [
        format!("SELECT sum({product}) FROM t, u WHERE id IN (6, 7)"),
        format!("SELECT sum({product} * sign) FROM (SELECT b, -1 AS sign FROM t, u WHERE id = 6) AS x"),
        format!("SELECT avg({product}) FROM t, u WHERE id IN (6, 7)"),
        format!("SELECT s, sum({product}) FROM t, u WHERE id > 3 GROUP BY s"),
        format!("SELECT sum({product}) OVER (PARTITION BY s) FROM t, u WHERE id = 6"),
    ] {
        let error = databases.embedded.query(&sql).expect_err(&sql).to_string();
        assert!(error.contains("22003") && error.contains("38 digits"), "{sql}: {error}");
    }
    // Just within it.
    for sql in
        [format!("SELECT sum({product}) FROM t WHERE id = 6"), format!("SELECT sum({product}) FROM t WHERE id < 5")]
    {
        assert_eq!(databases.compare(&sql), Verdict::Same, "{sql}");
    }
    let distinct = format!("SELECT sum(DISTINCT {product}) FROM t");
    let error = databases.embedded.query(&distinct).unwrap_err().to_string();
    assert!(error.contains("numeric(28, 2)"), "{error}");
}

/// The rows of a table of the guide, by the head of its first column.
fn guide_rows(head: &str) -> Vec<Vec<String>> {
    let guide = std::fs::read_to_string("../../docs/embedded-sql.md").unwrap();
    let of_table = guide.lines().skip_while(|line| !line.starts_with(&format!("| {head} |"))).skip(2);
    let cells =
        |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
    of_table.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The guide lists what is refused. Each of its examples is, with the construct and a remedy, and PostgreSQL knows nearly all of them.
#[test]
fn what_the_guide_says_is_refused_is_refused() {
    let mut databases = Databases::start();
    let rows = guide_rows("example");
    assert!(rows.len() > 20, "the guide has the table");
    for row in rows {
        let error = databases.embedded.query(&row[0]).expect_err(&row[0]).to_string();
        assert!(error.contains("the embedded engine does not run"), "{}: {error}", row[0]);
    }
}

/// What differs is as the guide says, and no more than that.
#[test]
fn what_the_guide_says_differs_does() {
    let mut databases = Databases::start();
    for row in guide_rows("query") {
        let answer = |session: &mut dyn Session| {
            let answer = session.query(&row[0]).unwrap_or_else(|error| panic!("{}: {error}", row[0]));
            array_value_to_string(answer.batches[0].column(0), 0).unwrap()
        };
        assert_eq!(answer(&mut *databases.embedded), row[1], "{}", row[0]);
        for (name, server) in &mut databases.servers {
            assert_eq!(answer(&mut **server), row[2], "{} on {name}", row[0]);
        }
        assert_eq!(databases.compare(&row[0]), Verdict::Same, "the values of {} are the same", row[0]);
    }
}
