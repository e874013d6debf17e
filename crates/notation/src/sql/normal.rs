//! Texts without their values: one normal form, and one number, for all texts that differ only in their values.
//!
//! The normal form of a text is made of its tokens:
//!
//! 1. literals, numbers (with their signs) and parameters are `?`;
//! 2. unquoted words are in lower case (ASCII letters only), quoted names are unchanged;
//! 3. `(?, ?, ?)` is `(?)`, and `(?), (?)` is `(?)`, except for the arguments of a function; likewise `[?, ?]` is
//!    `[?]`;
//! 4. comments, white space, and semicolons without a following statement are removed; whether a space separates two
//!    tokens depends only on their kinds.
//!
//! The fingerprint is the first eight bytes, as a number with the most significant byte first, of the SHA-256 of the
//! normal form. It is therefore the same on every machine and in every version; rules in files rely on that, and tests
//! pin some fingerprints. A short, fast hash would not do: a text made to collide would get the class of another.

use std::iter::Peekable;

use sha2::{Digest, Sha256};

use super::{Lexer, TextRules, Token, TokenKind};

/// Key words after which an expression begins or a parenthesis is not a call, in alphabetical order. They are part of
/// the definition of the normal form.
const BEFORE_EXPRESSIONS: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "between",
    "by",
    "case",
    "default",
    "distinct",
    "else",
    "except",
    "exists",
    "filter",
    "from",
    "having",
    "ilike",
    "in",
    "intersect",
    "is",
    "join",
    "like",
    "limit",
    "not",
    "offset",
    "on",
    "or",
    "over",
    "return",
    "returning",
    "row",
    "select",
    "set",
    "some",
    "then",
    "to",
    "union",
    "using",
    "values",
    "when",
    "where",
];

/// A number that is the same for all texts that differ only in their values. The documentation of the module defines it.
///
/// ```
/// use plimsoll_notation::sql::fingerprint;
///
/// assert_eq!(fingerprint(b"select * from t where a in (1, 2)"), fingerprint(b"SELECT *\nFROM t WHERE a IN ($1)"));
/// assert_ne!(fingerprint(b"select a from t"), fingerprint(b"select b from t"));
/// ```
pub fn fingerprint(sql: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    Normaliser::new(sql, |bytes: &[u8]| hash.update(bytes)).run();
    let hash = hash.finalize();
    u64::from_be_bytes(*hash.first_chunk().expect("a SHA-256 has 32 bytes"))
}

/// The normal form of a text, for display; bytes that are not UTF-8 are replaced.
///
/// ```
/// use plimsoll_notation::sql::normalised;
///
/// assert_eq!(normalised(b"SELECT f(1) FROM t WHERE a IN (1,2) -- soon"), "select f(?) from t where a in (?)");
/// ```
pub fn normalised(sql: &[u8]) -> String {
    let mut text = Vec::with_capacity(sql.len());
    Normaliser::new(sql, |bytes: &[u8]| text.extend_from_slice(bytes)).run();
    String::from_utf8_lossy(&text).into_owned()
}

