//! Reads a text for the names and operators that it may use, for unsafe commands and calls, and for values that differ in
//! another run.

use std::borrow::Cow;
use std::collections::BTreeSet;

use plimsoll_notation::sql::is_moment;
use plimsoll_notation::sql::{Lexer, Token, TokenKind};
use plimsoll_policy::Unsafe;

use super::{Purpose, known, names};
use crate::statement::effect::effect_of_function;
use crate::statement::name::folded;
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
    /// Names that are followed by a parenthesis, and may be those of the server's functions.
    pub calls: BTreeSet<Vec<u8>>,
    pub operators: BTreeSet<Vec<u8>>,
    /// Names may reach any schema: the text may change `search_path` or the role.
    pub any_schema: bool,
    /// It may write to tables, and so run their triggers.
    pub writes: bool,
    /// It may make rows with default values.
    pub inserts: bool,
    /// It has a value that differs in another run, such as the time.
    pub generates: bool,
    /// Even a single row may depend on the order of rows in tables.
    pub arranges: bool,
    /// It has an UPDATE.
    pub updates: bool,
    /// It adds up.
    pub has_sums: bool,
    /// It names floating-point numbers.
    pub has_floats: bool,
    /// It has more than one statement.
    pub is_several: bool,
    /// Event triggers may run.
    pub is_ddl: bool,
    /// The text may move or close a cursor that is older than the transaction.
    pub uses_cursors: bool,
    /// It may catch errors of the server, or set timeouts.
    pub catches: bool,
}

/// Adds the names and facts of a text to `found`. `is_known` returns true for names that need not be added.
pub(super) fn read(
    text: &[u8],
    rules: TextRules,
    (language, purpose): (Language, Purpose),
    is_known: impl Fn(&[u8]) -> bool,
    found: &mut Found,
) -> Result<(), Unsafe> {
    read_once(text, rules, (language, purpose), &is_known, found)?;
    // The function may run while `standard_conforming_strings` has another value: both readings count.
    if language != Language::Expression && memchr::memchr(b'\\', text).is_some() {
        let strings = if rules.strings == Strings::Standard { Strings::Escaped } else { Strings::Standard };
        read_once(text, TextRules { strings, ..rules }, (language, purpose), &is_known, found)?;
    }
    Ok(())
}

fn read_once(
    text: &[u8],
    rules: TextRules,
    (language, purpose): (Language, Purpose),
    is_known: &impl Fn(&[u8]) -> bool,
    found: &mut Found,
) -> Result<(), Unsafe> {
    let judges = purpose == Purpose::Replay;
    if language == Language::Sql {
        read_statements(text, rules, found).or_else(|because| if judges { Err(because) } else { Ok(()) })?;
    }
    let mut before: Option<Token<'_>> = None;
    let mut tokens = Lexer::new(text, rules).filter(|token| token.kind != TokenKind::Comment).peekable();
    while let Some(token) = tokens.next() {
        let is_after_dot = before.is_some_and(|before| before.is_mark(b'.'));
        match token.kind {
            TokenKind::Word | TokenKind::Quoted => names::add(&token, is_after_dot, rules, is_known, &mut found.names)?,
            TokenKind::Mark if token.is_mark(b'(') => {
                before.as_ref().filter(|_| judges).and_then(effect_of_function).map_or(Ok(()), Err)?;
                let name = before.as_ref().filter(|before| matches!(before.kind, TokenKind::Word | TokenKind::Quoted));
                if let Some(name) = name.and_then(folded).map(Cow::into_owned) {
                    found.arranges |= known::arranges_by_name(&name) || name == b"array";
                    found.has_sums |= known::adds_up(&name);
                    found.calls.insert(name);
                }
            }
            TokenKind::Operator if !token.text.starts_with(b":") => read_operator(token.text, found),
            TokenKind::Literal => found.generates |= is_moment(token.text),
            _ => {}
        }
        read_facts(&token, before.as_ref(), found);
        found.any_schema |= judges && may_move_path(&token, before.as_ref());
        if language == Language::Plpgsql && token.kind == TokenKind::Word && !is_after_dot {
            read_word(&token, tokens.peek(), found).or_else(|because| if judges { Err(because) } else { Ok(()) })?;
            // Where it may run twice, code that changes code is unsafe.
            found.is_ddl |= ["alter", "create", "drop"].iter().any(|known| token.is_word(known));
        }
        before = Some(token);
    }
    Ok(())
}

