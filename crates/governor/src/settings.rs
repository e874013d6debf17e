//! The operator's configuration, checked and complete. `config` reads it from the file.

mod described;
mod levers;
mod targets;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::cache_class::CacheClass;
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ClassIndex, ClassLimits, ClassRules, PreemptionPolicy, StarvationBound, Target};
use rustls::pki_types::CertificateDer;

pub(crate) use described::needs_restart;
pub use targets::Held;
pub(crate) use targets::target_faults;

/// All settings. A reload replaces them as a whole.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether the governor works beside its server: no client connects through it, and it governs the sessions that it
    /// sees there.
    pub is_beside: bool,
    /// Whether a governor in the connection path also governs the sessions that applications open at the server
    /// itself.
    pub governs_direct: bool,
    /// The addresses that clients connect to; beside a server, those of the console.
    pub listen: Listen,
    /// The server; user, password and database of the URL are not used: clients bring their own.
    pub server: ServerUrl,
    /// How clients are forwarded to it.
    pub passing_on: PassingOn,
    /// The role and server for the governor's own queries; `None` if it makes none, and so preempts nothing.
    pub control: Option<ServerUrl>,
    /// The classes; a [`ClassIndex`] is a place in this list.
    pub classes: Vec<ClassSettings>,
    /// The rules that assign sessions to classes.
    pub rules: ClassRules,
    /// How many transactions of all classes together may be inside at once; `None` if unlimited.
    pub total_mpl: Option<u32>,
    /// Whether an mpl is chosen for a class of the lowest priority that has none.
    pub auto_mpl: bool,
    /// Which transactions are rolled back for which.
    pub preemption: Preemption,
    /// CPU shares.
    pub cpu: Cpu,
    /// Limits on disk reads.
    pub disk: DiskLimits,
    /// The console.
    pub admin: Admin,
    /// Metrics and the live page; `None` if they are off.
    pub http: Option<Http>,
    /// Users (exact names) whose sessions are never governed.
    pub break_glass: Vec<String>,
    /// The log on standard error.
    pub log: Log,
}

/// Metrics and the live page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Their address.
    pub address: SocketAddr,
    /// Additional host names for requests, besides the address and `localhost`.
    pub hosts: Vec<String>,
}

/// How clients are forwarded to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassingOn {
    /// Whether to admit a client that the server has not authenticated even if the client connected by a less trusted
    /// way than the governor's own connection.
    pub trust_clients: bool,
    /// Whether a session's class is announced to the server at its start, so that `SHOW plimsoll.class` has an answer.
    pub announce_class: bool,
    /// Whether each connection to the server begins with a PROXY protocol header that names its client.
    pub proxy_protocol: bool,
}

impl Default for PassingOn {
    fn default() -> Self {
        PassingOn { trust_clients: false, announce_class: true, proxy_protocol: false }
    }
}

/// The log on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// Whether each line is a JSON object.
    pub is_json: bool,
    /// The least important level that is logged.
    pub level: tracing::Level,
}

/// The addresses that clients connect to, and their limits.
#[derive(Debug, Clone)]
pub struct Listen {
    /// TCP addresses.
    pub addresses: Vec<SocketAddr>,
    /// Folders of Unix sockets, named `.s.PGSQL.PORT` with the port of the first address, or 6432.
    pub socket_folders: Vec<PathBuf>,
    /// The maximum number of clients; one more is refused with 53300.
    pub clients_max: u32,
    /// The maximum number of clients of one TCP address that are logging in; clients that have logged in do not count.
    pub logins_max_per_address: u32,
    /// How long a client may take from its first byte until it has logged in.
    pub login_timeout: Duration,
    /// The socket file at which the next governor asks for the addresses; `None` without handover.
    pub handover: Option<PathBuf>,
    /// Proxies whose connections begin with a PROXY protocol header that names the client.
    pub proxy_protocol_from: Vec<IpAddr>,
    /// The number of relay threads; at least 1.
    pub workers: usize,
    /// Encryption towards clients; `None` if it is not offered.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The certificate shown to clients. If the server shows the same one, clients may bind their logins to it.
    pub certificate: Option<CertificateDer<'static>>,
    /// Whether clients over TCP that do not ask for encryption are refused.
    pub tls_required: bool,
}

impl Listen {
    /// How encryption is offered to clients: `off`, `offered` or `required`.
    pub(crate) fn tls_mode(&self) -> &'static str {
        match (&self.tls, self.tls_required) {
            (None, _) => "off",
            (Some(_), false) => "offered",
            (Some(_), true) => "required",
        }
    }
}

