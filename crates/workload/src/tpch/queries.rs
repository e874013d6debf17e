//! The 22 queries: their texts, their parameters, and known facts about their answers.
//!
//! The texts lie beside this file, one to a `.sql` file, with named placeholders in braces. They are those of TPC-H 2.4,
//! in a form that PostgreSQL and DataFusion read alike. They differ from it in three ways: query 15 has a common table
//! expression where the specification has a view, which clients that run at once would fight over; limits on rows are
//! written `limit`; and query 6 casts the ends of its range of discounts to the column's type, since in binary floating
//! point 0.06 + 0.01 is less than 0.07 and the range would lose its last discount.

use std::ops::RangeInclusive;

use super::answers::Tolerance::{self, Exact, Ratio, RatioOfSums, Sum, WithoutTwoDigits};
use super::parameters::{self, Draw, Parameters};

/// One of the 22 queries.
#[derive(Debug)]
pub struct QuerySpec {
    /// `q1` … `q22`.
    pub name: &'static str,
    /// Its text with placeholders.
    pub template: &'static str,
    /// Draws its random parameters.
    pub draw: Draw,
    /// The parameters for which answers are published, at scale 1.
    pub validation: &'static [(&'static str, &'static str)],
    /// How exact each column of the answer must be.
    pub columns: &'static [Tolerance],
    /// The columns by which the answer is ordered; rows that are equal in all of them may come in any order.
    pub order_by: &'static [usize],
    /// How many rows the validation parameters give at any scale: the upper bound from grouping and limits, and the
    /// lower bound from even the smallest data.
    pub rows: RangeInclusive<usize>,
}

impl QuerySpec {
    /// The query's text with those parameters.
    ///
    /// The fraction of query 11 is not drawn but follows from the scale (TPC-H 2.4.11.3), so it is filled in here.
    pub fn sql<'a>(&self, parameters: impl IntoIterator<Item = (&'static str, &'a str)>, scale: f64) -> String {
        let mut sql = self.template.replace("{fraction}", &fraction(scale));
        for (name, value) in parameters {
            sql = sql.replace(&format!("{{{name}}}"), value);
        }
        sql
    }

    /// The text with drawn parameters.
    pub fn sql_with(&self, parameters: &Parameters, scale: f64) -> String {
        self.sql(parameters.iter().map(|(name, value)| (*name, value.as_str())), scale)
    }

    /// The text with the validation parameters.
    pub fn validation_sql(&self, scale: f64) -> String {
        self.sql(self.validation.iter().copied(), scale)
    }
}

/// 0.0001 divided by the scale, as a plain decimal number.
fn fraction(scale: f64) -> String {
    let digits = format!("{:.12}", 0.0001 / scale);
    digits.trim_end_matches('0').to_owned()
}

/// The names of the queries, in order.
pub const NAMES: [&str; 22] = [
    "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q12", "q13", "q14", "q15", "q16", "q17",
    "q18", "q19", "q20", "q21", "q22",
];

