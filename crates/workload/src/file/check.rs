//! The checks that a file declares, and how answers are read.

use std::cmp::Ordering;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::record_batch::RecordBatch;

use super::benchmark::FileBenchmark;
use super::datum::Datum;
use super::program::{Check, ExpectedAnswer, PlacedSql, Tables};
use crate::benchmark::CheckLine;
use crate::database::Session;
use crate::inquiry::line;

/// How many rows of an unexpected answer are shown.
const SHOWN_MAX: usize = 3;

/// Judges every check of the file; for pgbench scripts, how many rows the tables have.
pub(super) fn check(benchmark: &FileBenchmark, session: &mut dyn Session) -> Vec<CheckLine> {
    if benchmark.definition.tables == Tables::Pgbench {
        return pgbench(benchmark, session);
    }
    let judge = |check: &Check| line(check.what.clone(), judged(benchmark, check, session));
    benchmark.definition.checks.iter().map(judge).collect()
}

fn judged(benchmark: &FileBenchmark, check: &Check, session: &mut dyn Session) -> Result<String, String> {
    let found = answer(benchmark, &check.query, session)?;
    match &check.expected {
        ExpectedAnswer::NoRows if found.is_empty() => Ok("no rows".to_owned()),
        ExpectedAnswer::NoRows => Err(format!("{} rows, as {}", found.len(), shown(&found))),
        ExpectedAnswer::Value(expected) => {
            let [row] = &found[..] else { return Err(format!("{} rows where there should be one", found.len())) };
            let [cell] = &row[..] else { return Err(format!("{} columns where there should be one", row.len())) };
            let text = cell.text().into_owned();
            let is_right = are_equal(cell, expected);
            if is_right { Ok(text) } else { Err(format!("{text}, expected {}", expected.text())) }
        }
        ExpectedAnswer::SameAs(query) => {
            let expected = answer(benchmark, query, session)?;
            let same = |(a, b): (&Vec<Datum>, &Vec<Datum>)| {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal(a, b))
            };
            let count = found.len();
            if count != expected.len() {
                return Err(format!("{count} rows, expected {}", expected.len()));
            }
            match found.iter().zip(&expected).find(|pair| !same(*pair)) {
                None => Ok(format!("{count} equal rows")),
                Some((a, b)) => {
                    Err(format!("{}, expected {}", shown(std::slice::from_ref(a)), shown(std::slice::from_ref(b))))
                }
            }
        }
    }
}

fn answer(benchmark: &FileBenchmark, query: &PlacedSql, session: &mut dyn Session) -> Result<Vec<Vec<Datum>>, String> {
    let told = |why: String| format!("{}: {why}", query.place);
    let answer = session.query(&benchmark.sql(&query.sql)).map_err(|error| told(error.to_string()))?;
    rows(&answer.batches).map_err(told)
}

fn shown(rows: &[Vec<Datum>]) -> String {
    let row = |row: &Vec<Datum>| format!("({})", row.iter().map(Datum::shown).collect::<Vec<_>>().join(", "));
    rows.iter().take(SHOWN_MAX).map(row).collect::<Vec<_>>().join(", ")
}

/// Whether two values are equal by SQL's rules: numbers by their value, independently of their type.
fn are_equal(a: &Datum, b: &Datum) -> bool {
    let (a, b) = (a.text(), b.text());
    let number = |text: &str| decimal(text);
    a == b || number(&a).is_some_and(|a| Some(a) == number(&b))
}

/// A decimal number without insignificant zeros; `None` for any other text.
fn decimal(text: &str) -> Option<String> {
    let (sign, magnitude) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let is_zero = whole.is_empty() && fraction.is_empty();
    Some(format!("{}{whole}.{fraction}", if is_zero { "" } else { sign }))
}

/// How many rows the tables of pgbench have, where they were loaded for this scale.
fn pgbench(benchmark: &FileBenchmark, session: &mut dyn Session) -> Vec<CheckLine> {
    let scale = benchmark.scale as u64;
    let tables = [("pgbench_branches", scale), ("pgbench_tellers", scale * 10), ("pgbench_accounts", scale * 100_000)];
    let count = |(table, expected): (&str, u64)| crate::inquiry::row_count_line(session, table, expected);
    tables.into_iter().map(count).collect()
}

/// The rows of an answer. Whole numbers are numbers, everything else is text.
fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<Datum>>, String> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = (0..batch.num_columns()).map(|column| cells(batch, column)).collect::<Result<Vec<_>, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()));
    }
    Ok(rows)
}

/// The only column of an answer.
pub(super) fn column(batches: &[RecordBatch]) -> Result<Vec<Datum>, String> {
    let mut all = Vec::new();
    for batch in batches {
        if batch.num_columns() != 1 {
            return Err(format!("the query has {} columns; give one", batch.num_columns()));
        }
        all.extend(cells(batch, 0)?);
    }
    Ok(all)
}

fn cells(batch: &RecordBatch, column: usize) -> Result<Vec<Datum>, String> {
    let column = batch.column(column);
    let unreadable = |error| format!("the answer cannot be read: {error}");
    if column.data_type().is_integer() {
        let numbers = cast(column, &DataType::Int64).map_err(unreadable)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        return Ok(numbers.iter().map(|number| number.map_or(Datum::Null, Datum::Int)).collect());
    }
    let texts = cast(column, &DataType::Utf8).map_err(unreadable)?;
    let texts = texts.as_string::<i32>();
    Ok(texts.iter().map(|text| text.map_or(Datum::Null, |text| Datum::Text(text.to_owned()))).collect())
}

/// The order of values: null, then numbers, then texts.
pub(super) fn order(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(datum: &Datum) -> u8 {
    match datum {
        Datum::Null => 0,
        Datum::Int(_) => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_value() {
        let text = |text: &str| Datum::Text(text.to_owned());
        for (a, b, expect) in [
            (text("5.00"), Datum::Int(5), true),
            (text("-0.0"), Datum::Int(0), true),
            (text("0.5"), Datum::Double(0.5), true),
            (text("05"), text("5"), true),
            (text("5.01"), Datum::Int(5), false),
            (text("a"), text("a"), true),
            (text("a "), text("a"), false),
            (text("."), text(""), false),
            (Datum::Null, text(""), false),
            (text("2020-01-01 10:00:00"), text("2020-01-01 11:00:00"), false),
        ] {
            assert_eq!(are_equal(&a, &b), expect, "{a:?} and {b:?}");
        }
    }
}
