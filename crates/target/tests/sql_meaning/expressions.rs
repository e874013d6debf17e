//! Random expressions, by the type that they have in PostgreSQL.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;

/// The types of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Integer,
    Bigint,
    Numeric,
    Text,
    Boolean,
    Date,
    Timestamp,
}

use Type::{Bigint, Boolean, Date, Integer, Numeric, Text, Timestamp};

const ALL: [Type; 7] = [Integer, Bigint, Numeric, Text, Boolean, Date, Timestamp];

/// The rows of `t`.
const ROWS: u32 = 15;

/// The queries of a seed: an expression for all rows, which mostly fails, and for single rows.
pub fn queries(random: &mut Pcg64) -> Vec<String> {
    let of = *ALL.choose(random).unwrap();
    let depth = random.random_range(1..4);
    let expression = Expressions { random }.of(of, depth);
    let rows = [random.random_range(1..=ROWS), random.random_range(1..=ROWS)];
    let mut queries: Vec<_> =
        rows.iter().map(|row| format!("SELECT id, {expression} AS x FROM t WHERE id = {row}")).collect();
    queries.push(format!("SELECT id, {expression} AS x FROM t ORDER BY id"));
    queries
}

pub struct Expressions<'a> {
    pub random: &'a mut Pcg64,
}

