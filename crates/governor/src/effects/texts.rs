//! How an inquiry reads texts: those of the transaction, those of prepared statements, and the bodies that it follows.

use plimsoll_notation::sql::{Lexer, TokenKind};
use plimsoll_policy::Unsafe;

use super::Inquiry;
use super::body::{self, Language};
use crate::statement::strong_lock::{StrongLock, strong_lock};
use crate::statement::{self, Statement, Strings, TextRules};

impl Inquiry {
    /// Reads a text that the client sent in the transaction.
    pub(super) fn read_text(&mut self, sql: &[u8]) {
        self.count_bytes(sql.len());
        let read = statement::read_with(sql, self.rules);
        // After a change of the rules, how to read later texts is unknown.
        let is_unknown = read.changes_code || read.changes_rules;
        if let Some(because) = read.unreplayable.or(is_unknown.then_some(Unsafe::Function)) {
            self.is_unsafe(because);
        }
        self.take(&read);
        if let Err(because) = self.read_body(sql, Language::Expression) {
            self.is_unsafe(because);
        }
    }

    /// Reads a text that the client sent and that has failed as a whole: what it would change has not been changed. It may run
    /// again if its code may.
    pub(super) fn read_unfinished(&mut self, sql: &[u8]) {
        self.count_bytes(sql.len());
        let read = statement::read_with(sql, self.rules);
        let rewrites = strong_lock(sql, self.rules) == Some(StrongLock::Rewrite);
        let unreplayable = read.unreplayable.filter(|because| !(rewrites && *because == Unsafe::OutsideEffect));
        if let Some(because) = unreplayable.or(read.changes_rules.then_some(Unsafe::Function)) {
            self.is_unsafe(because);
        }
        self.take(&read);
        if let Err(because) = self.read_body(sql, Language::Expression) {
            self.is_unsafe(because);
        }
    }

    /// Reads the text with which a statement was prepared, by Parse or by PREPARE.
    pub(super) fn read_prepared(&mut self, sql: &[u8]) {
        self.count_bytes(sql.len());
        // `standard_conforming_strings` may have changed since: both readings count.
        for strings in [Strings::Standard, Strings::Escaped] {
            let rules = TextRules { strings, ..self.rules };
            let read = statement::read_with(sql, rules);
            let mut pieces = Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment);
            // The text includes PREPARE itself, which does not run again.
            let is_done = pieces.next().is_some_and(|first| first.is_word("prepare"));
            let because = read.unreplayable.filter(|because| !(is_done && *because == Unsafe::PreparedStatement));
            // A replay begins its transaction as the client did, possibly by a BEGIN that a driver keeps prepared.
            let is_control = read.ends.is_some() || read.savepoint;
            let is_unknown = is_control || read.changes_code || read.changes_rules;
            if let Some(because) = because.or(is_unknown.then_some(Unsafe::PreparedStatement)) {
                self.is_unsafe(because);
            }
            self.take(&read);
            let mut found = std::mem::take(&mut self.found);
            let is_known = |name: &[u8]| self.names.contains(name);
            let body = body::read(sql, rules, (Language::Expression, self.purpose), is_known, &mut found);
            self.found = found;
            if let Err(because) = body {
                self.is_unsafe(because);
            }
            if memchr::memchr(b'\\', sql).is_none() {
                break;
            }
        }
    }

    fn take(&mut self, read: &Statement<'_>) {
        self.found.is_ddl |= read.is_ddl;
        self.found.is_several |= read.several;
        self.found.uses_cursors |= !read.moves.is_empty();
        for name in &read.executes {
            let is_asked = self.executed_known.contains(&**name) || self.executed_asked.contains(&**name);
            if !is_asked {
                self.executed.insert(name.to_vec());
            }
        }
    }

    pub(super) fn read_body(&mut self, text: &[u8], language: Language) -> Result<(), Unsafe> {
        let mut found = std::mem::take(&mut self.found);
        let language = (language, self.purpose);
        let read = body::read(text, self.rules, language, |name| self.names.contains(name), &mut found);
        self.found = found;
        self.count_bytes(0);
        read
    }
}
