//! The 22 queries and the values that are filled into their texts.
//!
//! The texts lie beside this file, one to a `.sql` file, with named placeholders in braces. They are those of
//! CH-benCHmark, in a form that PostgreSQL and DataFusion read alike. Where the published text could return no rows or
//! only nulls on TPC-C's data, it has the smallest change that avoids this; the user's guide lists every change.
//!
//! Windows cover loaded rows only. They end where clients begin (`until`), at the last order that was loaded as
//! delivered (`delivered`), or at the last loaded order (`loaded`, a number). A query over all rows would cost more the
//! faster transactions are, so a gain in one figure would show up as a loss in the other.

use arrow::temporal_conversions::timestamp_us_to_datetime;

use crate::tpcc::{ORDERS_DELIVERED, ORDERS_LOADED, RUN_TIME_US, entry_time};

#[derive(Debug)]
pub(super) struct QuerySpec {
    /// `q1` … `q22`.
    pub(super) name: &'static str,
    /// Its text with placeholders.
    pub(super) template: &'static str,
    /// How many rows PostgreSQL 15 returned from the data of [`COUNTED`] as they were loaded.
    pub(super) rows: usize,
}

/// The scale and the seed for which numbers of rows are known.
pub(super) const COUNTED: (i64, u64) = (1, 7);

/// The supplier of a row of stock. Published as `mod((s_w_id * s_i_id), 10000)`; with more than 21,474 warehouses the
/// product is more than 32 bits hold.
const SUPPLIER: &str = "(cast(s_w_id as bigint) * s_i_id % 10000)";

impl QuerySpec {
    /// The query's text for a database with `warehouses` warehouses.
    pub(super) fn sql(&self, warehouses: i64) -> String {
        let window = (ORDERS_DELIVERED / warehouses).max(1);
        let fills = [
            ("supplier", SUPPLIER.to_owned()),
            ("since", timestamp(entry_time(0))),
            ("until", timestamp(RUN_TIME_US)),
            ("delivered", timestamp(entry_time(ORDERS_DELIVERED))),
            ("loaded", ORDERS_LOADED.to_string()),
            ("half", timestamp(entry_time(ORDERS_LOADED / 2))),
            ("window_start", timestamp(entry_time(ORDERS_DELIVERED - window))),
            ("fraction", fraction(warehouses)),
            ("warehouses1", warehouse_list([1, 2, 3], warehouses)),
            ("warehouses2", warehouse_list([1, 2, 4], warehouses)),
            ("warehouses3", warehouse_list([1, 5, 3], warehouses)),
        ];
        let fill = |sql: String, (name, value): &(&str, String)| sql.replace(&format!("{{{name}}}"), value);
        fills.iter().fold(self.template.trim_end().to_owned(), fill)
    }
}

/// A time of the data's clock as SQL.
fn timestamp(time_us: i64) -> String {
    let time = timestamp_us_to_datetime(time_us).expect("the data's clock shows this millennium");
    format!("timestamp '{time}'")
}

/// 0.005 divided by the number of warehouses, as a plain decimal number. The more stocks there are, the smaller is each
/// one's share; TPC-H 2.4.11.3 divides by the scale for the same reason.
fn fraction(warehouses: i64) -> String {
    let digits = format!("{:.12}", 0.005 / warehouses as f64);
    digits.trim_end_matches('0').to_owned()
}

/// Published numbers of warehouses, mapped to existing warehouses.
fn warehouse_list(published: [i64; 3], warehouses: i64) -> String {
    let mut list = published.map(|warehouse| (warehouse - 1) % warehouses + 1).to_vec();
    list.sort_unstable();
    list.dedup();
    list.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) const NAMES: [&str; 22] = crate::tpch::queries::NAMES;

/// Declares a query by its number and its rows.
macro_rules! query {
    ($name:literal, $rows:literal) => {
        QuerySpec { name: $name, template: include_str!(concat!("queries/", $name, ".sql")), rows: $rows }
    };
}

