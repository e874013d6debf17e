//! The tables of one schema in their two copies: rows for transactions, columns for queries.
//!
//! The column copy is filled when the tables are loaded. With [propagation](TableSet::with_propagation), every query
//! that [begins](TableSet::read) after a change reads it ([`crate::delta`]). Without, changes reach the columns only
//! through [`TableSet::refresh`]; until then queries read the state as loaded, and their answers report that.
//!
//! In a database that outlives its process, a set with a name is registered when it has been loaded, and
//! [`TableSet::adopt`] finds it again, with columns made from the recovered rows. Tables that are not kept as rows do
//! not outlive the process.

pub(crate) mod convert;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use plimsoll_policy::Priority;

use crate::checkpoint::CheckpointError;
use crate::columns::{ColumnError, ColumnFiles, ColumnSnapshot, ColumnStore, ColumnTable};
use crate::delta::{Delta, DeltaOptions, DeltaTable, Freshness, Propagation, PropagationError};
use crate::engine::Engine;
use crate::lock::Mode;
use crate::log::{Log, LogError, Ticket};
use crate::table::heap::RowId;
use crate::table::layout::{RowLayout, TableSpec};
use crate::table::{IndexKind, RowTable, TableError};
use crate::transaction::TransactionError;

/// One table as declared.
#[derive(Debug, Clone)]
pub struct TableDeclaration {
    /// Its columns and indexes.
    pub spec: TableSpec,
    /// The kind of its primary key's index.
    pub primary: IndexKind,
    /// The schema of the batches that fill it, and of its column copy; with the same columns as `spec`, but with the
    /// logical types of integers: decimals, dates, timestamps.
    pub arrow: SchemaRef,
    /// Whether it is kept as rows, too. Otherwise it is loaded once and only queried.
    pub keeps_rows: bool,
}

