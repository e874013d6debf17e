//! A PostgreSQL server as a database under test.
//!
//! The tables of a benchmark lie in a SQL schema of their own, `plimsoll_NAME`, whose comment marks it as ours. Nothing
//! without that comment is ever dropped, and nothing outside it is ever changed.
//!
//! Clients connect through a governor if one is configured, or do so for low priority only; loading, checking and
//! observation do not. Clients that only run queries use the standby if there is one, without the governor; everything
//! else goes to the primary.

mod claims;
mod loading;
mod location;
mod ownership;
mod schema_sql;
mod sessions;
mod split;
mod standby;

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parking_lot::{Mutex, RwLock};
use plimsoll_pg::connection::{Connection, OpenConnections, WireError};
use plimsoll_pg::url::ServerUrl;
use plimsoll_workload::activity::ActivityWatch;
use plimsoll_workload::database::{
    CacheSwitches, Database, DatabaseError, Footprint, LoadedData, Login, OptionChange, ProxyCounts, Session,
};
use plimsoll_workload::freshness::CopyWatch;
use plimsoll_workload::parallelism::{Parallelism, untaught};
use plimsoll_workload::schema::{Schema, TableId};

use crate::activity::{Asker, Watch};
use crate::cache_classes::CacheClasses;
use crate::degrees::QueryDegrees;
use crate::failure::{database_error, past_conflicts};
use crate::governor::{GovernorError, GovernorProcess};
use crate::hidden_table;
use crate::server::{Applied, PrivateServer, SERVER_OPTIONS, ServerSettings};
use crate::session::{SessionOptions, Warnings};
use claims::Claims;
use location::Location;
use standby::{BothWatched, StandbyWatch};

/// How long a change of tables waits for sessions that use them.
const LOCK_TIMEOUT: &str = "30s";

/// A PostgreSQL server.
#[derive(Debug)]
pub struct PostgresDatabase {
    url: ServerUrl,
    warnings: Warnings,
    /// Connections for clients, for loading and for questions.
    connections: OpenConnections,
    /// Our share in the tables of a server that others use, too.
    claims: Claims,
    /// Idle connections for loading. Before the server, so that they are closed before it stops.
    loaders: Mutex<Vec<Connection>>,
    /// Users of a private server that are known to exist.
    users: Mutex<Vec<String>>,
    /// The governor between clients and the server. Before the server, to which it is connected.
    governor: Mutex<Option<GovernorProcess>>,
    /// Why pgbouncer does not stand there though it should; clients are then refused with this.
    no_peer: Mutex<Option<String>>,
    /// Decides the degrees of queries of a private server; `None` if the server does.
    degrees: Mutex<Option<Arc<QueryDegrees>>>,
    /// Decides which parts of the cache backends of a private server may fill. Before the server, so that groups go
    /// first.
    cache_classes: Mutex<Option<Arc<CacheClasses>>>,
    server: Server,
}

/// Who owns the server.
#[derive(Debug)]
enum Server {
    /// We do, and may change every setting.
    Private(Box<RwLock<PrivateServer>>),
    /// Its administrator does; we set only our own sessions.
    Given { location: Location, settings: RwLock<ServerSettings> },
}

impl PostgresDatabase {
    /// An existing server. Connects once, to check that it is usable and to find where it is.
    pub fn connect(url: ServerUrl, settings: ServerSettings) -> Result<Self, DatabaseError> {
        let warnings = Warnings::default();
        let mut connection = Connection::open(&url).map_err(database_error)?;
        let location = Location::of(&mut connection, &warnings)?;
        let server = Server::Given { location, settings: RwLock::new(settings) };
        Ok(PostgresDatabase { warnings, ..PostgresDatabase::of(url, server) })
    }

