//! Derives the facts about a text from its tokens.

mod catalog;
mod cursor;
mod setting;

use std::borrow::Cow;

use plimsoll_notation::sql::{Lexer, Token, TokenKind};
use plimsoll_policy::Unsafe;

use super::comment::class_of_comment;
use super::effect::{effect_of_command, effect_of_function, is_known_command};
use super::name::{clipped, folded};
use super::{End, Statement, TextRules};

/// How many tokens of a statement are kept: `SET SESSION plimsoll . class = 'x'`, and one more to see that nothing
/// follows.
const HEAD_PIECES: usize = 8;

#[derive(Debug)]
pub(super) struct Reading<'a> {
    found: Statement<'a>,
    /// The number of statements that are not empty.
    count: usize,
    head: Head<'a>,
    /// The two previous tokens within the statement; the later one first.
    before: [Option<Token<'a>>; 2],
    parentheses: usize,
    /// How many BEGIN ATOMIC and CASE are open in the body of a function.
    blocks: usize,
    /// Whether the previous token was a semicolon that did not end the statement.
    resumes: bool,
    /// Whether the next token names the statement that EXECUTE runs.
    executes: bool,
    /// Whether the next token is the first argument of `set_config`.
    sets: bool,
    is_concurrent: bool,
    /// Whether the statement begins with ALTER and contains a word of a form of ALTER TABLE that changes code.
    alters_code: bool,
    /// The tag of a comment after all tokens so far.
    last_tag: Option<Cow<'a, str>>,
}

/// The first tokens of a statement.
#[derive(Debug, Default)]
struct Head<'a> {
    pieces: [Option<Token<'a>>; HEAD_PIECES],
    length: usize,
}

impl<'a> Head<'a> {
    fn push(&mut self, token: Token<'a>) {
        if let Some(place) = self.pieces.get_mut(self.length) {
            *place = Some(token);
            self.length += 1;
        }
    }

    fn piece(&self, at: usize) -> Option<Token<'a>> {
        self.pieces.get(at).copied().flatten()
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        self.piece(at).is_some_and(|token| token.is_word(word))
    }

    fn is_any_word(&self, at: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(at, word))
    }

    /// Whether it is `CREATE [OR REPLACE]` and one of these.
    fn creates(&self, words: &[&str]) -> bool {
        let replaces = self.is_word(1, "or") && self.is_word(2, "replace");
        self.is_word(0, "create") && self.is_any_word(if replaces { 3 } else { 1 }, words)
    }
}

