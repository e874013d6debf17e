//! Statements with parameters, which a workload of the user's own has, as queries.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use plimsoll_notation::sql::{Lexer, TextRules, TokenKind};
use plimsoll_workload::statement::{Rows, Value};

/// The text of a statement with values in place of `$1`, `$2`, …; the error names a parameter without a value.
pub fn with_values(sql: &str, values: &[Value<'_>]) -> Result<String, String> {
    let (mut text, mut written) = (String::with_capacity(sql.len()), 0);
    let pieces = Lexer::new(sql.as_bytes(), TextRules::default());
    for piece in pieces.filter(|piece| piece.kind == TokenKind::Parameter) {
        // Pieces are parts of the text.
        let at = piece.text.as_ptr().addr() - sql.as_ptr().addr();
        let name = &sql[at..at + piece.text.len()];
        let number: Option<usize> = name[1..].parse().ok();
        let value = number.and_then(|number| values.get(number.checked_sub(1)?));
        text += &sql[written..at];
        text += &literal(value.ok_or_else(|| format!("{name} has no value"))?);
        written = at + name.len();
    }
    Ok(text + &sql[written..])
}

fn literal(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        // In parentheses, so that a sign is none of an operator.
        Value::Int(number) => format!("({number})"),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

/// The rows of an answer as those of a statement.
pub fn put_rows(batches: &[RecordBatch], rows: &mut Rows) -> Result<(), ArrowError> {
    for batch in batches {
        let columns = batch.columns().iter().map(Cells::of).collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            rows.start(columns.len());
            columns.iter().for_each(|column| rows.append(column.value(row)));
        }
    }
    Ok(())
}

/// A column in one of the two forms of a statement's values.
enum Cells {
    Numbers(ArrayRef),
    /// Numbers without their points.
    Decimals(ArrayRef),
    Texts(ArrayRef),
}

impl Cells {
    fn of(column: &ArrayRef) -> Result<Cells, ArrowError> {
        let as_type = |column: &ArrayRef, to: &DataType| cast(column, to);
        match column.data_type() {
            DataType::Decimal128(..) => Ok(Cells::Decimals(column.clone())),
            DataType::Date32 => Ok(Cells::Numbers(as_type(&as_type(column, &DataType::Int32)?, &DataType::Int64)?)),
            kind if kind.is_integer() => Ok(Cells::Numbers(as_type(column, &DataType::Int64)?)),
            DataType::Timestamp(..) => Ok(Cells::Numbers(as_type(column, &DataType::Int64)?)),
            _ => Ok(Cells::Texts(as_type(column, &DataType::Utf8)?)),
        }
    }

    fn value(&self, row: usize) -> Value<'_> {
        match self {
            Cells::Numbers(column) | Cells::Decimals(column) | Cells::Texts(column) if column.is_null(row) => {
                Value::Null
            }
            Cells::Numbers(column) => Value::Int(column.as_primitive::<Int64Type>().value(row)),
            // What does not fit is the largest number, which no workload counts on.
            Cells::Decimals(column) => {
                Value::Int(i64::try_from(column.as_primitive::<Decimal128Type>().value(row)).unwrap_or(i64::MAX))
            }
            Cells::Texts(column) => Value::Text(column.as_string::<i32>().value(row)),
        }
    }
}