/// Commands after which a table may have changed. A column of such a name counts, too.
const WRITES: &[&str] = &["alter", "copy", "create", "delete", "import", "insert", "merge", "refresh", "truncate"];

/// Words of commands that compute default values.
const INSERTS: &[&str] = &["alter", "copy", "default", "import", "insert", "merge"];

/// Words that have a value of their own, system columns, and words of statements whose answers depend on the server's load or
/// on the places of rows: EXPLAIN, TABLESAMPLE, NOWAIT, SKIP LOCKED.
const GENERATED: &[&str] = &[
    "cmax",
    "cmin",
    "ctid",
    "current_date",
    "current_time",
    "current_timestamp",
    "explain",
    "localtime",
    "localtimestamp",
    "locked",
    "nowait",
    "relfilenode",
    "tablesample",
    "xmax",
    "xmin",
];

/// Words of statements that take some of the rows, or one after the other.
const ARRANGES: &[&str] = &["fetch", "limit", "move", "offset", "over"];

/// Names of the types of floating-point numbers.
const FLOATS: &[&str] = &["double", "float", "float4", "float8", "real"];

/// Words for a change of the schemas that names reach. `set_config` may have a computed argument.
const PATHS: &[&str] = &["pg_settings", "search_path", "set_config"];

/// Names by which any setting can be changed.
const SETTERS: &[&str] = &["pg_settings", "set_config"];

/// Settings that end a statement by themselves.
pub(super) const TIMEOUTS: &[&str] = &["lock_timeout", "statement_timeout", "transaction_timeout"];

/// Notes what a word says about the text, given the piece before it.
fn read_facts(token: &Token<'_>, before: Option<&Token<'_>>, found: &mut Found) {
    if !matches!(token.kind, TokenKind::Word | TokenKind::Quoted) {
        return;
    }
    let is_after = |words: &[&str]| before.is_some_and(|before| words.iter().any(|word| before.is_word(word)));
    let is_one = |words: &[&str]| words.iter().any(|word| token.is_word(word));
    let name = token.text.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or(token.text);
    found.generates |= GENERATED.iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
    found.inserts |= is_one(INSERTS);
    // SELECT … FOR UPDATE and FOR NO KEY UPDATE write nothing.
    found.writes |= is_one(WRITES) || token.is_word("update") && !is_after(&["for", "key"]);
    // DISTINCT ON takes the first of several rows. So does UPDATE … FROM, if a row matches several.
    found.arranges |= is_one(ARRANGES) || token.is_word("on") && is_after(&["distinct"]);
    found.arranges |= token.is_word("from") && found.updates;
    found.updates |= token.is_word("update") && !is_after(&["for", "key"]);
    found.has_floats |= is_one(FLOATS);
    found.catches |= is_one(TIMEOUTS) || is_one(SETTERS);
}

/// Whether a word shows that names may reach other schemas, given the piece before it. For leftovers, the statements that do it
/// are read as a whole.
fn may_move_path(token: &Token<'_>, before: Option<&Token<'_>>) -> bool {
    if !matches!(token.kind, TokenKind::Word | TokenKind::Quoted) {
        return false;
    }
    let is_one = |words: &[&str]| words.iter().any(|word| token.is_word(word));
    // SET ROLE, SET SESSION AUTHORIZATION, SET SCHEMA, RESET ALL.
    let sets =
        before.is_some_and(|before| ["set", "local", "session", "reset"].iter().any(|word| before.is_word(word)));
    is_one(PATHS) || sets && is_one(&["all", "authorization", "role", "schema"])
}

