//! A condition on one table, made ready for evaluation on its chunks.
//!
//! A condition on a single dictionary column is evaluated once on the dictionary; rows then only look their code up. Other
//! conditions are evaluated on the columns they name, all rows at once while most rows are still selected, and on the
//! selected rows alone once they are few.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type, UInt16Type};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;

use crate::columns::ColumnTable;
use crate::columns::encode::ChunkColumn;

/// Below this share of selected rows, the next condition is evaluated on the selected rows only: gathering them costs less
/// than evaluating the others.
const SPARSE: f64 = 0.25;

/// Some rows of a chunk.
pub struct Morsel<'a> {
    /// The table.
    pub table: &'a ColumnTable,
    /// The chunk's number.
    pub chunk: usize,
    /// The first row within the chunk.
    pub offset: usize,
    /// How many rows.
    pub rows: usize,
}

impl Morsel<'_> {
    /// One column of these rows, as it is kept.
    pub fn column(&self, column: usize) -> ChunkColumn {
        self.table.chunks()[self.chunk].column(column).slice(self.offset, self.rows)
    }
}

/// A condition on one table.
#[derive(Debug)]
pub struct Predicate {
    /// Its columns' positions in the table, in the order in which `expression` numbers them.
    columns: Vec<usize>,
    schema: SchemaRef,
    expression: Arc<dyn PhysicalExpr>,
    /// For a condition on one dictionary column: whether each entry passes. A null never does.
    entries: Option<BooleanBuffer>,
}

impl Predicate {
    /// Prepares a condition whose columns are numbered as in the table.
    pub fn new(table: &ColumnTable, expression: &Arc<dyn PhysicalExpr>) -> Result<Self> {
        let (columns, expression) = renumber(expression)?;
        let fields: Vec<Field> = columns.iter().map(|&column| table.schema().field(column).clone()).collect();
        let mut predicate = Predicate { columns, schema: Arc::new(Schema::new(fields)), expression, entries: None };
        if let [column] = predicate.columns[..]
            && let Some(dictionary) = table.dictionary(column)
            && !predicate.passes_null(dictionary.data_type())?
        {
            predicate.entries = Some(truths(&predicate.evaluate(vec![Arc::clone(dictionary)], dictionary.len())?));
        }
        Ok(predicate)
    }

    /// A rank by cost per row: cheap conditions go first, so that dear ones see fewer rows.
    pub fn cost(&self) -> u32 {
        let text = |field: &Arc<Field>| *field.data_type() == DataType::Utf8View;
        match &self.entries {
            Some(_) => 0,
            None if self.schema.fields().iter().any(text) => 10,
            None => self.columns.len() as u32,
        }
    }

    /// Which of the selected rows pass; `None` stands for all rows.
    pub fn select(&self, morsel: &Morsel<'_>, selected: Option<&BooleanBuffer>) -> Result<BooleanBuffer> {
        if let (Some(entries), [column]) = (&self.entries, &self.columns[..]) {
            let passing = lookup(morsel.column(*column).physical(), entries);
            return Ok(selected.map_or(passing.clone(), |selected| selected & &passing));
        }
        let columns = self.columns.iter().map(|&column| (column, morsel.column(column)));
        let decode = |column: usize, kept: &ChunkColumn| kept.values(morsel.table.dictionary(column));
        let Some(selected) = selected else {
            let values = columns.map(|(column, kept)| decode(column, &kept)).collect::<Result<_, _>>()?;
            return Ok(truths(&self.evaluate(values, morsel.rows)?));
        };
        let count = selected.count_set_bits();
        if count as f64 > SPARSE * morsel.rows as f64 {
            let values = columns.map(|(column, kept)| decode(column, &kept)).collect::<Result<_, _>>()?;
            return Ok(selected & &truths(&self.evaluate(values, morsel.rows)?));
        }
        let mask = BooleanArray::new(selected.clone(), None);
        let gather = |(column, kept): (usize, ChunkColumn)| {
            let few = kept.with_physical(filter(kept.physical(), &mask)?);
            decode(column, &few)
        };
        let values = columns.map(gather).collect::<Result<_, _>>()?;
        Ok(scatter(selected, &truths(&self.evaluate(values, count)?)))
    }

    fn evaluate(&self, values: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options)?;
        let passing = self.expression.evaluate(&batch)?.into_array(rows)?;
        Ok(passing.as_boolean().clone())
    }

    /// Whether a null satisfies the condition (`IS NULL` and the like), which codes could not tell.
    fn passes_null(&self, kept: &DataType) -> Result<bool> {
        let schema = Schema::new(vec![self.schema.field(0).clone().with_nullable(true)]);
        let null = arrow::array::new_null_array(kept, 1);
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

fn lookup(codes: &ArrayRef, entries: &BooleanBuffer) -> BooleanBuffer {
    // A byte per entry: the codes of one column stay in the first cache level, and no bit needs to be shifted out.
    let passes: Vec<bool> = entries.iter().collect();
    let passing = match codes.data_type() {
        DataType::UInt8 => {
            let codes = codes.as_primitive::<UInt8Type>().values();
            BooleanBuffer::collect_bool(codes.len(), |row| {
                passes.get(usize::from(codes[row])).is_some_and(|pass| *pass)
            })
        }
        _ => {
            let codes = codes.as_primitive::<UInt16Type>().values();
            BooleanBuffer::collect_bool(codes.len(), |row| {
                passes.get(usize::from(codes[row])).is_some_and(|pass| *pass)
            })
        }
    };
    match codes.nulls() {
        Some(nulls) => &passing & nulls.inner(),
        None => passing,
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
