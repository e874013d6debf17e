//! From a target's URL and options to a database.

use std::collections::BTreeMap;
use std::path::Path;

pub use plimsoll_cluster::options::PRIVATE_URL as CLUSTER_URL;
use plimsoll_cluster::options::{self as cluster_options, ClusterOptions, OptionError};
use plimsoll_duckdb::options::{self as duckdb_options, DuckDbOptions, URL as DUCKDB_URL};
use plimsoll_duckdb::{DuckDb, DuckDbError};
use plimsoll_machine::space::{available_memory, free_disk};
use plimsoll_notation::meant_or_all;
use plimsoll_pg::connection::WireError;
use plimsoll_pg::url::{ServerUrl, UrlError};
use plimsoll_postgres::database::PostgresDatabase;
use plimsoll_postgres::export::ServerSource;
use plimsoll_postgres::governor::GovernorError;
use plimsoll_postgres::server::{PrivateServer, SERVER_OPTIONS, ServerError, ServerSettings};
use plimsoll_workload::database::{Database, DatabaseError, Room};
use serde_json::Value;

use crate::embedded::{self, Embedded, EmbeddedOptions, option_checks, options};

/// The default target.
pub const DEFAULT_URL: &str = "embedded:";

/// A PostgreSQL server that is started for the run.
pub const PRIVATE_URL: &str = "postgres:";

/// A target that was parsed but not opened.
#[derive(Debug, Clone)]
pub struct Target {
    kind: TargetKind,
}

/// The kinds of targets.
#[derive(Debug, Clone)]
enum TargetKind {
    /// The engine in this process.
    Embedded(Box<EmbeddedOptions>),
    /// A PostgreSQL server of our own.
    Private(ServerSettings),
    /// A PostgreSQL server that was not started by us.
    Server(Box<ServerUrl>, ServerSettings),
    /// Workers that answer queries together.
    Cluster(Box<ClusterOptions>),
    /// DuckDB in a process of its own.
    DuckDb(DuckDbOptions),
}

