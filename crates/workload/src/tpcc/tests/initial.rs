//! The initial rows of the tables.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Decimal128Type, Int32Type, TimestampMicrosecondType};

use super::super::population::{LOAD_TIME_US, LoadUnit, RUN_TIME_US};
use super::*;
use crate::schema::{ColumnId, ColumnKind};

/// A column of numbers; nulls are `None`.
fn numbers(part: LoadUnit, batch: &RecordBatch, column: ColumnId) -> Vec<Option<i64>> {
    let array = batch.column(column);
    match SCHEMA.tables[part.table()].columns[column].kind {
        ColumnKind::Int => array.as_primitive::<Int32Type>().iter().map(|value| value.map(i64::from)).collect(),
        ColumnKind::Decimal { .. } => {
            array.as_primitive::<Decimal128Type>().iter().map(|value| value.map(|value| value as i64)).collect()
        }
        ColumnKind::Timestamp => array.as_primitive::<TimestampMicrosecondType>().iter().collect(),
        other => panic!("{other:?} is not a number"),
    }
}

fn ints(part: LoadUnit, batch: &RecordBatch, column: ColumnId) -> Vec<i64> {
    numbers(part, batch, column).into_iter().map(|value| value.expect("the column has no nulls")).collect()
}

fn texts(batch: &RecordBatch, column: ColumnId) -> Vec<String> {
    batch.column(column).as_string_view().iter().map(|text| text.expect("the column has no nulls").to_owned()).collect()
}

fn assert_between(values: &[i64], low: i64, high: i64) {
    assert_eq!((values.iter().min(), values.iter().max()), (Some(&low), Some(&high)));
}

#[test]
fn parts_depend_on_the_seed_alone() {
    for part in [
        LoadUnit::Items(1),
        LoadUnit::Warehouse(2),
        LoadUnit::Districts(2),
        LoadUnit::Stock(1, 50_001),
        LoadUnit::Customers(1),
        LoadUnit::History(1),
        LoadUnit::Orders(1),
        LoadUnit::NewOrders(1),
        LoadUnit::OrderLines(1, 3),
    ] {
        let (batch, again, other) = (part.make(1), part.make(1), part.make(2));
        assert_eq!(batch, again, "{part:?}");
        assert!(batch != other || matches!(part, LoadUnit::NewOrders(_)), "{part:?}");
        assert!(batch.num_rows() <= 65_536, "{part:?}");
        let table = &SCHEMA.tables[part.table()];
        assert_eq!(batch.schema(), table.arrow());
        for (column, array) in table.columns.iter().zip(batch.columns()) {
            if let ColumnKind::Text(bytes_max) = column.kind {
                assert!(array.as_string_view().iter().flatten().all(|text| text.len() <= bytes_max), "{}", column.name);
            }
        }
    }
    assert_ne!(LoadUnit::Customers(1).make(1), LoadUnit::Customers(2).make(1));
}

#[test]
fn items_and_stock() {
    let part = LoadUnit::Items(1);
    let batch = part.make(1);
    assert_eq!(ints(part, &batch, I_ID), (1..=50_000).collect::<Vec<_>>());
    assert_between(&ints(part, &batch, I_PRICE), 100, 10_000);
    let original = |texts: Vec<String>| texts.iter().filter(|text| text.contains("ORIGINAL")).count();
    assert_eq!(original(texts(&batch, I_DATA)), 5_000);
    assert!(texts(&batch, I_NAME).iter().all(|name| (14..=24).contains(&name.len())));

    let part = LoadUnit::Stock(3, 50_001);
    let batch = part.make(1);
    assert_eq!(ints(part, &batch, S_I_ID), (50_001..=100_000).collect::<Vec<_>>());
    assert!(ints(part, &batch, S_W_ID).iter().all(|&warehouse| warehouse == 3));
    assert_between(&ints(part, &batch, S_QUANTITY), 10, 100);
    assert_eq!(original(texts(&batch, S_DATA)), 5_000);
    assert!(texts(&batch, S_DIST_10).iter().all(|text| text.len() == 24));
    for column in [S_YTD, S_ORDER_CNT, S_REMOTE_CNT] {
        assert!(ints(part, &batch, column).iter().all(|&number| number == 0));
    }
}

#[test]
fn warehouses_and_districts() {
    let part = LoadUnit::Warehouse(4);
    let batch = part.make(1);
    assert_eq!((ints(part, &batch, W_ID), ints(part, &batch, W_YTD)), (vec![4], vec![30_000_000]));
    assert!(texts(&batch, W_ZIP)[0].ends_with("11111"));
    let part = LoadUnit::Districts(4);
    let batch = part.make(1);
    assert_eq!(ints(part, &batch, D_ID), (1..=10).collect::<Vec<_>>());
    assert!(ints(part, &batch, D_YTD).iter().all(|&paid| paid == 3_000_000));
    assert!(ints(part, &batch, D_NEXT_O_ID).iter().all(|&next| next == 3_001));
    assert!(ints(part, &batch, D_TAX).iter().all(|tax| (0..=2_000).contains(tax)));
}

