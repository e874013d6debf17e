//! The facts about a query's text that a governor needs.
//!
//! This is not an SQL parser. A text is split into tokens as PostgreSQL does it
//! ([`Lexer`]), and the first few tokens of each statement identify its command. That is
//! enough, because misreading a text that PostgreSQL rejects is harmless: none of it is carried out. The effects of a
//! function, rule or trigger are not visible in a text; only functions of PostgreSQL itself and its extensions are
//! known by name.

mod comment;
pub(crate) mod effect;
pub(crate) mod name;
pub(crate) mod patience;
mod reading;
pub mod residue;
pub(crate) mod strong_lock;

use std::borrow::Cow;

pub use plimsoll_notation::sql::{Encoding, Strings, TextRules};
use plimsoll_notation::sql::{Lexer, TokenKind};
use plimsoll_policy::Unsafe;
use smallvec::SmallVec;

/// Folded names, in order, with repetitions. Few texts have more than one.
pub type Names<'a> = SmallVec<[Cow<'a, [u8]>; 1]>;

/// How a text ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// ROLLBACK or ABORT, but not to a savepoint.
    Rollback,
    /// PREPARE TRANSACTION: the transaction outlives its session.
    Prepare,
    /// COMMIT or END, and COMMIT PREPARED.
    Commit,
}

/// How long a chosen class lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// SET, SET SESSION and RESET.
    Session,
    /// SET LOCAL: for the transaction.
    Transaction,
}

/// A class is chosen by `SET plimsoll.class`, or the choice is undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetClass<'a> {
    /// How long the choice lasts.
    pub scope: Scope,
    /// Its name; `None` restores the class that the session began with (RESET, SET … TO DEFAULT, DISCARD ALL).
    pub class: Option<Cow<'a, str>>,
}

/// The facts about a text. If it has several statements, each of them counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statement<'a> {
    /// It begins a transaction: BEGIN, START TRANSACTION, or COMMIT or ROLLBACK with AND CHAIN.
    pub begins: bool,
    /// It is only BEGIN or START TRANSACTION.
    pub is_bare_begin: bool,
    /// How it ends a transaction; of several ways the one that preserves most: commit, prepare, rollback.
    pub ends: Option<End>,
    /// It ends a transaction, and begins the next with the same options: AND CHAIN.
    pub chains: bool,
    /// It creates, releases or rolls back to a savepoint.
    pub savepoint: bool,
    /// It has more than one statement.
    pub several: bool,
    /// The class that it chooses, the last if there are several.
    pub set_class: Option<SetClass<'a>>,
    /// Why it must not be run twice in one transaction, the first reason if there are several.
    pub unreplayable: Option<Unsafe>,
    /// It takes or releases an advisory lock, in any of its statements.
    pub takes_advisory_lock: bool,
    /// It contains COPY.
    pub copy: bool,
    /// Cursors that it declares.
    pub declares: Names<'a>,
    /// Cursors that it moves, fetches from or closes. CLOSE ALL is unsafe instead.
    pub moves: Names<'a>,
    /// Prepared statements that it runs by EXECUTE.
    pub executes: Names<'a>,
    /// It may change the code that other statements run: it creates, alters or drops functions, triggers, views, types
    /// and similar objects, but not merely tables, indexes, sequences or roles.
    pub changes_code: bool,
    /// It may fire event triggers.
    pub is_ddl: bool,
    /// It may change how long the server waits for its client.
    pub changes_patience: bool,
    /// It may change [`TextRules`], and so how later texts are read.
    pub changes_rules: bool,
    /// The `class` of a comment in sqlcommenter's form, `/*class='high'*/`, at the beginning or end of the text; the
    /// first of several.
    pub tag: Option<Cow<'a, str>>,
}

