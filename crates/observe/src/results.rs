//! What an observation found, as it is written to `results.json`.
//!
//! Times are seconds, rates are per second. What could not be seen is null, and [`Observation::missing`] says why.

use serde::{Deserialize, Serialize};

pub use crate::ledger::HolderState;
pub use crate::server::rights::Missing;
pub use crate::snapshot::Login;

/// The version of this format.
pub const FORMAT: u32 = 1;
/// What tells such a file from the results of an experiment.
pub const KIND: &str = "observation";

/// What an observation found.
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
    pub ended: Ended,
    /// The server.
    pub server: ServerFacts,
    /// What could not be seen.
    pub missing: Vec<Missing>,
    /// What looking took.
    pub looking: Looking,
    /// Where response time went, of everybody.
    pub time: Part,
    /// The same by user; the largest first, as in all lists.
    pub users: Vec<Part>,
    /// The same by application name.
    pub applications: Vec<Part>,
    /// The same by database.
    pub databases: Vec<Part>,
    /// The same by statement.
    pub statements: Vec<StatementPart>,
    /// Who waited behind whom.
    pub locks: Locks,
    /// Transactions that waited for their clients, by login.
    pub idle_in_transaction: Vec<Idle>,
    /// Throughput and deadlocks by database.
    pub throughput: Vec<Throughput>,
    /// The server's own upkeep.
    pub upkeep: Upkeep,
    /// Statements whose plan seems to have changed; null without `pg_stat_statements`.
    pub plan_changes: Option<Vec<PlanChange>>,
    /// The classes that a governor could have.
    pub classes: Vec<ProposedClass>,
    /// What a governor would change for important work.
    pub governor: Effect,
    /// What a reader must know.
    pub warnings: Vec<String>,
}

/// Why an observation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "why", rename_all = "snake_case")]
pub enum Ended {
    /// Its time was over.
    InTime,
    /// Ctrl-C, or a signal.
    Interrupted,
    /// The server was lost, or refused to go on.
    ServerLost(String),
}

/// The server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// How it was reached, without the password.
    pub url: String,
    /// Its version as it calls it.
    pub version: String,
    /// The role that asked.
    pub role: String,
    /// The database that was connected to.
    pub database: String,
    /// Whether its processes were seen on this machine.
    pub on_this_machine: bool,
    /// Whether it is a standby.
    pub standby: bool,
    /// Cores of this machine, if it is the server's.
    pub cores: Option<usize>,
}

/// What looking took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Looking {
    /// Looks at sessions.
    pub looks: usize,
    /// Looks at locks.
    pub lock_looks: usize,
    /// Mean time between two looks at sessions.
    pub interval_s: Option<f64>,
    /// CPU time here.
    pub own_cpu_s: f64,
    /// CPU time of the server's process that answered; where that cannot be seen, the time until answers came, which is more.
    pub server_cpu_s: f64,
    /// Whether the server's part was measured, and not taken from the time until answers came.
    pub server_cpu_measured: bool,
    /// Both together as a share of one core.
    pub share_of_a_core: f64,
    /// What that is held below.
    pub bound: f64,
    /// Sessions of which this role may see no more than that they are there, at the end.
    pub unseen_sessions: usize,
}

/// Where response time went: parts of 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// On a core; with `core_wait` null, also waiting for one.
    pub running: f64,
    /// Waiting for a core; null where the scheduler's times cannot be seen.
    pub core_wait: Option<f64>,
    /// Waiting for a lock.
    pub lock: f64,
    /// Waiting for the disk, or behind somebody who does.
    pub disk: f64,
    /// Waiting for the client: within a transaction, or to take or send data.
    pub client: f64,
    /// Anything else: latches, timers, other processes.
    pub other: f64,
}

/// Response time of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The group; empty for an application without a name.
    pub name: String,
    /// Its response time: of all sessions together.
    pub response_s: f64,
    /// Of everybody's.
    pub of_all: f64,
    /// Sessions in progress at once, in the mean.
    pub in_progress: f64,
    /// Where it went; null if there was none.
    pub share: Option<Share>,
}

