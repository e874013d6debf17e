//! The nine tables (TPC-C 1.3) with their keys.
//!
//! Columns stand in the order of the specification. Numbers that count things are integers; money and rates are decimals
//! of at least the prescribed precision.

use std::borrow::Cow;

pub(super) use crate::schema::primary;
use crate::schema::{ColumnKind, Index, Schema, Table, TableId, column, columns, index, nullable, row_table};

pub(super) const WAREHOUSE: TableId = 0;
pub(super) const DISTRICT: TableId = 1;
pub(super) const CUSTOMER: TableId = 2;
pub(super) const HISTORY: TableId = 3;
pub(super) const NEW_ORDER: TableId = 4;
pub(super) const ORDERS: TableId = 5;
pub(super) const ORDER_LINE: TableId = 6;
pub(super) const ITEM: TableId = 7;
pub(super) const STOCK: TableId = 8;

pub(crate) const DISTRICTS_PER_WAREHOUSE: i64 = 10;
pub(super) const CUSTOMERS_PER_DISTRICT: i64 = 3_000;
pub(super) const ITEMS: i64 = 100_000;

/// Orders up to this number are loaded; later ones were entered by clients.
pub(crate) const ORDERS_LOADED: i64 = 3_000;

/// Loaded orders up to this number are delivered (TPC-C 4.3.3.1: those with O_ID < 2101).
pub(crate) const ORDERS_DELIVERED: i64 = 2_100;

/// Customers by (warehouse, district, last name, first name, id).
pub(super) const CUSTOMER_BY_NAME: Index = Index { table: CUSTOMER, number: 1 };

/// Orders by (warehouse, district, customer, order).
pub(super) const ORDERS_BY_CUSTOMER: Index = Index { table: ORDERS, number: 1 };

/// Money that adds up over a run. TPC-C 1.3.1 asks for at least the digits of `numeric(12,2)`. A warehouse exceeds those after
/// about four million payments, minutes in a fast database, and then every payment fails. 18 digits are the most that fit into a
/// word of 64 bits; they last for years.
const MONEY: ColumnKind = ColumnKind::Decimal { precision: 18, scale: 2 };
const RATE: ColumnKind = ColumnKind::Decimal { precision: 4, scale: 4 };

columns! { WAREHOUSE_COLUMNS:
    W_ID column "w_id" ColumnKind::Int;
    W_NAME column "w_name" ColumnKind::Text(10);
    W_STREET_1 column "w_street_1" ColumnKind::Text(20);
    W_STREET_2 column "w_street_2" ColumnKind::Text(20);
    W_CITY column "w_city" ColumnKind::Text(20);
    W_STATE column "w_state" ColumnKind::Text(2);
    W_ZIP column "w_zip" ColumnKind::Text(9);
    W_TAX column "w_tax" RATE;
    W_YTD column "w_ytd" MONEY;
}

columns! { DISTRICT_COLUMNS:
    D_ID column "d_id" ColumnKind::Int;
    D_W_ID column "d_w_id" ColumnKind::Int;
    D_NAME column "d_name" ColumnKind::Text(10);
    D_STREET_1 column "d_street_1" ColumnKind::Text(20);
    D_STREET_2 column "d_street_2" ColumnKind::Text(20);
    D_CITY column "d_city" ColumnKind::Text(20);
    D_STATE column "d_state" ColumnKind::Text(2);
    D_ZIP column "d_zip" ColumnKind::Text(9);
    D_TAX column "d_tax" RATE;
    D_YTD column "d_ytd" MONEY;
    D_NEXT_O_ID column "d_next_o_id" ColumnKind::Int;
}

