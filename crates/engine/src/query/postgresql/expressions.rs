//! Expressions with the types that they have in PostgreSQL.

use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::logical_expr::expr::{Case, InList, Like};
use datafusion::logical_expr::{Between, Cast, Expr, ExprSchemable, Operator, not};

use super::kinds::Kind;
use super::{Result, casts, fault, functions, literals, operators, refused, subqueries};

/// An expression and its type.
#[derive(Debug, Clone)]
pub struct Typed {
    /// The expression, in which DataFusion's types are those that [`Typed::kind`] says.
    pub expr: Expr,
    /// Its type.
    pub kind: Kind,
}

/// The columns that an expression may name.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The columns of the inputs.
    pub columns: &'a DFSchema,
    /// The columns of the queries around this one, the innermost last.
    pub outers: &'a [DFSchemaRef],
    /// Whether a subquery may be here that gives one value.
    pub has_subqueries: bool,
}

impl Typed {
    /// The expression with a type that DataFusion computes.
    pub fn of(expr: Expr, scope: Scope) -> Result<Typed> {
        let kind = Kind::of(&expr.get_type(scope.columns).map_err(fault)?);
        Ok(Typed { expr, kind })
    }

    /// As it leaves an expression: a string literal is a text, and a timestamp is kept as one.
    pub fn settled(self) -> Result<Typed> {
        match self.kind {
            Kind::Midnight => Ok(casts::widened(self, Kind::Timestamp)),
            Kind::Interval => refused("an interval as a value", "add it to a date or a timestamp"),
            _ => Ok(self),
        }
    }
}

/// A condition.
pub fn condition(expr: &Expr, scope: Scope) -> Result<Expr> {
    boolean(typed(expr, scope)?)
}

/// A value that is an operand of AND, OR, NOT, or a condition.
fn boolean(value: Typed) -> Result<Expr> {
    match value.kind {
        Kind::Boolean => Ok(value.expr),
        Kind::Unknown => Ok(literals::read(&value.expr, Kind::Boolean)?.expr),
        kind => refused(format_args!("{kind} as a condition"), "compare it with a value"),
    }
}

/// An expression whose value is a column of the result, a key or an operand.
pub fn value(expr: &Expr, scope: Scope) -> Result<Typed> {
    typed(expr, scope)?.settled()
}

/// An expression with its type.
pub fn typed(expr: &Expr, scope: Scope) -> Result<Typed> {
    let is = |expr| Ok(Typed { expr, kind: Kind::Boolean });
    match expr {
        Expr::Alias(alias) => typed(&alias.expr, scope),
        Expr::Column(_) => Typed::of(expr.clone(), scope),
        Expr::OuterReferenceColumn(_, column) => subqueries::outer_column(column, scope),
        Expr::Literal(value, _) => literals::typed(value),
        Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => {
            let (left, right) = (condition(&binary.left, scope)?, condition(&binary.right, scope)?);
            is(if binary.op == Operator::And { left.and(right) } else { left.or(right) })
        }
        Expr::BinaryExpr(binary) => {
            operators::binary(typed(&binary.left, scope)?, binary.op, typed(&binary.right, scope)?, scope)
        }
        Expr::Not(inner) => is(not(condition(inner, scope)?)),
        Expr::Negative(inner) => operators::negative(typed(inner, scope)?, scope),
        Expr::IsNull(inner) => is(Expr::IsNull(Box::new(value(inner, scope)?.expr))),
        Expr::IsNotNull(inner) => is(Expr::IsNotNull(Box::new(value(inner, scope)?.expr))),
        Expr::IsTrue(inner) => is(Expr::IsTrue(Box::new(condition(inner, scope)?))),
        Expr::IsFalse(inner) => is(Expr::IsFalse(Box::new(condition(inner, scope)?))),
        Expr::IsUnknown(inner) => is(Expr::IsUnknown(Box::new(condition(inner, scope)?))),
        Expr::IsNotTrue(inner) => is(Expr::IsNotTrue(Box::new(condition(inner, scope)?))),
        Expr::IsNotFalse(inner) => is(Expr::IsNotFalse(Box::new(condition(inner, scope)?))),
        Expr::IsNotUnknown(inner) => is(Expr::IsNotUnknown(Box::new(condition(inner, scope)?))),
        Expr::Between(of) => is(between(of, scope)?),
        Expr::InList(of) => is(in_list(of, scope)?),
        Expr::Like(of) => is(like(of, scope)?),
        Expr::Case(of) => case(of, scope),
        Expr::Cast(Cast { expr, field }) => casts::cast(typed(expr, scope)?, Kind::of(field.data_type()), field),
        Expr::ScalarFunction(function) => functions::call(function, scope),
        Expr::ScalarSubquery(subquery) => subqueries::scalar(subquery, scope),
        Expr::InSubquery(_) | Expr::Exists(_) => {
            refused("IN (SELECT …) and EXISTS within an expression", "write them in WHERE, alone or joined by AND")
        }
        other => refused(format_args!("`{other}`"), "see the list of what queries may contain"),
    }
}

