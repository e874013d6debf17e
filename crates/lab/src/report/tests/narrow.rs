//! The page on a narrow screen.

use super::*;
use crate::predict::tests::{EXPERIMENT, run};

fn words(node: Node, names: &[&str]) -> Vec<String> {
    named(node, names).into_iter().map(text).collect()
}

/// At 390 pixels *Measured* and *Error* lay beside the screen. Tables that have these columns are lists there, whose items carry the
/// columns' names.
#[test]
fn answers_are_not_cut_off() {
    assert!(STYLE.contains("attr(data-column)"), "the style shows the names");
    let mut found = Vec::new();
    for results in [graded(), run(EXPERIMENT, 1.2, 0.0, |_, _| {})] {
        let xml = as_xml(&render(&results));
        let page = parse(&xml);
        for table in named(page.root(), &["table"]) {
            let columns = words(named(table, &["thead"])[0], &["th"]);
            if !columns.iter().any(|column| ["Measured", "Error", "Mean absolute error"].contains(&column.as_str())) {
                continue;
            }
            found.push(words(table, &["caption"]).concat());
            assert_eq!(table.attribute("class"), Some("stacked"), "{columns:?}");
            for row in named(named(table, &["tbody"])[0], &["tr"]) {
                let cells = named(row, &["td"]).into_iter();
                let cells: Vec<String> =
                    cells.map(|cell| cell.attribute("data-column").expect("a name").to_owned()).collect();
                assert_eq!((cells.as_slice(), named(row, &["th"]).len()), (&columns[1..], 1));
            }
        }
    }
    let expect = [
        "Claims and whether they hold",
        "Mean responses, predicted and measured, with 95 % intervals",
        "How far predictions are from measurements",
    ];
    for caption in expect {
        assert!(found.iter().any(|one| one == caption), "no table of `{caption}` among {found:?}");
    }
}
