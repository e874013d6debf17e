//! Functions, by name, that leave something in the session, and the arguments of `set_config`.

use plimsoll_notation::sql::{Token, TokenKind};

use super::{Pin, Residue};
use crate::statement::name::folded;

/// Functions that take an advisory lock for the session. Those that release one leave nothing.
const SESSION_LOCKS: &[&str] =
    &["pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"];

/// How many tokens of a call's arguments are read.
const ARGUMENTS_TOKENS: usize = 500;

/// What calling a function of that name leaves, if the server or a well-known extension provides it and its arguments do
/// not matter.
pub(crate) fn left_by_name(name: &[u8], residue: &mut Residue) {
    let is_any = |known: &[&str]| known.iter().any(|known| known.as_bytes() == name);
    if is_any(SESSION_LOCKS) {
        residue.pins(Pin::SessionLock);
    } else if is_any(&["nextval", "setval"]) {
        residue.sequences = true;
    } else if is_any(&["currval", "lastval"]) {
        residue.reads_sequences = true;
    } else if is_any(&["setseed"]) {
        residue.pins(Pin::Seed);
    } else if is_any(&["set_limit"]) {
        // pg_trgm
        residue.sets(b"pg_trgm.similarity_threshold");
    } else if name.starts_with(b"dblink_connect") {
        residue.pins(Pin::RemoteConnection);
    } else if name.starts_with(b"pg_replication_origin_session_setup") {
        residue.pins(Pin::ReplicationOrigin);
    }
}

/// A name before a parenthesis, whose arguments follow.
pub(super) fn take_call(name: &Token<'_>, arguments: &[Token<'_>], residue: &mut Residue) {
    match folded(name) {
        Some(name) if &*name == b"set_config" => take_set_config(arguments, residue),
        Some(name) => left_by_name(&name, residue),
        None => {}
    }
}

/// `set_config('name', value, is_local)`.
fn take_set_config(tokens: &[Token<'_>], residue: &mut Residue) {
    let arguments = arguments_of(tokens);
    let is_local = arguments.len() == 3 && matches!(arguments[2], [word] if word.is_word("true"));
    match arguments.first().and_then(|first| setting_of(first)) {
        Some(name) => take_setting(&name, is_local, residue),
        None => {
            (residue.moves_path, residue.changes_rules) = (true, true);
            if !is_local {
                residue.pins(Pin::ComputedSetting);
            }
        }
    }
}

/// The arguments of a call, at most four, after its opening parenthesis.
fn arguments_of<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let (mut depth, mut begin, mut found) = (0_usize, 0, Vec::new());
    for (at, token) in tokens.iter().take(ARGUMENTS_TOKENS).enumerate() {
        match token.text {
            b"(" | b"[" if token.kind == TokenKind::Mark => depth += 1,
            b")" | b"]" if token.kind == TokenKind::Mark && depth > 0 => depth -= 1,
            b")" | b"]" | b"," if token.kind == TokenKind::Mark && depth == 0 => {
                found.push(&tokens[begin..at]);
                begin = at + 1;
                if token.text != b"," || found.len() > 3 {
                    return found;
                }
            }
            _ => {}
        }
    }
    found
}

/// The name in a literal, perhaps with a cast to a string: `'a'`, `'a'::text`.
fn setting_of(argument: &[Token<'_>]) -> Option<Vec<u8>> {
    let literal = match argument {
        [literal] => literal,
        [literal, cast, kind] if cast.text == b"::" && (kind.is_word("text") || kind.is_word("varchar")) => literal,
        _ => return None,
    };
    let name = plain_literal(literal)?.to_ascii_lowercase();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.') || *byte >= 0x80;
    (!name.is_empty() && name.iter().all(is_part)).then_some(name)
}

/// The value of a literal that is written as it is: without quotes and escapes in it.
pub(super) fn plain_literal<'a>(token: &Token<'a>) -> Option<&'a [u8]> {
    if token.kind != TokenKind::Literal {
        return None;
    }
    if token.text.starts_with(b"$") {
        let delimiter = memchr::memchr(b'$', &token.text[1..])? + 2;
        return token.text.get(delimiter..token.text.len().checked_sub(delimiter)?);
    }
    let inner = token.text.strip_prefix(b"'")?.strip_suffix(b"'")?;
    memchr::memchr2(b'\'', b'\\', inner).is_none().then_some(inner)
}

/// A setting gets another value, given its name in lower case.
pub(super) fn take_setting(name: &[u8], is_local: bool, residue: &mut Residue) {
    residue.moves_path |= [&b"search_path"[..], b"role", b"session_authorization"].contains(&name);
    residue.changes_rules |= [&b"standard_conforming_strings"[..], b"client_encoding"].contains(&name);
    match name {
        // The generator has been set, whatever becomes of the transaction.
        b"seed" => residue.pins(Pin::Seed),
        _ if is_local => {}
        b"session_authorization" => residue.pins(Pin::Authorization),
        // These belong to the transaction in any form.
        b"transaction_isolation" | b"transaction_read_only" | b"transaction_deferrable" => {}
        _ => residue.sets(name),
    }
}
