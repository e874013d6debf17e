//! The words, signs and values of an expression.

use super::ExpressionError;
use crate::file::datum::Datum;

/// The smallest part of an expression that means something.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lexeme {
    /// A number.
    Value(Datum),
    /// 9223372036854775808, which is a number only after a minus.
    LeastMagnitude,
    /// `:name`, without the colon.
    Variable(String),
    /// A key word or a function's name, in lower case.
    Word(String),
    /// An operator, a parenthesis or a comma.
    Sign(&'static str),
}

/// A lexeme and its place, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedLexeme {
    pub(super) at: usize,
    pub(super) lexeme: Lexeme,
}

/// Longer signs come before those that they begin with.
const SIGNS: [&str; 20] =
    ["<=", ">=", "<>", "!=", "<<", ">>", "<", ">", "=", "+", "-", "*", "/", "%", "|", "&", "#", "~", "(", ")"];

/// Cuts an expression into lexemes.
pub(super) fn scan(text: &str) -> Result<Vec<PlacedLexeme>, ExpressionError> {
    let mut scanned = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let is_number = |text: &str| {
            let digits = text.trim_start_matches('.');
            text.len() - digits.len() <= 1 && digits.starts_with(|c: char| c.is_ascii_digit())
        };
        let (length, lexeme) = match first {
            _ if first.is_whitespace() => {
                at += first.len_utf8();
                continue;
            }
            // A line may be continued.
            '\\' if rest[1..].trim_start_matches('\r').starts_with('\n') => {
                at += 1;
                continue;
            }
            ':' if rest[1..].starts_with(is_name) => {
                let length = name_length(&rest[1..]);
                (length + 1, Lexeme::Variable(rest[1..=length].to_owned()))
            }
            ',' => (1, Lexeme::Sign(",")),
            _ if is_number(rest) => number(rest, at)?,
            _ if is_name(first) => {
                let length = name_length(rest);
                (length, Lexeme::Word(rest[..length].to_lowercase()))
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (sign.len(), Lexeme::Sign(sign)),
                None => return Err(ExpressionError { at, message: format!("`{first}` means nothing here") }),
            },
        };
        scanned.push(PlacedLexeme { at, lexeme });
        at += length;
    }
    Ok(scanned)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn name_length(text: &str) -> usize {
    text.find(|c| !is_name(c)).unwrap_or(text.len())
}

/// A number and its length.
fn number(text: &str, at: usize) -> Result<(usize, Lexeme), ExpressionError> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut is_whole = true;
    if bytes.get(length) == Some(&b'.') {
        length += 1 + digits(length + 1);
        is_whole = false;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + sign).map_or(0, |_| digits(length + 1 + sign));
        if exponent > 0 {
            length += 1 + sign + exponent;
            is_whole = false;
        }
    }
    let typed = &text[..length];
    let out_of_range = || ExpressionError { at, message: format!("{typed} is out of the range of bigint") };
    let lexeme = match (is_whole, typed) {
        (true, "9223372036854775808") => Lexeme::LeastMagnitude,
        (true, _) => Lexeme::Value(Datum::Int(typed.parse().map_err(|_| out_of_range())?)),
        (false, _) => Lexeme::Value(Datum::Double(typed.parse().expect("digits with a point or an exponent"))),
    };
    Ok((length, lexeme))
}
