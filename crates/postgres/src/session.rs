//! One client's session: statements prepared once, one send and one receive for each call.

mod backend_share;
mod failure;
mod rows;
mod statement_map;

use std::sync::Arc;
use std::time::Instant;

use plimsoll_pg::connection::{Connection, Prepared, TransactionState, WireError};
use plimsoll_policy::{CpuScheduler, Priority};
use plimsoll_workload::database::{DatabaseError, QueryAnswer, QueryPlan, Session, SessionUsage};
use plimsoll_workload::statement::{Rows, Statement, Value};

use crate::arrow_rows;
use crate::cache_classes::{BackendClass, CacheClasses, ClassedQuery};
use crate::degrees::{self, QueryDegrees};
use crate::failure::database_error;
use crate::governor::{CLASSES, GovernorMode, class_in_messages, class_of, name_of_class, tagged};
use crate::server::ServerSettings;
use crate::{hidden_table, plan};
use backend_share::BackendShare;
use statement_map::StatementMap;

pub use backend_share::Warnings;
pub(crate) use failure::of_query as query_failure;

/// The settings of sessions.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The isolation level of every transaction, as in SQL: `read committed`.
    pub isolation: String,
    /// Decides the CPU share of the server's process by the priority of its work.
    pub cpu_scheduler: &'static dyn CpuScheduler,
    /// Settings of the server for each session: name and value.
    pub settings: Vec<(String, String)>,
    /// Whether each transaction names its class, for a governor between us and the server.
    pub tells_class: bool,
    /// Whether the application name is that of the class, for a governor beside the server.
    pub names_class: bool,
    /// Whether a server connection serves many clients, transaction by transaction, so that no process is this session's.
    pub is_pooled: bool,
    /// Whether a pooler has run the first statements of the session already, and the session must set nothing.
    pub is_opened_by_pooler: bool,
    /// Which state of the data queries read: `now`, `as replayed`.
    pub snapshot: &'static str,
    /// Decides the degree of parallelism of each query; `None` if the server does.
    pub degrees: Option<Arc<QueryDegrees>>,
    /// Decides which part of the cache the server's process may fill; `None` for all that the server may fill.
    pub cache_classes: Option<Arc<CacheClasses>>,
}

impl From<&ServerSettings> for SessionOptions {
    fn from(settings: &ServerSettings) -> Self {
        let mode = settings.governor().map(|governor| governor.mode);
        SessionOptions {
            isolation: settings.isolation().sql().to_owned(),
            cpu_scheduler: settings.cpu_policy(),
            settings: settings.session_settings(),
            tells_class: mode.is_some_and(GovernorMode::reads_comments),
            names_class: mode.is_some_and(|mode| mode.beside),
            is_pooled: mode.is_some_and(|mode| mode.pool),
            is_opened_by_pooler: mode.is_some_and(|mode| mode.peer),
            snapshot: "now",
            degrees: None,
            cache_classes: None,
        }
    }
}

/// A session of a PostgreSQL server.
#[derive(Debug)]
pub struct PostgresSession {
    connection: Connection,
    statements: StatementMap<Prepared>,
    /// Statements that are transactions of their own and name their class, by class.
    of_class: [StatementMap<Prepared>; CLASSES.len()],
    /// The statement that begins a transaction, by class.
    begin: [Prepared; CLASSES.len()],
    /// The first statements of the session.
    opening: String,
    /// [`SessionOptions::is_opened_by_pooler`].
    is_opened_by_pooler: bool,
    /// The class of the transactions that begin from now on; `None` if no governor reads it.
    class: Option<usize>,
    /// The class for the application name from the next transaction on; `None` if it need not change.
    name_due: Option<usize>,
    /// The class in the application name; `None` if no governor reads it.
    named: Option<usize>,
    commit: Prepared,
    rollback: Prepared,
    is_open: bool,
    share: BackendShare,
    cache: Option<BackendClass>,
    snapshot: &'static str,
    degrees: Option<Arc<QueryDegrees>>,
    /// The degree that the session is set to; `None` if that is not known.
    degree: Option<u32>,
    /// Receives the results of statements that nothing reads.
    nothing: Rows,
}

impl PostgresSession {
    /// Turns a connection into a session, which looks for tables in `schema` first, then in `public`.
    pub fn new(
        mut connection: Connection,
        schema: Option<&str>,
        options: &SessionOptions,
        warnings: &Warnings,
    ) -> Result<Self, DatabaseError> {
        let opening = opening(schema, options);
        if !options.is_opened_by_pooler {
            connection.run(&opening).map_err(|error| failure::of_setting(error, options))?;
        }
        let class = options.tells_class.then(|| class_of(Priority::default()));
        let OwnStatements { begin, commit, rollback } = OwnStatements::prepare(&mut connection, options.tells_class)?;
        let named = options.names_class.then(|| class_of(Priority::default()));
        if let Some(class) = named {
            connection.run(&naming(class)).map_err(database_error)?;
        }
        let process = connection.server_process().filter(|_| !options.is_pooled);
        let share = BackendShare::new(options.cpu_scheduler, process, warnings.clone());
        let cache = options.cache_classes.as_ref().map(|classes| BackendClass::new(classes, process));
        Ok(PostgresSession {
            connection,
            statements: StatementMap::default(),
            of_class: Default::default(),
            begin,
            opening,
            is_opened_by_pooler: options.is_opened_by_pooler,
            class,
            name_due: None,
            named,
            commit,
            rollback,
            is_open: false,
            share,
            cache,
            snapshot: options.snapshot,
            degrees: options.degrees.clone(),
            degree: None,
            nothing: Rows::new(),
        })
    }

