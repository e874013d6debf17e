//! The database under test, as a workload sees it.

mod error;
mod network_bytes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use plimsoll_policy::Priority;

use crate::activity::ActivityWatch;
use crate::benchmark::Writes;
use crate::freshness::CopyWatch;
use crate::parallelism::Parallelism;
use crate::schema::{DeclaredTable, Schema, TableId};
use crate::statement::{Rows, Statement, Value};
pub(crate) use error::PREEMPTED;
pub use error::{DatabaseError, Refusal};
pub use network_bytes::NetworkBytes;

/// How a client introduces itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Login<'a> {
    /// The user as which it logs in; `None` for the user with which the database was opened.
    pub user: Option<&'a str>,
    /// Its application name; `None` for that of this program.
    pub application: Option<&'a str>,
}

/// A database under test.
pub trait Database: Send + Sync {
    /// Whether statements run as their SQL text, which may also make tables ([`run_script`](Database::run_script)). Otherwise they
    /// run as row operations on tables that are declared.
    fn runs_sql(&self) -> bool {
        false
    }

    /// Whether the database is a server of its user's, in which only what they have permitted may be written to tables that
    /// are not ours.
    fn is_of_user(&self) -> bool {
        false
    }

    /// Declares the tables of a schema that lists none itself, because they were read from a file: the schema has these
    /// tables from now on.
    fn declare(&self, schema: &Schema, tables: &[DeclaredTable]) -> Result<(), DatabaseError> {
        let (_, _) = (schema, tables);
        Err(DatabaseError::Unsupported(
            "this target keeps no tables of a user's own; use `--target postgres:`".to_owned(),
        ))
    }

    /// Creates the tables of a schema, empty.
    fn create(&self, schema: &Schema) -> Result<(), DatabaseError>;

    /// Drops the tables of a schema with their data, while no client is connected. Not an error if there are none.
    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError>;

    /// Adds rows to a table while no client is connected. May be called from several threads at once.
    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError>;

    /// Ends loading: indexes, statistics and column copies are complete when this returns.
    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError>;

    /// Opens a client's connection to the tables of a schema.
    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError>;

    /// The same for a client that introduces itself. A user has the rights for which the database was opened, and a server
    /// that we started creates it.
    fn session_as(&self, schema: &Schema, login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        match login {
            Login { user: None, application: None } => self.session(schema),
            Login { user: Some(user), .. } => {
                let why = format!("this target has no users, so no client can log in as `{user}`");
                Err(DatabaseError::Unsupported(why))
            }
            Login { application: Some(name), .. } => Err(DatabaseError::Unsupported(format!(
                "this target knows no applications, so none is called `{name}`"
            ))),
        }
    }

    /// Opens the connection of a client that only runs queries ([`Session::query`]). A target with a second copy for
    /// queries opens it there.
    fn query_session(&self, schema: &Schema, login: Login<'_>) -> Result<Box<dyn Session>, DatabaseError> {
        self.session_as(schema, login)
    }

    /// Makes every change committed so far visible to [`Session::query`], also of a
    /// [`query_session`](Database::query_session). On a server, queries always see them; on a standby, they do once it
    /// has replayed them.
    fn refresh(&self, schema: &Schema) -> Result<(), DatabaseError>;

