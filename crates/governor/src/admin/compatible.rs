//! Statements that drivers and tools send by themselves. They take the console for a PostgreSQL server, and give up if
//! it does not know its own version.

use super::answer::{Answer, Cell, Column, boolean, int, text};

/// Parameters that a client receives at login, and can query with SHOW.
pub const PARAMETERS: [(&str, &str); 11] = [
    // A version that drivers can parse, of a server with the same protocol features as this console.
    ("server_version", concat!("15.0 (Plimsoll ", env!("CARGO_PKG_VERSION"), ")")),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("is_superuser", "off"),
];

/// Names that a client may SET without effect: session settings that drivers set when they connect.
const IGNORED: [&str; 22] = [
    "application_name",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "default_transaction_isolation",
    "escape_string_warning",
    "extra_float_digits",
    "idle_in_transaction_session_timeout",
    "intervalstyle",
    "jit",
    "lock_timeout",
    "names",
    "quote_all_identifiers",
    "row_security",
    "search_path",
    "session",
    "standard_conforming_strings",
    "statement_timeout",
    "time",
    "timezone",
    "transaction",
];

/// An answer that does not depend on the governor's state.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixed {
    /// Its columns; empty if no row follows.
    pub columns: Vec<Column>,
    /// Its rows.
    pub answer: Answer,
    /// The command tag: `SELECT 1`.
    pub tag: String,
    /// The transaction status afterwards, if it changes that.
    pub status: Option<u8>,
}

/// The answer to such a statement; `None` for any other.
pub fn understand(words: &[String]) -> Option<Fixed> {
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    match lower.as_slice() {
        ["begin", ..] | ["start", "transaction", ..] => Some(done("BEGIN", Some(b'T'))),
        ["commit" | "end", ..] => Some(done("COMMIT", Some(b'I'))),
        ["rollback" | "abort", ..] => Some(done("ROLLBACK", Some(b'I'))),
        // Settings of the governor have a dot.
        ["reset", name, ..] if !name.contains('.') => Some(done("RESET", None)),
        ["discard", "all"] => Some(done("DISCARD ALL", None)),
        ["deallocate", ..] => Some(done("DEALLOCATE", None)),
        ["close", ..] => Some(done("CLOSE CURSOR", None)),
        ["unlisten", ..] => Some(done("UNLISTEN", None)),
        ["set", "local" | "session", name, ..] if IGNORED.contains(name) || *name == "characteristics" => {
            Some(done("SET", None))
        }
        ["set", name, ..] if IGNORED.contains(name) => Some(done("SET", None)),
        ["show", "transaction" | "transaction_isolation", ..] => Some(one("transaction_isolation", "read committed")),
        ["show", name] => parameter(name).map(|(name, value)| one(name, value)),
        ["select", rest @ ..] => select(rest),
        _ => None,
    }
}

fn select(words: &[&str]) -> Option<Fixed> {
    match words {
        ["version" | "pg_catalog.version", "(", ")", ..] => {
            Some(one("version", concat!("PostgreSQL 15.0 (console of Plimsoll ", env!("CARGO_PKG_VERSION"), ")")))
        }
        ["current_schema", ..] => Some(one("current_schema", "public")),
        ["current_setting", "(", name, ..] | ["pg_catalog.current_setting", "(", name, ..] => {
            parameter(name).map(|(_, value)| one("current_setting", value))
        }
        ["set_config" | "pg_catalog.set_config", "(", _, ",", value, ..] => Some(one("set_config", value)),
        ["pg_advisory_unlock_all", ..] => Some(one("pg_advisory_unlock_all", "")),
        ["pg_is_in_recovery" | "pg_catalog.pg_is_in_recovery", ..] => {
            Some(row(vec![boolean("pg_is_in_recovery")], vec![false.into()]))
        }
        [number] if number.parse::<i64>().is_ok() => {
            Some(row(vec![int("?column?")], vec![number.parse::<i64>().ok().into()]))
        }
        [] => Some(row(vec![], vec![])),
        // The console has no types, tables or functions of its own, so catalogs are empty.
        _ if words.iter().any(|word| word.contains("pg_catalog.") || word.starts_with("pg_")) => {
            Some(Fixed { columns: vec![text("?column?")], ..done("SELECT 0", None) })
        }
        _ => None,
    }
}

fn parameter(name: &str) -> Option<(&'static str, &'static str)> {
    PARAMETERS.into_iter().find(|(parameter, _)| parameter.eq_ignore_ascii_case(name))
}

fn done(tag: &str, status: Option<u8>) -> Fixed {
    Fixed { columns: Vec::new(), answer: Answer::default(), tag: tag.to_owned(), status }
}

fn one(name: &'static str, value: &str) -> Fixed {
    row(vec![text(name)], vec![value.into()])
}

fn row(columns: Vec<Column>, cells: Vec<Cell>) -> Fixed {
    Fixed { columns, answer: Answer::of(vec![cells]), tag: "SELECT 1".to_owned(), status: None }
}
