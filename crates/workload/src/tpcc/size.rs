//! How many bytes the loaded data takes, reckoned from the schema.

use super::schema::*;
use crate::schema::{ColumnId, Kind, Storage, Table, TableId};

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

/// Bytes of rows, columns and indexes of so many warehouses.
pub(super) fn estimated_bytes(warehouses: i64) -> u64 {
    let tables = SCHEMA.tables.iter().enumerate();
    tables.map(|(id, table)| (rows(id, warehouses) as f64 * bytes_per_row(id, table)) as u64).sum()
}

/// Rows of a table; an order has ten lines on average.
fn rows(table: TableId, warehouses: i64) -> i64 {
    let districts = warehouses * DISTRICTS_PER_WAREHOUSE;
    match table {
        WAREHOUSE => warehouses,
        DISTRICT => districts,
        CUSTOMER | HISTORY => districts * CUSTOMERS_PER_DISTRICT,
        NEW_ORDER => districts * (ORDERS_LOADED - ORDERS_DELIVERED),
        ORDERS => districts * ORDERS_LOADED,
        ORDER_LINE => districts * ORDERS_LOADED * 10,
        ITEM => ITEMS,
        STOCK => warehouses * ITEMS,
        _ => unreachable!("there are nine tables"),
    }
}

fn bytes_per_row(id: TableId, table: &Table) -> f64 {
    let columns = 0..table.columns.len();
    let row = ROW_OVERHEAD + columns.clone().map(|column| row_bytes(id, column, table)).sum::<f64>();
    let column_copy = match table.storage {
        Storage::RowsAndColumns => columns.map(|column| column_bytes(id, column, table)).sum::<f64>(),
        Storage::Columns => unreachable!("TPC-C keeps rows of every table"),
    };
    let primary = Some(table.primary_key).filter(|columns| !columns.is_empty());
    let indexes = primary.into_iter().chain(table.secondary.iter().map(|index| index.columns));
    let key = |columns: &[ColumnId]| {
        INDEX_ENTRY_OVERHEAD + columns.iter().map(|&column| row_bytes(id, column, table)).sum::<f64>()
    };
    row + column_copy + indexes.map(key).sum::<f64>()
}

fn row_bytes(id: TableId, column: ColumnId, table: &Table) -> f64 {
    match table.columns[column].kind {
        Kind::Int | Kind::Date => 4.0,
        Kind::BigInt | Kind::Decimal { .. } | Kind::Timestamp => 8.0,
        Kind::Text(bytes_max) => TEXT_OFFSET + text_bytes(id, column, bytes_max),
    }
}

fn column_bytes(id: TableId, column: ColumnId, table: &Table) -> f64 {
    match table.columns[column].kind {
        Kind::Int | Kind::Date => 4.0,
        Kind::BigInt | Kind::Timestamp => 8.0,
        Kind::Decimal { .. } => 16.0,
        Kind::Text(bytes_max) => match text_bytes(id, column, bytes_max) {
            bytes if bytes > TEXT_IN_VIEW_MAX => TEXT_VIEW + bytes,
            _ => TEXT_VIEW,
        },
    }
}

/// How long a text is on average (TPC-C 4.3.3.1); those not named here are of fixed length.
fn text_bytes(id: TableId, column: ColumnId, bytes_max: usize) -> f64 {
    let between = |shortest: f64, longest: f64| (shortest + longest) / 2.0;
    match (id, column) {
        (WAREHOUSE, W_NAME) | (DISTRICT, D_NAME) => between(6.0, 10.0),
        (WAREHOUSE, W_STREET_1 | W_STREET_2 | W_CITY)
        | (DISTRICT, D_STREET_1 | D_STREET_2 | D_CITY)
        | (CUSTOMER, C_STREET_1 | C_STREET_2 | C_CITY) => between(10.0, 20.0),
        (CUSTOMER, C_FIRST) => between(8.0, 16.0),
        // Three syllables of 4 bytes on average.
        (CUSTOMER, C_LAST) => 12.0,
        (CUSTOMER, C_DATA) => between(300.0, 500.0),
        (HISTORY, H_DATA) => between(12.0, 24.0),
        (ITEM, I_NAME) => between(14.0, 24.0),
        (ITEM, I_DATA) | (STOCK, S_DATA) => between(26.0, 50.0),
        _ => bytes_max as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::population::{Part, row_count};
    use super::*;

    #[test]
    fn the_estimate_matches_what_is_made() {
        let parts = Part::all(1);
        let mut texts = 0.0;
        let mut expected = 0.0;
        let mut all = 0;
        for part in parts {
            let batch = part.make(1);
            all += batch.num_rows() as u64;
            let table = &SCHEMA.tables[part.table()];
            for (column, array) in batch.columns().iter().enumerate() {
                if let Kind::Text(bytes_max) = table.columns[column].kind {
                    let views: &arrow::array::StringViewArray = array.as_any().downcast_ref().expect("texts are views");
                    texts += views.iter().flatten().map(|text| text.len() as f64).sum::<f64>();
                    expected += batch.num_rows() as f64 * text_bytes(part.table(), column, bytes_max);
                }
            }
        }
        assert!((texts / expected - 1.0).abs() < 0.01, "{texts} bytes of text, {expected} expected");
        let reckoned = (0..SCHEMA.tables.len()).map(|table| rows(table, 1)).sum::<i64>() as f64;
        assert!((all as f64 / reckoned - 1.0).abs() < 0.01, "{all} rows, {reckoned} expected");
        assert_eq!(all, row_count(1, 1));
    }
}
