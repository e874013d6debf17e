//! A PostgreSQL server as a database under test.
//!
//! The tables of a benchmark lie in a SQL schema of their own, `plimsoll_NAME`, which has a comment that says whose it is.
//! Nothing without that comment is ever dropped, and nothing outside of it is ever changed.

mod loading;
mod location;
mod ownership;
mod schema_sql;

use std::path::Path;

use arrow::record_batch::RecordBatch;
use parking_lot::{Mutex, RwLock};
use plimsoll_workload::database::{Database, DatabaseError, Footprint, OptionChange, Session};
use plimsoll_workload::schema::{Schema, TableId};

use crate::connection::{Connection, WireError};
use crate::session::{PostgresSession, SessionOptions, Warnings};
use crate::url::ServerUrl;
use location::Location;

/// How long a change of tables waits for somebody who uses them.
const LOCK_TIMEOUT: &str = "30s";

/// A PostgreSQL server.
#[derive(Debug)]
pub struct PostgresDatabase {
    url: ServerUrl,
    options: RwLock<SessionOptions>,
    warnings: Warnings,
    location: Location,
    /// Connections that load, while nobody uses them.
    loaders: Mutex<Vec<Connection>>,
}

impl PostgresDatabase {
    /// A server that is there already. Connects once, to see that it can be used and where it is.
    pub fn connect(url: ServerUrl, options: SessionOptions) -> Result<Self, DatabaseError> {
        let warnings = Warnings::default();
        let mut connection = Connection::open(&url)?;
        let location = Location::of(&mut connection, &warnings)?;
        Ok(PostgresDatabase { url, options: RwLock::new(options), warnings, location, loaders: Mutex::default() })
    }

    /// Which server it is.
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// What could not be had or seen so far, and what would help.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.told()
    }

    /// Bytes that are free where the server's data is; `None` where that cannot be seen.
    pub fn free_disk(&self) -> Option<u64> {
        let folder = self.location.folder.as_deref()?;
        let space = rustix::fs::statvfs(folder).ok()?;
        Some(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// The folder of the server's data, if it can be seen from here.
    pub fn folder(&self) -> Option<&Path> {
        self.location.folder.as_deref()
    }

    /// A connection for everything but clients' work.
    fn control(&self) -> Result<Connection, WireError> {
        let mut connection = Connection::open(&self.url)?;
        connection.run(&format!("SET lock_timeout = '{LOCK_TIMEOUT}'"))?;
        Ok(connection)
    }
}

impl Database for PostgresDatabase {
    fn create(&self, schema: &'static Schema) -> Result<(), DatabaseError> {
        ownership::create(&mut self.control()?, schema, &self.url)
    }

    fn drop_tables(&self, schema: &'static Schema) -> Result<(), DatabaseError> {
        self.loaders.lock().clear();
        ownership::drop(&mut self.control()?, schema)
    }

    fn load(&self, schema: &'static Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        let idle = self.loaders.lock().pop();
        let mut connection = idle.map_or_else(|| self.control(), Ok)?;
        let loaded = loading::load(&mut connection, schema, table, &batch);
        if connection.lost().is_none() {
            self.loaders.lock().push(connection);
        }
        loaded
    }

    fn finish_load(&self, schema: &'static Schema) -> Result<(), DatabaseError> {
        self.loaders.lock().clear();
        loading::finish(schema, &|| self.control(), &self.warnings)
    }

    fn session(&self, schema: &'static Schema) -> Result<Box<dyn Session>, DatabaseError> {
        let mut connection = Connection::open(&self.url)?;
        if !schema.tables.is_empty() {
            ownership::check_present(&mut connection, schema)?;
        }
        let name = schema_sql::schema_name(schema);
        let session = PostgresSession::new(connection, Some(&name), &self.options.read(), &self.warnings)?;
        Ok(Box::new(session))
    }

    /// Queries see every change that was committed.
    fn refresh(&self, _schema: &'static Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }

    fn footprint(&self) -> Footprint {
        self.location.footprint()
    }

    fn run_script(&self, schema: &'static Schema, sql: &str) -> Result<(), DatabaseError> {
        let mut connection = self.control()?;
        connection.run(&format!("SET search_path = {}, public", schema_sql::quoted_name(schema)))?;
        connection.run(sql).map_err(|error| crate::session::query_failure(sql, error))
    }

    fn set_option(&self, name: &str, value: &str) -> Result<OptionChange, DatabaseError> {
        let _ = (name, value);
        Ok(OptionChange::NeedsReopening)
    }
}
