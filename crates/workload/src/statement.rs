//! A statement in its two forms: SQL text for servers, row operations for an engine that runs in this process.
//!
//! A benchmark's control flow is written once, over [`Statement`]s. A server target prepares [`Statement::sql`]; an
//! embedded target calls [`Statement::native`] with its own [`RowAccess`]. Both fill the same [`Rows`]. The row operations are
//! [compiled](crate::keyed) from the text, or written by hand: those of TPC-C, the hot path, and those of texts that are beyond the
//! subset.

use std::fmt;

use crate::database::DatabaseError;
use crate::schema::{Column, ColumnId, ColumnKind, Index, Schema, StoredColumn, TableId};

/// A statement of a benchmark: declared in a `static`, or borrowed from a workload that was read from a file. A session
/// may outlive the latter, so it can identify a statement by its address only if it compares the text, too.
pub struct Statement<'a> {
    /// A short name, unique within the benchmark.
    pub name: &'a str,
    /// The text for a server, parameters as `$1`, `$2`, …
    pub sql: &'a str,
    /// The same effect and the same result rows, as row operations.
    pub native: &'a NativeStatement<'a>,
}

impl fmt::Debug for Statement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statement").field("name", &self.name).field("sql", &self.sql).finish_non_exhaustive()
    }
}

/// The native form of a statement: parameters in the order of `$1`, `$2`, …; result rows are pushed in the order and with
/// the columns of the SQL text.
pub type NativeStatement<'a> =
    dyn Fn(&mut dyn RowAccess, &[Value<'_>], &mut Rows) -> Result<(), DatabaseError> + Send + Sync + 'a;

/// The native form of a statement that has none: only servers can run it.
pub fn sql_only(_: &mut dyn RowAccess, _: &[Value<'_>], _: &mut Rows) -> Result<(), DatabaseError> {
    Err(DatabaseError::Unsupported("this statement is SQL only; run it on a server: `--target postgres:`".to_owned()))
}

/// A parameter or a stored value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL null.
    Null,
    /// An integer, a date in days, a timestamp in microseconds, or a decimal times ten to its scale.
    Int(i64),
    /// Text.
    Text(&'a str),
}

impl<'a> Value<'a> {
    /// The integer.
    ///
    /// # Panics
    /// If it is none: the statement was given parameters in the wrong order, which is an error in the benchmark.
    #[inline]
    pub fn int(self) -> i64 {
        match self {
            Value::Int(number) => number,
            other => panic!("expected an integer, found {other:?}"),
        }
    }

    /// The text.
    ///
    /// # Panics
    /// If it is none, as [`Value::int`].
    #[inline]
    pub fn text(self) -> &'a str {
        match self {
            Value::Text(text) => text,
            other => panic!("expected text, found {other:?}"),
        }
    }
}

/// Result rows of one statement. Kept by the caller and cleared by each statement, so that a transaction in its steady
/// state allocates nothing.
#[derive(Debug, Default)]
pub struct Rows {
    cells: Vec<Cell>,
    text: String,
    columns: usize,
    affected: u64,
}

#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    Int(i64),
    Text { start: u32, end: u32 },
}

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        Rows::default()
    }

    /// Forgets everything, keeping the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.cells.clear();
        self.text.clear();
        self.columns = 0;
        self.affected = 0;
    }

    /// Adds one row. All rows of a result have the same number of values.
    #[inline]
    pub fn push(&mut self, row: &[Value<'_>]) {
        debug_assert!(self.cells.is_empty() || self.columns == row.len(), "rows of unequal length");
        self.columns = row.len();
        for value in row {
            self.append(*value);
        }
    }

    /// Sets the number of values per row, for rows that are given value by value with [`append`](Rows::append) and
    /// [`append_stored`](Rows::append_stored).
    #[inline]
    pub fn start(&mut self, columns: usize) {
        debug_assert!(self.cells.is_empty() || self.columns == columns, "rows of unequal length");
        self.columns = columns;
    }

    /// Adds one value to the current row.
    #[inline]
    pub fn append(&mut self, value: Value<'_>) {
        let cell = match value {
            Value::Null => Cell::Null,
            Value::Int(number) => Cell::Int(number),
            Value::Text(text) => {
                let start = self.text.len() as u32;
                self.text.push_str(text);
                Cell::Text { start, end: self.text.len() as u32 }
            }
        };
        self.cells.push(cell);
    }

    /// Adds columns of a stored row to the current row; texts are copied once, straight from the row.
    pub fn append_stored(&mut self, access: &dyn RowAccess, schema: &Schema, row: RowRef, columns: &[ColumnId]) {
        for &column in columns {
            let Column { kind, nullable, .. } = schema.tables[row.table].columns[column];
            self.append_column(access, row, StoredColumn { column, kind, nullable });
        }
    }

    /// Adds one column of a stored row to the current row.
    #[inline]
    pub(crate) fn append_column(&mut self, access: &dyn RowAccess, row: RowRef, of: StoredColumn) {
        let StoredColumn { column, kind, nullable } = of;
        let cell = if nullable && access.is_null(row, column) {
            Cell::Null
        } else if let ColumnKind::Text(_) = kind {
            let start = self.text.len() as u32;
            access.text(row, column, &mut self.text);
            Cell::Text { start, end: self.text.len() as u32 }
        } else {
            Cell::Int(access.int(row, column))
        };
        self.cells.push(cell);
    }

    /// Says how many rows a statement without a result changed.
    #[inline]
    pub fn set_affected(&mut self, count: u64) {
        self.affected = count;
    }

    /// How many rows the statement changed, where it returns none.
    pub fn affected(&self) -> u64 {
        self.affected
    }

    /// How many values each row has; 0 if there are no rows.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// One value.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[inline]
    pub fn value(&self, row: usize, column: usize) -> Value<'_> {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        match self.cells[row * self.columns + column] {
            Cell::Null => Value::Null,
            Cell::Int(number) => Value::Int(number),
            Cell::Text { start, end } => Value::Text(&self.text[start as usize..end as usize]),
        }
    }

    /// One integer; panics like [`Value::int`] if the value is not one.
    #[inline]
    pub fn int(&self, row: usize, column: usize) -> i64 {
        self.value(row, column).int()
    }

    /// One text; panics like [`Value::text`] if the value is not one.
    #[inline]
    pub fn text(&self, row: usize, column: usize) -> &str {
        self.value(row, column).text()
    }
}

