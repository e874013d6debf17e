//! What a user can say of a cluster: `cluster:?workers=4&cores=0.4`, `cluster://one:7450,two:7450?data=/srv/export`.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::groups::quota::CORES_MIN;
use plimsoll_machine::thread_share::ThreadShare;
use plimsoll_notation::{meant_or_all, nearest};
use plimsoll_policy::{parse_length, write_length};
use serde_json::Value;

/// A cluster of our own, ended with the run.
pub const PRIVATE_URL: &str = "cluster:";

/// The beginning of the URL of a cluster of the user's.
const OWN_PREFIX: &str = "cluster://";

/// The most workers that are started. Each is a process with threads and memory of its own.
const WORKERS_MAX: usize = 64;

/// A wrong URL or option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A worker's address cannot be read.
    #[error("`{0}` is not the address of a worker; write cluster://HOST:PORT,HOST:PORT")]
    Address(String),
    /// There is no such option.
    #[error("`cluster:` has no option `{name}`{}", meant_or_all(.nearest, OPTIONS.iter().map(|option| (option.name, option.meaning))))]
    NoSuchOption {
        /// As typed.
        name: String,
        /// What may have been meant.
        nearest: Option<&'static str>,
    },
    /// An option cannot have this value.
    #[error("option `{name}` cannot be `{value}`; it can be {possible}")]
    BadValue {
        /// The option.
        name: &'static str,
        /// As typed.
        value: String,
        /// What it can be.
        possible: &'static str,
    },
    /// An option that only one kind of cluster has.
    #[error("option `{name}` is only for {of}")]
    OtherKind {
        /// The option.
        name: &'static str,
        /// The kind that has it.
        of: &'static str,
    },
    /// A cluster of the user's without data.
    #[error(
        "a cluster of yours reads an export that its workers have, too; add ?data=DIR with the folder of that export here"
    )]
    NoData,
    /// Transactions on data that are only read.
    #[error("export_every is for data of the run's own, and data={} is only read; leave one of the two out", .0.display())]
    OnlyRead(PathBuf),
}

/// The settings of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterOptions {
    /// The addresses of workers, `HOST:PORT`; none if workers are started for the run.
    pub hosts: Vec<String>,
    /// How many workers are started.
    pub workers: usize,
    /// The cores that each started worker may use, by a control group; `None` for no limit.
    pub cores: Option<f64>,
    /// The memory that the operators of each started worker may keep, MiB; `None` for no limit.
    pub memory_mib: Option<usize>,
    /// The share of the cores that workers and exports have beside transactions.
    pub query_share: ThreadShare,
    /// The partitions of a stage on each worker.
    pub dop: usize,
    /// Whether the number of a stage's tasks is decided by the rows that reach it while the query runs.
    pub adaptive_stages: bool,
    /// How often what transactions have changed is exported; `None` if there are none.
    pub export_every: Option<Duration>,
    /// The folder of the export that is read; `None` if the run makes one.
    pub data: Option<PathBuf>,
    /// The folder for an export that the run makes, and for what queries spill.
    pub folder: PathBuf,
    /// The part of a table, in KiB of its files, from which another partition pays.
    pub partition_kib: usize,
    /// Whether the smaller side of a join may be sent to all workers.
    pub broadcast_joins: bool,
    /// The file of the secret that the user's workers ask for; `None` if the environment has it.
    pub secret_file: Option<PathBuf>,
    /// The file of the authorities that sign certificates of the user's workers; `None` for connections without TLS.
    pub tls_ca: Option<PathBuf>,
}

/// Which clusters have an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Any.
    Any,
    /// Those that are started for the run.
    Private,
    /// Those of the user's.
    Own,
}

/// An option by name.
struct ClusterOption {
    name: &'static str,
    meaning: &'static str,
    possible: &'static str,
    kind: Kind,
    set: fn(&mut ClusterOptions, &str) -> Option<()>,
    get: fn(&ClusterOptions) -> Value,
}

const NUMBER: &str = "a whole number from 1";

