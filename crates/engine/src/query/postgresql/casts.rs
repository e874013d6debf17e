//! Casts, those that the query says and those that PostgreSQL adds.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::logical_expr::{Cast, Expr};

use super::exact_cast::exact_cast;
use super::expressions::Typed;
use super::kinds::Kind;
use super::{Result, literals, refused};

/// DataFusion's cast, where it loses nothing.
pub fn widened(value: Typed, kind: Kind) -> Typed {
    if value.kind == kind {
        return value;
    }
    Typed { expr: Expr::Cast(Cast::new(Box::new(value.expr), kind.data_type())), kind }
}

/// A cast that the query says.
pub fn cast(value: Typed, target: Kind, field: &FieldRef) -> Result<Typed> {
    // DataFusion's planner makes every timestamp one of nanoseconds.
    let target = match field.data_type() {
        DataType::Timestamp(_, None) => Kind::Timestamp,
        _ => target,
    };
    match (value.kind, target) {
        (Kind::Unknown, Kind::Numeric(..)) => {
            let read = literals::read(&value.expr, target)?;
            cast(read, target, field)
        }
        (Kind::Unknown, _) => literals::read(&value.expr, target),
        (from, to) if from == to => Ok(value),
        (from, to) if from.is_number() && to.is_number() && from.fits(to) => Ok(widened(value, to)),
        (from, to) if from.is_number() && to.is_number() => {
            Ok(Typed { expr: exact_cast(value.expr, to.data_type()), kind: to })
        }
        (Kind::Boolean, Kind::Integer) | (Kind::Integer | Kind::Bigint, Kind::Text) => Ok(widened(value, target)),
        (Kind::Date, Kind::Timestamp) | (Kind::Midnight, Kind::Timestamp) => Ok(widened(value, Kind::Timestamp)),
        (Kind::Midnight, Kind::Date) => Ok(Typed { kind: Kind::Date, ..value }),
        (Kind::Timestamp, Kind::Date) => Ok(Typed { expr: exact_cast(value.expr, DataType::Date32), kind: Kind::Date }),
        (from, to) => refused(
            format_args!("a cast from {from} to {to}"),
            "cast between numbers, from date to timestamp and back, from whole numbers to text, or a literal",
        ),
    }
}

/// A cast that PostgreSQL adds where values of several types meet.
pub fn implicit(value: Typed, kind: Kind) -> Result<Typed> {
    match value.kind {
        from if from == kind => Ok(value),
        Kind::Unknown if matches!(kind, Kind::Numeric(..) | Kind::Quotient(..)) => {
            let read = literals::read(&value.expr, kind)?;
            match read.kind == kind || read.kind.fits(kind) {
                true => Ok(widened(read, kind)),
                false if literals::is_null(&read.expr) => literals::read(&value.expr, kind),
                false => refused("a string literal with more digits than its surroundings", "write a number"),
            }
        }
        Kind::Unknown => literals::read(&value.expr, kind),
        _ => Ok(widened(value, kind)),
    }
}

/// An operand that must be a text.
pub fn text(value: Typed, of: &str) -> Result<Expr> {
    match value.kind {
        Kind::Text => Ok(value.expr),
        Kind::Unknown => Ok(literals::read(&value.expr, Kind::Text)?.expr),
        kind => refused(format_args!("{kind} as an operand of {of}"), "give a text"),
    }
}
