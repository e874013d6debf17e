//! A benchmark's tables as SQL.

use plimsoll_workload::schema::{ColumnId, ColumnKind, Schema, Table};
use postgres_protocol::escape::{escape_identifier, escape_literal};

/// The comment that makes a schema ours.
pub(super) const MARK: &str = "made by Plimsoll, which may drop it with everything in it";

pub(super) fn schema_name(schema: &Schema) -> String {
    format!("plimsoll_{}", schema.name)
}

pub(super) fn quoted_name(schema: &Schema) -> String {
    escape_identifier(&schema_name(schema))
}

pub(super) fn quoted_table(schema: &Schema, table: &Table) -> String {
    format!("{}.{}", quoted_name(schema), escape_identifier(table.name))
}

/// Creates the schema and its tables, without indexes, in one transaction if sent as one message.
pub(super) fn create(schema: &Schema) -> String {
    let name = quoted_name(schema);
    let mut sql = format!("CREATE SCHEMA {name}; COMMENT ON SCHEMA {name} IS {};", escape_literal(MARK));
    for table in schema.tables {
        let columns = table.columns.iter().map(|column| {
            let null = if column.nullable { "" } else { " NOT NULL" };
            format!("{} {}{null}", escape_identifier(column.name), type_name(column.kind))
        });
        sql += &format!(" CREATE TABLE {} ({});", quoted_table(schema, table), columns.collect::<Vec<_>>().join(", "));
    }
    sql
}

/// The statements that complete a loaded table: indexes, the primary key first.
pub(super) fn indexes(schema: &Schema, table: &Table) -> Vec<String> {
    let on = quoted_table(schema, table);
    let listed = |columns: &[ColumnId]| {
        columns.iter().map(|&column| escape_identifier(table.columns[column].name)).collect::<Vec<_>>().join(", ")
    };
    let key = (!table.primary_key.is_empty())
        .then(|| format!("ALTER TABLE {on} ADD PRIMARY KEY ({})", listed(table.primary_key)));
    let secondary = table.secondary.iter();
    let secondary = secondary
        .map(|index| format!("CREATE INDEX {} ON {on} ({})", escape_identifier(index.name), listed(index.columns)));
    key.into_iter().chain(secondary).collect()
}

pub(super) fn copy(schema: &Schema, table: &Table) -> String {
    format!("COPY {} FROM STDIN (FORMAT binary)", quoted_table(schema, table))
}

/// Texts are compared by their bytes, as in the native forms of statements, regardless of the database's locale.
fn type_name(kind: ColumnKind) -> String {
    match kind {
        ColumnKind::Int => "integer".to_owned(),
        ColumnKind::BigInt => "bigint".to_owned(),
        ColumnKind::Decimal { precision, scale } => format!("numeric({precision},{scale})"),
        ColumnKind::Text(bytes) => format!("varchar({bytes}) COLLATE \"C\""),
        ColumnKind::Date => "date".to_owned(),
        ColumnKind::Timestamp => "timestamp without time zone".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use plimsoll_workload::schema::{Column, SecondaryIndex, Storage, column, nullable};

    use super::*;

    static COLUMNS: &[Column] = &[
        column("id", ColumnKind::Int),
        column("at", ColumnKind::Timestamp),
        nullable("order", ColumnKind::Decimal { precision: 12, scale: 2 }),
        nullable("text", ColumnKind::Text(24)),
    ];
    static SECONDARY: &[SecondaryIndex] = &[SecondaryIndex { name: "by_time", columns: &[1, 0] }];
    static TABLES: &[Table] = &[Table {
        name: "t",
        columns: COLUMNS,
        primary_key: &[0],
        secondary: SECONDARY,
        storage: Storage::RowsAndColumns,
        has_key_ranges: false,
    }];
    static SCHEMA: Schema = Schema { name: Cow::Borrowed("x"), tables: TABLES };

    #[test]
    fn a_schema_is_made_and_marked() {
        let sql = create(&SCHEMA);
        assert!(sql.starts_with("CREATE SCHEMA \"plimsoll_x\"; COMMENT ON SCHEMA \"plimsoll_x\" IS 'made by Plimsoll"));
        let table = "CREATE TABLE \"plimsoll_x\".\"t\" (\"id\" integer NOT NULL, \"at\" timestamp without time zone NOT \
                     NULL, \"order\" numeric(12,2), \"text\" varchar(24) COLLATE \"C\");";
        assert!(sql.ends_with(table), "{sql}");
        assert_eq!(
            indexes(&SCHEMA, &TABLES[0]),
            [
                "ALTER TABLE \"plimsoll_x\".\"t\" ADD PRIMARY KEY (\"id\")",
                "CREATE INDEX \"by_time\" ON \"plimsoll_x\".\"t\" (\"at\", \"id\")",
            ]
        );
    }
}
