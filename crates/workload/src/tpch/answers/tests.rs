//! The tolerances, case by case, and the published answers against themselves.

use super::*;
use crate::tpch::queries::QUERIES;

fn check(tolerance: Tolerance, found: Option<&str>, published: &str, expect: bool) {
    let accepted = tolerance.accepts(found, published);
    assert_eq!(accepted, expect, "{tolerance:?}: {found:?} against {published:?}");
}

#[test]
fn exact_means_equal_as_number_or_as_text() {
    check(Tolerance::Exact, Some("323"), "323.00", true);
    check(Tolerance::Exact, Some("323.0000000000"), "323.00", true);
    check(Tolerance::Exact, Some("323.01"), "323.00", false);
    check(Tolerance::Exact, Some("323.000001"), "323.00", false);
    check(Tolerance::Exact, Some("-0.05"), "-0.05", true);
    check(Tolerance::Exact, Some("0.05"), "-0.05", false);
    check(Tolerance::Exact, Some("1995-03-05"), "1995-03-05", true);
    check(Tolerance::Exact, Some("1995-03-06"), "1995-03-05", false);
    check(Tolerance::Exact, Some("33-429-790-6131"), "33-429-790-6131", true);
    check(Tolerance::Exact, Some("Brand#12"), "Brand#13", false);
    check(Tolerance::Exact, None, "", true);
    check(Tolerance::Exact, None, "0", false);
    check(Tolerance::Exact, Some("NULL"), "0", false);
}

#[test]
fn a_sum_may_be_off_by_100() {
    check(Tolerance::Sum, Some("1000100.00"), "1000000.00", true);
    check(Tolerance::Sum, Some("1000100.0001"), "1000000.00", false);
    check(Tolerance::Sum, Some("999900.00"), "1000000.00", true);
    check(Tolerance::Sum, Some("999899.99"), "1000000.00", false);
    check(Tolerance::Sum, Some("56586554400.7312345"), "56586554400.73", true);
    check(Tolerance::Sum, Some("-50"), "50", true);
    check(Tolerance::Sum, None, "100.00", false);
    check(Tolerance::Sum, Some("many"), "many", false);
}

#[test]
fn a_ratio_is_rounded_and_may_be_off_by_one_percent() {
    check(Tolerance::Ratio, Some("25.5220058532573370"), "25.52", true);
    check(Tolerance::Ratio, Some("101.004"), "100.00", true);
    check(Tolerance::Ratio, Some("101.005"), "100.00", false);
    check(Tolerance::Ratio, Some("98.995"), "100.00", true);
    check(Tolerance::Ratio, Some("98.994"), "100.00", false);
    // Rounded first: 0.0344 is 0.03, but an absolute hundredth more is not within one percent of it.
    check(Tolerance::Ratio, Some("0.0344"), "0.03", true);
    check(Tolerance::Ratio, Some("0.035"), "0.03", false);
    check(Tolerance::Ratio, Some("-100.5"), "-100.00", true);
    check(Tolerance::Ratio, Some("-101.5"), "-100.00", false);
    check(Tolerance::Ratio, Some("0.004"), "0.00", true);
    check(Tolerance::Ratio, Some("0.005"), "0.00", false);
}

#[test]
fn a_ratio_of_sums_must_meet_both_bounds() {
    check(Tolerance::RatioOfSums, Some("348506.02"), "348406.02", true);
    check(Tolerance::RatioOfSums, Some("348506.03"), "348406.02", false);
    check(Tolerance::RatioOfSums, Some("16.5438"), "16.38", true);
    check(Tolerance::RatioOfSums, Some("16.55"), "16.38", false);
}

/// A published answer as a database would return it.
fn as_found(published: &[Vec<&str>]) -> Vec<TextRow> {
    published.iter().map(|row| row.iter().map(|cell| Some((*cell).to_owned())).collect()).collect()
}

#[test]
fn every_published_answer_has_the_columns_and_rows_of_its_query() {
    for (number, query) in QUERIES.iter().enumerate() {
        let published = published(number);
        assert!(query.rows.contains(&published.len()), "{}: {} rows", query.name, published.len());
        assert!(published.iter().all(|row| row.len() == query.columns.len()), "{}", query.name);
        assert_eq!(compare(query, &as_found(&published), &published), Ok(()), "{}", query.name);
    }
    let rows: Vec<usize> = (0..QUERIES.len()).map(|number| published(number).len()).collect();
    let expect = [4, 100, 10, 5, 5, 1, 4, 2, 175, 20, 1048, 2, 42, 1, 1, 18314, 1, 57, 1, 186, 100, 7];
    assert_eq!(rows, expect);
}

#[test]
fn any_changed_cell_is_found_and_named() {
    for (number, query) in QUERIES.iter().enumerate() {
        let published = published(number);
        for row in [0, published.len() - 1] {
            for column in 0..query.columns.len() {
                let mut found = as_found(&published);
                found[row][column] = Some("-1234567.5".to_owned());
                let said = compare(query, &found, &published).expect_err("a wrong cell agrees with the answer");
                assert!(said.contains("-1234567.5") && said.contains(published[row][column]), "{}: {said}", query.name);
            }
        }
    }
}

#[test]
fn rows_that_tie_may_come_in_any_order_and_no_others() {
    let query = &QUERIES[10];
    let published = vec![vec!["7", "90.00"], vec!["8", "50.00"], vec!["9", "50.00"], vec!["6", "20.00"]];
    let found = as_found(&published);
    let reordered = |rows: [usize; 4]| rows.map(|row| found[row].clone());
    assert_eq!(compare(query, &reordered([0, 2, 1, 3]), &published), Ok(()));
    let said = compare(query, &reordered([1, 0, 2, 3]), &published).expect_err("rows out of order");
    assert_eq!(said, "row 1, column 1: 8, published 7");
    let said = compare(query, &reordered([0, 2, 2, 3]), &published).expect_err("one row twice");
    assert_eq!(said, "row 2, column 1: 9, published 8 (rows 2 to 3 tie)");
}

#[test]
fn missing_rows_and_columns_are_said() {
    let query = &QUERIES[3];
    let published = published(3);
    let mut found = as_found(&published);
    found.pop();
    assert_eq!(compare(query, &found, &published), Err("4 rows, published 5".to_owned()));
    let mut found = as_found(&published);
    found[2].pop();
    assert_eq!(compare(query, &found, &published), Err("1 columns, published 2".to_owned()));
}
