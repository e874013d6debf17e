//! Answers as text, for any types that a database chose.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

/// One row of an answer; `None` is SQL null.
pub type TextRow = Vec<Option<String>>;

/// The rows of an answer as text: numbers in plain decimal notation, dates as `1998-12-01`, text without the blanks that
/// pad it.
pub fn text_rows(batches: &[RecordBatch]) -> Result<Vec<TextRow>, ArrowError> {
    let mut rows = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
    for batch in batches {
        let columns = batch.columns().iter().map(text_column).collect::<Result<Vec<_>, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()));
    }
    Ok(rows)
}

fn text_column(column: &ArrayRef) -> Result<Vec<Option<String>>, ArrowError> {
    let column = match column.data_type() {
        DataType::Dictionary(_, values) => &cast(column, values)?,
        _ => column,
    };
    match column.data_type() {
        // Arrow would write large and small numbers with an exponent.
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let numbers = cast(column, &DataType::Float64)?;
            Ok(numbers.as_primitive::<Float64Type>().iter().map(|number| number.map(|n| n.to_string())).collect())
        }
        // No answer holds a time of day; a database that computed a date as a timestamp means the date.
        DataType::Timestamp(_, _) | DataType::Date64 => as_text(&cast(column, &DataType::Date32)?),
        _ => as_text(column),
    }
}

fn as_text(column: &ArrayRef) -> Result<Vec<Option<String>>, ArrowError> {
    let text = cast(column, &DataType::Utf8)?;
    Ok(text.as_string::<i32>().iter().map(|cell| cell.map(|cell| cell.trim().to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Date32Array, Decimal128Array, Decimal256Array, DictionaryArray, Float64Array, Int32Array, StringArray,
        StringViewArray, TimestampMicrosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Int32Type, i256};

    use super::*;

    fn check(column: ArrayRef, expect: &[Option<&str>]) {
        let batch = RecordBatch::try_from_iter_with_nullable([("cell", column, true)]).unwrap();
        let found = text_rows(&[batch]).unwrap();
        let found: Vec<Option<&str>> = found.iter().map(|row| row[0].as_deref()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn every_type_becomes_plain_text() {
        check(Arc::new(StringArray::from(vec![Some(" ab "), None])), &[Some("ab"), None]);
        check(
            Arc::new(StringViewArray::from(vec!["a text longer than a view holds inline  "])),
            &[Some("a text longer than a view holds inline")],
        );
        let dictionary: DictionaryArray<Int32Type> = vec![Some("MAIL"), None, Some("MAIL")].into_iter().collect();
        check(Arc::new(dictionary), &[Some("MAIL"), None, Some("MAIL")]);
        check(Arc::new(UInt64Array::from(vec![u64::MAX])), &[Some("18446744073709551615")]);
        check(Arc::new(Int32Array::from(vec![-7])), &[Some("-7")]);
        check(Arc::new(Float64Array::from(vec![1.5e12, 0.000_000_5])), &[Some("1500000000000"), Some("0.0000005")]);
        let narrow = Decimal128Array::from(vec![-5]).with_precision_and_scale(15, 2).unwrap();
        check(Arc::new(narrow), &[Some("-0.05")]);
        let wide = Decimal256Array::from(vec![i256::from(123_456)]).with_precision_and_scale(60, 4).unwrap();
        check(Arc::new(wide), &[Some("12.3456")]);
        check(Arc::new(Date32Array::from(vec![8035])), &[Some("1992-01-01")]);
        check(Arc::new(TimestampMicrosecondArray::from(vec![8035 * 86_400_000_000])), &[Some("1992-01-01")]);
    }
}
