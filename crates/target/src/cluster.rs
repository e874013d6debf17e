//! Where the data of a cluster are made: files that are written while loading, or the engine in this process.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_cluster::{ClusterError, Loader, folder_of};
use plimsoll_export::{FolderStorage, Source, Storage, StorageError};
use plimsoll_workload::database::{Database, DatabaseError};
use plimsoll_workload::schema::Schema;

use crate::embedded::{Embedded, EmbeddedOptions};
use crate::export_database::ExportDatabase;

/// An engine with columns that follow the commits, as exports need them.
struct EngineLoader(Embedded);

/// Writes data that are only read.
struct FileLoader(ExportDatabase);

impl Loader for FileLoader {
    fn database(&self) -> &dyn Database {
        &self.0
    }

    fn source(&self, _schema: &Schema) -> Result<Option<Box<dyn Source + '_>>, DatabaseError> {
        Ok(None)
    }
}

/// A place for the data of a run, below `folder`: a new engine if there are transactions.
pub fn loader(folder: &Path, has_transactions: bool) -> Result<Box<dyn Loader>, ClusterError> {
    if !has_transactions {
        let folder = folder.to_owned();
        let open = move |schema: &Schema| -> Result<Box<dyn Storage>, StorageError> {
            Ok(Box::new(FolderStorage::open(&folder_of(&folder, &schema.name))?))
        };
        return Ok(Box::new(FileLoader(ExportDatabase::new(open, BTreeMap::new()))));
    }
    let failed = |error: &dyn std::fmt::Display| ClusterError::Engine(error.to_string());
    let options = EmbeddedOptions::parse(["propagation=background"]).map_err(|error| failed(&error))?;
    Ok(Box::new(EngineLoader(Embedded::new(options).map_err(|error| failed(&error))?)))
}

impl Loader for EngineLoader {
    fn database(&self) -> &dyn Database {
        &self.0
    }

    fn source(&self, schema: &Schema) -> Result<Option<Box<dyn Source + '_>>, DatabaseError> {
        Ok(Some(Box::new(self.0.export_source(schema)?)))
    }
}
