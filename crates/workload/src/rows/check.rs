//! Whether keys and values are the result of loading and the clients' updates.

use std::sync::atomic::Ordering;

use super::data::{initial_sum, write_text};
use super::schema::TEXT_BYTES;
use super::{Columns, RandomRows};
use crate::benchmark::CheckLine;
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{answer, first_integer, integer_line, line, row_count_line, work_line};

/// One line for the rows, one for the keys, one for the values.
pub(super) fn check(benchmark: &RandomRows, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    let schema = super::Benchmark::schema(benchmark);
    database.refresh(schema)?;
    let mut session = database.session(schema)?;
    let session = session.as_mut();
    let rows = benchmark.row_count();
    let mut lines = vec![row_count_line(session, benchmark.table().name, rows), key_line(session, benchmark)];
    lines.push(match benchmark.columns {
        Columns::BigInt => sum_line(session, rows, benchmark.updated.load(Ordering::Relaxed)),
        Columns::Text => integer_line(
            session,
            format!("every value is a text of {TEXT_BYTES} bytes"),
            &format!("select count(*) from pairs where char_length(pair_value) <> {TEXT_BYTES}"),
            0,
        ),
    });
    Ok(lines)
}

/// Keys are unique, so with their number and their ends they are all known.
fn key_line(session: &mut dyn Session, benchmark: &RandomRows) -> CheckLine {
    let text = |number: i64| {
        let mut text = String::new();
        match benchmark.columns {
            Columns::BigInt => text = number.to_string(),
            Columns::Text => write_text(number, &mut text),
        }
        text
    };
    let expected = vec![Some(text(1)), Some(text(benchmark.row_count() as i64))];
    let what = format!("keys are those of 1 to {}", benchmark.row_count());
    let found = answer(session, "select min(pair_key), max(pair_key) from pairs").and_then(|rows| {
        let shown = rows.first().map_or_else(|| "no answer".to_owned(), |row| format!("{row:?}"));
        if rows.first() == Some(&expected) { Ok("least and greatest are".to_owned()) } else { Err(shown) }
    });
    line(what, found)
}

/// Each updated row adds one to the sum of all values.
fn sum_line(session: &mut dyn Session, rows: u64, updated: u64) -> CheckLine {
    work_line(
        format!("the sum of all values tells of {updated} rows updated"),
        first_integer(session, "select cast(sum(pair_value) as bigint) from pairs"),
        initial_sum(rows) + updated as i64,
        |missing| format!("{missing} updates are missing"),
        |more| format!("others have updated rows too, or {more} updates were done twice"),
    )
}
