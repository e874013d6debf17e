//! A settings file as typed: every key with its place, nothing checked beyond its type.
//!
//! The descriptions here are also those of the JSON schema and of the table in `docs/governor.md`.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use toml::Spanned;

/// What a governor is told: where clients come in, where the server is, who is important.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(title = "Plimsoll governor", deny_unknown_fields)]
pub struct TypedSettings {
    /// The server that clients are passed on to: `postgres://host:port`, or `postgres:///?host=/folder/of/socket`. User, password
    /// and database are not used: clients bring their own.
    #[schemars(required)]
    pub server: Option<At<String>>,
    /// As whom the governor itself asks the server who waits for whom, and preempts: `postgres://plimsoll@host:port/postgres`.
    /// Without it nothing is preempted and no share of the cores is changed.
    pub control: Option<At<String>>,
    /// The class of whoever no rule names; the one with the lowest priority without it.
    pub default_class: Option<At<String>>,
    /// Users, by exact name, who are let through ungoverned, whatever else is set.
    #[serde(default)]
    pub break_glass: Vec<At<String>>,
    /// Where clients come in.
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
    /// Who is rolled back for whom.
    #[serde(default)]
    pub preemption: TypedPreemption,
    /// The cores' shares.
    #[serde(default)]
    pub cpu: TypedCpu,
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

/// Where clients come in.
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
    /// How long a client may take until it is let in: `15s` without it.
    pub login_timeout: Option<At<String>>,
    /// Threads that relay: one for every two cores without it.
    pub workers: Option<At<i64>>,
    /// How they receive and send: `epoll`, `io_uring`, or `auto` for io_uring where the system has it and allows it; `epoll`
    /// without it.
    pub event_loop: Option<At<String>>,
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
    /// How many of its transactions may be inside at once; any number without it.
    pub mpl: Option<At<i64>>,
    /// How many of its transactions may wait to be let in; one more is refused with 53300. 1000 without it.
    pub queue_max: Option<At<i64>>,
    /// How long a transaction may wait to be let in before it is refused with 53300: `120s` without it.
    pub queue_timeout: Option<At<String>>,
    /// How long a transaction may wait for its client before its session is ended (25P03); for ever without it.
    pub idle_in_transaction_timeout: Option<At<String>>,
    /// Users (patterns with `*`) who may choose it by `SET plimsoll.class` or a tag though rules give them a lower one.
    #[serde(default)]
    pub settable_by: Vec<At<String>>,
    /// What its server processes get of the cores: `untouched`, `nice 10` (-20 to 19), or `idle` for what nobody else wants.
    /// Without it `nice 10` for classes with priority low, `untouched` for others.
    pub cpu: Option<At<String>>,
    /// Folders of control groups, which you have made, in which its server processes are to be: for a disk's bandwidth
    /// (`io.max`), cores (`cpu.weight`, `cpu.idle`) or memory. One, or with version 1 one for each controller.
    #[serde(default)]
    pub control_groups: Vec<At<String>>,
    /// Whether its transactions may be rolled back for those of higher priority; without it, true for priority low.
    pub preemptible: Option<bool>,
    /// Whether what was rolled back is run again where nobody can notice: `true` without it.
    pub replay: Option<bool>,
    /// Whether the clients of this class retry transactions that fail with SQLSTATE 40001. If not, the governor rolls back only
    /// transactions that it can replay, and none whose client is thinking. The default is `false`.
    pub retries: Option<bool>,
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
    /// The fingerprint of a transaction's first statement, 16 hexadecimal digits as SHOW CLIENTS tells them.
    pub fingerprint: Option<At<String>>,
    /// Instead of a fingerprint, a statement that has it: `"select count(*) from orders where day = $1"`.
    pub statement: Option<At<String>>,
}

/// How much may be inside at once.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedAdmission {
    /// How many transactions of all classes together may be inside at once; any number without it.
    pub mpl: Option<At<i64>>,
}

/// Who is rolled back for whom.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedPreemption {
    /// `track` (decide and count, do nothing), `never`, `pow` (whoever blocks and itself waits), `pabort` (whoever blocks), `after(50ms)`
    /// (whoever blocks for that long): `track` without it.
    pub policy: Option<At<String>>,
    /// For how long a statement of higher priority must have been in flight before anybody asks what it waits for: `2ms`
    /// without it.
    pub threshold: Option<At<String>>,
    /// The shortest time between two looks at the server's locks: `2ms` without it.
    pub look_interval: Option<At<String>>,
    /// Whether a transaction that waits for its client counts as one that waits: `true` without it.
    pub idle_counts_as_waiting: Option<bool>,
    /// After how many rollbacks a transaction is promoted above everybody; 0 for never: 5 without it.
    pub rollbacks_max: Option<At<i64>>,
    /// How much of a transaction's requests is kept so that it can be run again: `1MiB` without it.
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
    /// Whether server processes get their class's share: `true` without it.
    pub shares: Option<bool>,
    /// Whether a holder of low priority that one of high priority waits for gets that one's share: `true` without it.
    pub inheritance: Option<bool>,
}

/// The console, reached with psql on the port of the clients.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedAdmin {
    /// The name of the database that is the console: `plimsoll` without it.
    pub database: Option<At<String>>,
    /// Who may use it, one table each; nobody without any.
    #[serde(default, rename = "user")]
    pub users: Vec<At<TypedAdminUser>>,
}

/// A user of the console. Of `verifier`, `password_file`, `password_variable` and `password` exactly one is given.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedAdminUser {
    /// The name.
    pub name: At<String>,
    /// What `plimsoll govern --hash-password` prints: `SCRAM-SHA-256$…`, as PostgreSQL keeps it.
    pub verifier: Option<At<String>>,
    /// A file with the password or a verifier; nobody but the governor's user may be able to read it.
    pub password_file: Option<At<String>>,
    /// An environment variable with the password or a verifier.
    pub password_variable: Option<At<String>>,
    /// The password itself; better not.
    pub password: Option<At<String>>,
    /// Whether it may change anything; otherwise it may look: `false` without it.
    #[serde(default)]
    pub may_change: bool,
}

/// Metrics and the live page.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedHttp {
    /// The address, or `off`: `127.0.0.1:6433` without it. Nobody who can reach it is asked for a password.
    pub address: Option<At<String>>,
    /// Names under which browsers may ask for it, beside its address and `localhost`.
    #[serde(default)]
    pub hosts: Vec<At<String>>,
}

/// What is written to standard error.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TypedLog {
    /// `text` or `json`, one object a line: `text` without it.
    pub format: Option<At<String>>,
    /// `error`, `warn`, `info`, `debug` or `trace`: `info` without it.
    pub level: Option<At<String>>,
}

/// A value and where it stands in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct At<T>(Spanned<T>);

impl<T> At<T> {
    /// The value.
    pub fn value(&self) -> &T {
        self.0.get_ref()
    }

    /// Where it stands, in bytes.
    pub fn span(&self) -> Range<usize> {
        self.0.span()
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
