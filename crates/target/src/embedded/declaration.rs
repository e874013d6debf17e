//! The tables of a benchmark as the engine declares them, and which of them have which index.

use std::collections::BTreeMap;

use plimsoll_engine::table::IndexKind;
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::table_set::{TableDeclaration, TableSet};
use plimsoll_engine::value::{ColumnSpec, ColumnType};
use plimsoll_workload::schema::{ColumnKind, DeclaredColumn, DeclaredTable, Storage};

/// A benchmark's table as the engine declares it, with an index of that kind if statements find its rows by whole keys.
pub(super) fn declaration(table: &DeclaredTable, index: IndexKind) -> TableDeclaration {
    let column = |column: &DeclaredColumn| ColumnSpec {
        name: column.name.clone(),
        kind: match column.kind {
            ColumnKind::Int | ColumnKind::Date => ColumnType::Int32,
            ColumnKind::BigInt | ColumnKind::Decimal { .. } | ColumnKind::Timestamp => ColumnType::Int64,
            ColumnKind::Text(bytes) => ColumnType::Text(u16::try_from(bytes).expect("a benchmark's texts are short")),
        },
        nullable: column.nullable,
    };
    let spec = TableSpec {
        name: table.name.clone(),
        columns: table.columns.iter().map(column).collect(),
        primary_key: table.primary_key.clone(),
        secondary: table.secondary.clone(),
    };
    let primary = if table.has_key_ranges { IndexKind::Tree } else { index };
    TableDeclaration { spec, primary, arrow: table.arrow(), keeps_rows: table.storage == Storage::RowsAndColumns }
}

/// The kind of the index on each primary key of tables that are kept as rows, by the table's name.
pub(super) fn index_kinds(set: &TableSet) -> BTreeMap<String, &'static str> {
    let tables = (0..set.table_count()).filter_map(|table| set.rows(table));
    tables.filter_map(|table| Some((table.spec.name.clone(), table.primary()?.name()))).collect()
}
