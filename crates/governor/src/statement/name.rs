//! Names in the form in which the server keeps them.

use std::borrow::Cow;

use plimsoll_notation::sql::{Token, TokenKind};

/// A name without its quotes, or in lower case if it has none. Letters beyond ASCII are unchanged. `None` if the token
/// is not a name, or if it has the form `U&"…"`, which is not decoded.
pub(crate) fn folded<'a>(token: &Token<'a>) -> Option<Cow<'a, [u8]>> {
    match token.kind {
        TokenKind::Word if token.text.iter().any(u8::is_ascii_uppercase) => {
            Some(token.text.to_ascii_lowercase().into())
        }
        TokenKind::Word => Some(token.text.into()),
        TokenKind::Quoted => {
            let inner = token.text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
            Some(if memchr::memchr(b'"', inner).is_some() { undoubled(inner).into() } else { inner.into() })
        }
        _ => None,
    }
}

/// How many bytes of a name the server keeps (`NAMEDATALEN - 1`).
const STORED_BYTES: usize = 63;

/// The longest name in any encoding that no conversion makes too long: a character takes at most four times the bytes.
const EXACT_BYTES: usize = STORED_BYTES / 4;

/// The part of a name of a prepared statement, a portal or a cursor by which the server knows it: two names with the
/// same part are the same. `None` if that depends on encodings: the server cuts names after it has converted them, in
/// texts between two characters, in messages anywhere.
pub(crate) fn stored(name: &[u8]) -> Option<&[u8]> {
    let part = &name[..name.len().min(STORED_BYTES)];
    (name.len() <= EXACT_BYTES || part.is_ascii()).then_some(part)
}

/// A name cut as by [`stored`], or unchanged.
pub(crate) fn clipped(name: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match (stored(&name).map(<[u8]>::len), name) {
        (Some(length), Cow::Borrowed(name)) => Cow::Borrowed(&name[..length]),
        (Some(length), Cow::Owned(mut name)) => {
            name.truncate(length);
            Cow::Owned(name)
        }
        (None, name) => name,
    }
}

fn undoubled(inner: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'"', rest) {
        name.extend_from_slice(&rest[..=at]);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    name.extend_from_slice(rest);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_as_the_server_does() {
        let check = |kind, text: &str, name: Option<&str>| {
            assert_eq!(folded(&Token { kind, text: text.as_bytes() }).as_deref(), name.map(str::as_bytes), "{text}");
        };
        check(TokenKind::Word, "abc", Some("abc"));
        check(TokenKind::Word, "AbC", Some("abc"));
        check(TokenKind::Quoted, "\"AbC\"", Some("AbC"));
        check(TokenKind::Quoted, "\"a\"\"b\"\"\"", Some("a\"b\""));
        check(TokenKind::Quoted, "U&\"a\"", None);
        check(TokenKind::Quoted, "\"open", None);
        check(TokenKind::Literal, "'a'", None);
    }

    #[test]
    fn names_are_cut_as_the_server_does_or_unknown() {
        let long = |end: &str| format!("{}{end}", "x".repeat(63));
        assert_eq!(stored(long("1").as_bytes()), stored(long("2é").as_bytes()));
        assert_eq!(stored(b"short"), Some(&b"short"[..]));
        assert_eq!(stored("né".as_bytes()), Some("né".as_bytes()));
        // A server in another encoding may keep less, or more, of it.
        assert_eq!(stored("é".repeat(20).as_bytes()), None);
        assert_eq!(clipped(long("1").into_bytes().into()).len(), 63);
        assert_eq!(clipped("é".repeat(50).into_bytes().into()).len(), 100);
    }
}
