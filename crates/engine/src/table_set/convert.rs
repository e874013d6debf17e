//! Converts Arrow batches to rows, and rows to batches.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal128Array, Int32Array, Int64Array, TimestampMicrosecondArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use crate::table::column::{column_of, not_kept};
use crate::table::heap::{RowId, RowState};
use crate::table::stored::HeapRow;
use crate::table::{RowTable, TableError};
use crate::value::Value;

/// Rows of a batch made from rows.
const BATCH_ROWS: usize = 65_536;

/// Whether both have the same columns of the same types. Nullability is checked for each row.
pub(super) fn same_columns(found: &Schema, declared: &Schema) -> bool {
    let columns = |schema: &Schema| {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
    };
    columns(found) == columns(declared)
}

/// The columns of a schema, for messages.
pub(super) fn describe(schema: &Schema) -> String {
    let columns = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
    columns.collect::<Vec<_>>().join(", ")
}

/// Loads every row of a batch into a run of slots. The outer error is about the batch, the inner one about a row.
pub(super) fn load_rows(
    table: &RowTable,
    first: RowId,
    batch: &RecordBatch,
) -> Result<Result<(), TableError>, ArrowError> {
    let readers = batch.columns().iter().map(Reader::new).collect::<Result<Vec<_>, _>>()?;
    let mut row = Vec::with_capacity(readers.len());
    for at in 0..batch.num_rows() {
        row.clear();
        for reader in &readers {
            row.push(reader.value(at)?);
        }
        if let Err(error) = table.load_at(first + at as u64, &row) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(()))
}

/// A column of a batch, with its type known.
enum Reader<'a> {
    Int32(&'a Int32Array),
    Int64(&'a Int64Array),
    Date(&'a Date32Array),
    Timestamp(&'a TimestampMicrosecondArray),
    Decimal(&'a Decimal128Array),
    Text(&'a arrow::array::StringViewArray),
}

impl<'a> Reader<'a> {
    fn new(column: &'a ArrayRef) -> Result<Self, ArrowError> {
        Ok(match column.data_type() {
            DataType::Int32 => Reader::Int32(column.as_primitive::<Int32Type>()),
            DataType::Int64 => Reader::Int64(column.as_primitive::<Int64Type>()),
            DataType::Date32 => Reader::Date(column.as_primitive::<Date32Type>()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                Reader::Timestamp(column.as_primitive::<TimestampMicrosecondType>())
            }
            DataType::Decimal128(_, _) => Reader::Decimal(column.as_primitive::<Decimal128Type>()),
            DataType::Utf8View => Reader::Text(column.as_string_view()),
            other => return Err(not_kept(other)),
        })
    }

    fn value(&self, row: usize) -> Result<Value<'a>, ArrowError> {
        let is_null = match self {
            Reader::Int32(column) => column.is_null(row),
            Reader::Int64(column) => column.is_null(row),
            Reader::Date(column) => column.is_null(row),
            Reader::Timestamp(column) => column.is_null(row),
            Reader::Decimal(column) => column.is_null(row),
            Reader::Text(column) => column.is_null(row),
        };
        if is_null {
            return Ok(Value::Null);
        }
        Ok(match self {
            Reader::Int32(column) => Value::Int(i64::from(column.value(row))),
            Reader::Int64(column) => Value::Int(column.value(row)),
            Reader::Date(column) => Value::Int(i64::from(column.value(row))),
            Reader::Timestamp(column) => Value::Int(column.value(row)),
            Reader::Decimal(column) => {
                let number = column.value(row);
                let fits = i64::try_from(number).map_err(|_| {
                    ArrowError::CastError(format!("the decimal {number} has more than the 18 digits that rows keep"))
                });
                Value::Int(fits?)
            }
            Reader::Text(column) => Value::Text(column.value(row)),
        })
    }
}

/// All live rows as batches. Under a table lock.
pub(super) fn read_rows(table: &RowTable, schema: &SchemaRef) -> Result<Vec<RecordBatch>, ArrowError> {
    let rows: Vec<RowId> = table.heap.live_rows().collect();
    rows.chunks(BATCH_ROWS).map(|rows| batch_of(table, rows, schema)).collect()
}

/// All slots as batches, and which of them hold rows: a row's position is its number. While no transaction uses the table.
pub(super) fn read_slots(
    table: &RowTable,
    schema: &SchemaRef,
) -> Result<(Vec<RecordBatch>, BooleanBuffer), ArrowError> {
    let Some(some_row) = table.heap.live_rows().next() else { return Ok((Vec::new(), BooleanBuffer::new_unset(0))) };
    let slots: Vec<RowId> = (0..table.heap.slot_count()).collect();
    let is_live = |row: RowId| table.heap.state(row) == RowState::Live;
    // Slots without a row get the values of another row, which fit the columns and do not widen statistics.
    let shown: Vec<RowId> = slots.iter().map(|&row| if is_live(row) { row } else { some_row }).collect();
    let batches = shown.chunks(BATCH_ROWS).map(|rows| batch_of(table, rows, schema));
    let live = BooleanBuffer::collect_bool(slots.len(), |slot| is_live(slot as RowId));
    Ok((batches.collect::<Result<_, _>>()?, live))
}

/// These rows of a table in the columns of a schema.
fn batch_of(table: &RowTable, rows: &[RowId], schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<_> = rows.iter().map(|&row| HeapRow { heap: &table.heap, row }).collect();
    let fields = schema.fields().iter().enumerate();
    let columns = fields.map(|(column, field)| column_of(&rows, column, field.data_type()));
    RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)
}
