//! Row tables: a heap of rows and the indexes that find them. No locks: see [`crate::transaction`].

pub(crate) mod column;
pub mod heap;
pub(crate) mod index;
pub(crate) mod key;
pub(crate) mod latch;
pub mod layout;
pub(crate) mod stored;
mod stripes;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use heap::{Heap, RowId};
use index::Index;
pub use index::IndexKind;
use key::{KEY_BYTES_MAX, KeyLayout};
use layout::{COLUMNS_MAX, RowLayout, TableSpec};

use crate::delta::Outlet;
use crate::value::{self, Value, ValueError};

/// A table kept as rows.
#[derive(Debug)]
pub struct RowTable {
    /// Unique among all tables of an engine.
    pub number: u32,
    /// As declared.
    pub spec: TableSpec,
    /// The rows.
    pub heap: Heap,
    /// The primary key first, if there is one, then the secondary indexes.
    pub indexes: Vec<Index>,
    /// Whether rows are being loaded, which takes no locks: other threads should not read them.
    is_loading: AtomicBool,
    /// Set before the first transaction that is to publish.
    outlet: OnceLock<Outlet>,
}

/// A table cannot be kept as declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// More columns than a row's header has null bits for.
    #[error("table {table} has {columns} columns, at most {COLUMNS_MAX} are possible")]
    TooManyColumns {
        /// The table.
        table: String,
        /// The number of columns it has.
        columns: usize,
    },
    /// A column of an index may be null, which keys do not support.
    #[error("column {column} of an index of table {table} may be null; declare it not null")]
    NullableKey {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The keys of an index would be too long.
    #[error("index {index} of table {table} has keys longer than {KEY_BYTES_MAX} bytes; leave out or shorten a column")]
    KeyTooLong {
        /// The table.
        table: String,
        /// Its number in the table, 0 for the primary key.
        index: usize,
    },
    /// A value does not fit.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Its creation could not be logged.
    #[error("table {table} cannot be made: {why}")]
    Log {
        /// The table.
        table: String,
        /// What the log says.
        why: String,
    },
    /// Two loaded rows have the same primary key.
    #[error("table {table} is loaded with two rows of the same primary key")]
    DuplicateKey {
        /// The table.
        table: String,
    },
}

impl RowTable {
    /// An empty table with a primary key of that kind; secondary indexes are trees, because they are read by ranges. Its
    /// indexes are numbered from `first_index`.
    pub fn new(number: u32, first_index: u32, spec: TableSpec, primary: IndexKind) -> Result<Self, TableError> {
        if spec.columns.len() > COLUMNS_MAX {
            return Err(TableError::TooManyColumns { table: spec.name, columns: spec.columns.len() });
        }
        let primary = (!spec.primary_key.is_empty()).then_some((&spec.primary_key, true, primary));
        let secondary = spec.secondary.iter().map(|columns| (columns, false, IndexKind::Tree));
        let mut indexes = Vec::new();
        for (position, (columns, unique, kind)) in primary.into_iter().chain(secondary).enumerate() {
            if let Some(&column) = columns.iter().find(|&&column| spec.columns[column].nullable) {
                let column = spec.columns[column].name.clone();
                return Err(TableError::NullableKey { table: spec.name.clone(), column });
            }
            let keys = KeyLayout::new(&spec, columns, unique)
                .ok_or_else(|| TableError::KeyTooLong { table: spec.name.clone(), index: position })?;
            indexes.push(Index::new(first_index + position as u32, keys, unique, kind));
        }
        let heap = Heap::new(RowLayout::new(&spec.columns));
        Ok(RowTable { number, spec, heap, indexes, is_loading: AtomicBool::new(false), outlet: OnceLock::new() })
    }

    /// Checks whether a row fits this table.
    pub fn check(&self, row: &[Value<'_>]) -> Result<(), ValueError> {
        assert_eq!(row.len(), self.spec.columns.len(), "a row of {} has all of its columns", self.spec.name);
        (0..row.len()).try_for_each(|column| self.check_column(column, &row[column]))
    }

    pub(crate) fn check_column(&self, column: usize, value: &Value<'_>) -> Result<(), ValueError> {
        let spec = &self.spec.columns[column];
        value::check(spec, value).map_err(|reason| ValueError {
            table: self.spec.name.clone(),
            column: spec.name.clone(),
            reason,
        })
    }

    /// The kind of its primary key's index; `None` without a primary key.
    pub fn primary(&self) -> Option<IndexKind> {
        self.indexes.first().filter(|index| index.unique).map(Index::kind)
    }

    /// Whether a column belongs to an index.
    pub fn is_indexed(&self, column: usize) -> bool {
        self.indexes.iter().any(|index| index.keys.columns().contains(&column))
    }

    /// Records that loading begins or has ended: during loading a checkpoint leaves the rows out.
    pub(crate) fn set_loading(&self, is_loading: bool) {
        self.is_loading.store(is_loading, Ordering::Release);
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading.load(Ordering::Acquire)
    }

    /// Where transactions publish their changes; `None` if changes are not published.
    pub(crate) fn outlet(&self) -> Option<&Outlet> {
        self.outlet.get()
    }

    /// From now on changes are published there. False if they already are published elsewhere.
    pub(crate) fn set_outlet(&self, outlet: Outlet) -> bool {
        self.outlet.set(outlet).is_ok()
    }

    /// Adds a row while no transaction is using the table.
    pub fn load(&self, row: &[Value<'_>]) -> Result<RowId, TableError> {
        let number = self.heap.allocate();
        self.load_at(number, row).map(|()| number)
    }

    /// Adds a row in a slot that was allocated for it, while no transaction is using the table. After an error the slot is
    /// free.
    pub(crate) fn load_at(&self, number: RowId, row: &[Value<'_>]) -> Result<(), TableError> {
        if let Err(error) = self.check(row) {
            self.heap.free(number);
            return Err(error.into());
        }
        self.heap.write(number, row);
        for index in &self.indexes {
            if !index.load(&index.keys.of_row(row, number), number) {
                self.heap.free(number);
                return Err(TableError::DuplicateKey { table: self.spec.name.clone() });
            }
        }
        Ok(())
    }

    /// The key of a stored row in one of the indexes.
    pub fn key_of(&self, index: &Index, row: RowId) -> key::Key {
        let mut text = String::new();
        let columns = index.keys.columns();
        let ends: Vec<usize> = columns
            .iter()
            .map(|&column| {
                if matches!(self.spec.columns[column].kind, value::ColumnType::Text(_)) {
                    self.heap.text(row, column, &mut text);
                }
                text.len()
            })
            .collect();
        let mut values = vec![Value::Null; self.spec.columns.len()];
        let mut start = 0;
        for (&column, &end) in columns.iter().zip(&ends) {
            values[column] = match self.spec.columns[column].kind {
                value::ColumnType::Text(_) => Value::Text(&text[start..end]),
                _ => Value::Int(self.heap.int(row, column)),
            };
            start = end;
        }
        index.keys.of_row(&values, row)
    }
}