#[test]
fn customers() {
    let part = LoadUnit::Customers(1);
    let batch = part.make(1);
    let (ids, districts, names) = (ints(part, &batch, C_ID), ints(part, &batch, C_D_ID), texts(&batch, C_LAST));
    let expected = (1..=10).flat_map(|district| (1..=3_000).map(move |id| (district, id))).collect::<Vec<_>>();
    assert_eq!(districts.into_iter().zip(ids).collect::<Vec<_>>(), expected);
    let all = &Tpcc::new(1, 1).last_names;
    let mut namesakes = BTreeMap::<&str, u32>::new();
    for (row, name) in names.iter().enumerate() {
        let id = row % 3_000;
        assert!(id >= 1_000 || *name == all[id], "customer {} is called {name}", id + 1);
        *namesakes.entry(name).or_default() += u32::from(id >= 1_000);
    }
    let most = *namesakes.values().max().expect("there are names");
    assert!(most > 60, "the 20,000 others are not uniform over 1,000 names: the most frequent occurs {most} times");
    assert_eq!(texts(&batch, C_CREDIT).iter().filter(|credit| *credit == "BC").count(), 3_000);
    assert_between(&ints(part, &batch, C_DISCOUNT), 0, 5_000);
    for (column, expected) in [
        (C_BALANCE, -1_000),
        (C_YTD_PAYMENT, 1_000),
        (C_PAYMENT_CNT, 1),
        (C_DELIVERY_CNT, 0),
        (C_CREDIT_LIM, 5_000_000),
        (C_SINCE, LOAD_TIME_US),
    ] {
        assert!(ints(part, &batch, column).iter().all(|&number| number == expected), "column {column}");
    }
    let data = texts(&batch, C_DATA).iter().map(|data| data.len() as i64).collect::<Vec<_>>();
    assert_between(&data, 300, 500);
}

#[test]
fn orders_and_lines() {
    let part = LoadUnit::Orders(1);
    let orders = part.make(1);
    let customers = ints(part, &orders, O_C_ID);
    let carriers = numbers(part, &orders, O_CARRIER_ID);
    let counts = ints(part, &orders, O_OL_CNT);
    let mut first_customers = BTreeSet::new();
    for district in 0..10 {
        let customers = &customers[district * 3_000..][..3_000];
        first_customers.insert(customers[0]);
        let mut sorted = customers.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=3_000).collect::<Vec<_>>(), "a permutation");
        assert_ne!(sorted, customers, "in random order");
    }
    assert!(first_customers.len() > 5, "each district has a permutation of its own");
    for (row, carrier) in carriers.iter().enumerate() {
        assert_eq!(carrier.is_some(), row % 3_000 < 2_100);
        assert!(carrier.is_none_or(|carrier| (1..=10).contains(&carrier)));
    }
    assert_between(&counts, 5, 15);
    assert!(ints(part, &orders, O_ENTRY_D).iter().all(|&time| (LOAD_TIME_US..RUN_TIME_US).contains(&time)));

    let part = LoadUnit::OrderLines(1, 2);
    let lines = part.make(1);
    let line_orders = ints(part, &lines, OL_O_ID);
    let mut per_order = BTreeMap::<i64, i64>::new();
    for &order in &line_orders {
        *per_order.entry(order).or_default() += 1;
    }
    assert_eq!(per_order.into_values().collect::<Vec<_>>(), counts[3_000..6_000]);
    let (amounts, delivered) = (ints(part, &lines, OL_AMOUNT), numbers(part, &lines, OL_DELIVERY_D));
    for ((order, amount), delivered) in line_orders.iter().zip(amounts).zip(delivered) {
        assert_eq!((amount == 0, delivered.is_some()), (*order < 2_101, *order < 2_101), "order {order}");
        assert!((0..=999_999).contains(&amount));
    }
    assert!(ints(part, &lines, OL_QUANTITY).iter().all(|&quantity| quantity == 5));

    let part = LoadUnit::NewOrders(1);
    let new_orders = part.make(1);
    assert_eq!(new_orders.num_rows(), 9_000);
    assert_eq!(ints(part, &new_orders, NO_O_ID)[..900], (2_101..=3_000).collect::<Vec<_>>());
}

#[test]
fn a_warehouse_takes_about_two_hundred_megabytes() {
    let bytes = |scale| Tpcc::new(scale, 1).estimated_bytes();
    let warehouse = bytes(2) - bytes(1);
    assert_eq!(bytes(11) - bytes(1), 10 * warehouse);
    assert!((150_000_000..300_000_000).contains(&warehouse), "{warehouse}");
}
