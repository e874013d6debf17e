//! The connection over which an observation queries a server.

pub(crate) mod rights;
mod rows;
mod sql;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use plimsoll_machine::MachineFacts;
use plimsoll_machine::cpu_time::{ThreadTimes, process_times};
use plimsoll_pg::connection::{Connection, Prepared, SUPPORTED, WireError};
use plimsoll_pg::url::ServerUrl;

use crate::replication::{SenderRow, StandbyRow};
use crate::results::ServerFacts;
use crate::snapshot::{CounterKey, Counters, Holder, LockRow, Snapshot, StatementCounter};
use crate::windows::{Backend, ControlStatements};
use rights::{MissingRight, NoStatements, Visibility, untracked};
use rows::figure;

/// Our application name in `pg_stat_activity`.
pub(crate) const APPLICATION_NAME: &str = "plimsoll observe";

/// How long the server may take for an answer: it cancels statements after two seconds itself, unless it is too busy
/// for that.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most bytes of a statement's text that are read.
const TEXT_BYTES_MAX: i64 = 8_192;

/// The texts of statements that began this long before the last look are requested again: the start times of two
/// statements differ, and each session is read at a moment of its own.
const TEXT_MARGIN_US: i64 = 20_000;

/// An observation cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The server cannot be reached, or refuses our login.
    #[error("{0}")]
    Connect(WireError),
    /// The server refuses the queries that every observation needs.
    #[error(
        "PostgreSQL {version} refuses to show its sessions: {error}; versions {} to {} are known to work",
        SUPPORTED.start(),
        SUPPORTED.end()
    )]
    Look {
        /// The server's version.
        version: String,
        /// The error.
        error: WireError,
    },
}

/// A server, queried over one connection that changes nothing.
#[derive(Debug)]
pub struct Server {
    connection: Connection,
    look: Prepared,
    locks: Prepared,
    holders: Prepared,
    sight: Visibility,
    database: String,
    is_standby: bool,
    /// The size in bytes from which on the server may have cut a text.
    text_bytes: usize,
    /// The schema of `pg_stat_statements`, while it answers.
    statements_schema: Option<String>,
    users: HashMap<String, String>,
    databases: HashMap<String, String>,
    /// Users in whose sessions the server does not record what they do.
    untracked: BTreeSet<String>,
    /// Queries that the server refused, by their subject.
    refused: BTreeMap<&'static str, String>,
    last_look_us: i64,
}

impl Server {
    /// Connects, and determines which data are visible.
    pub fn open(url: &ServerUrl) -> Result<Server, ObserveError> {
        let connection = connect(url).map_err(ObserveError::Connect)?;
        let version = connection.parameter("server_version").unwrap_or_default().to_owned();
        Server::on(connection).map_err(|error| ObserveError::Look { version, error })
    }

    fn on(mut connection: Connection) -> Result<Server, WireError> {
        let major_version = connection.server_version_num() / 10_000;
        let mut rights: Vec<Option<String>> = Vec::new();
        connection.text_rows(sql::RIGHTS, &mut |row| {
            rights = row.iter().map(|value| value.map(str::to_owned)).collect();
        })?;
        let word = |column: usize| rights.get(column).cloned().flatten().unwrap_or_default();
        let statements = statements_schema(&mut connection);
        let no_times = match connection.server_process() {
            Some(process) => process_times(process)
                .is_none()
                .then(|| "the kernel does not keep the times of processes (schedstat)".to_owned()),
            None => Some("the server's processes are not visible on this machine".to_owned()),
        };
        let sight = Visibility {
            major_version,
            role: word(0),
            sees_all: word(2) == "t",
            tracks_activities: word(3) == "on",
            compute_query_id: word(4),
            no_statements: statements.as_ref().err().cloned(),
            no_times,
        };
        Ok(Server {
            look: connection.prepare_text("look", &sql::look(major_version))?,
            locks: connection.prepare_text("locks", &sql::locks(major_version))?,
            holders: connection.prepare_text("holders", &sql::holders(major_version))?,
            connection,
            sight,
            database: word(1),
            is_standby: word(6) == "t",
            text_bytes: word(5).parse().unwrap_or(1024),
            statements_schema: statements.ok(),
            users: HashMap::new(),
            databases: HashMap::new(),
            untracked: BTreeSet::new(),
            refused: BTreeMap::new(),
            last_look_us: 0,
        })
    }