    /// The kernel's ids of the threads that run queries on behalf of sessions, of this process or of its workers; none for
    /// a server.
    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }

    /// The processes and files on this machine that it uses, so that they can be limited and watched. By default, a
    /// database runs in this process and keeps nothing on disk.
    fn footprint(&self) -> Footprint {
        Footprint { processes: vec![std::process::id().cast_signed()], folder: None }
    }

    /// The process on this machine through which clients connect to the server, if one lies between them. It is not
    /// part of the footprint, because it is limited no more than clients are; but its CPU time is reported.
    fn proxy(&self) -> Option<i32> {
        None
    }

    /// That process's counts of each class of transactions since it began; empty if there is no such process.
    fn proxy_counts(&self) -> Result<Vec<ProxyCounts>, DatabaseError> {
        Ok(Vec::new())
    }

    /// The data that the tables of a schema hold, as recorded by [`note_data`](Database::note_data), perhaps by another
    /// process. `None` if nothing is recorded, or if data do not outlive the database's value.
    fn data(&self, schema: &Schema) -> Result<Option<LoadedData>, DatabaseError> {
        let _ = schema;
        Ok(None)
    }

    /// Records which data the tables of a schema hold, while no client is connected.
    fn note_data(&self, schema: &Schema, data: &LoadedData) -> Result<(), DatabaseError> {
        let (_, _) = (schema, data);
        Ok(())
    }

    /// Runs SQL that makes or fills tables beside those of a schema, while no client is connected. Several statements may be
    /// given, with semicolons between them.
    fn run_script(&self, schema: &Schema, sql: &str) -> Result<(), DatabaseError> {
        let (_, _) = (schema, sql);
        Err(DatabaseError::Unsupported("this target makes no tables by SQL; use `--target postgres:`".to_owned()))
    }

    /// Opens a watch on the activity of the server's processes; `None` if the database is in this process, whose
    /// threads show it.
    fn activity(&self) -> Result<Option<Box<dyn ActivityWatch>>, DatabaseError> {
        Ok(None)
    }

    /// Opens a watch on the second copy that queries read; `None` if there is none, or queries read what transactions write.
    fn freshness(&self) -> Result<Option<Box<dyn CopyWatch>>, DatabaseError> {
        Ok(None)
    }

    /// What the database has learned about degrees of parallelism; `None` if it does not choose them itself.
    fn parallelism(&self) -> Option<Parallelism> {
        None
    }

    /// The kind of the index on the primary key of each table of a schema that is kept as rows, by the table's name; empty
    /// if the database has one kind only.
    fn indexes(&self, schema: &Schema) -> BTreeMap<String, &'static str> {
        let _ = schema;
        BTreeMap::new()
    }

    /// How often work changed its cache class so far; `None` if the database has no cache classes.
    fn cache_switches(&self) -> Option<CacheSwitches> {
        None
    }

    /// What queries have read so far of columns that are kept in files; `None` if none are. The call begins a new
    /// [peak](ColumnReads::held_bytes_peak).
    fn column_reads(&self) -> Option<ColumnReads> {
        None
    }

    /// What could not be obtained or observed so far, with remedies; empty if all is well. For readers of the figures
    /// of runs.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Asks the server to cancel every statement that is under way in a session of this value, from any thread. The
    /// statements fail. Does nothing where statements run in this process.
    fn cancel_statements(&self) {}

    /// How many more clients can connect; `None` if that is not known.
    fn sessions_free(&self) -> Result<Option<usize>, DatabaseError> {
        Ok(None)
    }

    /// Changes an option of the open database, while no client is connected.
    ///
    /// Name and value are known to be valid for the target. Options take effect when a database is opened unless an
    /// implementation says otherwise here.
    fn set_option(&self, name: &str, value: &str) -> Result<OptionChange, DatabaseError> {
        let _ = (name, value);
        Ok(OptionChange::NeedsReopening)
    }
}

/// The counts of a governor between clients and a server for one of its classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyCounts {
    /// The class, by its name in the governor's settings.
    pub class: String,
    /// Transactions that ended.
    pub transactions: u64,
    /// The time that they took, including the wait for admission.
    pub transaction_time: Duration,
    /// The time that transactions waited for admission.
    pub admission_wait: Duration,
    /// Transactions rolled back for more important ones, those that were replayed included.
    pub rolled_back: u64,
}

/// How often a thread or a server's process was moved to another part of the cache because its next work is of another class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheSwitches {
    /// How often.
    pub count: u64,
    /// How long that took in all.
    pub time: Duration,
    /// Whether classes are bound to parts of the cache. Otherwise moves change nothing: the machine cannot divide its cache.
    pub is_bound: bool,
}

/// What queries have read of columns that are kept in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnReads {
    /// Bytes that were read from the files.
    pub read_bytes: u64,
    /// Bytes that queries needed and that were in memory already. `None` if nothing may stay in memory.
    pub found_bytes: Option<u64>,
    /// The most bytes of the files that were in memory at a time since the last call.
    pub held_bytes_peak: u64,
}

/// Which data tables hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedData {
    /// [`Benchmark::data`](crate::benchmark::Benchmark::data) of the loaded data.
    pub data: String,
    /// Which writes clients may have made since.
    pub written: Writes,
}

/// Where data will lie, and how much fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Where, for people: `memory`, `disk (/var/tmp)`.
    pub place: String,
    /// How much is free, bytes.
    pub free_bytes: u64,
}

/// The processes and files of this machine that a database uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The processes that do its work, including those that they start. None for a server on another machine.
    pub processes: Vec<i32>,
    /// The folder of its files; `None` if it has none here.
    pub folder: Option<PathBuf>,
}

/// The outcome of a request to change an option of an open database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionChange {
    /// Everything that begins from now on has the new value.
    Applied,
    /// Nothing has changed: the database has to be reopened with the new value.
    NeedsReopening,
}

/// One client's connection. A statement outside `begin` … `commit` is a transaction of its own.
pub trait Session: Send {
    /// Sets the priority of the transactions that begin from now on; ignored where the target has no priorities.
    fn set_priority(&mut self, priority: Priority) {
        let _ = priority;
    }

    /// Begins a transaction: serializable unless an option of the target says otherwise.
    fn begin(&mut self) -> Result<(), DatabaseError>;

    /// Runs one statement; its rows replace what `rows` held.
    ///
    /// After any error the transaction is over and rolled back.
    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError>;

    /// Commits. After an error the transaction is rolled back.
    fn commit(&mut self) -> Result<(), DatabaseError>;