impl<'a> Reading<'a> {
    /// The facts about a text.
    pub(super) fn of(sql: &'a [u8], rules: TextRules) -> Statement<'a> {
        let mut reading = Reading {
            found: Statement::default(),
            count: 0,
            head: Head::default(),
            before: [None; 2],
            parentheses: 0,
            blocks: 0,
            resumes: false,
            executes: false,
            sets: false,
            is_concurrent: false,
            alters_code: false,
            last_tag: None,
        };
        Lexer::new(sql, rules).for_each(|token| reading.take(token));
        reading.end_statement();
        reading.found.several = reading.count > 1;
        reading.found.is_bare_begin &= reading.count == 1;
        reading.found.tag = reading.found.tag.or(reading.last_tag);
        reading.found
    }

    fn take(&mut self, token: Token<'a>) {
        if token.kind == TokenKind::Comment {
            return self.take_comment(token.text);
        }
        if std::mem::take(&mut self.resumes) && !self.goes_on(&token) {
            self.end_statement();
        }
        if token.is_mark(b';') {
            self.resumes = self.hides_semicolon();
            if !self.resumes {
                return self.end_statement();
            }
        }
        if std::mem::take(&mut self.executes) {
            self.take_executed(&token);
        }
        if std::mem::take(&mut self.sets) {
            self.found.changes_rules |= setting::may_be_of_rules(&token);
            self.found.changes_patience |= setting::may_be_of_patience(&token);
        }
        match token.kind {
            TokenKind::Mark => self.take_mark(token.text),
            TokenKind::Word => self.take_word(token),
            TokenKind::Quoted if token.text == b"\"pg_temp\"" => self.is_unsafe(Some(Unsafe::TempTable)),
            _ => {}
        }
        self.last_tag = None;
        self.head.push(token);
        self.before = [Some(token), self.before[0]];
    }

    fn take_comment(&mut self, comment: &'a [u8]) {
        let is_first = self.count == 0 && self.head.length == 0;
        if is_first && self.found.tag.is_none() {
            self.found.tag = class_of_comment(comment);
        } else if self.last_tag.is_none() {
            self.last_tag = class_of_comment(comment);
        }
    }

    /// Whether a semicolon may belong to the statement: within BEGIN ATOMIC … END, and within the parentheses of CREATE
    /// RULE … DO (…; …). PostgreSQL accepts one nowhere else.
    fn hides_semicolon(&self) -> bool {
        self.blocks > 0 || self.parentheses > 0 && self.head.creates(&["rule"])
    }

    /// Whether a token after such a semicolon may belong to the statement. COMMIT and similar words never do: seeing an
    /// end where none is costs a replay; missing an end runs committed work twice.
    fn goes_on(&self, token: &Token<'_>) -> bool {
        const BEGINNINGS: &[&str] =
            &["delete", "end", "insert", "merge", "notify", "return", "select", "table", "update", "values", "with"];
        let is_mark = [b'(', b')', b';'].iter().any(|mark| token.is_mark(*mark));
        is_mark || BEGINNINGS.iter().any(|word| token.is_word(word)) && (self.blocks > 0 || !token.is_word("end"))
    }

    fn take_mark(&mut self, mark: &[u8]) {
        match mark {
            b"(" => {
                self.parentheses += 1;
                if let Some(name) = self.before[0] {
                    self.is_unsafe(effect_of_function(&name));
                    self.sets = setting::is_call(&name);
                }
            }
            b")" => self.parentheses = self.parentheses.saturating_sub(1),
            _ => {}
        }
    }

    fn is_before(&self, at: usize, words: &[&str]) -> bool {
        self.before[at].is_some_and(|token: Token<'_>| words.iter().any(|word| token.is_word(word)))
    }

    fn take_word(&mut self, word: Token<'a>) {
        match word.text.len() {
            // CREATE OR REPLACE TEMP VIEW, CREATE LOCAL TEMP TABLE, SELECT … INTO TEMP …; but INSERT INTO temp.
            4 | 9 if word.is_word("temp") || word.is_word("temporary") => {
                let makes = self.is_before(0, &["create", "replace", "local", "global"]);
                if makes || self.is_before(0, &["into"]) && !self.is_before(1, &["insert", "merge"]) {
                    self.is_unsafe(Some(Unsafe::TempTable));
                }
            }
            // SELECT … INTO creates a table.
            4 if word.is_word("into") => self.found.is_ddl |= !self.is_before(0, &["insert", "merge"]),
            7 if word.is_word("pg_temp") => self.is_unsafe(Some(Unsafe::TempTable)),
            7 if word.is_word("execute") => self.executes = self.may_execute(),
            11 if word.is_word("pg_settings") => self.found.changes_rules |= !self.head.is_word(0, "select"),
            12 if word.is_word("concurrently") => self.is_concurrent = true,
            _ => {}
        }
        if self.head.is_word(0, "create") {
            self.take_block_word(word);
        } else if self.head.is_word(0, "alter") {
            self.alters_code |= catalog::is_of_code(&word);
        }
    }

    /// EXECUTE x, EXPLAIN … EXECUTE x, CREATE TABLE … AS EXECUTE x; not GRANT EXECUTE, nor EXECUTE FUNCTION.
    fn may_execute(&self) -> bool {
        let makes = self.head.is_word(0, "create") && self.is_before(0, &["as"]);
        self.head.length == 0 || self.head.is_word(0, "explain") || makes
    }

    fn take_executed(&mut self, token: &Token<'a>) {
        match folded(token) {
            Some(name) => self.found.executes.push(clipped(name)),
            None if token.kind == TokenKind::Quoted => self.is_unsafe(Some(Unsafe::PreparedStatement)),
            None => {}
        }
    }

    /// CREATE FUNCTION … BEGIN ATOMIC …; …; END. After a dot or AS, any word is a name.
    fn take_block_word(&mut self, word: Token<'a>) {
        let is_name = self.before[0].is_some_and(|token| token.is_mark(b'.') || token.is_word("as"));
        if self.blocks == 0 {
            let opens = word.is_word("atomic") && self.is_before(0, &["begin"]) && self.parentheses == 0;
            self.blocks = usize::from(opens && self.head.creates(&["function", "procedure"]));
        } else if word.is_word("case") && !is_name {
            self.blocks += 1;
        } else if word.is_word("end") && !is_name {
            self.blocks -= 1;
        }
    }

    fn is_unsafe(&mut self, because: Option<Unsafe>) {
        self.found.takes_advisory_lock |= matches!(because, Some(Unsafe::AdvisoryLock | Unsafe::SessionLock));
        self.found.unreplayable = self.found.unreplayable.or(because);
    }

    fn end_statement(&mut self) {
        let head = std::mem::take(&mut self.head);
        let last = self.before[0].take();
        self.before = [None; 2];
        (self.parentheses, self.blocks) = (0, 0);
        (self.resumes, self.executes, self.sets) = (false, false, false);
        let is_concurrent = std::mem::take(&mut self.is_concurrent);
        let alters_code = std::mem::take(&mut self.alters_code);
        let (Some(first), Some(last)) = (head.piece(0), last) else { return };
        self.count += 1;
        self.is_unsafe(effect_of_command(|at, word| head.is_word(at, word), is_concurrent));
        if !is_known_command(&first) {
            self.is_unsafe(Some(Unsafe::OutsideEffect));
        }
        self.found.copy |= head.is_word(0, "copy");
        self.found.changes_code |= catalog::changes_code(&head, alters_code);
        self.found.is_ddl |= catalog::is_ddl(&head);
        self.found.changes_rules |= setting::changes_rules(&head);
        self.found.changes_patience |= setting::changes_patience(&head);
        self.control_transaction(&head);
        self.use_cursor(&head, &last);
        if let Some(set_class) = setting::set_class(&head) {
            self.found.set_class = Some(set_class);
        }
    }

    fn control_transaction(&mut self, head: &Head<'a>) {
        let is = |at, word| head.is_word(at, word);
        let end = if is(0, "begin") || is(0, "start") && is(1, "transaction") {
            (self.found.begins, self.found.is_bare_begin) = (true, true);
            return;
        } else if is(0, "commit") || is(0, "end") {
            End::Commit
        } else if is(0, "prepare") && is(1, "transaction") {
            End::Prepare
        } else if is(0, "rollback") || is(0, "abort") {
            // ROLLBACK [WORK | TRANSACTION] TO [SAVEPOINT] name
            if is(1, "to") || is(2, "to") && (is(1, "work") || is(1, "transaction")) {
                self.found.savepoint = true;
                return;
            }
            End::Rollback
        } else {
            self.found.savepoint |= is(0, "savepoint") || is(0, "release");
            return;
        };
        self.found.ends = self.found.ends.max(Some(end));
        // COMMIT [WORK | TRANSACTION] AND [NO] CHAIN
        let chains = (1..=2).any(|at| is(at, "and") && is(at + 1, "chain"));
        self.found.chains |= chains;
        self.found.begins |= chains;
    }
}
