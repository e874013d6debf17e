//! SQL text cut into tokens, as far as needed to tell strings, comments and code apart.
//!
//! It follows PostgreSQL's own lexical rules: strings with doubled quotes, `E'…'` with backslashes, dollar quotes,
//! nested comments, identifiers in quotes. It never fails: a string or comment that is not closed is one token up to
//! the end of the text.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Spaces and line ends.
    Space,
    /// A comment, with its marks.
    Comment,
    /// A key word or an identifier without quotes.
    Word,
    /// An identifier in double quotes.
    QuotedName,
    /// A string in any of its forms, quotes included.
    Text,
    /// A number.
    Number,
    /// `:name`; the token includes the colon.
    Parameter,
    /// `$1`.
    Positional,
    /// One character of anything else, but `::` and `:=` together.
    Sign,
}

/// A token and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Its kind.
    pub(super) kind: TokenKind,
    /// Where, in bytes.
    pub(super) span: Range<usize>,
}

/// Every token of a text, without gaps: joined they are the text.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    Lexer::new(text).collect()
}

/// Cuts a text into tokens, one after the other.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// The open brackets, innermost last.
    brackets: Vec<u8>,
    /// Whether the last token other than spaces and comments could be the left side of an operator: within square
    /// brackets, a colon after it is that of a slice.
    after_operand: bool,
}

/// Words after which an expression begins.
const NO_OPERANDS: [&str; 12] =
    ["when", "then", "else", "and", "or", "not", "in", "case", "between", "like", "is", "any"];

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_name(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit()
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let start = self.at;
        if start >= self.text.len() {
            return None;
        }
        let kind = self.scan();
        match kind {
            // Words and signs have set `after_operand` already.
            TokenKind::Space | TokenKind::Comment | TokenKind::Word | TokenKind::Sign => {}
            _ => self.after_operand = true,
        }
        Some(Token { kind, span: start..self.at })
    }
}

impl<'a> Lexer<'a> {
    /// From the beginning of a text.
    pub(super) fn new(text: &'a str) -> Self {
        Lexer { text, at: 0, brackets: Vec::new(), after_operand: false }
    }

    /// Goes on from another place, where a new statement begins.
    pub(super) fn go_on_at(&mut self, at: usize) {
        (self.at, self.after_operand) = (at, false);
        self.brackets.clear();
    }

