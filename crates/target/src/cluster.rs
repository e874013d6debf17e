//! The engine in this process as the place where the data of a cluster are made.

use plimsoll_cluster::{ClusterError, Loader};
use plimsoll_export::Source;
use plimsoll_workload::database::{Database, DatabaseError};
use plimsoll_workload::schema::Schema;

use crate::embedded::{Embedded, EmbeddedOptions};

/// An engine with columns that follow the commits, as exports need them.
struct EngineLoader(Embedded);

/// A new engine for the data of a run.
pub fn loader() -> Result<Box<dyn Loader>, ClusterError> {
    let failed = |error: &dyn std::fmt::Display| ClusterError::Engine(error.to_string());
    let options = EmbeddedOptions::parse(["propagation=background"]).map_err(|error| failed(&error))?;
    Ok(Box::new(EngineLoader(Embedded::new(options).map_err(|error| failed(&error))?)))
}

impl Loader for EngineLoader {
    fn database(&self) -> &dyn Database {
        &self.0
    }

    fn source(&self, schema: &Schema) -> Result<Box<dyn Source + '_>, DatabaseError> {
        Ok(Box::new(self.0.export_source(schema)?))
    }
}
