//! The settings, checked and complete. [`read`](crate::read) makes them of a file.

mod class;
mod described;
mod guards;
mod login;
mod targets;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ClassIndex, ClassRules, ClassTerms, GuardMode, PreemptionPolicy, Priority, StarvationBound};
use rustls::pki_types::CertificateDer;

pub use class::{ClassSettings, CpuShare, DiskUse, cache_fault};
pub use described::{change_of, class_key, default_of, default_shown, means_nothing, settable};
pub use guards::Guards;
pub use login::Login;
pub use targets::{Held, TargetFault, target_faults};

/// At shorter intervals, looks would take all the time.
pub(crate) const LOOK_LEAST: Duration = Duration::from_micros(100);

/// The most classes.
pub const CLASSES_MAX: usize = 64;

/// All settings. A reload replaces them as a whole.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether the governor works beside its server: no client connects through it, and it governs the sessions that it
    /// sees there.
    pub is_beside: bool,
    /// Whether a governor in the connection path also governs the sessions that applications open at the server
    /// itself.
    pub governs_direct: bool,
    /// The number of the server's cores, where the governor cannot count them; `None` if the operator does not say.
    pub server_cores: Option<u32>,
    /// The consoles of pgbouncers through which applications use the server, for a governor beside it.
    pub pgbouncers: Vec<ServerUrl>,
    /// The addresses that clients connect to; beside a server, those of the console.
    pub listen: Listen,
    /// The server; user, password and database of the URL are not used: clients bring their own.
    pub server: ServerUrl,
    /// How clients are forwarded to it.
    pub passing_on: PassingOn,
    /// How the governor lets clients in itself.
    pub login: Login,
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
    /// How clients share server connections.
    pub pool: Pool,
    /// Which transactions are rolled back for which.
    pub preemption: Preemption,
    /// What is done about work that holds up others by accident.
    pub guards: Guards,
    /// CPU shares.
    pub cpu: Cpu,
    /// Limits on disk reads.
    pub disk: DiskLimits,
    /// Recording of traffic.
    pub capture: Capture,
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
#[derive(Debug, Clone, Default)]
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
    /// Other governors behind the same address, which may have the session of a cancel.
    pub peers: Vec<Peer>,
    /// Proxies whose connections begin with a PROXY protocol header that names the client.
    pub proxy_protocol_from: Vec<IpAddr>,
    /// The number of relay threads; at least 1.
    pub workers: u32,
    /// Encryption towards clients; `None` if it is not offered.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The certificate shown to clients. If the server shows the same one, clients may bind their logins to it.
    pub certificate: Option<CertificateDer<'static>>,
    /// Whether clients over TCP that do not ask for encryption are refused.
    pub tls_required: bool,
}

/// The address of another governor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A name or an IP address, and a port, as `host:port`; an IPv6 address is in brackets.
    Tcp(String),
    /// A Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => f.write_str(address),
            Peer::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Log {
    /// The formats by name, as whether they are JSON.
    pub const FORMATS: [(&str, bool); 2] = [("text", false), ("json", true)];
    /// The levels by name.
    pub const LEVELS: [(&str, tracing::Level); 5] = [
        ("error", tracing::Level::ERROR),
        ("warn", tracing::Level::WARN),
        ("info", tracing::Level::INFO),
        ("debug", tracing::Level::DEBUG),
        ("trace", tracing::Level::TRACE),
    ];
}

impl Listen {
    /// How encryption is offered to clients: `off`, `offered` or `required`.
    pub fn tls_mode(&self) -> &'static str {
        match (&self.tls, self.tls_required) {
            (None, _) => "off",
            (Some(_), false) => "offered",
            (Some(_), true) => "required",
        }
    }
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
    /// Whether to replay on versions of PostgreSQL that are not known, if a self-test of the catalog questions passes.
    pub replay_on_unknown_versions: bool,
}

/// CPU shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Whether server processes get their class's share.
    pub shares: bool,
    /// Whether a low-priority holder gets the share of a high-priority transaction that waits for it.
    pub inheritance: bool,
    /// Whether idle cores stay awake while important transactions are at work.
    pub awake: bool,
}

/// When a server connection serves another client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PoolMode {
    /// When its client leaves.
    #[default]
    Session,
    /// After each transaction.
    Transaction,
}

impl PoolMode {
    /// The modes by name.
    pub const NAMES: [(&str, PoolMode); 2] = [("session", PoolMode::Session), ("transaction", PoolMode::Transaction)];
}

/// Between whom the room of a class is shared evenly: the connections of a pool, and the places within an MPL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FairBy {
    /// Users.
    #[default]
    User,
    /// Names of applications.
    Application,
    /// Addresses of clients.
    Client,
}

impl FairBy {
    /// The keys by name.
    pub const NAMES: [(&str, FairBy); 3] =
        [("user", FairBy::User), ("application", FairBy::Application), ("client", FairBy::Client)];
}

