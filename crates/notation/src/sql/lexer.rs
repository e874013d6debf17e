//! SQL cut into pieces as PostgreSQL does, for any bytes.
//!
//! The ends of pieces matter: text within a literal, a comment or a quoted name is not a word. The rules are those of
//! PostgreSQL's own lexer (`scan.l`), in the order of its chapter *Lexical Structure*:
//!
//! - Literals: `'…'` with `''` for a quote; `E'…'` with backslashes, too, as `'…'` has with
//!   `standard_conforming_strings` off; `B'…'`, `X'…'`, `N'…'`, `U&'…'`; literals continue after white space with a
//!   line break and another quote;
//! - `$tag$…$tag$`; names in `"…"` and `U&"…"` with `""` for a quote;
//! - comments to the end of the line after `--`, and `/*…*/`, which nest;
//! - operators are runs of operator characters up to a comment; a run of more than one ends in `+` or `-` only with one
//!   of ``~!@#^&|`?%`` in it.
//!
//! Bytes from 128 on are letters. That is right for every encoding that a server can have. In client-only encodings,
//! such as SJIS, BIG5 and GBK, a trailing byte may be a letter, a digit, or one of ``@[\]^`{|}~``. The lexer then skips
//! whole characters in words, in tags, and in literals with escapes. Elsewhere this is not needed: no trailing byte is
//! a quote, a dollar sign, a semicolon, or part of a comment's delimiters.
//!
//! A piece that is not closed extends to the end of the text. Every byte is examined a bounded number of times, so that
//! reading takes time in proportion to the length, and nothing is allocated.

use memchr::{memchr, memchr2, memmem};

use super::rules::{Strings, TextRules};

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A key word or a name that is not quoted.
    Word,
    /// A name in quotes, the quotes included.
    Quoted,
    /// A literal of any form but a number, its prefix and quotes included.
    Literal,
    /// A number, without a sign.
    Number,
    /// `$1`.
    Parameter,
    /// An operator, `::` and `:=` included.
    Operator,
    /// One of `( ) [ ] , ; . :`, or a byte that has no meaning.
    Mark,
    /// `/*…*/`. Comments after `--` are not pieces.
    Comment,
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// Its kind.
    pub kind: TokenKind,
    /// Its text, unchanged.
    pub text: &'a [u8],
}

impl Token<'_> {
    /// Whether it is that word, given in lower case, in any case of letters.
    #[inline]
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(word.as_bytes())
    }

    /// Whether it is that mark.
    #[inline]
    pub fn is_mark(&self, mark: u8) -> bool {
        self.kind == TokenKind::Mark && self.text == [mark]
    }
}

/// The pieces of a text, in order.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    rules: TextRules,
    /// Up to here each sign is an operator of its own: the rest of a run that may not end in these signs.
    signs_until: usize,
}

impl<'a> Lexer<'a> {
    /// The pieces of a text without its closing zero.
    pub fn new(text: &'a [u8], rules: impl Into<TextRules>) -> Self {
        Lexer { text, at: 0, rules: rules.into(), signs_until: 0 }
    }

    /// The byte `ahead` bytes further on; 0 beyond the end, which begins no piece.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Whether a backslash escapes in plain literals.
    fn has_escapes(&self) -> bool {
        self.rules.strings == Strings::Escaped
    }

    fn starts_with(&self, begin: &[u8]) -> bool {
        self.text[self.at..].starts_with(begin)
    }

    /// Skips white space and comments after `--`.
    fn skip_space(&mut self) {
        loop {
            if is_space(self.peek(0)) {
                self.at += 1;
            } else if self.starts_with(b"--") {
                self.at = end_of_line(self.text, self.at);
            } else {
                return;
            }
        }
    }

    /// The kind and the end of the piece that begins here.
    fn read(&self) -> (TokenKind, usize) {
        let first = self.peek(0);
        match first {
            b'\'' => (TokenKind::Literal, self.end_of_literal(self.at, self.has_escapes())),
            b'"' => (TokenKind::Quoted, self.end_of_quoted(self.at)),
            b'$' => self.dollar(),
            b'0'..=b'9' => (TokenKind::Number, self.end_of_number()),
            b'.' if self.peek(1).is_ascii_digit() => (TokenKind::Number, self.end_of_number()),
            b'/' if self.peek(1) == b'*' => (TokenKind::Comment, end_of_comment(self.text, self.at)),
            b':' if matches!(self.peek(1), b':' | b'=') => (TokenKind::Operator, self.at + 2),
            _ if begins_word(first) => self.word(),
            _ if is_operator(first) => (TokenKind::Operator, self.end_of_operator()),
            _ => (TokenKind::Mark, self.at + 1),
        }
    }

