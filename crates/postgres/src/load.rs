//! Files of SQL as `pg_dump` and people write them, run statement by statement, with the data of COPY between them.

use std::io::BufRead;

use plimsoll_notation::sql::{Lexer, TextRules, TokenKind};
use plimsoll_pg::connection::Connection;

use crate::message::{field, message, query};

/// Data to copy is sent in parts of about this size.
const COPY_PART_BYTES: usize = 1 << 20;

/// Lines at the beginning of a dump that concern psql alone.
const OF_PSQL: [&str; 2] = ["\\restrict", "\\unrestrict"];

/// Why a file could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It cannot be read.
    #[error("line {line}: {why}")]
    Unreadable {
        /// The line.
        line: usize,
        /// The system's reason.
        why: std::io::Error,
    },
    /// A statement failed.
    #[error("line {line}: {why}\n  in: {statement}")]
    Statement {
        /// The line on which it ends.
        line: usize,
        /// The server's reason.
        why: String,
        /// Its beginning.
        statement: String,
    },
    /// A command of psql.
    #[error("line {0}: commands of psql, such as `\\connect`, cannot be run here; write plain SQL")]
    OfPsql(usize),
    /// The connection is lost.
    #[error("{0}")]
    Lost(String),
}

/// A session that sends messages and receives their answers.
pub trait Exchange {
    /// Sends whole messages, and passes on each message of the answer. An error means that the session has ended.
    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<(), String>;
}

impl Exchange for Connection {
    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<(), String> {
        self.relay(request, on).map_err(|error| error.to_string())
    }
}

/// Runs a file. Ends at the first statement that fails; what came before it stays.
pub fn load(peer: &mut dyn Exchange, source: impl BufRead) -> Result<(), LoadError> {
    let mut lines = Lines { source, number: 0 };
    let (mut pending, mut line) = (Vec::new(), Vec::new());
    while lines.next(&mut line)? {
        if line.starts_with(b"\\") && is_empty(&pending) {
            if OF_PSQL.iter().any(|known| line.starts_with(known.as_bytes())) {
                continue;
            }
            return Err(LoadError::OfPsql(lines.number));
        }
        pending.extend_from_slice(&line);
        if !line.contains(&b';') {
            continue;
        }
        let whole = whole_statements(&pending);
        let rest = pending.split_off(whole);
        if is_copy_from_stdin(&pending) {
            copy(peer, &pending, &mut lines)?;
        } else if whole > 0 {
            run(peer, &pending, lines.number)?;
        }
        pending = rest;
    }
    if is_empty(&pending) { Ok(()) } else { run(peer, &pending, lines.number) }
}

/// Whether a text has nothing but space and comments.
fn is_empty(text: &[u8]) -> bool {
    Lexer::new(text, TextRules::default()).all(|token| token.kind == TokenKind::Comment)
}

struct Lines<R> {
    source: R,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line, its end included; returns whether there is one.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, LoadError> {
        line.clear();
        self.number += 1;
        let read = self.source.read_until(b'\n', line);
        read.map(|count| count > 0).map_err(|why| LoadError::Unreadable { line: self.number, why })
    }
}

/// The length of the statements that are whole, semicolons included. Only those of the text's top level end one.
fn whole_statements(text: &[u8]) -> usize {
    let mut whole = 0;
    let mut depth = 0_usize;
    let mut is_atomic = false;
    for token in Lexer::new(text, TextRules::default()) {
        // The body of a function in standard SQL has semicolons of its own.
        is_atomic |= token.is_word("atomic");
        if is_atomic && (token.is_word("begin") || token.is_word("case")) {
            depth += 1;
        } else if token.is_word("end") {
            depth = depth.saturating_sub(1);
        }
        if token.is_mark(b';') && (!is_atomic || depth <= 1 && text_before_ends(text, token.text)) {
            whole = token.text.as_ptr() as usize - text.as_ptr() as usize + 1;
            (depth, is_atomic) = (0, false);
        }
    }
    // A literal, a name or a comment that is still open hides the semicolons after it.
    whole
}

