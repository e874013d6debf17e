//! Runs programs.

use smallvec::SmallVec;

use super::access::{Access, RowSource};
use super::expression::{Arithmetic, Expression, Input, Row, parameter};
use super::failed;
use super::function::{Aggregate, AggregateFunction};
use super::scalar::{Scalar, StoredValue, Type};
use crate::database::DatabaseError;
use crate::schema::{ColumnId, ColumnKind, DeclaredColumn, Index, TableId};
use crate::statement::{End, Intent, RowAccess, RowRef, Rows, Value};

/// A statement as row operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    pub(super) parameters: Vec<Type>,
    pub(super) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// A row computed from parameters only.
    Compute {
        output: Vec<Expression>,
    },
    Read {
        source: RowSource,
        intent: Intent,
        limit: Option<Expression>,
        output: Vec<Expression>,
    },
    /// One row computed from all rows.
    Aggregate {
        source: RowSource,
        aggregates: Vec<Aggregate>,
        output: Vec<Expression>,
    },
    /// The column at one end of a range.
    Extreme {
        source: RowSource,
        end: End,
        aggregate: Expression,
        output: Vec<Expression>,
    },
    Insert {
        table: TableId,
        columns: Vec<DeclaredColumn>,
        /// Values, and [the first parameter](super::expression::first_given) if they are parameters only.
        rows: Vec<(Option<usize>, Vec<Expression>)>,
        returning: Vec<Expression>,
    },
    Update {
        source: RowSource,
        columns: Vec<(ColumnId, DeclaredColumn)>,
        values: Vec<Expression>,
        returning: Vec<Expression>,
    },
    Delete {
        source: RowSource,
        returning: Vec<Expression>,
    },
}

impl Program {
    /// The kind of statement, if it changes rows.
    pub fn change(&self) -> Option<&'static str> {
        match self.action {
            Action::Compute { .. } | Action::Read { .. } | Action::Aggregate { .. } | Action::Extreme { .. } => None,
            Action::Insert { .. } => Some("INSERT"),
            Action::Update { .. } => Some("UPDATE"),
            Action::Delete { .. } => Some("DELETE"),
        }
    }

    /// The table of whose primary key it reads a range, if it does.
    pub fn key_range(&self) -> Option<TableId> {
        let (Action::Read { source, .. }
        | Action::Aggregate { source, .. }
        | Action::Extreme { source, .. }
        | Action::Update { source, .. }
        | Action::Delete { source, .. }) = &self.action
        else {
            return None;
        };
        match source.access {
            Access::Range { index: Index { table, number: 0 }, .. } => Some(table),
            _ => None,
        }
    }

    /// Runs the statement. Parameters and results have the same form as in a session of a server: numerics with decimal
    /// places are text, truth values are 0 and 1. `now_us` is when the transaction began, in microseconds since 1970.
    pub fn run(
        &self,
        access: &mut dyn RowAccess,
        parameters: &[Value<'_>],
        now_us: i64,
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        if parameters.len() < self.parameters.len() {
            return failed(format!("{} parameters are given, and {} used", parameters.len(), self.parameters.len()));
        }
        let input = Input { parameters, types: &self.parameters, now_us };
        // A server refuses a parameter before it looks for rows.
        for (at, (value, kind)) in parameters.iter().zip(&self.parameters).enumerate() {
            if !kind.is_given_by(*value) {
                Scalar::of_parameter(*value, *kind).or_else(|why| failed(parameter(at, &why)))?;
            }
        }
        match &self.action {
            Action::Compute { output } => append(output, &input, &Row::None, rows),
            Action::Read { source, intent, limit, output } => {
                let limit = limit.as_ref().map(|limit| limit_of(limit, &input)).transpose()?.flatten();
                source.visit(*intent, limit, &input, access, |access, row| {
                    append(output, &input, &Row::Stored(&*access, row), rows)
                })
            }
            Action::Aggregate { source, aggregates, output } => {
                let mut values: Vec<Scalar<'_>> = aggregates.iter().map(Aggregate::of_none).collect();
                source.visit(Intent::Read, None, &input, access, |access, row| {
                    let mut each = aggregates.iter().zip(&mut values);
                    each.try_for_each(|(aggregate, value)| aggregate.add(value, &input, &Row::Stored(&*access, row)))
                })?;
                append(output, &input, &Row::Aggregates(&values), rows)
            }
            Action::Extreme { source, end, aggregate, output } => {
                let found = source.end(*end, &input, access)?;
                let value = match found {
                    Some(row) => aggregate.evaluate(&input, &Row::Stored(&*access, row))?,
                    None => Scalar::Null,
                };
                append(output, &input, &Row::Aggregates(&[value]), rows)
            }
            Action::Insert { table, columns, rows: given, returning } => {
                given.iter().try_for_each(|row| insert(*table, columns, row, returning, &input, access, rows))?;
                count(given.len(), returning, rows);
                Ok(())
            }
            Action::Update { source, columns, values, returning } => {
                let mut changed = 0;
                source.visit(Intent::Write, None, &input, access, |access, row| {
                    changed += 1;
                    update(row, columns, values, &input, access)?;
                    append(returning, &input, &Row::Stored(&*access, row), rows)
                })?;
                count(changed, returning, rows);
                Ok(())
            }
            Action::Delete { source, returning } => {
                let mut deleted = 0;
                source.visit(Intent::Write, None, &input, access, |access, row| {
                    deleted += 1;
                    append(returning, &input, &Row::Stored(&*access, row), rows)?;
                    access.delete(row)
                })?;
                count(deleted, returning, rows);
                Ok(())
            }
        }
    }
}

