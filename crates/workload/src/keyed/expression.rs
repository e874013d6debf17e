//! Expressions whose types are known, and what they are for a row.

use std::cmp::Ordering;

use super::failed;
use super::numeric::Numeric;
use super::scalar::{Scalar, Type, in_range, out_of_range};
use crate::database::DatabaseError;
use crate::schema::{Kind, StoredColumn};
use crate::statement::{RowAccess, RowRef, Value};

/// An expression. Operands have types that their operator takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Constant(Scalar<'static>),
    /// From 0.
    Parameter(usize),
    Column(StoredColumn),
    /// One of the statement's aggregates.
    Aggregate(usize),
    /// When the transaction began.
    Now,
    Arithmetic {
        operator: Arithmetic,
        result: Type,
        sides: Box<[Expression; 2]>,
    },
    Compare {
        comparison: Comparison,
        kinds: [Type; 2],
        sides: Box<[Expression; 2]>,
    },
    And(Box<[Expression; 2]>),
    Or(Box<[Expression; 2]>),
    Not(Box<Expression>),
    IsNull(Box<Expression>),
    /// Of two texts.
    Concatenate(Box<[Expression; 2]>),
    Cast {
        from: Type,
        to: Type,
        inner: Box<Expression>,
    },
    /// A numeric: its number of digits, and how many of them are behind the point.
    Fit {
        precision: u8,
        scale: u8,
        inner: Box<Expression>,
    },
    /// The first characters of a text.
    Shorten {
        characters: usize,
        inner: Box<Expression>,
    },
    /// The first that is not null.
    Coalesce(Vec<Expression>),
    /// The value behind the first condition that holds.
    Case {
        branches: Vec<[Expression; 2]>,
        otherwise: Box<Expression>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::Unequal => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The same with its sides exchanged.
    pub(super) fn flipped(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            symmetric => symmetric,
        }
    }
}

/// What a statement is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) parameters: &'a [Value<'a>],
    /// The types of the parameters.
    pub(super) types: &'a [Type],
    /// When the transaction began, microseconds since 1970.
    pub(super) now_us: i64,
}

/// Where columns are read from.
#[derive(Clone, Copy)]
pub(super) enum Row<'r> {
    /// There are none.
    None,
    Stored(&'r dyn RowAccess, RowRef),
    /// A row that is not stored, or the values of aggregates.
    Given(&'r [Scalar<'r>]),
}

impl Expression {
    /// Whether it depends on the row.
    pub(super) fn reads_row(&self) -> bool {
        let any = |all: &[Expression]| all.iter().any(Expression::reads_row);
        match self {
            Expression::Constant(_) | Expression::Parameter(_) | Expression::Now => false,
            Expression::Column(_) | Expression::Aggregate(_) => true,
            Expression::Arithmetic { sides, .. }
            | Expression::Compare { sides, .. }
            | Expression::And(sides)
            | Expression::Or(sides)
            | Expression::Concatenate(sides) => any(&sides[..]),
            Expression::Not(inner)
            | Expression::IsNull(inner)
            | Expression::Cast { inner, .. }
            | Expression::Fit { inner, .. }
            | Expression::Shorten { inner, .. } => inner.reads_row(),
            Expression::Coalesce(all) => any(all),
            Expression::Case { branches, otherwise } => {
                otherwise.reads_row() || branches.iter().any(|branch| any(&branch[..]))
            }
        }
    }

    /// Its value for a row.
    pub(super) fn evaluate<'a>(&'a self, input: &Input<'a>, row: Row<'_>) -> Result<Scalar<'a>, DatabaseError> {
        match self {
            Expression::Constant(Scalar::Text(text)) => Ok(Scalar::Text((&**text).into())),
            Expression::Constant(scalar) => Ok(scalar.clone()),
            Expression::Parameter(at) => Scalar::of_parameter(input.parameters[*at], input.types[*at])
                .or_else(|why| failed(parameter(*at, &why))),
            Expression::Column(column) => Ok(column_value(row, *column)),
            Expression::Aggregate(at) => match row {
                Row::Given(values) => Ok(values[*at].clone().into_owned()),
                _ => unreachable!("aggregates are computed before what is made of them"),
            },
            Expression::Now => Ok(Scalar::Int(input.now_us)),
            Expression::Arithmetic { operator, result, sides } => {
                let [a, b] = both(sides, input, row)?;
                if a == Scalar::Null || b == Scalar::Null {
                    return Ok(Scalar::Null);
                }
                operator.apply(&a, &b, *result).or_else(failed)
            }
            Expression::Compare { comparison, sides, .. } => {
                let [a, b] = both(sides, input, row)?;
                if a == Scalar::Null || b == Scalar::Null {
                    return Ok(Scalar::Null);
                }
                Ok(Scalar::Bool(comparison.holds(a.compare(&b))))
            }
            Expression::And(sides) => connective(sides, false, input, row),
            Expression::Or(sides) => connective(sides, true, input, row),
            Expression::Not(inner) => Ok(match inner.evaluate(input, row)? {
                Scalar::Bool(is_true) => Scalar::Bool(!is_true),
                other => other,
            }),
            Expression::IsNull(inner) => Ok(Scalar::Bool(inner.evaluate(input, row)? == Scalar::Null)),
            Expression::Concatenate(sides) => match both(sides, input, row)? {
                [Scalar::Text(a), Scalar::Text(b)] => Ok(Scalar::Text((a + b).into_owned().into())),
                _ => Ok(Scalar::Null),
            },
            Expression::Cast { from, to, inner } => inner.evaluate(input, row)?.cast(*from, *to).or_else(failed),
            Expression::Fit { precision, scale, inner } => {
                fit(inner.evaluate(input, row)?, *precision, *scale).or_else(failed)
            }
            Expression::Shorten { characters, inner } => Ok(match inner.evaluate(input, row)? {
                Scalar::Text(text) => Scalar::Text(text.chars().take(*characters).collect::<String>().into()),
                other => other,
            }),
            Expression::Coalesce(all) => {
                for one in all {
                    let value = one.evaluate(input, row)?;
                    if value != Scalar::Null {
                        return Ok(value);
                    }
                }
                Ok(Scalar::Null)
            }
            Expression::Case { branches, otherwise } => {
                for [condition, value] in branches {
                    if condition.holds(input, row)? {
                        return value.evaluate(input, row);
                    }
                }
                otherwise.evaluate(input, row)
            }
        }
    }

    /// Whether it is true for a row: neither false nor null.
    pub(super) fn holds(&self, input: &Input<'_>, row: Row<'_>) -> Result<bool, DatabaseError> {
        Ok(self.evaluate(input, row)? == Scalar::Bool(true))
    }
}

