//! The six tables: two fixed, three scaling, one growing.

use std::borrow::Cow;

use crate::schema::{Column, ColumnId, Index, Kind, Schema, SecondaryIndex, Storage, Table, TableId, column};

pub(super) const RATE: TableId = 0;
pub(super) const SAMPLE: TableId = 1;
pub(super) const ACCOUNT: TableId = 2;
pub(super) const PRODUCT: TableId = 3;
pub(super) const DOCUMENT: TableId = 4;
pub(super) const ENTRY: TableId = 5;

/// Rows of the fixed tables.
pub(super) const RATES: i64 = 100;
pub(super) const SAMPLES: i64 = 300;

/// Rows of the scaling tables for each unit of scale.
pub(super) const ACCOUNTS_PER_SCALE: i64 = 1_000;
pub(super) const PRODUCTS_PER_SCALE: i64 = 200;
pub(super) const DOCUMENTS_PER_SCALE: i64 = 2_000;

/// Entries that each account has at first; they are numbered from 1.
pub(super) const ENTRIES_PER_ACCOUNT: i64 = 20;

/// Accounts of a branch: consecutive ones.
pub(super) const ACCOUNTS_PER_BRANCH: i64 = 10;

/// Documents on a topic: scattered over the table.
pub(super) const DOCUMENTS_PER_TOPIC: i64 = 50;

/// One row in so many, the first ones, is hot: what a lite transaction touches stays in memory.
pub(super) const ROWS_PER_HOT_ONE: i64 = 100;

pub(super) const R_ID: ColumnId = 0;
pub(super) const R_RATE: ColumnId = 2;

pub(super) const S_ID: ColumnId = 0;
pub(super) const S_VALUE: ColumnId = 1;
pub(super) const S_WEIGHT: ColumnId = 2;

pub(super) const A_ID: ColumnId = 0;
pub(super) const A_BRANCH: ColumnId = 1;
pub(super) const A_NAME: ColumnId = 2;
pub(super) const A_RATE: ColumnId = 3;
pub(super) const A_BALANCE: ColumnId = 5;
pub(super) const A_UPDATES: ColumnId = 6;
pub(super) const A_FIRST: ColumnId = 7;
pub(super) const A_NEXT: ColumnId = 8;
pub(super) const A_TOTAL: ColumnId = 9;

pub(super) const P_ID: ColumnId = 0;
pub(super) const P_NAME: ColumnId = 1;
pub(super) const P_PRICE: ColumnId = 2;

pub(super) const D_ID: ColumnId = 0;
pub(super) const D_TOPIC: ColumnId = 1;
pub(super) const D_VERSION: ColumnId = 2;
pub(super) const D_CHANGED: ColumnId = 3;
pub(super) const D_SIZE: ColumnId = 4;
pub(super) const D_TITLE: ColumnId = 5;

pub(super) const E_ACCOUNT: ColumnId = 0;
pub(super) const E_NUMBER: ColumnId = 1;
pub(super) const E_PRODUCT: ColumnId = 2;
pub(super) const E_QUANTITY: ColumnId = 3;
pub(super) const E_AMOUNT: ColumnId = 4;
pub(super) const E_TIME: ColumnId = 5;
pub(super) const E_TEXT: ColumnId = 6;

/// The longest title of a document and the longest text of an entry, in bytes.
pub(super) const TITLE_MAX: usize = 60;
pub(super) const TEXT_MAX: usize = 80;

/// A table's primary key.
pub(super) const fn primary(table: TableId) -> Index {
    Index { table, number: 0 }
}

/// Accounts by (branch, id).
pub(super) const ACCOUNT_BY_BRANCH: Index = Index { table: ACCOUNT, number: 1 };

/// Documents by (topic, id).
pub(super) const DOCUMENT_BY_TOPIC: Index = Index { table: DOCUMENT, number: 1 };

const MONEY: Kind = Kind::Decimal { precision: 14, scale: 2 };