/// A class with all its settings.
#[derive(Debug, Clone)]
pub struct ClassSettings {
    /// Its name, unique.
    pub name: String,
    /// The priority, and the limits of running and queued transactions and of queue time.
    pub limits: ClassLimits,
    /// Patterns of users that may choose the class although rules assign them a lower one.
    pub settable_by: Vec<glob::Pattern>,
    /// How long a transaction may wait for its client before its session is ended (25P03); `None` if unlimited.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// The CPU share of its server processes.
    pub cpu: CpuShare,
    /// The CPU time that its server processes keep at least, in percent, if they get only idle time; `None` for no
    /// minimum.
    pub cpu_floor_percent: Option<u8>,
    /// Whether its server processes may read less while important work waits for the disk.
    pub disk: DiskUse,
    /// Which part of the last-level cache its server processes may fill.
    pub cache: CacheUse,
    /// Folders of the control groups for its server processes, one for each hierarchy.
    pub control_groups: Arc<[PathBuf]>,
    /// Whether its transactions may be rolled back for others, if the policy decides so.
    pub preemptible: bool,
    /// Whether rolled-back transactions are replayed if their clients cannot notice.
    pub replay: bool,
    /// Whether its clients retry transactions that fail with 40001. If not, only transactions that can probably be
    /// replayed are rolled back. Beside a server: whether they retry after 57014, so that their statements may be
    /// cancelled.
    pub retries: bool,
    /// How often a transaction is replayed that the server has aborted (40P01, 40001), or that was rolled back to break
    /// a cycle of waiters, if its client cannot notice; 0 for never.
    pub retry_aborted: u32,
    /// How many parallel workers a node of its statements' plans may have; `None` for the server's own limit.
    pub workers_max: Option<u32>,
    /// Whether an operator has paused its transactions.
    pub is_paused: bool,
    /// The promised response time; classes below are limited to meet it.
    pub target: Option<Target>,
    /// How many of its transactions the target of a class above must allow; `None` for one.
    pub mpl_min: Option<u32>,
    /// The bounds that such a target leaves it now.
    pub held: Held,
}

/// The CPU share of a server process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuShare {
    /// As the server has set it.
    Untouched,
    /// As the server has set it, but with a core at once when it wakes: the shortest slice.
    Prompt,
    /// A nice value, -20 to 19.
    Nice(i32),
    /// Only idle time of the cores (`SCHED_IDLE`).
    Idle,
}

impl CpuShare {
    /// Whether a process gets a smaller share than an untouched one.
    pub(crate) fn is_less(self) -> bool {
        match self {
            CpuShare::Untouched | CpuShare::Prompt => false,
            CpuShare::Nice(nice) => nice > 0,
            CpuShare::Idle => true,
        }
    }
}

/// The behaviour of a class while important work waits for the server's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// It is never limited. If it waits for the disk, that counts as important work waiting.
    Untouched,
    /// Its reads may be limited.
    Yields,
}

impl DiskUse {
    /// Every variant with its name in the settings.
    pub const NAMES: [(&str, DiskUse); 2] = [("untouched", DiskUse::Untouched), ("yields", DiskUse::Yields)];
}

/// Which transactions are rolled back for which.
#[derive(Debug, Clone)]
pub struct Preemption {
    /// The policy: `track`, `never`, `pow`, `pabort`, `after(50ms)`.
    pub policy: PreemptionPolicy,
    /// How long a high-priority statement must have been in flight before the server is asked which lock it waits for.
    pub threshold: Duration,
    /// The shortest time between two looks.
    pub look_interval: Duration,
    /// Whether a rollback must be expected to save more than it costs.
    pub weigh: bool,
    /// Whether a transaction that waits for its client counts as one that waits.
    pub idle_counts_as_waiting: bool,
    /// The number of rollbacks after which a transaction is promoted.
    pub bound: StarvationBound,
    /// How many bytes of a transaction's requests are kept for a replay.
    pub replay_bytes_max: usize,
    /// Functions that may run twice although the server's catalogs do not prove it.
    pub replay_functions: Vec<String>,
}

/// CPU shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Whether server processes get their class's share.
    pub shares: bool,
    /// Whether a low-priority holder gets the share of a high-priority transaction that waits for it.
    pub inheritance: bool,
    /// Whether idle cores stay awake while important transactions are at work.
    pub awake: bool,
}

/// Limits on reads from the server's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLimits {
    /// Whether classes that yield are limited.
    pub limits: bool,
    /// The share of the disk's throughput that they keep at least, in percent.
    pub floor_percent: u8,
}

/// The console, reached with psql.
#[derive(Debug, Clone)]
pub struct Admin {
    /// The database name of the console: `plimsoll`.
    pub database: String,
    /// The users that may log in.
    pub users: Vec<AdminUser>,
}

/// A user of the console.
#[derive(Debug, Clone)]
pub struct AdminUser {
    /// The name.
    pub name: String,
    /// `SCRAM-SHA-256$iterations:salt$stored-key:server-key`, as PostgreSQL keeps it.
    pub verifier: String,
    /// Whether it may make changes; otherwise it may only look.
    pub may_change: bool,
}

