//! Percent-encoding, without the `+` for a space in forms.

use std::fmt::Write;

use super::UrlError;

/// Decodes a part of a URL; `what` is its name for the error.
pub fn decoded(part: &str, what: &str) -> Result<String, UrlError> {
    let wrong = || UrlError::Encoding(what.to_owned());
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or_else(wrong);
        // Two hexadecimal digits are less than 256.
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = after;
    }
    // A null byte would end the string within a message to the server.
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).ok_or_else(wrong)
}

/// Encodes everything except letters, digits and characters that have no meaning anywhere.
pub(super) fn encoded(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => write!(text, "%{byte:02X}").expect("a string takes all"),
        }
    }
    text
}