/// Why a table set could not be made, filled or refreshed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableSetError {
    /// An error of the row copy.
    #[error(transparent)]
    Rows(#[from] TableError),
    /// An error of the column copy.
    #[error(transparent)]
    Columns(#[from] ColumnError),
    /// The rows could not be read because of concurrent writes.
    #[error("refreshing the columns: {0}")]
    Transaction(#[from] TransactionError),
    /// The loaded tables could not be made durable.
    #[error("the loaded tables could not be made durable: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// A set of this name exists with other tables.
    #[error(
        "the tables kept as {name} are not those that are declared now ({table} differs); drop them and load again"
    )]
    OtherTables {
        /// The set's name.
        name: String,
        /// A table that differs.
        table: String,
    },
    /// Changes cannot be propagated to the columns.
    #[error(transparent)]
    Propagation(#[from] PropagationError),
    /// Some of the rows were not loaded.
    #[error("table {table} has not been loaded to its end: {rows} rows of it are in batches that were refused")]
    Incomplete {
        /// The table.
        table: String,
        /// The number of missing rows.
        rows: u64,
    },
    /// The tables are those of another set that has propagation.
    #[error("the changes of table {table} go to another set of tables; drop that set for good")]
    PublishedElsewhere {
        /// The table.
        table: String,
    },
    /// Rows and batches could not be converted into each other.
    #[error("table {table}: {source}")]
    Convert {
        /// The table.
        table: String,
        /// The error of Arrow.
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
    /// The columns that queries read without propagation.
    columns: ColumnStore,
    /// The files of the column copy; `None` if it is in memory.
    column_files: Option<ColumnFiles>,
    refreshes: Mutex<u64>,
    /// The name under which it is registered, if the database outlives the process.
    name: Option<String>,
    /// Whether the tables stay in the database when this value is dropped.
    is_kept: AtomicBool,
    propagation: DeltaOptions,
    /// Set at the end of loading, if changes are to be propagated.
    delta: OnceLock<Delta>,
}

/// The snapshot for a query, and the place in the log that must be durable before the answer is reported.
#[derive(Debug)]
pub struct Reading {
    snapshot: Arc<ColumnSnapshot>,
    debt: Option<(Arc<Log>, Ticket)>,
}

impl Reading {
    /// The tables to read.
    pub fn snapshot(&self) -> &Arc<ColumnSnapshot> {
        &self.snapshot
    }

    /// Waits until all commits that the snapshot shows are durable; with early lock release they may not be. The answer
    /// must not be reported before this returns, and never after an error.
    pub fn settle(self) -> Result<(), LogError> {
        self.debt.map_or(Ok(()), |(log, ticket)| log.wait(ticket).map(|_| ()))
    }
}

#[derive(Debug)]
struct Entry {
    declaration: TableDeclaration,
    rows: Option<Arc<RowTable>>,
    /// Loaded batches that are not in the column copy yet, and the number of the first row of each.
    loaded: Mutex<Vec<(RowId, RecordBatch)>>,
}

impl TableSet {
    /// Empty tables.
    pub fn create(engine: &Arc<Engine>, tables: Vec<TableDeclaration>) -> Result<Self, TableSetError> {
        let entry = |declaration: TableDeclaration| {
            let create = || engine.create_table_with(declaration.spec.clone(), declaration.primary);
            let rows = declaration.keeps_rows.then(create).transpose()?;
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
            column_files: None,
            refreshes: Mutex::new(0),
            name: None,
            is_kept: AtomicBool::new(false),
            propagation: DeltaOptions::default(),
            delta: OnceLock::new(),
        }
    }

    /// The tables that the database has registered under that name; `None` if it has none. Their column copy must still
    /// be [made](Self::fill_columns).
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

    /// Makes the column copy from the current rows, while no transaction uses them.
    pub fn fill_columns(&self) -> Result<(), TableSetError> {
        let label = "as recovered";
        if self.propagation.propagation == Propagation::Off {
            return self.publish_rows(label);
        }
        let tables = self.tables.iter().map(|entry| self.positional_table(entry)).collect::<Result<Vec<_>, _>>()?;
        self.show(tables, label)
    }

    /// The same tables, with these options for propagating changes to the columns.
    pub fn with_propagation(mut self, options: DeltaOptions) -> Self {
        self.propagation = options;
        self
    }

    /// The same tables, registered under that name if the database outlives the process.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Removes the tables from the database permanently when this value is dropped.
    pub fn discard(&self) {
        if self.is_kept.swap(false, Ordering::Relaxed)
            && let Some(name) = &self.name
        {
            self.engine.forget_set(name);
        }
    }

    /// The same tables with their column copy in files.
    pub fn with_columns_in(mut self, files: ColumnFiles) -> Self {
        self.column_files = Some(files);
        self
    }

    /// How many tables there are.
    pub fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// The row copy of a table, if it has one.
    pub fn rows(&self, table: usize) -> Option<&Arc<RowTable>> {
        self.tables[table].rows.as_ref()
    }

    /// The latest state. With propagation: after all commits so far, which need not be durable yet, or up to the moment
    /// at which propagation failed. Otherwise as loaded or refreshed. A query that reports its answer to a client uses
    /// [`read`](Self::read).
    pub fn snapshot(&self) -> Arc<ColumnSnapshot> {
        self.delta.get().map_or_else(|| self.columns.snapshot(), Delta::latest)
    }

    /// The state for a query that begins now, as recent as the propagation's options say.
    pub fn read(&self) -> Result<Reading, TableSetError> {
        let Some(delta) = self.delta.get() else { return Ok(Reading { snapshot: self.snapshot(), debt: None }) };
        let snapshot = delta.read()?;
        Ok(Reading { snapshot, debt: self.engine.debt_of_readers() })
    }

    /// The delta, for tests of it.
    #[cfg(test)]
    pub(crate) fn delta(&self) -> Option<&Delta> {
        self.delta.get()
    }

    /// The kernel's ids of the propagation threads; none without propagation.
    pub fn propagation_threads(&self) -> Vec<i32> {
        self.delta.get().map(Delta::thread_ids).unwrap_or_default()
    }

    /// Figures of the delta so far; `None` without propagation.
    pub fn freshness(&self) -> Option<Freshness> {
        self.delta.get().map(Delta::freshness)
    }

    /// Adds rows while no transaction uses the table. Several threads may load at once.
    pub fn load(&self, table: usize, batch: RecordBatch) -> Result<(), TableSetError> {
        let entry = &self.tables[table];
        if !convert::same_columns(&batch.schema(), &entry.declaration.arrow) {
            let found = convert::describe(&batch.schema());
            return Err(TableSetError::SchemaMismatch { table: entry.name().to_owned(), found });
        }
        let first = entry.rows.as_ref().map_or(0, |rows| rows.heap.allocate_run(batch.num_rows() as u64));
        if let Some(rows) = &entry.rows {
            convert::load_rows(rows, first, &batch).map_err(|error| entry.convert_error(error))??;
        }
        entry.loaded.lock().push((first, batch));
        Ok(())
    }

    /// Ends loading: makes the column copy from the loaded rows, and makes them durable if the database is.
    pub fn finish_load(&self) -> Result<(), TableSetError> {
        let label = "as loaded";
        let build = |entry: &Entry| self.column_table(entry, entry.take_loaded()?, None);
        let tables = self.tables.iter().map(build).collect::<Result<Vec<_>, _>>()?;
        self.show(tables, label)?;
        self.tables.iter().filter_map(|entry| entry.rows.as_ref()).for_each(|rows| rows.set_loading(false));
        let numbers = self.tables.iter().map(|entry| Some(entry.rows.as_ref()?.number)).collect::<Option<Vec<u32>>>();
        if let (Some(name), Some(numbers), true) = (&self.name, numbers, self.engine.is_durable()) {
            self.engine.keep_set(name, numbers)?;
            self.is_kept.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes a new column copy of every table that is kept as rows, all as of one moment at which no transaction with
    /// changes is open. Waits for such transactions, and blocks writes until then. With propagation, folds all earlier
    /// commits instead, and waits for no transaction.
    pub fn refresh(&self) -> Result<(), TableSetError> {
        // One refresh at a time: a later one would replace the label of an earlier one.
        let mut refreshes = self.refreshes.lock();
        if let Some(delta) = self.delta.get() {
            delta.fold_all(format!("refresh {}", *refreshes + 1))?;
            *refreshes += 1;
            return Ok(());
        }
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
            self.column_table(entry, batches.map_err(|error| entry.convert_error(error))?, None)
        };
        let tables = kept_as_rows().zip(batches).map(build).collect::<Result<Vec<_>, TableSetError>>()?;
        self.columns.publish(tables, label);
        Ok(())
    }

    /// The column copy of a table in which a row has the position of its number.
    fn positional_table(&self, entry: &Entry) -> Result<Arc<ColumnTable>, TableSetError> {
        let Some(rows) = &entry.rows else { return self.column_table(entry, Vec::new(), None) };
        let (batches, live) =
            convert::read_slots(rows, &entry.declaration.arrow).map_err(|error| entry.convert_error(error))?;
        self.column_table(entry, batches, Some(&live))
    }

    /// Makes these columns visible to queries. With propagation, changes are published from now on. No transaction uses
    /// the tables yet.
    fn show(&self, tables: Vec<Arc<ColumnTable>>, label: &str) -> Result<(), TableSetError> {
        if self.propagation.propagation == Propagation::Off {
            self.columns.publish(tables, label);
            return Ok(());
        }
        let table = |(entry, columns): (&Entry, Arc<ColumnTable>)| {
            let layout = RowLayout::new(&entry.declaration.spec.columns);
            DeltaTable { columns, layout }
        };
        let tables = self.tables.iter().zip(tables).map(table).collect();
        let delta = Delta::start(tables, label, &self.propagation, &self.engine.options.clock)?;
        for (position, entry) in self.tables.iter().enumerate() {
            if entry.rows.as_ref().is_some_and(|rows| !rows.set_outlet(delta.outlet(position))) {
                return Err(TableSetError::PublishedElsewhere { table: entry.name().to_owned() });
            }
        }
        assert!(self.delta.set(delta).is_ok(), "tables are loaded once");
        Ok(())
    }

    fn column_table(
        &self,
        entry: &Entry,
        batches: Vec<RecordBatch>,
        live: Option<&BooleanBuffer>,
    ) -> Result<Arc<ColumnTable>, TableSetError> {
        let key = &entry.declaration.spec.primary_key;
        let keys = if key.is_empty() { vec![] } else { vec![key.clone()] };
        let schema = Arc::clone(&entry.declaration.arrow);
        let table = ColumnTable::build_with_holes(entry.name(), schema, keys, batches, live)?;
        Ok(Arc::new(match &self.column_files {
            Some(files) => table.into_file(files)?,
            None => table,
        }))
    }
}

impl Drop for TableSet {
    /// Drops the tables, unless they are kept: no other code knows their numbers.
    fn drop(&mut self) {
        // Propagation threads must end before the tables are dropped.
        drop(self.delta.take());
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

    /// The loaded batches, in order of row number: the position of a row in the column copy is its number.
    fn take_loaded(&self) -> Result<Vec<RecordBatch>, TableSetError> {
        let mut loaded = std::mem::take(&mut *self.loaded.lock());
        loaded.sort_by_key(|(first, _)| *first);
        let batches: Vec<RecordBatch> = loaded.into_iter().map(|(_, batch)| batch).collect();
        let found = batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        match self.rows.as_ref().map(|rows| rows.heap.slot_count()) {
            Some(slots) if slots != found => {
                Err(TableSetError::Incomplete { table: self.name().to_owned(), rows: slots - found })
            }
            _ => Ok(batches),
        }
    }

    fn convert_error(&self, source: ArrowError) -> TableSetError {
        TableSetError::Convert { table: self.name().to_owned(), source }
    }
}

#[cfg(test)]
mod tests;
