//! Texts that need a lock which stops readers or writers of a table: ALTER TABLE, DROP, TRUNCATE, LOCK TABLE and others.
//!
//! A process that wants the table afterwards queues behind such a lock, even while the statement itself still waits for it. The list errs
//! towards statements that need less: to take one of them for such a statement costs two short requests.

use plimsoll_notation::sql::{Lexer, Token, TokenKind};

use super::TextRules;

/// How a text that needs such a lock can be run again after it has waited in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StrongLock {
    /// Like any other text of its transaction.
    Change,
    /// VACUUM FULL, CLUSTER, REINDEX of one table or index: it only rewrites what is there, so a second run does no harm.
    Rewrite,
}

/// What a statement of a text is to the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Strong(StrongLock),
    /// It may stand beside one that needs such a lock: it neither ends a transaction nor reads a setting.
    Beside,
}

/// First words of statements that may stand beside others.
const BESIDE: &[&str] = &["comment", "delete", "grant", "insert", "revoke", "update"];

/// First words of statements that may need such a lock.
const STRONG: &[&str] = &["alter", "cluster", "create", "drop", "lock", "refresh", "reindex", "truncate", "vacuum"];

/// Objects whose ALTER and DROP lock a table.
const LOCKED: &[&str] =
    &["foreign", "index", "materialized", "owned", "policy", "rule", "schema", "sequence", "table", "trigger", "view"];

/// Objects whose CREATE locks no table that is in use, unless the new table refers to one.
const NEW: &[&str] = &["schema", "sequence", "table", "unlogged"];

/// Words of CREATE TABLE that refer to another table.
const REFERRING: &[&str] = &["references", "inherits", "partition"];

/// Modes of LOCK TABLE that stop neither readers nor writers, by their first two words.
const WEAK_MODES: [[&str; 2]; 3] = [["access", "share"], ["row", "share"], ["row", "exclusive"]];

/// How a text needs such a lock; `None` if it does not, or if it does something else besides that is not to be run with a
/// bounded wait.
pub(crate) fn strong_lock(sql: &[u8], rules: TextRules) -> Option<StrongLock> {
    let mut tokens = Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment).peekable();
    let first = tokens.peek()?;
    let is_one = |words: &[&str]| words.iter().any(|word| first.is_word(word));
    // Most texts are one statement that reads or writes rows.
    let may_have_several = is_one(BESIDE) && memchr::memchr(b';', sql).is_some();
    if !is_one(STRONG) && !may_have_several {
        return None;
    }
    let tokens: Vec<Token<'_>> = tokens.collect();
    let (mut found, mut count) = (None, 0);
    for statement in tokens.split(|token| token.is_mark(b';')).filter(|statement| !statement.is_empty()) {
        count += 1;
        if let Kind::Strong(strong) = Statement(statement).kind()? {
            found = Some(strong);
        }
    }
    found.filter(|found| count == 1 || *found == StrongLock::Change)
}

/// The tokens of a statement.
#[derive(Clone, Copy)]
struct Statement<'t, 's>(&'t [Token<'s>]);

impl Statement<'_, '_> {
    fn is(self, at: usize, words: &[&str]) -> bool {
        self.0.get(at).is_some_and(|token| words.iter().any(|word| token.is_word(word)))
    }

    fn has(self, words: &[&str]) -> bool {
        (0..self.0.len()).any(|at| self.is(at, words))
    }

    /// The rest without these words at its beginning.
    fn after(self, words: &[&str]) -> Self {
        let count = (0..self.0.len()).take_while(|at| self.is(*at, words)).count();
        Statement(&self.0[count..])
    }

    fn kind(self) -> Option<Kind> {
        if self.is(0, BESIDE) {
            return Some(Kind::Beside);
        }
        if self.has(&["concurrently", "nowait"]) {
            return None;
        }
        let (change, rewrite) = (Some(Kind::Strong(StrongLock::Change)), Some(Kind::Strong(StrongLock::Rewrite)));
        let verb = |word: &str| self.is(0, &[word]);
        if verb("truncate") || verb("refresh") {
            change
        } else if verb("alter") || verb("drop") {
            change.filter(|_| self.is(1, LOCKED))
        } else if verb("lock") {
            change.filter(|_| !self.is_weak_mode())
        } else if verb("create") {
            self.kind_of_create()
        } else {
            rewrite.filter(|_| self.rewrites_one())
        }
    }

