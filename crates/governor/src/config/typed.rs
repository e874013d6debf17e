//! A settings file as typed: every key with its place, nothing checked beyond its type.
//!
//! The descriptions here are also those of the JSON schema and of the table in `docs/governor-settings.md`.

use std::borrow::Cow;

use plimsoll_notation::At;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

/// The settings of a governor: where clients connect, where the server is, which work is important.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(title = "Plimsoll governor", deny_unknown_fields)]
pub struct TypedSettings {
    /// The server that clients are passed on to: `postgres://host:port`, or `postgres:///?host=/folder/of/socket`. User, password
    /// and database are not used: clients bring their own. Beside a server it may be left out: `control` names it.
    pub server: Option<At<String>>,
    /// Whether clients may log in as any role that the server admits without asking for anything, such as by `peer` on the
    /// governor's own socket. The default is `false`: the governor refuses such clients unless they could have connected to the
    /// server in the same way themselves.
    #[serde(default)]
    pub trust_clients: bool,
    /// Whether each new session announces its class to the server (the startup parameter `plimsoll.class`), so that
    /// `SHOW plimsoll.class` has an answer. The default is `true`; poolers that refuse unknown startup parameters need `false`.
    pub announce_class: Option<bool>,
    /// Whether each connection to the server begins with a PROXY protocol header (version 2) that names its client. The default is
    /// `false`: PostgreSQL does not understand it; some poolers and load balancers do.
    #[serde(default)]
    pub proxy_protocol: bool,
    /// The login with which the governor asks the server which transactions wait for which, and preempts: `postgres://plimsoll@host:port/postgres`.
    /// Without it nothing is preempted and no share of the cores is changed.
    pub control: Option<At<String>>,
    /// The class of sessions that no rule matches. The default is the class with the lowest priority.
    pub default_class: Option<At<String>>,
    /// Users, by exact name, who are let through ungoverned, whatever else is set.
    #[serde(default)]
    pub break_glass: Vec<At<String>>,
    /// In the connection path, or beside the server.
    #[serde(default)]
    pub mode: TypedMode,
    /// The addresses at which clients connect.
    #[serde(default)]
    pub listen: TypedListen,
    /// The classes, one table each; `high` and `low` without any.
    #[serde(default, rename = "class")]
    pub classes: Vec<At<TypedClass>>,
    /// Who belongs to which class, one table each; the first that matches holds.
    #[serde(default, rename = "rule")]
    pub rules: Vec<At<TypedRule>>,
    /// How much may be inside at once.
    #[serde(default)]
    pub admission: TypedAdmission,
    /// Which transactions are rolled back, and for which.
    #[serde(default)]
    pub preemption: TypedPreemption,
    /// The cores' shares.
    #[serde(default)]
    pub cpu: TypedCpu,
    /// The server's disk.
    #[serde(default)]
    pub disk: TypedDisk,
    /// The console, reached with psql.
    #[serde(default)]
    pub admin: TypedAdmin,
    /// Metrics and the live page.
    #[serde(default)]
    pub http: TypedHttp,
    /// What is written to standard error.
    #[serde(default)]
    pub log: TypedLog,
}

/// In the connection path, or beside the server.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedMode {
    /// Whether clients come through the governor. With `false` it works beside the server: it governs the sessions that
    /// applications open there themselves, by its `control` connection alone. The default is `true`.
    pub proxy: Option<bool>,
    /// Whether a governor in the connection path also governs the sessions that applications open at the server itself: they
    /// get their class and their share of the cores, transactions of less important clients that block them are rolled back,
    /// and they are never cancelled. It needs `control`. The default is `false`.
    pub direct_sessions: Option<At<bool>>,
}

impl TypedMode {
    /// Whether the governor works beside its server.
    pub fn is_beside(&self) -> bool {
        self.proxy == Some(false)
    }
}

