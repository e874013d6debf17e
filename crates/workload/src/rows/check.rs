//! Whether keys and values are the result of loading and the clients' updates.

use std::sync::atomic::Ordering;

use super::data::{initial_sum, number_of, write_text};
use super::schema::TEXT_BYTES;
use super::{Columns, RandomRows};
use crate::benchmark::CheckLine;
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{answer, first_cell, first_integer, integer_line, line, work_line};

/// One line for the rows, one for the keys, one for the values.
pub(super) fn check(benchmark: &RandomRows, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    let schema = super::Benchmark::schema(benchmark);
    database.refresh(schema)?;
    let mut session = database.session(schema)?;
    let session = session.as_mut();
    let mut lines = vec![row_line(session, benchmark), key_line(session, benchmark)];
    lines.push(match benchmark.columns {
        Columns::BigInt => sum_line(session, benchmark),
        Columns::Text => integer_line(
            session,
            format!("every value is a text of {TEXT_BYTES} bytes"),
            &format!("select count(*) from pairs where char_length(pair_value) <> {TEXT_BYTES}"),
            0,
        ),
    });
    Ok(lines)
}

/// The number of the greatest key.
pub(super) fn greatest_key(benchmark: &RandomRows, database: &dyn Database) -> Result<u64, DatabaseError> {
    let schema = super::Benchmark::schema(benchmark);
    database.refresh(schema)?;
    let mut session = database.session(schema)?;
    let key = first_cell(session.as_mut(), "select max(pair_key) from pairs").map_err(DatabaseError::Failed)?;
    number_of(benchmark.columns, &key).ok_or_else(|| DatabaseError::Failed(format!("`{key}` is not a key of pairs")))
}

/// Nothing is deleted, so there are the loaded rows and those inserted.
fn row_line(session: &mut dyn Session, benchmark: &RandomRows) -> CheckLine {
    let (loaded, inserted) = (benchmark.row_count(), benchmark.work.inserted.load(Ordering::Relaxed));
    work_line(
        format!("pairs has {loaded} rows that were loaded and {inserted} that were inserted"),
        first_integer(session, "select count(*) from pairs"),
        (loaded + inserted) as i64,
        |missing| format!("{missing} rows are missing"),
        |more| format!("others have inserted rows too, or {more} rows were inserted twice"),
    )
}

/// The text of a key as queries show it.
fn key_text(benchmark: &RandomRows, number: i64) -> String {
    let mut text = String::new();
    match benchmark.columns {
        Columns::BigInt => text = number.to_string(),
        Columns::Text => write_text(number, &mut text),
    }
    text
}

/// The condition that a row was loaded.
fn is_loaded(benchmark: &RandomRows) -> String {
    let last = key_text(benchmark, benchmark.row_count() as i64);
    match benchmark.columns {
        Columns::BigInt => format!("pair_key <= {last}"),
        Columns::Text => format!("pair_key <= '{last}'"),
    }
}

/// Keys are unique, so with their number and their ends those of the loaded rows are all known.
pub(super) fn key_line(session: &mut dyn Session, benchmark: &RandomRows) -> CheckLine {
    let rows = benchmark.row_count();
    let [first, last] = [1, rows as i64].map(|number| key_text(benchmark, number));
    let expected = vec![Some(rows.to_string()), Some(first), Some(last)];
    let what = format!("loaded keys are those of 1 to {rows}");
    let sql = format!("select count(*), min(pair_key), max(pair_key) from pairs where {}", is_loaded(benchmark));
    let found = answer(session, &sql).and_then(|rows| {
        let shown = rows.first().map_or_else(|| "no answer".to_owned(), |row| format!("{row:?}"));
        if rows.first() == Some(&expected) { Ok("number, least and greatest are".to_owned()) } else { Err(shown) }
    });
    line(what, found)
}

/// Each updated row adds one to the sum of all values that were loaded.
fn sum_line(session: &mut dyn Session, benchmark: &RandomRows) -> CheckLine {
    let updated = benchmark.work.updated.load(Ordering::Relaxed);
    let sql = format!("select cast(sum(pair_value) as bigint) from pairs where {}", is_loaded(benchmark));
    work_line(
        format!("the sum of all values tells of {updated} rows updated"),
        first_integer(session, &sql),
        initial_sum(benchmark.row_count()) + updated as i64,
        |missing| format!("{missing} updates are missing"),
        |more| format!("others have updated rows too, or {more} updates were done twice"),
    )
}
