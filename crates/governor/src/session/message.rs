//! A client's message, read once: its text, what that may be about, and what running it means.

use std::cell::OnceCell;

use super::Session;
use super::frames::{Frontend, HEAD_BYTES, Head, INSPECT_MAX, sql_of, text};
use super::prepared::Note;

/// A client's message, as far as it has arrived.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub ask: Frontend,
    /// Its body or the beginning of it, if messages of this kind are read.
    pub body: Option<&'a [u8]>,
    /// Whether the body is complete.
    pub is_whole: bool,
    /// Its length, with the head.
    pub bytes: usize,
    /// The text of the statement that it runs or prepares, as far as it was read.
    pub sql: Option<&'a [u8]>,
    /// What the text may be about.
    pub mentions: Mentions,
    note: OnceCell<Note>,
}

impl<'a> Message<'a> {
    /// The message with that head at the start of `bytes`; `None` while too little of it has arrived.
    pub(super) fn read(ask: Frontend, head: Head, bytes: &'a [u8]) -> Option<Self> {
        let there = head.bytes.min(INSPECT_MAX);
        if ask.is_read() && bytes.len() < there {
            return None;
        }
        let body = ask.is_read().then(|| &bytes[HEAD_BYTES..there]);
        let sql = body.and_then(|body| sql_of_message(ask, body));
        let mentions = sql.map(Mentions::of).unwrap_or_default();
        let is_whole = there == head.bytes;
        Some(Message { ask, body, is_whole, bytes: head.bytes, sql, mentions, note: OnceCell::new() })
    }

    /// The known facts about the statement that it runs or prepares, for a session that stays as it is until the message
    /// has been handled.
    pub(super) fn note(&self, session: &Session) -> &Note {
        self.note.get_or_init(|| session.note_of_message(self.ask, self.body))
    }
}

/// What a text may be about. Most texts are about none of this, and few words show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mentions {
    /// It may choose a class: it names the setting, or sets or resets settings.
    pub class: bool,
    /// It may have a tag, that is, a comment.
    pub tag: bool,
    /// It may begin or end a transaction with its first word.
    pub bounds: bool,
    /// It may set a timeout.
    pub timeout: bool,
    /// It may export a snapshot.
    pub snapshot: bool,
    /// It may need a lock that stops readers or writers.
    pub strong_lock: bool,
}

impl Mentions {
    fn of(sql: &[u8]) -> Self {
        let first = sql.iter().position(u8::is_ascii_alphabetic).map_or(&b""[..], |at| &sql[at..]);
        let finds = |word: &[u8]| memchr::memmem::find(sql, word).is_some();
        // `lock_timeout`, `set_config`.
        let sets_timeout = |at: usize| begins(&sql[at + 1..], &[b"timeout", b"config"]);
        Mentions {
            class: begins(first, &[b"set", b"reset", b"discard"]) || finds(b"plimsoll"),
            tag: finds(b"/*"),
            bounds: begins(first, &[b"begin", b"start", b"commit", b"rollback"]),
            timeout: memchr::memchr_iter(b'_', sql).any(sets_timeout),
            snapshot: finds(b"pg_export_snapshot"),
            // A text that begins with a comment, or has several statements, is read.
            strong_lock: begins(first, STRONG) || sql.trim_ascii_start().starts_with(b"--") || has_several(sql),
        }
    }
}

/// First words of statements that may need a strong lock.
const STRONG: &[&[u8]] =
    &[b"alter", b"cluster", b"create", b"drop", b"lock", b"refresh", b"reindex", b"truncate", b"vacuum"];

/// Whether a text may have several statements.
fn has_several(sql: &[u8]) -> bool {
    memchr::memchr(b';', sql.trim_ascii_end().strip_suffix(b";").unwrap_or(sql)).is_some()
}

/// Whether a text begins with one of the words, which are in lower case.
pub(super) fn begins(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| text.get(..word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word)))
}

/// The text of the statement that a message runs or prepares; `None` for other messages, and those that cannot be read.
pub(super) fn sql_of_message(ask: Frontend, body: &[u8]) -> Option<&[u8]> {
    match ask {
        Frontend::Query => Some(sql_of(body)),
        Frontend::Parse => text(body).map(|(_, rest)| sql_of(rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_words_show_what_a_text_may_be_about() {
        let none = Mentions::default();
        let setting = Mentions { class: true, ..none };
        for (sql, expect) in [
            ("select some_column from t", none),
            ("  Start transaction", Mentions { bounds: true, ..none }),
            ("/* class='low' */ select 1", Mentions { tag: true, ..none }),
            ("select 'plimsoll.class'", setting),
            ("RESET ALL", setting),
            ("set Lock_Timeout = 1", Mentions { timeout: true, ..setting }),
            ("select set_config($1, $2, true)", Mentions { timeout: true, ..none }),
            ("select pg_export_snapshot()", Mentions { snapshot: true, ..none }),
            ("  ALTER table t add c int", Mentions { strong_lock: true, ..none }),
            ("--\nalter table t add c int", Mentions { strong_lock: true, ..none }),
            ("insert into t values (1); drop table t", Mentions { strong_lock: true, ..none }),
            ("select 1;", none),
        ] {
            assert_eq!(Mentions::of(sql.as_bytes()), expect, "{sql}");
        }
    }
}