const OPTIONS: &[ClusterOption] = &[
    ClusterOption {
        name: "workers",
        meaning: "worker processes that are started",
        possible: "a whole number from 1 to 64",
        kind: Kind::Private,
        set: |options, value| count(value).filter(|count| *count <= WORKERS_MAX).map(|count| options.workers = count),
        get: |options| options.workers.into(),
    },
    ClusterOption {
        name: "cores",
        meaning: "cores that each worker may use",
        possible: "a number of cores from 0.01, or unlimited",
        kind: Kind::Private,
        set: |options, value| {
            let cores = limit(value, |text| text.parse().ok().filter(|cores| *cores >= CORES_MIN));
            cores.map(|cores| options.cores = cores)
        },
        get: |options| options.cores.map_or_else(|| "unlimited".into(), Value::from),
    },
    ClusterOption {
        name: "memory_mib",
        meaning: "MiB that the operators of each worker may keep",
        possible: "a whole number from 1, or unlimited",
        kind: Kind::Private,
        set: |options, value| limit(value, count).map(|given| options.memory_mib = given),
        get: |options| options.memory_mib.map_or_else(|| "unlimited".into(), Value::from),
    },
    ClusterOption {
        name: "query_share",
        meaning: "the CPU share of workers and exports beside transactions",
        possible: "`untouched`, `nice-1` to `nice-19`, or `idle`",
        kind: Kind::Private,
        set: |options, value| ThreadShare::parse(value).map(|share| options.query_share = share),
        get: |options| options.query_share.to_string().into(),
    },
    ClusterOption {
        name: "export_every",
        meaning: "how often what transactions have changed is exported for queries",
        possible: "a length of time above zero and up to an hour, such as `1s`, or never, which refuses transactions",
        kind: Kind::Private,
        set: |options, value| {
            let every =
                if value == "never" { None } else { Some(parse_length(value).filter(|every| !every.is_zero())?) };
            options.export_every = every;
            Some(())
        },
        get: |options| options.export_every.map_or_else(|| "never".into(), |every| write_length(every).into()),
    },
    ClusterOption {
        name: "dop",
        meaning: "partitions of a stage on each worker",
        possible: NUMBER,
        kind: Kind::Any,
        set: |options, value| count(value).map(|given| options.dop = given),
        get: |options| options.dop.into(),
    },
    ClusterOption {
        name: "parallelism",
        meaning: "what decides how many workers a stage has",
        possible: "planner, by the files' sizes before the query begins, or adaptive, by the rows that reach the stage",
        kind: Kind::Any,
        set: |options, value| {
            let is_adaptive = match value {
                "planner" => false,
                "adaptive" => true,
                _ => return None,
            };
            options.adaptive_stages = is_adaptive;
            Some(())
        },
        get: |options| if options.adaptive_stages { "adaptive" } else { "planner" }.into(),
    },
    ClusterOption {
        name: "data",
        meaning: "the folder of an export to read",
        possible: "a folder",
        kind: Kind::Any,
        set: |options, value| folder(value).map(|path| options.data = Some(path)),
        get: |options| options.data.as_ref().map_or(Value::Null, |folder| folder.display().to_string().into()),
    },
    ClusterOption {
        name: "folder",
        meaning: "where the run's export and what queries spill lie",
        possible: "a folder",
        kind: Kind::Private,
        set: |options, value| folder(value).map(|given| options.folder = given),
        get: |options| options.folder.display().to_string().into(),
    },
    ClusterOption {
        name: "partition_kib",
        meaning: "KiB of a table's files from which another partition pays",
        possible: NUMBER,
        kind: Kind::Any,
        set: |options, value| count(value).map(|given| options.partition_kib = given),
        get: |options| options.partition_kib.into(),
    },
    ClusterOption {
        name: "broadcast_joins",
        meaning: "whether the smaller side of a join may be sent to all workers",
        possible: "on or off",
        kind: Kind::Any,
        set: |options, value| switch(value).map(|given| options.broadcast_joins = given),
        get: |options| if options.broadcast_joins { "on" } else { "off" }.into(),
    },
    ClusterOption {
        name: "secret_file",
        meaning: "the file with the workers' secret",
        possible: "a file",
        kind: Kind::Own,
        set: |options, value| folder(value).map(|path| options.secret_file = Some(path)),
        get: |options| options.secret_file.as_ref().map_or(Value::Null, |file| file.display().to_string().into()),
    },
    ClusterOption {
        name: "tls_ca",
        meaning: "the file of the authority that has signed the workers' certificates",
        possible: "a file",
        kind: Kind::Own,
        set: |options, value| folder(value).map(|path| options.tls_ca = Some(path)),
        get: |options| options.tls_ca.as_ref().map_or(Value::Null, |file| file.display().to_string().into()),
    },
];

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count > 0)
}

fn limit<T>(text: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "unlimited" { Some(None) } else { read(text).map(Some) }
}

fn folder(text: &str) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// Whether a URL without options is that of a cluster.
pub fn is_cluster(url: &str) -> bool {
    url == PRIVATE_URL || url.starts_with(OWN_PREFIX)
}

/// The names of the options that the cluster with this URL has.
pub fn option_names(url: &str) -> Vec<&'static str> {
    let wanted = if url == PRIVATE_URL { Kind::Private } else { Kind::Own };
    OPTIONS
        .iter()
        .filter(|option| option.kind == Kind::Any || option.kind == wanted)
        .map(|option| option.name)
        .collect()
}

