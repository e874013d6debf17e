//! Checking, over a database whose queries give prepared answers.

use std::sync::Arc;

use arrow::array::Int64Array;

use super::*;
use crate::recording::{Recording, number};
use crate::tpcw::check::conditions;
use crate::tpcw::mix::Interaction;

/// Checks a shop as loaded, or with `new_orders` more orders, where queries that contain `marked` find a row that
/// violates their condition.
fn checked(marked: Option<String>, new_orders: i64, completed: u64) -> Vec<CheckLine> {
    let benchmark = Tpcw::new(1, 1_000, "shopping", 1);
    (0..completed).for_each(|_| benchmark.audit.completed(Interaction::BuyConfirm));
    let size = benchmark.size;
    let database = Recording::new(&SCHEMA, move |sql, tables| {
        if sql.starts_with("select count(*) from") {
            let table = SCHEMA.tables.iter().position(|table| sql.contains(&format!("from {} ", table.name))).unwrap();
            let loaded = tables[table].num_rows() as i64;
            let is_new = sql.contains(" > ");
            assert!(is_new || loaded == size.rows(table));
            return number(if !is_new {
                loaded
            } else if table == ORDERS {
                new_orders
            } else {
                0
            });
        }
        match &marked {
            Some(marked) if sql.starts_with(marked.as_str()) => number(17),
            _ => Arc::new(Int64Array::from(Vec::<i64>::new())),
        }
    });
    load_into(&benchmark, &database);
    benchmark.check(&database).unwrap()
}

fn failures(lines: &[CheckLine]) -> Vec<String> {
    lines.iter().filter(|line| line.holds != Some(true)).map(|line| line.what.clone()).collect()
}

#[test]
fn each_condition_is_asked_and_heard() {
    assert_eq!(failures(&checked(None, 0, 0)), [""; 0]);
    for condition in conditions(Size { browsers: 1, items: 1_000 }) {
        let lines = checked(Some(condition.violations), 0, 0);
        assert_eq!(failures(&lines), [condition.what]);
        let line = lines.iter().find(|line| line.what == condition.what).unwrap();
        assert_eq!((line.holds, line.found.as_str()), (Some(false), "violated by answer 17"));
    }
}

#[test]
fn lost_and_unknown_orders_are_told_apart() {
    let line = |new_orders, completed| {
        let lines = checked(None, new_orders, completed);
        lines.into_iter().find(|line| line.what.starts_with("orders has") && line.what.ends_with("added")).unwrap()
    };
    assert_eq!(line(5, 5).holds, Some(true));
    assert_eq!(line(4, 5).holds, Some(false));
    assert_eq!(line(4, 5).found, "1 are missing");
    assert_eq!(line(6, 5).holds, None);
}

#[test]
fn every_query_is_asked_once() {
    let database = Recording::new(&SCHEMA, |_, _| number(0));
    Tpcw::new(1, 1_000, "shopping", 1).check(&database).unwrap();
    let asked = database.asked();
    assert_eq!(asked.iter().collect::<BTreeSet<_>>().len(), asked.len());
}
