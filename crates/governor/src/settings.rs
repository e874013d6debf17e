//! What an operator has asked for, checked and complete. The file that it comes from is read by `config`.

mod described;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_policy::{ClassIndex, ClassLimits, ClassRules, PreemptionPolicy, StarvationBound};
use plimsoll_postgres::url::ServerUrl;

pub use described::needs_restart;

/// Everything that can be set. A reload replaces it as a whole.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where clients come in.
    pub listen: Listen,
    /// The server behind; user, password and database of the URL are not used: clients bring their own.
    pub server: ServerUrl,
    /// As whom the governor itself asks the server; `None` where nothing is to be asked, and so nothing preempted.
    pub control: Option<ServerUrl>,
    /// The classes; a [`ClassIndex`] is a place in this list.
    pub classes: Vec<ClassSettings>,
    /// Who belongs to which class.
    pub rules: ClassRules,
    /// How many transactions of all classes together may be inside at once; `None` for any number.
    pub total_mpl: Option<u32>,
    /// Who is rolled back for whom.
    pub preemption: Preemption,
    /// The cores' shares.
    pub cpu: Cpu,
    /// The console.
    pub admin: Admin,
    /// Metrics and the live page; `None` for none.
    pub http: Option<Http>,
    /// Users (exact names) who are let through ungoverned, whatever else is set.
    pub break_glass: Vec<String>,
    /// What is written to standard error.
    pub log: Log,
}

/// Metrics and the live page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Where they are.
    pub address: SocketAddr,
    /// Names under which they may be asked for, beside the address and `localhost`.
    pub hosts: Vec<String>,
}

/// What is written to standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Whether each line is a JSON object.
    pub is_json: bool,
    /// What is not written because it matters less.
    pub level: tracing::Level,
}

/// Where clients come in, and how many.
#[derive(Debug, Clone)]
pub struct Listen {
    /// TCP addresses.
    pub addresses: Vec<SocketAddr>,
    /// Folders of Unix sockets, named `.s.PGSQL.PORT` with the port of the first address, or 6432.
    pub socket_folders: Vec<PathBuf>,
    /// How many clients at most; one more is refused with 53300.
    pub clients_max: u32,
    /// How long a client may take from its first byte until it is let in.
    pub login_timeout: Duration,
    /// Threads that relay; at least 1.
    pub workers: usize,
    /// Encryption towards clients; `None` if it is not offered.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether clients over TCP that do not ask for encryption are refused.
    pub tls_required: bool,
}

/// A class and everything set for it.
#[derive(Debug, Clone)]
pub struct ClassSettings {
    /// Its name, unique.
    pub name: String,
    /// Priority, how many may be inside, how many may wait and how long.
    pub limits: ClassLimits,
    /// Patterns of users who may choose it though the rules give them a lower one.
    pub settable_by: Vec<glob::Pattern>,
    /// How long a transaction may wait for its client before its session is ended (25P03); `None` for ever.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// What its server processes get of the cores.
    pub cpu: CpuShare,
    /// Whether its transactions may be rolled back for others, where the policy says so.
    pub preemptible: bool,
    /// Whether what was rolled back is replayed if that can be done without anybody noticing.
    pub replay: bool,
}

/// What a server process gets of the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuShare {
    /// As the server has it.
    Untouched,
    /// A nice value, -20 to 19.
    Nice(i32),
    /// Only what nobody else wants (`SCHED_IDLE`).
    Idle,
}

/// Who is rolled back for whom.
#[derive(Debug, Clone)]
pub struct Preemption {
    /// The policy: `track`, `never`, `pow`, `pabort`, `after(50ms)`.
    pub policy: PreemptionPolicy,
    /// For how long a high-priority statement must have been in flight before anybody asks what it waits for.
    pub threshold: Duration,
    /// The shortest time between two looks.
    pub look_interval: Duration,
    /// Whether a transaction that waits for its client counts as one that waits.
    pub idle_counts_as_waiting: bool,
    /// After how many rollbacks a transaction is promoted.
    pub bound: StarvationBound,
    /// How many bytes of a transaction's requests are kept for a replay.
    pub replay_bytes_max: usize,
}

/// The cores' shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Whether server processes are given their class's share at all.
    pub shares: bool,
    /// Whether a low-priority holder that a high-priority transaction waits for gets that one's share.
    pub inheritance: bool,
}

/// The console, reached with psql.
#[derive(Debug, Clone)]
pub struct Admin {
    /// The name of the database that is the console: `plimsoll`.
    pub database: String,
    /// Who may use it.
    pub users: Vec<AdminUser>,
}

/// A user of the console.
#[derive(Debug, Clone)]
pub struct AdminUser {
    /// The name.
    pub name: String,
    /// `SCRAM-SHA-256$iterations:salt$stored-key:server-key`, as PostgreSQL keeps it.
    pub verifier: String,
    /// Whether it may change anything; otherwise it may look.
    pub may_change: bool,
}

impl Settings {
    /// The class at that place.
    pub fn class(&self, class: ClassIndex) -> &ClassSettings {
        &self.classes[usize::from(class.0)]
    }

    /// The class of that name.
    pub fn class_named(&self, name: &str) -> Option<ClassIndex> {
        self.classes.iter().position(|class| class.name == name).map(|place| ClassIndex(place as u16))
    }
}
