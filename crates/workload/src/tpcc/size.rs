//! How many bytes the loaded data take, computed from the schema.

use super::schema::*;
use crate::footprint::bytes_per_row;
use crate::schema::{ColumnId, TableId};

/// Bytes of rows, columns and indexes of `warehouses` warehouses.
pub(super) fn estimated_bytes(warehouses: i64) -> u64 {
    let tables = SCHEMA.tables.iter().enumerate();
    let bytes_per_row = |id, table| bytes_per_row(table, |column, bytes_max| text_bytes(id, column, bytes_max));
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
    use super::super::population::{LoadUnit, row_count};
    use super::*;
    use crate::schema::ColumnKind;

    #[test]
    fn the_estimate_matches_what_is_made() {
        let parts = LoadUnit::all(1);
        let mut texts = 0.0;
        let mut expected = 0.0;
        let mut all = 0;
        for part in parts {
            let batch = part.make(1);
            all += batch.num_rows() as u64;
            let table = &SCHEMA.tables[part.table()];
            for (column, array) in batch.columns().iter().enumerate() {
                if let ColumnKind::Text(bytes_max) = table.columns[column].kind {
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