columns! { CUSTOMER_COLUMNS:
    C_ID column "c_id" ColumnKind::Int;
    C_D_ID column "c_d_id" ColumnKind::Int;
    C_W_ID column "c_w_id" ColumnKind::Int;
    C_FIRST column "c_first" ColumnKind::Text(16);
    C_MIDDLE column "c_middle" ColumnKind::Text(2);
    C_LAST column "c_last" ColumnKind::Text(16);
    C_STREET_1 column "c_street_1" ColumnKind::Text(20);
    C_STREET_2 column "c_street_2" ColumnKind::Text(20);
    C_CITY column "c_city" ColumnKind::Text(20);
    C_STATE column "c_state" ColumnKind::Text(2);
    C_ZIP column "c_zip" ColumnKind::Text(9);
    C_PHONE column "c_phone" ColumnKind::Text(16);
    C_SINCE column "c_since" ColumnKind::Timestamp;
    C_CREDIT column "c_credit" ColumnKind::Text(2);
    C_CREDIT_LIM column "c_credit_lim" MONEY;
    C_DISCOUNT column "c_discount" RATE;
    C_BALANCE column "c_balance" MONEY;
    C_YTD_PAYMENT column "c_ytd_payment" MONEY;
    C_PAYMENT_CNT column "c_payment_cnt" ColumnKind::Int;
    C_DELIVERY_CNT column "c_delivery_cnt" ColumnKind::Int;
    C_DATA column "c_data" ColumnKind::Text(500);
}

columns! { HISTORY_COLUMNS:
    H_C_ID column "h_c_id" ColumnKind::Int;
    H_C_D_ID column "h_c_d_id" ColumnKind::Int;
    H_C_W_ID column "h_c_w_id" ColumnKind::Int;
    H_D_ID column "h_d_id" ColumnKind::Int;
    H_W_ID column "h_w_id" ColumnKind::Int;
    H_DATE column "h_date" ColumnKind::Timestamp;
    H_AMOUNT column "h_amount" ColumnKind::Decimal { precision: 6, scale: 2 };
    H_DATA column "h_data" ColumnKind::Text(24);
}

columns! { NEW_ORDER_COLUMNS:
    NO_O_ID column "no_o_id" ColumnKind::Int;
    NO_D_ID column "no_d_id" ColumnKind::Int;
    NO_W_ID column "no_w_id" ColumnKind::Int;
}

columns! { ORDERS_COLUMNS:
    O_ID column "o_id" ColumnKind::Int;
    O_D_ID column "o_d_id" ColumnKind::Int;
    O_W_ID column "o_w_id" ColumnKind::Int;
    O_C_ID column "o_c_id" ColumnKind::Int;
    O_ENTRY_D column "o_entry_d" ColumnKind::Timestamp;
    O_CARRIER_ID nullable "o_carrier_id" ColumnKind::Int;
    O_OL_CNT column "o_ol_cnt" ColumnKind::Int;
    O_ALL_LOCAL column "o_all_local" ColumnKind::Int;
}

columns! { ORDER_LINE_COLUMNS:
    OL_O_ID column "ol_o_id" ColumnKind::Int;
    OL_D_ID column "ol_d_id" ColumnKind::Int;
    OL_W_ID column "ol_w_id" ColumnKind::Int;
    OL_NUMBER column "ol_number" ColumnKind::Int;
    OL_I_ID column "ol_i_id" ColumnKind::Int;
    OL_SUPPLY_W_ID column "ol_supply_w_id" ColumnKind::Int;
    OL_DELIVERY_D nullable "ol_delivery_d" ColumnKind::Timestamp;
    OL_QUANTITY column "ol_quantity" ColumnKind::Int;
    OL_AMOUNT column "ol_amount" ColumnKind::Decimal { precision: 6, scale: 2 };
    OL_DIST_INFO column "ol_dist_info" ColumnKind::Text(24);
}

columns! { ITEM_COLUMNS:
    I_ID column "i_id" ColumnKind::Int;
    I_IM_ID column "i_im_id" ColumnKind::Int;
    I_NAME column "i_name" ColumnKind::Text(24);
    I_PRICE column "i_price" ColumnKind::Decimal { precision: 5, scale: 2 };
    I_DATA column "i_data" ColumnKind::Text(50);
}

