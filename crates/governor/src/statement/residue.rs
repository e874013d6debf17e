//! What a text may leave in the server's session when its transaction has ended.
//!
//! A pooler gives the server connection of one client to the next. A session may then have kept something of the first:
//! settings, which can be asked for and set again elsewhere, or something that only this connection has ([`Pin`]).
//! [`residue_of`] says what a text shows of that. Functions, triggers, views and operators leave more, which only the
//! server's catalogs show (see `effects::leftovers`).
//!
//! The answer is what *may* be left: a branch that is not taken, a statement that fails, and a name that only looks like that
//! of a function count as well. Most texts are plain queries; `quick` finds that without reading them.

mod call;
mod pin;
mod quick;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use plimsoll_notation::sql::{Lexer, Strings, TokenKind};

use super::TextRules;
pub(crate) use call::left_by_name;
pub use pin::Pin;
pub(crate) use reading::{Block, blocks_of};
use reading::{Form, Reading};

/// The most settings that are followed from connection to connection.
const SETTINGS_MAX: usize = 64;

/// What the session forgets by DISCARD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Discard {
    /// DISCARD SEQUENCES: the values of sequences that the session has taken.
    Sequences,
    /// DISCARD ALL: everything that a text can leave.
    All,
}

/// What may be left in the server's session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Residue {
    /// Settings, in lower case, that may have another value for the rest of the session.
    pub settings: BTreeSet<Box<[u8]>>,
    /// Every setting may have its default again: RESET ALL.
    pub all_settings: bool,
    /// What the session may have forgotten.
    pub discards: Option<Discard>,
    /// Prepared statements that it drops by SQL, as the server keeps their names.
    pub deallocates: BTreeSet<Box<[u8]>>,
    /// It drops all of them: DEALLOCATE ALL.
    pub deallocates_all: bool,
    /// It takes or sets a value of a sequence, which `currval` and `lastval` return later in the same session.
    pub sequences: bool,
    /// It calls `currval` or `lastval`, which fail or return another value in another session.
    pub reads_sequences: bool,
    /// Within its transaction or beyond, names may reach other schemas, or the role may be another one.
    pub moves_path: bool,
    /// It may change how texts are read: `standard_conforming_strings` or `client_encoding`.
    pub changes_rules: bool,
    /// It may change the code that other texts run.
    pub changes_code: bool,
    /// It may create a table, a view or a sequence. That is temporary, whatever the text says, if `search_path` begins with
    /// `pg_temp`: the server knows.
    pub creates: bool,
    /// Why no other client may use the connection until the session ends or discards all.
    pub pin: Option<Pin>,
}

impl Residue {
    /// Nothing is left.
    pub const NOTHING: Residue = Residue::pinned_by(None);

    /// Only this is known.
    pub(crate) const fn pinned_by(pin: Option<Pin>) -> Residue {
        Residue {
            settings: BTreeSet::new(),
            all_settings: false,
            discards: None,
            deallocates: BTreeSet::new(),
            deallocates_all: false,
            sequences: false,
            reads_sequences: false,
            moves_path: false,
            changes_rules: false,
            changes_code: false,
            creates: false,
            pin,
        }
    }

    /// Whether nothing is left, and nothing is to be noted.
    pub fn is_nothing(&self) -> bool {
        *self == Residue::NOTHING
    }

    /// What is left after both. The first pin is kept.
    pub fn add(&mut self, other: &Residue) {
        other.settings.iter().for_each(|name| self.sets(name));
        self.deallocates.extend(other.deallocates.iter().cloned());
        self.deallocates_all |= other.deallocates_all || self.deallocates.len() > SETTINGS_MAX;
        self.all_settings |= other.all_settings;
        self.discards = self.discards.max(other.discards);
        self.sequences |= other.sequences;
        self.reads_sequences |= other.reads_sequences;
        self.moves_path |= other.moves_path;
        self.changes_rules |= other.changes_rules;
        self.changes_code |= other.changes_code;
        self.creates |= other.creates;
        if let Some(pin) = &other.pin {
            self.pins(pin.clone());
        }
    }

    /// The connection is pinned, for the first of several reasons.
    pub(crate) fn pins(&mut self, pin: Pin) {
        self.pin.get_or_insert(pin);
    }

    /// Whether names may reach other schemas, or the role may be another one, beyond the transaction.
    pub fn moves_path_of_session(&self) -> bool {
        let is_named = || ["search_path", "role"].iter().any(|name| self.settings.contains(name.as_bytes()));
        self.all_settings || self.discards == Some(Discard::All) || is_named()
    }

    /// A setting may have another value.
    fn sets(&mut self, name: &[u8]) {
        if self.settings.contains(name) {
            return;
        }
        if self.settings.len() >= SETTINGS_MAX {
            return self.pins(Pin::ManySettings);
        }
        self.settings.insert(name.into());
    }
}

/// What a text of a client may leave, as far as it shows. All of its statements count.
///
/// ```
/// use plimsoll_governor::statement::TextRules;
/// use plimsoll_governor::statement::residue::{Pin, residue_of};
///
/// let left = |sql: &str| residue_of(sql.as_bytes(), TextRules::default());
/// assert!(left("update t set a = 1").is_nothing());
/// assert!(left("set statement_timeout = 5").settings.contains(&b"statement_timeout"[..]));
/// assert_eq!(left("LISTEN news").pin, Some(Pin::Listens));
/// ```
pub fn residue_of(sql: &[u8], rules: TextRules) -> Residue {
    let mut residue = Residue::NOTHING;
    if quick::may_leave(sql) {
        Reading::new(rules, Form::Statements, &mut residue).read(sql);
    }
    residue
}

/// What the body of a function in SQL or PL/pgSQL may leave when it runs.
pub(crate) fn residue_of_body(body: &[u8], rules: TextRules, is_plpgsql: bool) -> Residue {
    let form = if is_plpgsql { Form::Plpgsql } else { Form::Body };
    let mut residue = Residue::NOTHING;
    Reading::new(rules, form, &mut residue).read(body);
    // It may run while `standard_conforming_strings` has another value: both readings count.
    if memchr::memchr(b'\\', body).is_some() {
        let strings = if rules.strings == Strings::Standard { Strings::Escaped } else { Strings::Standard };
        Reading::new(TextRules { strings, ..rules }, form, &mut residue).read(body);
    }
    if residue.deallocates_all || !residue.deallocates.is_empty() || residue.discards.is_some() {
        // Nobody sees which names it has meant.
        residue.pins(Pin::Deallocates);
    }
    residue
}

/// Whether a text is one statement that shows all that it may leave: it runs no code of users. What it leaves itself is what
/// [`residue_of`] says.
pub(crate) fn runs_no_code(sql: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "abort",
        "begin",
        "close",
        "commit",
        "deallocate",
        "discard",
        "end",
        "fetch",
        "listen",
        "load",
        "move",
        "notify",
        "release",
        "reset",
        "rollback",
        "savepoint",
        "set",
        "show",
        "start",
        "unlisten",
    ];
    let word = quick::first_word(sql);
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes())) && !quick::is_several(sql)
}

/// Whether what a text runs may depend on its values: it has a body.
pub(crate) fn has_body(sql: &[u8], rules: TextRules) -> bool {
    let is_do = |word: &[u8]| word.eq_ignore_ascii_case(b"do");
    if !quick::is_several(sql) && !quick::begins_oddly(sql) {
        return is_do(quick::first_word(sql));
    }
    let mut begins = true;
    Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment).any(|token| {
        let is_first = std::mem::replace(&mut begins, token.is_mark(b';'));
        is_first && token.is_word("do")
    })
}