impl Settings {
    /// The class at that place.
    pub fn class(&self, class: ClassIndex) -> &ClassSettings {
        &self.classes[usize::from(class.0)]
    }

    /// Every class with its place.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = (ClassIndex, &ClassSettings)> {
        (0..).map(ClassIndex).zip(&self.classes)
    }

    /// The names of some classes, separated by commas; empty if there are none.
    pub(crate) fn names_of(&self, is_one: impl Fn(&ClassSettings) -> bool) -> String {
        let names = self.classes.iter().filter(|class| is_one(class)).map(|class| class.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The CPU share of processes that serve a class; untouched while shares are off.
    pub fn share_of(&self, class: ClassIndex) -> CpuShare {
        if self.cpu.shares { self.class(class).cpu_in_force() } else { CpuShare::Untouched }
    }

    /// Whether some class limits parallel workers.
    pub(crate) fn limits_workers(&self) -> bool {
        self.classes.iter().any(|class| class.workers_max.is_some())
    }

    /// Whether a class's disk reads may be limited. This is not possible if its processes are in an operator's own
    /// control groups: a process can be in one group only.
    pub(crate) fn yields_disk(&self, class: ClassIndex) -> bool {
        let class = self.class(class);
        self.disk.limits && class.disk == DiskUse::Yields && class.control_groups.is_empty()
    }

    /// The names of the classes whose disk reads may be limited.
    pub(crate) fn disk_yielders(&self) -> Vec<&str> {
        self.indexed().filter(|(place, _)| self.yields_disk(*place)).map(|(_, class)| class.name.as_str()).collect()
    }

    /// The names of the classes that are confined to a part of the cache, with that part.
    pub(crate) fn cache_confined(&self) -> Vec<(String, CacheUse)> {
        let classes = self.classes.iter().filter(|class| class.cache.is_confined());
        classes.map(|class| (class.name.clone(), class.cache)).collect()
    }

    /// Whether the governor governs sessions that applications open at the server themselves.
    pub fn observes(&self) -> bool {
        self.is_beside || self.governs_direct
    }

    /// Where the governor is, in words.
    pub(crate) fn place(&self) -> &'static str {
        match (self.is_beside, self.governs_direct) {
            (true, _) => "beside the server",
            (false, true) => "in the connection path, and beside the server for other sessions",
            (false, false) => "in the connection path",
        }
    }

    /// Whether transactions of a class may have to wait to be admitted.
    pub fn is_limited(&self, class: ClassIndex) -> bool {
        let is_limited = |class: &ClassSettings| class.limits.mpl.is_some() || class.is_paused;
        // Classes that a target may limit always ask, so that their number inside is known once it does.
        self.total_mpl.is_some()
            || is_limited(self.class(class))
            || self.is_below_target(class)
            || self.is_searched(class)
    }

    /// The class of that name.
    pub fn class_named(&self, name: &str) -> Option<ClassIndex> {
        self.classes.iter().position(|class| class.name == name).map(|place| ClassIndex(place as u16))
    }
}

/// Why the classes' parts of the cache contradict each other; `None` if they do not. Masks are the operator's choice.
pub(crate) fn cache_fault(classes: &[ClassSettings]) -> Option<String> {
    let parts = classes.iter().map(|class| match class.cache {
        CacheUse::Class(class) if class != CacheClass::Sensitive => Some(class),
        _ => None,
    });
    let most = parts.collect::<Option<Vec<CacheClass>>>()?.into_iter().max()?;
    Some(format!(
        "every class is confined, so that no session may fill more of the cache than the part for `{most}`: leave `cache` out of the \
         classes that are to be protected"
    ))
}

/// Two classes for tests: `high` for users `high*`, unlimited, and `low` for all others, MPL 1, a queue of 1,
/// preemptible (`pow`, replayed, promoted after 5 rollbacks), ended after 60 s of thinking. Transactions that the
/// server aborts are not replayed.
#[cfg(test)]
pub(crate) fn for_tests() -> Settings {
    use crate::config::{Surroundings, parse};

    const TEXT: &str =
        concat!("server = \"postgres://nobody@localhost:1/none\"\n", include_str!("../tests/two_classes.toml"));
    let surroundings = Surroundings { folder: std::path::Path::new("/"), environment: &|_| None, classes: &[] };
    let mut settings = parse(TEXT, "tests.toml", &surroundings).unwrap_or_else(|error| panic!("{error}")).settings;
    for (class, mpl) in settings.classes.iter_mut().zip([None, Some(1)]) {
        class.limits = ClassLimits { mpl, queue_max: mpl, timeout: None, ..class.limits };
    }
    settings.classes[1].idle_in_transaction_timeout = Some(Duration::from_secs(60));
    settings.preemption.policy = PreemptionPolicy::parse("pow").unwrap_or_else(|| panic!("there is such a policy"));
    settings
}
