//! From parsed expressions to typed ones, by PostgreSQL's rules.
//!
//! A literal in quotes, NULL and a parameter get their type from the context: the other side of an operator, the column
//! that they are assigned to, a cast. The first use of a parameter decides.

mod conversion;

use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, Expr, Ident, Interval, Spanned, TypedString, UnaryOperator, Value,
};
use sqlparser::tokenizer::Location;

use super::SqlError;
use super::declaration::{name_of, type_of};
use super::expression::{Arithmetic, Comparison, Expression, Input, Row};
use super::function::Aggregate;
use super::numeric::Numeric;
use super::scalar::{Scalar, Type};
use crate::schema::{ColumnKind, DeclaredColumn, DeclaredTable};
use conversion::{is_assignable, limited};

/// The meaning of names.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope<'s> {
    /// The table whose columns can be used, and its name in the statement.
    pub(super) table: Option<(&'s DeclaredTable, String)>,
    /// The name of the first parameter, and its type.
    pub(super) series: Option<(String, Type)>,
}

/// An expression with its type, if it has one yet, and its place.
#[derive(Debug, Clone)]
pub(super) struct TypedExpression {
    pub(super) expression: Expression,
    pub(super) kind: Option<Type>,
    pub(super) at: Location,
}

/// Makes typed expressions, and learns the types of parameters.
#[derive(Debug, Default)]
pub(super) struct Analysis<'s> {
    pub(super) scope: Scope<'s>,
    parameters: Vec<Option<Type>>,
    pub(super) aggregates: Vec<Aggregate>,
    pub(super) is_within_aggregate: bool,
    /// The first column that is used outside of aggregates.
    pub(super) plain_column: Option<Location>,
}

pub(super) fn refused<T>(at: Location, message: impl Into<String>) -> Result<T, SqlError> {
    Err(SqlError::at(at, message))
}

impl<'s> Analysis<'s> {
    pub(super) fn new(scope: Scope<'s>) -> Self {
        let parameters = scope.series.iter().map(|(_, kind)| Some(*kind)).collect();
        Analysis { scope, parameters, ..Analysis::default() }
    }

    /// The types of all parameters; a parameter without a known type is text.
    pub(super) fn parameter_types(&self) -> Vec<Type> {
        self.parameters.iter().map(|kind| kind.unwrap_or(Type::Text)).collect()
    }

    /// An expression of a result: without a known type it is text.
    pub(super) fn output(&mut self, expr: &Expr) -> Result<(Expression, Type), SqlError> {
        let typed = self.analyse(expr)?;
        let kind = typed.kind.unwrap_or(Type::Text);
        Ok((self.give(typed, kind)?, kind))
    }

    pub(super) fn condition(&mut self, expr: &Expr) -> Result<Expression, SqlError> {
        self.of_type(expr, Type::Bool)
    }

    /// An expression that must have a type.
    pub(super) fn of_type(&mut self, expr: &Expr, kind: Type) -> Result<Expression, SqlError> {
        let typed = self.analyse(expr)?;
        match typed.kind {
            Some(other) if other != kind => refused(typed.at, format!("this is of type {other}; {kind} is needed")),
            _ => self.give(typed, kind),
        }
    }

    /// An expression as a value of a column.
    pub(super) fn assigned(&mut self, expr: &Expr, column: &DeclaredColumn) -> Result<Expression, SqlError> {
        let typed = self.analyse(expr)?;
        let (at, to) = (typed.at, Type::from(column.kind));
        if let Some(from) = typed.kind.filter(|from| *from != to && !is_assignable(*from, to)) {
            let name = &column.name;
            return refused(
                at,
                format!("column `{name}` is of type {to}, but this is of type {from}; write a cast, as in (…)::{to}"),
            );
        }
        let inner = self.cast(typed, to)?;
        Ok(match column.kind {
            ColumnKind::Decimal { precision, scale } => {
                Expression::Fit { precision, scale: scale.unsigned_abs(), inner: Box::new(inner) }
            }
            _ => inner,
        })
    }

