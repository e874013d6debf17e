//! Random statements: joins, groups, subqueries, set operations, and an order of all columns.

use rand_pcg::Pcg64;

use crate::expressions::{Expressions, Type};

/// The query of a seed.
pub fn queries(random: &mut Pcg64) -> Vec<String> {
    vec![Statements(Expressions { random }).query()]
}

struct Statements<'a>(Expressions<'a>);

impl Statements<'_> {
    fn one(&mut self, of: &[&str]) -> String {
        self.0.one(of)
    }

    /// A query whose rows come in one order.
    fn query(&mut self) -> String {
        let (select, columns) = match self.0.below(9) {
            0 => self.groups(),
            1 => self.totals(),
            2 => self.join(),
            3 | 4 => self.subquery(),
            5 => self.set(),
            6 => self.window(),
            7 => self.of_groups(),
            _ => self.distinct(),
        };
        let keys: Vec<_> = (1..=columns)
            .map(|column| format!("{column}{}", self.one(&["", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"])))
            .collect();
        let limit = self.one(&["", "", "", " LIMIT 5", " LIMIT 3 OFFSET 2"]);
        format!("{select} ORDER BY {}{limit}", keys.join(", "))
    }

    fn filter(&mut self) -> String {
        match self.0.below(3) {
            0 => String::new(),
            _ => format!(" WHERE {}", self.safe()),
        }
    }

    /// A condition that cannot fail: which of several conditions is evaluated first is open in PostgreSQL.
    fn safe(&mut self) -> String {
        let one = self.one(&[
            "i > 1",
            "b < 100",
            "n >= 1.5",
            "m * 2 > 1.0",
            "s LIKE 'a%'",
            "s NOT LIKE '%b'",
            "d < date '2020-06-01'",
            "ts IS NOT NULL",
            "i IN (1, 2, 7)",
            "i NOT IN (1, NULL)",
            "n BETWEEN 0 AND 3",
            "d + interval '1 month' > ts",
            "n = 1.50",
            "i = b",
            "n > i",
            "b <> i",
            "s <> 'a'",
            "coalesce(i, 0) <= 4",
            "n * 1.1 = 1.65",
            "i::numeric(12, 2) = n",
        ]);
        match self.0.below(5) {
            0 => format!("({one} OR {})", self.safe()),
            1 => format!("{one} AND {}", self.safe()),
            2 => format!("NOT ({one})"),
            _ => one,
        }
    }

    /// An aggregate function; sums of columns with the largest numbers are of PostgreSQL's wider types.
    fn aggregate(&mut self) -> String {
        let distinct = self.one(&["", "", "", "DISTINCT "]);
        let call = match self.0.below(9) {
            0 => "count(*)".to_owned(),
            1 => format!("count({distinct}{})", self.one(&["i", "s", "d", "n", "b"])),
            2 | 3 => {
                format!("sum({distinct}{})", self.one(&["i", "b", "n", "m", "n * m", "i::bigint", "n + 1", "m * 0.5"]))
            }
            4 | 5 => format!("avg({distinct}{})", self.one(&["i", "b", "n", "m", "n - 1"])),
            6 | 7 => format!("{}({})", self.one(&["min", "max"]), self.one(&["i", "b", "n", "m", "s", "d", "ts"])),
            _ => format!("{}(i > 1)", self.one(&["bool_and", "bool_or"])),
        };
        match self.0.below(6) {
            0 => format!("{call} FILTER (WHERE {})", self.safe()),
            1 if !call.contains("bool") && !call.starts_with("m") => match self.0.below(4) {
                0 => format!("{call} * 2"),
                1 => format!("coalesce({call}, 0)"),
                2 => format!("round({call}, 3)"),
                _ => format!("{call} + 0.25"),
            },
            _ => call,
        }
    }

    fn key(&mut self) -> String {
        self.one(&[
            "i",
            "s",
            "d",
            "b % 3",
            "n",
            "i > 1",
            "extract(year FROM d)",
            "substring(s FROM 1 FOR 1)",
            "coalesce(s, 'none')",
        ])
    }

    fn groups(&mut self) -> (String, usize) {
        let (key, a, b, filter) = (self.key(), self.aggregate(), self.aggregate(), self.filter());
        let having = self.one(&[
            "",
            "",
            " HAVING count(*) > 1",
            " HAVING sum(i) > 3",
            " HAVING avg(n) <= 2.5",
            " HAVING max(s) < 'b'",
        ]);
        (format!("SELECT {key} AS k, {a} AS a, {b} AS c FROM t{filter} GROUP BY {key}{having}"), 3)
    }

    fn totals(&mut self) -> (String, usize) {
        let (a, b, c) = (self.aggregate(), self.aggregate(), self.aggregate());
        let filter = if self.0.below(4) == 0 { " WHERE i < -1000 AND i > 1000".to_owned() } else { self.filter() };
        (format!("SELECT {a} AS a, {b} AS c, {c} AS e FROM t{filter}"), 3)
    }

    fn of_groups(&mut self) -> (String, usize) {
        let (key, a, filter) = (self.key(), self.aggregate(), self.filter());
        let outer = self.one(&["count(*)", "max(a)", "min(a)", "count(a)", "count(DISTINCT k)"]);
        (format!("SELECT {outer} AS x FROM (SELECT {key} AS k, {a} AS a FROM t{filter} GROUP BY {key}) AS g"), 1)
    }

    fn join(&mut self) -> (String, usize) {
        let kind = self.one(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let on = self.one(&[
            "i = ui",
            "b = ub",
            "n = un",
            "s = us",
            "d = ud",
            "i = ub",
            "i = ui AND n > un",
            "s = us AND id < uid",
            "ui = n",
        ]);
        let filter = self.one(&[
            "",
            "",
            " WHERE uid > 2",
            " WHERE i IS NULL OR ui > 1",
            " WHERE us IS NULL",
            " WHERE n > 1 AND un < 3",
        ]);
        match self.0.below(3) {
            0 => (format!("SELECT count(*) AS a, sum(n) AS b, max(us) AS c FROM t {kind} u ON {on}{filter}"), 3),
            1 => {
                (format!("SELECT us, count(id) AS a, sum(b + 0.0) AS c FROM t {kind} u ON {on}{filter} GROUP BY us"), 3)
            }
            _ => (format!("SELECT id, uid, s, un FROM t {kind} u ON {on}{filter}"), 4),
        }
    }

    fn subquery(&mut self) -> (String, usize) {
        let inner = self.one(&["", " WHERE uid > 2", " WHERE ui IS NOT NULL", " WHERE un > 1.0"]);
        let and = if inner.is_empty() { " WHERE".to_owned() } else { format!("{inner} AND") };
        let test = match self.0.below(14) {
            0 => format!("i IN (SELECT ui FROM u{inner})"),
            1 => format!("i NOT IN (SELECT ui FROM u{inner})"),
            2 => format!("s NOT IN (SELECT us FROM u{inner})"),
            3 => format!("EXISTS (SELECT 1 FROM u{and} ui = i)"),
            4 => format!("NOT EXISTS (SELECT * FROM u{and} us = s AND un <> n)"),
            5 => format!("n > (SELECT avg(un) FROM u{inner})"),
            6 => format!("n > (SELECT sum(un) FROM u{and} ui = i)"),
            7 => format!("b <= (SELECT max(ub) FROM u{inner})"),
            8 => format!("n < (SELECT 0.5 * avg(un) FROM u{and} ud = d)"),
            9 => format!("i IN (SELECT ui FROM u{and} us = s)"),
            10 => format!("NOT (i IN (SELECT ub FROM u{inner}))"),
            11 => format!("i = (SELECT ui FROM u{inner} ORDER BY uid LIMIT 1)"),
            12 => format!("b IN (SELECT ui + 1 FROM u{inner})"),
            _ => self.one(&[
                "EXISTS (SELECT count(*) FROM u WHERE ui = i)",
                "i NOT IN (SELECT ui FROM u WHERE us = s)",
                "i > 1 OR EXISTS (SELECT 1 FROM u WHERE ui = i)",
                "EXISTS (SELECT ui FROM u WHERE ui = i GROUP BY ui HAVING count(*) > 1)",
                "i = (SELECT count(*) FROM u WHERE ui = i)",
            ]),
        };
        match self.0.below(4) {
            0 => (format!("SELECT count(*) AS a, sum(i) AS b FROM t WHERE {test}"), 2),
            1 => (format!("SELECT id, (SELECT max(un) FROM u WHERE ui = i) AS x FROM t WHERE {test}"), 2),
            _ => (format!("SELECT id, i, n, s FROM t WHERE {test} AND {}", self.safe()), 4),
        }
    }

    fn set(&mut self) -> (String, usize) {
        let all = self.one(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
        let (left, right) = (self.filter(), self.one(&["", " WHERE uid > 2", " WHERE us < 'b'"]));
        let (a, b) = match self.0.below(4) {
            0 => ("i AS a, s AS b", "ui, us"),
            1 => ("b AS a, n AS b", "ub, un"),
            2 => ("i AS a, n AS b", "ub, ui"),
            _ => ("d AS a, NULL AS b", "ud, us"),
        };
        (format!("SELECT a, b FROM (SELECT {a} FROM t{left} {all} SELECT {b} FROM u{right}) AS x"), 2)
    }

    fn window(&mut self) -> (String, usize) {
        let function = self.one(&[
            "row_number() OVER (ORDER BY i, id)",
            "rank() OVER (ORDER BY n DESC)",
            "dense_rank() OVER (PARTITION BY i > 1 ORDER BY s)",
            "sum(i) OVER (PARTITION BY s)",
            "sum(b) OVER (ORDER BY d, id)",
            "count(*) OVER (PARTITION BY i)",
            "max(n) OVER (ORDER BY id)",
        ]);
        let filter = self.filter();
        (format!("SELECT id, {function} AS x FROM t{filter}"), 2)
    }

    fn distinct(&mut self) -> (String, usize) {
        let types = [Type::Integer, Type::Numeric, Type::Text, Type::Boolean, Type::Date];
        let of = types[self.0.below(types.len() as u32) as usize];
        let expression = match of {
            Type::Integer => self.one(&["i % 3", "char_length(s)", "i"]),
            Type::Numeric => self.one(&["n", "round(m, 1)", "n / 3", "m / 7"]),
            Type::Text => self.one(&["s", "trim(s)", "substring(s FROM 1 FOR 1)"]),
            Type::Boolean => self.safe(),
            _ => self.one(&["d", "d + 1", "ts::date"]),
        };
        let filter = self.filter();
        (format!("SELECT DISTINCT {expression} AS x, id % 2 AS y FROM t{filter}"), 2)
    }
}
