//! From the pieces of a text to what it says.

use std::borrow::Cow;

use plimsoll_policy::Unsafe;

use super::comment::class_of_comment;
use super::effect::{effect_of_command, effect_of_function};
use super::lexer::{Kind, Lexer, Strings, Token};
use super::{End, Scope, SetClass, Statement};

/// How many pieces of a statement are kept: `SET SESSION plimsoll . class = 'x'`, and one to see that nothing follows.
const HEAD_PIECES: usize = 8;

/// A text that is being read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    found: Statement<'a>,
    /// How many statements there were that are not empty.
    count: usize,
    head: Head<'a>,
    /// The two pieces before, within the statement; the later one first.
    before: [Option<Token<'a>>; 2],
    /// Parentheses that are open: a semicolon within ends no statement (CREATE RULE … DO (…; …)).
    parentheses: usize,
    /// BEGIN and CASE that are open in the body of a function: semicolons within end no statement.
    blocks: usize,
    /// The tag of a comment after everything so far.
    last_tag: Option<Cow<'a, str>>,
}

/// The first pieces of a statement.
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

    fn is_word(&self, at: usize, word: &str) -> bool {
        self.pieces.get(at).copied().flatten().is_some_and(|token| token.is_word(word))
    }

    /// Whether a piece from the second on is one of these words.
    fn has_word(&self, words: &[&str]) -> bool {
        self.pieces.iter().skip(1).flatten().any(|token| words.iter().any(|word| token.is_word(word)))
    }
}

