//! Functions and aggregates.

use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments};
use sqlparser::tokenizer::Location;

use super::SqlError;
use super::analysis::{Analysis, INSTEAD, TypedExpression, refused};
use super::expression::Expression;
use super::scalar::Type;

/// Something of all rows that are found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Aggregate {
    pub(super) function: AggregateFunction,
    /// `None` for `count(*)`.
    pub(super) argument: Option<Expression>,
    pub(super) result: Type,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AggregateFunction {
    Count,
    Sum,
    Min,
    Max,
}

impl Analysis<'_> {
    pub(super) fn function(&mut self, function: &Function, at: Location) -> Result<TypedExpression, SqlError> {
        let unknown = || refused(at, format!("`{function}` is beyond keyed statements; {INSTEAD}"));
        let Function { name, uses_odbc_syntax: false, parameters: FunctionArguments::None, args, .. } = function else {
            return unknown();
        };
        let Function { filter, over, null_treatment, within_group, .. } = function;
        if filter.is_some() || over.is_some() || null_treatment.is_some() || !within_group.is_empty() {
            return unknown();
        }
        let name = name.to_string().to_ascii_lowercase();
        let arguments: &[FunctionArg] = match args {
            FunctionArguments::None => &[],
            FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses })
                if clauses.is_empty() =>
            {
                args
            }
            _ => return unknown(),
        };
        let now = TypedExpression { expression: Expression::Now, kind: Some(Type::Timestamp), at };
        match (name.as_str(), arguments) {
            ("now" | "transaction_timestamp" | "current_timestamp" | "localtimestamp", []) => Ok(now),
            ("current_date", []) => {
                Ok(TypedExpression { expression: self.cast(now, Type::Date)?, kind: Some(Type::Date), at })
            }
            ("coalesce", [_, ..]) => {
                let mut all = Vec::new();
                for argument in arguments {
                    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return unknown() };
                    all.push(self.analyse(expr)?);
                }
                let (all, kind) = self.of_one_type(all, at)?;
                Ok(TypedExpression { expression: Expression::Coalesce(all), kind: Some(kind), at })
            }
            ("count", [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]) => {
                self.aggregate(AggregateFunction::Count, None, at)
            }
            (name, [FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))]) => {
                let function = match name {
                    "count" => AggregateFunction::Count,
                    "sum" => AggregateFunction::Sum,
                    "min" => AggregateFunction::Min,
                    "max" => AggregateFunction::Max,
                    _ => return unknown(),
                };
                self.aggregate(function, Some(expr), at)
            }
            _ => unknown(),
        }
    }

    fn aggregate(
        &mut self,
        function: AggregateFunction,
        of: Option<&Expr>,
        at: Location,
    ) -> Result<TypedExpression, SqlError> {
        if self.is_within_aggregate || self.scope.table.is_none() {
            return refused(at, "an aggregate stands in the list of SELECT, and not within another");
        }
        self.is_within_aggregate = true;
        let argument = of.map(|expr| self.output(expr)).transpose();
        self.is_within_aggregate = false;
        let argument = argument?;
        let kind = argument.as_ref().map(|(_, kind)| *kind);
        let result = match (function, kind) {
            (AggregateFunction::Count, _) | (AggregateFunction::Sum, Some(Type::Int)) => Type::BigInt,
            (AggregateFunction::Sum, Some(Type::BigInt | Type::Numeric)) => Type::Numeric,
            (AggregateFunction::Min | AggregateFunction::Max, Some(kind)) if kind != Type::Bool => kind,
            (_, kind) => {
                let kind = kind.unwrap_or(Type::Bool);
                return refused(at, format!("there is no such aggregate of {kind}; write a cast"));
            }
        };
        self.aggregates.push(Aggregate { function, argument: argument.map(|(expression, _)| expression), result });
        Ok(TypedExpression { expression: Expression::Aggregate(self.aggregates.len() - 1), kind: Some(result), at })
    }
}