/// The queries, in order.
pub static QUERIES: [QuerySpec; 22] = [
    QuerySpec {
        name: "q1",
        template: include_str!("queries/q1.sql"),
        draw: parameters::q1,
        validation: &[("delta", "90")],
        columns: &[Exact, Exact, Exact, Sum, Sum, Sum, Ratio, Ratio, Ratio, Exact],
        order_by: &[0, 1],
        rows: 4..=4,
    },
    QuerySpec {
        name: "q2",
        template: include_str!("queries/q2.sql"),
        draw: parameters::q2,
        validation: &[("size", "15"), ("type", "BRASS"), ("region", "EUROPE")],
        columns: &[Exact, Exact, Exact, Exact, Exact, Exact, Exact, Exact],
        order_by: &[0, 2, 1, 3],
        rows: 0..=100,
    },
    QuerySpec {
        name: "q3",
        template: include_str!("queries/q3.sql"),
        draw: parameters::q3,
        validation: &[("segment", "BUILDING"), ("date", "1995-03-15")],
        columns: &[Exact, Sum, Exact, Exact],
        order_by: &[1, 2],
        rows: 10..=10,
    },
    QuerySpec {
        name: "q4",
        template: include_str!("queries/q4.sql"),
        draw: parameters::q4,
        validation: &[("date", "1993-07-01")],
        columns: &[Exact, Exact],
        order_by: &[0],
        rows: 5..=5,
    },
    QuerySpec {
        name: "q5",
        template: include_str!("queries/q5.sql"),
        draw: parameters::q5,
        validation: &[("region", "ASIA"), ("date", "1994-01-01")],
        columns: &[Exact, Sum],
        order_by: &[1],
        rows: 1..=5,
    },
    QuerySpec {
        name: "q6",
        template: include_str!("queries/q6.sql"),
        draw: parameters::q6,
        validation: &[("date", "1994-01-01"), ("discount", "0.06"), ("quantity", "24")],
        columns: &[Sum],
        order_by: &[],
        rows: 1..=1,
    },
    QuerySpec {
        name: "q7",
        template: include_str!("queries/q7.sql"),
        draw: parameters::q7,
        validation: &[("nation1", "FRANCE"), ("nation2", "GERMANY")],
        columns: &[Exact, Exact, Exact, Sum],
        order_by: &[0, 1, 2],
        rows: 1..=4,
    },
    QuerySpec {
        name: "q8",
        template: include_str!("queries/q8.sql"),
        draw: parameters::q8,
        validation: &[("nation", "BRAZIL"), ("region", "AMERICA"), ("type", "ECONOMY ANODIZED STEEL")],
        columns: &[Exact, RatioOfSums],
        order_by: &[0],
        rows: 1..=2,
    },
    QuerySpec {
        name: "q9",
        template: include_str!("queries/q9.sql"),
        draw: parameters::q9,
        validation: &[("color", "green")],
        columns: &[Exact, Exact, Sum],
        order_by: &[0, 1],
        rows: 1..=175,
    },
    QuerySpec {
        name: "q10",
        template: include_str!("queries/q10.sql"),
        draw: parameters::q10,
        validation: &[("date", "1993-10-01")],
        columns: &[Exact, Exact, Sum, Exact, Exact, Exact, Exact, Exact],
        order_by: &[2],
        rows: 20..=20,
    },
    QuerySpec {
        name: "q11",
        template: include_str!("queries/q11.sql"),
        draw: parameters::q11,
        validation: &[("nation", "GERMANY")],
        columns: &[WithoutTwoDigits, Sum],
        order_by: &[1],
        rows: 0..=usize::MAX,
    },
    QuerySpec {
        name: "q12",
        template: include_str!("queries/q12.sql"),
        draw: parameters::q12,
        validation: &[("shipmode1", "MAIL"), ("shipmode2", "SHIP"), ("date", "1994-01-01")],
        columns: &[Exact, Exact, Exact],
        order_by: &[0],
        rows: 2..=2,
    },
    QuerySpec {
        name: "q13",
        template: include_str!("queries/q13.sql"),
        draw: parameters::q13,
        validation: &[("word1", "special"), ("word2", "requests")],
        columns: &[Exact, Exact],
        order_by: &[1, 0],
        rows: 2..=usize::MAX,
    },
    QuerySpec {
        name: "q14",
        template: include_str!("queries/q14.sql"),
        draw: parameters::q14,
        validation: &[("date", "1995-09-01")],
        columns: &[RatioOfSums],
        order_by: &[],
        rows: 1..=1,
    },
    QuerySpec {
        name: "q15",
        template: include_str!("queries/q15.sql"),
        draw: parameters::q15,
        validation: &[("date", "1996-01-01")],
        columns: &[Exact, Exact, Exact, Exact, Sum],
        order_by: &[0],
        rows: 1..=usize::MAX,
    },
    QuerySpec {
        name: "q16",
        template: include_str!("queries/q16.sql"),
        draw: parameters::q16,
        validation: &[
            ("brand", "Brand#45"),
            ("type", "MEDIUM POLISHED"),
            ("size1", "49"),
            ("size2", "14"),
            ("size3", "23"),
            ("size4", "45"),
            ("size5", "19"),
            ("size6", "3"),
            ("size7", "36"),
            ("size8", "9"),
        ],
        columns: &[Exact, Exact, Exact, Exact],
        order_by: &[3, 0, 1, 2],
        rows: 1..=usize::MAX,
    },
    QuerySpec {
        name: "q17",
        template: include_str!("queries/q17.sql"),
        draw: parameters::q17,
        validation: &[("brand", "Brand#23"), ("container", "MED BOX")],
        columns: &[RatioOfSums],
        order_by: &[],
        rows: 1..=1,
    },
    QuerySpec {
        name: "q18",
        template: include_str!("queries/q18.sql"),
        draw: parameters::q18,
        validation: &[("quantity", "300")],
        columns: &[Exact, Exact, Exact, Exact, Exact, Exact],
        order_by: &[4, 3],
        rows: 0..=100,
    },
    QuerySpec {
        name: "q19",
        template: include_str!("queries/q19.sql"),
        draw: parameters::q19,
        validation: &[
            ("brand1", "Brand#12"),
            ("brand2", "Brand#23"),
            ("brand3", "Brand#34"),
            ("quantity1", "1"),
            ("quantity2", "10"),
            ("quantity3", "20"),
        ],
        columns: &[Sum],
        order_by: &[],
        rows: 1..=1,
    },
    QuerySpec {
        name: "q20",
        template: include_str!("queries/q20.sql"),
        draw: parameters::q20,
        validation: &[("color", "forest"), ("date", "1994-01-01"), ("nation", "CANADA")],
        columns: &[Exact, Exact],
        order_by: &[0],
        rows: 0..=usize::MAX,
    },
    QuerySpec {
        name: "q21",
        template: include_str!("queries/q21.sql"),
        draw: parameters::q21,
        validation: &[("nation", "SAUDI ARABIA")],
        columns: &[Exact, Exact],
        order_by: &[1, 0],
        rows: 0..=100,
    },
    QuerySpec {
        name: "q22",
        template: include_str!("queries/q22.sql"),
        draw: parameters::q22,
        validation: &[
            ("code1", "13"),
            ("code2", "31"),
            ("code3", "23"),
            ("code4", "29"),
            ("code5", "30"),
            ("code6", "18"),
            ("code7", "17"),
        ],
        columns: &[Exact, Exact, Sum],
        order_by: &[0],
        rows: 1..=7,
    },
];

#[cfg(test)]
mod tests;
