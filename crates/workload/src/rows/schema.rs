//! One table, in two types: SI 4.2 has columns of type `Long`, and strings of 50 bytes where the type matters.

use std::borrow::Cow;

use crate::schema::{ColumnId, ColumnKind, Schema, Storage, Table, TableId, column};

/// The table.
pub(super) const PAIRS: TableId = 0;

/// Its key: 1, 2, … to the number of rows. Its other column is what is read or updated.
const KEY: ColumnId = 0;

/// Bytes of a text key or value.
pub(super) const TEXT_BYTES: usize = 50;

/// Keys and values of 8 bytes.
pub(super) static BIGINT: Schema = Schema {
    name: Cow::Borrowed("rows_bigint"),
    tables: &[Table {
        name: "pairs",
        columns: &[column("pair_key", ColumnKind::BigInt), column("pair_value", ColumnKind::BigInt)],
        primary_key: &[KEY],
        secondary: &[],
        storage: Storage::RowsAndColumns,
    }],
};

/// Keys and values of 50 bytes.
pub(super) static TEXT: Schema = Schema {
    name: Cow::Borrowed("rows_text"),
    tables: &[Table {
        name: "pairs",
        columns: &[
            column("pair_key", ColumnKind::Text(TEXT_BYTES)),
            column("pair_value", ColumnKind::Text(TEXT_BYTES)),
        ],
        primary_key: &[KEY],
        secondary: &[],
        storage: Storage::RowsAndColumns,
    }],
};
