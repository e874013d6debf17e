//! Finds without reading a text that it leaves nothing, which is true of most texts.

use crate::statement::has_ignoring_case;

/// First words of statements that leave nothing unless they contain one of the words below.
const PLAIN: &[&str] = &[
    "select",
    "insert",
    "update",
    "delete",
    "begin",
    "commit",
    "with",
    "rollback",
    "end",
    "abort",
    "start",
    "savepoint",
    "release",
    "values",
    "show",
    "merge",
    "table",
    "fetch",
    "move",
    "close",
    "copy",
    "truncate",
    "lock",
    "notify",
];

/// The second half, after an underscore, of names that matter: `set_config`, `pg_temp`, `pg_advisory_lock`,
/// `pg_try_advisory_lock`, `pg_replication_origin_session_setup`, `pg_settings`, `dblink_connect`, `set_limit`,
/// `session_authorization`.
const AFTER_UNDERSCORE: &[&str] =
    &["config", "temp", "advisory", "replication", "settings", "connect", "limit", "authorization"];

/// The first half of `nextval`, `setval`, `currval` and `lastval`.
const BEFORE_VAL: &[&str] = &["next", "set", "curr", "last"];

/// Whether a text may leave something, or is to be read in any case.
pub(super) fn may_leave(sql: &[u8]) -> bool {
    let word = first_word(sql);
    let is_plain = PLAIN.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    !is_plain || is_several(sql) || has_name(sql) || may_create(sql, word)
}

/// SELECT … INTO creates a table.
fn may_create(sql: &[u8], word: &[u8]) -> bool {
    let queries = ["select", "with", "values", "table"].iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    queries && has_ignoring_case(sql, b"into")
}

fn has_name(sql: &[u8]) -> bool {
    let begins =
        |at: usize, word: &str| sql.get(at..at + word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()));
    let goes_on = |at: usize| sql.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let ends = |at: usize, word: &str| at >= word.len() && begins(at - word.len(), word);
    memchr::memchr_iter(b'_', sql).any(|at| AFTER_UNDERSCORE.iter().any(|word| begins(at + 1, word)))
        || memchr::memchr2_iter(b'v', b'V', sql)
            .any(|at| begins(at + 1, "al") && BEFORE_VAL.iter().any(|word| ends(at, word)))
        // SELECT … INTO TEMP, in any form, and `temporary`.
        || memchr::memchr2_iter(b'p', b'P', sql).any(|at| ends(at, "tem") && (begins(at + 1, "orary") || !goes_on(at + 1)))
        // U&"…"
        || memchr::memchr_iter(b'&', sql).any(|at| begins(at + 1, "\"") && ends(at, "u"))
        || has_ignoring_case(sql, b"setseed")
}

/// The word with which a text begins; empty if it begins with something else, such as a comment.
pub(super) fn first_word(sql: &[u8]) -> &[u8] {
    let begin = sql.iter().position(|byte| !is_space(*byte)).unwrap_or(sql.len());
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'$' || *byte >= 0x80;
    let length = sql[begin..].iter().position(|byte| !is_part(byte)).unwrap_or(sql.len() - begin);
    &sql[begin..begin + length]
}

/// Whether a text may have several statements.
pub(super) fn is_several(sql: &[u8]) -> bool {
    let end = sql.iter().rposition(|byte| !is_space(*byte) && *byte != b';').map_or(0, |at| at + 1);
    memchr::memchr(b';', &sql[..end]).is_some()
}

/// Whether a text begins with something other than a word.
pub(super) fn begins_oddly(sql: &[u8]) -> bool {
    first_word(sql).is_empty()
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}
