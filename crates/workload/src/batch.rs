//! Builds the record batches that fill a table, value by value in column order.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Builder, Decimal128Builder, Int32Builder, Int64Builder, StringViewBuilder,
    TimestampMicrosecondBuilder,
};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

use crate::schema::{ColumnKind, DeclaredTable, Table};

/// A batch of rows being made. Values are given in column order, row after row.
pub(crate) struct Batch {
    schema: SchemaRef,
    columns: Vec<Builder>,
    cursor: usize,
}

enum Builder {
    Int(Int32Builder),
    BigInt(Int64Builder),
    Decimal(Decimal128Builder),
    Text(StringViewBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

impl Batch {
    /// An empty batch with room for `rows` rows.
    pub(crate) fn new(table: &Table, rows: usize) -> Self {
        Batch::of(&DeclaredTable::from(table), rows)
    }

    /// The same for a table of a file.
    pub(crate) fn of(table: &DeclaredTable, rows: usize) -> Self {
        let builder = |kind| match kind {
            ColumnKind::Int => Builder::Int(Int32Builder::with_capacity(rows)),
            ColumnKind::BigInt => Builder::BigInt(Int64Builder::with_capacity(rows)),
            ColumnKind::Decimal { .. } => {
                Builder::Decimal(Decimal128Builder::with_capacity(rows).with_data_type(ColumnKind::arrow(kind)))
            }
            ColumnKind::Text(_) => Builder::Text(StringViewBuilder::with_capacity(rows)),
            ColumnKind::Date => Builder::Date(Date32Builder::with_capacity(rows)),
            ColumnKind::Timestamp => Builder::Timestamp(TimestampMicrosecondBuilder::with_capacity(rows)),
        };
        let columns = table.columns.iter().map(|column| builder(column.kind)).collect();
        Batch { schema: table.arrow(), columns, cursor: 0 }
    }

    /// The next value is that integer, scaled decimal or timestamp.
    pub(crate) fn int(&mut self, number: i64) -> &mut Self {
        match self.next() {
            Builder::Int(builder) => {
                builder.append_value(i32::try_from(number).expect("a column of 32 bits is given small integers"))
            }
            Builder::BigInt(builder) => builder.append_value(number),
            Builder::Decimal(builder) => builder.append_value(i128::from(number)),
            Builder::Date(builder) => builder.append_value(i32::try_from(number).expect("dates are small")),
            Builder::Timestamp(builder) => builder.append_value(number),
            Builder::Text(_) => panic!("an integer was given for a text column"),
        }
        self
    }

    /// The next value is that integer, or null.
    pub(crate) fn int_or_null(&mut self, number: Option<i64>) -> &mut Self {
        match number {
            Some(number) => self.int(number),
            None => {
                match self.next() {
                    Builder::Int(builder) => builder.append_null(),
                    Builder::BigInt(builder) => builder.append_null(),
                    Builder::Decimal(builder) => builder.append_null(),
                    Builder::Date(builder) => builder.append_null(),
                    Builder::Timestamp(builder) => builder.append_null(),
                    Builder::Text(builder) => builder.append_null(),
                }
                self
            }
        }
    }

    /// The next value is that text.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        match self.next() {
            Builder::Text(builder) => builder.append_value(text),
            _ => panic!("text was given for a column of numbers"),
        }
        self
    }

    /// The batch.
    ///
    /// # Panics
    /// If its last row is not complete, which is an error in the population.
    pub(crate) fn finish(mut self) -> RecordBatch {
        let arrays = self.columns.iter_mut().map(Builder::finish).collect();
        RecordBatch::try_new(self.schema, arrays).expect("every row was given every column, in order")
    }

    fn next(&mut self) -> &mut Builder {
        let column = self.cursor;
        self.cursor = (column + 1) % self.columns.len();
        &mut self.columns[column]
    }
}

impl Builder {
    fn finish(&mut self) -> ArrayRef {
        match self {
            Builder::Int(builder) => Arc::new(builder.finish()),
            Builder::BigInt(builder) => Arc::new(builder.finish()),
            Builder::Decimal(builder) => Arc::new(builder.finish()),
            Builder::Text(builder) => Arc::new(builder.finish()),
            Builder::Date(builder) => Arc::new(builder.finish()),
            Builder::Timestamp(builder) => Arc::new(builder.finish()),
        }
    }
}
