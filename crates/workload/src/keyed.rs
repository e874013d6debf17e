//! Statements written once: SQL text compiled to row operations, so that a statement that servers run as text also runs
//! on an engine in this process.
//!
//! A [`Program`] is compiled once from a statement about tables of a [`Catalog`], and can be run any number of times.
//! The subset is that of keyed statements: one table, found by its whole primary key or by a range of an index; INSERT,
//! UPDATE, DELETE, RETURNING, FOR UPDATE, ORDER BY an index with LIMIT, aggregates over a range. An accepted statement
//! means the same as in PostgreSQL. Any other is refused, with the place and the text to write instead; nothing is
//! ignored. A statement that would read every row of a table is refused, too: scans are not supported, because each row
//! read stays locked.
//!
//! Rows are locked as by hand-written row operations: SELECT locks rows to be read, FOR UPDATE to be updated, UPDATE
//! and DELETE to be written; ranges are protected against phantoms. With LIMIT, only the needed part of a range is
//! locked.
//!
//! In reading order: `scalar` and `numeric` are types and values, `expression` computes with them, `analysis` makes
//! typed expressions of parsed ones (`function` those with functions), `access` chooses how rows are found and `find`
//! finds them, `compile` makes programs and `run` runs them. `declaration` reads CREATE TABLE, `filling` the INSERT
//! statements that fill tables. The parser is DataFusion's.

mod access;
mod analysis;
mod compile;
mod declaration;
mod expression;
mod filling;
mod find;
mod function;
mod numeric;
mod run;
mod scalar;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
pub(crate) mod tests;

pub use declaration::Catalog;
pub use filling::Filling;
pub use run::Program;

use sqlparser::ast::{Spanned, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Tokenizer};

use crate::database::DatabaseError;
use crate::schema::Schema;

/// A statement of a benchmark, written once: it has a schema, a name and a text. Row operations are compiled from the
/// text when it first runs, as a server prepares it then. No such text reads the time, because a benchmark stamps its
/// rows by its own clock.
macro_rules! statement {
    ($schema:expr, $name:literal, $sql:expr $(,)?) => {{
        static PROGRAM: std::sync::LazyLock<$crate::keyed::Program> =
            std::sync::LazyLock::new(|| $crate::keyed::Program::of_benchmark(&$schema, $sql));
        $crate::statement::Statement {
            name: $name,
            sql: $sql,
            native: &|access, parameters, rows| PROGRAM.run(access, parameters, 0, rows),
        }
    }};
}

pub(crate) use statement;

impl Program {
    /// Compiles a statement of a benchmark.
    ///
    /// # Panics
    /// If it is beyond the subset, which the benchmark's tests find.
    pub(crate) fn of_benchmark(schema: &Schema, sql: &str) -> Program {
        Program::compile(&Catalog::of(schema), sql).unwrap_or_else(|error| panic!("{error}: {sql}"))
    }
}

/// Why a statement cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct SqlError {
    /// The line of the text, from 1.
    pub line: u64,
    /// The character in that line, from 1.
    pub column: u64,
    /// The fault, and the text to write instead.
    pub message: String,
}

impl SqlError {
    fn at(place: Location, message: impl Into<String>) -> Self {
        // If the parser does not keep the place of a part of a statement, the statement's beginning is reported.
        SqlError { line: place.line.max(1), column: place.column.max(1), message: message.into() }
    }

    /// The place as a number of characters of the text before it.
    pub fn characters_before(&self, sql: &str) -> usize {
        let lines = sql.split_inclusive('\n').take(self.line as usize - 1);
        lines.map(|line| line.chars().count()).sum::<usize>() + self.column as usize - 1
    }
}

/// The one statement of a text.
fn parse(sql: &str) -> Result<Statement, SqlError> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(of_parser)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (None, _) => Err(SqlError::at(Location::new(1, 1), "there is no statement")),
        (Some(second), false) => {
            Err(SqlError::at(second.span().start, "this is a second statement; prepare it by itself"))
        }
    }
}

/// Makes an error of the parser's message, whose end gives the place.
fn of_parser(error: ParserError) -> SqlError {
    let words = match error {
        ParserError::TokenizerError(words) | ParserError::ParserError(words) => words,
        ParserError::RecursionLimitExceeded => {
            "the expression is nested too deeply; write it with fewer parentheses".to_owned()
        }
    };
    let place = words.rsplit_once(" at Line: ").and_then(|(message, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((message.to_owned(), Location::new(line.parse().ok()?, column.parse().ok()?)))
    });
    let (message, place) = place.unwrap_or_else(|| (words.clone(), Location::new(1, 1)));
    SqlError::at(place, message)
}

/// The first place of one of the words outside of strings and comments, or the beginning of the text.
fn place_of(sql: &str, words: &[&str]) -> Location {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap_or_default();
    let found = tokens.iter().find(|token| words.iter().any(|word| token.token.to_string().eq_ignore_ascii_case(word)));
    found.map_or(Location::new(1, 1), |token| token.span.start)
}

fn failed<T>(why: String) -> Result<T, DatabaseError> {
    Err(DatabaseError::Failed(why))
}