    /// A private server, which ends with this value. A governor that its settings ask for is not started yet.
    pub fn private(server: PrivateServer) -> Self {
        let url = server.url();
        let degrees = Mutex::new(QueryDegrees::of(server.settings(), None));
        let cache_classes = Mutex::new(CacheClasses::of(&server, None));
        let server = Server::Private(Box::new(RwLock::new(server)));
        PostgresDatabase { degrees, cache_classes, ..PostgresDatabase::of(url, server) }
    }

    /// Without sessions, users, and anything of ours beside the server.
    fn of(url: ServerUrl, server: Server) -> Self {
        PostgresDatabase {
            url,
            server,
            warnings: Default::default(),
            connections: Default::default(),
            claims: Default::default(),
            loaders: Default::default(),
            users: Default::default(),
            governor: Default::default(),
            no_peer: Default::default(),
            degrees: Default::default(),
            cache_classes: Default::default(),
        }
    }

    /// Starts the governor that the settings ask for between clients and the server, or stops one that they do not ask
    /// for. Call this before the first client connects, and while none is connected. A pgbouncer that this machine lacks is
    /// no error: the server serves other settings, and clients learn why.
    pub fn govern(&self) -> Result<(), GovernorError> {
        let mut running = self.governor.lock();
        let wanted = self.settings().governor();
        let runs = running.as_ref().filter(|running| running.check().is_ok()).map(GovernorProcess::settings);
        if runs != wanted.as_ref() || wanted.is_none() {
            // The previous governor disconnects from the server first.
            *running = None;
            *self.no_peer.lock() = None;
            let started = wanted.map(|wanted| GovernorProcess::start(&self.url, self.is_ours(), wanted)).transpose();
            *running = match started {
                Err(GovernorError::Peer(why)) => {
                    *self.no_peer.lock() = Some(GovernorError::Peer(why).to_string());
                    None
                }
                started => started?,
            };
        }
        Ok(())
    }

    /// The settings of the server, or those of our sessions on a given one.
    fn settings(&self) -> ServerSettings {
        match &self.server {
            Server::Private(server) => server.read().settings().clone(),
            Server::Given { settings, .. } => settings.read().clone(),
        }
    }

    fn is_ours(&self) -> bool {
        matches!(self.server, Server::Private(_))
    }

    /// Where clients connect as that user, and whether they name the class of their transactions.
    fn client_url(&self, user: Option<&str>) -> Result<(ServerUrl, bool), DatabaseError> {
        let url = user.map_or_else(|| self.url.clone(), |user| self.url.with_user(user));
        if let Some(why) = self.no_peer.lock().clone() {
            return Err(DatabaseError::Unsupported(why));
        }
        let governor = self.governor.lock();
        let Some(governor) = governor.as_ref() else { return Ok((url, false)) };
        governor.check().map_err(|error| DatabaseError::ConnectionLost(error.to_string()))?;
        let way = governor.url();
        // With the operator's own settings, their rules decide a user's class.
        let is_by_rules = user.is_some() && governor.settings().config.is_some();
        let tells_class = governor.takes_classes() && !is_by_rules && governor.settings().mode.reads_comments();
        let way = ServerUrl { host: way.host.clone(), port: way.port, connect_timeout: way.connect_timeout, ..url };
        Ok((way, tells_class))
    }

    /// Creates a user of a private server, with our rights except superuser; on a given server, the user must exist.
    fn make_user(&self, user: &str) -> Result<(), DatabaseError> {
        use postgres_protocol::escape::{escape_identifier, escape_literal};
        let mut known = self.users.lock();
        if !self.is_ours() || user == self.url.user || known.iter().any(|name| name == user) {
            return Ok(());
        }
        let mut control = self.control().map_err(database_error)?;
        if control
            .text(&format!("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = {}", escape_literal(user)))
            .map_err(database_error)?
            .is_none()
        {
            let (user, group) = (escape_identifier(user), escape_identifier(&self.url.user));
            control.run(&format!("CREATE ROLE {user} LOGIN IN ROLE {group}")).map_err(database_error)?;
        }
        known.push(user.to_owned());
        Ok(())
    }