    /// Forgets what the server has forgotten, and prepares what every session needs.
    fn begin_anew(&mut self) -> Result<(), DatabaseError> {
        if self.is_opened_by_pooler {
            let why = "pgbouncer shares connections, so no client can reset its session; use `governor=pool`";
            return Err(DatabaseError::Unsupported(why.to_owned()));
        }
        self.connection.run("DISCARD ALL").map_err(database_error)?;
        self.connection.run(&self.opening).map_err(database_error)?;
        self.statements = StatementMap::default();
        self.of_class = Default::default();
        (self.degree, self.is_open) = (None, false);
        let OwnStatements { begin, commit, rollback } =
            OwnStatements::prepare(&mut self.connection, self.class.is_some())?;
        (self.begin, self.commit, self.rollback) = (begin, commit, rollback);
        if let Some(class) = self.named {
            self.connection.run(&naming(class)).map_err(database_error)?;
        }
        Ok(())
    }

    /// Whether a standby's replay has ended the connection.
    pub(crate) fn was_ended_by_replay(&self) -> bool {
        self.connection.lost().is_some_and(|why| why.contains("FATAL 40001: "))
    }

    /// Whether a transaction is open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Rolls back the rest of a failed transaction, so that the session remains usable.
    fn recover(&mut self) {
        self.is_open = false;
        // A setting is rolled back with the transaction that it was made in.
        self.degree = None;
        if self.connection.lost().is_none() && self.connection.transaction_state() != TransactionState::Idle {
            // If this fails, the connection is lost, and the next call reports it.
            let _ = rows::run(&mut self.connection, &self.rollback, &[], &mut self.nothing);
        }
    }

    fn ended(&mut self) -> Result<(), DatabaseError> {
        if std::mem::replace(&mut self.is_open, false) {
            return Ok(());
        }
        Err(DatabaseError::Failed("no transaction is open; begin one first".to_owned()))
    }

    /// Sets the application name to the class of the transaction that is about to begin, if it differs.
    fn name_class(&mut self) -> Result<(), WireError> {
        let Some(class) = self.name_due.take_if(|_| !self.is_open) else { return Ok(()) };
        self.connection.run(&naming(class))?;
        self.named = Some(class);
        Ok(())
    }

    /// Lets that many processes work on the queries that follow, unless it is set already.
    fn set_degree(&mut self, degree: u32) -> Result<(), DatabaseError> {
        if self.degree == Some(degree) {
            return Ok(());
        }
        let sql = tagged(&degrees::setting(degree), self.class).into_owned();
        self.connection.run(&sql).map_err(|error| {
            self.recover();
            self.cancelled(&error).unwrap_or_else(|| failure::of_command(&sql, error))
        })?;
        self.degree = Some(degree);
        Ok(())
    }

    /// Moves the server's process to the cache class of the query that follows.
    fn enter_cache_class(&mut self, sql: &str) -> Option<ClassedQuery> {
        let entered = self.cache.as_mut()?.query(&mut self.connection, sql, self.degree, self.is_open);
        entered.unwrap_or_else(|_| {
            // The query meets the same error, or is a statement that has no plan.
            self.recover();
            None
        })
    }

    /// A statement that a governor beside the server has cancelled counts as preempted: no other process cancels there.
    fn cancelled(&self, error: &WireError) -> Option<DatabaseError> {
        let is_cancel = error.server().is_some_and(failure::is_cancel);
        (self.named.is_some() && is_cancel).then_some(DatabaseError::Preempted)
    }

    fn try_execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), WireError> {
        self.name_class()?;
        self.cache.iter_mut().for_each(BackendClass::statement);
        // Within a transaction its first statement has named the class.
        let class = self.class.filter(|_| !self.is_open);
        let (known, prefix) = match class {
            None => (&mut self.statements, "s"),
            Some(class) => (&mut self.of_class[class], CLASSES[class]),
        };
        let prepared = known.get_or_make(statement.sql, |number| {
            self.connection.prepare(&format!("{prefix}{number}"), &tagged(statement.sql, class))
        })?;
        rows::run(&mut self.connection, prepared, parameters, rows)
    }
}

/// The statements that control transactions.
struct OwnStatements {
    begin: [Prepared; CLASSES.len()],
    commit: Prepared,
    rollback: Prepared,
}