    /// The byte `ahead` bytes after the current one; 0 at the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_while(&mut self, keep: impl Fn(u8) -> bool) {
        let bytes = &self.text.as_bytes()[self.at..];
        self.at += bytes.iter().position(|byte| !keep(*byte)).unwrap_or(bytes.len());
    }

    /// Moves past the next occurrence of an end mark, or to the end of the text.
    fn skip_past(&mut self, end: &str) {
        self.at += self.rest().find(end).map_or(self.rest().len(), |at| at + end.len());
    }

    fn scan(&mut self) -> TokenKind {
        match self.peek(0) {
            byte if byte.is_ascii_whitespace() => {
                self.skip_while(|byte| byte.is_ascii_whitespace());
                TokenKind::Space
            }
            b'-' if self.peek(1) == b'-' => {
                self.skip_while(|byte| byte != b'\n');
                TokenKind::Comment
            }
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'\'' => self.string(false),
            b'e' | b'E' if self.peek(1) == b'\'' => {
                self.at += 1;
                self.string(true)
            }
            b'"' => {
                self.at += 1;
                self.skip_past("\"");
                TokenKind::QuotedName
            }
            b'$' => self.dollar(),
            byte if is_name_start(byte) => self.word(),
            byte if byte.is_ascii_digit() || (byte == b'.' && self.peek(1).is_ascii_digit()) => self.number(),
            b':' => self.colon(),
            _ => self.sign(),
        }
    }

    fn block_comment(&mut self) -> TokenKind {
        let mut depth = 0;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            match rest {
                [b'/', b'*', ..] => (depth, self.at) = (depth + 1, self.at + 2),
                [b'*', b'/', ..] => (depth, self.at) = (depth - 1, self.at + 2),
                [] => return TokenKind::Comment,
                _ => self.at += 1,
            }
            if depth == 0 {
                return TokenKind::Comment;
            }
        }
    }

    /// A string from its quote on. A doubled quote is read as the end of one string and the beginning of the next, with
    /// the same result.
    fn string(&mut self, has_escapes: bool) -> TokenKind {
        self.at += 1;
        while self.at < self.text.len() {
            match self.peek(0) {
                b'\\' if has_escapes => self.at += 2,
                b'\'' if self.peek(1) == b'\'' => self.at += 2,
                b'\'' => {
                    self.at += 1;
                    return TokenKind::Text;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.text.len();
        TokenKind::Text
    }

    /// `$1`, `$$ … $$`, `$tag$ … $tag$`, or a lonely dollar sign.
    fn dollar(&mut self) -> TokenKind {
        if self.peek(1).is_ascii_digit() {
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
            return TokenKind::Positional;
        }
        let rest = self.rest();
        let tag = rest[1..].bytes().take_while(|byte| is_name(*byte)).count();
        if rest.as_bytes().get(tag + 1) != Some(&b'$') {
            return self.sign();
        }
        let mark = rest[..tag + 2].to_owned();
        self.at += mark.len();
        self.skip_past(&mark);
        TokenKind::Text
    }

    fn word(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_while(|byte| is_name(byte) || byte == b'$');
        let word = &self.text[start..self.at];
        self.after_operand = !NO_OPERANDS.iter().any(|known| word.eq_ignore_ascii_case(known));
        TokenKind::Word
    }

    fn number(&mut self) -> TokenKind {
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'));
        TokenKind::Number
    }

    /// A cast, an assignment, the colon of a slice, or a parameter.
    fn colon(&mut self) -> TokenKind {
        let is_slice = self.brackets.last() == Some(&b'[') && self.after_operand;
        match self.peek(1) {
            b':' | b'=' => {
                self.at += 2;
                self.after_operand = false;
                TokenKind::Sign
            }
            byte if is_name_start(byte) && !is_slice => {
                self.at += 1;
                self.skip_while(is_name);
                TokenKind::Parameter
            }
            _ => self.sign(),
        }
    }

    fn sign(&mut self) -> TokenKind {
        let byte = self.peek(0);
        match byte {
            b'(' | b'[' => self.brackets.push(byte),
            b')' | b']' => drop(self.brackets.pop()),
            _ => {}
        }
        self.after_operand = matches!(byte, b')' | b']');
        // Every byte above 127 begins a name, so that this is one character.
        self.at += 1;
        TokenKind::Sign
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expect: &[(TokenKind, &str)]) {
        let found = tokens(text);
        let found: Vec<(TokenKind, &str)> = found
            .iter()
            .filter(|token| token.kind != TokenKind::Space)
            .map(|token| (token.kind, &text[token.span.clone()]))
            .collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn tokens_are_those_of_postgresql() {
        use TokenKind::{Comment, Number, Parameter, Positional, QuotedName, Sign, Text, Word};
        check("a:b", &[(Word, "a"), (Parameter, ":b")]);
        check("x::int", &[(Word, "x"), (Sign, "::"), (Word, "int")]);
        check(":x::int", &[(Parameter, ":x"), (Sign, "::"), (Word, "int")]);
        check("f(a := :b)", &[(Word, "f"), (Sign, "("), (Word, "a"), (Sign, ":="), (Parameter, ":b"), (Sign, ")")]);
        check("'it''s :x'", &[(Text, "'it''s :x'")]);
        check(r"E'a\' :x' :y", &[(Text, r"E'a\' :x'"), (Parameter, ":y")]);
        check("U&'x :y'", &[(Word, "U"), (Sign, "&"), (Text, "'x :y'")]);
        check("$$ :x $$:y", &[(Text, "$$ :x $$"), (Parameter, ":y")]);
        check("$a$ $$ :x $b$ $a$", &[(Text, "$a$ $$ :x $b$ $a$")]);
        check("a$b$ :c", &[(Word, "a$b$"), (Parameter, ":c")]);
        check("$1 $x", &[(Positional, "$1"), (Sign, "$"), (Word, "x")]);
        check(
            "\"a:b\"\"c\" -- :d\n:e",
            &[(QuotedName, "\"a:b\""), (QuotedName, "\"c\""), (Comment, "-- :d"), (Parameter, ":e")],
        );
        check("/* a /* :b */ :c */ :d", &[(Comment, "/* a /* :b */ :c */"), (Parameter, ":d")]);
        check("1.5e3 .5 : x", &[(Number, "1.5e3"), (Number, ".5"), (Sign, ":"), (Word, "x")]);
        check(":1x", &[(Sign, ":"), (Number, "1x")]);
        check("/* open :x", &[(Comment, "/* open :x")]);
        check("'open :x", &[(Text, "'open :x")]);
        check("straße :größe", &[(Word, "straße"), (Parameter, ":größe")]);
    }

    /// A colon within square brackets is that of a slice if it follows an operand.
    #[test]
    fn slices_are_no_parameters() {
        for (text, expect) in [
            ("a[1:2]", &[][..]),
            ("a[1:n]", &[]),
            ("a[x:y]", &[]),
            ("a[(1):n]", &[]),
            ("a[:n]", &[":n"]),
            ("a[:lo: :hi]", &[":lo", ":hi"]),
            ("a[:lo:hi]", &[":lo"]),
            ("array[:a, :b]", &[":a", ":b"]),
            ("array[1 + :b]", &[":b"]),
            ("a[case when :x then :y else :z end:n]", &[":x", ":y", ":z"]),
            ("a[f(1, :x):n]", &[":x"]),
            ("a[f(x :y)]", &[":y"]),
            ("select a :y", &[":y"]),
        ] {
            let found = tokens(text);
            let found: Vec<&str> = found
                .iter()
                .filter(|token| token.kind == TokenKind::Parameter)
                .map(|token| &text[token.span.clone()])
                .collect();
            assert_eq!(found, expect, "{text}");
        }
    }

    proptest! {
        #[test]
        fn tokens_cover_every_text(text in "(\\PC|[\\n'\":$;/*\\-\\[\\]()])*") {
            let mut at = 0;
            for token in tokens(&text) {
                prop_assert_eq!(token.span.start, at);
                prop_assert!(token.span.end > at);
                prop_assert!(text.is_char_boundary(token.span.end));
                at = token.span.end;
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