impl<'a> Reading<'a> {
    /// What a text says.
    pub(super) fn of(sql: &'a [u8], strings: Strings) -> Statement<'a> {
        let mut reading = Reading {
            found: Statement::default(),
            count: 0,
            head: Head::default(),
            before: [None; 2],
            parentheses: 0,
            blocks: 0,
            last_tag: None,
        };
        Lexer::new(sql, strings).for_each(|token| reading.take(token));
        reading.end_statement();
        reading.found.several = reading.count > 1;
        reading.found.tag = reading.found.tag.or(reading.last_tag);
        reading.found
    }

    fn take(&mut self, token: Token<'a>) {
        match token.kind {
            Kind::Comment => return self.take_comment(token.text),
            Kind::Mark if token.is_mark(b';') && self.parentheses == 0 && self.blocks == 0 => {
                return self.end_statement();
            }
            Kind::Mark => self.take_mark(token.text),
            Kind::Word => self.take_word(token),
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

    fn take_mark(&mut self, mark: &[u8]) {
        match mark {
            b"(" => {
                self.parentheses += 1;
                if let Some(name) = self.before[0] {
                    self.is_unsafe(effect_of_function(&name));
                }
            }
            b")" => self.parentheses = self.parentheses.saturating_sub(1),
            _ => {}
        }
    }

    fn take_word(&mut self, word: Token<'a>) {
        let is_before = |at: usize, words: &[&str]| {
            self.before[at].is_some_and(|token: Token<'_>| words.iter().any(|word| token.is_word(word)))
        };
        match word.text.len() {
            // CREATE OR REPLACE TEMP VIEW, CREATE LOCAL TEMP TABLE, SELECT … INTO TEMP …; but INSERT INTO temp.
            4 | 9 if word.is_word("temp") || word.is_word("temporary") => {
                let makes = is_before(0, &["create", "replace", "local", "global"]);
                if makes || is_before(0, &["into"]) && !is_before(1, &["insert", "merge"]) {
                    self.is_unsafe(Some(Unsafe::TempTable));
                }
            }
            7 if word.is_word("pg_temp") => self.is_unsafe(Some(Unsafe::TempTable)),
            3..=5 if self.head.is_word(0, "create") => self.take_block_word(word),
            _ => {}
        }
    }

    /// CREATE FUNCTION … BEGIN ATOMIC …; …; END.
    fn take_block_word(&mut self, word: Token<'a>) {
        let opens = word.is_word("begin") || self.blocks > 0 && word.is_word("case");
        if opens && self.head.has_word(&["function", "procedure"]) {
            self.blocks += 1;
        } else if word.is_word("end") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }

    fn is_unsafe(&mut self, because: Option<Unsafe>) {
        self.found.unreplayable = self.found.unreplayable.or(because);
    }

    fn end_statement(&mut self) {
        let head = std::mem::take(&mut self.head);
        self.before = [None; 2];
        (self.parentheses, self.blocks) = (0, 0);
        if head.length == 0 {
            return;
        }
        self.count += 1;
        self.is_unsafe(effect_of_command(|at, word| head.is_word(at, word), |words| head.has_word(words)));
        self.found.copy |= head.is_word(0, "copy");
        self.control_transaction(&head);
        if let Some(set_class) = set_class(&head) {
            self.found.set_class = Some(set_class);
        }
    }

    fn control_transaction(&mut self, head: &Head<'a>) {
        let is = |at, word| head.is_word(at, word);
        let end = if is(0, "begin") || is(0, "start") && is(1, "transaction") {
            self.found.begins = true;
            return;
        } else if is(0, "commit") || is(0, "end") {
            End::Commit
        } else if is(0, "prepare") && is(1, "transaction") {
            End::Prepare
        } else if is(0, "rollback") || is(0, "abort") {
            // ROLLBACK [WORK | TRANSACTION] TO [SAVEPOINT] name
            if is(1, "to") || is(2, "to") && (is(1, "work") || is(1, "transaction")) {
                return;
            }
            End::Rollback
        } else {
            return;
        };
        self.found.ends = self.found.ends.max(Some(end));
        // COMMIT [WORK | TRANSACTION] AND [NO] CHAIN
        let chains = (1..=2).any(|at| is(at, "and") && is(at + 1, "chain"));
        self.found.begins |= chains;
    }
}

/// `SET [SESSION | LOCAL] plimsoll.class TO x`, and what undoes it.
fn set_class<'a>(head: &Head<'a>) -> Option<SetClass<'a>> {
    let pieces = || head.pieces.iter().flatten();
    let first = pieces().next()?;
    let reset = Some(SetClass { scope: Scope::Session, class: None });
    if first.is_word("discard") && head.is_word(1, "all") || first.is_word("reset") && head.is_word(1, "all") {
        return reset;
    }
    if first.is_word("reset") {
        return after_name(pieces().skip(1)).filter(|rest| rest.clone().next().is_none()).and(reset);
    }
    if !first.is_word("set") {
        return None;
    }
    // SET LOCAL and SET SESSION, unless that is the beginning of a name.
    let has_scope = head.is_word(1, "local") || head.is_word(1, "session");
    let scope = if head.is_word(1, "local") { Scope::Transaction } else { Scope::Session };
    let mut rest = after_name(pieces().skip(1 + usize::from(has_scope)))?;
    let assigns = rest.next()?;
    let is_assignment = assigns.is_word("to") || assigns.kind == Kind::Operator && assigns.text == b"=";
    if !is_assignment {
        return None;
    }
    let value = *rest.next()?;
    if rest.next().is_some() {
        return None;
    }
    let class = if value.is_word("default") { None } else { Some(value_of(&value)?) };
    Some(SetClass { scope, class })
}

/// What comes after `plimsoll.class`, however it is written, if it begins with that.
fn after_name<'t, 'a: 't, I: Iterator<Item = &'t Token<'a>> + Clone>(mut pieces: I) -> Option<I> {
    let is_name = |token: &Token<'_>, name: &[u8]| {
        let text = match token.kind {
            Kind::Word => token.text,
            Kind::Quoted => token.text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""))?,
            _ => return None,
        };
        // Names of settings are alike in either case, in quotes, too.
        text.eq_ignore_ascii_case(name).then_some(())
    };
    let first = pieces.next()?;
    if is_name(first, b"plimsoll.class").is_none() {
        is_name(first, b"plimsoll")?;
        pieces.next().filter(|token| token.is_mark(b'.'))?;
        is_name(pieces.next()?, b"class")?;
    }
    Some(pieces)
}

/// A value as SET takes it: a literal, a name or a number.
fn value_of<'a>(token: &Token<'a>) -> Option<Cow<'a, str>> {
    let text = std::str::from_utf8(token.text).ok()?;
    let unquoted = |quote: char, doubled: &str| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        let one = &doubled[1..];
        Some(if inner.contains(doubled) { Cow::Owned(inner.replace(doubled, one)) } else { Cow::Borrowed(inner) })
    };
    match token.kind {
        Kind::Literal => unquoted('\'', "''"),
        Kind::Quoted => unquoted('"', "\"\""),
        Kind::Word if text.bytes().any(|byte| byte.is_ascii_uppercase()) => Some(text.to_ascii_lowercase().into()),
        Kind::Word | Kind::Number => Some(text.into()),
        _ => None,
    }
}