impl ClusterOptions {
    /// The defaults for a URL without options.
    pub fn of_url(url: &str) -> Result<ClusterOptions, OptionError> {
        let hosts = url.strip_prefix(OWN_PREFIX).map(addresses).transpose()?.unwrap_or_default();
        Ok(ClusterOptions {
            hosts,
            workers: 2,
            cores: None,
            memory_mib: None,
            query_share: ThreadShare::default(),
            dop: cores_usable(),
            adaptive_stages: false,
            export_every: None,
            data: None,
            folder: PathBuf::from("/var/tmp"),
            partition_kib: 1024,
            broadcast_joins: false,
            secret_file: None,
            tls_ca: None,
        })
    }

    /// Whether its workers are started for the run.
    pub fn is_private(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Sets an option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let names = || OPTIONS.iter().map(|option| option.name);
        let option = OPTIONS
            .iter()
            .find(|option| option.name == name)
            .ok_or_else(|| OptionError::NoSuchOption { name: name.to_owned(), nearest: nearest(name, names()) })?;
        let other_kind = |of| Err(OptionError::OtherKind { name: option.name, of });
        match (option.kind, self.is_private()) {
            (Kind::Private, false) => return other_kind("a cluster that is started for the run (`cluster:`)"),
            (Kind::Own, true) => return other_kind("a cluster of yours (`cluster://HOST:PORT`)"),
            _ => {}
        }
        let bad = || OptionError::BadValue { name: option.name, value: value.to_owned(), possible: option.possible };
        (option.set)(self, value).ok_or_else(bad)
    }

    /// Fails if the options do not make a cluster together.
    pub fn check(&self) -> Result<(), OptionError> {
        match &self.data {
            None if !self.is_private() => Err(OptionError::NoData),
            Some(folder) if self.export_every.is_some() => Err(OptionError::OnlyRead(folder.clone())),
            _ => Ok(()),
        }
    }

    /// The URL without options.
    pub fn url(&self) -> String {
        if self.is_private() { PRIVATE_URL.to_owned() } else { format!("{OWN_PREFIX}{}", self.hosts.join(",")) }
    }

    /// Every option that such a cluster has, for the record.
    pub fn settings(&self) -> Vec<(&'static str, Value)> {
        let names = option_names(&self.url());
        let own = OPTIONS.iter().filter(|option| names.contains(&option.name));
        own.map(|option| (option.name, (option.get)(self))).collect()
    }
}

/// The addresses of workers, each `HOST:PORT`.
fn addresses(text: &str) -> Result<Vec<String>, OptionError> {
    let address = |address: &str| {
        let is_good =
            address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if is_good { Ok(address.to_owned()) } else { Err(OptionError::Address(address.to_owned())) }
    };
    text.trim_end_matches('/').split(',').map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_options_are_read_and_recorded() {
        let mut options = ClusterOptions::of_url("cluster:").expect("good");
        for (name, value) in [
            ("workers", "4"),
            ("cores", "0.4"),
            ("memory_mib", "64"),
            ("broadcast_joins", "on"),
            ("export_every", "500ms"),
        ] {
            options.set(name, value).expect("good");
        }
        let settings: Vec<String> = options.settings().iter().map(|(name, value)| format!("{name}={value}")).collect();
        for expect in
            ["workers=4", "cores=0.4", "memory_mib=64", "broadcast_joins=\"on\"", "data=null", "export_every=\"500ms\""]
        {
            assert!(settings.iter().any(|setting| setting == expect), "{expect}: {settings:?}");
        }
        let hosts = ClusterOptions::of_url("cluster://one:7450,[::1]:7450").expect("good");
        assert_eq!(hosts.hosts, ["one:7450", "[::1]:7450"]);
        assert_eq!(hosts.url(), "cluster://one:7450,[::1]:7450");
    }

    #[test]
    fn mistakes_are_named_with_the_remedy() {
        let check = |url: &str, name: &str, value: &str, expect: &str| {
            let set = ClusterOptions::of_url(url).and_then(|mut options| {
                options.set(name, value)?;
                options.check()
            });
            let error = set.expect_err(expect).to_string();
            assert!(error.contains(expect), "{error}, not {expect}");
        };
        check("cluster:", "worker", "2", "did you mean `workers`?");
        check("cluster:", "workers", "65", "it can be a whole number from 1 to 64");
        check("cluster:", "cores", "0", "it can be a number of cores from 0.01, or unlimited");
        check("cluster:", "export_every", "soon", "it can be a length of time");
        check("cluster:", "secret_file", "x", "only for a cluster of yours");
        check("cluster:", "tls_ca", "x", "only for a cluster of yours");
        check("cluster://one:1", "workers", "2", "only for a cluster that is started for the run");
        check("cluster://one:1", "dop", "2", "add ?data=DIR");
        check("cluster://one", "dop", "2", "`one` is not the address of a worker");
        let mut both = ClusterOptions::of_url("cluster:").expect("good");
        both.set("data", "out").and_then(|()| both.set("export_every", "1s")).expect("each is good");
        assert_eq!(both.check(), Err(OptionError::OnlyRead("out".into())));
    }
}
