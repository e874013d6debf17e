//! Types and values of statements, and PostgreSQL's conversions between them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::numeric::{Numeric, TOO_LARGE};
use crate::schema::ColumnKind;
use crate::statement::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int,
    BigInt,
    Numeric,
    Text,
    Date,
    Timestamp,
    /// Of a fixed length: no months.
    Interval,
}

impl Type {
    /// Whether it is one of numbers.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Type::Int | Type::BigInt | Type::Numeric)
    }

    /// Whether its values are whole numbers.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Type::Int | Type::BigInt | Type::Date | Type::Timestamp | Type::Interval)
    }

    /// Whether a parameter is valid for this type at first sight, so that it need not be read.
    pub(super) fn is_given_by(self, value: Value<'_>) -> bool {
        match (value, self) {
            (Value::Int(number), Type::Int | Type::Date) => i32::try_from(number).is_ok(),
            (Value::Int(_), Type::BigInt | Type::Numeric | Type::Timestamp | Type::Interval) | (Value::Null, _) => true,
            (Value::Text(text), Type::Text) => !text.as_bytes().contains(&0),
            _ => false,
        }
    }

    /// The type of an operator's result for two numbers; a higher type holds all numbers of a lower one.
    pub(super) fn wider(self, other: Type) -> Type {
        match (self, other) {
            (Type::Numeric, _) | (_, Type::Numeric) => Type::Numeric,
            (Type::BigInt, _) | (_, Type::BigInt) => Type::BigInt,
            _ => Type::Int,
        }
    }
}

impl From<ColumnKind> for Type {
    fn from(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Int => Type::Int,
            ColumnKind::BigInt => Type::BigInt,
            ColumnKind::Decimal { .. } => Type::Numeric,
            ColumnKind::Text(_) => Type::Text,
            ColumnKind::Date => Type::Date,
            ColumnKind::Timestamp => Type::Timestamp,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Bool => "boolean",
            Type::Int => "integer",
            Type::BigInt => "bigint",
            Type::Numeric => "numeric",
            Type::Text => "text",
            Type::Date => "date",
            Type::Timestamp => "timestamp",
            Type::Interval => "interval",
        })
    }
}

/// A value. Dates are days since 1970-01-01, timestamps microseconds since then, intervals microseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Numeric(Numeric),
    Text(Cow<'a, str>),
}

/// A value as a column keeps it: of a key or of a new row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoredValue<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
}

impl StoredValue<'_> {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            StoredValue::Null => Value::Null,
            StoredValue::Int(number) => Value::Int(*number),
            StoredValue::Text(text) => Value::Text(text),
        }
    }
}

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

impl<'a> Scalar<'a> {
    /// A parameter as a value of its type.
    pub(super) fn of_parameter(value: Value<'a>, kind: Type) -> Result<Self, String> {
        match (value, kind) {
            (Value::Null, _) => Ok(Scalar::Null),
            (Value::Int(number), Type::Numeric) => Ok(Scalar::Numeric(number.into())),
            (Value::Int(number), Type::Text) => Ok(Scalar::Text(number.to_string().into())),
            (Value::Int(number), Type::Bool) => match number {
                0 | 1 => Ok(Scalar::Bool(number == 1)),
                _ => Err(format!("{number} is out of the range of boolean")),
            },
            (Value::Int(number), _) => in_range(number, kind).map(Scalar::Int),
            (Value::Text(text), Type::Text) if kind.is_given_by(value) => Ok(Scalar::Text(text.into())),
            (Value::Text(_), Type::Text) => Err("text with a byte 0".to_owned()),
            (Value::Text(text), _) => Scalar::parse(text, kind),
        }
    }

    /// Reads a value of any type but text.
    pub(super) fn parse(text: &str, kind: Type) -> Result<Self, String> {
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let wrong = || format!("invalid input for type {kind}: \"{text}\"");
        match kind {
            Type::Text => Ok(Scalar::Text(text.to_owned().into())),
            Type::Int | Type::BigInt => {
                let number = trimmed.parse::<i64>().map_err(|_| wrong())?;
                in_range(number, kind).map(Scalar::Int)
            }
            Type::Numeric => {
                Numeric::parse(trimmed).map(Scalar::Numeric).ok_or_else(|| format!("{}, or {TOO_LARGE}", wrong()))
            }
            Type::Bool => match trimmed.to_ascii_lowercase().as_str() {
                "t" | "true" | "y" | "yes" | "on" | "1" => Ok(Scalar::Bool(true)),
                "f" | "false" | "n" | "no" | "off" | "0" => Ok(Scalar::Bool(false)),
                _ => Err(wrong()),
            },
            Type::Date => date(trimmed).map(Scalar::Int).ok_or_else(|| format!("{}; write 2024-12-31", wrong())),
            Type::Timestamp => {
                timestamp(trimmed).map(Scalar::Int).ok_or_else(|| format!("{}; write 2024-12-31 23:59:59", wrong()))
            }
            Type::Interval => interval(trimmed)
                .map(Scalar::Int)
                .ok_or_else(|| format!("{}; write a number and one of second, minute, hour and day", wrong())),
        }
    }