    /// `… IN ROW EXCLUSIVE MODE`.
    fn is_weak_mode(self) -> bool {
        let mut modes = (0..self.0.len()).rev().filter(|at| self.is(*at, &["in"]));
        modes.next().is_some_and(|at| {
            let is_mode = |mode: &[&str; 2]| self.is(at + 1, &mode[..1]) && self.is(at + 2, &mode[1..]);
            // SHARE ROW EXCLUSIVE and SHARE UPDATE EXCLUSIVE begin with another word.
            WEAK_MODES.iter().any(is_mode)
        })
    }

    fn kind_of_create(self) -> Option<Kind> {
        let rest = Statement(&self.0[1..]).after(&["or", "replace", "unique", "constraint", "recursive"]);
        if rest.is(0, &["index", "policy", "rule", "trigger", "view"]) {
            return Some(Kind::Strong(StrongLock::Change));
        }
        let refers = rest.is(0, &["table", "unlogged"]) && rest.has(REFERRING);
        let new = if refers { Kind::Strong(StrongLock::Change) } else { Kind::Beside };
        Some(new).filter(|_| rest.is(0, NEW))
    }

    /// Whether it is VACUUM FULL, CLUSTER or REINDEX of one table or index. One of all tables would begin with the first again.
    fn rewrites_one(self) -> bool {
        let mut rest = Statement(&self.0[1..]);
        let mut is_full = false;
        if rest.0.first().is_some_and(|token| token.is_mark(b'(')) {
            let end = rest.0.iter().position(|token| token.is_mark(b')')).unwrap_or(rest.0.len() - 1);
            is_full = Statement(&rest.0[..end]).has(&["full"]);
            rest = Statement(&rest.0[end + 1..]);
        }
        is_full |= rest.is(0, &["full"]);
        rest = rest.after(&["full", "freeze", "verbose", "analyze"]);
        let is_one = !rest.0.is_empty() && !rest.0.iter().any(|token| token.is_mark(b','));
        let is_kind = match self.is(0, &["reindex"]) {
            true => rest.is(0, &["table", "index"]),
            false => is_full || self.is(0, &["cluster"]),
        };
        is_one && is_kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(texts: &[&str], expect: Option<StrongLock>) {
        for sql in texts {
            assert_eq!(strong_lock(sql.as_bytes(), TextRules::default()), expect, "{sql}");
        }
    }

    #[test]
    fn what_stops_readers_or_writers_is_known() {
        check(
            &[
                "ALTER TABLE orders ADD COLUMN note text DEFAULT ''",
                "-- the first\nalter /* and */ index i rename to j;",
                "drop table if exists a, b cascade",
                "drop materialized view m",
                "TRUNCATE orders",
                "lock table orders",
                "lock orders in access exclusive mode",
                "lock table orders in share mode",
                "lock table orders in share row exclusive mode",
                "create unique index on orders (customer)",
                "create or replace view v as select 1",
                "create constraint trigger t after insert on a for each row execute function f()",
                "create table line (of_order int references orders)",
                "create table o_2026 partition of orders for values in (2026)",
                "refresh materialized view m",
                "alter table a add column b int; create index on a (b); insert into versions values ('7')",
                "create table new (id int); comment on table new is 'x'; drop table old",
                "insert into versions values (8); drop view v",
            ],
            Some(StrongLock::Change),
        );
        check(
            &[
                "vacuum full orders",
                "VACUUM (verbose, full) orders",
                "vacuum full verbose public.orders",
                "cluster orders using orders_pkey",
                "cluster verbose orders",
                "reindex table orders",
                "reindex (verbose) index i",
            ],
            Some(StrongLock::Rewrite),
        );
    }

    #[test]
    fn other_texts_are_left_alone() {
        check(
            &[
                "",
                "select 1",
                "insert into a values (';')",
                "update a set b = 1; delete from c",
                // Nobody queues behind these.
                "create index concurrently on orders (customer)",
                "drop index concurrently i",
                "refresh materialized view concurrently m",
                "alter table a detach partition b concurrently",
                "lock table a nowait",
                "lock table a in access share mode",
                "lock table a in row exclusive mode",
                "create table new (id int)",
                "create temp table t (a int references b)",
                "vacuum orders",
                "vacuum (analyze) orders",
                "alter role a set lock_timeout = 5",
                "drop database shop",
                // They would begin with the first table again.
                "vacuum full",
                "vacuum full a, b",
                "cluster",
                "reindex database shop",
                "reindex schema public",
                // What is beside it would run with the bound, or see it.
                "set lock_timeout = 5; alter table a add b int",
                "begin; alter table a add b int; commit",
                "alter table a add b int; select f()",
                "alter table a add b int; show lock_timeout",
                "alter table a add b int; vacuum full a",
                "do $$ begin alter table a add b int; end $$",
            ],
            None,
        );
    }
}
