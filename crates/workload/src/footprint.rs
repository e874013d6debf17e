//! How many bytes rows, columns and indexes take in an embedded database, computed from a table's declaration.

use crate::schema::{ColumnId, ColumnKind, Storage, Table};

/// Header, version and slot of a stored row.
const ROW_OVERHEAD: f64 = 32.0;

/// Where in a row a text begins.
const TEXT_OFFSET: f64 = 4.0;

/// Row reference in an index entry, and the entry's share of half-empty nodes and their links.
const INDEX_ENTRY_OVERHEAD: f64 = 16.0;

/// A view into the texts of a column.
const TEXT_VIEW: f64 = 16.0;

/// The longest text that its view holds.
const TEXT_IN_VIEW_MAX: f64 = 12.0;

/// Bytes that one row of a table takes in all of the forms in which it is kept; `text_bytes` returns the mean length of
/// a column's texts, given the longest that the column allows.
pub(crate) fn bytes_per_row(table: &Table, text_bytes: impl Fn(ColumnId, usize) -> f64) -> f64 {
    let in_row = |column: ColumnId| match table.columns[column].kind {
        ColumnKind::Int | ColumnKind::Date => 4.0,
        ColumnKind::BigInt | ColumnKind::Decimal { .. } | ColumnKind::Timestamp => 8.0,
        ColumnKind::Text(bytes_max) => TEXT_OFFSET + text_bytes(column, bytes_max),
    };
    let columns = 0..table.columns.len();
    let column_copy = column_bytes_per_row(table, &text_bytes);
    match table.storage {
        Storage::Columns => column_copy,
        Storage::RowsAndColumns => {
            let row = ROW_OVERHEAD + columns.map(in_row).sum::<f64>();
            let primary = Some(table.primary_key).filter(|columns| !columns.is_empty());
            let indexes = primary.into_iter().chain(table.secondary.iter().map(|index| index.columns));
            let key =
                |columns: &[ColumnId]| INDEX_ENTRY_OVERHEAD + columns.iter().map(|&column| in_row(column)).sum::<f64>();
            row + column_copy + indexes.map(key).sum::<f64>()
        }
    }
}

/// Bytes that one row takes as Arrow arrays.
pub(crate) fn column_bytes_per_row(table: &Table, text_bytes: impl Fn(ColumnId, usize) -> f64) -> f64 {
    let in_column = |column: ColumnId| match table.columns[column].kind {
        ColumnKind::Int | ColumnKind::Date => 4.0,
        ColumnKind::BigInt | ColumnKind::Timestamp => 8.0,
        ColumnKind::Decimal { .. } => 16.0,
        ColumnKind::Text(bytes_max) => match text_bytes(column, bytes_max) {
            bytes if bytes > TEXT_IN_VIEW_MAX => TEXT_VIEW + bytes,
            _ => TEXT_VIEW,
        },
    };
    (0..table.columns.len()).map(in_column).sum()
}