    /// The server's version in its own words.
    pub fn version(&self) -> String {
        self.connection.parameter("server_version").unwrap_or_default().to_owned()
    }

    /// The server's facts, for that URL.
    pub fn facts(&self, url: &ServerUrl) -> ServerFacts {
        ServerFacts {
            url: url.to_string(),
            version: self.version(),
            role: self.sight.role.clone(),
            database: self.database.clone(),
            on_this_machine: self.is_here(),
            standby: self.is_standby,
            cores: self.is_here().then(|| MachineFacts::read().cores_usable),
        }
    }

    /// Whether its processes are visible on this machine.
    pub fn is_here(&self) -> bool {
        self.sight.no_times.is_none()
    }

    /// The data that are not visible.
    pub fn missing(&self) -> Vec<MissingRight> {
        let refused = self.refused.iter().map(|(what, why)| MissingRight {
            what: (*what).to_owned(),
            why: why.clone(),
            works: "everything else".to_owned(),
            remedy: None,
        });
        // If nothing is recorded for our own session either, that is said once.
        let untracked = self.untracked.iter().filter(|_| self.sight.tracks_activities).map(|user| untracked(user));
        self.sight.missing().into_iter().chain(untracked).chain(refused).collect()
    }

    /// Processor times of the process that serves us; `None` if they are not visible.
    pub(crate) fn own_times(&self) -> Option<ThreadTimes> {
        process_times(self.connection.server_process()?)
    }

    /// Looks at the sessions.
    pub fn look(&mut self, at: Duration) -> Result<Snapshot, WireError> {
        let since = (self.last_look_us - TEXT_MARGIN_US).to_string();
        let parameters = [since.as_str(), &TEXT_BYTES_MAX.to_string()];
        let mut look = Snapshot { at, ..Snapshot::default() };
        let mut untracked = BTreeSet::new();
        self.connection.prepared_text_rows(&self.look, &parameters, &mut |row| {
            if let Some(user) = rows::untracked_user(row).filter(|user| !untracked.contains(*user)) {
                untracked.insert(user.to_owned());
            }
            if let Some((server_us, session)) = rows::session(row, self.text_bytes) {
                look.server_us = look.server_us.max(server_us);
                look.sessions.extend(session);
            }
        })?;
        for user in untracked {
            let name = self.name(sql::USER, &user)?;
            self.untracked.insert(name);
        }
        for session in &mut look.sessions {
            if session.is_of_client {
                session.login.user = self.name(sql::USER, &session.login.user)?;
            }
            session.login.database = self.name(sql::DATABASE, &session.login.database)?;
            session.times = if self.is_here() { process_times(session.process) } else { None };
        }
        // Without a session the server's clock is unknown, but then no statement has begun that matters.
        self.last_look_us = self.last_look_us.max(look.server_us);
        Ok(look)
    }

    /// Adds the locks of objects for which a session waits, and the holders that are not among the look's sessions.
    pub fn locks(&mut self, look: &mut Snapshot) -> Result<(), WireError> {
        let mut found: Vec<LockRow> = Vec::new();
        self.connection.prepared_text_rows(&self.locks, &[], &mut |row| found.extend(rows::lock(row)))?;
        let seen: BTreeSet<i32> = look.sessions.iter().map(|session| session.process).collect();
        let others: BTreeSet<i32> = found.iter().map(|lock| lock.process).filter(|it| *it != 0).collect();
        let others: Vec<i32> = others.difference(&seen).copied().collect();
        look.locks = Some(found);
        if !others.is_empty() {
            look.holders = self.holders(&others)?;
        }
        Ok(())
    }

    /// The sessions of these processes, whatever they do. Those that have ended are left out.
    fn holders(&mut self, processes: &[i32]) -> Result<Vec<Holder>, WireError> {
        let numbers: Vec<String> = processes.iter().map(i32::to_string).collect();
        let parameters = [format!("{{{}}}", numbers.join(",")), TEXT_BYTES_MAX.to_string()];
        let mut found: Vec<Holder> = Vec::new();
        let text_bytes = self.text_bytes;
        self.connection.prepared_text_rows(&self.holders, &parameters.each_ref().map(String::as_str), &mut |row| {
            found.extend(rows::holder(row, text_bytes));
        })?;
        for holder in &mut found {
            if !holder.login.user.starts_with('(') {
                holder.login.user = self.name(sql::USER, &holder.login.user)?;
            }
            holder.login.database = self.name(sql::DATABASE, &holder.login.database)?;
        }
        Ok(found)
    }