/// The addresses at which clients connect.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedListen {
    /// TCP addresses: `["127.0.0.1:6432"]` without it, unless there are socket folders.
    pub addresses: Option<Vec<At<String>>>,
    /// Folders in which Unix sockets are made, named `.s.PGSQL.PORT` with the port of the first address, or 6432.
    #[serde(default)]
    pub socket_folders: Vec<At<String>>,
    /// How many clients at most; one more is refused with 53300: 2000 without it.
    pub clients_max: Option<At<i64>>,
    /// How many clients of one address may be logging in at once; one more is refused with 53300. Clients that are in do not
    /// count, so a pooler may hold any number of connections. The default is half of `clients_max`, but at least 10.
    pub logins_max_per_address: Option<At<i64>>,
    /// IP addresses of proxies in front of the governor whose connections begin with a PROXY protocol header (version 2) that
    /// names the client. The default is none.
    #[serde(default)]
    pub proxy_protocol_from: Vec<At<String>>,
    /// How long a client may take until it is let in: `15s` without it.
    pub login_timeout: Option<At<String>>,
    /// A socket file by which the next governor takes the addresses over without refusing or ending a session. The default is none.
    pub handover: Option<At<String>>,
    /// Threads that relay: one for every two cores without it.
    pub workers: Option<At<i64>>,
    /// Encryption towards clients; none without it.
    pub tls: Option<TypedTls>,
}

/// Encryption towards clients.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedTls {
    /// The file with the certificate and those that vouch for it (PEM).
    pub certificate: At<String>,
    /// The file with its key (PEM).
    pub key: At<String>,
    /// Whether clients over TCP that do not ask for encryption are refused: `false` without it.
    #[serde(default)]
    pub required: bool,
    /// The file with the authorities that must have signed the certificate of every TCP client (PEM); it needs `required`. A
    /// certificate whose common name is the user has proved who the client is. Without it clients are asked for no certificate.
    pub client_ca: Option<At<String>>,
}

/// A class.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedClass {
    /// Its name.
    pub name: At<String>,
    /// `high`, `low`, or `level2` to `level254` for what is above high.
    #[schemars(required)]
    pub priority: Option<At<String>>,
    /// How many of its transactions run at once. The default is no limit.
    pub mpl: Option<At<i64>>,
    /// How many of its transactions may be queued; the governor refuses one more with 53300. The default is 1000.
    pub queue_max: Option<At<i64>>,
    /// How long a transaction may be queued before the governor refuses it with 53300. The default is `120s`.
    pub queue_timeout: Option<At<String>>,
    /// How long a transaction may wait for its client before the governor ends its session (25P03). The default is no limit.
    pub idle_in_transaction_timeout: Option<At<String>>,
    /// Users (patterns with `*`) who may choose it by `SET plimsoll.class`, a tag or an application name although rules give
    /// them a lower one, or one of equal priority that has an `mpl` where this one has none.
    #[serde(default)]
    pub settable_by: Vec<At<String>>,
    /// The CPU share of its server processes: `untouched`, `prompt` (a core at once when they wake), `nice 10` (-20 to 19), or
    /// `idle` for cores that nothing else uses. The default is `nice 10` for classes with priority low, and for others `prompt`
    /// if some class gets less.
    pub cpu: Option<At<String>>,
    /// How much of all cores its server processes get at least while they want that much, in percent: 1 to 90. It is for `cpu = "idle"`
    /// beside work that leaves no core idle. Classes with a floor share the sum of them. The default is nothing.
    pub cpu_floor_percent: Option<At<i64>>,
    /// What the class does while a transaction of another class waits for the server's disk: `yields` (the governor limits what
    /// its server processes read), or `untouched`. The default is `yields` for priority low, and `untouched` for others. A class
    /// with `control_groups` is `untouched`.
    pub disk: Option<At<String>>,
    /// Which part of the last-level cache its server processes may fill: `polluting` (a tenth, for scans of more data than the cache
    /// holds), `depends` (60 %, for joins whose hash tables about fill it), `sensitive` (all), or a mask of ways such as `0xf0`.
    /// It needs a processor that shares out its cache, with resctrl mounted. The default is `sensitive`.
    pub cache: Option<At<String>>,
    /// Folders of control groups that you have made for its server processes: for a disk's bandwidth (`io.max`), cores
    /// (`cpu.weight`, `cpu.idle`) or memory. One, or with version 1 one for each controller.
    #[serde(default)]
    pub control_groups: Vec<At<String>>,
    /// Whether its transactions may be rolled back for those of higher priority. The default is `true` for priority low, and
    /// `false` for others. Beside a server `true` only counts them; `"retry-by-application"` cancels their statements (57014),
    /// for applications that run such a transaction again.
    pub preemptible: Option<TypedPreemptible>,
    /// Whether the governor replays its rolled-back transactions where the client cannot notice. The default is `true`.
    pub replay: Option<bool>,
    /// Whether the clients of this class retry transactions that fail with SQLSTATE 40001. If not, the governor rolls back only
    /// transactions that it can replay, and none whose client is thinking. The default is `false`.
    pub retries: Option<bool>,
    /// How often the governor replays a transaction that the server aborts as the victim of a deadlock (40P01) or because it cannot
    /// be serialized (40001), or that it rolls back itself to break a deadlock at once, where the client cannot notice. 0 hands every
    /// such error to the client. Nothing is replayed with `replay = false` or `policy = "track"`. The default is 20.
    pub retry_aborted: Option<At<i64>>,
    /// How many parallel workers its statements may use at most for each Gather node of a plan
    /// (`max_parallel_workers_per_gather`, which is lowered and never raised), 0 to 1024. The default is no limit.
    pub workers_max: Option<At<i64>>,
    /// What its response times are promised to be: `p95 < 20ms`, or `p95 < 1.3 x alone` for 1.3 times what they are while no class
    /// below is at work. The governor limits classes below as far as that takes. The default is none.
    pub target: Option<At<String>>,
    /// How many of its transactions run at once in any case, also if that breaks the target of a class above. The default is 1.
    pub mpl_min: Option<At<i64>>,
}