    /// A value of a type as one of another.
    pub(super) fn cast(self, from: Type, to: Type) -> Result<Self, String> {
        match (self, from, to) {
            (Scalar::Null, _, _) => Ok(Scalar::Null),
            (scalar, from, to) if from == to => Ok(scalar),
            (Scalar::Int(number), Type::Int | Type::BigInt, Type::Numeric) => Ok(Scalar::Numeric(number.into())),
            (Scalar::Int(number), Type::Int | Type::BigInt, Type::Bool) => Ok(Scalar::Bool(number != 0)),
            (Scalar::Int(number), Type::Int | Type::BigInt, Type::Int | Type::BigInt) => {
                in_range(number, to).map(Scalar::Int)
            }
            (Scalar::Bool(is_true), _, Type::Int) => Ok(Scalar::Int(is_true.into())),
            (Scalar::Numeric(number), _, Type::Int | Type::BigInt) => {
                let number = i64::try_from(number.unscaled_at(0)).map_err(|_| out_of_range(to))?;
                in_range(number, to).map(Scalar::Int)
            }
            (Scalar::Int(days), Type::Date, Type::Timestamp) => {
                days.checked_mul(DAY).map(Scalar::Int).ok_or_else(|| out_of_range(to))
            }
            (Scalar::Int(time), Type::Timestamp, Type::Date) => Ok(Scalar::Int(time.div_euclid(DAY))),
            (scalar, _, Type::Text) => Ok(Scalar::Text(scalar.shown().into_owned().into())),
            (Scalar::Text(text), _, _) => Scalar::parse(&text, to),
            (scalar, from, to) => unreachable!("analysis lets no {from} become {to}: {scalar:?}"),
        }
    }

    /// Which of two values of types that compare is greater; neither is null.
    pub(super) fn compare(&self, other: &Scalar<'_>) -> Ordering {
        match (self, other) {
            (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
            (Scalar::Text(a), Scalar::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
            (a, b) => a.number().compare(b.number()),
        }
    }

    /// The number as a numeric.
    pub(super) fn number(&self) -> Numeric {
        match self {
            Scalar::Int(number) => (*number).into(),
            Scalar::Numeric(number) => *number,
            other => unreachable!("analysis takes only numbers for numbers: {other:?}"),
        }
    }

    /// As PostgreSQL shows it, if it is a number, text or a truth value.
    pub(super) fn shown(&self) -> Cow<'_, str> {
        match self {
            Scalar::Null => "".into(),
            Scalar::Bool(is_true) => (if *is_true { "true" } else { "false" }).into(),
            Scalar::Int(number) => number.to_string().into(),
            Scalar::Numeric(number) => number.to_string().into(),
            Scalar::Text(text) => (&**text).into(),
        }
    }

    /// A copy that borrows nothing.
    pub(super) fn into_owned(self) -> Scalar<'static> {
        match self {
            Scalar::Null => Scalar::Null,
            Scalar::Bool(is_true) => Scalar::Bool(is_true),
            Scalar::Int(number) => Scalar::Int(number),
            Scalar::Numeric(number) => Scalar::Numeric(number),
            Scalar::Text(text) => Scalar::Text(text.into_owned().into()),
        }
    }
}

pub(super) fn out_of_range(kind: Type) -> String {
    match kind {
        Type::Numeric => TOO_LARGE.to_owned(),
        _ => format!("{kind} out of range"),
    }
}

/// An integer that must be one of a type.
pub(super) fn in_range(number: i64, kind: Type) -> Result<i64, String> {
    match kind {
        Type::Int | Type::Date if i32::try_from(number).is_err() => Err(out_of_range(kind)),
        _ => Ok(number),
    }
}

/// Days since 1970-01-01 of `2024-12-31`.
fn date(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, '-');
    let mut part = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()));
        part?.parse::<i64>().ok()
    };
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || day == 0 || day > days_in_month {
        return None;
    }
    // Years begin in March, so that the leap day is their last: a month m of these has (153 m + 2) / 5 days before it.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_year = year * 365 + year / 4 - year / 100 + year / 400;
    Some(days_before_year + (153 * month + 2) / 5 + day - 1 - 719_468)
}