impl Statement<'_> {
    /// A copy that does not borrow the text.
    pub fn into_owned(self) -> Statement<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let own_all = |names: Names<'_>| names.into_iter().map(|name| Cow::Owned(name.into_owned())).collect();
        Statement {
            begins: self.begins,
            is_bare_begin: self.is_bare_begin,
            ends: self.ends,
            chains: self.chains,
            savepoint: self.savepoint,
            several: self.several,
            set_class: self.set_class.map(|it| SetClass { scope: it.scope, class: it.class.map(own) }),
            unreplayable: self.unreplayable,
            takes_advisory_lock: self.takes_advisory_lock,
            copy: self.copy,
            declares: own_all(self.declares),
            moves: own_all(self.moves),
            executes: own_all(self.executes),
            changes_code: self.changes_code,
            is_ddl: self.is_ddl,
            changes_patience: self.changes_patience,
            changes_rules: self.changes_rules,
            tag: self.tag.map(own),
        }
    }
}

/// Reads a text, without its closing zero, with `standard_conforming_strings` on and in UTF-8, the nearly universal
/// case.
///
/// ```
/// use plimsoll_governor::statement::{End, read};
///
/// let statement = read(b"begin /*class='high'*/");
/// assert!(statement.begins);
/// assert_eq!(statement.tag.as_deref(), Some("high"));
/// assert_eq!(read(b"select 'commit' /* commit */").ends, None);
/// assert_eq!(read(b"select 1; END").ends, Some(End::Commit));
/// ```
pub fn read(sql: &[u8]) -> Statement<'_> {
    read_with(sql, TextRules::default())
}

/// Reads a text, without its closing zero.
pub fn read_with(sql: &[u8], rules: impl Into<TextRules>) -> Statement<'_> {
    reading::Reading::of(sql, rules.into())
}

/// Whether the first statement of a text, of which the rest may be missing, is a query: it changes no transaction, setting
/// or code.
pub fn is_query(sql: &[u8], rules: impl Into<TextRules>) -> bool {
    const QUERIES: [&str; 7] = ["select", "insert", "update", "delete", "merge", "values", "with"];
    let first = Lexer::new(sql, rules.into()).find(|token| token.kind != TokenKind::Comment);
    first.is_some_and(|first| QUERIES.iter().any(|word| first.is_word(word)))
}

/// The prepared statement that a text closes, as the server keeps its name, if it is a single DEALLOCATE of one.
pub(crate) fn single_deallocate(sql: &[u8], rules: TextRules) -> Option<Box<[u8]>> {
    let first = sql.trim_ascii_start();
    if !first.get(..10).is_some_and(|word| word.eq_ignore_ascii_case(b"deallocate")) {
        return None;
    }
    let sql = sql.split(|byte| *byte == 0).next()?;
    let mut tokens = Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment).skip(1).peekable();
    let mut name = tokens.next()?;
    // A statement may be called `prepare`.
    if name.is_word("prepare") && tokens.peek().is_some_and(|next| !next.is_mark(b';')) {
        name = tokens.next()?;
    }
    let is_last = tokens.all(|token| token.is_mark(b';'));
    let is_all = name.is_word("all");
    let folded = name::folded(&name).filter(|_| is_last && !is_all)?;
    name::stored(&folded).map(Into::into)
}

/// Whether a text discards all prepared statements and does nothing before that: `DEALLOCATE ALL`, or `DISCARD ALL`.
pub(crate) fn discards_statements(sql: &[u8], rules: TextRules) -> bool {
    let first = sql.trim_ascii_start();
    let begins = |word: &[u8]| first.get(..word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word));
    if !begins(b"deallocate") && !begins(b"discard") {
        return false;
    }
    let sql = sql.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut tokens = Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment).skip(1);
    let mut what = tokens.next();
    if begins(b"deallocate") && what.as_ref().is_some_and(|what| what.is_word("prepare")) {
        what = tokens.next();
    }
    what.is_some_and(|what| what.is_word("all")) && tokens.all(|token| token.is_mark(b';'))
}

/// Whether a text contains a word, given in lower case, in any case.
pub(crate) fn has_ignoring_case(sql: &[u8], word: &[u8]) -> bool {
    places(sql, word).next().is_some()
}

/// The text after each occurrence of the word.
pub(crate) fn places<'s>(sql: &'s [u8], word: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
    let first = word[0];
    let begins = memchr::memchr2_iter(first, first.to_ascii_uppercase(), sql);
    let is_word = move |at: &usize| sql.get(*at..at + word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word));
    begins.filter(is_word).map(move |at| &sql[at + word.len()..])
}

#[cfg(test)]
mod tests;