    /// Rolls back.
    fn rollback(&mut self) -> Result<(), DatabaseError>;

    /// Runs a query, outside any transaction, and returns all of its rows.
    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError>;

    /// Sends messages of PostgreSQL's protocol as a client has sent them, whole and up to a `Sync` or a `Query`, and passes on
    /// each message of the answer by its tag and body; errors of statements are such messages. Returns whether a
    /// transaction is open afterwards.
    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<bool, DatabaseError> {
        let (_, _) = (request, on);
        Err(DatabaseError::Unsupported(NO_PROTOCOL.to_owned()))
    }

    /// Brings the session to the state that it had when it was opened: nothing that [`exchange`](Session::exchange) has
    /// prepared or set is left. No transaction is open.
    fn reset(&mut self) -> Result<(), DatabaseError> {
        Err(DatabaseError::Unsupported(NO_PROTOCOL.to_owned()))
    }

    /// How the database would run a query now; `None` if it does not report plans.
    fn plan(&mut self, sql: &str) -> Result<Option<QueryPlan>, DatabaseError> {
        let _ = sql;
        Ok(None)
    }

    /// The id of the server's process that serves this session, if that is a process of this machine of its own.
    fn server_process(&self) -> Option<i32> {
        None
    }

    /// The time that this session has spent waiting so far.
    fn usage(&self) -> SessionUsage {
        SessionUsage::default()
    }

    /// Adds every lock wait that has ended since the last call. Adds nothing if the target does not report single
    /// waits.
    fn take_lock_waits(&mut self, waits: &mut Vec<LockWait>) {
        let _ = waits;
    }
}

/// Why recorded messages cannot be sent.
pub const NO_PROTOCOL: &str = "recorded traffic is sent in PostgreSQL's protocol, which this target does not speak; use `--target postgres:` \
     or `--target postgres://user@host/database`";

/// One lock request that had to wait (MW 3.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWait {
    /// QueueTime: from the request until it was granted or refused.
    pub queue_time: Duration,
    /// WaitExcess: the time spent on the transactions that held the lock at the request, until it was granted to the
    /// first of its waiters. All of the queue time if the request was refused before. The rest of the queue time is
    /// WaitRemainder, the time spent on other waiters.
    pub excess: Duration,
    /// Whether a transaction that held the lock was preempted, and rolled back, while it waited.
    pub preempted: bool,
}

/// How a database runs a query: two settings with equal plans differ in speed for other reasons than the plan.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct QueryPlan {
    /// 16 hexadecimal digits; equal for equal shapes.
    pub hash: String,
    /// The plan's operators with their tables and indexes, without costs and row counts, in one line:
    /// `Gather(Hash Join(Seq Scan orders, Hash(Seq Scan customer)))`.
    pub shape: String,
}

/// The rows of a query and the state of the data that it read.
#[derive(Debug, Clone)]
pub struct QueryAnswer {
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Which state of the data they were read from, for people: `as loaded`, `refresh 2`, `now`.
    pub snapshot: String,
}

/// The time that a session has spent waiting since it was opened, what its queries sent between processes since then, and
/// the memory of its last query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionUsage {
    /// Time spent waiting for locks; `None` if the target does not report it.
    pub lock_wait: Option<Duration>,
    /// How many lock requests had to wait.
    pub lock_waits: u64,
    /// Time spent waiting for devices, as a commit waits for the log; `None` if the target does not report it.
    pub io_wait: Option<Duration>,
    /// Time spent on undoing the changes of attempts that were rolled back; `None` if the target does not report it.
    pub rollback_time: Option<Duration>,
    /// The most memory that the operators of its last query kept at a time, bytes; `None` if the target does not report
    /// it, and before the first query.
    pub query_memory: Option<u64>,
    /// What the processes that answered its queries received from each other; `None` if that is unknown of one of them.
    pub network_bytes: Option<NetworkBytes>,
}

/// Runs a statement that must find its row. If it does not, the data are not the benchmark's: the transaction is rolled
/// back and fails.
#[inline]
pub(crate) fn execute_one(
    session: &mut dyn Session,
    benchmark: &str,
    statement: &Statement<'_>,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    session.execute(statement, parameters, rows)?;
    if rows.is_empty() {
        return Err(missing_row(session, benchmark, statement, parameters));
    }
    Ok(())
}

/// Rolls a benchmark's transaction back because a row is missing; the error names the statement that needed it.
pub(crate) fn missing_row(
    session: &mut dyn Session,
    benchmark: &str,
    statement: &Statement<'_>,
    parameters: &[Value<'_>],
) -> DatabaseError {
    let name = statement.name;
    match session.rollback() {
        Ok(()) => DatabaseError::Failed(format!(
            "{benchmark} {name} found no row with {parameters:?}; load the benchmark at this scale first"
        )),
        Err(error) => error,
    }
}
