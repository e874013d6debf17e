//! Conversions between types: those that a place asks for, and those that a statement writes.

use sqlparser::tokenizer::Location;

use super::super::SqlError;
use super::super::declaration::Limit;
use super::super::expression::Expression;
use super::super::scalar::{Scalar, Type};
use super::{Analysis, TypedExpression, folded, refused};

impl Analysis<'_> {
    /// Gives several expressions, of which one becomes the value, a common type.
    pub(in super::super) fn of_one_type(
        &mut self,
        all: Vec<TypedExpression>,
        at: Location,
    ) -> Result<(Vec<Expression>, Type), SqlError> {
        let mut kinds = all.iter().filter_map(|typed| typed.kind);
        let first = kinds.next().unwrap_or(Type::Text);
        let kind = kinds.try_fold(first, |a, b| match (a, b) {
            (a, b) if a == b => Ok(a),
            (a, b) if a.is_number() && b.is_number() => Ok(a.wider(b)),
            (a, b) => refused(at, format!("these are of types {a} and {b}; write a cast, as in (…)::{a}")),
        })?;
        let cast = all.into_iter().map(|typed| self.cast(typed, kind));
        Ok((cast.collect::<Result<_, _>>()?, kind))
    }

    /// Gives a type to an expression without one; leaves one that has it.
    pub(super) fn give(&mut self, typed: TypedExpression, kind: Type) -> Result<Expression, SqlError> {
        let TypedExpression { expression, kind: None, at } = typed else { return Ok(typed.expression) };
        match &expression {
            Expression::Constant(Scalar::Text(text)) => match Scalar::parse(text, kind) {
                Ok(scalar) => Ok(Expression::Constant(scalar)),
                Err(why) => refused(at, why),
            },
            Expression::Parameter(number) => match self.parameters[*number].replace(kind) {
                Some(before) if before != kind => {
                    let number = number + 1;
                    refused(
                        at,
                        format!("${number} is used as {before} and as {kind}; write a cast, as in ${number}::{kind}"),
                    )
                }
                _ => Ok(expression),
            },
            _ => Ok(expression),
        }
    }

    /// An expression as a value of a type.
    pub(in super::super) fn cast(&mut self, typed: TypedExpression, to: Type) -> Result<Expression, SqlError> {
        let at = typed.at;
        let Some(from) = typed.kind.filter(|from| *from != to) else { return self.give(typed, to) };
        let is_number_or_bool = from.is_number() || from == Type::Bool;
        let is_possible = is_assignable(from, to)
            || from == Type::Text
            || (is_number_or_bool && to == Type::Text)
            || matches!((from, to), (Type::Bool, Type::Int) | (Type::Int, Type::Bool));
        if !is_possible {
            return refused(at, format!("a value of type {from} cannot be cast to {to} here"));
        }
        folded(Expression::Cast { from, to, inner: Box::new(typed.expression) }, at)
    }
}

/// Whether a value of a type can be assigned to a column of another without a cast.
pub(super) fn is_assignable(from: Type, to: Type) -> bool {
    (from.is_number() && to.is_number())
        || ((from.is_number() || from == Type::Bool) && to == Type::Text)
        || matches!((from, to), (Type::Date, Type::Timestamp) | (Type::Timestamp, Type::Date))
}

/// An expression within the limit of a column.
pub(super) fn limited(inner: Expression, limit: Limit) -> Expression {
    let inner = Box::new(inner);
    match limit {
        Limit::None => *inner,
        Limit::Digits { precision, scale } => Expression::Fit { precision, scale, inner },
        Limit::Characters(characters) => Expression::Shorten { characters, inner },
    }
}
