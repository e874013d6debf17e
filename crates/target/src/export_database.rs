//! An export as a database that is loaded and nothing else. Its rows go into files as they come, so they may be more than the
//! memory.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use plimsoll_export::{AsOf, ExportReport, Storage, StorageError, TableShape, Writer};
use plimsoll_workload::database::{Database, DatabaseError, Session};
use plimsoll_workload::schema::{DeclaredTable, Schema, TableId};

/// Opens the place for the export of a schema.
type Open = dyn Fn(&Schema) -> Result<Box<dyn Storage>, StorageError> + Send + Sync;

/// The export of each schema that is loaded. It is complete after [`finish_load`](Database::finish_load).
pub struct ExportDatabase {
    open: Box<Open>,
    data: BTreeMap<String, String>,
    declared: Mutex<BTreeMap<String, Vec<DeclaredTable>>>,
    writers: Mutex<BTreeMap<String, Arc<Writer>>>,
    report: Mutex<Option<ExportReport>>,
}

impl ExportDatabase {
    /// `data` is the workload's data that a schema will have, as far as known.
    pub fn new(
        open: impl Fn(&Schema) -> Result<Box<dyn Storage>, StorageError> + Send + Sync + 'static,
        data: BTreeMap<String, String>,
    ) -> ExportDatabase {
        let (declared, writers, report) = Default::default();
        ExportDatabase { open: Box::new(open), data, declared, writers, report }
    }

    /// What the last export did.
    pub fn into_report(self) -> Option<ExportReport> {
        self.report.into_inner()
    }

    fn tables(&self, schema: &Schema) -> Vec<DeclaredTable> {
        match self.declared.lock().get(&*schema.name) {
            Some(declared) if schema.tables.is_empty() => declared.clone(),
            _ => schema.tables.iter().map(DeclaredTable::from).collect(),
        }
    }
}

fn failed(error: impl Display) -> DatabaseError {
    DatabaseError::Failed(error.to_string())
}

impl Database for ExportDatabase {
    fn declare(&self, schema: &Schema, tables: &[DeclaredTable]) -> Result<(), DatabaseError> {
        self.declared.lock().insert(schema.name.to_string(), tables.to_vec());
        Ok(())
    }

    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let shape = |table: DeclaredTable| TableShape {
            schema: schema.name.to_string(),
            columns: table.arrow(),
            name: table.name,
            chunks: 0,
        };
        let shapes = self.tables(schema).into_iter().map(shape).collect();
        let writer = Writer::new((self.open)(schema).map_err(failed)?, shapes).map_err(failed)?;
        self.writers.lock().insert(schema.name.to_string(), Arc::new(writer));
        Ok(())
    }

    /// Ends an export that is not complete. One that is stays.
    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.writers.lock().remove(&*schema.name);
        Ok(())
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        let writer = self.writers.lock().get(&*schema.name).cloned();
        writer.ok_or_else(|| not_created(schema))?.add(table, batch).map_err(failed)
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let writer = self.writers.lock().remove(&*schema.name).ok_or_else(|| not_created(schema))?;
        let writer = Arc::into_inner(writer).ok_or_else(|| failed("rows are still being loaded"))?;
        let origin = schema.name.to_string();
        let report = writer.finish(origin, AsOf::Commit(0), self.data.clone()).map_err(failed)?;
        *self.report.lock() = Some(report);
        Ok(())
    }

    fn session(&self, _schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Err(DatabaseError::Unsupported("an export is only loaded".to_owned()))
    }

    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }
}

fn not_created(schema: &Schema) -> DatabaseError {
    failed(format!("the tables of {} were not created", schema.name))
}
