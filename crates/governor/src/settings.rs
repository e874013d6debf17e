//! The operator's configuration, checked and complete. `config` reads the file that it comes from.

mod described;
mod targets;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_policy::cache_class::CacheClass;
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ClassIndex, ClassLimits, ClassRules, PreemptionPolicy, StarvationBound, Target};
use plimsoll_postgres::url::ServerUrl;
use rustls::pki_types::CertificateDer;

use crate::governor::Lever;
pub(crate) use described::needs_restart;
pub use targets::Held;
pub(crate) use targets::target_faults;

/// Everything that can be set. A reload replaces it as a whole.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether the governor works beside its server: no client comes through it, and it governs the sessions that it sees there.
    pub is_beside: bool,
    /// Where clients come in; beside a server, where the console is.
    pub listen: Listen,
    /// The server behind; user, password and database of the URL are not used: clients bring their own.
    pub server: ServerUrl,
    /// How clients are passed on to it.
    pub passing_on: PassingOn,
    /// As whom the governor itself asks the server; `None` where nothing is to be asked, and so nothing preempted.
    pub control: Option<ServerUrl>,
    /// The classes; a [`ClassIndex`] is a place in this list.
    pub classes: Vec<ClassSettings>,
    /// Who belongs to which class.
    pub rules: ClassRules,
    /// How many transactions of all classes together may be inside at once; `None` for any number.
    pub total_mpl: Option<u32>,
    /// Whether an mpl is chosen for a class of the lowest priority that has none.
    pub auto_mpl: bool,
    /// Who is rolled back for whom.
    pub preemption: Preemption,
    /// The cores' shares.
    pub cpu: Cpu,
    /// Who may read how much of the server's disk.
    pub disk: DiskLimits,
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

/// How clients are passed on to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassingOn {
    /// Whether a client is let in whom the server has asked for no proof although the client came by a less trusted way than
    /// the governor's own connection.
    pub trust_clients: bool,
    /// Whether a session's class is announced to the server as it begins, so that `SHOW plimsoll.class` has an answer.
    pub announce_class: bool,
    /// Whether each connection to the server begins with a PROXY protocol header that names its client.
    pub proxy_protocol: bool,
}

impl Default for PassingOn {
    fn default() -> Self {
        PassingOn { trust_clients: false, announce_class: true, proxy_protocol: false }
    }
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
    /// How many clients of one TCP address may be logging in at once; those who are let in already do not count.
    pub logins_max_per_address: u32,
    /// How long a client may take from its first byte until it is let in.
    pub login_timeout: Duration,
    /// The socket file at which the next governor asks for the addresses; `None` if it cannot.
    pub handover: Option<PathBuf>,
    /// Proxies in front whose connections begin with a PROXY protocol header that names the client.
    pub proxy_protocol_from: Vec<IpAddr>,
    /// Threads that relay; at least 1.
    pub workers: usize,
    /// Encryption towards clients; `None` if it is not offered.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The certificate that clients are shown. Where the server shows the same, clients may bind their logins to it.
    pub certificate: Option<CertificateDer<'static>>,
    /// Whether clients over TCP that do not ask for encryption are refused.
    pub tls_required: bool,
}

impl Listen {
    /// What becomes of clients that ask for encryption, and of others: `off`, `offered` or `required`.
    pub(crate) fn tls_mode(&self) -> &'static str {
        match (&self.tls, self.tls_required) {
            (None, _) => "off",
            (Some(_), false) => "offered",
            (Some(_), true) => "required",
        }
    }
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
    /// How long a transaction may wait for its client before its session is ended (25P03); `None` forever.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// What its server processes get of the cores.
    pub cpu: CpuShare,
    /// How much of the cores its server processes keep at least, percent, if they get idle time only; `None` for nothing.
    pub cpu_floor_percent: Option<u8>,
    /// Whether its server processes may read less while important work waits for the disk.
    pub disk: DiskUse,
    /// Which part of the last-level cache its server processes may fill.
    pub cache: CacheUse,
    /// Folders of control groups in which its server processes are to be, one for each hierarchy.
    pub control_groups: Arc<[PathBuf]>,
    /// Whether its transactions may be rolled back for others, if the policy decides so.
    pub preemptible: bool,
    /// Whether rolled back transactions are replayed if that can be done unnoticed.
    pub replay: bool,
    /// Whether its clients run a transaction again that failed with 40001. If they do not, only transactions are rolled back
    /// that can be replayed as far as is known then. Beside a server: whether they do so after 57014, so that statements of
    /// theirs may be cancelled.
    pub retries: bool,
    /// How often a transaction is run again that the server has aborted (40P01, 40001), or that was rolled back to break a
    /// cycle of waiters, if that can be done unnoticed; 0 for never.
    pub retry_aborted: u32,
    /// How many parallel workers a node of its statements' plans may have at most; `None` for as many as the server allows.
    pub workers_max: Option<u32>,
    /// Whether an operator holds its transactions up for now.
    pub is_paused: bool,
    /// What its response times are promised to be; classes below are limited for that.
    pub target: Option<Target>,
    /// How many of its transactions the target of a class above leaves it at least; `None` for one.
    pub mpl_min: Option<u32>,
    /// What such a target leaves it for now.
    pub held: Held,
}

