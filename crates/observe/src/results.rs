//! The results of an observation, as they are written to `results.json`.
//!
//! Times are seconds, rates are per second. A value that was not visible is null, and [`Observation::missing`] says
//! why.

mod host;
mod replication;

use serde::{Deserialize, Serialize};

pub use self::host::{CoreUse, DiskProbe, DiskUse, HostUse, Operations, ProcessUse};
pub use self::replication::{Conflicts, Replication, StandbyHere, StandbySeen};
pub use crate::ledger::HolderState;
pub use crate::server::rights::MissingRight;
pub use crate::snapshot::Login;
use crate::windows::Window;

/// The version of this format.
pub const FORMAT: u32 = 1;
/// The mark that distinguishes such a file from the results of an experiment.
pub const KIND: &str = "observation";

/// The results of an observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// [`KIND`].
    pub kind: String,
    /// [`FORMAT`].
    pub format: u32,
    /// The version of Plimsoll.
    pub plimsoll: String,
    /// When it began, UTC.
    pub started: String,
    /// From the first look to the last.
    pub seconds: f64,
    /// Why it ended.
    pub ended: EndReason,
    /// The server.
    pub server: ServerFacts,
    /// Data that were not visible, and why.
    pub missing: Vec<MissingRight>,
    /// The cost of looking.
    pub looking: ObservationCost,
    /// Where response time went, for all sessions.
    pub time: GroupTime,
    /// The same by user; the largest first, as in all lists.
    pub users: Vec<GroupTime>,
    /// The same by application name.
    pub applications: Vec<GroupTime>,
    /// The same by database.
    pub databases: Vec<GroupTime>,
    /// The same by statement.
    pub statements: Vec<StatementTime>,
    /// The statements that each class called, with the server's own texts; null without `pg_stat_statements`.
    #[serde(default)]
    pub calls: Option<Vec<ClassStatement>>,
    /// Which sessions waited behind which.
    pub locks: Locks,
    /// Transactions that waited for their clients, by login.
    pub idle_in_transaction: Vec<Idle>,
    /// Throughput and deadlocks by database.
    pub throughput: Vec<Throughput>,
    /// The server's own upkeep.
    pub upkeep: Upkeep,
    /// Statements whose plan seems to have changed; null without `pg_stat_statements`.
    pub plan_changes: Option<Vec<PlanChange>>,
    /// The machine under the server; its parts are null where they are not visible.
    #[serde(default)]
    pub host: HostUse,
    /// Standbys, or this server as one.
    #[serde(default)]
    pub replication: Replication,
    /// The classes that a governor could have.
    pub classes: Vec<ProposedClass>,
    /// What each class did from window to window: `windows.jsonl`.
    #[serde(skip)]
    pub windows: Vec<Window>,
    /// What a governor would change for important work.
    pub governor: Effect,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
}

/// Why an observation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "why", rename_all = "snake_case")]
pub enum EndReason {
    /// The time had elapsed.
    InTime,
    /// Ctrl-C, or a signal.
    Interrupted,
    /// The server was lost, or refused further looks.
    ServerLost(String),
}

/// The server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// The URL by which it was reached, without the password.
    pub url: String,
    /// Its version in its own words.
    pub version: String,
    /// The role of the observer.
    pub role: String,
    /// The database of the connection.
    pub database: String,
    /// Whether its processes were visible on this machine.
    pub on_this_machine: bool,
    /// Whether it is a standby.
    pub standby: bool,
    /// Cores of this machine, if the server runs on it.
    pub cores: Option<usize>,
}

/// The cost of looking.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObservationCost {
    /// Looks at sessions.
    pub looks: usize,
    /// Looks at locks.
    pub lock_looks: usize,
    /// Mean time between two looks at sessions.
    pub interval_s: Option<f64>,
    /// CPU time of this process.
    pub own_cpu_s: f64,
    /// CPU time of the server's process that answered; if that is not visible, the time until answers came, which is
    /// more.
    pub server_cpu_s: f64,
    /// Whether the server's part was measured, and not taken from the time until answers came.
    pub server_cpu_measured: bool,
    /// Both times together as a share of one core.
    pub share_of_a_core: f64,
    /// The upper bound of that share.
    pub bound: f64,
    /// Sessions whose activity this role may not see, at the end.
    pub unseen_sessions: usize,
}

/// Where response time went: parts of 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// On a core; with `core_wait` null, also waiting for one.
    pub running: f64,
    /// Waiting for a core; null if the scheduler's times are not visible.
    pub core_wait: Option<f64>,
    /// Waiting for a lock.
    pub lock: f64,
    /// Waiting for the disk, or behind a process that does.
    pub disk: f64,
    /// Waiting for the client: within a transaction, or to take or send data.
    pub client: f64,
    /// Anything else: latches, timers, other processes.
    pub other: f64,
}

/// Response time of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupTime {
    /// The group; empty for an application without a name.
    pub name: String,
    /// Its response time: of all sessions together.
    pub response_s: f64,
    /// Its part of the response time of all sessions.
    pub of_all: f64,
    /// Sessions in progress at once, in the mean.
    pub in_progress: f64,
    /// Where it went; null if there was none.
    pub share: Option<Share>,
}

/// Response time of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementTime {
    /// Its time; the name is its text without values, empty if that was not visible.
    #[serde(flatten)]
    pub part: GroupTime,
    /// The server's query id; null if it computes none.
    pub query_id: Option<i64>,
    /// The number by which a rule of a governor names it; null if its whole text was not visible.
    pub fingerprint: Option<String>,
    /// Calls per second, by `pg_stat_statements`; null without it.
    pub calls_per_s: Option<f64>,
    /// Mean time of a call, from the same source, waits for locks included.
    pub mean_s: Option<f64>,
    /// Rows per call, from the same source.
    pub rows_per_call: Option<f64>,
}

