//! The types of PostgreSQL that queries compute with, and how DataFusion keeps their values.

use std::fmt;

use arrow::datatypes::{DataType, TimeUnit};

use super::{Result, refused};

/// The digits of a [`Kind::Quotient`], and how many of them are behind the point.
pub const QUOTIENT: (u8, i8) = (76, 38);

/// The most digits of a [`Kind::Numeric`].
pub const NUMERIC_DIGITS_MAX: u8 = 38;

/// A type of PostgreSQL, or a finer one where it tells what can be computed with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string literal or NULL, whose type follows from its surroundings.
    Unknown,
    /// `boolean`.
    Boolean,
    /// `integer`.
    Integer,
    /// `bigint`.
    Bigint,
    /// `numeric`, with digits and digits behind the point.
    Numeric(u8, i8),
    /// `numeric` that a division made: the number of its digits behind the point depends on the value.
    Quotient(u8, i8),
    /// `text` or `varchar`.
    Text,
    /// `date`.
    Date,
    /// `timestamp`.
    Timestamp,
    /// `timestamp` at midnight, kept as a date: what a date plus whole days or months is.
    Midnight,
    /// `interval`, only as a literal.
    Interval,
    /// A type that nothing is computed with.
    Other,
}

impl Kind {
    /// The kind of a column or of an expression of known meaning.
    pub fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Null => Kind::Unknown,
            DataType::Boolean => Kind::Boolean,
            DataType::Int32 => Kind::Integer,
            DataType::Int64 => Kind::Bigint,
            DataType::Decimal128(digits, scale) if *scale >= 0 => Kind::Numeric(*digits, *scale),
            DataType::Decimal256(digits, scale) if *scale >= 0 => Kind::Quotient(*digits, *scale),
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => Kind::Text,
            DataType::Date32 => Kind::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Kind::Timestamp,
            _ => Kind::Other,
        }
    }

    /// How values are kept.
    pub fn data_type(self) -> DataType {
        match self {
            Kind::Boolean => DataType::Boolean,
            Kind::Integer => DataType::Int32,
            Kind::Bigint => DataType::Int64,
            Kind::Numeric(digits, scale) => DataType::Decimal128(digits, scale),
            Kind::Quotient(digits, scale) => DataType::Decimal256(digits, scale),
            Kind::Text => DataType::Utf8View,
            Kind::Date | Kind::Midnight => DataType::Date32,
            Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Unknown | Kind::Interval | Kind::Other => DataType::Null,
        }
    }

    /// Whether it is a number.
    pub fn is_number(self) -> bool {
        matches!(self, Kind::Integer | Kind::Bigint | Kind::Numeric(..) | Kind::Quotient(..))
    }

    /// Whether it is `integer` or `bigint`.
    pub fn is_whole(self) -> bool {
        matches!(self, Kind::Integer | Kind::Bigint)
    }

    /// A number as digits before the point and behind it.
    fn digits(self) -> (i16, i16) {
        match self {
            Kind::Integer => (10, 0),
            Kind::Bigint => (19, 0),
            Kind::Numeric(digits, scale) | Kind::Quotient(digits, scale) => {
                (i16::from(digits) - i16::from(scale), i16::from(scale))
            }
            _ => (0, 0),
        }
    }

    /// The number as `numeric`.
    pub fn as_numeric(self) -> Kind {
        match self {
            Kind::Integer => Kind::Numeric(10, 0),
            Kind::Bigint => Kind::Numeric(19, 0),
            other => other,
        }
    }

    /// Whether each value of this number is one of the other, unchanged.
    pub fn fits(self, other: Kind) -> bool {
        let ((whole, behind), (whole_max, behind_max)) = (self.digits(), other.digits());
        let is_kept = match other {
            Kind::Integer => self == Kind::Integer,
            Kind::Bigint => self.is_whole(),
            _ => true,
        };
        is_kept && whole <= whole_max && behind <= behind_max
    }

    /// The type of values of both, as PostgreSQL chooses it for CASE, COALESCE, UNION and comparisons.
    pub fn common(self, other: Kind) -> Result<Kind> {
        let is_moment = |kind| matches!(kind, Kind::Date | Kind::Timestamp | Kind::Midnight);
        match (self, other) {
            (a, b) if a == b => Ok(a),
            (Kind::Unknown, known) | (known, Kind::Unknown) => Ok(known),
            (a, b) if a.is_whole() && b.is_whole() => Ok(Kind::Bigint),
            (a, b) if a.is_number() && b.is_number() => numeric_of_both(a, b),
            (a, b) if is_moment(a) && is_moment(b) => Ok(Kind::Timestamp),
            (a, b) => refused(format_args!("{a} and {b} together"), "cast one of them to the type of the other"),
        }
    }
}

/// More digits than [`NUMERIC_DIGITS_MAX`] need the room of a quotient.
fn numeric_of_both(a: Kind, b: Kind) -> Result<Kind> {
    let ((whole_a, behind_a), (whole_b, behind_b)) = (a.digits(), b.digits());
    let (whole, behind) = (whole_a.max(whole_b), behind_a.max(behind_b));
    let digits = (whole + behind).min(i16::from(QUOTIENT.0)) as u8;
    let is_quotient = [a, b].iter().any(|kind| matches!(kind, Kind::Quotient(..)));
    Ok(match is_quotient || digits > NUMERIC_DIGITS_MAX {
        true => Kind::Quotient(digits, behind as i8),
        false => Kind::Numeric(digits, behind as i8),
    })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Kind::Unknown => f.write_str("a string literal or NULL"),
            Kind::Boolean => f.write_str("boolean"),
            Kind::Integer => f.write_str("integer"),
            Kind::Bigint => f.write_str("bigint"),
            Kind::Numeric(..) => f.write_str("numeric"),
            Kind::Quotient(..) => f.write_str("a quotient or average"),
            Kind::Text => f.write_str("text"),
            Kind::Date => f.write_str("date"),
            Kind::Timestamp | Kind::Midnight => f.write_str("timestamp"),
            Kind::Interval => f.write_str("interval"),
            Kind::Other => f.write_str("another type"),
        }
    }
}
