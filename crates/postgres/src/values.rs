//! Values as they travel: parameters by the type that the server asked for, columns by the type that it returns.
//!
//! Numbers, dates and times travel in PostgreSQL's binary formats, everything else as text. What a
//! [`Value`](plimsoll_workload::statement::Value) cannot hold (fractions, identifiers, JSON) comes as the server's own text.

pub(crate) mod cell;
pub(crate) mod fields;
pub(crate) mod numeric;
pub(crate) mod oid;
pub(crate) mod parameter;

/// Days from 1970-01-01, where ours begin, to 2000-01-01, where the server's do.
pub(crate) const DAYS_TO_2000: i64 = 10_957;

/// Microseconds between the same two.
pub(crate) const MICROSECONDS_TO_2000: i64 = DAYS_TO_2000 * 86_400_000_000;

/// The bytes of a `bytea` as the server writes it with `bytea_output = hex`: `\x` and two digits for each. `None` for
/// any other text.
pub fn bytea(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests;
