//! Statements that change session settings: the class, and the rules for reading texts.

use std::borrow::Cow;

use plimsoll_notation::sql::{Token, TokenKind};

use super::Head;
use crate::statement::{Scope, SetClass};

/// The settings that decide how a text is read.
const OF_RULES: [&str; 2] = ["standard_conforming_strings", "client_encoding"];

/// The settings that decide how long the server waits for its client in a transaction.
const OF_PATIENCE: [&str; 2] = ["idle_in_transaction_session_timeout", "transaction_timeout"];

/// Whether a statement may change the rules for reading later texts.
pub(super) fn changes_rules(head: &Head<'_>) -> bool {
    if head.is_word(0, "discard") || head.is_word(0, "reset") && head.is_word(1, "all") {
        return true;
    }
    if !(head.is_word(0, "set") || head.is_word(0, "reset")) {
        return false;
    }
    let at = if head.is_any_word(1, &["local", "session"]) { 2 } else { 1 };
    head.is_word(at, "names") || head.piece(at).is_some_and(|name| is_of_rules(&name))
}

/// Whether a statement may change how long the server waits for its client.
pub(super) fn changes_patience(head: &Head<'_>) -> bool {
    let at = if head.is_any_word(1, &["local", "session"]) { 2 } else { 1 };
    head.is_word(0, "set") && head.piece(at).is_some_and(|name| is_any_of(&name, &OF_PATIENCE))
}

/// Whether the first argument of `set_config` may name a setting for how long the server waits for its client.
pub(super) fn may_be_of_patience(argument: &Token<'_>) -> bool {
    argument.kind != TokenKind::Literal || is_any_of(argument, &OF_PATIENCE)
}

fn is_of_rules(token: &Token<'_>) -> bool {
    is_any_of(token, &OF_RULES)
}

/// Whether a token may be one of these names of settings.
fn is_any_of(token: &Token<'_>, names: &[&str]) -> bool {
    let quote = match token.kind {
        TokenKind::Word => return names.iter().any(|name| token.is_word(name)),
        TokenKind::Quoted => b"\"",
        TokenKind::Literal => b"'",
        _ => return true,
    };
    let text = token.text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    text.is_none_or(|text| names.iter().any(|name| text.eq_ignore_ascii_case(name.as_bytes())))
}

/// Whether a function is `set_config`.
pub(super) fn is_call(name: &Token<'_>) -> bool {
    name.is_word("set_config") || name.kind == TokenKind::Quoted && name.text == b"\"set_config\""
}

/// Whether the first argument of `set_config` may name a setting that decides how a text is read.
pub(super) fn may_be_of_rules(argument: &Token<'_>) -> bool {
    argument.kind != TokenKind::Literal || is_of_rules(argument)
}

/// `SET [SESSION | LOCAL] plimsoll.class TO x`, and statements that undo it.
pub(super) fn set_class<'a>(head: &Head<'a>) -> Option<SetClass<'a>> {
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
    // SET LOCAL and SET SESSION, unless the word begins a name.
    let has_scope = head.is_word(1, "local") || head.is_word(1, "session");
    let scope = if head.is_word(1, "local") { Scope::Transaction } else { Scope::Session };
    let mut rest = after_name(pieces().skip(1 + usize::from(has_scope)))?;
    let assigns = rest.next()?;
    let is_assignment = assigns.is_word("to") || assigns.kind == TokenKind::Operator && assigns.text == b"=";
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

/// The tokens after `plimsoll.class`, in any of its spellings, if the text begins with it.
fn after_name<'t, 'a: 't, I: Iterator<Item = &'t Token<'a>> + Clone>(mut pieces: I) -> Option<I> {
    let is_name = |token: &Token<'_>, name: &[u8]| {
        let text = match token.kind {
            TokenKind::Word => token.text,
            TokenKind::Quoted => token.text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""))?,
            _ => return None,
        };
        // Names of settings ignore case, in quotes, too.
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
        TokenKind::Literal => unquoted('\'', "''"),
        TokenKind::Quoted => unquoted('"', "\"\""),
        TokenKind::Word if text.bytes().any(|byte| byte.is_ascii_uppercase()) => Some(text.to_ascii_lowercase().into()),
        TokenKind::Word | TokenKind::Number => Some(text.into()),
        _ => None,
    }
}
