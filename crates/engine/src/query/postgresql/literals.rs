//! Literals: their types, and the values of strings that stand for a date, a number or another type.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, lit};

use super::expressions::Typed;
use super::kinds::{Kind, NUMERIC_DIGITS_MAX};
use super::{Result, refused};

/// The days from 0001-01-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_162;

/// A literal with its type in PostgreSQL.
pub fn typed(value: &ScalarValue) -> Result<Typed> {
    let (value, kind) = match value {
        ScalarValue::Null => (ScalarValue::Null, Kind::Unknown),
        ScalarValue::Boolean(_) => (value.clone(), Kind::Boolean),
        // -2147483648 is `-` before a bigint.
        ScalarValue::Int64(Some(number)) => match i32::try_from(*number) {
            Ok(small) if small > i32::MIN => (ScalarValue::Int32(Some(small)), Kind::Integer),
            _ => (value.clone(), Kind::Bigint),
        },
        ScalarValue::UInt64(Some(number)) => decimal(i128::from(*number), 0),
        ScalarValue::Decimal128(Some(number), _, scale) => scaled(*number, *scale)?,
        ScalarValue::Utf8(Some(_)) | ScalarValue::Utf8View(Some(_)) => (value.clone(), Kind::Unknown),
        ScalarValue::IntervalMonthDayNano(Some(_)) => (value.clone(), Kind::Interval),
        other => return refused(format_args!("the literal {other}"), "numbers may have 38 digits"),
    };
    Ok(Typed { expr: Expr::Literal(value, None), kind })
}

fn decimal(number: i128, scale: i8) -> (ScalarValue, Kind) {
    let digits = number.unsigned_abs().checked_ilog10().map_or(1, |log| log as u8 + 1).max(scale as u8);
    (ScalarValue::Decimal128(Some(number), digits, scale), Kind::Numeric(digits, scale))
}

/// Numbers with an exponent come with a negative scale.
fn scaled(number: i128, scale: i8) -> Result<(ScalarValue, Kind)> {
    let zeros = u32::from(scale.min(0).unsigned_abs());
    let whole = 10_i128.checked_pow(zeros).and_then(|power| number.checked_mul(power));
    match whole {
        Some(whole) if whole.unsigned_abs() < 10_u128.pow(u32::from(NUMERIC_DIGITS_MAX)) => {
            Ok(decimal(whole, scale.max(0)))
        }
        _ => refused("a number of more than 38 digits", "write a shorter one"),
    }
}

/// Whether an expression is the literal NULL.
pub fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// The text of a string literal.
pub fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// The value of a literal of type `integer`.
pub fn integer(expr: &Expr) -> Option<i32> {
    match expr {
        Expr::Literal(ScalarValue::Int32(number), _) => *number,
        _ => None,
    }
}

/// An interval literal.
pub fn interval(expr: &Expr) -> Option<IntervalMonthDayNano> {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(interval), _) => *interval,
        _ => None,
    }
}

/// A string literal or NULL as a value of a type.
pub fn read(literal: &Expr, kind: Kind) -> Result<Typed> {
    if matches!(kind, Kind::Unknown | Kind::Other | Kind::Interval) {
        return refused(format_args!("{literal} as {kind}"), "cast it to a type of the list");
    }
    let kind = if kind == Kind::Midnight { Kind::Timestamp } else { kind };
    if is_null(literal) {
        let null = ScalarValue::try_from(&kind.data_type()).map_err(super::fault)?;
        return Ok(Typed { expr: Expr::Literal(null, None), kind });
    }
    let Some(text) = text(literal) else { return refused(format_args!("{literal} as {kind}"), "write a literal") };
    let value = match kind {
        Kind::Text => Some((ScalarValue::from(text), kind)),
        Kind::Boolean => boolean(text).map(|value| (ScalarValue::from(value), kind)),
        Kind::Integer => number(text).and_then(|text| text.parse().ok()).map(|n: i32| (ScalarValue::from(n), kind)),
        Kind::Bigint => number(text).and_then(|text| text.parse().ok()).map(|n: i64| (ScalarValue::from(n), kind)),
        Kind::Numeric(..) | Kind::Quotient(..) => numeric(text),
        Kind::Date => days(text).map(|days| (ScalarValue::Date32(Some(days)), kind)),
        Kind::Timestamp => {
            microseconds(text).map(|moment| (ScalarValue::TimestampMicrosecond(Some(moment), None), kind))
        }
        _ => None,
    };
    match value {
        Some((value, kind)) => Ok(Typed { expr: lit(value), kind }),
        None => refused(
            format_args!("'{text}' as {kind}"),
            "write whole numbers in digits, dates as '2024-12-31', timestamps as '2024-12-31 23:59:59.5'",
        ),
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "t" => Some(true),
        "false" | "f" => Some(false),
        _ => None,
    }
}

/// The text of a number in digits, with a sign.
fn number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

fn numeric(text: &str) -> Option<(ScalarValue, Kind)> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if digits.is_empty() || !is_digits(digits) || !is_digits(behind) || digits.len() + behind.len() > 38 {
        return None;
    }
    Some(decimal(format!("{whole}{behind}").parse().ok()?, behind.len() as i8))
}

/// The days from 1970-01-01 to a date.
fn days(text: &str) -> Option<i32> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if year < 1 || !(1..=length).contains(&day) {
        return None;
    }
    let before = year - 1;
    let of_years = before * 365 + before / 4 - before / 100 + before / 400;
    let of_months: i64 = lengths[..month as usize - 1].iter().sum();
    i32::try_from(of_years + of_months + day - 1 - DAYS_TO_EPOCH).ok()
}

/// The microseconds from 1970-01-01 00:00:00 to a timestamp.
fn microseconds(text: &str) -> Option<i64> {
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = clock.split(':');
    let mut part = |max: i64| {
        let text = parts.next()?;
        let is_read = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_read.then(|| text.parse::<i64>().ok())?.filter(|number| *number <= max)
    };
    let seconds = part(23)? * 3600 + part(59)? * 60 + part(59)?;
    if parts.next().is_some() || fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let fraction: i64 = number(&format!("{fraction:0<6}"))?.parse().ok()?;
    Some((i64::from(days(date)?) * 86_400 + seconds) * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_as_postgresql_reads_them_or_not_at_all() {
        for (text, expect) in [
            ("1970-01-01", Some(0)),
            ("2000-02-29", Some(11_016)),
            ("1900-02-29", None),
            ("0001-01-01", Some(-719_162)),
            ("1969-12-31", Some(-1)),
            ("2024-1-01", None),
            ("2024-01-01x", None),
            ("2024-+1-01", None),
        ] {
            assert_eq!(days(text), expect, "{text}");
        }
        for (text, expect) in [
            ("1970-01-02", Some(86_400_000_000)),
            ("1970-01-01 00:00:01.5", Some(1_500_000)),
            ("1970-01-01T23:59:59", Some(86_399_000_000)),
            ("1970-01-01 24:00:00", None),
            ("1970-01-01 1:00:00", None),
            ("1970-01-01 00:00:00+01", None),
        ] {
            assert_eq!(microseconds(text), expect, "{text}");
        }
        assert_eq!(numeric("-0.05").map(|(_, kind)| kind), Some(Kind::Numeric(2, 2)));
        for text in ["", "-", "1e3", " 1", "0x10", "1_000", "NaN"] {
            assert!(numeric(text).is_none() && number(text).is_none(), "{text}");
        }
    }
}
