//! Names in the form the server stores them.

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
}