    /// The server's URL.
    pub fn url(&self) -> &ServerUrl {
        &self.url
    }

    fn session_options(&self) -> SessionOptions {
        let settings = self.settings();
        let (degrees, cache_classes) = (self.degrees.lock().clone(), self.cache_classes.lock().clone());
        SessionOptions { degrees, cache_classes, ..SessionOptions::from(&settings) }
    }

    /// Does something about the claims on tables. A server of ours has no other users.
    fn claim(
        &self,
        act: impl FnOnce(&Claims, &dyn Fn() -> Result<Connection, WireError>) -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        if self.is_ours() { Ok(()) } else { act(&self.claims, &|| self.control()) }
    }

    /// A connection for everything except clients' work.
    fn control(&self) -> Result<Connection, WireError> {
        let mut connection = self.connections.open(&self.url)?;
        connection.run(&format!("SET lock_timeout = '{LOCK_TIMEOUT}'"))?;
        Ok(connection)
    }
}

impl Database for PostgresDatabase {
    fn runs_sql(&self) -> bool {
        true
    }

    fn is_of_user(&self) -> bool {
        !self.is_ours()
    }

    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        ownership::create(&mut self.control().map_err(database_error)?, schema, &self.url)
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.loaders.lock().clear();
        self.claim(|claims, open| claims.have_alone(schema, open))?;
        ownership::drop(&mut self.control().map_err(database_error)?, schema)
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        let idle = self.loaders.lock().pop();
        let mut connection = idle.map_or_else(|| self.control(), Ok).map_err(database_error)?;
        let loaded = loading::load(&mut connection, schema, table, &batch);
        if connection.lost().is_none() {
            self.loaders.lock().push(connection);
        }
        loaded
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.loaders.lock().clear();
        loading::finish(schema, &|| self.control(), &self.warnings)?;
        self.claim(|claims, open| claims.end_alone(schema, open))
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        self.session_as(schema, Login::default())
    }

    fn session_as(&self, schema: &Schema, login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        login.user.map_or(Ok(()), |user| self.make_user(user))?;
        self.open_session(schema, login)
    }

    fn query_session(&self, schema: &Schema, login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        match self.standby_url() {
            Some(standby) => self.open_on_standby(standby, schema, login),
            None => self.session_as(schema, login),
        }
    }

    /// Queries of a server see every committed change, those of its standby after a delay.
    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        self.standby_url().map_or(Ok(()), |standby| self.freshen(&standby))
    }

    fn freshness(&self) -> Result<Option<Box<dyn CopyWatch>>, DatabaseError> {
        let Some(standby) = self.standby_url() else { return Ok(None) };
        Ok(Some(Box::new(StandbyWatch::open(&self.url, &standby)?)))
    }

    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }

    fn footprint(&self) -> Footprint {
        match &self.server {
            Server::Private(server) => server.read().footprint(),
            Server::Given { location, .. } => location.footprint(),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let untaught = self.degrees.lock().as_ref().and_then(|degrees| untaught(&degrees.figures()));
        let unbound = self.cache_classes.lock().as_ref().and_then(|classes| classes.warning());
        self.warnings.told().into_iter().chain(untaught).chain(unbound).collect()
    }

    fn cache_switches(&self) -> Option<CacheSwitches> {
        self.cache_classes.lock().as_ref().map(|classes| classes.switches())
    }

    fn parallelism(&self) -> Option<Parallelism> {
        self.degrees.lock().as_ref().map(|degrees| degrees.figures().into())
    }

    fn proxy(&self) -> Option<i32> {
        self.governor.lock().as_ref().map(GovernorProcess::id)
    }

    fn proxy_counts(&self) -> Result<Vec<ProxyCounts>, DatabaseError> {
        Ok(self
            .governor
            .lock()
            .as_ref()
            .map(GovernorProcess::counts)
            .transpose()
            .map_err(database_error)?
            .unwrap_or_default())
    }

    fn data(&self, schema: &Schema) -> Result<Option<LoadedData>, DatabaseError> {
        self.claim(|claims, open| claims.share(schema, open))?;
        ownership::noted(&mut self.control().map_err(database_error)?, schema)
    }

    fn note_data(&self, schema: &Schema, data: &LoadedData) -> Result<(), DatabaseError> {
        ownership::note(&mut self.control().map_err(database_error)?, schema, data)
    }

    fn cancel_statements(&self) {
        self.connections.cancel_all();
    }

    /// Of clients that share connections there may be any number.
    fn sessions_free(&self) -> Result<Option<usize>, DatabaseError> {
        if self.settings().governor().is_some_and(|governor| governor.mode.pool) {
            return Ok(None);
        }
        location::sessions_free(&mut self.control().map_err(database_error)?, &self.url)
    }

    fn run_script(&self, schema: &Schema, sql: &str) -> Result<(), DatabaseError> {
        let mut connection = self.control().map_err(database_error)?;
        connection
            .run(&format!("SET search_path = {}, public", schema_sql::quoted_name(schema)))
            .map_err(database_error)?;
        connection.run(sql).map_err(|error| {
            let error = hidden_table::explain(&mut connection, error);
            crate::session::query_failure(sql, error)
        })
    }

    fn activity(&self) -> Result<Option<Box<dyn ActivityWatch>>, DatabaseError> {
        let watch = |url| past_conflicts(|| Watch::new(Asker::new(Connection::open(url).map_err(database_error)?)));
        let primary = watch(&self.url)?;
        Ok(Some(match self.standby_url() {
            None => Box::new(primary),
            Some(standby) => Box::new(BothWatched { primary, standby: watch(&standby)? }),
        }))
    }

    fn set_option(&self, name: &str, value: &str) -> Result<OptionChange, DatabaseError> {
        let failed = |error: crate::server::ServerError| DatabaseError::Failed(error.to_string());
        let change = match &self.server {
            Server::Private(server) => {
                let mut server = server.write();
                let mut changed = server.settings().clone();
                changed.set(name, value).map_err(failed)?;
                if let Some(conflict) = changed.conflict() {
                    return Err(DatabaseError::Failed(conflict));
                }
                // Loading connections would not survive a restart.
                self.loaders.lock().clear();
                let applied = server.apply(changed).map_err(failed)?;
                let mut degrees = self.degrees.lock();
                *degrees = QueryDegrees::of(server.settings(), degrees.take());
                let mut classes = self.cache_classes.lock();
                *classes = CacheClasses::of(&server, classes.take());
                match applied {
                    Applied::NeedsNewServer => OptionChange::NeedsReopening,
                    Applied::Restarted => {
                        // The governor has lost its server.
                        *self.governor.lock() = None;
                        OptionChange::Applied
                    }
                    _ => OptionChange::Applied,
                }
            }
            Server::Given { settings, .. } => {
                let mut settings = settings.write();
                let mut changed = settings.clone();
                changed.set(name, value).map_err(failed)?;
                if !is_of_sessions(name) {
                    return Err(DatabaseError::Failed(format!(
                        "option `{name}` is of the whole server, which is not ours; set it there, or use `--target postgres:`"
                    )));
                }
                *settings = changed;
                OptionChange::Applied
            }
        };
        self.govern().map_err(|error| DatabaseError::Failed(error.to_string()))?;
        Ok(change)
    }
}

/// Refuses a schema whose tables are missing.
fn check_tables(connection: &mut Connection, schema: &Schema) -> Result<(), DatabaseError> {
    if schema.tables.is_empty() { Ok(()) } else { ownership::check_present(connection, schema) }
}

/// Whether an option concerns only our sessions, or the processes that serve them.
fn is_of_sessions(name: &str) -> bool {
    name == "cpu_policy" || SERVER_OPTIONS.iter().any(|option| option.name == name && option.for_any_server)
}
