//! The result of one look at a server, as plain values: the collector fills them in, and tests simulate them.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_policy::Doing;
use serde::{Deserialize, Serialize};

use crate::ledger::HolderState;

/// The owner of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// The client's application name; empty if it gives none.
    pub application: String,
}

/// The text of a statement as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text {
    /// The text, in the encoding of its database.
    pub bytes: Vec<u8>,
    /// Whether the server shows only its beginning.
    pub is_cut: bool,
}

/// A session that is in a statement or a transaction, or a parallel worker of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The id of its process.
    pub process: i32,
    /// The process that it works for, if it is a parallel worker.
    pub leader: Option<i32>,
    /// Its owner.
    pub login: Login,
    /// Whether a client waits for it; a process of the server's own, such as autovacuum, may hold locks, too.
    pub is_of_client: bool,
    /// Its state.
    pub doing: Doing,
    /// Whether a statement is in progress; otherwise it waits for the client's next one.
    pub is_in_statement: bool,
    /// When its transaction began, microseconds since 1970 on the server's clock.
    pub transaction_began_us: Option<i64>,
    /// When its statement began, on the same clock.
    pub statement_began_us: Option<i64>,
    /// When its state last changed, on the same clock.
    pub state_changed_us: Option<i64>,
    /// The server's query id of its statement; `None` if the server computes none.
    pub query_id: Option<i64>,
    /// Its statement, if it has begun since the last look.
    pub text: Option<Text>,
    /// Processor times of its process since it began; `None` if they are not visible.
    pub times: Option<ThreadTimes>,
}

/// A session that holds or requests one of those locks although it is not in progress, or not visibly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The id of its process.
    pub process: i32,
    /// Its owner.
    pub login: Login,
    /// Its state.
    pub state: HolderState,
    /// Its last statement, if that is visible.
    pub text: Option<Text>,
}

/// A lock that is held or waited for, of an object for which a session waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    /// The process; 0 for a prepared transaction.
    pub process: i32,
    /// Distinguishes the object from others.
    pub object: String,
    /// The kind of object, as named in `pg_locks`.
    pub kind: String,
    /// The table, if the server knows one and it is in the database of the connection.
    pub table: Option<String>,
    /// The mode, as named in `pg_locks`.
    pub mode: String,
    /// Whether it is held.
    pub is_granted: bool,
    /// When the wait began, microseconds since 1970; `None` before version 14.
    pub wait_began_us: Option<i64>,
}

/// One look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// When, since the observation began.
    pub at: Duration,
    /// The server's clock, microseconds since 1970.
    pub server_us: i64,
    /// Sessions that are not idle, and parallel workers.
    pub sessions: Vec<Session>,
    /// Locks; `None` if they were not read.
    pub locks: Option<Vec<LockRow>>,
    /// The sessions in `locks` that are not in `sessions`.
    pub holders: Vec<Holder>,
}

/// The key of a statement in `pg_stat_statements`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey {
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// The server's query id of the statement.
    pub query_id: i64,
}

/// The server's counts for a statement since it began to count.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StatementCounter {
    /// Calls.
    pub calls: u64,
    /// Time in execution, lock waits included.
    pub time: Duration,
    /// Rows returned or changed.
    pub rows: u64,
    /// Pages looked at, whether cached or read.
    pub pages: u64,
}

/// The server's counts for a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatabaseCounter {
    /// Transactions that were committed.
    pub commits: u64,
    /// Transactions that were rolled back.
    pub rollbacks: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Pages that were not in the server's own cache.
    pub pages_read: u64,
    /// Bytes written to temporary files.
    pub temporary_bytes: u64,
}

/// All counters at one moment. Those that the server refused are empty or `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counters {
    /// When, since the observation began.
    pub at: Duration,
    /// By statement; `None` without `pg_stat_statements`.
    pub statements: Option<BTreeMap<CounterKey, StatementCounter>>,
    /// By database.
    pub databases: BTreeMap<String, DatabaseCounter>,
    /// Checkpoints by timeout; `None` if the server did not report it.
    pub checkpoints_timed: Option<u64>,
    /// Requested checkpoints, such as for a full log.
    pub checkpoints_requested: Option<u64>,
    /// Time spent on writing pages in checkpoints.
    pub checkpoint_write: Option<Duration>,
    /// Tables that are being vacuumed, with the phase.
    pub vacuums: Vec<String>,
    /// Sessions whose activity this role may not see. A count.
    pub unseen_sessions: usize,
}

impl Session {
    /// Whether its transaction waits for its client's next statement.
    pub(crate) fn is_idle_in_transaction(&self) -> bool {
        self.doing == Doing::Client && self.transaction_began_us.is_some() && !self.is_in_statement
    }
}
