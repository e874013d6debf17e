//! SQL that DataFusion's planner would skip, or whose meaning it would lose before a logical plan shows it.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Interval, JoinConstraint, JoinOperator, Query, Select, SelectFlavor,
    SetExpr, SetOperator, SetQuantifier, Statement, TableFactor, TimezoneInfo, Value, Visit, Visitor,
};

use super::{Result, refused};
use crate::query::QueryError;

/// Refuses a statement that is no query, or has parts that are not on the list.
pub fn check(statement: &Parsed) -> Result<()> {
    let statement = match statement {
        Parsed::Statement(statement) => statement,
        // A plan has no meaning of its own.
        Parsed::Explain(explained) => return check(&explained.statement),
        other => return refused(format_args!("`{other}` as a query"), "write a SELECT"),
    };
    let Statement::Query(query) = &**statement else {
        return refused(format_args!("`{statement}` as a query"), "write a SELECT");
    };
    match query.visit(&mut Checker) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Checker;

type Flow = ControlFlow<QueryError>;

fn flow(checked: Result<()>) -> Flow {
    checked.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

impl Visitor for Checker {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        flow(of_query(query))
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        flow(of_select(select))
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> Flow {
        flow(of_table(table))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        flow(of_expression(expr))
    }
}

fn of_query(query: &Query) -> Result<()> {
    let is_plain = query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty();
    if !is_plain {
        return refused("FETCH, FOR UPDATE and the like in a query", "write LIMIT, or leave it out");
    }
    if query.with.as_ref().is_some_and(|with| with.recursive) {
        return refused("WITH RECURSIVE", "use a PostgreSQL server");
    }
    of_set(&query.body)
}

fn of_set(body: &SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(_) | SetExpr::Query(_) => Ok(()),
        SetExpr::SetOperation {
            op: op @ (SetOperator::Union | SetOperator::Intersect | SetOperator::Except),
            set_quantifier: quantifier @ (SetQuantifier::All | SetQuantifier::None | SetQuantifier::Distinct),
            left,
            right,
        } if *op == SetOperator::Union || *quantifier != SetQuantifier::All => {
            of_set(left)?;
            of_set(right)
        }
        SetExpr::SetOperation { op, set_quantifier, .. } => {
            refused(format_args!("{op} {set_quantifier}"), "write EXISTS or NOT EXISTS")
        }
        _ => refused("VALUES and TABLE as a query", "write SELECT … UNION ALL SELECT …"),
    }
}

fn of_select(select: &Select) -> Result<()> {
    let is_plain = select.optimizer_hints.is_empty()
        && select.select_modifiers.is_none()
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.qualify.is_none()
        && select.value_table_mode.is_none()
        && matches!(select.flavor, SelectFlavor::Standard);
    if !is_plain {
        return refused("a clause of SELECT that PostgreSQL does not have", "write PostgreSQL's SQL");
    }
    for join in select.from.iter().flat_map(|from| &from.joins) {
        of_join(&join.join_operator)?;
    }
    Ok(())
}

/// USING and NATURAL merge columns, for which DataFusion takes one side.
fn of_join(operator: &JoinOperator) -> Result<()> {
    let constraint = match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => {
            if matches!(constraint, JoinConstraint::Using(_)) {
                return Ok(());
            }
            constraint
        }
        JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::CrossJoin(constraint) => constraint,
        _ => return refused("this join", "write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN or CROSS JOIN"),
    };
    match constraint {
        JoinConstraint::On(_) | JoinConstraint::None => Ok(()),
        _ => refused("NATURAL, and USING in RIGHT and FULL joins", "write ON"),
    }
}

fn of_table(table: &TableFactor) -> Result<()> {
    match table {
        TableFactor::Table {
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
            ..
        } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => Ok(()),
        TableFactor::Derived { lateral: false, sample: None, .. } => Ok(()),
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            table_with_joins.joins.iter().try_for_each(|join| of_join(&join.join_operator))
        }
        other => refused(format_args!("`{other}` in FROM"), "name a table or a subquery"),
    }
}

fn of_expression(expr: &Expr) -> Result<()> {
    match expr {
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, data_type, format: None, array: false, .. } => {
            of_type(data_type)
        }
        Expr::Cast { .. } => refused("TRY_CAST, and casts with a format", "write CAST(value AS type)"),
        Expr::TypedString(literal) => match literal.data_type {
            DataType::Date | DataType::Timestamp(None, TimezoneInfo::None) => Ok(()),
            _ => refused(format_args!("`{expr}`"), "write a date, a timestamp or an interval"),
        },
        Expr::Interval(interval) => of_interval(interval),
        Expr::Collate { .. } => refused("COLLATE", "texts are ordered by their bytes; leave it out"),
        Expr::AtTimeZone { .. } => refused("AT TIME ZONE", "timestamps have no time zone"),
        Expr::Trim { trim_what, trim_characters, .. } if trim_what.is_some() || trim_characters.is_some() => {
            refused("trim of other characters than blanks", "write replace, or trim(text)")
        }
        Expr::Value(value) => match &value.value {
            Value::Number(_, false)
            | Value::SingleQuotedString(_)
            | Value::DollarQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::Boolean(_)
            | Value::Null => Ok(()),
            other => refused(format_args!("the literal `{other}`"), "write a number or a string"),
        },
        _ => Ok(()),
    }
}

fn of_type(data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Int(None)
        | DataType::Integer(None)
        | DataType::Int4(None)
        | DataType::BigInt(None)
        | DataType::Int8(None)
        | DataType::Boolean
        | DataType::Bool
        | DataType::Text
        | DataType::Varchar(None)
        | DataType::Date
        | DataType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Ok(()),
        DataType::Numeric(info) | DataType::Decimal(info) => match info {
            ExactNumberInfo::Precision(digits) if (1..=38).contains(digits) => Ok(()),
            ExactNumberInfo::PrecisionAndScale(digits, scale)
                if (1..=38).contains(digits) && (0..=i64::try_from(*digits).unwrap_or(38)).contains(scale) =>
            {
                Ok(())
            }
            _ => refused(format_args!("a cast to {data_type}"), "give digits, as in numeric(38, 6), at most 38"),
        },
        other => refused(
            format_args!("a cast to {other}"),
            "cast to integer, bigint, numeric(digits, scale), text, boolean, date or timestamp",
        ),
    }
}

/// Whole numbers of units that both read alike.
fn of_interval(interval: &Interval) -> Result<()> {
    const UNITS: [&str; 7] = ["year", "month", "week", "day", "hour", "minute", "second"];
    let is_number = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.len() < 7 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_unit = |text: &str| UNITS.contains(&text.to_lowercase().trim_end_matches('s'));
    let text = match &*interval.value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => text.as_str(),
            _ => "",
        },
        _ => "",
    };
    let words: Vec<_> = text.split_whitespace().collect();
    let is_plain = match &interval.leading_field {
        Some(unit) => words.len() == 1 && is_number(words[0]) && is_unit(&unit.to_string()),
        None => {
            !words.is_empty()
                && words.len() % 2 == 0
                && words.chunks(2).all(|pair| is_number(pair[0]) && is_unit(pair[1]))
        }
    };
    let is_whole = interval.last_field.is_none() && interval.leading_precision.is_none();
    match is_plain && is_whole && interval.fractional_seconds_precision.is_none() {
        true => Ok(()),
        false => refused(format_args!("`{interval}`"), "write INTERVAL '3 months' or INTERVAL '3' MONTH"),
    }
}