    /// The name of the user or database with that number.
    fn name(&mut self, sql: &'static str, oid: &str) -> Result<String, WireError> {
        let known = if sql == sql::USER { &self.users } else { &self.databases };
        if let Some(name) = known.get(oid) {
            return Ok(name.clone());
        }
        let mut name = None;
        // The number comes from the server, but is verified before it becomes part of SQL.
        if let Ok(number) = oid.parse::<u32>() {
            let sql = sql.replace("$1", &number.to_string());
            name = self.connection.text(&sql)?;
        }
        let name = name.unwrap_or_else(|| if oid.is_empty() { "(none)".to_owned() } else { format!("number {oid}") });
        let known = if sql == sql::USER { &mut self.users } else { &mut self.databases };
        known.insert(oid.to_owned(), name.clone());
        Ok(name)
    }

    /// All counters of the server. A query that it refuses is not repeated.
    pub fn counters(&mut self, at: Duration) -> Result<Counters, WireError> {
        let mut counters = Counters { at, ..Counters::default() };
        self.ask("deadlocks and throughput by database", sql::DATABASES, |row| {
            counters.databases.extend(rows::database(row));
        })?;
        self.ask("checkpoints", sql::checkpoints(self.sight.major_version), |row| {
            (counters.checkpoints_timed, counters.checkpoints_requested) = (figure(row, 0), figure(row, 1));
            counters.checkpoint_write = rows::milliseconds(row, 2);
        })?;
        self.ask("vacuums", sql::VACUUMS, |row| counters.vacuums.extend(rows::vacuum(row)))?;
        self.ask("how many sessions cannot be seen", sql::UNSEEN, |row| {
            counters.unseen_sessions = figure(row, 0).unwrap_or(0);
        })?;
        counters.statements = self.statements()?;
        Ok(counters)
    }

    /// The counters of each statement; `None` if the server does not show them.
    pub(crate) fn statements(&mut self) -> Result<Option<BTreeMap<CounterKey, StatementCounter>>, WireError> {
        const WHAT: &str = "calls and latency of each statement";
        let Some(schema) = self.statements_schema.clone() else { return Ok(None) };
        let mut found = Vec::new();
        self.ask(WHAT, &sql::statements(&schema), |row| found.extend(rows::statement(row)))?;
        let mut statements = BTreeMap::new();
        for (user, database, query_id, counter) in found {
            let (user, database) = (self.name(sql::USER, &user)?, self.name(sql::DATABASE, &database)?);
            statements.insert(CounterKey { user, database, query_id }, counter);
        }
        Ok((!self.refused.contains_key(WHAT)).then_some(statements))
    }

    /// Every session of a client, with its time on a core where that is visible.
    pub(crate) fn backends(&mut self) -> Result<Vec<Backend>, WireError> {
        let mut found: Vec<Backend> = Vec::new();
        self.ask("every session, between windows", sql::BACKENDS, |row| found.extend(rows::backend(row)))?;
        let is_here = self.is_here();
        for backend in &mut found {
            backend.login.user = self.name(sql::USER, &backend.login.user)?;
            backend.login.database = self.name(sql::DATABASE, &backend.login.database)?;
            backend.run = is_here.then(|| process_times(backend.process).map(|times| times.run)).flatten();
        }
        Ok(found)
    }

    /// Statements that only control transactions and sessions. The server refuses to show them if any text is in an encoding that the
    /// database lacks; texts that were seen in sessions then have to do.
    pub(crate) fn control_statements(&mut self) -> Result<ControlStatements, WireError> {
        let mut control = ControlStatements::default();
        if let Some(schema) = self.statements_schema.clone() {
            self.connection.text_rows(&sql::control_statements(&schema), &mut |row| {
                if let Some((query_id, is_end)) = rows::control_statement(row) {
                    control.note(query_id, is_end);
                }
            })?;
        }
        Ok(control)
    }