/// Whether transactions of a class may be rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypedPreemptible {
    /// `true` or `false`.
    Allowed(bool),
    /// `"retry-by-application"`: beside a server, statements are cancelled.
    RetryByApplication,
}

/// The name of [`TypedPreemptible::RetryByApplication`] in files.
pub(crate) const RETRY_BY_APPLICATION: &str = "retry-by-application";

impl<'de> Deserialize<'de> for TypedPreemptible {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl serde::de::Visitor<'_> for Reader {
            type Value = TypedPreemptible;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "true, false or \"{RETRY_BY_APPLICATION}\"")
            }
            fn visit_bool<E>(self, allowed: bool) -> Result<Self::Value, E> {
                Ok(TypedPreemptible::Allowed(allowed))
            }
            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Self::Value, E> {
                match word {
                    RETRY_BY_APPLICATION => Ok(TypedPreemptible::RetryByApplication),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl JsonSchema for TypedPreemptible {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TypedPreemptible".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "anyOf": [{ "type": "boolean" }, { "const": RETRY_BY_APPLICATION }] })
    }
}

/// Who belongs to a class. All that is said must hold.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedRule {
    /// The class.
    pub class: At<String>,
    /// The user, as a pattern with `*`.
    pub user: Option<At<String>>,
    /// The database, as a pattern with `*`.
    pub database: Option<At<String>>,
    /// The application's name, as a pattern with `*`.
    pub application_name: Option<At<String>>,
    /// The `class` in a comment of a transaction's first statement (`/*class='x'*/`), as a pattern with `*`.
    pub tag: Option<At<String>>,
    /// The fingerprint of a transaction's first statement, 16 hexadecimal digits as SHOW FINGERPRINT prints them.
    pub fingerprint: Option<At<String>>,
    /// Instead of a fingerprint, a statement that has it: `"select count(*) from orders where day = $1"`.
    pub statement: Option<At<String>>,
}

/// How much may be inside at once.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedAdmission {
    /// How many transactions of all classes together run at once. The default is no limit.
    pub mpl: Option<At<i64>>,
    /// Whether the governor chooses an `mpl` for a class of the lowest priority that has none: the smallest that costs no
    /// throughput, where more of its transactions run than there are cores and more important ones gain by fewer. It needs a
    /// policy that acts, the server on the governor's machine, and no `target` above. The default is `true`.
    pub auto_mpl: Option<bool>,
}