/// Passes the normal form of a text on in parts. Returns whether a value in it depends on the clock, such as `'now'`.
pub fn normalise(sql: &[u8], sink: impl FnMut(&[u8])) -> bool {
    Normaliser::new(sql, sink).run()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Value,
    Word(&'a [u8]),
    Quoted(&'a [u8]),
    Operator(&'a [u8]),
    Mark(&'a [u8]),
}

const COMMA: Piece<'static> = Piece::Mark(b",");
const OPEN: Piece<'static> = Piece::Mark(b"(");

/// The kind of the previous token, as far as it matters for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreviousToken {
    /// The statement has no previous token.
    Nothing,
    /// `(`, `[`, `.` or `::`, after which there is no space.
    Tight,
    /// An operator, `,` or `:`.
    Operator,
    /// A key word after which an expression begins.
    KeyWord,
    /// Any other word, or a quoted name.
    Name,
    /// A value, or a closing `)` or `]`.
    Value,
}

/// A list of values that is being shortened. In the states with `Again` the beginning of another list after a comma is
/// withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// No list is open.
    No,
    /// `(`
    Open,
    /// `(?`
    Values,
    /// `(?` and a withheld comma.
    ValuesComma,
    /// `(?)`
    Closed,
    /// `(?)` and a withheld comma.
    ClosedComma,
    /// `(?)`, withheld: `, (`
    Again,
    /// `(?)`, withheld: `, (?`
    AgainValues,
    /// `(?)`, withheld: `, (?,`
    AgainValuesComma,
}

/// Produces the normal form and passes it on in parts.
struct Normaliser<'a, S> {
    tokens: Peekable<Lexer<'a>>,
    sink: S,
    /// The previous token read, for signs.
    taken: PreviousToken,
    list: List,
    /// The previous token written, for spaces.
    written: PreviousToken,
    /// A semicolon that is written if a statement follows.
    has_semicolon: bool,
}

impl<'a, S: FnMut(&[u8])> Normaliser<'a, S> {
    fn new(sql: &'a [u8], sink: S) -> Self {
        let tokens = Lexer::new(sql, TextRules::default()).peekable();
        let nothing = PreviousToken::Nothing;
        Normaliser { tokens, sink, taken: nothing, list: List::No, written: nothing, has_semicolon: false }
    }

    fn run(mut self) -> bool {
        let mut has_moment = false;
        while let Some(token) = self.tokens.next() {
            let piece = match token.kind {
                TokenKind::Comment => continue,
                TokenKind::Operator if self.is_sign_of_number(&token) => continue,
                TokenKind::Literal => {
                    has_moment |= is_moment(token.text);
                    Piece::Value
                }
                TokenKind::Number | TokenKind::Parameter => Piece::Value,
                TokenKind::Word => Piece::Word(token.text),
                TokenKind::Quoted => Piece::Quoted(token.text),
                TokenKind::Operator => Piece::Operator(token.text),
                TokenKind::Mark if token.is_mark(b';') => {
                    self.end_statement();
                    continue;
                }
                TokenKind::Mark => Piece::Mark(token.text),
            };
            self.shorten(piece);
            self.taken = after(piece);
        }
        self.end_statement();
        has_moment
    }

    /// A sign immediately before a number, if no operand precedes it.
    fn is_sign_of_number(&mut self, token: &Token<'_>) -> bool {
        let may_begin = matches!(
            self.taken,
            PreviousToken::Nothing | PreviousToken::Tight | PreviousToken::Operator | PreviousToken::KeyWord
        );
        let is_sign = matches!(token.text, b"+" | b"-");
        may_begin && is_sign && self.tokens.peek().is_some_and(|next| next.kind == TokenKind::Number)
    }

    fn end_statement(&mut self) {
        self.write_held();
        self.has_semicolon |= self.written != PreviousToken::Nothing;
        (self.taken, self.list, self.written) = (PreviousToken::Nothing, List::No, PreviousToken::Nothing);
    }

    /// Passes on pieces that are not repetitions within a list.
    fn shorten(&mut self, piece: Piece<'_>) {
        let closes = matches!(piece, Piece::Mark(b")" | b"]"));
        let held = match (self.list, piece) {
            (List::Values, COMMA) => Some(List::ValuesComma),
            (List::ValuesComma, Piece::Value) => Some(List::Values),
            (List::Closed, COMMA) => Some(List::ClosedComma),
            (List::ClosedComma, OPEN) => Some(List::Again),
            (List::Again, Piece::Value) => Some(List::AgainValues),
            (List::AgainValues, COMMA) => Some(List::AgainValuesComma),
            (List::AgainValuesComma, Piece::Value) => Some(List::AgainValues),
            (List::AgainValues, _) if closes => Some(List::Closed),
            _ => None,
        };
        if let Some(list) = held {
            self.list = list;
            return;
        }
        let list = self.write_held();
        self.list = match piece {
            // A name is followed by its arguments, or its subscript.
            Piece::Mark(b"(" | b"[") if self.written != PreviousToken::Name => List::Open,
            Piece::Value if list == List::Open => List::Values,
            _ if closes && list == List::Values => List::Closed,
            _ => List::No,
        };
        self.write(piece);
    }

    /// Writes the withheld pieces. Returns the resulting state of the list.
    fn write_held(&mut self) -> List {
        let (held, list): (&[Piece<'_>], List) = match self.list {
            List::ValuesComma | List::ClosedComma => (&[COMMA], List::No),
            List::Again => (&[COMMA, OPEN], List::Open),
            List::AgainValues => (&[COMMA, OPEN, Piece::Value], List::Values),
            List::AgainValuesComma => (&[COMMA, OPEN, Piece::Value, COMMA], List::No),
            list => (&[], list),
        };
        held.iter().for_each(|piece| self.write(*piece));
        list
    }

    fn write(&mut self, piece: Piece<'_>) {
        if std::mem::take(&mut self.has_semicolon) {
            (self.sink)(b"; ");
        } else if needs_space(self.written, piece) {
            (self.sink)(b" ");
        }
        match piece {
            Piece::Value => (self.sink)(b"?"),
            Piece::Word(word) => self.write_lower(word),
            Piece::Quoted(text) | Piece::Operator(text) | Piece::Mark(text) => (self.sink)(text),
        }
        self.written = after(piece);
    }

    fn write_lower(&mut self, word: &[u8]) {
        let mut lower = [0; 64];
        for part in word.chunks(lower.len()) {
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            (self.sink)(lower);
        }
    }
}

fn after(piece: Piece<'_>) -> PreviousToken {
    match piece {
        Piece::Value | Piece::Mark(b")" | b"]") => PreviousToken::Value,
        Piece::Mark(b"(" | b"[" | b".") | Piece::Operator(b"::") => PreviousToken::Tight,
        Piece::Operator(_) | Piece::Mark(_) => PreviousToken::Operator,
        Piece::Quoted(_) => PreviousToken::Name,
        Piece::Word(word) if is_before_expression(word) => PreviousToken::KeyWord,
        Piece::Word(_) => PreviousToken::Name,
    }
}

fn is_before_expression(word: &[u8]) -> bool {
    // Most words differ from most key words in their first letter already.
    let Some(first) = word.first().map(u8::to_ascii_lowercase) else { return false };
    let known = BEFORE_EXPRESSIONS.iter().map(|known| known.as_bytes());
    known.filter(|known| known[0] == first).any(|known| word.eq_ignore_ascii_case(known))
}

fn needs_space(before: PreviousToken, piece: Piece<'_>) -> bool {
    let is_tight = match piece {
        Piece::Mark(b")" | b"]" | b"," | b".") | Piece::Operator(b"::") => true,
        Piece::Mark(b"(") => before == PreviousToken::Name,
        Piece::Mark(b"[") => before != PreviousToken::Operator,
        _ => false,
    };
    !is_tight && !matches!(before, PreviousToken::Nothing | PreviousToken::Tight)
}

/// Whether a literal may be the input of a date or time that depends on the clock.
pub fn is_moment(literal: &[u8]) -> bool {
    const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
    const BYTES_MAX: usize = 64;
    let mut words = literal.split(|byte| !byte.is_ascii_alphabetic());
    literal.len() <= BYTES_MAX && words.any(|word| MOMENTS.iter().any(|it| word.eq_ignore_ascii_case(it.as_bytes())))
}

#[cfg(test)]
mod tests;
