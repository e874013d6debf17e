//! A PostgreSQL server as a database under test.
//!
//! The tables of a benchmark lie in a SQL schema of their own, `plimsoll_NAME`, which has a comment that says whose it is.
//! Nothing without that comment is ever dropped, and nothing outside of it is ever changed.

mod loading;
mod location;
mod ownership;
mod schema_sql;
mod watch;

use arrow::record_batch::RecordBatch;
use parking_lot::{Mutex, RwLock};
use plimsoll_workload::activity::ActivityWatch;
use plimsoll_workload::database::{Database, DatabaseError, Footprint, LoadedData, OptionChange, Session};
use plimsoll_workload::schema::{Schema, TableId};

use crate::connection::{Connection, WireError};
use crate::server::{Applied, PrivateServer, ServerSettings};
use crate::session::{PostgresSession, SessionOptions, Warnings};
use crate::url::ServerUrl;
use location::Location;

/// How long a change of tables waits for somebody who uses them.
const LOCK_TIMEOUT: &str = "30s";

/// A PostgreSQL server.
#[derive(Debug)]
pub struct PostgresDatabase {
    url: ServerUrl,
    settings: RwLock<ServerSettings>,
    warnings: Warnings,
    /// Where a server of somebody else is.
    location: Location,
    /// Connections that load, while nobody uses them.
    loaders: Mutex<Vec<Connection>>,
    /// The server, if it is ours. Dropped last, which ends it.
    server: Option<Mutex<PrivateServer>>,
}

impl PostgresDatabase {
    /// A server that is there already. Connects once, to see that it can be used and where it is.
    ///
    /// Of the settings, sessions make those that were said; the others are as its administrator wants them.
    pub fn connect(url: ServerUrl, settings: ServerSettings) -> Result<Self, DatabaseError> {
        let warnings = Warnings::default();
        let mut connection = Connection::open(&url)?;
        let location = Location::of(&mut connection, &warnings)?;
        let (settings, loaders) = (RwLock::new(settings), Mutex::default());
        Ok(PostgresDatabase { url, settings, warnings, location, loaders, server: None })
    }

    /// A server of our own, which ends with this value.
    pub fn private(server: PrivateServer) -> Self {
        PostgresDatabase {
            url: ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database()),
            settings: RwLock::new(server.settings().clone()),
            warnings: Warnings::default(),
            location: Location::default(),
            loaders: Mutex::default(),
            server: Some(Mutex::new(server)),
        }
    }

    /// Which server it is.
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// What could not be had or seen so far, and what would help.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.told()
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
        let options = SessionOptions::of(&self.settings.read());
        let session = PostgresSession::new(connection, Some(&name), &options, &self.warnings)?;
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
        self.server.as_ref().map_or_else(|| self.location.footprint(), |server| server.lock().footprint())
    }

    fn data(&self, schema: &'static Schema) -> Result<Option<LoadedData>, DatabaseError> {
        ownership::data(&mut self.control()?, schema)
    }

    fn note_data(&self, schema: &'static Schema, data: &LoadedData) -> Result<(), DatabaseError> {
        ownership::note_data(&mut self.control()?, schema, data)
    }

    fn activity(&self) -> Result<Option<Box<dyn ActivityWatch>>, DatabaseError> {
        watch::open(&self.url).map(Some)
    }

    fn run_script(&self, schema: &'static Schema, sql: &str) -> Result<(), DatabaseError> {
        let mut connection = self.control()?;
        connection.run(&format!("SET search_path = {}, public", schema_sql::quoted_name(schema)))?;
        connection.run(sql).map_err(|error| crate::session::query_failure(sql, error))
    }

    fn set_option(&self, name: &str, value: &str) -> Result<OptionChange, DatabaseError> {
        let refused = |error: crate::server::ServerError| DatabaseError::Failed(error.to_string());
        let mut settings = self.settings.write();
        let mut changed = settings.clone();
        changed.set(name, value).map_err(refused)?;
        if let Some(server) = &self.server {
            // They would outlive the server that they are connected to.
            self.loaders.lock().clear();
            if server.lock().apply(changed.clone()).map_err(refused)? == Applied::NeedsNewServer {
                return Ok(OptionChange::NeedsReopening);
            }
        }
        *settings = changed;
        Ok(OptionChange::Applied)
    }
}
