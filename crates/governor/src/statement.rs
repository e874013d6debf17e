//! What the text of a query says, as far as a governor needs to know.
//!
//! Nothing here understands SQL. A text is cut into pieces as PostgreSQL does it ([`Lexer`](plimsoll_notation::sql::Lexer)), and the first few of each
//! statement say which command it is. That is enough, because whatever is read wrongly in a text that PostgreSQL cannot read
//! either does no harm: it carries none of it out. What a function does, or a rule or trigger, cannot be seen from a text; only
//! functions of PostgreSQL itself and its extensions are known by name.
//!
//! [`fingerprint`] is a number for all texts that differ only in their values, [`normalised`] what people see of it.

mod comment;
pub(crate) mod effect;
pub(crate) mod name;
mod normal;
mod reading;

use std::borrow::Cow;

pub use plimsoll_notation::sql::{Encoding, Strings, TextRules};
use plimsoll_policy::Unsafe;
use smallvec::SmallVec;

pub use normal::{fingerprint, normalised};

/// Folded names, in order, with repetitions. Few texts have more than one.
pub type Names<'a> = SmallVec<[Cow<'a, [u8]>; 1]>;

/// How a text ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// ROLLBACK or ABORT, but not to a savepoint.
    Rollback,
    /// PREPARE TRANSACTION: it outlives its session.
    Prepare,
    /// COMMIT or END, and COMMIT PREPARED.
    Commit,
}

/// For how long a class is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// SET, SET SESSION and RESET.
    Session,
    /// SET LOCAL: for the transaction.
    Transaction,
}

/// A class is chosen by `SET plimsoll.class`, or no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetClass<'a> {
    /// For how long.
    pub scope: Scope,
    /// Its name; `None` for that which the session began with (RESET, SET … TO DEFAULT, DISCARD ALL).
    pub class: Option<Cow<'a, str>>,
}

/// What a text says. Of several statements each counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statement<'a> {
    /// It begins a transaction: BEGIN, START TRANSACTION, or COMMIT or ROLLBACK with AND CHAIN.
    pub begins: bool,
    /// It is BEGIN or START TRANSACTION and nothing else.
    pub is_bare_begin: bool,
    /// How it ends one; of several ways that of which most is left: commit, prepare, rollback.
    pub ends: Option<End>,
    /// It ends one, and begins the next with the same options: AND CHAIN.
    pub chains: bool,
    /// It makes, releases or goes back to a savepoint.
    pub savepoint: bool,
    /// It has more than one statement.
    pub several: bool,
    /// The class that it chooses, the last if there are several.
    pub set_class: Option<SetClass<'a>>,
    /// Why it must not be run twice in one transaction, the first reason if there are several.
    pub unreplayable: Option<Unsafe>,
    /// It takes or releases an advisory lock, whatever else it does.
    pub takes_advisory_lock: bool,
    /// It copies.
    pub copy: bool,
    /// Cursors that it declares.
    pub declares: Names<'a>,
    /// Cursors that it moves, fetches from or closes. CLOSE ALL is unsafe instead.
    pub moves: Names<'a>,
    /// Prepared statements that it runs by EXECUTE.
    pub executes: Names<'a>,
    /// It may change which code other statements run: it creates, alters or drops functions, triggers, views, types and the
    /// like, but not merely tables, indexes, sequences or roles.
    pub changes_code: bool,
    /// Event triggers may run for it.
    pub is_ddl: bool,
    /// It may change [`TextRules`], and so how later texts are read.
    pub changes_rules: bool,
    /// The `class` of a comment as sqlcommenter writes them, `/*class='high'*/`, before everything else or after it; of
    /// several the first.
    pub tag: Option<Cow<'a, str>>,
}

impl Statement<'_> {
    /// It, without the text.
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
            changes_rules: self.changes_rules,
            tag: self.tag.map(own),
        }
    }
}

/// Reads a text, without its closing zero, where `standard_conforming_strings` is on and the text is UTF-8, as nearly always.
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

#[cfg(test)]
mod tests;