impl Expressions<'_> {
    pub fn below(&mut self, end: u32) -> u32 {
        self.random.random_range(0..end)
    }

    pub fn one(&mut self, of: &[&str]) -> String {
        (*of.choose(self.random).unwrap()).to_owned()
    }

    pub fn of(&mut self, of: Type, depth: u32) -> String {
        if depth == 0 || self.below(8) == 0 {
            return self.leaf(of);
        }
        let depth = depth - 1;
        match self.below(9) {
            0 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.condition(depth),
                self.of(of, depth),
                self.of(of, depth)
            ),
            1 => {
                let name = self.one(&["coalesce", "coalesce", "greatest", "least"]);
                format!("{name}({}, {})", self.of(of, depth), self.of(of, depth))
            }
            2 => format!("nullif({}, {})", self.of(of, depth), self.of(of, depth)),
            3 => {
                format!("CASE {} WHEN {} THEN {} END", self.of(Integer, depth), self.leaf(Integer), self.of(of, depth))
            }
            _ => self.made(of, depth),
        }
    }

    fn leaf(&mut self, of: Type) -> String {
        match of {
            Integer => self.one(&["i", "i", "id", "0", "1", "7", "-3", "2147483647", "NULL::integer", "'12'::integer"]),
            Bigint => self.one(&["b", "b", "3000000000", "5::bigint", "9223372036854775807", "i::bigint"]),
            Numeric => self.one(&[
                "n",
                "n",
                "m",
                "m",
                "1.5",
                "0.10",
                "-2.50",
                "1e3",
                "0.0001",
                "2::numeric(5, 2)",
                "12345678901234567890",
            ]),
            Text => self.one(&["s", "s", "'a'", "'ab '", "''", "'%a'", "NULL::text", "'äö'"]),
            Boolean => self.one(&["true", "false", "NULL", "(i > 1)", "(s IS NULL)"]),
            Date => self.one(&["d", "d", "date '2020-01-31'", "'2019-12-31'::date"]),
            Timestamp => {
                self.one(&["ts", "ts", "timestamp '2020-01-31 10:00:00'", "'1969-12-31 23:59:59.5'::timestamp"])
            }
        }
    }

    fn made(&mut self, of: Type, depth: u32) -> String {
        match of {
            Integer => self.integer(depth),
            Bigint => self.bigint(depth),
            Numeric => self.numeric(depth),
            Text => self.text(depth),
            Boolean => self.condition(depth),
            Date => match self.below(4) {
                0 => format!("({} + {})", self.of(Date, depth), self.one(&["1", "i % 100", "-31"])),
                1 => format!("({} - {})", self.of(Date, depth), self.one(&["1", "365", "i % 100"])),
                2 => format!("({})::date", self.of(Timestamp, depth)),
                _ => self.leaf(Date),
            },
            Timestamp => {
                let interval = self.one(&[
                    "interval '1' day",
                    "interval '1 month'",
                    "interval '3' month",
                    "interval '1' year",
                    "interval '90 minutes'",
                    "interval '-2 weeks'",
                    "interval '1 month 3 days'",
                    "interval '25' hour",
                ]);
                match self.below(5) {
                    0 => format!("({} + {interval})", self.of(Date, depth)),
                    1 => format!("({} - {interval})", self.of(Date, depth)),
                    2 => format!("({} + {interval})", self.of(Timestamp, depth)),
                    3 => format!("({})::timestamp", self.of(Date, depth)),
                    _ => {
                        let unit = self.one(&["year", "quarter", "month", "day", "hour", "minute", "second"]);
                        format!("date_trunc('{unit}', {})", self.of(Timestamp, depth))
                    }
                }
            }
        }
    }

    fn integer(&mut self, depth: u32) -> String {
        match self.below(12) {
            0..=3 => self.arithmetic(Integer, Integer, depth),
            4 => format!("(- {})", self.of(Integer, depth)),
            5 => format!("(id - id + {})::integer", self.of(Numeric, depth)),
            6 => format!("(id - id + {})::integer", self.of(Bigint, depth)),
            7 => format!("({})::integer", self.of(Boolean, depth)),
            8 => format!("char_length({})", self.of(Text, depth)),
            9 => format!("position({} in {})", self.of(Text, depth), self.of(Text, depth)),
            10 => format!("({} - {})", self.of(Date, depth), self.of(Date, depth)),
            _ => format!("abs({})", self.of(Integer, depth)),
        }
    }

    fn bigint(&mut self, depth: u32) -> String {
        match self.below(6) {
            0 | 1 => self.arithmetic(Bigint, Bigint, depth),
            2 => self.arithmetic(Integer, Bigint, depth),
            3 => format!("(id - id + {})::bigint", self.of(Numeric, depth)),
            4 => format!("({})::bigint", self.of(Integer, depth)),
            _ => format!("(- {})", self.of(Bigint, depth)),
        }
    }

    fn numeric(&mut self, depth: u32) -> String {
        match self.below(12) {
            0..=3 => self.arithmetic(Numeric, Numeric, depth),
            4 => self.arithmetic(Integer, Numeric, depth),
            5 => self.arithmetic(Numeric, Bigint, depth),
            6 => format!("round({}, {})", self.of(Numeric, depth), self.below(6)),
            7 => format!("round({})", self.of(Numeric, depth)),
            8 => format!(
                "(id - id + {})::numeric({})",
                self.of(Numeric, depth),
                self.one(&["12, 2", "20, 6", "5, 1", "30, 0"])
            ),
            9 => format!(
                "extract({} from {})",
                self.one(&["year", "month", "day", "dow", "doy", "quarter"]),
                self.of(Date, depth)
            ),
            10 => {
                format!("extract({} from {})", self.one(&["hour", "minute", "year", "dow"]), self.of(Timestamp, depth))
            }
            _ => format!("abs({})", self.of(Numeric, depth)),
        }
    }

    /// An operand is no literal: PostgreSQL computes with literals, and fails, before a CASE is asked.
    fn arithmetic(&mut self, left: Type, right: Type, depth: u32) -> String {
        let operator = self.one(&["+", "-", "*", "/", "%"]);
        let (left, right) = (self.of(left, depth), self.of(right, depth));
        format!("({left} {operator} (id - id + {right}))")
    }

    fn text(&mut self, depth: u32) -> String {
        match self.below(10) {
            0 | 1 => format!("({} || {})", self.of(Text, depth), self.of(Text, depth)),
            2 => format!("({} || {})", self.of(Text, depth), self.of(Integer, depth)),
            3 => format!(
                "substring({} from {} for {})",
                self.of(Text, depth),
                self.one(&["1", "2", "-1", "0", "i % 5"]),
                self.one(&["0", "1", "3"])
            ),
            4 => format!("substring({} from {})", self.of(Text, depth), self.one(&["1", "2", "-1", "0", "5"])),
            5 => format!("{}({})", self.one(&["trim", "ltrim", "rtrim"]), self.of(Text, depth)),
            6 => format!("({})::text", self.of(Integer, depth)),
            7 => format!("({})::text", self.of(Bigint, depth)),
            8 => format!(
                "{}({}, {})",
                self.one(&["left", "right"]),
                self.of(Text, depth),
                self.one(&["1", "2", "0", "-1"])
            ),
            _ => format!("replace({}, 'a', {})", self.of(Text, depth), self.of(Text, depth)),
        }
    }

    pub fn condition(&mut self, depth: u32) -> String {
        let of = *ALL.choose(self.random).unwrap();
        match self.below(11) {
            0..=2 => {
                let operator = self.one(&["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
                let other = match (of, self.below(3)) {
                    (Integer, 0) => Bigint,
                    (Integer | Bigint, 1) => Numeric,
                    (Date, 0) => Timestamp,
                    _ => of,
                };
                format!("({} {operator} {})", self.of(of, depth), self.of(other, depth))
            }
            3 => format!("({} AND {})", self.of(Boolean, depth), self.of(Boolean, depth)),
            4 => format!("({} OR {})", self.of(Boolean, depth), self.of(Boolean, depth)),
            5 => format!("(NOT {})", self.of(Boolean, depth)),
            6 => format!("({} {})", self.of(of, depth), self.one(&["IS NULL", "IS NOT NULL"])),
            7 => format!(
                "({} {})",
                self.of(Boolean, depth),
                self.one(&["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN"])
            ),
            8 => format!(
                "({} {} {} AND {})",
                self.of(of, depth),
                self.one(&["BETWEEN", "NOT BETWEEN"]),
                self.leaf(of),
                self.leaf(of)
            ),
            9 => {
                let list =
                    (0..1 + self.below(3)).map(|_| if self.below(6) == 0 { "NULL".to_owned() } else { self.leaf(of) });
                let list = list.collect::<Vec<_>>().join(", ");
                format!("({} {} ({list}))", self.of(of, depth), self.one(&["IN", "NOT IN"]))
            }
            _ => {
                let pattern = self.one(&["a%", "%b%", "_", "a\\%b%", "%\\\\%", "", "%", "a_c", "%ö%"]);
                format!("({} {} '{pattern}')", self.of(Text, depth), self.one(&["LIKE", "NOT LIKE"]))
            }
        }
    }
}
