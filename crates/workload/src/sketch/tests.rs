//! Sketches on the reference database, which runs no SQL; `plimsoll`'s tests run them on a server.

use std::collections::BTreeMap;

use super::*;
use crate::sketch::places::parse;

fn values() -> Values {
    Values {
        drawn: BTreeMap::from([(1, Drawn::Query("SELECT 1".to_owned())), (2, Drawn::Constant(3))]),
        ranges: vec![(1, 2, "integer".to_owned())],
        has_ranges: true,
    }
}

#[test]
fn the_smaller_end_of_a_range_is_the_lower_one() {
    let text = "SELECT a FROM t WHERE a BETWEEN $1 AND $2 ;";
    assert_eq!(
        sql(text, &values(), |number| format!(":p{number}")),
        "SELECT a FROM t WHERE a BETWEEN LEAST(:p1::integer, :p2::integer) AND GREATEST(:p1::integer, :p2::integer)"
    );
}

/// A sketch is a workload's file: whatever stands in a statement, the file is read as it was written.
#[test]
fn statements_survive_the_form_of_a_file() {
    let text = "SELECT \"Größe\", E'\\'x:y', '\t\u{7f}' FROM t WHERE a BETWEEN $1 AND $2";
    let call = seen::Call {
        class: "shop".to_owned(),
        database: "shop".to_owned(),
        text: text.to_owned(),
        calls_per_s: 0.25,
        mean_s: 0.1,
        rows_per_call: None,
    };
    let statement = SketchStatement { name: "shop_select_t".to_owned(), parsed: parse(text), call, share: 1.0 };
    let sketch = Sketch::new(
        SketchKind { folder: "seen".into(), ..SketchKind::default() },
        Seen { url: "postgres://db/shop".to_owned(), statements: vec![statement.clone()], left_out: Vec::new() },
        7,
    );
    for is_of_user in [false, true] {
        let file = sketch.file(vec![Value::Table(transaction(&statement, &values(), is_of_user))]);
        let made = FileBenchmark::of_text("sketch:seen", file.to_string(), 7).unwrap();
        assert_eq!((made.name(), made.transactions()), ("sketch_seen", vec!["shop_select_t"]));
        assert_eq!(made.writes(), Writes::Nothing);
    }
    let text = sketch.nothing_runs(&[], false).to_string();
    assert!(text.contains("--copy postgres://db/shop") && text.contains("copy_of=postgres://db/shop"), "{text}");
}

#[test]
fn statements_that_are_left_out_are_named_and_counted() {
    let left_out = |number: usize| LeftOut {
        text: format!("SELECT\n  {number}"),
        class: "shop".to_owned(),
        share: number as f64 / 100.0,
        why: "it is no query".to_owned(),
    };
    let lines = told(&(0..12).map(left_out).collect::<Vec<_>>());
    assert_eq!(lines[0], "left out: `SELECT 11` (shop, 11 % of the time): it is no query");
    assert_eq!(lines[10], "left out: 2 more statements, 1 % of the time");
}
