//! Results of queries as Arrow batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use plimsoll_pg::connection::{Column, Connection, WireError};
use plimsoll_pg::values::cell::{Cell, CellKind};
use plimsoll_pg::values::fields::Fields;
use plimsoll_pg::values::oid;
use postgres_protocol::Oid;

const BATCH_ROWS: usize = 8_192;

/// The representation of a type for Arrow: a numeric is the server's text, which loses nothing.
fn kind_of(of: Oid) -> CellKind {
    match of {
        oid::FLOAT8 => CellKind::Float8,
        oid::NUMERIC => CellKind::Text,
        other => CellKind::of(other),
    }
}

/// Runs a query and returns all of its rows, in at least one batch, so that the columns are known.
pub(crate) fn query(connection: &mut Connection, sql: &str) -> Result<Vec<RecordBatch>, WireError> {
    let prepared = connection.prepare_for("", sql, kind_of)?;
    let mut builder = BatchBuilder::new(prepared.columns());
    connection.stream(&prepared, |fields| builder.push(fields))?;
    // Values were read by column type, so this fails only if a type is wrong here.
    builder.finish().map_err(|error| WireError::Refused(error.to_string()))
}

struct BatchBuilder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    batches: Vec<RecordBatch>,
}

enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int4(Int32Builder),
    /// A smallint on the wire, widened to 32 bits.
    Int2(Int32Builder),
    Int8(Int64Builder),
    Float8(Float64Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Text(StringBuilder),
}

impl ColumnBuilder {
    fn new(kind: CellKind) -> Self {
        match kind {
            CellKind::Bool => ColumnBuilder::Bool(BooleanBuilder::new()),
            CellKind::Int2 => ColumnBuilder::Int2(Int32Builder::new()),
            CellKind::Int4 => ColumnBuilder::Int4(Int32Builder::new()),
            CellKind::Int8 => ColumnBuilder::Int8(Int64Builder::new()),
            CellKind::Float8 => ColumnBuilder::Float8(Float64Builder::new()),
            CellKind::Date => ColumnBuilder::Date(Date32Builder::new()),
            CellKind::Timestamp => ColumnBuilder::Timestamp(TimestampMicrosecondBuilder::new()),
            CellKind::Numeric | CellKind::Text => ColumnBuilder::Text(StringBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            ColumnBuilder::Bool(_) => DataType::Boolean,
            ColumnBuilder::Int2(_) | ColumnBuilder::Int4(_) => DataType::Int32,
            ColumnBuilder::Int8(_) => DataType::Int64,
            ColumnBuilder::Float8(_) => DataType::Float64,
            ColumnBuilder::Date(_) => DataType::Date32,
            ColumnBuilder::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            ColumnBuilder::Text(_) => DataType::Utf8,
        }
    }

    fn push(&mut self, field: Option<&[u8]>) -> Result<(), String> {
        let integer = |kind: CellKind| match field.map(|bytes| kind.read(bytes)).transpose()? {
            None => Ok(None),
            Some(Cell::Int(number)) => Ok(Some(number)),
            Some(other) => Err(format!("{other:?} cannot be told here; leave it out of the query")),
        };
        // None of these is wider than the value it was read from; a date may be, by the years from 1970 to 2000.
        let narrow = |number: Option<i64>| {
            let number = number.map(i32::try_from).transpose();
            number.map_err(|error| format!("a date out of range: {error}"))
        };
        match self {
            ColumnBuilder::Bool(builder) => {
                builder.append_option(integer(CellKind::Bool)?.map(|bit| bit == 1));
            }
            ColumnBuilder::Int2(builder) => builder.append_option(narrow(integer(CellKind::Int2)?)?),
            ColumnBuilder::Int4(builder) => builder.append_option(narrow(integer(CellKind::Int4)?)?),
            ColumnBuilder::Int8(builder) => builder.append_option(integer(CellKind::Int8)?),
            ColumnBuilder::Date(builder) => builder.append_option(narrow(integer(CellKind::Date)?)?),
            ColumnBuilder::Timestamp(builder) => builder.append_option(integer(CellKind::Timestamp)?),
            ColumnBuilder::Float8(builder) => match field.map(|bytes| CellKind::Float8.read(bytes)).transpose()? {
                Some(Cell::Float(number)) => builder.append_value(number),
                _ => builder.append_null(),
            },
            ColumnBuilder::Text(builder) => match field.map(|bytes| CellKind::Text.read(bytes)).transpose()? {
                Some(Cell::Text(text)) => builder.append_value(text),
                _ => builder.append_null(),
            },
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            ColumnBuilder::Bool(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Int2(builder) | ColumnBuilder::Int4(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Int8(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Float8(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Date(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Timestamp(builder) => Arc::new(builder.finish()),
            ColumnBuilder::Text(builder) => Arc::new(builder.finish()),
        }
    }
}

impl BatchBuilder {
    fn new(columns: &[Column]) -> Self {
        let builders: Vec<_> = columns.iter().map(|column| ColumnBuilder::new(column.kind)).collect();
        let fields = columns.iter().zip(&builders);
        let fields = fields.map(|(column, builder)| Field::new(&column.name, builder.data_type(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        BatchBuilder { schema, columns: builders, rows: 0, batches: Vec::new() }
    }

    fn push(&mut self, mut fields: Fields<'_>) -> Result<(), String> {
        for column in &mut self.columns {
            column.push(fields.next().ok_or("a row with too few values")??)?;
        }
        if fields.next().is_some() {
            return Err("a row with too many values".to_owned());
        }
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.end_batch().map_err(|error| error.to_string()) } else { Ok(()) }
    }

    fn end_batch(&mut self) -> Result<(), ArrowError> {
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        // The row count is explicit, because a result may have rows but no columns.
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        self.batches.push(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<RecordBatch>, ArrowError> {
        if self.rows > 0 || self.batches.is_empty() {
            self.end_batch()?;
        }
        Ok(self.batches)
    }
}
