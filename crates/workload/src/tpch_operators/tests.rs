//! Texts of the three benchmarks, the dates of the selection, and answers compared with generated rows.

use std::collections::HashSet;

use arrow::array::{ArrayRef, Decimal128Array};
use arrow::datatypes::Date32Type;

use super::join::join;
use super::projection::projection;
use super::selection::{predicates, selection};
use super::*;
use crate::fixture::load_into;
use crate::recording::{Recording, count, ints};
use crate::tpch::tables::{LINEITEM, NATION, ORDERS, PARTSUPP, SUPPLIER};

const SCALE: f64 = 0.01;

fn tpch() -> Tpch {
    Tpch::new(SCALE).unwrap()
}

/// Every table at the smallest scale; every answer is wrong.
fn loaded() -> Recording {
    let database = Recording::new(&SCHEMA, |_, _| count(17));
    load_into(&tpch(), &database);
    database
}

/// A decimal column in hundredths.
fn cents(batch: &RecordBatch, column: usize) -> Vec<i128> {
    batch.column(column).as_primitive::<Decimal128Type>().values().to_vec()
}

#[test]
fn texts_are_those_of_the_study() {
    for (query, expect) in [
        (projection(tpch(), 1), "select sum(l_extendedprice) as total from lineitem"),
        (projection(tpch(), 3), "select sum(l_extendedprice + l_discount + l_tax) as total from lineitem"),
        (
            selection(tpch(), 0.5),
            "select sum(l_extendedprice + l_discount + l_tax + l_quantity) as total from lineitem where l_shipdate < date \
             '1995-06-18' and l_commitdate < date '1995-06-17' and l_receiptdate < date '1995-07-03'",
        ),
        (
            join(tpch(), "small"),
            "select sum(s_acctbal + s_suppkey) as total from supplier, nation where s_nationkey = n_nationkey",
        ),
        (
            join(tpch(), "medium"),
            "select sum(ps_availqty + ps_supplycost) as total from partsupp, supplier where ps_suppkey = s_suppkey",
        ),
        (
            join(tpch(), "large"),
            "select sum(l_extendedprice + l_discount + l_tax + l_quantity) as total from lineitem, orders where \
             l_orderkey = o_orderkey",
        ),
    ] {
        assert_eq!(query.sql, expect);
    }
}

#[test]
fn they_share_the_data_of_tpch() {
    for query in [projection(tpch(), 1), selection(tpch(), 0.1), join(tpch(), "small")] {
        assert_eq!((query.data(), &*query.schema().name), (tpch().data(), "tpch"));
        assert_eq!(query.data(), "tpch:0.01");
    }
}

#[test]
fn each_predicate_selects_its_share_of_the_generated_rows() {
    let lineitem = loaded().table(LINEITEM);
    for selectivity in [0.01, 0.1, 0.5, 0.9, 0.99] {
        let predicates = predicates(selectivity);
        let passes = |row: usize, (column, day): (usize, i32)| {
            lineitem.column(column).as_primitive::<Date32Type>().value(row) < day
        };
        let share = |holds: &dyn Fn(usize) -> bool| {
            (0..lineitem.num_rows()).filter(|&row| holds(row)).count() as f64 / lineitem.num_rows() as f64
        };
        for predicate in predicates {
            let found = share(&|row| passes(row, predicate));
            // 15000 orders have dates of their own: a standard deviation is at most 0.004.
            assert!((found - selectivity).abs() < 0.012, "{predicate:?} selects {found}, not {selectivity}");
        }
        let all = share(&|row| predicates.iter().all(|&predicate| passes(row, predicate)));
        assert!(all < selectivity + 0.012 && all > 0.75 * selectivity - 0.005, "all three select {all}");
    }
}

/// The answers, computed from the loaded rows: joins look up partners, so a row without one would be missed.
#[test]
fn reckoned_answers_are_those_of_the_loaded_rows() {
    let database = loaded();
    let [supplier, nation, partsupp, orders, lineitem] =
        [SUPPLIER, NATION, PARTSUPP, ORDERS, LINEITEM].map(|table| database.table(table));
    let keys = |batch: &RecordBatch| ints(batch, 0).into_iter().collect::<HashSet<i64>>();
    let joined = |batch: &RecordBatch, column: usize, keys: &HashSet<i64>, values: Vec<i128>| -> i128 {
        let rows = ints(batch, column).into_iter().zip(values);
        rows.filter(|(key, _)| keys.contains(key)).map(|(_, value)| value).sum()
    };
    let add = |a: Vec<i128>, b: Vec<i64>| a.into_iter().zip(b).map(|(a, b)| a + 100 * i128::from(b)).collect();
    let summed = |degree: usize| {
        let columns = SUMMED[..degree].iter().map(|&column| cents(&lineitem, column));
        columns.reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a + b).collect()).unwrap()
    };

    for degree in 1..=4 {
        assert_eq!(projection(tpch(), degree).expected().unwrap(), summed(degree).iter().sum::<i128>());
    }
    let small = joined(&supplier, 3, &keys(&nation), add(cents(&supplier, 5), ints(&supplier, 0)));
    assert_eq!(join(tpch(), "small").expected().unwrap(), small);
    let medium = joined(&partsupp, 1, &keys(&supplier), add(cents(&partsupp, 3), ints(&partsupp, 2)));
    assert_eq!(join(tpch(), "medium").expected().unwrap(), medium);
    assert_eq!(join(tpch(), "large").expected().unwrap(), joined(&lineitem, 0, &keys(&orders), summed(4)));

    let predicates = predicates(0.1);
    let selected: HashSet<i64> = (0..lineitem.num_rows() as i64)
        .filter(|&row| {
            let date = |column: usize| lineitem.column(column).as_primitive::<Date32Type>().value(row as usize);
            predicates.iter().all(|&(column, day)| date(column) < day)
        })
        .collect();
    let rows = (0i64..).zip(summed(4)).filter(|(row, _)| selected.contains(row));
    assert_eq!(selection(tpch(), 0.1).expected().unwrap(), rows.map(|(_, value)| value).sum::<i128>());
}

#[test]
fn the_check_tells_right_answers_from_wrong_ones() {
    /// The sum of the column that the text names, as a decimal of 4 places: a database may have more than it needs.
    fn right(sql: &str, tables: &[RecordBatch]) -> ArrayRef {
        assert_eq!(sql, "select sum(l_extendedprice) as total from lineitem");
        let sum: i128 = cents(&tables[LINEITEM], L_EXTENDEDPRICE).iter().sum();
        let decimal = Decimal128Array::from(vec![sum * 100]).with_precision_and_scale(38, 4).unwrap();
        std::sync::Arc::new(decimal)
    }
    let database = Recording::new(&SCHEMA, right);
    load_into(&tpch(), &database);
    let query = projection(tpch(), 1);
    let lines = query.check(&database).unwrap();
    assert_eq!(lines[0].what, "lineitem has 60175 rows");
    assert_eq!(lines.iter().map(|line| line.holds).collect::<Vec<_>>(), [Some(true), Some(true)], "{lines:?}");

    for query in [projection(tpch(), 2), selection(tpch(), 0.9), join(tpch(), "medium")] {
        let lines = query.check(&loaded()).unwrap();
        assert_eq!(lines.last().unwrap().holds, Some(false));
        assert!(lines[..lines.len() - 1].iter().all(|line| line.holds == Some(true)), "{lines:?}");
    }
}
