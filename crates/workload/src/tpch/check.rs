//! Checks that the tables are whole and that the queries answer as published.

use super::answers::{compare, published};
use super::load::row_counts;
use super::queries::{QUERIES, QuerySpec};
use super::tables::SCHEMA;
use crate::benchmark::CheckLine;
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{answer, line, row_count_line};

/// The only scale for which answers are published.
const PUBLISHED_SCALE: f64 = 1.0;

/// One line per table, then one per query.
pub fn check(scale: f64, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    let mut session = database.session(&SCHEMA)?;
    let mut lines = Vec::new();
    for (table, expected) in SCHEMA.tables.iter().zip(row_counts(scale)) {
        lines.push(row_count_line(session.as_mut(), table.name, expected));
    }
    if scale != PUBLISHED_SCALE {
        lines.push(CheckLine {
            what: "the 22 answers agree with the published ones".to_owned(),
            holds: None,
            found: format!("no published answers at scale {scale}; run with scale 1"),
        });
    }
    for (number, query) in QUERIES.iter().enumerate() {
        lines.push(match scale == PUBLISHED_SCALE {
            true => answer_line(session.as_mut(), number, query),
            false => plausible_line(session.as_mut(), query, scale),
        });
    }
    Ok(lines)
}

fn answer_line(session: &mut dyn Session, number: usize, query: &QuerySpec) -> CheckLine {
    let what = format!("{} agrees with the published answer", query.name);
    let found = answer(session, &query.validation_sql(PUBLISHED_SCALE));
    line(what, found.and_then(|rows| compare(query, &rows, &published(number)).map(|()| rows_found(rows.len()))))
}

/// Where no answer is published: as many rows as there must be, of as many columns.
fn plausible_line(session: &mut dyn Session, query: &QuerySpec, scale: f64) -> CheckLine {
    let bounds = (*query.rows.start(), *query.rows.end());
    let expected = match bounds {
        (low, high) if low == high => rows_found(low),
        (low, usize::MAX) => format!("at least {}", rows_found(low)),
        (low, high) => format!("{low} to {}", rows_found(high)),
    };
    let judge = |count: usize| match query.rows.contains(&count) {
        true => Ok(rows_found(count)),
        false => Err(rows_found(count)),
    };
    let found = answer(session, &query.validation_sql(scale)).and_then(|rows| match rows.first() {
        Some(row) if row.len() != query.columns.len() => Err(format!("{} columns", row.len())),
        _ => judge(rows.len()),
    });
    line(format!("{} returns {expected} of {} columns", query.name, query.columns.len()), found)
}

fn rows_found(count: usize) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}
