//! A condition on one table, made ready for evaluation on its chunks.
//!
//! A condition on a single dictionary column is evaluated once on each dictionary; rows then only look their code up. A
//! comparison of a number with a constant is made on the distances that are kept. An expensive condition on an integer
//! column whose values lie close together is, on request, evaluated once on each possible value. Other conditions are
//! evaluated on the columns they name, all rows at once while most rows are still selected, and on the selected rows
//! alone once they are few, or if the condition fails on some row, which may be deleted.

mod range;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, BooleanBufferBuilder, Int64Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef, UInt8Type, UInt16Type};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use crate::columns::ColumnTable;
use crate::columns::encode::ChunkColumn;
use crate::query::morsel::{Morsel, Picked};
use crate::query::predicate::range::NumberRange;

/// Below this share of selected rows, the next condition is evaluated on the selected rows only: gathering them costs less
/// than evaluating the others.
const SPARSE: f64 = 0.25;

/// A condition is evaluated on each possible number if there are at least this many times as many rows.
const ROWS_PER_NUMBER_MIN: usize = 4;

/// Numbers on which a condition is evaluated in one go.
const SPAN_BATCH: usize = 8192;

/// A condition on one table.
#[derive(Debug)]
pub struct Predicate {
    /// Its columns' positions in the table, in the order in which `expression` numbers them.
    columns: Vec<usize>,
    schema: SchemaRef,
    expression: Arc<dyn PhysicalExpr>,
    /// Whether it is one on a single column with dictionaries that a null does not satisfy.
    by_entry: bool,
    /// The dictionaries met so far, and whether each of their entries passes; `None` where the condition fails on an entry, which
    /// perhaps no row has.
    entries: Vec<(ArrayRef, Option<Vec<bool>>)>,
    /// For a condition on one integer column: the smallest value, and whether each from there on passes. A null never does.
    domain: Option<(i64, BooleanBuffer)>,
    /// For a comparison of one column with a constant: which numbers pass.
    range: Option<NumberRange>,
}

impl Predicate {
    /// Prepares a condition whose columns are numbered as in the table.
    pub fn new(table: &ColumnTable, expression: &Arc<dyn PhysicalExpr>) -> Result<Self> {
        let (columns, expression) = renumber(expression)?;
        let fields: Vec<Field> = columns.iter().map(|&column| table.schema().field(column).clone()).collect();
        let schema = Arc::new(Schema::new(fields));
        let mut predicate =
            Predicate { columns, schema, expression, by_entry: false, entries: Vec::new(), domain: None, range: None };
        if let [column] = predicate.columns[..] {
            predicate.by_entry = table.has_codes(column) && !predicate.passes_null()?;
            predicate.range = NumberRange::of(&predicate.expression, predicate.schema.field(0));
        }
        Ok(predicate)
    }

    /// Prepares a condition that is expensive to evaluate, such as whether a key is in a hash table. If the values of
    /// its only column span far fewer numbers than the table has rows, it is evaluated on these numbers and then only
    /// looked up.
    pub fn tabulated(table: &ColumnTable, expression: &Arc<dyn PhysicalExpr>) -> Result<Self> {
        let mut predicate = Predicate::new(table, expression)?;
        let [column] = predicate.columns[..] else { return Ok(predicate) };
        let kept = table.schema().field(column).data_type().clone();
        let Some((first, count)) = integer_span(table, column) else { return Ok(predicate) };
        if count > table.rows() / ROWS_PER_NUMBER_MIN || predicate.passes_null()? {
            return Ok(predicate);
        }
        let mut passing = BooleanBufferBuilder::new(count);
        for start in (0..count).step_by(SPAN_BATCH) {
            let rows = SPAN_BATCH.min(count - start);
            let numbers = Int64Array::from_iter_values((start..start + rows).map(|place| first + place as i64));
            let numbers = cast(&numbers, &kept)?;
            passing.append_buffer(&truths(&predicate.evaluate(vec![numbers], rows)?));
        }
        predicate.domain = Some((first, passing.finish()));
        Ok(predicate)
    }

