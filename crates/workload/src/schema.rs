//! Tables, columns and indexes, as a benchmark declares them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};

/// The tables of a benchmark: declared in a `static`, or part of a workload that was read from a file.
#[derive(Debug, Clone)]
pub struct Schema {
    /// The benchmark's name; targets keep each benchmark's tables apart under it.
    pub name: Cow<'static, str>,
    /// The tables. A [`TableId`] is a position in this list.
    pub tables: &'static [Table],
}

/// A table's position in [`Schema::tables`].
pub type TableId = usize;

/// A column's position in [`Table::columns`].
pub type ColumnId = usize;

/// One of a table's indexes: 0 is the primary key, `1 + i` is `Table::secondary[i]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// The table.
    pub table: TableId,
    /// 0 for the primary key, then the secondary indexes in order.
    pub number: usize,
}

/// One table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its SQL name.
    pub name: &'static str,
    /// Its columns in order.
    pub columns: &'static [Column],
    /// The columns of the primary key, most significant first. Empty: no key, every row is kept and found by scan only.
    pub primary_key: &'static [ColumnId],
    /// Further ordered indexes. Rows with equal columns are all kept.
    pub secondary: &'static [SecondaryIndex],
    /// In which forms the table is kept.
    pub storage: Storage,
    /// Whether statements read ranges of the primary key: a target that is to make hash indexes keeps this key ordered.
    pub has_key_ranges: bool,
}

/// An ordered index that is not the primary key.
#[derive(Debug)]
pub struct SecondaryIndex {
    /// Its SQL name.
    pub name: &'static str,
    /// Its columns, most significant first.
    pub columns: &'static [ColumnId],
}

/// Which copies of a table a two-copy database should keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Rows for transactions, and a column copy for queries.
    RowsAndColumns,
    /// Columns only: the table is loaded once and queried.
    Columns,
}

/// One column.
#[derive(Debug)]
pub struct Column {
    /// Its SQL name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnKind,
    /// Whether it may be null.
    pub nullable: bool,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// A 32-bit integer.
    Int,
    /// A 64-bit integer.
    BigInt,
    /// A fixed-point number: `precision` digits (at most 18), `scale` of them after the point. As a
    /// [`Value`](crate::statement::Value) it is the integer `number * 10^scale`.
    Decimal {
        /// All digits.
        precision: u8,
        /// Digits after the point.
        scale: i8,
    },
    /// Text of at most this many bytes.
    Text(usize),
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since 1970-01-01 00:00 UTC.
    Timestamp,
}

impl ColumnKind {
    /// The Arrow type that batches given to [`load`](crate::database::Database::load) use for it.
    pub fn arrow(self) -> DataType {
        match self {
            ColumnKind::Int => DataType::Int32,
            ColumnKind::BigInt => DataType::Int64,
            ColumnKind::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            ColumnKind::Text(_) => DataType::Utf8View,
            ColumnKind::Date => DataType::Date32,
            ColumnKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

/// A table of a workload that was read from a file: the same as [`Table`], with names of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredTable {
    /// As [`Table::name`].
    pub name: String,
    /// As [`Table::columns`].
    pub columns: Vec<DeclaredColumn>,
    /// As [`Table::primary_key`].
    pub primary_key: Vec<ColumnId>,
    /// The columns of each of [`Table::secondary`].
    pub secondary: Vec<Vec<ColumnId>>,
    /// As [`Table::storage`].
    pub storage: Storage,
    /// As [`Table::has_key_ranges`].
    pub has_key_ranges: bool,
}

/// A column of a table of a workload that was read from a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredColumn {
    /// As [`Column::name`].
    pub name: String,
    /// As [`Column::kind`].
    pub kind: ColumnKind,
    /// As [`Column::nullable`].
    pub nullable: bool,
}

/// A column of a stored row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredColumn {
    pub column: ColumnId,
    pub kind: ColumnKind,
    /// Whether it may be null. Only then is the row checked for null before the value is read, since each access to a
    /// row takes time.
    pub nullable: bool,
}

impl DeclaredColumn {
    /// It, as the column of that position.
    pub(crate) fn stored_at(&self, column: ColumnId) -> StoredColumn {
        StoredColumn { column, kind: self.kind, nullable: self.nullable }
    }
}

impl DeclaredTable {
    /// The schema of the batches that fill this table.
    pub fn arrow(&self) -> SchemaRef {
        let field = |column: &DeclaredColumn| Field::new(&column.name, column.kind.arrow(), column.nullable);
        Arc::new(ArrowSchema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// The columns of an index: 0 is the primary key, as [`Index::number`] has it.
    pub(crate) fn index_columns(&self, number: usize) -> &[ColumnId] {
        if number == 0 { &self.primary_key } else { &self.secondary[number - 1] }
    }
}

impl From<&Table> for DeclaredTable {
    fn from(table: &Table) -> Self {
        let column = |column: &Column| DeclaredColumn {
            name: column.name.to_owned(),
            kind: column.kind,
            nullable: column.nullable,
        };
        DeclaredTable {
            name: table.name.to_owned(),
            columns: table.columns.iter().map(column).collect(),
            primary_key: table.primary_key.to_vec(),
            secondary: table.secondary.iter().map(|index| index.columns.to_vec()).collect(),
            storage: table.storage,
            has_key_ranges: table.has_key_ranges,
        }
    }
}

/// A column that is never null.
pub const fn column(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, nullable: false }
}

/// A column that may be null.
pub const fn nullable(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, nullable: true }
}

/// A table of rows with a column copy, which has no index but its primary key and is read by whole keys only.
pub(crate) const fn row_table(
    name: &'static str,
    columns: &'static [Column],
    primary_key: &'static [ColumnId],
) -> Table {
    Table { name, columns, primary_key, secondary: &[], storage: Storage::RowsAndColumns, has_key_ranges: false }
}

/// A table of columns only, which has no index but its primary key.
pub(crate) const fn column_table(
    name: &'static str,
    columns: &'static [Column],
    primary_key: &'static [ColumnId],
) -> Table {
    Table { storage: Storage::Columns, ..row_table(name, columns, primary_key) }
}

/// An index that is not the primary key.
pub(crate) const fn index(name: &'static str, columns: &'static [ColumnId]) -> SecondaryIndex {
    SecondaryIndex { name, columns }
}

/// A table's primary key.
pub(crate) const fn primary(table: TableId) -> Index {
    Index { table, number: 0 }
}

/// Declares a table's columns, and one position constant for each, for the module's parent to use.
macro_rules! columns {
    ($list:ident: $($position:ident $make:ident $name:literal $kind:expr;)*) => {
        columns!(@number 0usize; $($position)*);
        const $list: &[$crate::schema::Column] = &[$($make($name, $kind)),*];
    };
    (@number $number:expr; $head:ident $($tail:ident)*) => {
        #[allow(dead_code, reason = "every column has a position, though no transaction touches some of them")]
        pub(super) const $head: $crate::schema::ColumnId = $number;
        columns!(@number $number + 1; $($tail)*);
    };
    (@number $number:expr;) => {};
}

pub(crate) use columns;

impl Table {
    /// The same with further indexes.
    pub(crate) const fn with_indexes(self, secondary: &'static [SecondaryIndex]) -> Table {
        Table { secondary, ..self }
    }

    /// The same for a table of which statements read ranges of the primary key.
    pub(crate) const fn with_key_ranges(self) -> Table {
        Table { has_key_ranges: true, ..self }
    }

    /// The schema of the batches that fill this table.
    pub fn arrow(&self) -> SchemaRef {
        DeclaredTable::from(self).arrow()
    }
}
