//! Names in the form the server stores them, and arrays of names as parameters.

use std::collections::BTreeSet;

use plimsoll_notation::sql::{Token, TokenKind};
use plimsoll_policy::Unsafe;

use crate::statement::name::folded;
use crate::statement::{Encoding, TextRules};

/// Key words that are reserved in every version. They are names only in quotes or after a dot. Leaving them out keeps
/// questions short.
const RESERVED: &str = "all and any array as asc both case cast check collate column constraint create default deferrable desc \
    distinct do else end except false fetch for foreign from grant group having in initially intersect into \
    lateral leading limit not null offset on only or order placing primary references returning select some \
    symmetric table then to trailing true union unique user using variadic when where window with";

/// Adds the name that a token denotes, unless it is known. Adds two if the server may fold letters in two ways.
pub(super) fn add(
    token: &Token<'_>,
    is_after_dot: bool,
    rules: TextRules,
    is_known: &impl Fn(&[u8]) -> bool,
    names: &mut BTreeSet<Vec<u8>>,
) -> Result<(), Unsafe> {
    let mut add = |name: &[u8]| {
        if !is_known(name) && !names.contains(name) {
            names.insert(name.to_vec());
        }
    };
    if token.kind == TokenKind::Quoted {
        // `U&"…"` is not decoded.
        add(&folded(token).ok_or(Unsafe::Function)?);
        return Ok(());
    }
    if token.text.is_ascii() {
        let name = folded(token).ok_or(Unsafe::Function)?;
        let is_reserved = RESERVED.split(' ').any(|word| word.as_bytes() == &*name);
        if is_after_dot || !is_reserved {
            add(&name);
        }
        return Ok(());
    }
    // A server folds letters beyond ASCII only if its encoding is single-byte, and then by its locale.
    match rules.encoding {
        Encoding::Utf8 => {
            add(&token.text.to_ascii_lowercase());
            add(std::str::from_utf8(token.text).map_err(|_| Unsafe::Function)?.to_lowercase().as_bytes());
        }
        Encoding::AsciiSafe => return Err(Unsafe::Function),
        // These characters exist only in multi-byte server encodings, in which a server folds ASCII only.
        encoding => {
            let mut name = token.text.to_vec();
            let mut at = 0;
            while at < name.len() {
                let length = encoding.length(&name[at..]);
                if length == 1 {
                    name[at].make_ascii_lowercase();
                }
                at += length;
            }
            add(&name);
        }
    }
    Ok(())
}

/// An array in text format. Every element is quoted, with a backslash before quotes and backslashes, but not before a byte that
/// is half of a longer character.
pub(super) fn array_of<'a>(elements: impl Iterator<Item = &'a [u8]>, encoding: Encoding) -> Vec<u8> {
    let mut array = vec![b'{'];
    for element in elements {
        if array.len() > 1 {
            array.push(b',');
        }
        array.push(b'"');
        let mut rest = element;
        while !rest.is_empty() {
            let (character, after) = rest.split_at(encoding.length(rest));
            if matches!(character, b"\"" | b"\\") {
                array.push(b'\\');
            }
            array.extend_from_slice(character);
            rest = after;
        }
        array.push(b'"');
    }
    array.push(b'}');
    array
}

/// An array of numbers in text format.
pub(super) fn array_of_numbers(numbers: &[u32]) -> Vec<u8> {
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("{{{}}}", numbers.join(",")).into_bytes()
}

#[cfg(test)]
mod tests {
    use plimsoll_notation::sql::Lexer;

    use super::*;

    fn names_of(sql: &[u8], encoding: &str) -> Result<Vec<Vec<u8>>, Unsafe> {
        let rules = TextRules { encoding: Encoding::of_parameter(encoding.as_bytes()), ..TextRules::default() };
        let mut names = BTreeSet::new();
        let mut is_after_dot = false;
        for token in Lexer::new(sql, rules) {
            if matches!(token.kind, TokenKind::Word | TokenKind::Quoted) {
                add(&token, is_after_dot, rules, &|_| false, &mut names)?;
            }
            is_after_dot = token.is_mark(b'.');
        }
        Ok(names.into_iter().collect())
    }

    #[test]
    fn every_word_may_be_a_name() {
        let check = |sql: &str, expect: &[&str]| {
            let names = names_of(sql.as_bytes(), "UTF8").unwrap();
            assert_eq!(names, expect.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(), "{sql}");
        };
        check("select F(a) from S.T where b > 'c'", &["a", "b", "f", "s", "t"]);
        check(
            "select t.select, \"Select\", \"from\", public.order",
            &["Select", "from", "order", "public", "select", "t"],
        );
        check("select ÄÖ()", &["ÄÖ", "äö"]);
        check("select \"ÄÖ\"()", &["ÄÖ"]);
        assert_eq!(names_of(b"select \xc4()", "LATIN1"), Err(Unsafe::Function));
        assert_eq!(names_of(b"select \"\xc4\"", "LATIN1").unwrap(), [b"\xc4".to_vec()]);
        assert_eq!(names_of(b"select A\x83AB()", "SJIS").unwrap(), [b"a\x83Ab".to_vec()]);
        assert_eq!(names_of(b"select U&\"a\"()", "UTF8"), Err(Unsafe::Function));
    }

    #[test]
    fn arrays_are_quoted_by_characters() {
        let array = |elements: &[&[u8]], encoding: &str| {
            array_of(elements.iter().copied(), Encoding::of_parameter(encoding.as_bytes()))
        };
        assert_eq!(array(&[], "UTF8"), b"{}");
        assert_eq!(array(&[b"a", b"b\"c\\d", b"", b"{,}"], "UTF8"), br#"{"a","b\"c\\d","","{,}"}"#);
        assert_eq!(array(&[b"\x95\x5c\x5c"], "SJIS"), b"{\"\x95\x5c\x5c\x5c\"}");
        assert_eq!(array_of_numbers(&[1, 23]), b"{1,23}");
    }
}
