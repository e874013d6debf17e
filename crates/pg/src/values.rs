//! Values as they travel: parameters by the type that the server asked for, columns by the type that it returns.
//!
//! Numbers, dates and times travel in PostgreSQL's binary formats, everything else as text. What a [`Value`] cannot
//! hold (fractions, identifiers, JSON) comes as the server's own text.

pub mod cell;
pub mod fields;
pub mod numeric;
pub mod oid;
pub(crate) mod parameter;

/// A parameter of a statement, or a value of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// An integer, the days from 1970-01-01 to a date, the microseconds from there to a timestamp, or 0 and 1 for false and
    /// true.
    Int(i64),
    /// Any other value, as the server writes it.
    Text(&'a str),
}

/// Receives the result of a statement.
pub trait RowSink {
    /// Forgets what it has received.
    fn clear(&mut self);

    /// A row begins, of that many values. All rows of a result have the same number.
    fn start(&mut self, columns: usize);

    /// The next value of the row.
    fn append(&mut self, value: Value<'_>);

    /// The statement returns no rows and has changed that many.
    fn set_affected(&mut self, rows: u64);
}

/// Days from 1970-01-01, where ours begin, to 2000-01-01, where the server's do.
pub const DAYS_TO_2000: i64 = 10_957;

/// Microseconds between the same two.
pub const MICROSECONDS_TO_2000: i64 = DAYS_TO_2000 * 86_400_000_000;

/// The bytes of a `bytea` as the server writes it with `bytea_output = hex`: `\x` and two digits for each. `None` for
/// any other text.
pub fn bytea(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests;
