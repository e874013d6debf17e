//! Operators with two operands, and minus.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};

use super::arithmetic::checked;
use super::expressions::{Scope, Typed};
use super::kinds::{Kind, NUMERIC_DIGITS_MAX};
use super::quotient::quotient;
use super::{Result, casts, literals, refused};

/// `left operator right`.
pub fn binary(left: Typed, operator: Operator, right: Typed, scope: Scope) -> Result<Typed> {
    match operator {
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo => {
            arithmetic(left, operator, right, scope)
        }
        Operator::Eq
        | Operator::NotEq
        | Operator::Lt
        | Operator::LtEq
        | Operator::Gt
        | Operator::GtEq
        | Operator::IsDistinctFrom
        | Operator::IsNotDistinctFrom => comparison(left, operator, right),
        Operator::StringConcat => concatenation(left, right),
        other => refused(format_args!("the operator {other}"), "see the list of operators"),
    }
}

fn plain(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

fn comparison(left: Typed, operator: Operator, right: Typed) -> Result<Typed> {
    let compare = |left: Expr, right: Expr| Ok(Typed { expr: plain(left, operator, right), kind: Kind::Boolean });
    match (left.kind, right.kind) {
        (Kind::Other | Kind::Interval, _) | (_, Kind::Other | Kind::Interval) => {
            refused(format_args!("a comparison of {} and {}", left.kind, right.kind), "compare other types")
        }
        (Kind::Unknown, Kind::Unknown) => {
            compare(casts::text(left, "a comparison")?, casts::text(right, "a comparison")?)
        }
        (Kind::Unknown, kind) => compare(literals::read(&left.expr, kind)?.expr, right.settled()?.expr),
        (kind, Kind::Unknown) => {
            let right = literals::read(&right.expr, kind)?.expr;
            compare(left.settled()?.expr, right)
        }
        // Both are kept as dates, which the scans compare fast.
        (Kind::Date | Kind::Midnight, Kind::Date | Kind::Midnight) => compare(left.expr, right.expr),
        _ => {
            let common = left.kind.common(right.kind)?;
            let is_lossless = |kind: Kind| !kind.is_number() || kind.fits(common);
            if !is_lossless(left.kind) || !is_lossless(right.kind) {
                return refused("a comparison of numbers of more than 38 digits together", "cast one to fewer digits");
            }
            match common {
                // DataFusion converts a literal to the type of the column that it is compared with.
                Kind::Numeric(..) | Kind::Bigint => compare(left.expr, right.expr),
                _ => compare(casts::implicit(left, common)?.expr, casts::implicit(right, common)?.expr),
            }
        }
    }
}

fn arithmetic(left: Typed, operator: Operator, right: Typed, scope: Scope) -> Result<Typed> {
    match (left.kind, right.kind) {
        (Kind::Unknown, kind) if kind.is_number() => {
            let left = literals::read(&left.expr, kind)?;
            arithmetic(left, operator, right, scope)
        }
        (kind, Kind::Unknown) if kind.is_number() => {
            let right = literals::read(&right.expr, kind)?;
            arithmetic(left, operator, right, scope)
        }
        (a, b) if a.is_whole() && b.is_whole() => {
            let kind = a.common(b)?;
            let (left, right) = (casts::widened(left, kind), casts::widened(right, kind));
            Ok(Typed { expr: checked(left.expr, operator, right.expr), kind })
        }
        (a, b) if a.is_number() && b.is_number() => numeric(left, operator, right, scope),
        (Kind::Date | Kind::Midnight | Kind::Timestamp, _) | (_, Kind::Date | Kind::Midnight | Kind::Timestamp) => {
            moments(left, operator, right)
        }
        (a, b) => refused(format_args!("{a} {operator} {b}"), "give numbers, or a date and an interval"),
    }
}

/// An integer literal has as many digits as it shows, so that products have few.
fn as_numeric(value: Typed) -> Typed {
    let digits = |number: u64| number.checked_ilog10().map_or(1, |log| log as u8 + 1);
    let kind = match &value.expr {
        Expr::Literal(ScalarValue::Int32(Some(number)), _) => {
            Kind::Numeric(digits(u64::from(number.unsigned_abs())), 0)
        }
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => Kind::Numeric(digits(number.unsigned_abs()), 0),
        _ => value.kind.as_numeric(),
    };
    casts::widened(value, kind)
}

fn numeric(left: Typed, operator: Operator, right: Typed, scope: Scope) -> Result<Typed> {
    let (left, right) = (as_numeric(left), as_numeric(right));
    let is_quotient = |value: &Typed| matches!(value.kind, Kind::Quotient(..));
    match operator {
        Operator::Divide if is_quotient(&left) || is_quotient(&right) => refused(
            "the division of or by a quotient or average",
            "multiply instead, or give it a number of digits with round(…, digits) first",
        ),
        Operator::Divide => Typed::of(quotient(left.expr, right.expr), scope),
        Operator::Modulo if is_quotient(&left) || is_quotient(&right) => {
            refused("% of a quotient or average", "give it a number of digits with round(…, digits) first")
        }
        Operator::Modulo => Typed::of(checked(left.expr, operator, right.expr), scope),
        _ => {
            let (left, right) = match is_quotient(&left) || is_quotient(&right) {
                true => (wide(left), wide(right)),
                false => (left, right),
            };
            let scale = |kind| match kind {
                Kind::Numeric(_, scale) => scale,
                _ => 0,
            };
            let digits_behind = scale(left.kind) + scale(right.kind);
            if operator == Operator::Multiply && digits_behind > NUMERIC_DIGITS_MAX as i8 {
                return refused("a product of more than 38 digits behind the point", "round a factor");
            }
            Typed::of(plain(left.expr, operator, right.expr), scope)
        }
    }
}

/// A numeric with the room of a quotient.
fn wide(value: Typed) -> Typed {
    match value.kind {
        Kind::Numeric(digits, scale) => casts::widened(value, Kind::Quotient(digits, scale)),
        _ => value,
    }
}

/// Dates and timestamps: plus and minus an interval or days, and the days between two dates.
fn moments(left: Typed, operator: Operator, right: Typed) -> Result<Typed> {
    if operator == Operator::Plus && matches!(left.kind, Kind::Interval | Kind::Integer | Kind::Unknown) {
        return moments(right, operator, left);
    }
    if !matches!(operator, Operator::Plus | Operator::Minus) {
        return refused(format_args!("{} {operator} {}", left.kind, right.kind), "add or subtract");
    }
    let days = |value: Typed| casts::widened(value, Kind::Integer);
    match (left.kind, right.kind) {
        (Kind::Date, Kind::Integer) => {
            let sum = checked(days(left).expr, operator, right.expr);
            Ok(casts::widened(Typed { expr: sum, kind: Kind::Integer }, Kind::Date))
        }
        (Kind::Date, Kind::Date) if operator == Operator::Minus => {
            Ok(Typed { expr: checked(days(left).expr, operator, days(right).expr), kind: Kind::Integer })
        }
        (Kind::Date | Kind::Midnight, Kind::Interval) if is_of_days(&right.expr) => {
            Ok(Typed { expr: plain(left.expr, operator, right.expr), kind: Kind::Midnight })
        }
        (Kind::Date | Kind::Midnight | Kind::Timestamp, Kind::Interval) => {
            let left = casts::widened(left, Kind::Timestamp);
            Ok(Typed { expr: plain(left.expr, operator, right.expr), kind: Kind::Timestamp })
        }
        (a, b) => refused(format_args!("{a} {operator} {b}"), "add an interval literal, or subtract dates"),
    }
}

fn is_of_days(expr: &Expr) -> bool {
    literals::interval(expr).is_some_and(|interval| interval.nanoseconds == 0)
}

fn concatenation(left: Typed, right: Typed) -> Result<Typed> {
    let is_text = |kind| matches!(kind, Kind::Text | Kind::Unknown);
    if !is_text(left.kind) && !is_text(right.kind) {
        return refused(format_args!("{} || {}", left.kind, right.kind), "cast one of them to text");
    }
    let operand = |value: Typed| match value.kind {
        Kind::Integer | Kind::Bigint => Ok(casts::widened(value, Kind::Text).expr),
        _ => casts::text(value, "||"),
    };
    Ok(Typed { expr: plain(operand(left)?, Operator::StringConcat, operand(right)?), kind: Kind::Text })
}

/// `- value`.
pub fn negative(value: Typed, scope: Scope) -> Result<Typed> {
    match value.kind {
        Kind::Integer => Ok(Typed { expr: checked(lit(0_i32), Operator::Minus, value.expr), kind: Kind::Integer }),
        Kind::Bigint => Ok(Typed { expr: checked(lit(0_i64), Operator::Minus, value.expr), kind: Kind::Bigint }),
        Kind::Numeric(..) | Kind::Quotient(..) => Typed::of(Expr::Negative(Box::new(value.expr)), scope),
        kind => refused(format_args!("- {kind}"), "give a number"),
    }
}
