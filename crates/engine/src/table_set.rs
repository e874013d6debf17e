//! The tables of one schema in their two copies: rows for transactions, columns for queries.
//!
//! The column copy is filled when the tables are loaded. What transactions change later reaches it only by
//! [`TableSet::refresh`]; until then queries read the state as loaded, and their answers say so.
//!
//! In a database that outlives its process, a set with a name is entered under it when it has been loaded, and
//! [`TableSet::adopt`] finds it again, with columns made of the rows as they were recovered. Tables that are not kept as rows
//! are not kept beyond the process either.

mod convert;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use plimsoll_policy::Priority;

use crate::checkpoint::CheckpointError;
use crate::columns::{ColumnError, ColumnSnapshot, ColumnStore, ColumnTable, DiskFolder};
use crate::engine::Engine;
use crate::lock::Mode;
use crate::table::layout::TableSpec;
use crate::table::{RowTable, TableError};
use crate::transaction::TransactionError;

/// One table as declared.
#[derive(Debug, Clone)]
pub struct TableDeclaration {
    /// Its columns and indexes.
    pub spec: TableSpec,
    /// The schema of the batches that fill it, and of its column copy; column for column as in `spec`, but with what is
    /// meant by the integers: decimals, dates, timestamps.
    pub arrow: SchemaRef,
    /// Whether it is kept as rows, too. Without, it is loaded once and queried.
    pub keeps_rows: bool,
}

