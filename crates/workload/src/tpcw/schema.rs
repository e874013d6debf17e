//! The ten tables of a bookshop (TPC-W 4.6), with the indexes that its interactions use.

use std::borrow::Cow;

pub(super) use crate::schema::primary;
use crate::schema::{ColumnKind, Index, Schema, TableId, column, columns, index, nullable, row_table};

pub(super) const ITEM: TableId = 0;
pub(super) const AUTHOR: TableId = 1;
pub(super) const COUNTRY: TableId = 2;
pub(super) const ADDRESS: TableId = 3;
pub(super) const CUSTOMER: TableId = 4;
pub(super) const ORDERS: TableId = 5;
pub(super) const ORDER_LINE: TableId = 6;
pub(super) const CC_XACTS: TableId = 7;
pub(super) const SHOPPING_CART: TableId = 8;
pub(super) const SHOPPING_CART_LINE: TableId = 9;

/// Items by (subject, id). The title is not in it: keys of an embedded database have 64 bytes at most.
pub(super) const ITEM_BY_SUBJECT: Index = Index { table: ITEM, number: 1 };

pub(super) const ITEM_BY_TITLE: Index = Index { table: ITEM, number: 2 };

/// Items by (author, id).
pub(super) const ITEM_BY_AUTHOR: Index = Index { table: ITEM, number: 3 };

/// Authors by last name.
pub(super) const AUTHOR_BY_NAME: Index = Index { table: AUTHOR, number: 1 };

pub(super) const CUSTOMER_BY_USER_NAME: Index = Index { table: CUSTOMER, number: 1 };

/// Orders by (customer, order).
pub(super) const ORDERS_BY_CUSTOMER: Index = Index { table: ORDERS, number: 1 };

/// Order lines by (item, order).
pub(super) const ORDER_LINE_BY_ITEM: Index = Index { table: ORDER_LINE, number: 1 };

/// Bytes of a title: the most that a key has room for. The specification has 60.
pub(super) const TITLE_BYTES: usize = 56;

/// Money is in hundredths.
const MONEY: ColumnKind = ColumnKind::Decimal { precision: 15, scale: 2 };

/// Discounts are in hundredths, 0.00 to 0.50.
const RATE: ColumnKind = ColumnKind::Decimal { precision: 5, scale: 2 };

columns! { ITEM_COLUMNS:
    I_ID column "i_id" ColumnKind::Int;
    I_TITLE column "i_title" ColumnKind::Text(TITLE_BYTES);
    I_A_ID column "i_a_id" ColumnKind::Int;
    I_PUB_DATE column "i_pub_date" ColumnKind::Date;
    I_PUBLISHER column "i_publisher" ColumnKind::Text(60);
    I_SUBJECT column "i_subject" ColumnKind::Text(20);
    I_DESC column "i_desc" ColumnKind::Text(500);
    I_RELATED1 column "i_related1" ColumnKind::Int;
    I_RELATED2 column "i_related2" ColumnKind::Int;
    I_RELATED3 column "i_related3" ColumnKind::Int;
    I_RELATED4 column "i_related4" ColumnKind::Int;
    I_RELATED5 column "i_related5" ColumnKind::Int;
    I_THUMBNAIL column "i_thumbnail" ColumnKind::Text(40);
    I_IMAGE column "i_image" ColumnKind::Text(40);
    I_SRP column "i_srp" MONEY;
    I_COST column "i_cost" MONEY;
    I_AVAIL column "i_avail" ColumnKind::Date;
    I_STOCK column "i_stock" ColumnKind::Int;
    I_ISBN column "i_isbn" ColumnKind::Text(13);
    I_PAGE column "i_page" ColumnKind::Int;
    I_BACKING column "i_backing" ColumnKind::Text(15);
    I_DIMENSIONS column "i_dimensions" ColumnKind::Text(25);
}

columns! { AUTHOR_COLUMNS:
    A_ID column "a_id" ColumnKind::Int;
    A_FNAME column "a_fname" ColumnKind::Text(20);
    A_LNAME column "a_lname" ColumnKind::Text(20);
    A_MNAME column "a_mname" ColumnKind::Text(20);
    A_DOB column "a_dob" ColumnKind::Date;
    A_BIO column "a_bio" ColumnKind::Text(500);
}