    /// A word, or the literal or name whose prefix it is.
    fn word(&self) -> (TokenKind, usize) {
        match (self.peek(0).to_ascii_lowercase(), self.peek(1), self.peek(2)) {
            (b'e', b'\'', _) => return (TokenKind::Literal, self.end_of_literal(self.at + 1, true)),
            (b'b' | b'x', b'\'', _) => return (TokenKind::Literal, self.end_of_literal(self.at + 1, false)),
            (b'n', b'\'', _) => {
                return (TokenKind::Literal, self.end_of_literal(self.at + 1, self.has_escapes()));
            }
            (b'u', b'&', b'\'') => return (TokenKind::Literal, self.end_of_literal(self.at + 2, false)),
            (b'u', b'&', b'"') => return (TokenKind::Quoted, self.end_of_quoted(self.at + 2)),
            _ => {}
        }
        (TokenKind::Word, self.end_of_word(self.at, goes_on_word))
    }

    /// `$1`, `$tag$…$tag$`, or a dollar sign without a meaning.
    fn dollar(&self) -> (TokenKind, usize) {
        if self.peek(1).is_ascii_digit() {
            return (TokenKind::Parameter, self.end_of(self.at + 1, |byte| byte.is_ascii_digit()));
        }
        let tag_end = if begins_word(self.peek(1)) {
            self.end_of_word(self.at + 1, |byte| goes_on_word(byte) && byte != b'$')
        } else {
            self.at + 1
        };
        if self.text.get(tag_end) != Some(&b'$') {
            return (TokenKind::Mark, self.at + 1);
        }
        let (delimiter, body) = self.text[self.at..].split_at(tag_end + 1 - self.at);
        let length = memmem::find(body, delimiter).map_or(body.len(), |at| at + delimiter.len());
        (TokenKind::Literal, tag_end + 1 + length)
    }

    /// The end of a literal whose quote is at `quote`, including parts that follow in other lines.
    fn end_of_literal(&self, quote: usize, has_escapes: bool) -> usize {
        let mut at = quote + 1;
        loop {
            let next = match has_escapes {
                true => self.next_escape_or_quote(at),
                false => memchr(b'\'', &self.text[at..]).map(|next| at + next),
            };
            let Some(next) = next else { return self.text.len() };
            if self.text[next] == b'\\' {
                // A backslash escapes a character, which may be longer than a byte.
                let escaped = self.text.get(next + 1..).unwrap_or_default();
                at = (next + 1 + self.rules.encoding.length(escaped)).min(self.text.len());
            } else if self.text.get(next + 1) == Some(&b'\'') {
                // A quote that is doubled.
                at = (next + 2).min(self.text.len());
            } else if let Some(more) = continues(self.text, next + 1) {
                at = more + 1;
            } else {
                return next + 1;
            }
        }
    }

    /// The end of a name whose quote is at `quote`.
    fn end_of_quoted(&self, quote: usize) -> usize {
        let mut at = quote + 1;
        loop {
            let Some(next) = memchr(b'"', &self.text[at..]).map(|next| at + next) else { return self.text.len() };
            if self.text.get(next + 1) != Some(&b'"') {
                return next + 1;
            }
            at = next + 2;
        }
    }

