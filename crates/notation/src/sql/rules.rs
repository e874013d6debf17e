//! The session settings that decide how the server reads a text.
//!
//! The server reports both in `ParameterStatus` messages, at the start of a session and after every change.

/// The meaning of a backslash in a plain literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strings {
    /// A backslash, as with `standard_conforming_strings` on.
    #[default]
    Standard,
    /// The beginning of an escape, as with `standard_conforming_strings` off.
    Escaped,
}

/// The lengths of characters in the client's encoding, as far as a lexer must know them.
///
/// In every server encoding, and in most client encodings, all bytes of a non-ASCII character are at least 128. In the other
/// client encodings, a trailing byte may equal an ASCII letter, digit, backslash or another ASCII character. The server is not
/// confused by that, because it converts a text to its own encoding first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// Any other encoding whose non-ASCII characters have no ASCII byte.
    AsciiSafe,
    /// SJIS and SHIFT_JIS_2004: two bytes, but one for half-width katakana (0xA1 to 0xDF).
    ShiftJis,
    /// BIG5, GBK and UHC: two bytes.
    TwoBytes,
    /// JOHAB: two bytes, but three after 0x8F.
    Johab,
    /// GB18030: two bytes, but four if the second is a digit.
    Gb18030,
}

impl Encoding {
    /// The encoding that the parameter `client_encoding` names.
    pub fn of_parameter(value: &[u8]) -> Self {
        let is = |names: &[&str]| names.iter().any(|name| value.eq_ignore_ascii_case(name.as_bytes()));
        if is(&["UTF8", "UTF-8", "UNICODE"]) {
            Encoding::Utf8
        } else if is(&["SJIS", "SHIFT_JIS_2004", "MSKANJI", "SHIFTJIS", "WIN932", "WINDOWS932"]) {
            Encoding::ShiftJis
        } else if is(&["BIG5", "WIN950", "WINDOWS950", "GBK", "WIN936", "WINDOWS936", "UHC", "WIN949", "WINDOWS949"]) {
            Encoding::TwoBytes
        } else if is(&["JOHAB"]) {
            Encoding::Johab
        } else if is(&["GB18030"]) {
            Encoding::Gb18030
        } else {
            Encoding::AsciiSafe
        }
    }

    /// Whether non-ASCII characters have no ASCII byte.
    pub(super) fn is_ascii_safe(self) -> bool {
        matches!(self, Encoding::Utf8 | Encoding::AsciiSafe)
    }

    /// The length in bytes of the first character of `text`, at least 1 and at most the length of `text`. In ASCII-safe
    /// encodings this is 1: a lexer treats every non-ASCII byte as a letter.
    pub fn length(self, text: &[u8]) -> usize {
        let Some(&first) = text.first() else { return 1 };
        let length = match self {
            _ if first < 0x80 => 1,
            Encoding::Utf8 | Encoding::AsciiSafe => 1,
            Encoding::ShiftJis if (0xa1..=0xdf).contains(&first) => 1,
            Encoding::ShiftJis | Encoding::TwoBytes => 2,
            Encoding::Johab if first == 0x8f => 3,
            Encoding::Johab => 2,
            Encoding::Gb18030 if text.get(1).is_some_and(u8::is_ascii_digit) => 4,
            Encoding::Gb18030 => 2,
        };
        length.min(text.len())
    }
}

/// How to read a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextRules {
    /// The meaning of a backslash in a plain literal.
    pub strings: Strings,
    /// The client's encoding.
    pub encoding: Encoding,
}

impl TextRules {
    /// Takes a parameter that the server reported. Returns whether the rules have changed; most parameters do not matter.
    ///
    /// ```
    /// use plimsoll_notation::sql::{Strings, TextRules};
    ///
    /// let mut rules = TextRules::default();
    /// assert!(rules.on_parameter(b"standard_conforming_strings", b"off"));
    /// assert_eq!(rules.strings, Strings::Escaped);
    /// ```
    pub fn on_parameter(&mut self, name: &[u8], value: &[u8]) -> bool {
        let before = *self;
        match name {
            b"standard_conforming_strings" => self.strings = Strings::of_parameter(value),
            b"client_encoding" => self.encoding = Encoding::of_parameter(value),
            _ => {}
        }
        *self != before
    }
}

impl Strings {
    /// The value of the parameter `standard_conforming_strings`.
    pub fn of_parameter(value: &[u8]) -> Self {
        if value.eq_ignore_ascii_case(b"off") { Strings::Escaped } else { Strings::Standard }
    }
}

impl From<Strings> for TextRules {
    fn from(strings: Strings) -> Self {
        TextRules { strings, ..TextRules::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_have_the_lengths_of_the_servers_own_tables() {
        let check = |name: &str, text: &[u8], length: usize| {
            assert_eq!(Encoding::of_parameter(name.as_bytes()).length(text), length, "{name} {text:x?}");
        };
        check("SJIS", b"\x95\x5c'", 2);
        check("shift_jis_2004", b"\x95\x5c'", 2);
        check("SJIS", b"\xb1\x5c", 1);
        check("BIG5", b"\xa5\x5c", 2);
        check("GBK", b"\x81\x5c", 2);
        check("UHC", b"\x81\x5a", 2);
        check("JOHAB", b"\x8f\xa1\xa1", 3);
        check("JOHAB", b"\x84\x5c", 2);
        check("GB18030", b"\x81\x30\x81\x30", 4);
        check("GB18030", b"\x81\x5c", 2);
        for name in ["UTF8", "LATIN1", "EUC_JP", "SQL_ASCII", "KOI8R"] {
            assert!(Encoding::of_parameter(name.as_bytes()).is_ascii_safe(), "{name}");
        }
        check("SJIS", b"\x95", 1);
        check("SJIS", b"", 1);
        check("GBK", b"a\x5c", 1);
    }
}