columns! { COUNTRY_COLUMNS:
    CO_ID column "co_id" ColumnKind::Int;
    CO_NAME column "co_name" ColumnKind::Text(50);
    CO_EXCHANGE column "co_exchange" ColumnKind::Decimal { precision: 12, scale: 6 };
    CO_CURRENCY column "co_currency" ColumnKind::Text(18);
}

columns! { ADDRESS_COLUMNS:
    ADDR_ID column "addr_id" ColumnKind::Int;
    ADDR_STREET1 column "addr_street1" ColumnKind::Text(40);
    ADDR_STREET2 column "addr_street2" ColumnKind::Text(40);
    ADDR_CITY column "addr_city" ColumnKind::Text(30);
    ADDR_STATE column "addr_state" ColumnKind::Text(20);
    ADDR_ZIP column "addr_zip" ColumnKind::Text(10);
    ADDR_CO_ID column "addr_co_id" ColumnKind::Int;
}

columns! { CUSTOMER_COLUMNS:
    C_ID column "c_id" ColumnKind::Int;
    C_UNAME column "c_uname" ColumnKind::Text(20);
    C_PASSWD column "c_passwd" ColumnKind::Text(20);
    C_FNAME column "c_fname" ColumnKind::Text(17);
    C_LNAME column "c_lname" ColumnKind::Text(17);
    C_ADDR_ID column "c_addr_id" ColumnKind::Int;
    C_PHONE column "c_phone" ColumnKind::Text(18);
    C_EMAIL column "c_email" ColumnKind::Text(50);
    C_SINCE column "c_since" ColumnKind::Date;
    C_LAST_LOGIN column "c_last_login" ColumnKind::Date;
    C_LOGIN column "c_login" ColumnKind::Timestamp;
    C_EXPIRATION column "c_expiration" ColumnKind::Timestamp;
    C_DISCOUNT column "c_discount" RATE;
    C_BALANCE column "c_balance" MONEY;
    C_YTD_PMT column "c_ytd_pmt" MONEY;
    C_BIRTHDATE column "c_birthdate" ColumnKind::Date;
    C_DATA column "c_data" ColumnKind::Text(500);
}

columns! { ORDERS_COLUMNS:
    O_ID column "o_id" ColumnKind::Int;
    O_C_ID column "o_c_id" ColumnKind::Int;
    O_DATE column "o_date" ColumnKind::Timestamp;
    O_SUB_TOTAL column "o_sub_total" MONEY;
    O_TAX column "o_tax" MONEY;
    O_TOTAL column "o_total" MONEY;
    O_SHIP_TYPE column "o_ship_type" ColumnKind::Text(10);
    O_SHIP_DATE column "o_ship_date" ColumnKind::Timestamp;
    O_BILL_ADDR_ID column "o_bill_addr_id" ColumnKind::Int;
    O_SHIP_ADDR_ID column "o_ship_addr_id" ColumnKind::Int;
    O_STATUS column "o_status" ColumnKind::Text(15);
}

columns! { ORDER_LINE_COLUMNS:
    OL_ID column "ol_id" ColumnKind::Int;
    OL_O_ID column "ol_o_id" ColumnKind::Int;
    OL_I_ID column "ol_i_id" ColumnKind::Int;
    OL_QTY column "ol_qty" ColumnKind::Int;
    OL_DISCOUNT column "ol_discount" RATE;
    OL_COMMENTS column "ol_comments" ColumnKind::Text(100);
}

columns! { CC_XACTS_COLUMNS:
    CX_O_ID column "cx_o_id" ColumnKind::Int;
    CX_TYPE column "cx_type" ColumnKind::Text(10);
    CX_NUM column "cx_num" ColumnKind::Text(16);
    CX_NAME column "cx_name" ColumnKind::Text(31);
    CX_EXPIRE column "cx_expire" ColumnKind::Date;
    CX_AUTH_ID nullable "cx_auth_id" ColumnKind::Text(15);
    CX_XACT_AMT column "cx_xact_amt" MONEY;
    CX_XACT_DATE column "cx_xact_date" ColumnKind::Timestamp;
    CX_CO_ID column "cx_co_id" ColumnKind::Int;
}

