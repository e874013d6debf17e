//! The four tables of a bank (TPC-B 1.3).
//!
//! Rows of branches, tellers and accounts take 100 bytes and rows of the history 50, integers at their width and texts at
//! their length, which is the least that is allowed (TPC-B 1.3, 4.2).

use std::borrow::Cow;

use crate::schema::{Column, ColumnId, ColumnKind, Schema, TableId, column, row_table};

/// Branches.
pub(super) const BRANCH: TableId = 0;
/// Tellers, ten of each branch.
pub(super) const TELLER: TableId = 1;
/// Accounts, 100,000 of each branch.
pub(super) const ACCOUNT: TableId = 2;
/// The transfers that clients have booked.
#[cfg(test)]
pub(super) const HISTORY: TableId = 3;

/// How many tellers a branch has (TPC-B 4.2).
pub(super) const TELLERS_PER_BRANCH: i64 = 10;

/// How many accounts a branch has (TPC-B 4.2).
pub(super) const ACCOUNTS_PER_BRANCH: i64 = 100_000;

/// The number of a branch, a teller or an account; each has its own from 1.
pub(super) const ID: ColumnId = 0;

/// Bytes that fill a branch's row up to 100.
pub(super) const BRANCH_FILLER: usize = 88;

/// Bytes that fill a teller's or an account's row up to 100.
pub(super) const FILLER: usize = 84;

/// Bytes that fill a row of the history up to 50.
pub(super) const HISTORY_FILLER: usize = 22;

const BRANCH_COLUMNS: &[Column] = &[
    column("b_id", ColumnKind::Int),
    column("b_balance", ColumnKind::BigInt),
    column("b_filler", ColumnKind::Text(BRANCH_FILLER)),
];

const TELLER_COLUMNS: &[Column] = &[
    column("t_id", ColumnKind::Int),
    column("t_b_id", ColumnKind::Int),
    column("t_balance", ColumnKind::BigInt),
    column("t_filler", ColumnKind::Text(FILLER)),
];

const ACCOUNT_COLUMNS: &[Column] = &[
    column("a_id", ColumnKind::Int),
    column("a_b_id", ColumnKind::Int),
    column("a_balance", ColumnKind::BigInt),
    column("a_filler", ColumnKind::Text(FILLER)),
];

const HISTORY_COLUMNS: &[Column] = &[
    column("h_t_id", ColumnKind::Int),
    column("h_b_id", ColumnKind::Int),
    column("h_a_id", ColumnKind::Int),
    column("h_delta", ColumnKind::BigInt),
    column("h_time", ColumnKind::Timestamp),
    column("h_filler", ColumnKind::Text(HISTORY_FILLER)),
];

pub(super) static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("tpcb"),
    tables: &[
        row_table("branch", BRANCH_COLUMNS, &[ID]),
        row_table("teller", TELLER_COLUMNS, &[ID]),
        row_table("account", ACCOUNT_COLUMNS, &[ID]),
        row_table("history", HISTORY_COLUMNS, &[]),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_prescribed_bytes() {
        for (table, bytes) in [(BRANCH, 100), (TELLER, 100), (ACCOUNT, 100), (HISTORY, 50)] {
            let width = |column: &Column| match column.kind {
                ColumnKind::Int | ColumnKind::Date => 4,
                ColumnKind::BigInt | ColumnKind::Decimal { .. } | ColumnKind::Timestamp => 8,
                ColumnKind::Text(bytes_max) => bytes_max,
            };
            assert_eq!(SCHEMA.tables[table].columns.iter().map(width).sum::<usize>(), bytes);
        }
    }
}