/// How clients share server connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pool {
    /// When a connection serves another client.
    pub mode: PoolMode,
    /// How many connections the clients of a pool share.
    pub size: u32,
    /// How many clients may be logging in at the server itself at once.
    pub logins_max: u32,
    /// How long a connection may be idle; `None` for any time.
    pub idle_timeout: Option<Duration>,
    /// How old a connection may be; `None` for any age.
    pub lifetime: Option<Duration>,
    /// After what wait of a transaction its class gets some connections before more important ones.
    pub patience: Duration,
    /// Between whom room is shared evenly within a class, without a pool, too.
    pub fair_by: FairBy,
    /// How many prepared statements a connection keeps.
    pub prepared_max: u32,
    /// Functions that leave nothing in a session although the server cannot prove it.
    pub clean_functions: Vec<String>,
}

/// Recording of traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capture {
    /// The folder; `None` while nothing is recorded.
    pub to: Option<PathBuf>,
    /// Whether values are replaced by hashes.
    pub redact: bool,
    /// The size of a capture in bytes, at which recording stops.
    pub size_max: usize,
}

/// Limits on reads from the server's disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskLimits {
    /// Whether classes that yield are limited.
    pub limits: bool,
    /// The share of the disk's throughput that they keep at least, in percent.
    pub floor_percent: u32,
}

/// The console, reached with psql.
#[derive(Debug, Clone, Default)]
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

/// Reads the size of a capture, such as `1GiB`. The error says what is wrong with it.
pub fn capture_size(text: &str) -> Result<usize, String> {
    crate::table::capture_size(text)
}

impl Settings {
    /// Settings before the table's defaults and a file are put in.
    pub(crate) fn blank() -> Self {
        let name = String::new();
        let class = ClassTerms { name, priority: Priority::LOW, has_mpl: false, settable_by: Vec::new() };
        Settings {
            is_beside: false,
            governs_direct: false,
            server_cores: None,
            pgbouncers: Vec::new(),
            listen: Listen::default(),
            server: ServerUrl::of_socket("", 0, "", ""),
            passing_on: PassingOn::default(),
            login: Login::default(),
            control: None,
            classes: Vec::new(),
            rules: ClassRules::new(vec![class], Vec::new(), ClassIndex(0)),
            total_mpl: None,
            auto_mpl: false,
            pool: Pool::default(),
            preemption: Preemption {
                policy: PreemptionPolicy::parse("never").expect("there is such a policy"),
                threshold: Duration::ZERO,
                look_interval: Duration::ZERO,
                weigh: false,
                idle_counts_as_waiting: false,
                bound: StarvationBound::none(),
                replay_bytes_max: 0,
                replay_functions: Vec::new(),
                replay_on_unknown_versions: false,
            },
            guards: Guards::default(),
            cpu: Cpu::default(),
            disk: DiskLimits::default(),
            capture: Capture::default(),
            admin: Admin::default(),
            http: None,
            break_glass: Vec::new(),
            log: Log { is_json: false, level: tracing::Level::INFO },
        }
    }

    /// The class at that place.
    pub fn class(&self, class: ClassIndex) -> &ClassSettings {
        &self.classes[usize::from(class.0)]
    }

    /// Every class with its place.
    pub fn indexed(&self) -> impl Iterator<Item = (ClassIndex, &ClassSettings)> {
        (0..).map(ClassIndex).zip(&self.classes)
    }

    /// The names of some classes, separated by commas; empty if there are none.
    pub fn names_of(&self, is_one: impl Fn(&ClassSettings) -> bool) -> String {
        let names = self.classes.iter().filter(|class| is_one(class)).map(|class| class.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// The CPU share of processes that serve a class; untouched while shares are off.
    pub fn share_of(&self, class: ClassIndex) -> CpuShare {
        if self.cpu.shares { self.class(class).cpu_in_force() } else { CpuShare::Untouched }
    }

    /// Whether some class limits parallel workers.
    pub fn limits_workers(&self) -> bool {
        self.classes.iter().any(|class| class.workers_max.is_some())
    }

    /// Whether a class's disk reads may be limited. This is not possible if its processes are in an operator's own
    /// control groups: a process can be in one group only.
    pub fn yields_disk(&self, class: ClassIndex) -> bool {
        let class = self.class(class);
        self.disk.limits && class.disk == DiskUse::Yields && class.control_groups.is_empty()
    }

    /// The names of the classes whose disk reads may be limited.
    pub fn disk_yielders(&self) -> Vec<&str> {
        self.indexed().filter(|(place, _)| self.yields_disk(*place)).map(|(_, class)| class.name.as_str()).collect()
    }

    /// The names of the classes that are confined to a part of the cache, with that part.
    pub fn cache_confined(&self) -> Vec<(String, CacheUse)> {
        let classes = self.classes.iter().filter(|class| class.cache.is_confined());
        classes.map(|class| (class.name.clone(), class.cache)).collect()
    }

    /// Whether the governor governs sessions that applications open at the server themselves.
    pub fn observes(&self) -> bool {
        self.is_beside || self.governs_direct
    }

    /// Where the governor is, in words.
    pub fn place(&self) -> &'static str {
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
            || self.budgets_of(class) == GuardMode::Enforce && self.class(class).rate.is_some()
            || self.is_searched(class)
    }

    /// The class of that name.
    pub fn class_named(&self, name: &str) -> Option<ClassIndex> {
        self.classes.iter().position(|class| class.name == name).map(|place| ClassIndex(place as u16))
    }
}
