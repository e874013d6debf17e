//! The eight tables of TPC-H 1.4.1, with the types that the generator emits.

use std::borrow::Cow;

use crate::schema::{Column, ColumnId, ColumnKind, Schema, TableId, column, column_table, index};

/// `region`.
pub const REGION: TableId = 0;
/// `nation`.
pub const NATION: TableId = 1;
/// `supplier`.
pub const SUPPLIER: TableId = 2;
/// `customer`.
pub const CUSTOMER: TableId = 3;
/// `part`.
pub const PART: TableId = 4;
/// `partsupp`.
pub const PARTSUPP: TableId = 5;
/// `orders`.
pub const ORDERS: TableId = 6;
/// `lineitem`.
pub const LINEITEM: TableId = 7;

/// `s_suppkey`.
pub const S_SUPPKEY: ColumnId = 0;
/// `s_acctbal`.
pub const S_ACCTBAL: ColumnId = 5;
/// `ps_availqty`.
pub const PS_AVAILQTY: ColumnId = 2;
/// `ps_supplycost`.
pub const PS_SUPPLYCOST: ColumnId = 3;
/// `l_quantity`.
pub const L_QUANTITY: ColumnId = 4;
/// `l_extendedprice`.
pub const L_EXTENDEDPRICE: ColumnId = 5;
/// `l_discount`.
pub const L_DISCOUNT: ColumnId = 6;
/// `l_tax`.
pub const L_TAX: ColumnId = 7;
/// `l_shipdate`.
pub const L_SHIPDATE: ColumnId = 10;
/// `l_commitdate`.
pub const L_COMMITDATE: ColumnId = 11;
/// `l_receiptdate`.
pub const L_RECEIPTDATE: ColumnId = 12;

/// The tables, in an order in which no row refers to a table that comes later.
///
/// TPC-H 1.5.4 lets a database index primary and foreign keys. Two foreign keys are declared because a server that runs the
/// correlated subqueries of queries 17, 20 and 22 row by row would otherwise read a whole table each time.
pub static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("tpch"),
    tables: &[
        column_table("region", REGION_COLUMNS, &[0]),
        column_table("nation", NATION_COLUMNS, &[0]),
        column_table("supplier", SUPPLIER_COLUMNS, &[0]),
        column_table("customer", CUSTOMER_COLUMNS, &[0]),
        column_table("part", PART_COLUMNS, &[0]),
        column_table("partsupp", PARTSUPP_COLUMNS, &[0, 1]),
        column_table("orders", ORDERS_COLUMNS, &[0]).with_indexes(&[index("orders_custkey", &[1])]),
        column_table("lineitem", LINEITEM_COLUMNS, &[0, 3]).with_indexes(&[index("lineitem_partkey_suppkey", &[1, 2])]),
    ],
};

const KEY: ColumnKind = ColumnKind::BigInt;
const INTEGER: ColumnKind = ColumnKind::Int;
const MONEY: ColumnKind = ColumnKind::Decimal { precision: 15, scale: 2 };
const DATE: ColumnKind = ColumnKind::Date;

const REGION_COLUMNS: &[Column] =
    &[column("r_regionkey", KEY), column("r_name", ColumnKind::Text(25)), column("r_comment", ColumnKind::Text(152))];

const NATION_COLUMNS: &[Column] = &[
    column("n_nationkey", KEY),
    column("n_name", ColumnKind::Text(25)),
    column("n_regionkey", KEY),
    column("n_comment", ColumnKind::Text(152)),
];

const SUPPLIER_COLUMNS: &[Column] = &[
    column("s_suppkey", KEY),
    column("s_name", ColumnKind::Text(25)),
    column("s_address", ColumnKind::Text(40)),
    column("s_nationkey", KEY),
    column("s_phone", ColumnKind::Text(15)),
    column("s_acctbal", MONEY),
    column("s_comment", ColumnKind::Text(101)),
];

const CUSTOMER_COLUMNS: &[Column] = &[
    column("c_custkey", KEY),
    column("c_name", ColumnKind::Text(25)),
    column("c_address", ColumnKind::Text(40)),
    column("c_nationkey", KEY),
    column("c_phone", ColumnKind::Text(15)),
    column("c_acctbal", MONEY),
    column("c_mktsegment", ColumnKind::Text(10)),
    column("c_comment", ColumnKind::Text(117)),
];

const PART_COLUMNS: &[Column] = &[
    column("p_partkey", KEY),
    column("p_name", ColumnKind::Text(55)),
    column("p_mfgr", ColumnKind::Text(25)),
    column("p_brand", ColumnKind::Text(10)),
    column("p_type", ColumnKind::Text(25)),
    column("p_size", INTEGER),
    column("p_container", ColumnKind::Text(10)),
    column("p_retailprice", MONEY),
    column("p_comment", ColumnKind::Text(23)),
];

const PARTSUPP_COLUMNS: &[Column] = &[
    column("ps_partkey", KEY),
    column("ps_suppkey", KEY),
    column("ps_availqty", INTEGER),
    column("ps_supplycost", MONEY),
    column("ps_comment", ColumnKind::Text(199)),
];

const ORDERS_COLUMNS: &[Column] = &[
    column("o_orderkey", KEY),
    column("o_custkey", KEY),
    column("o_orderstatus", ColumnKind::Text(1)),
    column("o_totalprice", MONEY),
    column("o_orderdate", DATE),
    column("o_orderpriority", ColumnKind::Text(15)),
    column("o_clerk", ColumnKind::Text(15)),
    column("o_shippriority", INTEGER),
    column("o_comment", ColumnKind::Text(79)),
];

const LINEITEM_COLUMNS: &[Column] = &[
    column("l_orderkey", KEY),
    column("l_partkey", KEY),
    column("l_suppkey", KEY),
    column("l_linenumber", INTEGER),
    column("l_quantity", MONEY),
    column("l_extendedprice", MONEY),
    column("l_discount", MONEY),
    column("l_tax", MONEY),
    column("l_returnflag", ColumnKind::Text(1)),
    column("l_linestatus", ColumnKind::Text(1)),
    column("l_shipdate", DATE),
    column("l_commitdate", DATE),
    column("l_receiptdate", DATE),
    column("l_shipinstruct", ColumnKind::Text(25)),
    column("l_shipmode", ColumnKind::Text(10)),
    column("l_comment", ColumnKind::Text(44)),
];