    /// The end of a number. Letters after it begin a word, as before PostgreSQL 15, which made them an error.
    fn end_of_number(&self) -> usize {
        let digits = |from: usize, is_digit: fn(u8) -> bool| {
            let is_part = |at: usize| {
                let byte = self.text.get(at).copied().unwrap_or(0);
                is_digit(byte) || byte == b'_' && self.text.get(at + 1).copied().is_some_and(is_digit)
            };
            (from..).find(|at| !is_part(*at)).unwrap_or(from)
        };
        let decimal = |byte: u8| byte.is_ascii_digit();
        let with_base: Option<fn(u8) -> bool> = match (self.peek(0), self.peek(1).to_ascii_lowercase()) {
            (b'0', b'x') => Some(|byte| byte.is_ascii_hexdigit()),
            (b'0', b'o' | b'b') => Some(|byte| byte.is_ascii_digit()),
            _ => None,
        };
        if let Some(is_digit) = with_base {
            let end = digits(self.at + 2, is_digit);
            if end > self.at + 2 {
                return end;
            }
        }
        let mut end = digits(self.at, decimal);
        // `1..10` are two numbers with dots between them.
        if self.text.get(end) == Some(&b'.') && self.text.get(end + 1) != Some(&b'.') {
            end = digits(end + 1, decimal);
        }
        if self.text.get(end).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'e')) {
            let signed = matches!(self.text.get(end + 1), Some(b'+' | b'-'));
            let from = end + 1 + usize::from(signed);
            let exponent = digits(from, decimal);
            if exponent > from {
                end = exponent;
            }
        }
        end
    }

    fn end_of_operator(&self) -> usize {
        let mut end = self.at;
        let mut may_end_in_sign = false;
        while let Some(&byte) = self.text.get(end).filter(|byte| is_operator(**byte)) {
            let next = self.text.get(end + 1);
            if (byte, next) == (b'-', Some(&b'-')) || (byte, next) == (b'/', Some(&b'*')) {
                break;
            }
            may_end_in_sign |= !b"+-*/<>=".contains(&byte);
            end += 1;
        }
        if may_end_in_sign {
            return end;
        }
        let signs = self.text[self.at..end].iter().rev().take_while(|byte| is_sign(**byte)).count();
        (end - signs).max(self.at + 1)
    }

    fn end_of(&self, from: usize, is_part: fn(u8) -> bool) -> usize {
        self.text[from..].iter().position(|byte| !is_part(*byte)).map_or(self.text.len(), |length| from + length)
    }

    /// The end of a word, whose characters may be longer than a byte.
    fn end_of_word(&self, from: usize, is_part: fn(u8) -> bool) -> usize {
        if self.rules.encoding.is_ascii_safe() {
            return self.end_of(from, is_part);
        }
        let mut at = from;
        while let Some(&first) = self.text.get(at).filter(|first| is_part(**first)) {
            at += if first < 0x80 { 1 } else { self.rules.encoding.length(&self.text[at..]) };
        }
        at
    }

    /// The first quote or backslash from `from` on.
    fn next_escape_or_quote(&self, from: usize) -> Option<usize> {
        if self.rules.encoding.is_ascii_safe() {
            return memchr2(b'\'', b'\\', &self.text[from..]).map(|next| from + next);
        }
        let mut at = from;
        while let Some(&first) = self.text.get(at) {
            if matches!(first, b'\'' | b'\\') {
                return Some(at);
            }
            at += if first < 0x80 { 1 } else { self.rules.encoding.length(&self.text[at..]) };
        }
        None
    }

    /// The end of the signs after an operator, computed once so that they are not examined again and again.
    fn end_of_signs(&self, from: usize) -> usize {
        let is_comment = |at: usize| self.text[at..].starts_with(b"--");
        let is_sign = |at: &usize| self.text.get(*at).copied().is_some_and(is_sign) && !is_comment(*at);
        (from..).find(|at| !is_sign(at)).unwrap_or(from)
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if self.at < self.signs_until {
            self.at += 1;
            return Some(Token { kind: TokenKind::Operator, text: &self.text[self.at - 1..self.at] });
        }
        self.skip_space();
        if self.at >= self.text.len() {
            return None;
        }
        let (kind, end) = self.read();
        let text = &self.text[self.at..end];
        self.at = end;
        if kind == TokenKind::Operator && !text.starts_with(b":") {
            self.signs_until = self.end_of_signs(end);
        }
        Some(Token { kind, text })
    }
}

/// Where a literal closed before `from` continues: at a quote after white space with a line break.
fn continues(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    let mut has_break = false;
    loop {
        match text.get(at) {
            Some(b'\n' | b'\r') => has_break = true,
            Some(byte) if is_space(*byte) => {}
            Some(b'-') if text[at..].starts_with(b"--") => {
                at = end_of_line(text, at);
                continue;
            }
            Some(b'\'') if has_break => return Some(at),
            _ => return None,
        }
        at += 1;
    }
}

/// The line break after `from`, or the end of the text.
fn end_of_line(text: &[u8], from: usize) -> usize {
    memchr2(b'\n', b'\r', &text[from..]).map_or(text.len(), |length| from + length)
}

/// The end of the comment that begins at `from` with `/*`; others within it are part of it.
fn end_of_comment(text: &[u8], from: usize) -> usize {
    let mut depth = 1_usize;
    let mut at = from + 2;
    while let Some(next) = memchr2(b'*', b'/', &text[at..]).map(|next| at + next) {
        at = match (text[next], text.get(next + 1)) {
            (b'*', Some(b'/')) => {
                depth -= 1;
                next + 2
            }
            (b'/', Some(b'*')) => {
                depth += 1;
                next + 2
            }
            _ => next + 1,
        };
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// White space; PostgreSQL 16 has added the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c')
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn goes_on_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn is_operator(byte: u8) -> bool {
    b"~!@#^&|`?+-*/%<>=".contains(&byte)
}

fn is_sign(byte: u8) -> bool {
    matches!(byte, b'+' | b'-')
}

#[cfg(test)]
mod tests;
