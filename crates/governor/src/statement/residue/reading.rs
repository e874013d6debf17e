//! Reads the statements of a text, or of the body of a function, for what they leave.

use std::borrow::Cow;

use plimsoll_notation::sql::{Lexer, Token, TokenKind};

use super::call::{plain_literal, take_call, take_setting};
use super::{Discard, Pin, Residue};
use crate::statement::name::{clipped, folded, stored};
use crate::statement::{self, TextRules, has_ignoring_case};

/// How many tokens of a statement are read in PL/pgSQL.
const HEAD_TOKENS: usize = 64;

/// Settings of `SET SESSION CHARACTERISTICS AS TRANSACTION …`.
const CHARACTERISTICS: [&[u8]; 3] =
    [b"default_transaction_isolation", b"default_transaction_read_only", b"default_transaction_deferrable"];

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A client's statements: they begin at the beginning and after semicolons.
    Statements,
    /// The statements of a function in SQL.
    Body,
    /// A body in PL/pgSQL: statements begin also after BEGIN, THEN, ELSE, LOOP and labels.
    Plpgsql,
}

/// The body of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block<'a> {
    /// In PL/pgSQL.
    Plpgsql(Cow<'a, [u8]>),
    /// In another language, or in a form that is not read.
    Unread,
}

pub(super) struct Reading<'r> {
    rules: TextRules,
    form: Form,
    /// Whether the text names the view by which settings can be changed.
    names_settings: bool,
    /// Whether it was read for changes of code.
    has_read_code: bool,
    residue: &'r mut Residue,
}

/// The tokens of a text without its comments.
fn tokens_of(sql: &[u8], rules: TextRules) -> Vec<Token<'_>> {
    Lexer::new(sql, rules).filter(|token| token.kind != TokenKind::Comment).collect()
}

/// The bodies of the blocks that a text runs (`DO …`).
pub(crate) fn blocks_of(sql: &[u8], rules: TextRules) -> Vec<Block<'_>> {
    let tokens = tokens_of(sql, rules);
    let statements = tokens.split(|token| token.is_mark(b';'));
    statements.filter(|statement| is(statement, 0, "do")).map(|statement| block(&statement[1..])).collect()
}

