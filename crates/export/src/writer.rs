//! An export of rows as they come, in place of those of a database: data larger than memory, such as a benchmark's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;

use crate::manifest::{AsOf, ExportedFile, Manifest};
use crate::run::{ExportError, ExportReport, Files, begin, end, exported_table, paths, remove_others};
use crate::source::TableShape;
use crate::storage::Storage;

/// The most rows of a file: as many as a chunk of the embedded engine has.
const FILE_ROWS: usize = 64 * 1024;

/// Writes files as rows come. The export is complete when [`finish`](Writer::finish) returns. A value that is dropped before
/// removes its files, and leaves an earlier export in the storage as it was.
pub struct Writer {
    storage: Box<dyn Storage>,
    /// The files of the last export.
    files_before: BTreeSet<String>,
    tables: Vec<(TableShape, Mutex<Rows>)>,
    written: Files,
    is_finished: bool,
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
        let (mut taken, mut missing) = (Vec::new(), FILE_ROWS);
        while missing > 0 && !self.waiting.is_empty() {
            let first = &mut self.waiting[0];
            let rows = first.num_rows().min(missing);
            taken.push(first.slice(0, rows));
            missing -= rows;
            match first.num_rows() - rows {
                0 => drop(self.waiting.remove(0)),
                left => *first = first.slice(rows, left),
            }
        }
        self.waiting_rows -= FILE_ROWS - missing;
        self.begun += 1;
        (self.begun - 1, taken)
    }
}

impl Writer {
    /// Begins an export of these tables, whose numbers of chunks do not matter. Fails if an export may not be written there.
    pub fn new(storage: Box<dyn Storage>, tables: Vec<TableShape>) -> Result<Writer, ExportError> {
        let files_before = paths(begin(storage.as_ref())?.as_ref());
        let tables = tables.into_iter().map(|shape| (shape, Mutex::default())).collect();
        Ok(Writer { storage, files_before, tables, written: Files::default(), is_finished: false })
    }

    /// Adds rows to the table at this position. May be called from several threads at once; equal calls in equal order make
    /// equal files.
    pub fn add(&self, table: usize, rows: RecordBatch) -> Result<(), ExportError> {
        let mut full = Vec::new();
        {
            let mut of_table = self.rows(table);
            of_table.waiting_rows += rows.num_rows();
            of_table.waiting.push(rows);
            while of_table.waiting_rows >= FILE_ROWS {
                full.push(of_table.take());
            }
        }
        full.iter().try_for_each(|(number, rows)| self.write(table, *number, rows))
    }

    /// Writes the rows that wait, and completes the export. Every [`add`](Writer::add) must have succeeded.
    pub fn finish(
        mut self,
        origin: String,
        as_of: AsOf,
        data: BTreeMap<String, String>,
    ) -> Result<ExportReport, ExportError> {
        for table in 0..self.tables.len() {
            if self.rows(table).waiting_rows > 0 {
                let (number, rows) = self.rows(table).take();
                self.write(table, number, &rows)?;
            }
        }
        let exported = |(shape, rows): &(TableShape, Mutex<Rows>)| {
            let rows = rows.lock().expect("no thread panics while holding it");
            assert_eq!(rows.files.len(), rows.begun, "a file of {} was not written", shape.name);
            let write =
                |batch: &RecordBatch| self.written.write(self.storage.as_ref(), &self.files_before, shape, 0, batch);
            exported_table(shape, rows.files.values().cloned().collect(), write)
        };
        let mut tables = self.tables.iter().map(exported).collect::<Result<Vec<_>, _>>()?;
        tables.sort_by(|one, other| one.name.cmp(&other.name));
        let manifest = Manifest::new(origin, as_of, data, tables);
        let report = end(self.storage.as_ref(), &self.files_before, manifest, &self.written)?;
        self.is_finished = true;
        Ok(report)
    }

    fn rows(&self, table: usize) -> std::sync::MutexGuard<'_, Rows> {
        self.tables[table].1.lock().expect("no thread panics while holding it")
    }

    fn write(&self, table: usize, number: usize, rows: &[RecordBatch]) -> Result<(), ExportError> {
        let shape = &self.tables[table].0;
        let batch = concat_batches(&shape.columns, rows)
            .map_err(|error| ExportError::Parquet { table: shape.name.clone(), reason: error.to_string() })?;
        let file = self.written.write(self.storage.as_ref(), &self.files_before, shape, number, &batch)?;
        self.rows(table).files.insert(number, file);
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_finished {
            remove_others(self.storage.as_ref(), &self.files_before, None);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("storage", &self.storage).finish_non_exhaustive()
    }
}