fn read_operator(operator: &[u8], found: &mut Found) {
    let name = if operator == b"!=" { b"<>" } else { operator };
    if !found.operators.contains(name) {
        found.operators.insert(name.to_vec());
    }
}

/// Whether the body of a function may read rows of tables.
pub(super) fn may_read_rows(text: &[u8], rules: TextRules) -> bool {
    let mut before: Option<Token<'_>> = None;
    let is_after = |before: Option<Token<'_>>, word| before.is_some_and(|before| before.is_word(word));
    Lexer::new(text, rules).filter(|token| token.kind != TokenKind::Comment).any(|token| {
        // DELETE FROM; IS DISTINCT FROM.
        let is_from = token.is_word("from") && !is_after(before, "delete") && !is_after(before, "distinct");
        before = Some(token);
        is_from || token.is_word("fetch") || token.is_word("table")
    })
}

/// Reads the body of an SQL function as statements.
fn read_statements(text: &[u8], rules: TextRules, found: &mut Found) -> Result<(), Unsafe> {
    let read = statement::read_with(text, rules);
    found.is_ddl |= read.is_ddl;
    read.unreplayable.map_or(Ok(()), Err)?;
    if read.changes_code || read.ends.is_some() {
        return Err(Unsafe::Function);
    }
    if !read.executes.is_empty() {
        return Err(Unsafe::PreparedStatement);
    }
    found.uses_cursors |= !read.moves.is_empty();
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
    // But RAISE EXCEPTION.
    found.catches |= word.is_word("exception") && next.is_some_and(|next| next.is_word("when"));
    found.uses_cursors |= ["close", "fetch", "move"].iter().any(|known| word.is_word(known));
    found.is_ddl |= ["comment", "grant", "refresh", "revoke", "security"].iter().any(|known| word.is_word(known));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(language: Language, text: &str, expect: Result<bool, Unsafe>) {
        let mut found = Found::default();
        let language = (language, Purpose::Replay);
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
        check(Plpgsql, "begin x := random(); end", Err(Unsafe::Random));
        check(Expression, "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()", Ok(false));
    }

    fn found(text: &str) -> Found {
        let mut found = Found::default();
        let language = (Language::Expression, Purpose::Replay);
        read(text.as_bytes(), TextRules::default(), language, |_| false, &mut found).unwrap();
        found
    }

    #[test]
    fn values_that_differ_in_another_run_are_found() {
        for text in [
            "insert into t values (current_timestamp)",
            "select LOCALTIME",
            "select xmin, a from t",
            "update t set a = 1 returning \"ctid\"",
            "insert into t values (' Now ')",
            "select 'today 12:00'::timestamp",
        ] {
            assert!(found(text).generates, "{text}");
        }
        for text in
            ["select a from t where b = 'I know'", "select current_user, tableoid from t", "select x.now from x"]
        {
            assert!(!found(text).generates, "{text}");
        }
    }

    #[test]
    fn commands_that_write_are_found() {
        for (text, writes, inserts) in [
            ("select a from t for update", false, false),
            ("select a from t for no key update", false, false),
            ("with d as (delete from t returning a) select a from d", true, false),
            ("update t set a = 1", true, false),
            ("update t set a = default", true, true),
            ("insert into t values (1)", true, true),
        ] {
            let found = found(text);
            assert_eq!((found.writes, found.inserts), (writes, inserts), "{text}");
        }
    }

    #[test]
    fn changes_of_the_path_and_operators_are_found() {
        for text in [
            "set local search_path = x",
            "set role x",
            "set session authorization x",
            "reset all",
            "select set_config(a, b, c)",
        ] {
            assert!(found(text).any_schema, "{text}");
        }
        assert!(!found("select role, authorization from t; set local work_mem = 5").any_schema);
        let operators = found("select a+-1, b != c, d::int, e operator(s.###) f").operators;
        assert_eq!(operators.iter().map(|it| String::from_utf8_lossy(it)).collect::<Vec<_>>(), ["###", "+", "-", "<>"]);
    }
}