impl OwnStatements {
    fn prepare(connection: &mut Connection, tells_class: bool) -> Result<Self, DatabaseError> {
        let mut begins = |class: usize| {
            let told = tells_class.then_some(class);
            connection.prepare(&format!("begin_{}", CLASSES[class]), &tagged("BEGIN", told)).map_err(database_error)
        };
        let begin = [begins(0)?, begins(1)?];
        let mut prepare = |name: &str, sql: &str| connection.prepare(name, sql).map_err(database_error);
        Ok(OwnStatements { begin, commit: prepare("commit", "COMMIT")?, rollback: prepare("rollback", "ROLLBACK")? })
    }
}

fn naming(class: usize) -> String {
    format!("SET application_name = '{}'", name_of_class(class))
}

/// The first statements of a session: the search path, isolation, and the settings that were asked for.
pub(crate) fn opening(schema: Option<&str>, options: &SessionOptions) -> String {
    use postgres_protocol::escape::{escape_identifier, escape_literal};
    let mut sql = format!("SET default_transaction_isolation = {};", escape_literal(&options.isolation));
    if let Some(schema) = schema {
        sql += &format!("SET search_path = {}, public;", escape_identifier(schema));
    }
    for (name, value) in &options.settings {
        sql += &format!("SET {} = {};", escape_identifier(name), escape_literal(value));
    }
    // After the settings: `dop` sets the number of workers, too.
    sql + &options.degrees.as_ref().map(|degrees| degrees.opening()).unwrap_or_default()
}

impl Session for PostgresSession {
    fn set_priority(&mut self, priority: Priority) {
        self.share.set(priority);
        self.class = self.class.map(|_| class_of(priority));
        self.name_due = self.named.map(|_| class_of(priority)).filter(|class| self.named != Some(*class));
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        if self.is_open {
            return Err(DatabaseError::Failed("a transaction is open already; commit or roll back first".to_owned()));
        }
        self.name_class().map_err(|error| failure::of_command("SET application_name", error))?;
        let begin = &self.begin[self.class.unwrap_or_default()];
        rows::run(&mut self.connection, begin, &[], &mut self.nothing)
            .map_err(|error| failure::of_command("BEGIN", error))?;
        self.is_open = true;
        Ok(())
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        self.try_execute(statement, parameters, rows).map_err(|error| {
            self.recover();
            let error = hidden_table::explain(&mut self.connection, error);
            self.cancelled(&error).unwrap_or_else(|| failure::of_statement(statement, parameters, error))
        })
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.ended()?;
        let committed = rows::run(&mut self.connection, &self.commit, &[], &mut self.nothing);
        committed.map_err(|error| {
            self.recover();
            failure::of_command("COMMIT", error)
        })
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.ended()?;
        self.degree = None;
        let rolled_back = rows::run(&mut self.connection, &self.rollback, &[], &mut self.nothing);
        rolled_back.map_err(|error| failure::of_command("ROLLBACK", error))
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.name_class().map_err(|error| failure::of_command("SET application_name", error))?;
        let run = self.degrees.as_ref().map(|degrees| degrees.begin(sql));
        run.as_ref().map_or(Ok(()), |run| self.set_degree(run.degree()))?;
        let _confined = self.enter_cache_class(sql);
        let began = Instant::now();
        let answered = arrow_rows::query(&mut self.connection, &tagged(sql, self.class));
        let batches = answered.map_err(|error| {
            self.recover();
            let error = hidden_table::explain(&mut self.connection, error);
            self.cancelled(&error).unwrap_or_else(|| failure::of_query(sql, error))
        })?;
        if let Some(run) = run {
            run.answered(began.elapsed());
        }
        Ok(QueryAnswer { batches, snapshot: self.snapshot.to_owned() })
    }

    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<bool, DatabaseError> {
        self.name_class().map_err(|error| failure::of_command("SET application_name", error))?;
        self.cache.iter_mut().for_each(BackendClass::statement);
        // Within a transaction its first statement has named the class.
        let request = class_in_messages(request, self.class.filter(|_| !self.is_open));
        self.connection.relay(&request, on).map_err(database_error)?;
        self.is_open = self.connection.transaction_state() != TransactionState::Idle;
        Ok(self.is_open)
    }

    fn reset(&mut self) -> Result<(), DatabaseError> {
        self.begin_anew()
    }

    fn plan(&mut self, sql: &str) -> Result<Option<QueryPlan>, DatabaseError> {
        if let Some(degree) = self.degrees.as_ref().map(|degrees| degrees.next(sql)) {
            self.set_degree(degree)?;
        }
        let explain = format!("EXPLAIN (FORMAT JSON, COSTS OFF) {sql}");
        // The text comes from the caller: a statement behind a semicolon must not run.
        let text = self.connection.text_of_one(&explain).map_err(|error| {
            self.recover();
            failure::of_query(&explain, error)
        })?;
        plan::read(&text.unwrap_or_default()).map(Some).map_err(DatabaseError::Failed)
    }

    fn server_process(&self) -> Option<i32> {
        self.share.process()
    }

    /// The server does not report to a session how long its statements waited; samples of its process's activity do.
    fn usage(&self) -> SessionUsage {
        SessionUsage::default()
    }
}