columns! { SHOPPING_CART_COLUMNS:
    SC_ID column "sc_id" ColumnKind::Int;
    SC_TIME column "sc_time" ColumnKind::Timestamp;
}

columns! { SHOPPING_CART_LINE_COLUMNS:
    SCL_SC_ID column "scl_sc_id" ColumnKind::Int;
    SCL_I_ID column "scl_i_id" ColumnKind::Int;
    SCL_QTY column "scl_qty" ColumnKind::Int;
}

pub(super) static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("tpcw"),
    tables: &[
        row_table("item", ITEM_COLUMNS, &[I_ID]).with_indexes(&[
            index("item_by_subject", &[I_SUBJECT, I_ID]),
            index("item_by_title", &[I_TITLE]),
            index("item_by_author", &[I_A_ID, I_ID]),
        ]),
        row_table("author", AUTHOR_COLUMNS, &[A_ID]).with_indexes(&[index("author_by_name", &[A_LNAME])]),
        row_table("country", COUNTRY_COLUMNS, &[CO_ID]).with_indexes(&[index("country_by_name", &[CO_NAME])]),
        row_table("address", ADDRESS_COLUMNS, &[ADDR_ID])
            .with_key_ranges()
            .with_indexes(&[index("address_by_zip", &[ADDR_ZIP])]),
        row_table("customer", CUSTOMER_COLUMNS, &[C_ID])
            .with_key_ranges()
            .with_indexes(&[index("customer_by_user_name", &[C_UNAME])]),
        row_table("orders", ORDERS_COLUMNS, &[O_ID])
            .with_key_ranges()
            .with_indexes(&[index("orders_by_customer", &[O_C_ID, O_ID])]),
        row_table("order_line", ORDER_LINE_COLUMNS, &[OL_O_ID, OL_ID])
            .with_key_ranges()
            .with_indexes(&[index("order_line_by_item", &[OL_I_ID, OL_O_ID])]),
        row_table("cc_xacts", CC_XACTS_COLUMNS, &[CX_O_ID]),
        row_table("shopping_cart", SHOPPING_CART_COLUMNS, &[SC_ID]).with_key_ranges(),
        row_table("shopping_cart_line", SHOPPING_CART_LINE_COLUMNS, &[SCL_SC_ID, SCL_I_ID]).with_key_ranges(),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_name_the_tables_and_columns_they_say() {
        for (table, name, column, column_name) in [
            (ITEM, "item", I_DIMENSIONS, "i_dimensions"),
            (AUTHOR, "author", A_BIO, "a_bio"),
            (COUNTRY, "country", CO_CURRENCY, "co_currency"),
            (ADDRESS, "address", ADDR_CO_ID, "addr_co_id"),
            (CUSTOMER, "customer", C_DATA, "c_data"),
            (ORDERS, "orders", O_STATUS, "o_status"),
            (ORDER_LINE, "order_line", OL_COMMENTS, "ol_comments"),
            (CC_XACTS, "cc_xacts", CX_CO_ID, "cx_co_id"),
            (SHOPPING_CART, "shopping_cart", SC_TIME, "sc_time"),
            (SHOPPING_CART_LINE, "shopping_cart_line", SCL_QTY, "scl_qty"),
        ] {
            let declared = &SCHEMA.tables[table];
            assert_eq!((declared.name, declared.columns[column].name), (name, column_name));
        }
    }

    #[test]
    fn indexes_are_where_their_numbers_say() {
        for (index, name) in [
            (ITEM_BY_SUBJECT, "item_by_subject"),
            (ITEM_BY_TITLE, "item_by_title"),
            (ITEM_BY_AUTHOR, "item_by_author"),
            (AUTHOR_BY_NAME, "author_by_name"),
            (CUSTOMER_BY_USER_NAME, "customer_by_user_name"),
            (ORDERS_BY_CUSTOMER, "orders_by_customer"),
            (ORDER_LINE_BY_ITEM, "order_line_by_item"),
        ] {
            assert_eq!(SCHEMA.tables[index.table].secondary[index.number - 1].name, name);
        }
    }
}