/// Why a table set could not be made, filled or refreshed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableSetError {
    /// The row side refused.
    #[error(transparent)]
    Rows(#[from] TableError),
    /// The column side refused.
    #[error(transparent)]
    Columns(#[from] ColumnError),
    /// The rows could not be read while others wrote.
    #[error("refreshing the columns: {0}")]
    Transaction(#[from] TransactionError),
    /// What was loaded could not be made durable.
    #[error("the loaded tables could not be made durable: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// A set that was kept has other tables.
    #[error("the tables kept as {name} are not those that are declared now ({table} differs); drop them and load anew")]
    OtherTables {
        /// The set's name.
        name: String,
        /// A table that differs.
        table: String,
    },
    /// Rows and batches could not be converted into each other.
    #[error("table {table}: {source}")]
    Convert {
        /// The table.
        table: String,
        /// What Arrow said.
        source: ArrowError,
    },
    /// A batch does not have the declared columns.
    #[error("table {table}: a batch has other columns than declared: {found}")]
    SchemaMismatch {
        /// The table.
        table: String,
        /// The batch's columns.
        found: String,
    },
}

/// The tables of one schema.
#[derive(Debug)]
pub struct TableSet {
    engine: Arc<Engine>,
    tables: Vec<Entry>,
    columns: ColumnStore,
    /// Where the column copy is kept; `None` for in memory.
    column_folder: Option<DiskFolder>,
    refreshes: Mutex<u64>,
    /// What it is entered under where the database outlives the process.
    name: Option<String>,
    /// Whether the tables stay in the database when this value goes.
    is_kept: AtomicBool,
}

#[derive(Debug)]
struct Entry {
    declaration: TableDeclaration,
    rows: Option<Arc<RowTable>>,
    /// Batches that were loaded and are not in the column copy yet.
    loaded: Mutex<Vec<RecordBatch>>,
}

impl TableSet {
    /// Empty tables.
    pub fn create(engine: &Arc<Engine>, tables: Vec<TableDeclaration>) -> Result<Self, TableSetError> {
        let entry = |declaration: TableDeclaration| {
            let rows = declaration.keeps_rows.then(|| engine.create_table(declaration.spec.clone())).transpose()?;
            rows.iter().for_each(|rows| rows.set_loading(true));
            Ok::<_, TableSetError>(Entry { declaration, rows, loaded: Mutex::default() })
        };
        let tables = tables.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(TableSet::of(engine, tables))
    }

    fn of(engine: &Arc<Engine>, tables: Vec<Entry>) -> Self {
        TableSet {
            engine: Arc::clone(engine),
            tables,
            columns: ColumnStore::new(),
            column_folder: None,
            refreshes: Mutex::new(0),
            name: None,
            is_kept: AtomicBool::new(false),
        }
    }

    /// The tables that the database has kept under that name; `None` if it has none. Their column copy is still to be
    /// [made](Self::fill_columns).
    pub fn adopt(
        engine: &Arc<Engine>,
        name: &str,
        tables: Vec<TableDeclaration>,
    ) -> Result<Option<Self>, TableSetError> {
        let Some(numbers) = engine.set(name) else { return Ok(None) };
        let other = |table: &str| TableSetError::OtherTables { name: name.to_owned(), table: table.to_owned() };
        if numbers.len() != tables.len() {
            return Err(other("their number"));
        }
        let entry = |(declaration, number): (TableDeclaration, u32)| {
            let rows = engine.row_table(number);
            if rows.spec != declaration.spec {
                return Err(other(&declaration.spec.name));
            }
            Ok(Entry { declaration, rows: Some(rows), loaded: Mutex::default() })
        };
        let tables = tables.into_iter().zip(numbers).map(entry).collect::<Result<_, _>>()?;
        let set = TableSet::of(engine, tables).named(name);
        set.is_kept.store(true, Ordering::Relaxed);
        Ok(Some(set))
    }

    /// Makes the column copy of what the rows hold now, while no transaction uses them.
    pub fn fill_columns(&self) -> Result<(), TableSetError> {
        self.publish_rows("as recovered")
    }

    /// The same tables, to be kept under that name where the database outlives the process.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Lets the tables go from the database for good when this value goes.
    pub fn discard(&self) {
        if self.is_kept.swap(false, Ordering::Relaxed)
            && let Some(name) = &self.name
        {
            self.engine.forget_set(name);
        }
    }

    /// The same tables with their column copy in files of this folder.
    pub fn with_columns_in(mut self, folder: DiskFolder) -> Self {
        self.column_folder = Some(folder);
        self
    }

    /// The row copy of a table, if it has one.
    pub fn rows(&self, table: usize) -> Option<&Arc<RowTable>> {
        self.tables[table].rows.as_ref()
    }

    /// What queries read now.
    pub fn snapshot(&self) -> Arc<ColumnSnapshot> {
        self.columns.snapshot()
    }

    /// Adds rows while no transaction uses the table. Several threads may load at once.
    pub fn load(&self, table: usize, batch: RecordBatch) -> Result<(), TableSetError> {
        let entry = &self.tables[table];
        if !convert::same_columns(&batch.schema(), &entry.declaration.arrow) {
            let found = convert::describe(&batch.schema());
            return Err(TableSetError::SchemaMismatch { table: entry.name().to_owned(), found });
        }
        if let Some(rows) = &entry.rows {
            convert::load_rows(rows, &batch).map_err(|error| entry.convert_error(error))??;
        }
        entry.loaded.lock().push(batch);
        Ok(())
    }

    /// Ends loading: what was loaded becomes the column copy, and durable where the database is.
    pub fn finish_load(&self) -> Result<(), TableSetError> {
        let build = |entry: &Entry| self.column_table(entry, std::mem::take(&mut *entry.loaded.lock()));
        let tables = self.tables.iter().map(build).collect::<Result<Vec<_>, _>>()?;
        self.columns.publish(tables, "as loaded");
        self.tables.iter().filter_map(|entry| entry.rows.as_ref()).for_each(|rows| rows.set_loading(false));
        let numbers = self.tables.iter().map(|entry| Some(entry.rows.as_ref()?.number)).collect::<Option<Vec<u32>>>();
        if let (Some(name), Some(numbers), true) = (&self.name, numbers, self.engine.is_durable()) {
            self.engine.keep_set(name, numbers)?;
            self.is_kept.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes a new column copy of every table that is kept as rows, all as of one moment at which no transaction is under way
    /// that has written. Waits for those that have, and lets none begin to write meanwhile.
    pub fn refresh(&self) -> Result<(), TableSetError> {
        // One refresh at a time: the later one would undo the earlier one's label.
        let mut refreshes = self.refreshes.lock();
        if self.tables.iter().all(|entry| entry.rows.is_none()) {
            return Ok(());
        }
        self.publish_rows(format!("refresh {}", *refreshes + 1))?;
        *refreshes += 1;
        Ok(())
    }

    /// Makes the column copies of all tables that are kept as rows, as of one moment.
    fn publish_rows(&self, label: impl Into<String>) -> Result<(), TableSetError> {
        let kept_as_rows = || self.tables.iter().filter_map(|entry| Some((entry, entry.rows.as_ref()?)));
        let mut connection = self.engine.connect();
        let batches = connection.transact(Priority::LOW, |connection| {
            for (_, rows) in kept_as_rows() {
                connection.lock_table(rows.number, Mode::S)?;
            }
            let read = |(entry, rows): (&Entry, &Arc<RowTable>)| convert::read_rows(rows, &entry.declaration.arrow);
            Ok(kept_as_rows().map(read).collect::<Vec<_>>())
        })?;
        let build = |((entry, _), batches): ((&Entry, _), Result<Vec<RecordBatch>, ArrowError>)| {
            self.column_table(entry, batches.map_err(|error| entry.convert_error(error))?)
        };
        let tables = kept_as_rows().zip(batches).map(build).collect::<Result<Vec<_>, TableSetError>>()?;
        self.columns.publish(tables, label);
        Ok(())
    }

    fn column_table(&self, entry: &Entry, batches: Vec<RecordBatch>) -> Result<Arc<ColumnTable>, TableSetError> {
        let key = &entry.declaration.spec.primary_key;
        let keys = if key.is_empty() { vec![] } else { vec![key.clone()] };
        let table = ColumnTable::build(entry.name(), Arc::clone(&entry.declaration.arrow), keys, batches)?;
        Ok(Arc::new(match &self.column_folder {
            Some(folder) => table.into_file(folder)?,
            None => table,
        }))
    }
}

impl Drop for TableSet {
    /// The engine forgets the tables with the set, unless they are kept: nobody else knows their numbers.
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        for rows in self.tables.iter().filter_map(|entry| entry.rows.as_ref()) {
            self.engine.drop_table(rows.number);
        }
    }
}

impl Entry {
    fn name(&self) -> &str {
        &self.declaration.spec.name
    }

    fn convert_error(&self, source: ArrowError) -> TableSetError {
        TableSetError::Convert { table: self.name().to_owned(), source }
    }
}

#[cfg(test)]
mod tests;
