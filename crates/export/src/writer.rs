//! An export of rows as they come, in place of those of a database: data larger than memory, such as a benchmark's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;

use crate::manifest::{AsOf, ExportedFile, FORMAT, Manifest};
use crate::run::{ExportError, ExportReport, Files, begin, end, exported_table};
use crate::source::TableShape;
use crate::storage::Storage;

/// Rows of a file. As many as a chunk of the embedded engine has.
const FILE_ROWS: usize = 64 * 1024;

/// Writes files as rows come. No export is complete before [`finish`](Writer::finish) returns; if it is never called, an
/// earlier export in the storage is unchanged.
pub struct Writer {
    storage: Box<dyn Storage>,
    /// The manifest of the last export.
    before: Option<Manifest>,
    tables: Vec<(TableShape, Mutex<Rows>)>,
    written: Files,
}

/// The rows of a table.
#[derive(Default)]
struct Rows {
    /// Not yet in a file.
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    /// The number of files that were begun.
    begun: usize,
    files: BTreeMap<usize, ExportedFile>,
}

impl Rows {
    /// The rows of the next file, and its number.
    fn take(&mut self) -> (usize, Vec<RecordBatch>) {
        self.waiting_rows = 0;
        self.begun += 1;
        (self.begun - 1, std::mem::take(&mut self.waiting))
    }
}

impl Writer {
    /// Begins an export of these tables, whose numbers of chunks do not matter. Fails if an export may not be written there.
    pub fn new(storage: Box<dyn Storage>, tables: Vec<TableShape>) -> Result<Writer, ExportError> {
        let before = begin(storage.as_ref())?;
        let tables = tables.into_iter().map(|shape| (shape, Mutex::default())).collect();
        Ok(Writer { storage, before, tables, written: Files::default() })
    }

    /// Adds rows to the table at this position. May be called from several threads at once; equal calls in equal order make
    /// equal files.
    pub fn add(&self, table: usize, rows: RecordBatch) -> Result<(), ExportError> {
        let mut of_table = self.rows(table);
        of_table.waiting_rows += rows.num_rows();
        of_table.waiting.push(rows);
        if of_table.waiting_rows < FILE_ROWS {
            return Ok(());
        }
        let (number, rows) = of_table.take();
        drop(of_table);
        self.write(table, number, &rows)
    }

    /// Writes the rows that wait, and completes the export.
    pub fn finish(
        self,
        origin: String,
        as_of: AsOf,
        data: BTreeMap<String, String>,
        made_by: String,
    ) -> Result<ExportReport, ExportError> {
        for table in 0..self.tables.len() {
            let (number, rows) = self.rows(table).take();
            if !rows.is_empty() {
                self.write(table, number, &rows)?;
            }
        }
        let before = self.files_before();
        let exported = |(shape, rows): &(TableShape, Mutex<Rows>)| {
            let rows = rows.lock().expect("no thread panics while holding it");
            let write = |batch: &RecordBatch| self.written.write(self.storage.as_ref(), &before, shape, 0, batch);
            exported_table(shape, rows.files.values().cloned().collect(), write)
        };
        let mut tables = self.tables.iter().map(exported).collect::<Result<Vec<_>, _>>()?;
        tables.sort_by(|one, other| one.name.cmp(&other.name));
        let manifest = Manifest { format: FORMAT, made_by, origin, as_of, data, tables };
        end(self.storage.as_ref(), &before, manifest, &self.written)
    }

    fn rows(&self, table: usize) -> std::sync::MutexGuard<'_, Rows> {
        self.tables[table].1.lock().expect("no thread panics while holding it")
    }

    fn files_before(&self) -> BTreeSet<&str> {
        self.before.iter().flat_map(Manifest::files).map(|file| &*file.path).collect()
    }

    fn write(&self, table: usize, number: usize, rows: &[RecordBatch]) -> Result<(), ExportError> {
        let shape = &self.tables[table].0;
        let batch = concat_batches(&shape.columns, rows)
            .map_err(|error| ExportError::Parquet { table: shape.name.clone(), reason: error.to_string() })?;
        let file = self.written.write(self.storage.as_ref(), &self.files_before(), shape, number, &batch)?;
        self.rows(table).files.insert(number, file);
        Ok(())
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("storage", &self.storage).finish_non_exhaustive()
    }
}