/// An invalid target or option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TargetError {
    #[error(
        "there is no target `{0}`; use `{DEFAULT_URL}` (the engine in this process), `{PRIVATE_URL}` (a PostgreSQL server of its own, \
         removed afterwards), `postgres://user@host:port/database` (a server of yours), `cluster:` (several processes for queries) or \
         `{DUCKDB_URL}` (DuckDB, for queries)"
    )]
    NoSuchTarget(String),
    #[error(transparent)]
    Cluster(#[from] OptionError),
    #[error(transparent)]
    DuckDb(#[from] duckdb_options::OptionError),
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A PostgreSQL server has no such option, or it cannot have that value.
    #[error("{0}")]
    ServerOption(String),
    #[error(
        "option `{0}` is only for a server of our own (`{PRIVATE_URL}`); on yours it is its administrator's to set"
    )]
    NotOurs(String),
    #[error("option `{0}` has no value; write KEY=VALUE")]
    NoValue(String),
    #[error("`embedded:` has no option `{name}`{}", meant_or_all(nearest, embedded::options::known()))]
    NoSuchOption { name: String, nearest: Option<&'static str> },
    /// Options that contradict each other.
    #[error("{0}")]
    Conflict(String),
    #[error("option `{name}` cannot be `{value}`; it can be {possible}")]
    BadValue { name: &'static str, value: String, possible: String },
}

/// Why a target cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The embedded engine.
    #[error(transparent)]
    Embedded(#[from] embedded::OpenError),
    /// A PostgreSQL server of our own.
    #[error(transparent)]
    Private(#[from] ServerError),
    /// The governor between clients and a server.
    #[error(transparent)]
    Governor(#[from] GovernorError),
    /// A PostgreSQL server that was running already.
    #[error(transparent)]
    Server(#[from] DatabaseError),
    /// DuckDB.
    #[error(transparent)]
    DuckDb(#[from] DuckDbError),
    /// A cluster.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(#[from] plimsoll_cluster::ClusterError),
    /// A cluster, of which this program has nothing.
    #[cfg(not(feature = "cluster"))]
    #[error("this program was built without clusters; build it with them: cargo build --release --features cluster")]
    NoClusters,
}

/// A URL without the options after it, and these: `postgres:?standby=1&fsync=off`. Options in the URL of a server that
/// is already running, such as `sslmode`, stay part of that URL.
fn without_options(url: &str) -> (&str, impl Iterator<Item = &str>) {
    let (url, options) = match url.split_once('?') {
        Some((kind @ (DEFAULT_URL | PRIVATE_URL | DUCKDB_URL), options)) => (kind, options),
        Some((cluster, options)) if cluster_options::is_cluster(cluster) => (cluster, options),
        _ => (url, ""),
    };
    (url, options.split('&').filter(|option| !option.is_empty()))
}

/// The name and the value of an option that was typed as `KEY=VALUE`.
fn pair(option: &str) -> Result<(&str, &str), TargetError> {
    option.split_once('=').ok_or_else(|| TargetError::NoValue(option.to_owned()))
}

/// Whether a URL is that of a server that is already running.
fn is_server(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

impl Target {
    /// Parses a URL and `KEY=VALUE` options, which override those in the URL.
    pub fn parse<'a>(url: &'a str, options: impl IntoIterator<Item = &'a str>) -> Result<Self, TargetError> {
        Target::read(url, options.into_iter().map(pair))
    }

    /// The same of options by name.
    pub fn with_options(url: &str, options: &BTreeMap<String, String>) -> Result<Self, TargetError> {
        Target::read(url, options.iter().map(|(name, value)| Ok((name.as_str(), value.as_str()))))
    }

    fn read<'a>(
        url: &'a str,
        options: impl Iterator<Item = Result<(&'a str, &'a str), TargetError>>,
    ) -> Result<Self, TargetError> {
        let (url, behind) = without_options(url);
        let kind = match url {
            DEFAULT_URL => TargetKind::Embedded(Box::default()),
            PRIVATE_URL => TargetKind::Private(ServerSettings::for_this_machine()),
            DUCKDB_URL => TargetKind::DuckDb(DuckDbOptions::default()),
            _ if is_server(url) => {
                TargetKind::Server(Box::new(ServerUrl::parse(url)?), ServerSettings::for_this_machine())
            }
            _ if cluster_options::is_cluster(url) => TargetKind::Cluster(Box::new(ClusterOptions::of_url(url)?)),
            _ => return Err(TargetError::NoSuchTarget(url.to_owned())),
        };
        let mut target = Target { kind };
        behind.map(pair).chain(options).try_for_each(|option| {
            let (name, value) = option?;
            target.set(name, value)
        })?;
        if let TargetKind::Private(settings) | TargetKind::Server(_, settings) = &target.kind
            && let Some(conflict) = settings.conflict()
        {
            return Err(TargetError::ServerOption(conflict));
        }
        if let TargetKind::Embedded(known) = &target.kind
            && let Some(conflict) = option_checks::conflict(known)
        {
            return Err(TargetError::Conflict(conflict));
        }
        if let TargetKind::Cluster(options) = &target.kind {
            options.check()?;
        }
        Ok(target)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TargetError> {
        let refused = |error: ServerError| TargetError::ServerOption(error.to_string());
        match &mut self.kind {
            TargetKind::Embedded(known) => options::set(known, name, value),
            TargetKind::Private(settings) => settings.set(name, value).map_err(refused),
            TargetKind::Cluster(options) => Ok(options.set(name, value)?),
            TargetKind::DuckDb(options) => Ok(options.set(name, value)?),
            TargetKind::Server(_, settings) => {
                if SERVER_OPTIONS.iter().any(|option| option.name == name && !option.for_any_server) {
                    return Err(TargetError::NotOurs(name.to_owned()));
                }
                settings.set(name, value).map_err(refused)
            }
        }
    }

    /// The names of the options that a target has; empty if there is no such target.
    pub fn option_names(url: &str) -> Vec<&'static str> {
        match without_options(url).0 {
            DEFAULT_URL => options::names().collect(),
            PRIVATE_URL => SERVER_OPTIONS.iter().map(|option| option.name).collect(),
            DUCKDB_URL => duckdb_options::option_names().collect(),
            url if is_server(url) => {
                SERVER_OPTIONS.iter().filter(|option| option.for_any_server).map(|option| option.name).collect()
            }
            url if cluster_options::is_cluster(url) => cluster_options::option_names(url),
            _ => Vec::new(),
        }
    }

    /// Whether clients can log in as different users: on any server, but not on the engine in this process.
    pub fn has_users(url: &str) -> bool {
        without_options(url).0 == PRIVATE_URL || is_server(url)
    }

    /// The URL, without the password that it may have.
    pub fn url(&self) -> String {
        match &self.kind {
            TargetKind::Embedded(_) => DEFAULT_URL.to_owned(),
            TargetKind::Private(_) => PRIVATE_URL.to_owned(),
            TargetKind::Server(url, _) => url.to_string(),
            TargetKind::Cluster(options) => options.url(),
            TargetKind::DuckDb(_) => DUCKDB_URL.to_owned(),
        }
    }

    /// Every setting by name, for the record. A setting that is left to a server not started by us is null.
    pub fn settings(&self) -> BTreeMap<String, Value> {
        let options: BTreeMap<String, Value> = match &self.kind {
            TargetKind::Embedded(known) => options::settings(known),
            TargetKind::Private(settings) => {
                let of = |name: &'static str| (name.to_owned(), settings.get(name).unwrap_or_default());
                SERVER_OPTIONS.iter().map(|option| of(option.name)).collect()
            }
            TargetKind::Server(_, settings) => {
                let said = |name: &'static str| {
                    let value = settings.get(name).filter(|_| settings.is_set(name)).unwrap_or_default();
                    (name.to_owned(), value)
                };
                let possible = SERVER_OPTIONS.iter().filter(|option| option.for_any_server);
                possible.map(|option| said(option.name)).collect()
            }
            TargetKind::Cluster(options) => {
                options.settings().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }
            TargetKind::DuckDb(options) => options.settings().map(|(name, value)| (name.to_owned(), value)).collect(),
        };
        let options = options.into_iter().map(|(name, value)| (format!("target.{name}"), value));
        options.chain([("target.url".to_owned(), self.url().into())]).collect()
    }

    /// Where its data will lie and how much fits; `None` for a server not started by us.
    pub fn room(&self) -> Option<Room> {
        match &self.kind {
            TargetKind::Embedded(_) | TargetKind::DuckDb(_) => {
                Some(Room { place: "memory".to_owned(), free_bytes: available_memory()? })
            }
            TargetKind::Private(settings) => settings.room(),
            TargetKind::Server(..) => None,
            // Files take much less than the tables of an engine, which is what a workload estimates.
            TargetKind::Cluster(options) if options.export_every.is_none() => None,
            TargetKind::Cluster(options) => {
                let free_bytes = available_memory()?.min(free_disk(&options.folder).ok()?);
                Some(Room { place: format!("memory and {}", options.folder.display()), free_bytes })
            }
        }
    }

    /// Fails if this machine lacks something that the options require; [`open`](Self::open) does so, too.
    pub fn check_machine(&self) -> Result<(), OpenError> {
        let TargetKind::Embedded(known) = &self.kind else { return Ok(()) };
        option_checks::lacking(known).map_or(Ok(()), |lacking| Err(embedded::OpenError::Lacking(lacking).into()))
    }

    /// The folder in which the embedded engine keeps its database; `None` for other targets, and if it keeps none.
    pub fn data_folder(&self) -> Option<&Path> {
        let TargetKind::Embedded(options) = &self.kind else { return None };
        options.log.data_folder.as_deref()
    }

    /// The state of all tables of a server of the user's at this moment; `None` for other targets.
    pub fn server_source(&self) -> Option<Result<ServerSource, WireError>> {
        let TargetKind::Server(url, _) = &self.kind else { return None };
        Some(ServerSource::open(url))
    }

    /// Whether it is the embedded engine.
    pub fn is_embedded(&self) -> bool {
        matches!(self.kind, TargetKind::Embedded(_))
    }

    /// Opens it.
    pub fn open(&self) -> Result<Box<dyn Database>, OpenError> {
        match &self.kind {
            TargetKind::Embedded(options) => Ok(Box::new(Embedded::new(EmbeddedOptions::clone(options))?)),
            TargetKind::Private(settings) => {
                let database = PostgresDatabase::private(PrivateServer::start(settings.clone())?);
                database.govern()?;
                Ok(Box::new(database))
            }
            TargetKind::Server(url, settings) => {
                let database = PostgresDatabase::connect(ServerUrl::clone(url), settings.clone())?;
                database.govern()?;
                Ok(Box::new(database))
            }
            TargetKind::Cluster(options) => open_cluster(options),
            TargetKind::DuckDb(options) => Ok(Box::new(DuckDb::open(options.clone())?)),
        }
    }
}

#[cfg(feature = "cluster")]
fn open_cluster(options: &ClusterOptions) -> Result<Box<dyn Database>, OpenError> {
    let program = std::env::current_exe().unwrap_or_else(|_| "plimsoll".into());
    Ok(Box::new(plimsoll_cluster::ClusterDatabase::open(options, &program, crate::cluster::loader)?))
}

#[cfg(not(feature = "cluster"))]
fn open_cluster(_: &ClusterOptions) -> Result<Box<dyn Database>, OpenError> {
    Err(OpenError::NoClusters)
}

#[cfg(test)]
mod tests {
    use plimsoll_policy::{CPU_SCHEDULERS, LOCK_SCHEDULERS};

    use super::*;

    /// Options of the embedded engine are recorded as they were given.
    fn assert_recorded(said: &[&str]) {
        let settings = Target::parse("embedded:", said.iter().copied()).expect("good").settings();
        for setting in said {
            let (name, value) = setting.split_once('=').expect("a pair");
            let found = &settings[&format!("target.{name}")];
            assert_eq!(found.as_str().map_or_else(|| found.to_string(), str::to_owned), value, "{name}");
        }
    }

    #[test]
    fn options_are_set_and_recorded() {
        let target = Target::parse("embedded:", ["dop=3", "lock_policy=nprio", "durability=sync"]).expect("good");
        let settings = target.settings();
        assert_eq!(settings["target.dop"], 3);
        assert_eq!(settings["target.lock_policy"], "nprio");
        assert_eq!(settings["target.durability"], "sync");
        assert_eq!(settings["target.log_folder"], Value::Null);
        assert_eq!(settings["target.data_folder"], Value::Null);
        assert_eq!(settings["target.checkpoint_mib"], 256);
        assert_eq!(settings["target.url"], "embedded:");
        assert_eq!(
            (&settings["target.column_store"], &settings["target.memory_grant_mib"]),
            (&"memory".into(), &"unlimited".into())
        );
        assert_eq!(
            [&settings["target.cpu_policy"], &settings["target.early_lock_release"]],
            [&Value::from("none"), &Value::from("off")]
        );
        assert_eq!(settings["target.starvation_bound"], 5);
        assert_eq!(settings["target.undo_delay"], "0ms");
        let locks = [
            "lock_policy=cr(1s)",
            "cpu_policy=p-cpu",
            "starvation_bound=none",
            "early_lock_release=on",
            "undo_delay=12ms",
        ];
        assert_recorded(&locks);
        let target = Target::parse("embedded:", ["column_store=file", "column_folder=/data", "memory_grant_mib=64"])
            .expect("good");
        let settings = target.settings();
        assert_eq!(
            (&settings["target.column_store"], &settings["target.column_folder"]),
            (&"file".into(), &"/data".into())
        );
        assert_eq!(settings["target.memory_grant_mib"], 64);
    }

    #[test]
    fn servers_have_their_own_options_and_their_passwords_stay_secret() {
        let private = Target::parse("postgres:", ["shared_buffers=128MB", "dop=2"]).expect("good").settings();
        assert_eq!((&private["target.shared_buffers"], &private["target.dop"]), (&"128MB".into(), &2.into()));
        assert_eq!(private["target.fsync"], "on");
        let yours = Target::parse("postgres://shop:secret@db.example:5433/shop", ["work_mem=64MB"]).expect("good");
        let settings = yours.settings();
        assert_eq!(settings["target.work_mem"], "64MB");
        // An option that was not given keeps that server's value.
        assert_eq!(settings["target.jit"], Value::Null);
        assert!(!format!("{settings:?} {yours:?}").contains("secret"));
        assert!(Target::option_names("postgres://db.example/shop").contains(&"dop"));
        assert!(!Target::option_names("postgres://db.example/shop").contains(&"fsync"));
        assert!(Target::option_names("sqlite:").is_empty());
    }

    #[test]
    fn options_can_stand_behind_the_url() {
        let target = Target::parse("postgres:?standby=1&fsync=off", ["fsync=on"]).expect("good");
        let settings = target.settings();
        assert_eq!((&settings["target.standby"], &settings["target.fsync"]), (&1.into(), &"on".into()));
        assert_eq!((target.url().as_str(), Target::has_users("postgres:?standby=1")), ("postgres:", true));
        assert!(Target::option_names("postgres:?standby=1").contains(&"max_standby_streaming_delay"));
        for url in ["embedded:?dop=3", "duckdb:?dop=3"] {
            let target = Target::parse(url, None).expect("good");
            assert_eq!(
                (target.settings()["target.dop"].clone(), target.url().as_str()),
                (3.into(), &url[..url.len() - 6])
            );
        }
    }

    #[test]
    fn options_of_freshness_are_recorded_and_may_not_contradict_each_other() {
        let said = [
            "propagation=background",
            "freshness=bounded(250ms)",
            "propagation_threads=2",
            "propagation_age=500ms",
            "delta_mib=64",
            "delta_full=grow",
            "transaction_cores=0",
            "query_cores=siblings:0-1",
            "propagation_cores=all",
            "propagation_oversubscribe=on",
        ];
        assert_recorded(&said);
        assert_eq!(Target::parse("embedded:", []).expect("good").settings()["target.propagation"], "off");
        for (said, expect) in [
            (["propagation=paused", "freshness=snapshot"], "propagation `paused` has no rounds of its own"),
            (["freshness=snapshot", "propagation=blocking"], "propagation `blocking` has no rounds of its own"),
            (["propagation=background", "column_store=file"], "use `column_store=memory` or `propagation=off`"),
        ] {
            let error = Target::parse("embedded:", said).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_what_can() {
        let either = |names: Vec<&str>| format!("`{}`", names.join("` or `"));
        let locks = either(LOCK_SCHEDULERS.iter().map(|kind| kind.example).collect());
        let cores = either(CPU_SCHEDULERS.iter().map(|scheduler| scheduler.name()).collect());
        for (url, option, expect) in [
            ("postgress:", None, "there is no target `postgress:`; use `embedded:`"),
            ("postgres:", Some("shared_bufers=1GB"), "did you mean `shared_buffers`?"),
            ("postgres:", Some("fsync=maybe"), "it can be `on` or `off`"),
            ("postgres:?stanby=1", None, "did you mean `standby`?"),
            ("postgres:", Some("max_standby_streaming_delay=1s"), "say standby=1 too"),
            ("postgres://localhost/shop", Some("standby=1"), "`standby` is only for a server of our own"),
            ("postgres://localhost/shop", Some("fsync=off"), "`fsync` is only for a server of our own"),
            ("postgres://localhost/shop", Some("durability=sync"), "has no option `durability`"),
            ("postgres://localhost/shop?sslmod=require", None, "sslmode"),
            ("duckdb:", Some("dopp=2"), "`duckdb:` has no option `dopp` (did you mean `dop`?)"),
            ("embedded:", Some("dop"), "has no value; write KEY=VALUE"),
            ("embedded:", Some("lock_polcy=nprio"), "did you mean `lock_policy`?"),
            ("embedded:", Some("lock_policy=fair"), format!("it can be {locks}").as_str()),
            ("embedded:", Some("lock_policy=pwo"), format!("{locks} (did you mean `pow`?)").as_str()),
            ("embedded:", Some("lock_policy=cr(300)"), "(did you mean `cr(300ms)`?)"),
            ("embedded:", Some("lock_policy=crr(5ms)"), "(did you mean `cr(300ms)`?)"),
            ("embedded:", Some("cpu_policy=cpu-pri"), format!("{cores} (did you mean `cpu-prio`?)").as_str()),
            ("embedded:", Some("starvation_bound=0"), "for with 0 every transaction would go before every other"),
            ("embedded:", Some("starvation_bound=-1"), "it can be `none` or a number from 1"),
            ("embedded:", Some("early_lock_release=yes"), "it can be `on` or `off`"),
            ("embedded:", Some("undo_delay=12"), "it can be a length of time up to an hour, such as `12ms`"),
            ("embedded:", Some("dop=0"), "it can be a number from 1 to 1024"),
            ("embedded:", Some("batch_rows=0"), "it can be a number from 1 to 65536"),
            ("embedded:", Some("column_store=disk"), "it can be `memory` or `file`"),
            ("embedded:", Some("memory_grant_mib=0"), "it can be `unlimited` or a number from 1 to 1048576"),
            ("embedded:", Some("durability=full"), "it can be `none`, `async` or `sync`"),
            ("embedded:", Some("log_folder="), "it can be a folder on a disk"),
            ("embedded:", Some("propagation=backgroud"), "(did you mean `background`?)"),
            ("embedded:", Some("propagation_threads=0"), "it can be a number from 1 to 1024"),
            ("embedded:", Some("propagation_age=0ms"), "it can be a length of time above zero"),
            (
                "embedded:",
                Some("query_cores=x"),
                "it can be `all`, a list of cores such as `0-1,3`, or `siblings:` and a list",
            ),
            ("embedded:", Some("propagation_oversubscribe=yes"), "it can be `on` or `off`"),
            ("postgres:", Some("propagation=background"), "has no option `propagation`"),
            ("embedded:", Some("freshness=bounded"), "(did you mean `bounded(100ms)`?)"),
            ("embedded:", Some("freshness=bounded(100)"), "it can be `latest` or `snapshot` or `bounded(100ms)`"),
            ("embedded:", Some("delta_mib=0"), "it can be a number from 1 to 1048576"),
            ("embedded:", Some("delta_full=stal"), "(did you mean `stall`?)"),
            ("embedded:", Some("data_folder="), "it can be the path of a folder"),
            ("embedded:", Some("checkpoint_mib=0"), "it can be a number from 1 to 1048576"),
        ] {
            let error = Target::parse(url, option).expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}");
        }
    }
}