fn insert(
    table: TableId,
    columns: &[DeclaredColumn],
    (first_given, values): &(Option<usize>, Vec<Expression>),
    returning: &[Expression],
    input: &Input<'_>,
    access: &mut dyn RowAccess,
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    let mut add = |row: &[Value<'_>]| {
        access.insert(table, row)?;
        append(returning, input, &Row::Inserted(row), rows)
    };
    let kinds = columns.iter().map(|column| (column.kind, column.nullable));
    if let Some(row) = first_given.and_then(|first| input.given(first, kinds)) {
        return add(row);
    }
    let mut row = SmallVec::<[StoredValue<'_>; 8]>::new();
    for (value, column) in values.iter().zip(columns) {
        row.push(stored(value, column, input, &Row::None)?);
    }
    add(&row.iter().map(StoredValue::value).collect::<SmallVec<[Value<'_>; 16]>>())
}

/// All new values are computed from the old row.
fn update(
    row: RowRef,
    columns: &[(ColumnId, DeclaredColumn)],
    values: &[Expression],
    input: &Input<'_>,
    access: &mut dyn RowAccess,
) -> Result<(), DatabaseError> {
    let old = Row::Stored(&*access, row);
    let mut new = SmallVec::<[StoredValue<'_>; 3]>::new();
    for ((_, column), value) in columns.iter().zip(values) {
        new.push(stored(value, column, input, &old)?);
    }
    let mut each = columns.iter().zip(&new);
    each.try_for_each(|((position, _), value)| access.set(row, *position, value.value()))
}

/// A statement that returns rows does not report how many it changed.
fn count(rows_changed: usize, returning: &[Expression], rows: &mut Rows) {
    if returning.is_empty() {
        rows.set_affected(rows_changed as u64);
    }
}

/// Adds a row of the expressions' values; adds none if there are no expressions.
fn append(output: &[Expression], input: &Input<'_>, row: &Row<'_>, rows: &mut Rows) -> Result<(), DatabaseError> {
    if output.is_empty() {
        return Ok(());
    }
    rows.start(output.len());
    for expression in output {
        match (expression, row) {
            // Copied once, straight from the row; numerics are kept as whole numbers.
            (Expression::Column(of), &Row::Stored(access, row)) if !matches!(of.kind, ColumnKind::Decimal { .. }) => {
                rows.append_column(access, row, *of);
            }
            _ => match expression.evaluate(input, row)? {
                Scalar::Null => rows.append(Value::Null),
                Scalar::Bool(is_true) => rows.append(Value::Int(is_true.into())),
                Scalar::Int(number) => rows.append(Value::Int(number)),
                Scalar::Text(text) => rows.append(Value::Text(&text)),
                Scalar::Numeric(number) => match number.whole() {
                    Some(number) => rows.append(Value::Int(number)),
                    None => rows.append(Value::Text(&number.to_string())),
                },
            },
        }
    }
    Ok(())
}

/// The limit on rows; `None` for all.
fn limit_of(limit: &Expression, input: &Input<'_>) -> Result<Option<usize>, DatabaseError> {
    let Some(count) = limit.whole(input, &Row::None)? else { return Ok(None) };
    usize::try_from(count).map(Some).or_else(|_| failed(format!("LIMIT must not be negative, and is {count}")))
}

/// A value for a column, if that can have it.
#[inline(always)]
fn stored<'a>(
    expression: &'a Expression,
    column: &DeclaredColumn,
    input: &Input<'a>,
    row: &Row<'_>,
) -> Result<StoredValue<'a>, DatabaseError> {
    let value = expression.kept(column.kind, input, row)?;
    let name = &column.name;
    match (&value, column.kind) {
        (StoredValue::Null, _) if !column.nullable => failed(format!("null in column `{name}`, which is NOT NULL")),
        (StoredValue::Text(text), ColumnKind::Text(bytes_max)) if text.len() > bytes_max => {
            failed(format!("text of {} bytes in column `{name}`, which has room for {bytes_max}", text.len()))
        }
        _ => Ok(value),
    }
}

impl Aggregate {
    /// Its value over no rows.
    fn of_none(&self) -> Scalar<'static> {
        if self.function == AggregateFunction::Count { Scalar::Int(0) } else { Scalar::Null }
    }

    /// Takes one more row into account.
    fn add(&self, total: &mut Scalar<'_>, input: &Input<'_>, row: &Row<'_>) -> Result<(), DatabaseError> {
        let value = match &self.argument {
            Some(argument) => argument.evaluate(input, row)?.into_owned(),
            None => Scalar::Int(1),
        };
        if value == Scalar::Null {
            return Ok(());
        }
        let sum =
            |total: &Scalar<'_>, value: &Scalar<'_>| Arithmetic::Add.apply(total, value, self.result).or_else(failed);
        *total = match (self.function, &*total) {
            (AggregateFunction::Count, total) => sum(total, &Scalar::Int(1))?,
            (AggregateFunction::Sum, Scalar::Null) => sum(&Scalar::Int(0), &value)?,
            (AggregateFunction::Sum, total) => sum(total, &value)?,
            (AggregateFunction::Min, total) if *total != Scalar::Null && total.compare(&value).is_le() => return Ok(()),
            (AggregateFunction::Max, total) if *total != Scalar::Null && total.compare(&value).is_ge() => return Ok(()),
            (AggregateFunction::Min | AggregateFunction::Max, _) => value,
        };
        Ok(())
    }
}
