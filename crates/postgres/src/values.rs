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

#[cfg(test)]
mod tests;