    /// A condition on one integer column for which the passing numbers are known: those from `first` on whose bit is
    /// set.
    pub fn of_numbers(
        table: &ColumnTable,
        expression: &Arc<dyn PhysicalExpr>,
        first: i64,
        numbers: BooleanBuffer,
    ) -> Result<Self> {
        Ok(Predicate { domain: Some((first, numbers)), ..Predicate::new(table, expression)? })
    }

    /// A rank by cost per row: cheap conditions go first, so that expensive ones see fewer rows.
    pub fn cost(&self) -> u32 {
        let text = |field: &Arc<Field>| *field.data_type() == DataType::Utf8View;
        match &self.domain {
            _ if self.by_entry => 0,
            Some(_) => 1,
            None if self.range.is_some() => 1,
            None if self.schema.fields().iter().any(text) => 10,
            None => 1 + self.columns.len() as u32,
        }
    }

    /// The selected rows that pass; `None` stands for all rows.
    pub fn select(&mut self, morsel: &Morsel<'_>, selected: Option<&BooleanBuffer>) -> Result<BooleanBuffer> {
        if let Some(passing) = self.look_up(morsel) {
            return Ok(selected.map_or(passing.clone(), |selected| selected & &passing));
        }
        let columns = self.columns.iter().map(|&column| morsel.column(column));
        let all = || columns.clone().map(|kept| kept.values()).collect::<Result<_, _>>();
        let Some(selected) = selected else {
            return Ok(truths(&self.evaluate(all()?, morsel.rows)?));
        };
        let count = selected.count_set_bits();
        if count as f64 > SPARSE * morsel.rows as f64
            && let Ok(passing) = self.evaluate(all()?, morsel.rows)
        {
            return Ok(selected & &truths(&passing));
        }
        let picked = Picked::new(selected.clone(), self.columns.len());
        let pick = |&column: &usize| Ok(morsel.pick(column, &picked)?.values()?);
        let values = self.columns.iter().map(pick).collect::<Result<_>>()?;
        Ok(scatter(selected, &truths(&self.evaluate(values, count)?)))
    }

    /// Which rows pass, if that is known for all values that they can have.
    fn look_up(&mut self, morsel: &Morsel<'_>) -> Option<BooleanBuffer> {
        let [column] = self.columns[..] else { return None };
        let passing = self.look_up_kept(&morsel.kept(column), morsel.are_images)?;
        let Some(patched) = morsel.patched(column) else { return Some(passing) };
        // If the condition fails on one of the new values, that row may be one that another condition has ruled out.
        patched.corrected(&passing, |values| {
            let rows = values.len();
            Some(truths(&self.evaluate(vec![values], rows).ok()?))
        })
    }

    fn look_up_kept(&mut self, kept: &ChunkColumn, are_images: bool) -> Option<BooleanBuffer> {
        if self.by_entry
            && let ChunkColumn::Codes { codes, dictionary } = kept
        {
            return Some(lookup(codes, self.entries_of(dictionary)?));
        }
        if let Some(range) = &self.range
            && let ChunkColumn::Distances { distances, base, .. } = kept
        {
            return Some(range.select(distances, *base));
        }
        // The values of images need not lie between the table's minimum and maximum.
        let (first, numbers) = self.domain.as_ref().filter(|_| !are_images)?;
        Some(match kept {
            ChunkColumn::Distances { distances, base, .. } => range::look_up(distances, *base, *first, numbers),
            kept => lookup_number(kept.physical(), *first, numbers),
        })
    }

    fn entries_of(&mut self, dictionary: &ArrayRef) -> Option<&[bool]> {
        // Most chunks share the dictionary of the one before.
        let place = match self.entries.iter().rposition(|(met, _)| Arc::ptr_eq(met, dictionary)) {
            Some(place) => place,
            None => {
                let passing = self.evaluate(vec![Arc::clone(dictionary)], dictionary.len());
                let passing = passing.ok().map(|passing| truths(&passing).iter().collect());
                self.entries.push((Arc::clone(dictionary), passing));
                self.entries.len() - 1
            }
        };
        self.entries[place].1.as_deref()
    }