/// A statement that a class called, as the server counted it: the input of a sketch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassStatement {
    /// The class's name.
    pub class: String,
    /// Its database.
    pub database: String,
    /// The server's query id.
    pub query_id: i64,
    /// The server's text, with `$1` in place of the first value; empty if it was not visible.
    pub text: String,
    /// Calls per second; those of classes that share a user are divided by the time that each was seen in the statement.
    pub calls_per_s: f64,
    /// Mean time of a call, waits for locks included.
    pub mean_s: f64,
    /// Rows per call; null if the server did not count them.
    pub rows_per_call: Option<f64>,
}

/// Which sessions waited behind which.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Locks {
    /// Time that sessions waited for locks.
    pub waited_s: f64,
    /// Of that, the time for which the chain was visible.
    pub explained_s: f64,
    /// Waits that were observed; those shorter than the time between two looks may be missed.
    pub waits: usize,
    /// The longest of them.
    pub longest_s: f64,
    /// The sessions at the ends of the chains.
    pub blockers: Vec<Blocker>,
    /// The chains.
    pub chains: Vec<Chain>,
    /// The objects of the waits.
    pub objects: Vec<Object>,
}

/// A session at the end of a chain of waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// The session and its statement; for one that thought, the previous statement.
    #[serde(flatten)]
    pub who: ChainMember,
    /// Waiting time of all sessions behind it.
    pub blocked_s: f64,
    /// Its part of all explained waiting time.
    pub of_explained: f64,
    /// What it did in that time: parts of 1.
    pub did: Vec<(HolderState, f64)>,
    /// The length of the longest chain behind it. A count of waiters.
    pub depth: usize,
}

/// A session in a chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChainMember {
    /// Its login; the user is `(not visible)` if the login was not visible.
    #[serde(flatten)]
    pub login: Login,
    /// The statement without values; empty if it was not visible.
    pub statement: String,
}

/// A chain of waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// From the waiter to the session for which all others wait, each with its state.
    pub links: Vec<(ChainMember, HolderState)>,
    /// Waiting time of the first session.
    pub waited_s: f64,
}

/// An object that sessions waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// Its kind as named in `pg_locks`.
    pub kind: String,
    /// Its table, if known.
    pub table: Option<String>,
    /// Waiting time.
    pub waited_s: f64,
}

/// Transactions of a login that waited for their clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// The login.
    #[serde(flatten)]
    pub login: Login,
    /// Time of all of them.
    pub time_s: f64,
    /// The longest stretch.
    pub longest_s: f64,
    /// The most at once.
    pub most: usize,
    /// Waiting time of other sessions behind them.
    pub blocked_s: f64,
}

/// The throughput of a database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The database.
    pub database: String,
    /// Transactions that were committed.
    pub commits_per_s: f64,
    /// Transactions that were rolled back.
    pub rollbacks_per_s: f64,
    /// Deadlocks. A count.
    pub deadlocks: u64,
    /// Pages that were not in the server's own cache.
    pub pages_read_per_s: f64,
    /// Bytes written to temporary files.
    pub temporary_bytes: u64,
}

/// The server's own upkeep.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Upkeep {
    /// Checkpoints by timeout. A count; null if the server did not report it.
    pub checkpoints_timed: Option<u64>,
    /// Requested checkpoints, such as for a full log.
    pub checkpoints_requested: Option<u64>,
    /// Time spent on writing pages in checkpoints.
    pub checkpoint_write_s: Option<f64>,
    /// Tables that were observed during a vacuum.
    pub vacuums: Vec<String>,
}

/// A statement whose plan seems to have changed: it looks at many more or fewer pages for as many rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanChange {
    /// Its text without values.
    pub statement: String,
    /// The server's query id.
    pub query_id: i64,
    /// When it was observed, since the beginning.
    pub at_s: f64,
    /// Pages per call before and after.
    pub pages_per_call: (f64, f64),
    /// Mean time of a call before and after.
    pub mean_s: (f64, f64),
}

/// A group of work and the class that is proposed for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProposedClass {
    /// Its name in `windows.jsonl` and in predictions.
    #[serde(default)]
    pub name: String,
    /// The login.
    #[serde(flatten)]
    pub login: Login,
    /// The statement that begins all of its transactions, without values; null for all work of the login.
    pub statement: Option<String>,
    /// The number by which a rule names that statement.
    pub fingerprint: Option<String>,
    /// `important`, `low` or `undecided`.
    pub standing: String,
    /// Why.
    pub reason: String,
    /// Its response time.
    pub response_s: f64,
    /// Sessions in progress at once, in the mean.
    pub in_progress: f64,
    /// The most at one look; null for a statement.
    pub most_in_progress: Option<usize>,
    /// Whether its transactions share a snapshot: the one that exported it stays open until the others have it.
    #[serde(default)]
    pub shares_snapshot: bool,
}

/// What a governor would change for important work: upper bounds, since work that waits less may wait elsewhere.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Effect {
    /// Response time of important work.
    pub important_s: f64,
    /// Its waiting time for locks whose chain was visible.
    pub important_lock_s: f64,
    /// The most that each lever could save of it.
    pub levers: Vec<Lever>,
    /// The effect in a few sentences.
    pub summary: Vec<String>,
}

/// A lever of a governor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lever {
    /// The observation: important work waited behind less important holders that …
    pub what: String,
    /// The lever, with the key of the settings file.
    pub lever: String,
    /// The time; null if it is not visible.
    pub upper_bound_s: Option<f64>,
    /// Its part of the response time of important work.
    pub of_important: Option<f64>,
}