    pub(super) fn analyse(&mut self, expr: &Expr) -> Result<TypedExpression, SqlError> {
        let at = expr.span().start;
        let of = |expression, kind| Ok(TypedExpression { expression, kind: Some(kind), at });
        match expr {
            Expr::Nested(inner) => self.analyse(inner),
            Expr::Value(value) => self.value(&value.value, at),
            Expr::Identifier(name) => self.column(None, name),
            Expr::CompoundIdentifier(names) => match &names[..] {
                [table, name] => self.column(Some(table), name),
                _ => refused(at, "a column is named `column` or `table.column` here"),
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let operand = self.analyse(expr)?;
                let (zero, kind) = (Expression::Constant(Scalar::Int(0)), operand.kind.map(|_| Type::Int));
                self.arithmetic(Arithmetic::Subtract, TypedExpression { expression: zero, kind, at }, operand, at)
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                of(Expression::Not(Box::new(self.condition(expr)?)), Type::Bool)
            }
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right, at),
            Expr::Between { .. } | Expr::InList { .. } | Expr::IsNull(_) | Expr::IsNotNull(_) => {
                of(self.predicate(expr, at)?, Type::Bool)
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => {
                let typed = self.analyse(expr)?;
                let (kind, limit) = type_of(data_type, at)?;
                let inner = self.cast(typed, kind)?;
                of(limited(inner, limit), kind)
            }
            Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }) => {
                let typed = self.value(&value.value, at)?;
                let (kind, limit) = type_of(data_type, at)?;
                of(limited(self.give(typed, kind)?, limit), kind)
            }
            Expr::Interval(Interval { value, leading_field: None, last_field: None, .. }) => {
                let typed = self.analyse(value)?;
                match typed.kind {
                    None => of(self.give(typed, Type::Interval)?, Type::Interval),
                    Some(_) => refused(at, "an interval is written as interval '1 minute' here"),
                }
            }
            Expr::Case { operand: None, conditions, else_result, .. } => {
                self.case(conditions, else_result.as_deref(), at)
            }
            Expr::Function(function) => self.function(function, at),
            other => refused(at, format!("`{other}` is beyond keyed statements; {INSTEAD}")),
        }
    }

    fn predicate(&mut self, expr: &Expr, at: Location) -> Result<Expression, SqlError> {
        Ok(match expr {
            Expr::Between { expr, negated, low, high } => {
                let sides = [
                    self.compare(Comparison::GreaterOrEqual, expr, low)?,
                    self.compare(Comparison::LessOrEqual, expr, high)?,
                ];
                negated_if(*negated, Expression::And(Box::new(sides)))
            }
            Expr::InList { expr, list, negated } => {
                let mut any = None;
                for one in list {
                    let equal = self.compare(Comparison::Equal, expr, one)?;
                    any = Some(any.map_or(equal.clone(), |before| Expression::Or(Box::new([before, equal]))));
                }
                let any = any.ok_or_else(|| SqlError::at(at, "the list of IN is empty; name at least one value"))?;
                negated_if(*negated, any)
            }
            Expr::IsNull(inner) => Expression::IsNull(Box::new(self.output(inner)?.0)),
            Expr::IsNotNull(inner) => negated_if(true, Expression::IsNull(Box::new(self.output(inner)?.0))),
            _ => unreachable!("these are the predicates"),
        })
    }

    fn value(&mut self, value: &Value, at: Location) -> Result<TypedExpression, SqlError> {
        let constant = |scalar, kind| Ok(TypedExpression { expression: Expression::Constant(scalar), kind, at });
        let text = |text: &str| constant(Scalar::Text(text.to_owned().into()), None);
        match value {
            Value::Null => constant(Scalar::Null, None),
            Value::Boolean(is_true) => constant(Scalar::Bool(*is_true), Some(Type::Bool)),
            Value::SingleQuotedString(string) | Value::EscapedStringLiteral(string) => text(string),
            Value::DollarQuotedString(string) => text(&string.value),
            Value::Number(digits, false) => match digits.parse::<i64>() {
                Ok(number) => {
                    let kind = if i32::try_from(number).is_ok() { Type::Int } else { Type::BigInt };
                    constant(Scalar::Int(number), Some(kind))
                }
                Err(_) => match Numeric::parse(digits) {
                    Some(number) => constant(Scalar::Numeric(number), Some(Type::Numeric)),
                    None => {
                        refused(at, format!("`{digits}` cannot be used as a number; {}", super::numeric::TOO_LARGE))
                    }
                },
            },
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
                let Some(number) = number.filter(|number| (1..=PARAMETERS_MAX).contains(number)) else {
                    return refused(at, format!("`{name}` is no parameter; write $1 to ${PARAMETERS_MAX}"));
                };
                let count = self.parameters.len().max(number);
                self.parameters.resize(count, None);
                Ok(TypedExpression {
                    expression: Expression::Parameter(number - 1),
                    kind: self.parameters[number - 1],
                    at,
                })
            }
            other => refused(at, format!("`{other}` is a literal of another kind; write numbers or 'text'")),
        }
    }

    fn column(&mut self, table: Option<&Ident>, name: &Ident) -> Result<TypedExpression, SqlError> {
        let (at, wanted) = (name.span.start, name_of(name));
        if let Some((_, kind)) = self.scope.series.as_ref().filter(|(name, _)| *name == wanted) {
            return Ok(TypedExpression { expression: Expression::Parameter(0), kind: Some(*kind), at });
        }
        let Some((of, alias)) = &self.scope.table else {
            return refused(
                at,
                format!("`{wanted}` cannot be used here, where there is no table; use parameters or constants"),
            );
        };
        if let Some(table) = table.filter(|table| name_of(table) != *alias) {
            return refused(
                table.span.start,
                format!("there is no `{}` in FROM; the table goes by `{alias}`", name_of(table)),
            );
        }
        let Some(position) = of.columns.iter().position(|column| column.name == wanted) else {
            let names: Vec<&str> = of.columns.iter().map(|column| column.name.as_str()).collect();
            return refused(at, format!("`{}` has no column `{wanted}`; it has {}", of.name, names.join(", ")));
        };
        if !self.is_within_aggregate {
            self.plain_column.get_or_insert(at);
        }
        let column = of.columns[position].stored_at(position);
        Ok(TypedExpression { expression: Expression::Column(column), kind: Some(column.kind.into()), at })
    }

    fn binary(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        at: Location,
    ) -> Result<TypedExpression, SqlError> {
        let comparison = match op {
            BinaryOperator::Eq => Some(Comparison::Equal),
            BinaryOperator::NotEq => Some(Comparison::Unequal),
            BinaryOperator::Lt => Some(Comparison::Less),
            BinaryOperator::LtEq => Some(Comparison::LessOrEqual),
            BinaryOperator::Gt => Some(Comparison::Greater),
            BinaryOperator::GtEq => Some(Comparison::GreaterOrEqual),
            _ => None,
        };
        if let Some(comparison) = comparison {
            let expression = self.compare(comparison, left, right)?;
            return Ok(TypedExpression { expression, kind: Some(Type::Bool), at });
        }
        let connected = |sides| match op {
            BinaryOperator::And => Expression::And(Box::new(sides)),
            _ => Expression::Or(Box::new(sides)),
        };
        let operator = match op {
            BinaryOperator::And | BinaryOperator::Or => {
                let sides = [self.condition(left)?, self.condition(right)?];
                return Ok(TypedExpression { expression: connected(sides), kind: Some(Type::Bool), at });
            }
            BinaryOperator::StringConcat => {
                let sides = [self.analyse(left)?, self.analyse(right)?];
                return self.concatenate(sides, at);
            }
            BinaryOperator::Plus => Arithmetic::Add,
            BinaryOperator::Minus => Arithmetic::Subtract,
            BinaryOperator::Multiply => Arithmetic::Multiply,
            BinaryOperator::Divide => Arithmetic::Divide,
            BinaryOperator::Modulo => Arithmetic::Remainder,
            other => return refused(at, format!("the operator {other} is beyond keyed statements; {INSTEAD}")),
        };
        let (left, right) = (self.analyse(left)?, self.analyse(right)?);
        self.arithmetic(operator, left, right, at)
    }

    fn compare(&mut self, comparison: Comparison, left: &Expr, right: &Expr) -> Result<Expression, SqlError> {
        let (left, right) = (self.analyse(left)?, self.analyse(right)?);
        let at = left.at;
        let kinds = match (left.kind, right.kind) {
            (None, None) => [Type::Text; 2],
            (Some(kind), None) | (None, Some(kind)) => [kind; 2],
            (Some(a), Some(b)) if a == b || (a.is_number() && b.is_number()) => [a, b],
            (Some(Type::Date | Type::Timestamp), Some(Type::Date | Type::Timestamp)) => [Type::Timestamp; 2],
            (Some(a), Some(b)) => {
                return refused(at, format!("{a} and {b} do not compare; write a cast, as in (…)::{a}"));
            }
        };
        let sides = Box::new([self.cast(left, kinds[0])?, self.cast(right, kinds[1])?]);
        Ok(Expression::Compare { comparison, kinds, sides })
    }

    fn concatenate(&mut self, sides: [TypedExpression; 2], at: Location) -> Result<TypedExpression, SqlError> {
        if let [Some(a), Some(b)] = [sides[0].kind, sides[1].kind]
            && a != Type::Text
            && b != Type::Text
        {
            return refused(at, format!("|| joins texts, and these are {a} and {b}; write a cast, as in (…)::text"));
        }
        let [left, right] = sides;
        let texts = Box::new([self.cast(left, Type::Text)?, self.cast(right, Type::Text)?]);
        Ok(TypedExpression { expression: Expression::Concatenate(texts), kind: Some(Type::Text), at })
    }

    fn arithmetic(
        &mut self,
        operator: Arithmetic,
        left: TypedExpression,
        right: TypedExpression,
        at: Location,
    ) -> Result<TypedExpression, SqlError> {
        use Arithmetic::{Add, Divide, Multiply, Subtract};
        let known = left.kind.or(right.kind);
        let Some(known) = known.filter(|kind| kind.is_number() || (left.kind.is_some() && right.kind.is_some())) else {
            return refused(at, "the type of an operand is not known; write a cast, as in $1::integer");
        };
        let (a, b) = (left.kind.unwrap_or(known), right.kind.unwrap_or(known));
        let mut operands = (a, b);
        let result = match (operator, a, b) {
            (Divide, _, Type::Numeric) | (Divide, Type::Numeric, _) => {
                return refused(at, "numerics are not divided here; divide whole numbers, or multiply by a constant");
            }
            (_, a, b) if a.is_number() && b.is_number() => a.wider(b),
            (Add | Subtract, Type::Date, Type::Int) | (Add, Type::Int, Type::Date) => Type::Date,
            (Subtract, Type::Date, Type::Date) => Type::Int,
            (Add | Subtract, Type::Timestamp | Type::Date, Type::Interval) => {
                operands.0 = Type::Timestamp;
                Type::Timestamp
            }
            (Add, Type::Interval, Type::Timestamp | Type::Date) => {
                operands.1 = Type::Timestamp;
                Type::Timestamp
            }
            (Multiply, Type::Int | Type::BigInt, Type::Interval)
            | (Multiply, Type::Interval, Type::Int | Type::BigInt) => Type::Interval,
            _ => return refused(at, format!("there is no such operator for {a} and {b} here; write a cast")),
        };
        let sides = [self.cast(left, operands.0)?, self.cast(right, operands.1)?];
        let expression = folded(Expression::Arithmetic { operator, result, sides: Box::new(sides) }, at)?;
        Ok(TypedExpression { expression, kind: Some(result), at })
    }

    fn case(
        &mut self,
        conditions: &[CaseWhen],
        otherwise: Option<&Expr>,
        at: Location,
    ) -> Result<TypedExpression, SqlError> {
        let null = TypedExpression { expression: Expression::Constant(Scalar::Null), kind: None, at };
        let mut tests = Vec::new();
        let mut values = Vec::new();
        for CaseWhen { condition, result } in conditions {
            tests.push(self.condition(condition)?);
            values.push(self.analyse(result)?);
        }
        values.push(otherwise.map_or(Ok(null), |otherwise| self.analyse(otherwise))?);
        let (mut values, kind) = self.of_one_type(values, at)?;
        let otherwise = Box::new(values.pop().expect("the last one is always there"));
        let branches = tests.into_iter().zip(values).map(|(test, value)| [test, value]).collect();
        Ok(TypedExpression { expression: Expression::Case { branches, otherwise }, kind: Some(kind), at })
    }
}

/// The remedy if a statement is beyond the subset.
pub(super) const INSTEAD: &str =
    "use a keyed statement, put a query into a transaction of queries only, or run on a server: `--target postgres:`";

/// More parameters than a statement has anywhere.
const PARAMETERS_MAX: usize = 1000;

fn negated_if(is_negated: bool, condition: Expression) -> Expression {
    if is_negated { Expression::Not(Box::new(condition)) } else { condition }
}

/// An operation on constants is done now.
fn folded(expression: Expression, at: Location) -> Result<Expression, SqlError> {
    let is_constant = |one: &Expression| matches!(one, Expression::Constant(_));
    let is_known = match &expression {
        Expression::Arithmetic { sides, .. } => sides.iter().all(is_constant),
        Expression::Cast { inner, .. } => is_constant(inner),
        _ => false,
    };
    if !is_known {
        return Ok(expression);
    }
    let input = Input { parameters: &[], types: &[], now_us: 0 };
    match expression.evaluate(&input, &Row::None) {
        Ok(scalar) => Ok(Expression::Constant(scalar.into_owned())),
        Err(error) => refused(at, error.to_string()),
    }
}
