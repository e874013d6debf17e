//! The settings of a server: defaults from the machine's size, and the options that were given.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use plimsoll_machine::MachineFacts;
use plimsoll_machine::host::Host;
use plimsoll_notation::nearest;
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::{CpuScheduler, ParallelismLimits, ParallelismPolicy, cpu_scheduler, parallelism_policy};
use serde_json::Value;

use super::error::ServerError;
use super::options::{Effect, MachineSize, OptionType, SERVER_OPTIONS, ServerOption, Setting};
use crate::governor::{GovernorMode, GovernorSettings};

/// The options of a server, each with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    machine: MachineSize,
    /// The options that were given; the others have their defaults.
    said: BTreeMap<&'static str, Setting>,
}

/// Isolation levels that PostgreSQL has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees the changes committed before it.
    ReadCommitted,
    /// Each transaction sees the changes committed before its first statement (snapshot isolation).
    RepeatableRead,
    /// As if one transaction ran after the other (serializable snapshot isolation).
    Serializable,
}

impl Isolation {
    /// As it is written in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.sql())
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings::for_this_machine()
    }
}

impl ServerSettings {
    /// Defaults for the memory and the cores that this process may use.
    pub fn for_this_machine() -> ServerSettings {
        let facts = MachineFacts::of(&Host::real());
        let memory_bytes = facts.memory_limit_bytes.unwrap_or(u64::MAX).min(facts.memory_bytes);
        let cores = u32::try_from(facts.cores_usable).unwrap_or(u32::MAX);
        ServerSettings::for_machine(MachineSize { memory_bytes, cores })
    }

    /// Defaults for a machine of that size.
    pub(crate) fn for_machine(machine: MachineSize) -> ServerSettings {
        ServerSettings { machine, said: BTreeMap::new() }
    }

