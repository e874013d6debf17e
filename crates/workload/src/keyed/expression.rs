//! Expressions whose types are known, and their values for a row.

use std::cmp::Ordering;

use super::failed;
use super::numeric::Numeric;
use super::scalar::{Scalar, StoredValue, Type, in_range, out_of_range};
use crate::database::DatabaseError;
use crate::schema::{ColumnKind, StoredColumn};
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
    /// A numeric with its number of digits, and the number of those after the point.
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
    /// The value of the first condition that holds.
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

/// The input of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    /// Each can be read as a value of its type.
    pub(super) parameters: &'a [Value<'a>],
    pub(super) types: &'a [Type],
    /// When the transaction began, microseconds since 1970.
    pub(super) now_us: i64,
}

impl<'a> Input<'a> {
    /// Parameters from the first on, one for each column, with its kind and whether it may be null; `None` if one is
    /// not given as its column keeps it.
    pub(super) fn given(
        &self,
        first: usize,
        columns: impl ExactSizeIterator<Item = (ColumnKind, bool)>,
    ) -> Option<&'a [Value<'a>]> {
        let given = &self.parameters[first..first + columns.len()];
        let mut each = given.iter().zip(columns);
        let is_kept = each.all(|(value, (kind, nullable))| match (value, kind) {
            (Value::Null, _) => nullable,
            (Value::Int(number), ColumnKind::Int | ColumnKind::Date) => i32::try_from(*number).is_ok(),
            (Value::Int(_), ColumnKind::BigInt | ColumnKind::Timestamp) => true,
            (Value::Text(text), ColumnKind::Text(bytes_max)) => text.len() <= bytes_max,
            _ => false,
        });
        is_kept.then_some(given)
    }
}

/// The first parameter, if expressions are only parameters in their order, as for most keys and new rows: they need not
/// be computed then.
pub(super) fn first_given<'e>(expressions: impl IntoIterator<Item = &'e Expression>) -> Option<usize> {
    let mut first = None;
    for (place, expression) in expressions.into_iter().enumerate() {
        let Expression::Parameter(at) = expression else { return None };
        if *first.get_or_insert(*at) + place != *at {
            return None;
        }
    }
    first
}

/// Where columns are read from.
pub(super) enum Row<'r> {
    /// No columns.
    None,
    Stored(&'r dyn RowAccess, RowRef),
    /// A row as inserted.
    Inserted(&'r [Value<'r>]),
    /// The values of aggregates instead of columns.
    Aggregates(&'r [Scalar<'r>]),
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
    pub(super) fn evaluate<'a>(&'a self, input: &Input<'a>, row: &Row<'_>) -> Result<Scalar<'a>, DatabaseError> {
        match self {
            Expression::Constant(Scalar::Text(text)) => Ok(Scalar::Text((&**text).into())),
            Expression::Constant(scalar) => Ok(scalar.clone()),
            Expression::Parameter(at) => match (input.parameters[*at], input.types[*at]) {
                (Value::Text(text), Type::Text) => Ok(Scalar::Text(text.into())),
                (value, kind) => Scalar::of_parameter(value, kind).or_else(|why| failed(parameter(*at, &why))),
            },
            Expression::Column(column) => Ok(column_value(row, *column)),
            Expression::Aggregate(at) => match row {
                Row::Aggregates(values) => Ok(values[*at].clone().into_owned()),
                _ => unreachable!("aggregates are computed before what is made of them"),
            },
            Expression::Now => Ok(Scalar::Int(input.now_us)),
            Expression::Arithmetic { result, .. } if result.is_whole() => {
                Ok(self.whole(input, row)?.map_or(Scalar::Null, Scalar::Int))
            }
            Expression::Arithmetic { operator, result, sides } => {
                let [a, b] = both(sides, input, row)?;
                if a == Scalar::Null || b == Scalar::Null {
                    return Ok(Scalar::Null);
                }
                operator.apply(&a, &b, *result).or_else(failed)
            }
            Expression::Compare { comparison, kinds, sides } => {
                let order = order(*kinds, sides, input, row)?;
                Ok(order.map_or(Scalar::Null, |order| Scalar::Bool(comparison.holds(order))))
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

    /// Its value for a row, null as `None`, if it is of a type of whole numbers. Most statements compute only such
    /// values, so values of any type are used only where needed.
    pub(super) fn whole(&self, input: &Input<'_>, row: &Row<'_>) -> Result<Option<i64>, DatabaseError> {
        if let Some(number) = self.whole_operand(input, row) {
            return Ok(Some(number));
        }
        match self {
            Expression::Arithmetic { operator, result, sides } => {
                let side = |side: &Expression| match side.whole_operand(input, row) {
                    None => side.whole(input, row),
                    number => Ok(number),
                };
                let (Some(a), Some(b)) = (side(&sides[0])?, side(&sides[1])?) else { return Ok(None) };
                operator.apply_whole(a, b, *result).map(Some).or_else(failed)
            }
            _ => match self.evaluate(input, row)? {
                Scalar::Null => Ok(None),
                Scalar::Int(number) => Ok(Some(number)),
                other => unreachable!("analysis takes only whole numbers for whole numbers: {other:?}"),
            },
        }
    }

    /// The same without a call, if it is a number that is only to be fetched.
    #[inline(always)]
    fn whole_operand(&self, input: &Input<'_>, row: &Row<'_>) -> Option<i64> {
        match (self, row) {
            (Expression::Column(of), &Row::Stored(access, row)) if !of.nullable => Some(access.int(row, of.column)),
            (Expression::Parameter(at), _) if let Value::Int(number) = input.parameters[*at] => Some(number),
            (Expression::Constant(Scalar::Int(number)), _) => Some(*number),
            _ => None,
        }
    }

    /// Its value for a row, as a column of a kind keeps it.
    #[inline(always)]
    pub(super) fn kept<'a>(
        &'a self,
        kind: ColumnKind,
        input: &Input<'a>,
        row: &Row<'_>,
    ) -> Result<StoredValue<'a>, DatabaseError> {
        if Type::from(kind).is_whole() {
            return Ok(self.whole(input, row)?.map_or(StoredValue::Null, StoredValue::Int));
        }
        Ok(match (self.evaluate(input, row)?, kind) {
            (Scalar::Null, _) => StoredValue::Null,
            (Scalar::Text(text), _) => StoredValue::Text(text),
            (Scalar::Numeric(number), ColumnKind::Decimal { scale, .. }) => {
                let unscaled = i64::try_from(number.unscaled_at(scale.unsigned_abs()));
                StoredValue::Int(unscaled.expect("a column's numbers have at most 18 digits"))
            }
            (other, kind) => unreachable!("analysis assigns no {other:?} to a column of {kind:?}"),
        })
    }

    /// Whether it is true for a row: neither false nor null.
    pub(super) fn holds(&self, input: &Input<'_>, row: &Row<'_>) -> Result<bool, DatabaseError> {
        Ok(matches!(self.evaluate(input, row)?, Scalar::Bool(true)))
    }
}