pub(super) static QUERIES: [QuerySpec; 22] = [
    query!("q1", 15),
    query!("q2", 530),
    query!("q3", 356),
    query!("q4", 11),
    query!("q5", 8),
    query!("q6", 1),
    query!("q7", 2),
    query!("q8", 1),
    query!("q9", 17),
    query!("q10", 21_000),
    query!("q11", 1_610),
    query!("q12", 11),
    query!("q13", 8),
    query!("q14", 1),
    query!("q15", 10_000),
    query!("q16", 98_977),
    query!("q17", 1),
    query!("q18", 9_000),
    query!("q19", 1),
    query!("q20", 17),
    query!("q21", 161),
    query!("q22", 26),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_complete() {
        assert_eq!(QUERIES.each_ref().map(|query| query.name), NAMES);
        for query in &QUERIES {
            assert!(query.rows > 0, "{} must return something", query.name);
        }
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        for warehouses in [1, 2, 5, 100_000] {
            for query in &QUERIES {
                let sql = query.sql(warehouses);
                for foreign in ["{", "}", ";", "\t"] {
                    assert!(!sql.contains(foreign), "{} contains {foreign:?}:\n{sql}", query.name);
                }
                assert_eq!(sql.matches('\'').count() % 2, 0, "{} has an open quote", query.name);
                assert_eq!(sql.matches('(').count(), sql.matches(')').count(), "{} has an open bracket", query.name);
            }
        }
    }

    #[test]
    fn windows_follow_the_data_s_clock_and_the_scale() {
        let q20 = |warehouses| QUERIES[19].sql(warehouses);
        assert!(q20(1).contains("ol_delivery_d > timestamp '2024-01-01 00:00:00'"), "{}", q20(1));
        assert!(q20(10).contains("ol_delivery_d > timestamp '2024-01-01 00:31:30'"), "{}", q20(10));
        assert!(q20(99_999).contains("ol_delivery_d > timestamp '2024-01-01 00:34:59'"), "{}", q20(99_999));
        assert!(q20(1).contains("ol_delivery_d < timestamp '2024-01-02 00:00:00'"), "{}", q20(1));
        let q22 = QUERIES[21].sql(1);
        assert!(q22.contains("o_entry_d <= timestamp '2024-01-01 00:25:00'"), "{q22}");
        assert!(QUERIES[10].sql(1).contains("* 0.005\n") && QUERIES[10].sql(20).contains("* 0.00025\n"));
    }

    #[test]
    fn orders_and_lines_that_clients_add_are_outside_of_every_window() {
        let [until, delivered] = [RUN_TIME_US, entry_time(ORDERS_DELIVERED)].map(timestamp);
        let ends = [
            format!("_d < {until}"),
            format!("and {until}"),
            format!("o_entry_d <= {delivered}"),
            format!("ol_o_id <= {ORDERS_LOADED}\n"),
        ];
        for query in &QUERIES {
            let sql = query.sql(1);
            let grows = ["orders", "order_line"].iter().any(|table| sql.contains(&format!(" {table}")));
            let is_bounded = ends.iter().any(|end| sql.contains(end.as_str()));
            // Query 3 looks at orders that are not delivered yet, which are not more but others; query 22 at those
            // entered in the first half.
            let is_by_itself = ["q3", "q22"].contains(&query.name);
            assert_eq!(grows && !is_by_itself, is_bounded, "{}:\n{sql}", query.name);
        }
    }

    #[test]
    fn warehouses_are_those_that_there_are() {
        for (warehouses, expect) in [
            (1, ["1", "1", "1"]),
            (2, ["1, 2", "1, 2", "1"]),
            (4, ["1, 2, 3", "1, 2, 4", "1, 3"]),
            (5, ["1, 2, 3", "1, 2, 4", "1, 3, 5"]),
            (900, ["1, 2, 3", "1, 2, 4", "1, 3, 5"]),
        ] {
            let lists = [[1, 2, 3], [1, 2, 4], [1, 5, 3]].map(|published| warehouse_list(published, warehouses));
            assert_eq!(lists, expect);
        }
    }
}