/// What a server process gets of the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuShare {
    /// As the server has it.
    Untouched,
    /// As the server has it, and a core at once when it wakes: the shortest slice.
    Prompt,
    /// A nice value, -20 to 19.
    Nice(i32),
    /// Only idle time of the cores (`SCHED_IDLE`).
    Idle,
}

impl CpuShare {
    /// Whether a process gets less than one that is left as the server has it.
    pub(crate) fn is_less(self) -> bool {
        match self {
            CpuShare::Untouched | CpuShare::Prompt => false,
            CpuShare::Nice(nice) => nice > 0,
            CpuShare::Idle => true,
        }
    }
}

/// What a class does while important work waits for the server's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// It reads as it likes. If it waits for the disk, it is important work that waits.
    Untouched,
    /// It may be made to read less.
    Yields,
}

impl DiskUse {
    /// Each, and what it is called in the settings.
    pub const NAMES: [(&str, DiskUse); 2] = [("untouched", DiskUse::Untouched), ("yields", DiskUse::Yields)];
}

/// Who is rolled back for whom.
#[derive(Debug, Clone)]
pub struct Preemption {
    /// The policy: `track`, `never`, `pow`, `pabort`, `after(50ms)`.
    pub policy: PreemptionPolicy,
    /// For how long a high-priority statement must have been in flight before the server is asked what it waits for.
    pub threshold: Duration,
    /// The shortest time between two looks.
    pub look_interval: Duration,
    /// Whether a rollback must be expected to save more than it costs.
    pub weigh: bool,
    /// Whether a transaction that waits for its client counts as one that waits.
    pub idle_counts_as_waiting: bool,
    /// After how many rollbacks a transaction is promoted.
    pub bound: StarvationBound,
    /// How many bytes of a transaction's requests are kept for a replay.
    pub replay_bytes_max: usize,
    /// Functions that may be run twice though nothing that the server knows of them proves it.
    pub replay_functions: Vec<String>,
}

/// The cores' shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Whether server processes are given their class's share at all.
    pub shares: bool,
    /// Whether a low-priority holder that a high-priority transaction waits for gets that one's share.
    pub inheritance: bool,
    /// Whether idle cores stay awake while important transactions are at work.
    pub awake: bool,
}

