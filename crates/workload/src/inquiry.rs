//! The SQL queries of checks, and how checks read the answers.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::record_batch::RecordBatch;

use crate::benchmark::CheckLine;
use crate::database::Session;
use crate::tpch::cells::{TextRow, text_rows};

/// The line of a finding, which is `Ok` if it is right.
pub(crate) fn line(what: String, found: Result<String, String>) -> CheckLine {
    let holds = Some(found.is_ok());
    CheckLine { what, holds, found: found.unwrap_or_else(|differs| differs) }
}

/// The rows of a query as text. A query that fails is a finding, not the end of the check.
pub(crate) fn answer(session: &mut dyn Session, sql: &str) -> Result<Vec<TextRow>, String> {
    text_rows(&batches(session, sql)?).map_err(|error| format!("the answer cannot be read: {error}"))
}

/// The batches that a query answers with.
pub(crate) fn batches(session: &mut dyn Session, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let answer = session.query(sql).map_err(|error| format!("the query failed: {error}"))?;
    Ok(answer.batches)
}

/// The first value of a query's first row, as text.
pub(crate) fn first_cell(session: &mut dyn Session, sql: &str) -> Result<String, String> {
    let rows = answer(session, sql)?;
    let cell = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
    cell.ok_or_else(|| "no answer".to_owned())
}

/// The first value of a query's first row, which is a whole number.
pub(crate) fn first_integer(session: &mut dyn Session, sql: &str) -> Result<i64, String> {
    let cell = first_cell(session, sql)?;
    cell.parse().map_err(|_| format!("`{cell}` is not a whole number"))
}

/// Whether a query answers with that whole number.
pub(crate) fn integer_line(session: &mut dyn Session, what: String, sql: &str, expected: i64) -> CheckLine {
    let found = first_integer(session, sql);
    line(what, found.and_then(|found| if found == expected { Ok(found.to_string()) } else { Err(found.to_string()) }))
}

/// Whether a table has `expected` rows.
pub(crate) fn row_count_line(session: &mut dyn Session, table: &str, expected: u64) -> CheckLine {
    let what = format!("{table} has {expected} rows");
    integer_line(session, what, &format!("select count(*) from {table}"), expected as i64)
}

/// Whether the data show exactly the work that these clients did. Less means lost work. More is either a fault or the
/// work of clients that another process, or another benchmark on the same data, ran before.
pub(crate) fn work_line(
    what: String,
    found: Result<i64, String>,
    expected: i64,
    missing: impl Fn(i64) -> String,
    surplus: impl Fn(i64) -> String,
) -> CheckLine {
    match found.map(|found| (found, found - expected)) {
        Ok((found, 0)) => line(what, Ok(found.to_string())),
        Ok((_, more @ 1..)) => CheckLine { what, holds: None, found: format!("not judged: {}", surplus(more)) },
        Ok((_, less)) => line(what, Err(missing(-less))),
        Err(error) => line(what, Err(error)),
    }
}

/// One column of an answer, which holds whole numbers and no nulls.
pub(crate) fn integers(batches: &[RecordBatch], column: usize) -> Result<Vec<i64>, String> {
    let mut all = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        let column = batch.columns().get(column).ok_or_else(|| format!("{} columns", batch.num_columns()))?;
        let numbers = cast(column, &DataType::Int64).map_err(|error| format!("the answer cannot be read: {error}"))?;
        if numbers.null_count() > 0 {
            return Err(format!("{} nulls", numbers.null_count()));
        }
        all.extend_from_slice(numbers.as_primitive::<Int64Type>().values());
    }
    Ok(all)
}

/// A decimal number as hundredths; `None` if the text is not a number or has more decimals.
pub(crate) fn hundredths(text: &str) -> Option<i128> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if fraction.len() > 2 || !digits(fraction) || !digits(whole) {
        return None;
    }
    let magnitude: i128 = format!("{whole}{fraction:0<2}").parse().ok().filter(|_| !whole.is_empty())?;
    Some(if negative { -magnitude } else { magnitude })
}

/// Hundredths as a decimal number.
pub(crate) fn from_hundredths(hundredths: i128) -> String {
    let sign = if hundredths < 0 { "-" } else { "" };
    let magnitude = hundredths.unsigned_abs();
    format!("{sign}{}.{:02}", magnitude / 100, magnitude % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hundredths_are_read() {
        for (text, expect) in [
            ("12", Some(1_200)),
            ("12.3", Some(1_230)),
            ("12.34", Some(1_234)),
            ("12.3400", Some(1_234)),
            ("-0.05", Some(-5)),
            ("229577310901.20", Some(22_957_731_090_120)),
            ("12.345", None),
            ("1e5", None),
            ("--1", None),
            ("", None),
            ("x.10", None),
        ] {
            assert_eq!(hundredths(text), expect, "{text}");
        }
        for number in [0, 7, -7, 123, -123, 22_957_731_090_120] {
            assert_eq!(hundredths(&from_hundredths(number)), Some(number));
        }
    }
}
