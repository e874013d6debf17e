//! A condition on data: a query for the rows that violate it, so an empty answer proves that it holds, and any other
//! shows the violations.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::benchmark::CheckLine;
use crate::database::{DatabaseError, Session};

/// A check: a condition, and a query for the rows that violate it.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    /// The condition, in words.
    pub(crate) what: &'static str,
    /// The query, in SQL that PostgreSQL and DataFusion read alike.
    pub(crate) violations: String,
}

/// How many violating rows are shown.
const SHOWN_MAX: usize = 5;

/// The first rows that violate a condition.
pub(crate) fn query(session: &mut dyn Session, condition: &Condition) -> Result<Vec<String>, DatabaseError> {
    let sql = format!("{} LIMIT {SHOWN_MAX}", condition.violations);
    let answer = session.query(&sql)?;
    violations(&answer.batches)
        .map_err(|error| DatabaseError::Failed(format!("cannot show the answer to {sql}: {error}")))
}

/// Whether a condition holds.
pub(crate) fn judge(session: &mut dyn Session, condition: &Condition) -> Result<CheckLine, DatabaseError> {
    let shown = query(session, condition)?;
    Ok(CheckLine {
        what: condition.what.to_owned(),
        holds: Some(shown.is_empty()),
        found: match shown.len() {
            0 => "no row violates it".to_owned(),
            SHOWN_MAX => format!("violated by {}, and perhaps more", shown.join("; ")),
            _ => format!("violated by {}", shown.join("; ")),
        },
    })
}

/// Each row as `column value, column value`.
fn violations(batches: &[RecordBatch]) -> Result<Vec<String>, ArrowError> {
    let options = FormatOptions::default().with_null("null");
    let mut shown = Vec::new();
    for batch in batches {
        let schema = batch.schema();
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values = schema.fields().iter().zip(&columns);
            let values = values.map(|(field, column)| format!("{} {}", field.name(), column.value(row)));
            shown.push(values.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(shown)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int32Array};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    #[test]
    fn violating_rows_are_shown_with_their_columns() {
        let schema = Schema::new(vec![
            Field::new("w_id", DataType::Int32, false),
            Field::new("w_ytd", DataType::Decimal128(12, 2), true),
        ]);
        let amounts = Decimal128Array::from(vec![Some(30_000_001), None]).with_precision_and_scale(12, 2).unwrap();
        let columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int32Array::from(vec![1, 2])), Arc::new(amounts)];
        let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
        assert_eq!(violations(&[batch]).unwrap(), ["w_id 1, w_ytd 300000.01", "w_id 2, w_ytd null"]);
    }
}
