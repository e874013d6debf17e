//! What a text says without being run: which tables it reads and writes, where its values stand, and whether it can be
//! replayed.
//!
//! Only the lexer looks at a text, so the answers are about words. Each is used on its safe side: a statement that may write
//! counts as writing, an answer that may depend on the clock is not compared, and a value whose column is not known is
//! mapped only if it is unmistakable.

use std::collections::BTreeSet;
use std::ops::Range;

use plimsoll_notation::sql::{Lexer, TextRules, Token, TokenKind, is_moment};

use crate::skip::Reason;

/// A value within a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where it is in the text.
    pub range: Range<usize>,
    /// The number of `$1`; `None` for a literal or a number.
    pub parameter: Option<usize>,
    pub context: Context,
}

/// What a value is compared with or stored in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Context {
    /// A column of that name, in lower case.
    Column(String),
    Unknown,
    /// It is an amount: of rows, or part of a computation.
    Amount,
}

/// What a statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Read,
    Write,
    /// BEGIN, COMMIT, SAVEPOINT, SET, …
    Control,
}

/// One statement of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Where it is in the text.
    pub range: Range<usize>,
    pub act: Act,
    /// The tables after FROM, JOIN, INTO, UPDATE and TABLE, without their schemas.
    pub tables: Vec<String>,
    /// The table of an INSERT, and the columns that it names.
    pub inserted: Option<(String, Vec<String>)>,
    pub has_returning: bool,
    pub has_order: bool,
    /// It calls a function whose result differs from call to call.
    pub is_volatile: bool,
    /// The sequence of a nextval, currval or lastval.
    pub sequence: Option<String>,
    /// It may answer with rows.
    pub may_return: bool,
    /// The table that it creates.
    pub created: Option<String>,
    /// It sets something for the session, such as its search path.
    pub is_setting: bool,
    pub unfit: Option<Reason>,
    pub needs_copy_data: bool,
    pub places: Vec<Place>,
}

/// The statements of a text.
pub(crate) fn statements(text: &[u8]) -> Vec<Statement> {
    let mut all = Vec::new();
    let mut tokens: Vec<(Token<'_>, usize)> = Vec::new();
    for token in Lexer::new(text, TextRules::default()) {
        if token.kind == TokenKind::Comment {
            continue;
        }
        if token.is_mark(b';') {
            all.extend(statement(&tokens));
            tokens.clear();
        } else {
            tokens.push((token, token.text.as_ptr() as usize - text.as_ptr() as usize));
        }
    }
    all.extend(statement(&tokens));
    all
}

const CONTROLS: [&str; 22] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "set",
    "reset",
    "show",
    "discard",
    "deallocate",
    "close",
    "fetch",
    "move",
    "declare",
    "lock",
    "listen",
    "unlisten",
    "notify",
    "checkpoint",
];
const VOLATILE: [&str; 22] = [
    "now",
    "random",
    "clock_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "timeofday",
    "current_timestamp",
    "current_time",
    "current_date",
    "localtime",
    "localtimestamp",
    "gen_random_uuid",
    "uuid_generate_v4",
    "nextval",
    "currval",
    "lastval",
    "txid_current",
    "pg_current_xact_id",
    "pg_backend_pid",
    "pg_sleep",
    "uuidv7",
    "ctid",
];
const ADMINISTERED: [&str; 8] =
    ["role", "user", "group", "database", "tablespace", "subscription", "publication", "server"];