    fn evaluate(&self, values: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options)?;
        let passing = self.expression.evaluate(&batch)?.into_array(rows)?;
        Ok(passing.as_boolean().clone())
    }

    /// Whether a null satisfies the condition (`IS NULL` and similar ones), which codes cannot show.
    fn passes_null(&self) -> Result<bool> {
        let schema = Schema::new(vec![self.schema.field(0).clone().with_nullable(true)]);
        let null = new_null_array(self.schema.field(0).data_type(), 1);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![null])?;
        let passing = self.expression.evaluate(&batch)?.into_array(1)?;
        Ok(truths(passing.as_boolean()).value(0))
    }
}

/// The table columns that an expression names, ascending, and the expression with its columns numbered by place in that list.
fn renumber(expression: &Arc<dyn PhysicalExpr>) -> Result<(Vec<usize>, Arc<dyn PhysicalExpr>)> {
    let mut columns: Vec<usize> = collect_columns(expression).iter().map(Column::index).collect();
    columns.sort_unstable();
    columns.dedup();
    let renumbered = Arc::clone(expression).transform_up(|node| match node.downcast_ref::<Column>() {
        Some(column) => {
            let place = columns.binary_search(&column.index()).expect("every column was collected");
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
        }
        None => Ok(Transformed::no(node)),
    });
    let renumbered = renumbered.data()?;
    Ok((columns, renumbered))
}

/// True where the condition is true, false where it is false or unknown.
fn truths(passing: &BooleanArray) -> BooleanBuffer {
    match passing.nulls() {
        Some(nulls) => passing.values() & nulls.inner(),
        None => passing.values().clone(),
    }
}

/// Whether the entries of these codes pass. There is a byte per entry: those of one column stay in the first cache level, and no
/// bit needs to be shifted out.
fn lookup(codes: &ArrayRef, passes: &[bool]) -> BooleanBuffer {
    let passes = |code: usize| passes.get(code).is_some_and(|pass| *pass);
    match codes.data_type() {
        DataType::UInt8 => collect_passing::<UInt8Type>(codes, |code| passes(usize::from(code))),
        _ => collect_passing::<UInt16Type>(codes, |code| passes(usize::from(code))),
    }
}

/// Which values are not null and pass.
fn collect_passing<T: ArrowPrimitiveType>(array: &ArrayRef, passes: impl Fn(T::Native) -> bool) -> BooleanBuffer {
    let values = array.as_primitive::<T>().values();
    without_nulls(BooleanBuffer::collect_bool(values.len(), |row| passes(values[row])), array)
}

/// A null never passes.
fn without_nulls(passing: BooleanBuffer, array: &ArrayRef) -> BooleanBuffer {
    match array.nulls() {
        Some(nulls) => &passing & nulls.inner(),
        None => passing,
    }
}

/// The smallest value of an integer column without gaps of meaning, and how many numbers there are up to the largest.
pub fn integer_span(table: &ColumnTable, column: usize) -> Option<(i64, usize)> {
    let summary = &table.statistics().columns[column];
    let number = |value: &ScalarValue| match value {
        ScalarValue::Int32(number) => number.map(i64::from),
        ScalarValue::Int64(number) => *number,
        _ => None,
    };
    let (min, max) = (number(&summary.min)?, number(&summary.max)?);
    let count = usize::try_from(max.checked_sub(min)?).ok()?.checked_add(1)?;
    Some((min, count))
}

fn lookup_number(values: &ArrayRef, first: i64, numbers: &BooleanBuffer) -> BooleanBuffer {
    // A value below the first wraps to a place far beyond the last.
    let passes = |value: i64| {
        let place = value.wrapping_sub(first) as usize;
        place < numbers.len() && numbers.value(place)
    };
    match values.data_type() {
        DataType::Int32 => collect_passing::<Int32Type>(values, |value| passes(i64::from(value))),
        _ => collect_passing::<Int64Type>(values, passes),
    }
}

/// Of the rows set in `selected`, keeps the i-th where `passing` is set at i.
fn scatter(selected: &BooleanBuffer, passing: &BooleanBuffer) -> BooleanBuffer {
    let mut kept = BooleanBufferBuilder::new(selected.len());
    kept.append_n(selected.len(), false);
    selected
        .set_indices()
        .zip(passing.iter())
        .filter(|(_, passes)| *passes)
        .for_each(|(row, _)| kept.set_bit(row, true));
    kept.finish()
}

#[cfg(test)]
mod tests;
