//! Checking, over a database whose queries give prepared answers.

use std::sync::Arc;

use arrow::array::Int64Array;

use super::*;
use crate::recording::Recording;

/// A database that answers the queries that contain `marked` with one row, and all others with none.
fn answering(marked: Option<&'static str>) -> Recording {
    Recording::answering(&SCHEMA, move |sql, _| {
        let is_marked = marked.is_some_and(|marked| sql.contains(marked));
        Arc::new(Int64Array::from(vec![17; usize::from(is_marked)]))
    })
}

fn holds(lines: &[CheckLine], start: &str) -> Option<Option<bool>> {
    lines.iter().find(|line| line.what.starts_with(start)).map(|line| line.holds)
}

#[test]
fn untouched_data_are_checked_for_the_initial_population_too() {
    let database = answering(None);
    let lines = Tpcc::new(2, 1).check(&database).unwrap();
    assert!(lines.iter().all(|line| line.holds == Some(true)), "{lines:?}");
    for condition in 1..=12 {
        assert!(holds(&lines, &format!("{condition}: ")).is_some(), "condition {condition} is checked");
    }
    assert!(holds(&lines, "load: ").is_some() && holds(&lines, "NURand").is_some());
    assert!(holds(&lines, "input: ").is_none(), "no client has run");
    assert_eq!(database.refreshes(), 1);
    let queries = database.asked();
    assert!(queries.iter().any(|sql| sql.contains("60000 AS expected FROM customer")), "the scale is looked at");
}

#[test]
fn data_that_clients_have_touched_are_not_checked_for_it() {
    let check = |tpcc: &Tpcc, database: &Recording| {
        let lines = tpcc.check(database).unwrap();
        assert_eq!(holds(&lines, "11: "), Some(None));
        assert_eq!(holds(&lines, "load: "), None);
        assert_eq!(holds(&lines, "12: "), Some(Some(true)));
        lines
    };
    let lines = check(&Tpcc::new(1, 1), &answering(Some("AS payments")));
    assert!(lines.iter().any(|line| line.found.contains("clients have run before")), "{lines:?}");

    let tpcc = Tpcc::new(1, 1);
    tpcc.audit.of(0).stock_level();
    let lines = check(&tpcc, &answering(None));
    assert_eq!(holds(&lines, "input: remote payments"), Some(Some(true)));
    assert_eq!(holds(&lines, "mix: payment"), Some(None));
}

#[test]
fn a_violation_is_shown() {
    let database = answering(Some("FULL JOIN new_order"));
    let lines = Tpcc::new(1, 1).check(&database).unwrap();
    let wrong = lines.iter().filter(|line| line.holds == Some(false)).collect::<Vec<_>>();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].what.starts_with("5: ") && wrong[0].found == "violated by answer 17", "{wrong:?}");
    let alone = Tpcc::new(1, 1).check_population(&database).unwrap();
    assert!(alone.iter().all(|line| line.what.starts_with("load: ") && line.holds == Some(true)), "{alone:?}");
}