/// Limits of what is read from the server's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLimits {
    /// Whether classes that yield are limited at all.
    pub limits: bool,
    /// The share of what the disk gives that they keep at least, percent.
    pub floor_percent: u8,
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

    /// Every class with its place.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = (ClassIndex, &ClassSettings)> {
        (0..).map(ClassIndex).zip(&self.classes)
    }

    /// The names of some classes, with commas between; empty if there are none.
    pub(crate) fn names_of(&self, is_one: impl Fn(&ClassSettings) -> bool) -> String {
        let names = self.classes.iter().filter(|class| is_one(class)).map(|class| class.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    }

    /// What processes that work for a class get of the cores; untouched while shares are off.
    pub fn share_of(&self, class: ClassIndex) -> CpuShare {
        if self.cpu.shares { self.class(class).cpu_in_force() } else { CpuShare::Untouched }
    }

    /// Whether some class limits parallel workers.
    pub(crate) fn limits_workers(&self) -> bool {
        self.classes.iter().any(|class| class.workers_max.is_some())
    }

    /// Whether a class may be made to read less of the disk. One whose processes an operator's own control groups hold may not:
    /// a process can be in one group only.
    pub(crate) fn yields_disk(&self, class: ClassIndex) -> bool {
        let class = self.class(class);
        self.disk.limits && class.disk == DiskUse::Yields && class.control_groups.is_empty()
    }

    /// The names of the classes that may be made to read less of the disk.
    pub(crate) fn disk_yielders(&self) -> Vec<&str> {
        self.indexed().filter(|(place, _)| self.yields_disk(*place)).map(|(_, class)| class.name.as_str()).collect()
    }

    /// The classes that are confined to a part of the cache, and which; by the name of the class.
    pub(crate) fn cache_confined(&self) -> Vec<(String, CacheUse)> {
        let classes = self.classes.iter().filter(|class| class.cache.is_confined());
        classes.map(|class| (class.name.clone(), class.cache)).collect()
    }

    /// Whether transactions of a class may have to wait to be admitted.
    pub fn is_limited(&self, class: ClassIndex) -> bool {
        let is_limited = |class: &ClassSettings| class.limits.mpl.is_some() || class.is_paused;
        // Those that a target may limit ask always, so that it is known how many are inside when it does.
        self.total_mpl.is_some()
            || is_limited(self.class(class))
            || self.is_below_target(class)
            || self.is_searched(class)
    }

    /// The levers that work or not by what is set alone.
    pub(crate) fn own_levers(&self) -> Vec<Lever> {
        if self.is_beside {
            let why = "the governor works beside the server, so that no transaction passes through it";
            return ["admission", "replay"].map(|name| Lever { name, is_on: false, why: why.to_owned() }).into();
        }
        let limited = self.names_of(|class| class.limits.mpl.is_some());
        let searched: Vec<&str> = self.searched().map(|(_, class)| class.name.as_str()).collect();
        let admission = match (limited.is_empty(), self.total_mpl) {
            (true, None) if !searched.is_empty() => {
                format!("limits {} where that costs no throughput", searched.join(", "))
            }
            (true, None) => "no class has an mpl, and there is none for all of them".to_owned(),
            (false, None) => format!("limits {limited}"),
            (true, Some(mpl)) => format!("limits all classes together to {mpl}"),
            (false, Some(mpl)) => format!("limits {limited}, and all classes together to {mpl}"),
        };
        let replayed = self.names_of(|class| class.preemptible && class.replay);
        let rolls_back = self.control.is_some() && self.preemption.policy.acts();
        let replay = match (rolls_back, replayed.is_empty()) {
            (false, _) => "nothing is rolled back".to_owned(),
            (true, true) => "no class is preemptible and has replay".to_owned(),
            (true, false) => format!("replays rolled back transactions of {replayed}"),
        };
        let is_limiting = !limited.is_empty() || self.total_mpl.is_some() || !searched.is_empty();
        let promised = self.classes.iter().filter_map(|class| Some(format!("{} {}", class.name, class.target?)));
        let promised: Vec<String> = promised.collect();
        let mut levers = vec![
            Lever { name: "admission", is_on: is_limiting, why: admission },
            Lever { name: "replay", is_on: rolls_back && !replayed.is_empty(), why: replay },
            self.retry_lever(),
        ];
        if !promised.is_empty() {
            let why = format!("limits classes below for {}", promised.join(", "));
            levers.push(Lever { name: "targets", is_on: true, why });
        }
        levers
    }

    /// Whether what the server aborts is run again.
    fn retry_lever(&self) -> Lever {
        let retried = self.names_of(|class| class.replay && class.retry_aborted > 0);
        let tracks = self.preemption.policy.only_tracks();
        let why = match (tracks, retried.is_empty()) {
            (true, _) => "the policy is track: errors of the server go to the clients".to_owned(),
            (false, true) => "no class has retry_aborted and replay".to_owned(),
            (false, false) => format!("replays transactions of {retried} that the server aborts"),
        };
        Lever { name: "retry", is_on: !tracks && !retried.is_empty(), why }
    }

    /// The class of that name.
    pub fn class_named(&self, name: &str) -> Option<ClassIndex> {
        self.classes.iter().position(|class| class.name == name).map(|place| ClassIndex(place as u16))
    }
}

/// Why the parts of the cache that classes are to have make no sense together; `None` if they do. Masks are the operator's to choose.
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

/// Two classes for tests: `high` for users `high*`, unlimited, and `low` for all others, MPL 1, a queue of 1, preemptible
/// (`pow`, replayed, promoted after 5 rollbacks), ended after 60 s of thinking. What the server aborts is not run again.
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
