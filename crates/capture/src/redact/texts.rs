//! The text of a statement without what is not to be kept.

use plimsoll_notation::sql::{Lexer, TextRules, TokenKind};

use super::{SECRET, Treatment, values};

/// The text with its literals replaced; comments are left out, except for hints to a planner (`/*+ … */`).
pub(super) fn redacted(sql: &[u8], treatment: Treatment<'_>, rules: TextRules) -> Vec<u8> {
    if matches!(treatment, Treatment::Keep) {
        return sql.to_vec();
    }
    let mut redacted = Vec::with_capacity(sql.len());
    let mut at = 0;
    for token in Lexer::new(sql, rules) {
        let begin = token.text.as_ptr() as usize - sql.as_ptr() as usize;
        put_gap(&sql[at..begin], &mut redacted);
        at = begin + token.text.len();
        match (token.kind, treatment) {
            (TokenKind::Literal, Treatment::Remove) => redacted.extend_from_slice(format!("'{SECRET}'").as_bytes()),
            (TokenKind::Literal, Treatment::Hash(key)) => redacted.extend(values::hashed_literal(token.text, key)),
            (TokenKind::Number, Treatment::Hash(key)) => redacted.extend(values::hashed_constant(token.text, key)),
            (TokenKind::Comment, _) if !token.text.starts_with(b"/*+") => redacted.push(b' '),
            _ => redacted.extend_from_slice(token.text),
        }
    }
    put_gap(&sql[at..], &mut redacted);
    redacted
}

/// What stands between two pieces: white space, and comments after `--`.
fn put_gap(gap: &[u8], to: &mut Vec<u8>) {
    match gap.contains(&b'-') {
        true => to.push(b'\n'),
        false => to.extend_from_slice(gap),
    }
}