fn statement(tokens: &[(Token<'_>, usize)]) -> Option<Statement> {
    let (first, begin) = tokens.first()?;
    let (last, end) = tokens.last()?;
    let words = Words(tokens);
    let has = |word: &str| tokens.iter().any(|(token, _)| token.is_word(word));
    let is = |at: usize, word: &str| words.is(at, word);
    let writing = ["insert", "update", "delete", "merge", "truncate", "create", "alter", "drop", "copy", "call", "do"];
    let locks = |at: usize| is(at, "for") && ["update", "no", "share", "key"].iter().any(|word| is(at + 1, word));
    let writes = (0..tokens.len()).any(|at| {
        writing.iter().any(|word| is(at, word)) && !(at > 0 && (is(at - 1, "for") || is(at - 1, "key")))
            || is(at, "nextval")
            || is(at, "setval")
    });
    let is_query = ["select", "with", "values", "table"].iter().any(|word| first.is_word(word)) || first.is_mark(b'(');
    let act = match () {
        () if CONTROLS.iter().any(|word| first.is_word(word)) => Act::Control,
        () if is_query && !writes && !(has("into") && first.is_word("select")) => Act::Read,
        () if first.is_word("explain") && !has("analyze") => Act::Read,
        () => Act::Write,
    };
    let is_volatile = (0..tokens.len()).any(|at| VOLATILE.iter().any(|name| is(at, name)) || locks(at))
        || tokens.iter().any(|(token, _)| token.kind == TokenKind::Literal && is_moment(token.text));
    let created = first.is_word("create").then(|| words.created()).flatten();
    Some(Statement {
        range: *begin..end + last.text.len(),
        act,
        tables: words.tables(),
        inserted: words.inserted(),
        has_returning: has("returning"),
        has_order: has("order"),
        is_volatile,
        sequence: words.sequence(),
        may_return: is_query
            || has("returning")
            || ["show", "fetch", "explain", "execute", "call"].iter().any(|word| first.is_word(word)),
        created,
        is_setting: first.is_word("set") && !is(1, "transaction") && !is(1, "local"),
        unfit: unfit(&words),
        needs_copy_data: first.is_word("copy") && has("from") && has("stdin"),
        places: words.places(),
    })
}

/// Why a statement is not sent again.
fn unfit(words: &Words<'_>) -> Option<Reason> {
    let is = |at: usize, word: &str| words.is(at, word);
    let has = |word: &str| (0..words.0.len()).any(|at| is(at, word));
    let changes = ["create", "alter", "drop"].iter().any(|word| is(0, word));
    let copies = is(0, "copy") && !has("stdin") && !has("stdout");
    if words
        .0
        .iter()
        .any(|(token, _)| token.kind == TokenKind::Literal && token.text.windows(8).any(|part| part == b"<secret>"))
    {
        return Some(Reason::Secret);
    }
    if ["listen", "unlisten", "notify"].iter().any(|word| is(0, word)) || has("pg_notify") {
        return Some(Reason::Notification);
    }
    if has("prepared") && (is(0, "commit") || is(0, "rollback")) || is(0, "prepare") && is(1, "transaction") {
        return Some(Reason::TwoPhase);
    }
    let administers = changes && (ADMINISTERED.iter().any(|word| is(1, word)) || is(1, "system"));
    if administers || has("pg_terminate_backend") || has("pg_cancel_backend") || has("pg_reload_conf") {
        return Some(Reason::Administration);
    }
    copies.then_some(Reason::ServerFile)
}

/// The pieces of one statement with their places.
struct Words<'a>(&'a [(Token<'a>, usize)]);

impl Words<'_> {
    fn is(&self, at: usize, word: &str) -> bool {
        self.0.get(at).is_some_and(|(token, _)| token.is_word(word))
    }

    fn is_mark(&self, at: usize, mark: u8) -> bool {
        self.0.get(at).is_some_and(|(token, _)| token.is_mark(mark))
    }

    fn operator(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at).filter(|(token, _)| token.kind == TokenKind::Operator).map(|(token, _)| token.text)
    }

    /// The name at a place, in lower case unless it is quoted, and the place after it; of a qualified name its last part.
    fn name(&self, at: usize) -> Option<(String, usize)> {
        let (token, _) = self.0.get(at)?;
        let name = match token.kind {
            TokenKind::Word => String::from_utf8_lossy(token.text).to_ascii_lowercase(),
            TokenKind::Quoted => String::from_utf8_lossy(token.text).trim_matches('"').to_owned(),
            _ => return None,
        };
        if self.is_mark(at + 1, b'.') {
            return self.name(at + 2).or(Some((name, at + 1)));
        }
        Some((name, at + 1))
    }

    fn tables(&self) -> Vec<String> {
        let mut tables = BTreeSet::new();
        for at in 0..self.0.len() {
            let begins = ["from", "join", "into", "update", "using", "table"].iter().any(|word| self.is(at, word))
                // `FOR UPDATE`, `DO UPDATE SET`, `IS DISTINCT FROM`.
                && !(at > 0 && ["for", "key", "do", "distinct"].iter().any(|word| self.is(at - 1, word)));
            if !begins {
                continue;
            }
            let mut next = at + 1;
            while ["only", "if", "exists", "not", "lateral"].iter().any(|word| self.is(next, word)) {
                next += 1;
            }
            while let Some((name, after)) = self.name(next) {
                tables.insert(name);
                // An alias, and further tables after commas.
                let after = if self.is(after, "as") { after + 1 } else { after };
                let comma = if self.is_mark(after, b',') { after } else { after + 1 };
                if !self.is_mark(comma, b',') || self.is(at, "update") || self.is(at, "into") {
                    break;
                }
                next = comma + 1;
            }
        }
        tables.into_iter().collect()
    }

    fn inserted(&self) -> Option<(String, Vec<String>)> {
        let insert = (0..self.0.len()).find(|at| self.is(*at, "insert") && self.is(at + 1, "into"))?;
        let (table, mut at) = self.name(insert + 2)?;
        if self.is(at, "as") {
            at += 2;
        }
        if !self.is_mark(at, b'(') {
            return None;
        }
        let mut columns = Vec::new();
        while let Some((name, after)) = self.name(at + 1) {
            columns.push(name);
            if !self.is_mark(after, b',') {
                break;
            }
            at = after;
        }
        Some((table, columns))
    }

    fn sequence(&self) -> Option<String> {
        let at =
            (0..self.0.len()).find(|at| ["nextval", "currval", "lastval"].iter().any(|word| self.is(*at, word)))?;
        let (token, _) = self.0.get(at + 2)?;
        let text = String::from_utf8_lossy(token.text).to_ascii_lowercase();
        Some(text.trim_matches('\'').rsplit('.').next().unwrap_or_default().trim_matches('"').to_owned())
    }

    fn created(&self) -> Option<String> {
        let at = (0..self.0.len()).find(|at| self.is(*at, "table") || self.is(*at, "view"))?;
        let mut next = at + 1;
        while ["if", "not", "exists"].iter().any(|word| self.is(next, word)) {
            next += 1;
        }
        self.name(next).map(|(name, _)| name)
    }

    fn places(&self) -> Vec<Place> {
        let listed = self.listed();
        let mut places = Vec::new();
        for (at, (token, begin)) in self.0.iter().enumerate() {
            let parameter = match token.kind {
                TokenKind::Parameter => std::str::from_utf8(&token.text[1..]).ok().and_then(|text| text.parse().ok()),
                TokenKind::Literal | TokenKind::Number => None,
                _ => continue,
            };
            if token.kind == TokenKind::Parameter && parameter.is_none() {
                continue;
            }
            let context = match listed.iter().find(|(place, _)| *place == at) {
                Some((_, column)) => Context::Column(column.clone()),
                None => self.context(at),
            };
            places.push(Place { range: *begin..begin + token.text.len(), parameter, context });
        }
        places
    }

    /// The values of an INSERT's rows, each with its column.
    fn listed(&self) -> Vec<(usize, String)> {
        let Some((_, columns)) = self.inserted() else { return Vec::new() };
        let Some(values) = (0..self.0.len()).find(|at| self.is(*at, "values")) else { return Vec::new() };
        let (mut found, mut depth, mut column) = (Vec::new(), 0_usize, 0);
        for at in values + 1..self.0.len() {
            let (token, _) = &self.0[at];
            match () {
                () if token.is_mark(b'(') => {
                    depth += 1;
                    column = if depth == 1 { 0 } else { column };
                }
                () if token.is_mark(b')') => depth = depth.saturating_sub(1),
                () if token.is_mark(b',') && depth == 1 => column += 1,
                () if depth == 0 && token.kind == TokenKind::Word => break,
                () if depth == 1 && (self.is_mark(at - 1, b'(') || self.is_mark(at - 1, b',')) => {
                    // Alone, or with a cast: an expression is not a value of its column.
                    let is_whole = self.is_mark(at + 1, b',')
                        || self.is_mark(at + 1, b')')
                        || self.operator(at + 1) == Some(b"::");
                    found.extend(columns.get(column).filter(|_| is_whole).map(|name| (at, name.clone())));
                }
                () => {}
            }
        }
        found
    }

    /// What surrounds a value.
    fn context(&self, at: usize) -> Context {
        let computes = |operator: Option<&[u8]>| {
            operator.is_some_and(|text| matches!(text, b"+" | b"-" | b"*" | b"/" | b"%" | b"||"))
        };
        let compares = |operator: Option<&[u8]>| {
            operator.is_some_and(|text| matches!(text, b"=" | b"<>" | b"!=" | b"<" | b">" | b"<=" | b">="))
        };
        let Some(before) = at.checked_sub(1) else { return Context::Unknown };
        let is_amount =
            ["limit", "offset", "first", "next", "interval", "top"].iter().any(|word| self.is(before, word));
        // A cast stands between a value and what follows it.
        let after = if self.operator(at + 1) == Some(b"::") { at + 3 } else { at + 1 };
        if is_amount || computes(self.operator(before)) || computes(self.operator(after)) {
            return Context::Amount;
        }
        if compares(self.operator(before)) {
            return before.checked_sub(1).map_or(Context::Unknown, |column| self.column(column));
        }
        if compares(self.operator(after)) {
            return self.name(after + 1).map_or(Context::Unknown, |(name, _)| Context::Column(name));
        }
        // `column IN (1, 2`, `column BETWEEN 1 AND 2`, `column = ANY (`.
        let mut back = before;
        while self.is_mark(back, b',') || self.is_mark(back, b'(') || self.is_value(back) {
            let Some(further) = back.checked_sub(1) else { return Context::Unknown };
            back = further;
        }
        match () {
            () if self.is(back, "in") => {
                let column = back.checked_sub(if back > 0 && self.is(back - 1, "not") { 2 } else { 1 });
                column.map_or(Context::Unknown, |column| self.column(column))
            }
            () if self.is(back, "between") && back > 0 => self.column(back - 1),
            () if self.is(back, "and") && back > 2 && self.is(back - 2, "between") => self.column(back - 3),
            () if (self.is(back, "any") || self.is(back, "all")) && back > 1 && compares(self.operator(back - 1)) => {
                self.column(back - 2)
            }
            () => Context::Unknown,
        }
    }

    fn is_value(&self, at: usize) -> bool {
        let kinds = [TokenKind::Literal, TokenKind::Number, TokenKind::Parameter];
        self.0.get(at).is_some_and(|(token, _)| kinds.contains(&token.kind))
    }

    fn column(&self, at: usize) -> Context {
        match self.name(at) {
            Some((name, _)) => Context::Column(name),
            None => Context::Unknown,
        }
    }
}

/// Whether a value of that column may come from the other, which a table's rows were given: the same name in the same
/// table, a name that is not every table's, or the name of the table within the name, as in `order_id`.
pub(crate) fn names_match(used: &str, used_tables: &[String], made: &str, made_tables: &[String]) -> bool {
    let shares_table = made_tables.iter().any(|table| used_tables.contains(table));
    let is_special = !["id", "key", "no", "number", "uuid", "code"].contains(&made);
    let names_table = made_tables.iter().any(|table| {
        let one = singular(table);
        one.len() >= 3 && used.contains(&one)
    });
    used == made && (shares_table || is_special) || names_table && used != made
}

fn singular(table: &str) -> String {
    match table {
        _ if table.ends_with("ies") => format!("{}y", &table[..table.len() - 3]),
        _ if table.ends_with("ss") => table.to_owned(),
        _ => table.strip_suffix('s').unwrap_or(table).to_owned(),
    }
}

#[cfg(test)]
mod tests;