    /// How far this server is as a standby; `None` on a primary.
    pub(crate) fn standby(&mut self) -> Result<Option<StandbyRow>, WireError> {
        if !self.is_standby {
            return Ok(None);
        }
        let (mut standby, mut conflicts) = (None, BTreeMap::new());
        self.ask("how far this standby is", sql::STANDBY, |row| standby = Some(rows::standby(row)))?;
        let sql = sql::conflicts(self.sight.major_version);
        self.ask("queries that were cancelled for replay", sql, |row| conflicts = rows::conflicts(row))?;
        Ok(standby.map(|standby| StandbyRow { conflicts, ..standby }))
    }

    /// The standbys that receive from this server.
    pub(crate) fn standbys(&mut self) -> Result<Vec<SenderRow>, WireError> {
        let mut found = Vec::new();
        self.ask("standbys", &sql::standbys(self.is_standby), |row| found.extend(rows::sender(row)))?;
        Ok(found)
    }

    /// The process that serves us, if it is visible.
    pub(crate) fn own_process(&self) -> Option<i32> {
        self.connection.server_process().filter(|_| self.is_here())
    }

    /// The texts of statements by the server's query ids.
    pub(crate) fn statement_texts(&mut self, query_ids: &[i64]) -> Result<BTreeMap<i64, Vec<u8>>, WireError> {
        let mut texts = BTreeMap::new();
        if let Some(sql) = self.question_for_texts(query_ids) {
            self.ask("texts of statements", &sql, |row| texts.extend(rows::text_of_statement(row)))?;
        }
        Ok(texts)
    }

    /// The same of statements without whose text nothing is missing. The server refuses to show any if one is in an encoding
    /// that the database lacks.
    pub(crate) fn more_statement_texts(&mut self, query_ids: &[i64]) -> Result<BTreeMap<i64, Vec<u8>>, WireError> {
        let mut texts = BTreeMap::new();
        if let Some(sql) = self.question_for_texts(query_ids) {
            self.connection.text_rows(&sql, &mut |row| texts.extend(rows::text_of_statement(row)))?;
        }
        Ok(texts)
    }

    fn question_for_texts(&self, query_ids: &[i64]) -> Option<String> {
        let schema = self.statements_schema.as_ref().filter(|_| !query_ids.is_empty())?;
        let numbers: Vec<String> = query_ids.iter().map(i64::to_string).collect();
        Some(sql::statement_texts(schema).replace("$1", &format!("'{{{}}}'", numbers.join(","))))
    }

    /// Runs a query that the server may refuse. Only a lost connection is an error.
    fn ask(&mut self, what: &'static str, sql: &str, mut each: impl FnMut(&[Option<&str>])) -> Result<(), WireError> {
        if self.refused.contains_key(what) {
            return Ok(());
        }
        match self.connection.text_rows(sql, &mut each) {
            Err(WireError::Lost(why)) => Err(WireError::Lost(why)),
            Err(error) => {
                self.refused.insert(what, error.to_string());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// A session that changes nothing and waits for nothing.
fn connect(url: &ServerUrl) -> Result<Connection, WireError> {
    let url = ServerUrl { application_name: APPLICATION_NAME.to_owned(), ..url.clone() };
    let mut connection = Connection::open_isolated(&url)?;
    connection.set_timeout(Some(PATIENCE))?;
    connection.run(sql::OPENING)?;
    if connection.server_version_num() >= 140_000 {
        connection.run(sql::OPENING_SINCE_14)?;
    }
    Ok(connection)
}

/// The schema of `pg_stat_statements`, or why it does not answer.
fn statements_schema(connection: &mut Connection) -> Result<String, NoStatements> {
    let failed = |error: WireError| NoStatements::Failed(error.to_string());
    let Some(schema) = connection.text(sql::STATEMENTS_FUNCTION).map_err(failed)? else {
        let is_loaded = connection.text(sql::STATEMENTS_SETTING).map_err(failed)?.is_some();
        return Err(NoStatements::NotCreated { is_loaded });
    };
    let trial = format!("select from ({}) as trial limit 0", sql::statements(&schema));
    let Err(error) = connection.run(&trial) else { return Ok(schema) };
    Err(match error.server().map_or("", |error| error.code.as_str()) {
        "42501" => NoStatements::NotGranted { schema, error: error.to_string() },
        // It was created, but the server was started without its library.
        "55000" => NoStatements::NotLoaded(error.to_string()),
        _ => failed(error),
    })
}
