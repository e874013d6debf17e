//! The six tables: two fixed, three scaling, one growing.

use std::borrow::Cow;

pub(super) use crate::schema::primary;
use crate::schema::{ColumnKind, Schema, TableId, column, columns, index, row_table};

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

/// One row in 100, the first ones, is hot: the rows of a lite transaction stay in memory.
pub(super) const ROWS_PER_HOT_ONE: i64 = 100;

/// The longest title of a document and the longest text of an entry, in bytes.
pub(super) const TITLE_MAX: usize = 60;
pub(super) const TEXT_MAX: usize = 80;

const MONEY: ColumnKind = ColumnKind::Decimal { precision: 14, scale: 2 };

columns! { RATE_COLUMNS:
    R_ID column "r_id" ColumnKind::Int;
    R_NAME column "r_name" ColumnKind::Text(30);
    R_RATE column "r_rate" ColumnKind::Decimal { precision: 6, scale: 4 };
    R_SINCE column "r_since" ColumnKind::Date;
}

columns! { SAMPLE_COLUMNS:
    S_ID column "s_id" ColumnKind::Int;
    S_VALUE column "s_value" ColumnKind::Int;
    S_WEIGHT column "s_weight" ColumnKind::Int;
}

columns! { ACCOUNT_COLUMNS:
    A_ID column "a_id" ColumnKind::BigInt;
    A_BRANCH column "a_branch" ColumnKind::BigInt;
    A_NAME column "a_name" ColumnKind::Text(40);
    A_RATE column "a_rate" ColumnKind::Int;
    A_OPENED column "a_opened" ColumnKind::Date;
    A_BALANCE column "a_balance" MONEY;
    // How often the balance was updated.
    A_UPDATES column "a_updates" ColumnKind::BigInt;
    // Entries of an account have consecutive numbers, from this one …
    A_FIRST column "a_first" ColumnKind::BigInt;
    // … to the one before this.
    A_NEXT column "a_next" ColumnKind::BigInt;
    // The sum of their amounts.
    A_TOTAL column "a_total" MONEY;
}

columns! { PRODUCT_COLUMNS:
    P_ID column "p_id" ColumnKind::BigInt;
    P_NAME column "p_name" ColumnKind::Text(40);
    P_PRICE column "p_price" ColumnKind::Decimal { precision: 8, scale: 2 };
    P_SINCE column "p_since" ColumnKind::Date;
}

columns! { DOCUMENT_COLUMNS:
    D_ID column "d_id" ColumnKind::BigInt;
    D_TOPIC column "d_topic" ColumnKind::BigInt;
    D_VERSION column "d_version" ColumnKind::BigInt;
    D_CHANGED column "d_changed" ColumnKind::Timestamp;
    D_SIZE column "d_size" ColumnKind::Int;
    D_TITLE column "d_title" ColumnKind::Text(TITLE_MAX);
    D_BODY column "d_body" ColumnKind::Text(600);
}

columns! { ENTRY_COLUMNS:
    E_ACCOUNT column "e_account" ColumnKind::BigInt;
    E_NUMBER column "e_number" ColumnKind::BigInt;
    E_PRODUCT column "e_product" ColumnKind::BigInt;
    E_QUANTITY column "e_quantity" ColumnKind::Int;
    E_AMOUNT column "e_amount" MONEY;
    E_TIME column "e_time" ColumnKind::Timestamp;
    E_TEXT column "e_text" ColumnKind::Text(TEXT_MAX);
}

pub(super) static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("asdb"),
    tables: &[
        row_table("rate", RATE_COLUMNS, &[R_ID]),
        row_table("sample", SAMPLE_COLUMNS, &[S_ID]).with_key_ranges(),
        row_table("account", ACCOUNT_COLUMNS, &[A_ID]).with_indexes(&[index("account_by_branch", &[A_BRANCH, A_ID])]),
        row_table("product", PRODUCT_COLUMNS, &[P_ID]),
        row_table("document", DOCUMENT_COLUMNS, &[D_ID]).with_indexes(&[index("document_by_topic", &[D_TOPIC, D_ID])]),
        row_table("entry", ENTRY_COLUMNS, &[E_ACCOUNT, E_NUMBER]).with_key_ranges(),
    ],
};

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