/// The error about a parameter.
pub(super) fn parameter(at: usize, why: &str) -> String {
    format!("parameter ${}: {why}", at + 1)
}

fn both<'a>(sides: &'a [Expression; 2], input: &Input<'a>, row: &Row<'_>) -> Result<[Scalar<'a>; 2], DatabaseError> {
    Ok([sides[0].evaluate(input, row)?, sides[1].evaluate(input, row)?])
}

/// Which of two values is greater, if neither is null.
fn order(
    kinds: [Type; 2],
    sides: &[Expression; 2],
    input: &Input<'_>,
    row: &Row<'_>,
) -> Result<Option<Ordering>, DatabaseError> {
    if kinds.into_iter().all(Type::is_whole) {
        let [a, b] = [sides[0].whole(input, row)?, sides[1].whole(input, row)?];
        return Ok(a.zip(b).map(|(a, b)| a.cmp(&b)));
    }
    let [a, b] = both(sides, input, row)?;
    Ok((a != Scalar::Null && b != Scalar::Null).then(|| a.compare(&b)))
}

/// AND and OR with three truth values: one side decides with `decisive`, otherwise null stays.
fn connective<'a>(
    sides: &'a [Expression; 2],
    decisive: bool,
    input: &Input<'a>,
    row: &Row<'_>,
) -> Result<Scalar<'a>, DatabaseError> {
    let first = sides[0].evaluate(input, row)?;
    if first == Scalar::Bool(decisive) {
        return Ok(first);
    }
    let second = sides[1].evaluate(input, row)?;
    Ok(if second == Scalar::Bool(decisive) || first != Scalar::Null { second } else { Scalar::Null })
}

fn column_value(row: &Row<'_>, StoredColumn { column, kind, nullable }: StoredColumn) -> Scalar<'static> {
    let number = |number: i64| match kind {
        ColumnKind::Decimal { scale, .. } => {
            let number = Numeric::new(number.into(), scale.unsigned_abs());
            Scalar::Numeric(number.expect("a column's numbers have at most 18 digits"))
        }
        _ => Scalar::Int(number),
    };
    match *row {
        Row::None | Row::Aggregates(_) => unreachable!("analysis lets columns stand only where there is a row"),
        Row::Inserted(values) => match values[column] {
            Value::Null => Scalar::Null,
            Value::Int(value) => number(value),
            Value::Text(text) => Scalar::Text(text.to_owned().into()),
        },
        Row::Stored(access, row) if nullable && access.is_null(row, column) => Scalar::Null,
        Row::Stored(access, row) => match kind {
            ColumnKind::Text(_) => {
                let mut text = String::new();
                access.text(row, column, &mut text);
                Scalar::Text(text.into())
            }
            _ => number(access.int(row, column)),
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
    /// Computes the result for two values that are not null.
    pub(super) fn apply(self, a: &Scalar<'_>, b: &Scalar<'_>, result: Type) -> Result<Scalar<'static>, String> {
        if let (Scalar::Int(a), Scalar::Int(b)) = (a, b)
            && result.is_whole()
        {
            return self.apply_whole(*a, *b, result).map(Scalar::Int);
        }
        let (a, b) = (a.number(), b.number());
        let number = match self {
            Arithmetic::Add => a.add(b),
            Arithmetic::Subtract => a.subtract(b),
            Arithmetic::Multiply => a.multiply(b),
            Arithmetic::Remainder if b.is_zero() => return Err("division by zero".to_owned()),
            Arithmetic::Remainder => a.remainder(b),
            Arithmetic::Divide => unreachable!("analysis refuses to divide numerics"),
        };
        number.map(Scalar::Numeric).ok_or_else(|| out_of_range(result))
    }

    /// The same, of whole numbers.
    fn apply_whole(self, a: i64, b: i64, result: Type) -> Result<i64, String> {
        let number = match self {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Subtract => a.checked_sub(b),
            Arithmetic::Multiply => a.checked_mul(b),
            Arithmetic::Divide | Arithmetic::Remainder if b == 0 => return Err("division by zero".to_owned()),
            Arithmetic::Divide => a.checked_div(b),
            // Of the least number and -1 the quotient overflows, but the remainder is 0.
            Arithmetic::Remainder => Some(a.wrapping_rem(b)),
        };
        in_range(number.ok_or_else(|| out_of_range(result))?, result)
    }
}
