//! Reads a text for the names that it may use and for unsafe commands and calls.

use std::collections::BTreeSet;

use plimsoll_notation::sql::{Lexer, Token, TokenKind};
use plimsoll_policy::Unsafe;

use super::names;
use crate::statement::effect::effect_of_function;
use crate::statement::{self, Strings, TextRules};

/// Commands that make a PL/pgSQL function unsafe: those that are unsafe anywhere, that run a text, or that change code. A
/// variable with such a name makes a function unsafe, too.
const UNSAFE_WORDS: &[(&str, Unsafe)] = &[
    ("alter", Unsafe::Function),
    ("analyse", Unsafe::OutsideEffect),
    ("analyze", Unsafe::OutsideEffect),
    ("call", Unsafe::OutsideEffect),
    ("checkpoint", Unsafe::OutsideEffect),
    ("cluster", Unsafe::OutsideEffect),
    ("commit", Unsafe::OutsideEffect),
    ("copy", Unsafe::Copy),
    ("create", Unsafe::Function),
    ("deallocate", Unsafe::PreparedStatement),
    ("discard", Unsafe::PreparedStatement),
    ("drop", Unsafe::Function),
    ("execute", Unsafe::Function),
    ("import", Unsafe::OutsideEffect),
    ("listen", Unsafe::Listen),
    ("load", Unsafe::OutsideEffect),
    ("pg_temp", Unsafe::TempTable),
    ("prepare", Unsafe::PreparedStatement),
    ("reindex", Unsafe::OutsideEffect),
    ("rollback", Unsafe::OutsideEffect),
    ("unlisten", Unsafe::Listen),
    ("vacuum", Unsafe::OutsideEffect),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// An expression or a query, or a statement that was judged elsewhere.
    Expression,
    Sql,
    Plpgsql,
}

/// Names and facts found in texts.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Names that were not known before.
    pub names: BTreeSet<Vec<u8>>,
    /// Event triggers may run.
    pub is_ddl: bool,
    /// The text may move or close a cursor that is older than the transaction.
    pub uses_cursors: bool,
}

/// Adds the names and facts of a text to `found`. `is_known` returns true for names that need not be added.
pub(super) fn read(
    text: &[u8],
    rules: TextRules,
    language: Language,
    is_known: impl Fn(&[u8]) -> bool,
    found: &mut Found,
) -> Result<(), Unsafe> {
    read_once(text, rules, language, &is_known, found)?;
    // The function may run while `standard_conforming_strings` has another value: both readings count.
    if language != Language::Expression && memchr::memchr(b'\\', text).is_some() {
        let strings = if rules.strings == Strings::Standard { Strings::Escaped } else { Strings::Standard };
        read_once(text, TextRules { strings, ..rules }, language, &is_known, found)?;
    }
    Ok(())
}

fn read_once(
    text: &[u8],
    rules: TextRules,
    language: Language,
    is_known: &impl Fn(&[u8]) -> bool,
    found: &mut Found,
) -> Result<(), Unsafe> {
    if language == Language::Sql {
        read_statements(text, rules, found)?;
    }
    let mut before: Option<Token<'_>> = None;
    let mut tokens = Lexer::new(text, rules).filter(|token| token.kind != TokenKind::Comment).peekable();
    while let Some(token) = tokens.next() {
        let is_after_dot = before.is_some_and(|before| before.is_mark(b'.'));
        match token.kind {
            TokenKind::Word | TokenKind::Quoted => names::add(&token, is_after_dot, rules, is_known, &mut found.names)?,
            TokenKind::Mark if token.is_mark(b'(') => {
                before.as_ref().and_then(effect_of_function).map_or(Ok(()), Err)?;
            }
            _ => {}
        }
        if language == Language::Plpgsql && token.kind == TokenKind::Word && !is_after_dot {
            read_word(&token, tokens.peek(), found)?;
        }
        before = Some(token);
    }
    Ok(())
}

