//! How native statements that are written by hand find rows and show them.

use crate::database::DatabaseError;
use crate::schema::{ColumnId, Index, Schema, TableId, primary};
use crate::statement::{Intent, RowAccess, RowRef, Rows, Value};

/// The row of that number in a table whose key is one number.
pub(crate) fn find(
    access: &mut dyn RowAccess,
    table: TableId,
    id: i64,
    intent: Intent,
) -> Result<Option<RowRef>, DatabaseError> {
    access.find(primary(table), &[Value::Int(id)], intent)
}

/// The row of a table whose number is in a column of another row.
pub(crate) fn referred(
    access: &mut dyn RowAccess,
    row: RowRef,
    column: ColumnId,
    table: TableId,
    intent: Intent,
) -> Result<Option<RowRef>, DatabaseError> {
    let id = access.int(row, column);
    find(access, table, id, intent)
}

/// All rows of a range of an index, to be read.
pub(crate) fn find_all(
    access: &mut dyn RowAccess,
    index: Index,
    low: &[Value<'_>],
    high: &[Value<'_>],
) -> Result<Vec<RowRef>, DatabaseError> {
    let mut found = Vec::new();
    access.find_all(index, low, high, Intent::Read, &mut found)?;
    Ok(found)
}

/// The text in a column that is not null.
pub(crate) fn text(access: &dyn RowAccess, row: RowRef, column: ColumnId) -> String {
    let mut text = String::new();
    access.text(row, column, &mut text);
    text
}

/// Adds a result row of columns of several rows.
pub(crate) fn show(access: &dyn RowAccess, schema: &Schema, rows: &mut Rows, parts: &[(RowRef, &[ColumnId])]) {
    rows.start(parts.iter().map(|(_, columns)| columns.len()).sum());
    for (row, columns) in parts {
        rows.append_stored(access, schema, *row, columns);
    }
}
