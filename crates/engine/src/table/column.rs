//! Columns of Arrow made from rows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, StringViewBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;

use super::stored::StoredRow;

/// One column of the rows, as that type.
pub(crate) fn column_of(rows: &[impl StoredRow], column: usize, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    let ints = || rows.iter().map(|row| (!row.is_null(column)).then(|| row.int(column)));
    Ok(match kind {
        DataType::Int32 => Arc::new(ints().map(|number| number.map(|number| number as i32)).collect::<Int32Array>()),
        DataType::Date32 => Arc::new(ints().map(|number| number.map(|number| number as i32)).collect::<Date32Array>()),
        DataType::Int64 => Arc::new(ints().collect::<Int64Array>()),
        DataType::Timestamp(TimeUnit::Microsecond, None) => Arc::new(ints().collect::<TimestampMicrosecondArray>()),
        DataType::Decimal128(precision, scale) => {
            let numbers = ints().map(|number| number.map(i128::from)).collect::<Decimal128Array>();
            Arc::new(numbers.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(rows.len());
            let mut text = String::new();
            for row in rows {
                if row.is_null(column) {
                    builder.append_null();
                } else {
                    text.clear();
                    row.text(column, &mut text);
                    builder.append_value(&text);
                }
            }
            Arc::new(builder.finish())
        }
        other => return Err(not_kept(other)),
    })
}

/// The error for a type of which rows keep no values.
pub(crate) fn not_kept(kind: &DataType) -> ArrowError {
    ArrowError::NotYetImplemented(format!("rows keep no {kind}"))
}
