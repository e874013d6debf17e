//! Arithmetic on decimals in 64 bits instead of 128, where the columns' minima and maxima prove that nothing overflows.
//!
//! Every step has bounds, by interval arithmetic from those of the columns; an expression with a step that could leave 64 bits is
//! not taken. Rows that are not selected may hold anything, so that their results are computed with wrapping, and never used.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};

use crate::columns::ColumnTable;
use crate::columns::narrow::whole;
use crate::query::array_aggregate::values::Values;

/// How far values of a table with changes may at least lie beyond its minima and maxima.
const MARGIN_MIN: i128 = 1000;

/// One operation; numbers are those of earlier steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Column(usize),
    Literal(i64),
    Add(usize, usize),
    Subtract(usize, usize),
    Multiply(usize, usize),
}

/// The steps of some expressions; common steps are computed once.
#[derive(Debug, Default)]
pub struct Program {
    steps: Vec<Operation>,
    bounds: Vec<RangeInclusive<i64>>,
}

/// Where the columns of an expression come from.
pub struct Scope<'a> {
    pub table: &'a ColumnTable,
    /// The scan's columns by place: the table's columns.
    pub projection: &'a [usize],
    pub schema: &'a Schema,
    /// Whether changes are laid over the table. Bounds of its columns get a margin then, for their values can be outside.
    pub has_changes: bool,
    pub rows_max: usize,
}

impl Program {
    /// Adds an expression of a numeric type over a scan's columns; returns the step that has its value, and the scale of that.
    /// `None` if it is not arithmetic on columns without nulls, or could leave 64 bits.
    pub fn add(&mut self, expression: &Arc<dyn PhysicalExpr>, scope: &Scope<'_>) -> Option<(usize, i8)> {
        let of_type = expression.data_type(scope.schema).ok()?;
        let scale = scale(&of_type)?;
        let step = if let Some(column) = expression.downcast_ref::<Column>() {
            self.column(scope.projection[column.index()], scope)?
        } else if let Some(literal) = expression.downcast_ref::<Literal>() {
            self.literal(i64::try_from(whole(literal.value())?).ok()?)?
        } else if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            let (step, from) = self.add(cast.expr(), scope)?;
            let from_type = cast.expr().data_type(scope.schema).ok()?;
            // Into a type that holds every value of the first one, so that it cannot fail.
            if digits(&of_type)?.start() < digits(&from_type)?.end() {
                return None;
            }
            self.rescaled(step, from, scale)?
        } else {
            let binary = expression.downcast_ref::<BinaryExpr>()?;
            // Integers wrap, which bounds of 64 bits say nothing about for smaller ones.
            matches!(of_type, DataType::Decimal128(..)).then_some(())?;
            let (left, left_scale) = self.add(binary.left(), scope)?;
            let (right, right_scale) = self.add(binary.right(), scope)?;
            match binary.op() {
                Operator::Multiply if scale == left_scale + right_scale => {
                    self.step(Operation::Multiply(left, right))?
                }
                op @ (Operator::Plus | Operator::Minus) => {
                    let left = self.rescaled(left, left_scale, scale)?;
                    let right = self.rescaled(right, right_scale, scale)?;
                    let is_sum = *op == Operator::Plus;
                    self.step(if is_sum { Operation::Add(left, right) } else { Operation::Subtract(left, right) })?
                }
                _ => return None,
            }
        };
        Some((step, scale))
    }

    /// The largest distance from zero that a step's value can have.
    pub fn magnitude(&self, step: usize) -> u64 {
        self.bounds[step].start().unsigned_abs().max(self.bounds[step].end().unsigned_abs())
    }

    /// Whether values of a column are as the program needs them: none null, and all within bounds.
    pub fn holds(&self, column: usize, values: &ArrayRef) -> bool {
        let Some(step) = self.steps.iter().position(|step| *step == Operation::Column(column)) else { return true };
        values.null_count() == 0 && Values::of(values).is_some_and(|values| values.are_within(&self.bounds[step]))
    }

    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| if let Operation::Column(column) = step { Some(*column) } else { None })
    }

    fn column(&mut self, column: usize, scope: &Scope<'_>) -> Option<usize> {
        let summary = &scope.table.statistics().columns[column];
        let (min, max) = (whole(&summary.min)?, whole(&summary.max)?);
        (summary.null_count == 0).then_some(())?;
        let margin = if scope.has_changes { max.checked_sub(min)?.max(MARGIN_MIN) } else { 0 };
        self.bounded(Operation::Column(column), min.checked_sub(margin)?, max.checked_add(margin)?)
    }

    fn literal(&mut self, value: i64) -> Option<usize> {
        self.bounded(Operation::Literal(value), value.into(), value.into())
    }

    /// A step's value with another scale; `None` if digits would be lost.
    fn rescaled(&mut self, step: usize, from: i8, to: i8) -> Option<usize> {
        if from == to {
            return Some(step);
        }
        let factor = 10i64.checked_pow(u32::try_from(to.checked_sub(from)?).ok()?)?;
        let factor = self.literal(factor)?;
        self.step(Operation::Multiply(step, factor))
    }

    fn step(&mut self, step: Operation) -> Option<usize> {
        let ends = |step: usize| [*self.bounds[step].start(), *self.bounds[step].end()].map(i128::from);
        let (min, max) = match step {
            Operation::Add(left, right) => (ends(left)[0] + ends(right)[0], ends(left)[1] + ends(right)[1]),
            Operation::Subtract(left, right) => (ends(left)[0] - ends(right)[1], ends(left)[1] - ends(right)[0]),
            Operation::Multiply(left, right) => {
                // Products of two numbers of 64 bits fit 127.
                let corners = ends(left).map(|l| ends(right).map(|r| l * r));
                let corners = corners.as_flattened();
                (*corners.iter().min()?, *corners.iter().max()?)
            }
            Operation::Column(_) | Operation::Literal(_) => return None,
        };
        self.bounded(step, min, max)
    }

    fn bounded(&mut self, step: Operation, min: i128, max: i128) -> Option<usize> {
        if let Some(same) = self.steps.iter().position(|earlier| *earlier == step) {
            return Some(same);
        }
        self.bounds.push(i64::try_from(min).ok()?..=i64::try_from(max).ok()?);
        self.steps.push(step);
        Some(self.steps.len() - 1)
    }
}