/// The tables.
pub(super) static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("asdb"),
    tables: &[
        table("rate", RATE_COLUMNS, &[R_ID], &[]),
        table("sample", SAMPLE_COLUMNS, &[S_ID], &[]),
        table(
            "account",
            ACCOUNT_COLUMNS,
            &[A_ID],
            &[SecondaryIndex { name: "account_by_branch", columns: &[A_BRANCH, A_ID] }],
        ),
        table("product", PRODUCT_COLUMNS, &[P_ID], &[]),
        table(
            "document",
            DOCUMENT_COLUMNS,
            &[D_ID],
            &[SecondaryIndex { name: "document_by_topic", columns: &[D_TOPIC, D_ID] }],
        ),
        table("entry", ENTRY_COLUMNS, &[E_ACCOUNT, E_NUMBER], &[]),
    ],
};

const fn table(
    name: &'static str,
    columns: &'static [Column],
    primary_key: &'static [ColumnId],
    secondary: &'static [SecondaryIndex],
) -> Table {
    Table { name, columns, primary_key, secondary, storage: Storage::RowsAndColumns }
}

const RATE_COLUMNS: &[Column] = &[
    column("r_id", Kind::Int),
    column("r_name", Kind::Text(30)),
    column("r_rate", Kind::Decimal { precision: 6, scale: 4 }),
    column("r_since", Kind::Date),
];

const SAMPLE_COLUMNS: &[Column] =
    &[column("s_id", Kind::Int), column("s_value", Kind::Int), column("s_weight", Kind::Int)];

const ACCOUNT_COLUMNS: &[Column] = &[
    column("a_id", Kind::BigInt),
    column("a_branch", Kind::BigInt),
    column("a_name", Kind::Text(40)),
    column("a_rate", Kind::Int),
    column("a_opened", Kind::Date),
    column("a_balance", MONEY),
    // How often the balance was updated.
    column("a_updates", Kind::BigInt),
    // Entries of an account have consecutive numbers, from this one …
    column("a_first", Kind::BigInt),
    // … to the one before this.
    column("a_next", Kind::BigInt),
    // The sum of their amounts.
    column("a_total", MONEY),
];

const PRODUCT_COLUMNS: &[Column] = &[
    column("p_id", Kind::BigInt),
    column("p_name", Kind::Text(40)),
    column("p_price", Kind::Decimal { precision: 8, scale: 2 }),
    column("p_since", Kind::Date),
];

const DOCUMENT_COLUMNS: &[Column] = &[
    column("d_id", Kind::BigInt),
    column("d_topic", Kind::BigInt),
    column("d_version", Kind::BigInt),
    column("d_changed", Kind::Timestamp),
    column("d_size", Kind::Int),
    column("d_title", Kind::Text(TITLE_MAX)),
    column("d_body", Kind::Text(600)),
];

const ENTRY_COLUMNS: &[Column] = &[
    column("e_account", Kind::BigInt),
    column("e_number", Kind::BigInt),
    column("e_product", Kind::BigInt),
    column("e_quantity", Kind::Int),
    column("e_amount", MONEY),
    column("e_time", Kind::Timestamp),
    column("e_text", Kind::Text(TEXT_MAX)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_name_the_tables_and_columns_they_say() {
        let names = SCHEMA.tables.iter().map(|table| table.name).collect::<Vec<_>>();
        assert_eq!(names, ["rate", "sample", "account", "product", "document", "entry"]);
        for (table, column, name) in [
            (RATE, R_RATE, "r_rate"),
            (SAMPLE, S_WEIGHT, "s_weight"),
            (ACCOUNT, A_RATE, "a_rate"),
            (ACCOUNT, A_BALANCE, "a_balance"),
            (ACCOUNT, A_TOTAL, "a_total"),
            (PRODUCT, P_PRICE, "p_price"),
            (DOCUMENT, D_TITLE, "d_title"),
            (ENTRY, E_AMOUNT, "e_amount"),
            (ENTRY, E_TEXT, "e_text"),
        ] {
            assert_eq!(SCHEMA.tables[table].columns[column].name, name);
        }
    }
}