/// The values converted to the type that all of them have in CASE, COALESCE and the like.
pub fn together(values: Vec<Typed>) -> Result<(Vec<Expr>, Kind)> {
    let values = values.into_iter().map(Typed::settled).collect::<Result<Vec<_>>>()?;
    let kind = values.iter().try_fold(Kind::Unknown, |common, value| common.common(value.kind))?;
    if kind == Kind::Other {
        return refused("values of this type", "see the list of types");
    }
    // String literals alone are texts.
    let kind = if kind == Kind::Unknown { Kind::Text } else { kind };
    let exprs = values.into_iter().map(|value| Ok(casts::implicit(value, kind)?.expr));
    Ok((exprs.collect::<Result<_>>()?, kind))
}

fn between(of: &Between, scope: Scope) -> Result<Expr> {
    let bound = |bound: &Expr, operator| {
        Ok::<_, crate::query::QueryError>(
            operators::binary(typed(&of.expr, scope)?, operator, typed(bound, scope)?, scope)?.expr,
        )
    };
    let (low, high) = (bound(&of.low, Operator::GtEq)?, bound(&of.high, Operator::LtEq)?);
    let within = low.and(high);
    Ok(if of.negated { not(within) } else { within })
}

/// DataFusion forgets a NULL among the values of NOT IN. Such a list, and one of anything but literals, becomes comparisons.
fn in_list(of: &InList, scope: Scope) -> Result<Expr> {
    let value = typed(&of.expr, scope)?;
    let list = of.list.iter().map(|item| typed(item, scope)).collect::<Result<Vec<_>>>()?;
    let is_plain = |item: &Typed| matches!(&item.expr, Expr::Literal(value, _) if !value.is_null());
    if list.iter().all(is_plain) && !matches!(value.expr, Expr::Literal(..)) {
        let values = [vec![value.clone()], list.clone()].concat();
        let (mut exprs, kind) = together(values)?;
        if exprs[0] == value.expr || kind == value.kind {
            let value = exprs.remove(0);
            return Ok(value.in_list(exprs, of.negated));
        }
    }
    let equals = list
        .into_iter()
        .map(|item| Ok(operators::binary(value.clone(), Operator::Eq, item, scope)?.expr))
        .collect::<Result<Vec<_>>>()?;
    let Some(is_in) = equals.into_iter().reduce(Expr::or) else { return refused("IN ()", "give a value") };
    Ok(if of.negated { not(is_in) } else { is_in })
}

fn like(of: &Like, scope: Scope) -> Result<Expr> {
    let is_plain = !of.case_insensitive && matches!(of.escape_char, None | Some('\\'));
    let (value, pattern) = (typed(&of.expr, scope)?, typed(&of.pattern, scope)?);
    let value = casts::text(value, "LIKE")?;
    let Some(text) = literals::text(&pattern.expr).filter(|_| is_plain) else {
        return refused("ILIKE, and LIKE with ESCAPE or a pattern that is no literal", "write LIKE 'pattern'");
    };
    let trailing = text.len() - text.trim_end_matches('\\').len();
    if trailing % 2 == 1 {
        return refused("a LIKE pattern that ends with \\", "write \\\\ for the character");
    }
    Ok(Expr::Like(Like { expr: Box::new(value), pattern: Box::new(pattern.expr), escape_char: None, ..of.clone() }))
}

fn case(of: &Case, scope: Scope) -> Result<Typed> {
    let of_value = of.expr.as_ref().map(|value| typed(value, scope)).transpose()?;
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    for (when, then) in &of.when_then_expr {
        conditions.push(match &of_value {
            Some(value) => operators::binary(value.clone(), Operator::Eq, typed(when, scope)?, scope)?.expr,
            None => condition(when, scope)?,
        });
        values.push(typed(then, scope)?);
    }
    let has_else = of.else_expr.is_some();
    if let Some(otherwise) = &of.else_expr {
        values.push(typed(otherwise, scope)?);
    }
    let (mut values, kind) = together(values)?;
    let otherwise = if has_else { values.pop().map(Box::new) } else { None };
    let branches = conditions.into_iter().map(Box::new).zip(values.into_iter().map(Box::new)).collect();
    Ok(Typed { expr: Expr::Case(Case::new(None, branches, otherwise)), kind })
}