/// Response time of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementPart {
    /// Its time; the name is its text without values, empty if that was not seen.
    #[serde(flatten)]
    pub part: Part,
    /// The server's number; null if it computes none.
    pub query_id: Option<i64>,
    /// The number by which a rule of a governor names it; null if its whole text was not seen.
    pub fingerprint: Option<String>,
    /// Calls per second, by `pg_stat_statements`; null without it.
    pub calls_per_s: Option<f64>,
    /// Mean time of a call, by the same, waits for locks included.
    pub mean_s: Option<f64>,
    /// Rows per call, by the same.
    pub rows_per_call: Option<f64>,
}

/// Who waited behind whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Locks {
    /// Time that sessions waited for locks.
    pub waited_s: f64,
    /// Of that, the time of which it was seen behind whom.
    pub explained_s: f64,
    /// Waits that were seen; shorter ones than the time between two looks are missed.
    pub waits: usize,
    /// The longest of them.
    pub longest_s: f64,
    /// Who was at the ends of the chains.
    pub blockers: Vec<Blocker>,
    /// The chains.
    pub chains: Vec<Chain>,
    /// What was waited for.
    pub objects: Vec<Object>,
}

/// Someone at whose end a chain of waits was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blocker {
    /// Who, and in which statement; of one that thought, the last one before.
    #[serde(flatten)]
    pub who: Who,
    /// Waiting time of all that waited behind it.
    pub blocked_s: f64,
    /// Of all explained waiting time.
    pub of_explained: f64,
    /// What it did meanwhile: parts of 1.
    pub did: Vec<(HolderState, f64)>,
    /// The longest chain behind it. A count of those who waited one behind the other.
    pub depth: usize,
}

/// Somebody in a chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Who {
    /// Whose session it is; the user is `(not visible)` if it was not seen.
    #[serde(flatten)]
    pub login: Login,
    /// The statement without values; empty if it was not seen.
    pub statement: String,
}

/// A chain of waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// From the one that waits to the one that all wait for, each with what it did.
    pub links: Vec<(Who, HolderState)>,
    /// Time of the first one.
    pub waited_s: f64,
}

/// Something that was waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// Its kind as `pg_locks` calls it.
    pub kind: String,
    /// Its table, where it is known.
    pub table: Option<String>,
    /// Waiting time.
    pub waited_s: f64,
}

/// Transactions of a login that waited for their clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// Who does it.
    #[serde(flatten)]
    pub login: Login,
    /// Time of all of them.
    pub time_s: f64,
    /// The longest stretch.
    pub longest_s: f64,
    /// The most at once.
    pub most: usize,
    /// Waiting time of others behind them.
    pub blocked_s: f64,
}

/// What a database did.
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
    /// Checkpoints whose time had come. A count; null if the server did not tell.
    pub checkpoints_timed: Option<u64>,
    /// Checkpoints that were asked for, such as by a full log.
    pub checkpoints_requested: Option<u64>,
    /// Time spent on writing pages in checkpoints.
    pub checkpoint_write_s: Option<f64>,
    /// Tables that were seen being vacuumed.
    pub vacuums: Vec<String>,
}

/// A statement whose plan seems to have changed: it looks at many more or fewer pages for as many rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanChange {
    /// Its text without values.
    pub statement: String,
    /// The server's number.
    pub query_id: i64,
    /// When it was seen, since the beginning.
    pub at_s: f64,
    /// Pages per call before and after.
    pub pages_per_call: (f64, f64),
    /// Mean time of a call before and after.
    pub mean_s: (f64, f64),
}

/// A group of work and the class that is proposed for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProposedClass {
    /// Who does it.
    #[serde(flatten)]
    pub login: Login,
    /// The statement that all of it begins with, without values; null for everything that the login does.
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
}

/// What a governor would change for important work: upper bounds, since work that waits less may wait elsewhere.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Effect {
    /// Response time of important work.
    pub important_s: f64,
    /// Its waiting for locks of which the chain was seen.
    pub important_lock_s: f64,
    /// What each lever could take off it.
    pub levers: Vec<Lever>,
    /// In a few sentences.
    pub summary: Vec<String>,
}

/// A lever of a governor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lever {
    /// What was seen: important work waited behind less important holders that …
    pub what: String,
    /// The lever, with the key of the settings file.
    pub lever: String,
    /// The time; null if it cannot be seen.
    pub upper_bound_s: Option<f64>,
    /// Of the response time of important work.
    pub of_important: Option<f64>,
}