/// The values of a program's steps for some rows.
#[derive(Debug)]
pub struct Registers(pub(super) Vec<Vec<i64>>);

impl Registers {
    pub fn new(program: &Program, rows_max: usize) -> Self {
        let fill = |step: &Operation| if let Operation::Literal(value) = step { *value } else { 0 };
        Registers(program.steps.iter().map(|step| vec![fill(step); rows_max]).collect())
    }

    /// Computes all steps for the first rows; `column` has the table's columns.
    pub fn run<'a>(&mut self, program: &Program, rows: usize, column: impl Fn(usize) -> Values<'a>) {
        for (number, step) in program.steps.iter().enumerate() {
            let (before, own) = self.0.split_at_mut(number);
            let result = &mut own[0][..rows];
            match *step {
                Operation::Literal(_) => {}
                Operation::Column(place) => load(result, &column(place)),
                Operation::Add(l, r) => combine(result, &before[l], &before[r], i64::wrapping_add),
                Operation::Subtract(l, r) => combine(result, &before[l], &before[r], i64::wrapping_sub),
                Operation::Multiply(l, r) => combine(result, &before[l], &before[r], i64::wrapping_mul),
            }
        }
    }

    pub fn step(&self, step: usize) -> &[i64] {
        &self.0[step]
    }
}

fn load(result: &mut [i64], values: &Values<'_>) {
    match values {
        Values::Int32(values) => result.iter_mut().zip(*values).for_each(|(to, value)| *to = i64::from(*value)),
        Values::Int64(values) => result.copy_from_slice(values),
        Values::Decimal(values) => result.iter_mut().zip(*values).for_each(|(to, value)| *to = *value as i64),
        Values::Near8(values, base) => load_near(result, values, *base),
        Values::Near16(values, base) => load_near(result, values, *base),
        Values::Near32(values, base) => load_near(result, values, *base),
        Values::Code8(_) | Values::Code16(_) => unreachable!("codes have no arithmetic"),
    }
}

fn load_near<T: Copy + Into<i64>>(result: &mut [i64], distances: &[T], base: i64) {
    result.iter_mut().zip(distances).for_each(|(to, distance)| *to = base.wrapping_add((*distance).into()));
}

fn combine(result: &mut [i64], left: &[i64], right: &[i64], operation: impl Fn(i64, i64) -> i64) {
    for ((to, left), right) in result.iter_mut().zip(left).zip(right) {
        *to = operation(*left, *right);
    }
}

fn scale(of_type: &DataType) -> Option<i8> {
    match of_type {
        DataType::Decimal128(_, scale) => Some(*scale),
        DataType::Int32 | DataType::Int64 => Some(0),
        _ => None,
    }
}

/// The digits that numbers of a type have before the point: all numbers with the first count of digits fit the type,
/// and none with more than the last.
fn digits(of_type: &DataType) -> Option<RangeInclusive<i16>> {
    match of_type {
        DataType::Decimal128(precision, scale) => {
            let digits = i16::from(*precision) - i16::from(*scale);
            Some(digits..=digits)
        }
        DataType::Int64 => Some(18..=19),
        DataType::Int32 => Some(9..=10),
        _ => None,
    }
}