/// Whether the word before a semicolon is END, with which a body in standard SQL ends.
fn text_before_ends(text: &[u8], semicolon: &[u8]) -> bool {
    let before = &text[..semicolon.as_ptr() as usize - text.as_ptr() as usize];
    before.trim_ascii_end().to_ascii_lowercase().ends_with(b"end")
}

fn is_copy_from_stdin(text: &[u8]) -> bool {
    let words: Vec<_> =
        Lexer::new(text, TextRules::default()).filter(|token| token.kind != TokenKind::Comment).collect();
    let has = |word: &str| words.iter().any(|token| token.is_word(word));
    words.first().is_some_and(|first| first.is_word("copy")) && has("from") && has("stdin")
}

fn run(peer: &mut dyn Exchange, sql: &[u8], line: usize) -> Result<(), LoadError> {
    exchange(peer, &message(b'Q', &[sql, b"\0"].concat()), sql, line)
}

fn exchange(peer: &mut dyn Exchange, request: &[u8], sql: &[u8], line: usize) -> Result<(), LoadError> {
    let mut error = None;
    let mut on = |tag, body: &[u8]| {
        if tag == b'E' && error.is_none() {
            error = Some(field(body, b'M').unwrap_or_default());
        }
    };
    peer.exchange(request, &mut on).map_err(LoadError::Lost)?;
    let Some(why) = error else { return Ok(()) };
    let statement: String = String::from_utf8_lossy(sql).trim().chars().take(200).collect();
    Err(LoadError::Statement { line, why, statement })
}

/// Copies the lines until `\.` into a table, in parts, each a COPY of its own: a dump's table is not looked at in between.
fn copy<R: BufRead>(peer: &mut dyn Exchange, sql: &[u8], lines: &mut Lines<R>) -> Result<(), LoadError> {
    let begin = message(b'Q', &[sql, b"\0"].concat());
    // In other formats than a dump's, the first line may be a heading.
    let is_plain = !Lexer::new(sql, TextRules::default()).any(|token| token.is_word("csv") || token.is_word("header"));
    let (mut data, mut line) = (Vec::new(), Vec::new());
    loop {
        let is_over = !lines.next(&mut line)? || line.trim_ascii_end() == b"\\.";
        if !is_over {
            data.extend_from_slice(&line);
        }
        if is_plain && data.len() >= COPY_PART_BYTES || is_over {
            let request = [begin.as_slice(), &message(b'd', &data), &message(b'c', b"")].concat();
            exchange(peer, &request, sql, lines.number)?;
            data.clear();
        }
        if is_over {
            return Ok(());
        }
    }
}

/// Runs one statement for its effect.
pub fn execute(peer: &mut dyn Exchange, sql: &str) -> Result<(), LoadError> {
    exchange(peer, &query(sql), sql.as_bytes(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_of_the_top_level() {
        for (text, expect) in [
            ("select 1;", "select 1;"),
            ("select 1; select", "select 1;"),
            ("select ';", ""),
            (
                "create function f() returns int as $$ begin return 1; end $$ language plpgsql;\n",
                "create function f() returns int as $$ begin return 1; end $$ language plpgsql;",
            ),
            ("create function f() returns int as $$ begin return 1;", ""),
            ("create procedure p() begin atomic insert into t values (1);", ""),
            (
                "create procedure p() begin atomic insert into t values (1); end;",
                "create procedure p() begin atomic insert into t values (1); end;",
            ),
            ("-- a comment;\nselect 1", ""),
        ] {
            assert_eq!(&text[..whole_statements(text.as_bytes())], expect, "{text}");
        }
    }

    #[test]
    fn copies_are_seen() {
        assert!(is_copy_from_stdin(b"-- data\nCOPY public.t (a, b) FROM stdin;"));
        assert!(!is_copy_from_stdin(b"select 'copy from stdin'"));
    }
}