/// Reads the body of an SQL function as statements.
fn read_statements(text: &[u8], rules: TextRules, found: &mut Found) -> Result<(), Unsafe> {
    let read = statement::read_with(text, rules);
    read.unreplayable.map_or(Ok(()), Err)?;
    if read.changes_code || read.ends.is_some() {
        return Err(Unsafe::Function);
    }
    if !read.executes.is_empty() {
        return Err(Unsafe::PreparedStatement);
    }
    found.uses_cursors |= !read.moves.is_empty();
    found.is_ddl |= read.is_ddl;
    Ok(())
}

/// Judges a word of PL/pgSQL, given the piece after it.
fn read_word(word: &Token<'_>, next: Option<&Token<'_>>, found: &mut Found) -> Result<(), Unsafe> {
    if let Some((_, because)) = UNSAFE_WORDS.iter().find(|(unsafe_word, _)| word.is_word(unsafe_word)) {
        return Err(*because);
    }
    // INSERT … ON CONFLICT DO NOTHING, DO UPDATE; but DO $$…$$.
    let is_action = next.is_some_and(|next| next.is_word("nothing") || next.is_word("update"));
    if word.is_word("do") && !is_action {
        return Err(Unsafe::OutsideEffect);
    }
    found.uses_cursors |= ["close", "fetch", "move"].iter().any(|known| word.is_word(known));
    found.is_ddl |= ["comment", "grant", "refresh", "revoke", "security"].iter().any(|known| word.is_word(known));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: Language, text: &str, expect: Result<bool, Unsafe>) {
        let mut found = Found::default();
        let read = read(text.as_bytes(), TextRules::default(), language, |_| false, &mut found);
        assert_eq!(read.map(|()| found.uses_cursors), expect, "{text}");
    }

    #[test]
    fn dynamic_sql_and_commands_are_found_in_functions() {
        use Language::{Expression, Plpgsql, Sql};
        check(Plpgsql, "begin new.updated_at := now(); return new; end", Ok(false));
        check(Plpgsql, "begin insert into t values (1) on conflict (a) do update set a = 2; end", Ok(false));
        check(Plpgsql, "begin insert into t values (1) on conflict do nothing; perform f(new.call); end", Ok(false));
        check(Plpgsql, "declare c cursor for select 1; begin open c; fetch c into x; close c; end", Ok(true));
        for text in [
            "begin execute 'select 1'; end",
            "begin return query execute format('select %s', x) using y; end",
            "begin for r in execute x loop end loop; end",
            "begin open c for execute x; end",
            "begin create table t (a int); end",
        ] {
            check(Plpgsql, text, Err(Unsafe::Function));
        }
        check(Plpgsql, "begin perform pg_advisory_lock(1); end", Err(Unsafe::SessionLock));
        check(Plpgsql, "begin do $$ begin end $$; end", Err(Unsafe::OutsideEffect));
        check(Plpgsql, "begin raise notice 'execute'; -- execute\n end", Ok(false));
        // Only one of the two readings has the call.
        check(Plpgsql, r"begin x := '\'; perform pg_advisory_lock(1); --'; end", Err(Unsafe::SessionLock));
        check(Plpgsql, r"begin x := '\''; perform pg_advisory_lock(1); --'; end", Err(Unsafe::SessionLock));
        check(Sql, "select 1; update t set a = 1", Ok(false));
        check(Sql, "fetch c", Ok(true));
        check(Sql, "create function f() returns int language sql as 'select 1'", Err(Unsafe::Function));
        check(Sql, "listen a", Err(Unsafe::Listen));
        check(Sql, "execute p", Err(Unsafe::PreparedStatement));
        check(Expression, "(pg_catalog.pg_try_advisory_lock((1)::bigint))", Err(Unsafe::SessionLock));
        check(Expression, "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()", Ok(false));
    }
}