columns! { STOCK_COLUMNS:
    S_I_ID column "s_i_id" ColumnKind::Int;
    S_W_ID column "s_w_id" ColumnKind::Int;
    S_QUANTITY column "s_quantity" ColumnKind::Int;
    S_DIST_01 column "s_dist_01" ColumnKind::Text(24);
    S_DIST_02 column "s_dist_02" ColumnKind::Text(24);
    S_DIST_03 column "s_dist_03" ColumnKind::Text(24);
    S_DIST_04 column "s_dist_04" ColumnKind::Text(24);
    S_DIST_05 column "s_dist_05" ColumnKind::Text(24);
    S_DIST_06 column "s_dist_06" ColumnKind::Text(24);
    S_DIST_07 column "s_dist_07" ColumnKind::Text(24);
    S_DIST_08 column "s_dist_08" ColumnKind::Text(24);
    S_DIST_09 column "s_dist_09" ColumnKind::Text(24);
    S_DIST_10 column "s_dist_10" ColumnKind::Text(24);
    S_YTD column "s_ytd" ColumnKind::Int;
    S_ORDER_CNT column "s_order_cnt" ColumnKind::Int;
    S_REMOTE_CNT column "s_remote_cnt" ColumnKind::Int;
    S_DATA column "s_data" ColumnKind::Text(50);
}

/// TPC-C's tables, for every schema that has them.
pub(crate) const TABLES: [Table; 9] = [
    row_table("warehouse", WAREHOUSE_COLUMNS, &[W_ID]),
    row_table("district", DISTRICT_COLUMNS, &[D_W_ID, D_ID]),
    row_table("customer", CUSTOMER_COLUMNS, &[C_W_ID, C_D_ID, C_ID])
        .with_indexes(&[index("customer_by_name", &[C_W_ID, C_D_ID, C_LAST, C_FIRST, C_ID])]),
    row_table("history", HISTORY_COLUMNS, &[]),
    row_table("new_order", NEW_ORDER_COLUMNS, &[NO_W_ID, NO_D_ID, NO_O_ID]).with_key_ranges(),
    row_table("orders", ORDERS_COLUMNS, &[O_W_ID, O_D_ID, O_ID])
        .with_indexes(&[index("orders_by_customer", &[O_W_ID, O_D_ID, O_C_ID, O_ID])]),
    row_table("order_line", ORDER_LINE_COLUMNS, &[OL_W_ID, OL_D_ID, OL_O_ID, OL_NUMBER]).with_key_ranges(),
    row_table("item", ITEM_COLUMNS, &[I_ID]),
    row_table("stock", STOCK_COLUMNS, &[S_W_ID, S_I_ID]),
];

/// TPC-C's tables alone. A schema that has more has these at the same positions, so that row operations may use this
/// one to look up the type of a column.
pub(super) static SCHEMA: Schema = Schema { name: Cow::Borrowed("tpcc"), tables: &TABLES };

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: after four million payments `w_ytd` had grown to ten billion, `numeric(12,2)` overflowed, and every further
    /// payment to that warehouse failed. The totals take ten years of the largest payments at a thousand per second.
    #[test]
    fn totals_of_money_outlast_any_run() {
        const CENTS_MAX: i128 = 500_000;
        let payments = 10 * 365 * 24 * 3600 * 1_000_i128;
        for (table, column) in [(WAREHOUSE, W_YTD), (DISTRICT, D_YTD), (CUSTOMER, C_BALANCE), (CUSTOMER, C_YTD_PAYMENT)]
        {
            let column = &SCHEMA.tables[table].columns[column];
            let ColumnKind::Decimal { precision, scale: 2 } = column.kind else {
                panic!("{}: {:?}", column.name, column.kind)
            };
            assert!(10_i128.pow(u32::from(precision)) > payments * CENTS_MAX, "{}", column.name);
        }
    }

    #[test]
    fn positions_name_the_tables_and_columns_they_say() {
        let names = SCHEMA.tables.iter().map(|table| table.name).collect::<Vec<_>>();
        let expected =
            ["warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "item", "stock"];
        assert_eq!(names, expected);
        for (table, column, name) in [
            (WAREHOUSE, W_YTD, "w_ytd"),
            (DISTRICT, D_NEXT_O_ID, "d_next_o_id"),
            (CUSTOMER, C_DATA, "c_data"),
            (HISTORY, H_DATA, "h_data"),
            (NEW_ORDER, NO_W_ID, "no_w_id"),
            (ORDERS, O_ALL_LOCAL, "o_all_local"),
            (ORDER_LINE, OL_DIST_INFO, "ol_dist_info"),
            (ITEM, I_DATA, "i_data"),
            (STOCK, S_DIST_10, "s_dist_10"),
            (STOCK, S_DATA, "s_data"),
        ] {
            assert_eq!(SCHEMA.tables[table].columns[column].name, name);
        }
    }
}
