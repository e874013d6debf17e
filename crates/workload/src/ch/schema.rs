//! The twelve tables: TPC-C's nine at their own positions, then three that replace the tables which only TPC-H has.

use std::borrow::Cow;

use crate::schema::{Column, ColumnKind, Schema, TableId, column, column_table};
use crate::tpcc::TABLES;

pub(super) const SUPPLIER: TableId = 9;
pub(super) const NATION: TableId = 10;
pub(super) const REGION: TableId = 11;

/// The name under which targets keep the tables, and the benchmark's own.
pub(super) const NAME: &str = "ch";

/// CH-benCHmark's tables. The last three never change after loading, so they are kept as columns only.
pub(super) static SCHEMA: Schema = Schema {
    name: Cow::Borrowed(NAME),
    tables: &[
        TABLES[0],
        TABLES[1],
        TABLES[2],
        TABLES[3],
        TABLES[4],
        TABLES[5],
        TABLES[6],
        TABLES[7],
        TABLES[8],
        column_table("supplier", SUPPLIER_COLUMNS, &[0]),
        column_table("nation", NATION_COLUMNS, &[0]),
        column_table("region", REGION_COLUMNS, &[0]),
    ],
};

const SUPPLIER_COLUMNS: &[Column] = &[
    // As wide as the product of a warehouse and an item, from which stock's supplier is computed.
    column("su_suppkey", ColumnKind::BigInt),
    column("su_name", ColumnKind::Text(25)),
    column("su_address", ColumnKind::Text(40)),
    column("su_nationkey", ColumnKind::Int),
    column("su_phone", ColumnKind::Text(15)),
    column("su_acctbal", ColumnKind::Decimal { precision: 12, scale: 2 }),
    column("su_comment", ColumnKind::Text(100)),
];

const NATION_COLUMNS: &[Column] = &[
    column("n_nationkey", ColumnKind::Int),
    column("n_name", ColumnKind::Text(25)),
    column("n_regionkey", ColumnKind::Int),
    column("n_comment", ColumnKind::Text(152)),
];

const REGION_COLUMNS: &[Column] = &[
    column("r_regionkey", ColumnKind::Int),
    column("r_name", ColumnKind::Text(55)),
    column("r_comment", ColumnKind::Text(152)),
];