fn is(tokens: &[Token<'_>], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.is_word(word))
}

fn is_any(tokens: &[Token<'_>], at: usize, words: &[&str]) -> bool {
    words.iter().any(|word| is(tokens, at, word))
}

impl<'r> Reading<'r> {
    pub(super) fn new(rules: TextRules, form: Form, residue: &'r mut Residue) -> Self {
        Reading { rules, form, names_settings: false, has_read_code: false, residue }
    }

    pub(super) fn read(&mut self, sql: &[u8]) {
        let tokens = tokens_of(sql, self.rules);
        self.names_settings = has_ignoring_case(sql, b"pg_settings");
        let mut end = 0;
        for at in 0..tokens.len() {
            if end < at || at == 0 {
                end = tokens[at..]
                    .iter()
                    .position(|token| token.is_mark(b';'))
                    .map_or(tokens.len(), |length| at + length);
            }
            if self.begins(&tokens, at) {
                // In PL/pgSQL, statements overlap.
                let end = if self.form == Form::Plpgsql { end.min(at + HEAD_TOKENS) } else { end };
                self.take_statement(&tokens[at..end], sql);
            }
            self.take_token(&tokens, at);
        }
    }

    fn begins(&self, tokens: &[Token<'_>], at: usize) -> bool {
        let Some(before) = at.checked_sub(1).and_then(|before| tokens.get(before)) else { return true };
        let is_label = || before.kind == TokenKind::Operator && before.text == b">>";
        let opens = || ["begin", "then", "else", "loop"].iter().any(|word| before.is_word(word)) || is_label();
        before.is_mark(b';') || self.form == Form::Plpgsql && opens()
    }

    /// Reads what may be anywhere in a statement: calls, temporary objects, dynamic SQL.
    fn take_token(&mut self, tokens: &[Token<'_>], at: usize) {
        let (token, before) = (&tokens[at], at.checked_sub(1).map(|before| &tokens[before]));
        match token.kind {
            TokenKind::Mark if token.is_mark(b'(') => {
                if let Some(name) = before {
                    take_call(name, &tokens[at + 1..], self.residue);
                }
            }
            // Functions and schemas may be named so.
            TokenKind::Quoted if !token.text.starts_with(b"\"") => self.residue.pins(Pin::UnreadName),
            TokenKind::Word if token.text.len() <= 9 => self.take_word(tokens, at),
            _ => {}
        }
        let may_be_schema = matches!(token.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Literal);
        if may_be_schema && !self.is_block(tokens, at) && has_ignoring_case(token.text, b"pg_temp") {
            self.residue.pins(Pin::Temporary);
        }
    }

    /// Whether a token is the body of a function or a block, which is read when it runs.
    fn is_block(&self, tokens: &[Token<'_>], at: usize) -> bool {
        tokens[at].kind == TokenKind::Literal && at > 0 && is_any(tokens, at - 1, &["as", "do", "plpgsql"])
    }

    fn take_word(&mut self, tokens: &[Token<'_>], at: usize) {
        let word = &tokens[at];
        let is_before = |back: usize, words: &[&str]| at >= back && is_any(tokens, at - back, words);
        if word.is_word("temp") || word.is_word("temporary") {
            // CREATE OR REPLACE TEMP VIEW, CREATE LOCAL TEMP TABLE, SELECT … INTO TEMP; but INSERT INTO temp.
            let makes = is_before(1, &["create", "replace", "local", "global"]);
            if makes || is_before(1, &["into"]) && !is_before(2, &["insert", "merge"]) {
                self.residue.pins(Pin::Temporary);
            }
        } else if word.is_word("into") {
            self.residue.creates |= !is_before(1, &["insert", "merge"]) && self.form != Form::Plpgsql;
        } else if word.is_word("execute") && self.form == Form::Plpgsql {
            let is_name = at > 0 && tokens[at - 1].is_mark(b'.');
            if !is_name {
                self.residue.pins(Pin::Dynamic);
            }
        } else if word.is_word("update") && self.names_settings {
            // The view has a rule that calls set_config.
            self.residue.pins(Pin::ComputedSetting);
        }
    }

    /// Reads what the first words of a statement show.
    fn take_statement(&mut self, tokens: &[Token<'_>], sql: &[u8]) {
        let is = |at, word| is(tokens, at, word);
        let Some(first) = tokens.first().filter(|first| first.kind == TokenKind::Word) else { return };
        match &*first.text.to_ascii_lowercase() {
            b"set" => self.take_set(&tokens[1..]),
            b"reset" => self.take_reset(&tokens[1..]),
            b"discard" if is(1, "all") => {
                self.residue.discards = Some(Discard::All);
                self.changes_all();
            }
            b"discard" if is(1, "sequences") => {
                self.residue.discards = self.residue.discards.max(Some(Discard::Sequences));
            }
            b"listen" => self.residue.pins(Pin::Listens),
            // PREPARE TRANSACTION 'name'; but a statement may have the name `transaction`.
            b"prepare" if is(1, "transaction") && tokens.get(2).is_some_and(|it| it.kind == TokenKind::Literal) => {}
            b"execute" if self.form == Form::Plpgsql => {}
            b"prepare" | b"execute" => self.residue.pins(Pin::Prepares),
            b"explain" if (1..tokens.len()).any(|at| is(at, "execute")) => self.residue.pins(Pin::Prepares),
            b"explain" => self.take_created(tokens),
            b"load" => self.residue.pins(Pin::Loads),
            b"declare" if (1..tokens.len()).any(|at| is(at, "with") && is(at + 1, "hold")) => {
                self.residue.pins(Pin::HeldCursor);
            }
            b"deallocate" => self.take_deallocate(&tokens[1..]),
            b"do" => self.take_block(&tokens[1..]),
            // Its script is not read.
            b"create" | b"alter" if is(1, "extension") => {
                self.residue.changes_code = true;
                self.residue.pins(Pin::Unknown("EXTENSION".into()));
            }
            b"create" | b"alter" | b"drop" | b"security" | b"import" => {
                if !self.residue.changes_code && !std::mem::replace(&mut self.has_read_code, true) {
                    self.residue.changes_code = statement::read_with(sql, self.rules).changes_code;
                }
                self.take_created(tokens);
            }
            _ => {}
        }
    }

    /// CREATE TABLE and the like, CREATE TABLE … AS EXECUTE.
    fn take_created(&mut self, tokens: &[Token<'_>]) {
        const MADE: &[&str] = &["table", "view", "sequence", "schema"];
        self.residue.creates |= (0..tokens.len().min(6)).any(|at| is_any(tokens, at, MADE)) && has_create(tokens);
        if (1..tokens.len()).any(|at| is(tokens, at, "execute") && is(tokens, at - 1, "as")) {
            self.residue.pins(Pin::Prepares);
        }
    }

    fn take_set(&mut self, mut rest: &[Token<'_>]) {
        // `SET local.x` and `SET names.x` name a setting.
        let is_scope = is_any(rest, 0, &["local", "session"]) && !names_setting(rest);
        let is_local = is_scope && is(rest, 0, "local");
        if is_scope && !(is(rest, 0, "session") && is_any(rest, 1, &["authorization", "characteristics"])) {
            rest = &rest[1..];
        }
        let is_form = |words: &[&str]| words.iter().enumerate().all(|(at, word)| is(rest, at, word));
        let setting = match () {
            () if is_form(&["session", "authorization"]) => {
                return self.take_authorization(is(rest, 2, "default"), is_local);
            }
            () if is_form(&["session", "characteristics"]) => {
                return CHARACTERISTICS.iter().for_each(|name| take_setting(name, is_local, self.residue));
            }
            () if is_form(&["time", "zone"]) => Some(b"timezone".to_vec()),
            () if is_form(&["xml", "option"]) => Some(b"xmloption".to_vec()),
            () if names_setting(rest) => setting(rest),
            () if is_any(rest, 0, &["transaction", "constraints", "catalog"]) => return,
            () if is(rest, 0, "names") => Some(b"client_encoding".to_vec()),
            () if is(rest, 0, "role") => Some(b"role".to_vec()),
            () if is(rest, 0, "schema") => Some(b"search_path".to_vec()),
            () => setting(rest),
        };
        match setting {
            Some(name) => {
                let hides = |token: &Token<'_>| token.kind == TokenKind::Literal && token.text.contains(&b'\\');
                if name == b"search_path" && rest.iter().any(hides) {
                    // It may be `pg_temp`.
                    self.residue.pins(Pin::Temporary);
                }
                take_setting(&name, is_local, self.residue);
            }
            None => self.residue.pins(Pin::UnreadName),
        }
    }

    /// SET SESSION AUTHORIZATION ends the role that was set before.
    fn take_authorization(&mut self, is_default: bool, is_local: bool) {
        take_setting(if is_default { b"role" } else { b"session_authorization" }, is_local, self.residue);
    }

    fn take_reset(&mut self, rest: &[Token<'_>]) {
        if is(rest, 0, "all") {
            self.residue.all_settings = true;
            self.changes_all();
        } else if is(rest, 0, "session") && is(rest, 1, "authorization") {
            self.take_authorization(true, false);
        } else if is(rest, 0, "time") && is(rest, 1, "zone") {
            take_setting(b"timezone", false, self.residue);
        } else if is(rest, 0, "transaction") && is(rest, 1, "isolation") {
            // It belongs to the transaction.
        } else {
            match setting(rest) {
                Some(name) if name == b"session_authorization" => self.take_authorization(true, false),
                Some(name) => take_setting(&name, false, self.residue),
                None => self.residue.pins(Pin::UnreadName),
            }
        }
    }

    fn changes_all(&mut self) {
        (self.residue.moves_path, self.residue.changes_rules) = (true, true);
    }

    /// DEALLOCATE [PREPARE] { name | ALL }.
    fn take_deallocate(&mut self, mut rest: &[Token<'_>]) {
        if is(rest, 0, "prepare") && rest.len() > 1 {
            rest = &rest[1..];
        }
        let Some(name) = rest.first() else { return };
        if name.is_word("all") {
            self.residue.deallocates_all = true;
        } else {
            match folded(name).filter(|name| stored(name).is_some()) {
                Some(name) => _ = self.residue.deallocates.insert(clipped(name).into()),
                None => self.residue.pins(Pin::UnreadName),
            }
        }
    }

    fn take_block(&mut self, rest: &[Token<'_>]) {
        match block(rest) {
            // What the names in a block within a function mean is not followed.
            _ if self.form != Form::Statements => self.residue.pins(Pin::Dynamic),
            Block::Plpgsql(body) => Reading::new(self.rules, Form::Plpgsql, self.residue).read(&body),
            Block::Unread => self.residue.pins(Pin::Unknown("DO".into())),
        }
    }
}

/// Whether `SET` is followed by the name of a setting and its value.
fn names_setting(rest: &[Token<'_>]) -> bool {
    let is_assignment =
        |token: &Token<'_>| token.is_mark(b'.') || token.kind == TokenKind::Operator && token.text == b"=";
    rest.get(1).is_some_and(is_assignment) || is_any(rest, 1, &["to", "from"])
}

/// The name of a setting in lower case, as the server compares them: `a`, `"A"`, `a.b`. `None` if it is not read.
fn setting(tokens: &[Token<'_>]) -> Option<Vec<u8>> {
    let mut name = folded(tokens.first()?)?.to_ascii_lowercase();
    let mut rest = &tokens[1..];
    while let [dot, part, after @ ..] = rest
        && dot.is_mark(b'.')
    {
        name.push(b'.');
        name.extend_from_slice(&folded(part)?.to_ascii_lowercase());
        rest = after;
    }
    Some(name)
}

fn has_create(tokens: &[Token<'_>]) -> bool {
    (0..tokens.len()).any(|at| is(tokens, at, "create"))
}

/// The body of `DO [LANGUAGE name] '…' [LANGUAGE name]`.
fn block<'a>(rest: &[Token<'a>]) -> Block<'a> {
    let language = (1..rest.len()).find(|at| is(rest, at - 1, "language")).map(|at| &rest[at]);
    let is_plpgsql = |name: &Token<'_>| match name.kind {
        TokenKind::Literal => plain_literal(name) == Some(&b"plpgsql"[..]),
        _ => folded(name).is_some_and(|name| &*name == b"plpgsql"),
    };
    let is_language = |at: usize| at > 0 && is(rest, at - 1, "language");
    let mut bodies = (0..rest.len()).filter(|at| rest[*at].kind == TokenKind::Literal && !is_language(*at));
    let (Some(body), None) = (bodies.next(), bodies.next()) else { return Block::Unread };
    match body_of(&rest[body]) {
        Some(body) if language.is_none_or(is_plpgsql) => Block::Plpgsql(body),
        _ => Block::Unread,
    }
}

/// The value of a literal without escapes.
fn body_of<'a>(token: &Token<'a>) -> Option<Cow<'a, [u8]>> {
    if let Some(plain) = plain_literal(token) {
        return Some(Cow::Borrowed(plain));
    }
    let inner = token.text.strip_prefix(b"'")?.strip_suffix(b"'")?;
    if memchr::memchr(b'\\', inner).is_some() {
        return None;
    }
    let mut body = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\'', rest) {
        // Another quote, or the next part of a literal that continues in another line.
        if rest.get(at + 1) != Some(&b'\'') {
            return None;
        }
        body.extend_from_slice(&rest[..=at]);
        rest = &rest[at + 2..];
    }
    body.extend_from_slice(rest);
    Some(Cow::Owned(body))
}
