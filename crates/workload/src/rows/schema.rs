//! One table, in two types: SI 4.2 has columns of type `Long`, and strings of 50 bytes where the type matters.

use std::borrow::Cow;

use crate::schema::{Column, ColumnId, ColumnKind, Schema, TableId, column, row_table};

pub(super) const PAIRS: TableId = 0;

/// Its key: 1, 2, … to the number of rows. Transactions read or update its other column.
const KEY: ColumnId = 0;

/// Bytes of a text key or value.
pub(super) const TEXT_BYTES: usize = 50;

/// Keys and values of 8 bytes.
pub(super) static BIGINT: Schema =
    Schema { name: Cow::Borrowed("rows_bigint"), tables: &[row_table("pairs", &columns(ColumnKind::BigInt), &[KEY])] };

/// Keys and values of 50 bytes.
pub(super) static TEXT: Schema = Schema {
    name: Cow::Borrowed("rows_text"),
    tables: &[row_table("pairs", &columns(ColumnKind::Text(TEXT_BYTES)), &[KEY])],
};

const fn columns(kind: ColumnKind) -> [Column; 2] {
    [column("pair_key", kind), column("pair_value", kind)]
}