/// Microseconds since 1970-01-01 of `2024-12-31 23:59:59.999999`. The seconds, or everything after the day, may be
/// missing.
fn timestamp(text: &str) -> Option<i64> {
    let (day, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut fields = clock.split(':');
    let mut field = |below: i64| {
        let field = fields.next().filter(|field| field.len() == 2 && field.bytes().all(|byte| byte.is_ascii_digit()));
        field?.parse::<i64>().ok().filter(|number| *number < below)
    };
    let (hours, minutes) = (field(24)?, field(60)?);
    let has_seconds = clock.len() > "00:00".len();
    let seconds = if has_seconds { field(60)? } else { 0 };
    let is_fraction = (1..=6).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if fields.next().is_some() || !is_fraction || (time.contains('.') && !has_seconds) {
        return None;
    }
    let microseconds = format!("{fraction:0<6}").parse::<i64>().ok()?;
    Some(date(day)? * DAY + ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + microseconds)
}

/// Microseconds of `1 minute`.
fn interval(text: &str) -> Option<i64> {
    let (number, unit) = text.split_once(' ')?;
    let unit = match unit.trim_start().strip_suffix('s').unwrap_or(unit.trim_start()) {
        "second" => 1_000_000,
        "minute" => 60_000_000,
        "hour" => 3_600_000_000,
        "day" => DAY,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn int(text: &str, kind: Type) -> Option<i64> {
        match Scalar::parse(text, kind) {
            Ok(Scalar::Int(number)) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn dates_and_times_are_counted_from_1970() {
        for (text, expect) in [
            ("1970-01-01", Some(0)),
            ("1969-12-31", Some(-1)),
            ("2000-02-29", Some(11_016)),
            ("2000-03-01", Some(11_017)),
            ("2024-12-31", Some(20_088)),
            ("0001-01-01", Some(-719_162)),
            ("9999-12-31", Some(2_932_896)),
            ("1900-02-29", None),
            ("2024-13-01", None),
            ("2024-1-1", None),
            ("0000-01-01", None),
        ] {
            assert_eq!(int(text, Type::Date), expect, "{text}");
        }
        for (text, expect) in [
            ("1970-01-02", Some(DAY)),
            ("1970-01-01 00:01", Some(60_000_000)),
            ("1970-01-01T23:59:59.5", Some(DAY - 500_000)),
            ("1970-01-01 24:00", None),
            ("1970-01-01 00:00.5", None),
            ("1970-01-01 00:00:00.1234567", None),
            ("1970-01-01 00:00:00+01", None),
        ] {
            assert_eq!(int(text, Type::Timestamp), expect, "{text}");
        }
        for (text, expect) in
            [("1 minute", Some(60_000_000)), ("-2 days", Some(-2 * DAY)), ("1 month", None), ("1", None)]
        {
            assert_eq!(int(text, Type::Interval), expect, "{text}");
        }
    }

    #[test]
    fn parameters_are_read_as_a_server_reads_them() {
        let read = |value: Value<'static>, kind| Scalar::of_parameter(value, kind);
        assert_eq!(read(Value::Int(5), Type::Numeric), Ok(Scalar::Numeric(5.into())));
        assert_eq!(read(Value::Text(" 5 "), Type::Int), Ok(Scalar::Int(5)));
        assert_eq!(read(Value::Int(5), Type::Text), Ok(Scalar::Text("5".into())));
        assert_eq!(read(Value::Text("on"), Type::Bool), Ok(Scalar::Bool(true)));
        assert_eq!(read(Value::Int(1 << 31), Type::Int), Err("integer out of range".to_owned()));
        for (value, kind) in [("5.5", Type::Int), ("x", Type::Bool), ("a\0", Type::Text), ("2", Type::Date)] {
            assert!(read(Value::Text(value), kind).is_err(), "{value}");
        }
    }

    #[test]
    fn casts_round_and_refuse_as_postgresql_does() {
        let number = |text: &str| Scalar::Numeric(Numeric::parse(text).unwrap());
        assert_eq!(number("2.5").cast(Type::Numeric, Type::Int), Ok(Scalar::Int(3)));
        assert_eq!(number("2147483647.5").cast(Type::Numeric, Type::Int), Err("integer out of range".to_owned()));
        assert_eq!(Scalar::Int(-1).cast(Type::Timestamp, Type::Date), Ok(Scalar::Int(-1)));
        assert_eq!(Scalar::Bool(true).cast(Type::Bool, Type::Int), Ok(Scalar::Int(1)));
        assert_eq!(Scalar::Int(12).cast(Type::Int, Type::Text), Ok(Scalar::Text("12".into())));
    }
}