/// A row that a [`RowAccess`] has found, and that stays locked until the transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRef {
    /// Its table.
    pub table: TableId,
    /// Its place there; opaque to benchmarks.
    pub row: u64,
}

/// How a native statement will use the rows it finds, so that it acquires the right locks at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Read them only.
    Read,
    /// Read them, and perhaps write them later in this transaction (`FOR UPDATE`).
    Update,
    /// Write them in this statement.
    Write,
}

/// The end from which an ordered range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Smallest key first.
    First,
    /// Largest key first.
    Last,
}

/// Inserts a whole row and reports one affected row.
#[inline]
pub(crate) fn insert(
    access: &mut dyn RowAccess,
    table: TableId,
    row: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    access.insert(table, row)?;
    rows.set_affected(1);
    Ok(())
}

/// Row operations within the session's current transaction. Keys are the values of the index columns in order. A range
/// is given by its inclusive ends; either end may be a prefix, which includes every key that begins with it.
pub trait RowAccess {
    /// The row with that whole primary key, locked as intended; locks the gap where there is none.
    fn find(&mut self, index: Index, key: &[Value<'_>], intent: Intent) -> Result<Option<RowRef>, DatabaseError>;

    /// The first or last row within `low..=high`, locked as intended; the range up to it is protected against phantoms.
    fn find_end(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        end: End,
        intent: Intent,
    ) -> Result<Option<RowRef>, DatabaseError>;

    /// Every row within `low..=high` in order of key, appended to `found`; each is locked as intended and the whole range
    /// is protected against phantoms.
    fn find_all(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        intent: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError>;

    /// The first or last rows within `low..=high`, up to a limit, in the order of their keys from that end, appended to
    /// `found`; each is locked as intended, and the range up to the last of them is protected against phantoms. By default it
    /// locks the whole range.
    fn find_some(
        &mut self,
        index: Index,
        (low, high): (&[Value<'_>], &[Value<'_>]),
        (end, limit): (End, usize),
        intent: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        let first = found.len();
        self.find_all(index, low, high, intent, found)?;
        if end == End::Last {
            found[first..].reverse();
        }
        found.truncate(first.saturating_add(limit));
        Ok(())
    }

    /// The integer (date, timestamp, scaled decimal) in a column that is not null.
    fn int(&self, row: RowRef, column: ColumnId) -> i64;

    /// Whether the column is null.
    fn is_null(&self, row: RowRef, column: ColumnId) -> bool;

    /// Appends the text in a column that is not null to `into`.
    fn text(&self, row: RowRef, column: ColumnId, into: &mut String);

    /// Writes one column of a row found with [`Intent::Write`] or [`Intent::Update`]. Columns of an index never change.
    fn set(&mut self, row: RowRef, column: ColumnId, value: Value<'_>) -> Result<(), DatabaseError>;

    /// Inserts a row, all columns in order.
    fn insert(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), DatabaseError>;

    /// Deletes a row found with [`Intent::Write`].
    fn delete(&mut self, row: RowRef) -> Result<(), DatabaseError>;
}