/// What is wrong with a parameter.
pub(super) fn parameter(at: usize, why: &str) -> String {
    format!("parameter ${}: {why}", at + 1)
}

fn both<'a>(sides: &'a [Expression; 2], input: &Input<'a>, row: Row<'_>) -> Result<[Scalar<'a>; 2], DatabaseError> {
    Ok([sides[0].evaluate(input, row)?, sides[1].evaluate(input, row)?])
}

/// AND and OR with three truth values: one side decides with `decisive`, otherwise null stays.
fn connective<'a>(
    sides: &'a [Expression; 2],
    decisive: bool,
    input: &Input<'a>,
    row: Row<'_>,
) -> Result<Scalar<'a>, DatabaseError> {
    let first = sides[0].evaluate(input, row)?;
    if first == Scalar::Bool(decisive) {
        return Ok(first);
    }
    let second = sides[1].evaluate(input, row)?;
    Ok(if second == Scalar::Bool(decisive) || first != Scalar::Null { second } else { Scalar::Null })
}

fn column_value(row: Row<'_>, StoredColumn { column, kind, nullable }: StoredColumn) -> Scalar<'static> {
    match row {
        Row::None => unreachable!("analysis lets columns stand only where there is a row"),
        Row::Given(values) => values[column].clone().into_owned(),
        Row::Stored(access, row) if nullable && access.is_null(row, column) => Scalar::Null,
        Row::Stored(access, row) => match kind {
            Kind::Text(_) => {
                let mut text = String::new();
                access.text(row, column, &mut text);
                Scalar::Text(text.into())
            }
            Kind::Decimal { scale, .. } => {
                let number = Numeric::new(access.int(row, column).into(), scale.unsigned_abs());
                Scalar::Numeric(number.expect("a column's numbers have at most 18 digits"))
            }
            Kind::Int | Kind::BigInt | Kind::Date | Kind::Timestamp => Scalar::Int(access.int(row, column)),
        },
    }
}

/// A number as one of `numeric(precision, scale)`.
pub(super) fn fit(scalar: Scalar<'_>, precision: u8, scale: u8) -> Result<Scalar<'_>, String> {
    let Scalar::Numeric(number) = scalar else { return Ok(scalar) };
    let fits = number.unscaled_at(scale).unsigned_abs() < 10_u128.pow(precision.into());
    let fitted = number.rounded(scale).filter(|_| fits);
    let overflow = || format!("numeric field overflow: {number} is no numeric({precision}, {scale})");
    fitted.map(Scalar::Numeric).ok_or_else(overflow)
}

impl Arithmetic {
    /// What comes of two values that are not null.
    pub(super) fn apply(self, a: &Scalar<'_>, b: &Scalar<'_>, result: Type) -> Result<Scalar<'static>, String> {
        let is_division = matches!(self, Arithmetic::Divide | Arithmetic::Remainder);
        if result == Type::Numeric {
            let (a, b) = (a.number(), b.number());
            if is_division && b.is_zero() {
                return Err("division by zero".to_owned());
            }
            let number = match self {
                Arithmetic::Add => a.add(b),
                Arithmetic::Subtract => a.subtract(b),
                Arithmetic::Multiply => a.multiply(b),
                Arithmetic::Remainder => a.remainder(b),
                Arithmetic::Divide => unreachable!("analysis refuses to divide numerics"),
            };
            return number.map(Scalar::Numeric).ok_or_else(|| out_of_range(result));
        }
        let (Scalar::Int(a), Scalar::Int(b)) = (a, b) else {
            unreachable!("analysis takes only whole numbers for {result}: {a:?}, {b:?}")
        };
        if is_division && *b == 0 {
            return Err("division by zero".to_owned());
        }
        let number = match self {
            Arithmetic::Add => a.checked_add(*b),
            Arithmetic::Subtract => a.checked_sub(*b),
            Arithmetic::Multiply => a.checked_mul(*b),
            Arithmetic::Divide => a.checked_div(*b),
            // Of the least number and -1 the quotient overflows, but the remainder is 0.
            Arithmetic::Remainder => Some(a.wrapping_rem(*b)),
        };
        in_range(number.ok_or_else(|| out_of_range(result))?, result).map(Scalar::Int)
    }
}