/// Which transactions are rolled back, and for which.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedPreemption {
    /// Which transactions are rolled back: `track` (none; decide and count only), `never` (none), `pow` (one that blocks and itself
    /// waits), `pabort` (one that blocks), `after(50ms)` (one that blocks for that long). The default is `track`.
    pub policy: Option<At<String>>,
    /// How long a statement of higher priority must have been running before the governor asks what it waits for. The default is
    /// `2ms`.
    pub threshold: Option<At<String>>,
    /// The shortest time between two looks at the server's locks. The default is `2ms`.
    pub look_interval: Option<At<String>>,
    /// Whether a rollback must be expected to save more important waiting than it throws away work. A transaction whose client is
    /// thinking is not weighed. The default is `true`.
    pub weigh: Option<bool>,
    /// Whether a transaction that waits for its client counts as one that waits. The default is `true`.
    pub idle_counts_as_waiting: Option<bool>,
    /// After how many rollbacks a transaction goes before all others; 0 for never. The default is 5.
    pub rollbacks_max: Option<At<i64>>,
    /// How much of a transaction's requests the governor keeps to replay it. The default is `1MiB`.
    pub replay_bytes_max: Option<At<String>>,
    /// Functions (names without schema and arguments) that may run twice although the server cannot prove it: functions in
    /// untrusted languages, or with dynamic SQL, that have no effect outside their transaction. The default is none.
    #[serde(default)]
    pub replay_functions: Vec<At<String>>,
}

/// The cores' shares. They need a governor on the server's machine with the right to change its processes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedCpu {
    /// Whether server processes get the CPU share of their class. The default is `true`.
    pub shares: Option<bool>,
    /// Whether a holder of low priority gets the CPU share of the transaction of high priority that waits for it. The default is
    /// `true`.
    pub inheritance: Option<bool>,
    /// Whether idle cores of the governor's machine stay awake while transactions above the lowest priority are at work, for chains of short
    /// statements. The default is `false`, because it costs power.
    pub awake: Option<bool>,
}

/// The server's disk. Limits need a governor on the server's machine that may make control groups.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedDisk {
    /// Whether the governor limits what classes with `disk = "yields"` read while others wait for the disk. The default is `true`.
    pub limits: Option<bool>,
    /// How much of what the disk gives these classes keep at least, together, in percent: 10 to 90. The default is 50.
    pub floor_percent: Option<At<i64>>,
}

/// The console, reached with psql on the port of the clients.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedAdmin {
    /// The name of the console's database. The default is `plimsoll`.
    pub database: Option<At<String>>,
    /// Beside a server: the console's own address. The default is `127.0.0.1:6432`, unless there is a `socket_folder`.
    pub address: Option<At<String>>,
    /// Beside a server: a folder in which the console's Unix socket is made, with the name `.s.PGSQL.6432`.
    pub socket_folder: Option<At<String>>,
    /// The users of the console, one table each. The default is none.
    #[serde(default, rename = "user")]
    pub users: Vec<At<TypedAdminUser>>,
}

/// A user of the console. Of `verifier`, `password_file`, `password_variable` and `password` exactly one is given.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedAdminUser {
    /// The name.
    pub name: At<String>,
    /// What `govern --hash-password` prints: `SCRAM-SHA-256$…`, as PostgreSQL keeps it.
    pub verifier: Option<At<String>>,
    /// A file with the password or a verifier, which only the governor's user can read.
    pub password_file: Option<At<String>>,
    /// An environment variable with the password or a verifier.
    pub password_variable: Option<At<String>>,
    /// The password itself. Prefer a verifier.
    pub password: Option<At<String>>,
    /// Whether it may change settings and end sessions; otherwise it may only look. The default is `false`.
    #[serde(default)]
    pub may_change: bool,
}

/// Metrics and the live page.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedHttp {
    /// The address, or `off`. The default is `127.0.0.1:6433`. It asks for no password.
    pub address: Option<At<String>>,
    /// Names under which browsers may ask for it, beside its address and `localhost`.
    #[serde(default)]
    pub hosts: Vec<At<String>>,
}

/// What is written to standard error.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedLog {
    /// `text`, or `json` with one object per line. The default is `text`.
    pub format: Option<At<String>>,
    /// `error`, `warn`, `info`, `debug` or `trace`. The default is `info`.
    pub level: Option<At<String>>,
}
