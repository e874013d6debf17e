//! The class in a comment in sqlcommenter's form: `/*action='buy',class='high'*/`.
//!
//! Its rules: `key='value'` pairs separated by commas, both URL-encoded, and a quote in a value is then written `\'`.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};

/// The class that a comment names, its `/*` and `*/` included; `None` if it names none or does not have that form.
pub(super) fn class_of_comment(comment: &[u8]) -> Option<Cow<'_, str>> {
    let mut rest = comment.strip_prefix(b"/*")?.strip_suffix(b"*/")?.trim_ascii();
    // Most comments are not tags.
    memmem::find(rest, b"class")?;
    loop {
        let equals = memchr(b'=', rest)?;
        let (key, after) = (rest[..equals].trim_ascii(), rest[equals + 1..].trim_ascii_start().strip_prefix(b"'")?);
        let end = end_of_value(after)?;
        let (value, after) = (&after[..end], after[end + 1..].trim_ascii_start());
        if key == b"class" {
            return decode(value);
        }
        rest = after.strip_prefix(b",")?.trim_ascii_start();
    }
}

/// The position of the quote that ends a value.
fn end_of_value(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let next = at + memchr2(b'\'', b'\\', text.get(at..)?)?;
        if text[next] == b'\'' {
            return Some(next);
        }
        at = next + 2;
    }
}

/// A value without its escapes; `None` if it is not UTF-8.
fn decode(value: &[u8]) -> Option<Cow<'_, str>> {
    if memchr2(b'%', b'\\', value).is_none() {
        return std::str::from_utf8(value).ok().map(Cow::Borrowed);
    }
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'\\', [escaped, after @ ..]) => (*escaped, after),
            (b'%', [high, low, after @ ..]) => (hex(*high)? << 4 | hex(*low)?, after),
            _ => (first, after),
        };
        decoded.push(byte);
        rest = after;
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_is_found_among_the_keys_and_decoded() {
        let check = |comment: &str, class: Option<&str>| {
            assert_eq!(class_of_comment(comment.as_bytes()).as_deref(), class, "{comment}");
        };
        check("/*class='high'*/", Some("high"));
        check("/* class='high' */", Some("high"));
        check("/*action='%2Fbuy',class='high',traceparent='00-5b-01'*/", Some("high"));
        check("/*action='it\\'s, class=\\'low\\'',class='high'*/", Some("high"));
        check("/* class = 'a b' , x='1'*/", Some("a b"));
        check("/*class='caf%C3%A9%20%25'*/", Some("café %"));
        check("/*class='it\\'s'*/", Some("it's"));
        check("/*class=''*/", Some(""));
        for comment in [
            "/**/",
            "/*",
            "/*/",
            "/*class*/",
            "/*class=high*/",
            "/*class='high*/",
            "/*class='%zz'*/",
            "/*class='%FF'*/",
            "/*class='\\*/",
            "/*subclass='high'*/",
            "/*Class='high'*/",
            "/*+ HashJoin(class) */",
            "/*the class of a='b' */",
            "/*a='1';class='high'*/",
        ] {
            check(comment, None);
        }
        assert_eq!(class_of_comment(b"/*class='\xff'*/"), None);
    }
}