    /// Sets one option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ServerError> {
        let Some(option) = option(name) else {
            let nearest = nearest(name, SERVER_OPTIONS.iter().map(|option| option.name));
            return Err(ServerError::NoSuchOption { name: name.to_owned(), nearest });
        };
        let bad_value = |possible| ServerError::OptionValue {
            name: option.name,
            // It may have a password in it.
            value: if matches!(option.kind, OptionType::Server) { "…" } else { value }.to_owned(),
            possible,
        };
        self.said.insert(option.name, option.kind.parse(value, &self.machine).map_err(bad_value)?);
        Ok(())
    }

    /// The same with options of these values.
    pub fn with(mut self, options: &[(&str, &str)]) -> Result<ServerSettings, ServerError> {
        options.iter().try_for_each(|(name, value)| self.set(name, value))?;
        Ok(self)
    }

    /// The value of an option, for the record; `None` if there is no such option.
    pub fn get(&self, name: &str) -> Option<Value> {
        option(name).map(|option| self.value(option).value())
    }

    /// Whether an option was given, as opposed to having its default.
    pub fn is_set(&self, name: &str) -> bool {
        self.said.contains_key(name)
    }

    /// The PostgreSQL parameters that sessions set, from the options that were given. For the others, a private
    /// server's configuration has the values, and a server that is not ours keeps its own.
    pub(crate) fn session_settings(&self) -> Vec<(String, String)> {
        let said = SERVER_OPTIONS.iter().filter(|option| option.for_any_server && self.is_set(option.name));
        said.flat_map(|option| self.parameters(option)).collect()
    }

    /// The isolation level of transactions.
    pub fn isolation(&self) -> Isolation {
        match self.named("isolation") {
            Setting::Word("serializable") => Isolation::Serializable,
            Setting::Word("repeatable read") => Isolation::RepeatableRead,
            _ => Isolation::ReadCommitted,
        }
    }

    /// The CPU scheduler, which decides the share of a session's server process by its priority.
    pub fn cpu_policy(&self) -> &'static dyn CpuScheduler {
        cpu_scheduler(&self.named("cpu_policy").text()).expect("only names of schedulers are taken")
    }

    /// The most processes that may work on one query.
    pub fn dop(&self) -> u32 {
        self.count("dop").unwrap_or(1)
    }

    /// The policy for the degree of each query; `None` if the server decides.
    pub fn parallelism(&self) -> Option<Arc<dyn ParallelismPolicy>> {
        parallelism_policy(&self.named("parallelism").text())
    }

    pub(crate) fn parallelism_limits(&self) -> ParallelismLimits {
        ParallelismLimits { cores: self.machine.cores.max(1), degree_max: self.dop() }
    }

    /// The governor between clients and the server; `None` if there is none.
    pub fn governor(&self) -> Option<GovernorSettings> {
        let config = self.folder("governor_config").map(Path::to_owned);
        // The file alone implies a governor.
        let mode = match self.is_set("governor") || config.is_none() {
            true => GovernorMode::named(&self.named("governor").text())?,
            false => GovernorMode::ON,
        };
        let time = |name| match self.named(name) {
            Setting::Time(time) => Some(time),
            _ => None,
        };
        Some(GovernorSettings {
            mode,
            config: config.filter(|_| mode == GovernorMode::ON),
            low_mpl: self.count("governor_mpl"),
            low_workers_max: self.count("governor_workers_max"),
            preemption: self.named("governor_preemption").text(),
            threshold: time("governor_threshold").expect("it has a default"),
            look_interval: time("governor_look_interval"),
            low_share: self.named("governor_low_share").text(),
            awake: self.named("governor_awake") == Setting::Switch(true),
            low_floor: self.count("governor_low_floor"),
            pool_size: self.count("governor_pool_size").expect("it has a default"),
            target: match self.named("governor_target") {
                Setting::Text(target) => Some(target),
                _ => None,
            },
            program: self.folder("governor_program").map(Path::to_owned),
        })
    }

    pub(crate) fn has_standby(&self) -> bool {
        self.named("standby") == Setting::Count(1)
    }

    /// Whether backends are in resctrl groups by the cache class of their query.
    pub(crate) fn has_cache_classes(&self) -> bool {
        self.named("cache_classes") == Setting::Switch(true)
    }

    /// The same for the standby, which has no serializable transactions: it uses the nearest level.
    pub(crate) fn on_standby(&self) -> ServerSettings {
        let instead = [("isolation", "repeatable read")];
        let replaced = if self.isolation() == Isolation::Serializable { &instead[..] } else { &[] };
        self.clone().with(replaced).expect("a value of the list")
    }

    /// Options that contradict each other, with the remedy.
    pub fn conflict(&self) -> Option<String> {
        let of_standby =
            ["hot_standby_feedback", "max_standby_streaming_delay"].into_iter().find(|name| self.is_set(name));
        if let Some(name) = of_standby.filter(|_| !self.has_standby()) {
            return Some(format!("option `{name}` is of a standby, and there is none; say standby=1 too"));
        }
        if self.has_cache_classes() && self.has_standby() {
            let why =
                "option `cache_classes` moves processes of the primary, and queries run on the standby; use standby=0";
            return Some(why.to_owned());
        }
        self.conflict_of_governor()
    }

    fn conflict_of_governor(&self) -> Option<String> {
        if self.named("governor_config") == Setting::None || !self.is_set("governor_config") {
            return None;
        }
        let mode = self.named("governor").text();
        if !["none", "off", "on"].contains(&mode.as_str()) {
            return Some(format!(
                "option `governor` is `{mode}`, which leaves out a lever of settings that Plimsoll writes; with \
                 `governor_config` it can be `none`, `off` or `on`, so change the file instead"
            ));
        }
        let is_said =
            |name: &&&str| name.starts_with("governor_") && !["governor_config", "governor_program"].contains(*name);
        let said = self.said.keys().find(is_said)?;
        Some(format!("option `{said}` is for settings that Plimsoll writes; with `governor_config` say it in the file"))
    }

    pub(super) fn bin_folder(&self) -> Option<&Path> {
        self.folder("bin_folder")
    }

    /// The base folder of the server's own folder, if it was given.
    pub(super) fn base_folder(&self) -> Option<&Path> {
        self.folder("folder")
    }

    /// The database that it begins as a copy of. Passwords are looked up now.
    pub(super) fn copy_of(&self) -> Option<ServerUrl> {
        match self.named("copy_of") {
            Setting::Text(url) => ServerUrl::parse(&url).ok(),
            _ => None,
        }
    }

    /// The words before the server's program.
    pub(super) fn wrapper(&self) -> Vec<String> {
        match self.named("wrapper") {
            Setting::Text(words) => words.split_whitespace().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    pub(super) fn allow_tmpfs(&self) -> bool {
        self.named("allow_tmpfs") == Setting::Switch(true)
    }

    /// About how much of the disk the log takes, bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        match self.named("max_wal_size") {
            Setting::Bytes(bytes) => bytes,
            _ => 0,
        }
    }

    /// The number of servers with the same data.
    pub(super) fn copies(&self) -> u64 {
        1 + u64::from(self.has_standby())
    }

    /// The farthest-reaching effect of the options in which these settings differ; `None` if they do not.
    pub(super) fn effect_of_change_to(&self, other: &ServerSettings) -> Option<Effect> {
        let differs = |option: &&ServerOption| self.value(option) != other.value(option);
        SERVER_OPTIONS.iter().filter(differs).map(|option| option.effect).max()
    }

    /// Every PostgreSQL parameter that an option sets, with its value.
    pub(super) fn all_parameters(&self) -> Vec<(String, String)> {
        SERVER_OPTIONS.iter().flat_map(|option| self.parameters(option)).collect()
    }

    fn parameters(&self, option: &ServerOption) -> Vec<(String, String)> {
        let value = self.value(option);
        let named = |name: &str| vec![(name.to_owned(), value.text())];
        match (option.name, &value) {
            // These concern us, not the server.
            (
                "allow_tmpfs" | "bin_folder" | "cache_classes" | "copy_of" | "cpu_policy" | "folder" | "parallelism"
                | "standby" | "wrapper",
                _,
            ) => Vec::new(),
            (name, _) if name.starts_with("governor") => Vec::new(),
            ("isolation", _) => named("default_transaction_isolation"),
            ("max_standby_streaming_delay", Setting::Word(_)) => vec![(option.name.to_owned(), "-1".to_owned())],
            // The session's own process works, too. All queries share the workers: as many as cores, but at least
            // enough for one query.
            ("dop", Setting::Count(dop)) => {
                let workers = dop - 1;
                let of_all = workers.max(self.machine.cores);
                vec![
                    ("max_parallel_workers_per_gather".to_owned(), workers.to_string()),
                    ("max_parallel_workers".to_owned(), of_all.to_string()),
                ]
            }
            (name, _) => named(name),
        }
    }

    fn count(&self, name: &str) -> Option<u32> {
        match self.named(name) {
            Setting::Count(count) => Some(count),
            _ => None,
        }
    }

    fn folder(&self, name: &str) -> Option<&Path> {
        match self.said.get(name) {
            Some(Setting::Folder(path)) => Some(path),
            _ => None,
        }
    }

    fn named(&self, name: &str) -> Setting {
        self.value(option(name).expect("an option of the list"))
    }

    fn value(&self, option: &ServerOption) -> Setting {
        self.said.get(option.name).cloned().unwrap_or_else(|| (option.default)(&self.machine))
    }
}

fn option(name: &str) -> Option<&'static ServerOption> {
    SERVER_OPTIONS.iter().find(|option| option.name == name)
}

#[cfg(test)]
mod tests;
