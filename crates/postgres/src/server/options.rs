//! The options of a server: their possible values, and when a new value takes effect.
//!
//! To add one, add an entry to [`SERVER_OPTIONS`] (`list`). If PostgreSQL has a parameter of that name and kind,
//! nothing else is needed; other options are interpreted in [`settings`](super::settings).

mod list;

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::{
    CPU_SCHEDULERS, CpuScheduler, PARALLELISM_POLICIES, PreemptionPolicy, Target, parallelism_policy,
    preemption_policies,
};
use serde_json::Value;

use super::quantity::{format_bytes, format_time, parse_bytes, parse_time};
pub use list::{DOP_MAX, SERVER_OPTIONS};

/// When a new value of an option takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// In sessions opened later.
    Session,
    /// Everywhere at once: the server reloads its configuration.
    Reload,
    /// After a restart of the server with its data.
    Restart,
    /// Only in a new server.
    NewServer,
}

/// An option of a server.
#[derive(Debug)]
pub struct ServerOption {
    /// Its name; that of PostgreSQL's parameter if one exists.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// When a new value takes effect.
    pub effect: Effect,
    /// Whether it is also possible for a server that is not ours: a session of any user can set it for itself.
    pub for_any_server: bool,
    pub(super) kind: OptionType,
    /// Its default.
    pub(super) default: fn(&MachineSize) -> Setting,
}

/// The facts about the machine that defaults and bounds depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineSize {
    /// Memory that this process may use, bytes.
    pub memory_bytes: u64,
    /// Cores that this process may use.
    pub cores: u32,
}

#[derive(Debug)]
pub(super) enum OptionType {
    /// An amount of memory or disk within bounds, bytes.
    Bytes { least: u64, most: fn(&MachineSize) -> u64 },
    /// A time within bounds.
    Time { least: Duration, most: Duration },
    /// `on` or `off`.
    Switch,
    /// A whole number within bounds.
    Count { least: u32, most: u32 },
    /// A number within bounds.
    Number { least: f64, most: f64 },
    /// One of these.
    Word(&'static [&'static str]),
    /// A CPU scheduler by name. The server does not ask it when one transaction blocks another, so only schedulers that
    /// leave holders alone are allowed.
    CpuPolicy,
    /// The policy for the degree of parallelism of each query.
    Parallelism,
    /// A governor's preemption policy.
    Preemption,
    /// A governor's target, or `none`.
    Target,
    /// As another type, or `none`.
    OrNone(&'static OptionType),
    /// A path.
    Folder,
    /// The path of a file, or `none`.
    File,
    /// A program and its arguments.
    Command,
    /// The URL of a server, without a password, because settings are kept with results.
    Server,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    Bytes(u64),
    Time(Duration),
    Switch(bool),
    Count(u32),
    Number(f64),
    Word(&'static str),
    Text(String),
    Folder(PathBuf),
    /// Not given.
    None,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The names of the CPU schedulers that a server's sessions can use.
pub(super) fn cpu_policies() -> impl Iterator<Item = &'static str> + Clone {
    CPU_SCHEDULERS.iter().filter(|policy| policy.leaves_holders_alone()).map(|policy| CpuScheduler::name(*policy))
}

/// Every option with its description, for error messages.
pub(super) fn known_options() -> impl Iterator<Item = (&'static str, &'static str)> {
    SERVER_OPTIONS.iter().map(|option| (option.name, option.about))
}

impl OptionType {
    /// Parses a text; the error lists the possible values.
    pub(super) fn parse(&self, text: &str, machine: &MachineSize) -> Result<Setting, String> {
        let understood = match self {
            OptionType::Bytes { least, most } => {
                parse_bytes(text).filter(|bytes| (*least..=most(machine)).contains(bytes)).map(Setting::Bytes)
            }
            OptionType::Time { least, most } => {
                parse_time(text).filter(|time| (least..=most).contains(&time)).map(Setting::Time)
            }
            OptionType::OrNone(_) if text == "none" => Some(Setting::Word("none")),
            OptionType::OrNone(kind) => kind.parse(text, machine).ok(),
            OptionType::Switch => match text {
                "on" => Some(Setting::Switch(true)),
                "off" => Some(Setting::Switch(false)),
                _ => None,
            },
            OptionType::Count { least, most } => {
                text.parse().ok().filter(|count| (least..=most).contains(&count)).map(Setting::Count)
            }
            OptionType::Number { least, most } => {
                text.parse().ok().filter(|number| (least..=most).contains(&number)).map(Setting::Number)
            }
            // With hyphens it need not be quoted in a shell.
            OptionType::Word(words) => words
                .iter()
                .find(|word| **word == text || word.replace(' ', "-") == text)
                .map(|word| Setting::Word(word)),
            OptionType::CpuPolicy => cpu_policies().find(|name| *name == text).map(Setting::Word),
            OptionType::Parallelism if text == "planner" => Some(Setting::Word("planner")),
            OptionType::Parallelism => parallelism_policy(text)
                .filter(|policy| policy.degree_max(1) <= DOP_MAX)
                .map(|policy| Setting::Text(policy.name().into_owned())),
            OptionType::Preemption => PreemptionPolicy::parse(text).map(|policy| Setting::Text(policy.to_string())),
            OptionType::Target if text == "none" => Some(Setting::None),
            OptionType::Target => text.parse().ok().map(|target: Target| Setting::Text(target.to_string())),
            OptionType::Folder => is_plain_path(text).then(|| Setting::Folder(text.into())),
            OptionType::File if text == "none" => Some(Setting::None),
            OptionType::File => {
                let is_path = !text.is_empty() && !text.chars().any(char::is_control);
                is_path.then(|| Setting::Folder(text.into()))
            }
            OptionType::Server if text == "none" => Some(Setting::None),
            OptionType::Server => is_url_without_password(text).then(|| Setting::Text(text.to_owned())),
            OptionType::Command => {
                let is_command = !text.trim().is_empty() && !text.chars().any(char::is_control);
                is_command.then(|| Setting::Text(text.to_owned()))
            }
        };
        understood.ok_or_else(|| self.possible(machine))
    }

    /// The possible values, in words.
    fn possible(&self, machine: &MachineSize) -> String {
        let or = |words: Vec<String>| words.join(" or ");
        match self {
            OptionType::Bytes { least, most } => {
                let most = most(machine);
                let most = if most >= GIB { most / GIB * GIB } else { most / MIB * MIB };
                format!(
                    "an amount from {} to {} with its unit: B, kB, MB, GB, TB",
                    format_bytes(*least),
                    format_bytes(most)
                )
            }
            OptionType::Time { least, most } => {
                format!(
                    "a time from {} to {} with its unit: us, ms, s, min, h, d",
                    format_time(*least),
                    format_time(*most)
                )
            }
            OptionType::OrNone(kind) => format!("`none` or {}", kind.possible(machine)),
            OptionType::Switch => "`on` or `off`".to_owned(),
            OptionType::Count { least, most } => format!("a number from {least} to {most}"),
            OptionType::Number { least, most } => format!("a number from {least} to {most}"),
            OptionType::Word(words) => or(words.iter().map(|word| format!("`{word}`")).collect()),
            OptionType::CpuPolicy => {
                let names = or(cpu_policies().map(|name| format!("`{name}`")).collect());
                format!("{names}; the others must be asked when one transaction waits for another")
            }
            OptionType::Parallelism => {
                let policies = PARALLELISM_POLICIES.iter().map(|kind| kind.example);
                let names = or(["planner"].into_iter().chain(policies).map(|name| format!("`{name}`")).collect());
                format!("{names}; a degree is from 1 to {DOP_MAX}")
            }
            OptionType::Preemption => {
                or(preemption_policies().map(|policy| format!("`{}` ({})", policy.example, policy.about)).collect())
            }
            OptionType::Target => "`none`, `p95 < 20ms` or `p95 < 1.3 x alone`".to_owned(),
            OptionType::File => "`none` or the path of a file".to_owned(),
            OptionType::Command => "a program and its arguments, separated by spaces".to_owned(),
            OptionType::Server => "`none` or postgres://user@host:port/database, without a password: that comes from \
                 PGPASSWORD or ~/.pgpass"
                .to_owned(),
            OptionType::Folder => "the absolute path of a folder, without commas, quotes and backslashes".to_owned(),
        }
    }
}

/// Whether a text is the URL of a server, and has no password in it.
fn is_url_without_password(text: &str) -> bool {
    let behind = text.split_once("://").map_or("", |(_, behind)| behind);
    let authority = behind.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    !user.contains(':') && !text.contains("password=") && ServerUrl::parse(text).is_ok()
}

/// Whether a path may appear in the server's configuration, whose lists of folders have quotes of their own.
fn is_plain_path(text: &str) -> bool {
    text.starts_with('/') && !text.chars().any(|letter| letter.is_control() || r#"'",\"#.contains(letter))
}

impl Setting {
    /// As PostgreSQL writes it; empty if it is not given.
    pub(super) fn text(&self) -> String {
        match self {
            Setting::Bytes(bytes) => format_bytes(*bytes),
            Setting::Time(time) => format_time(*time),
            Setting::Switch(on) => if *on { "on" } else { "off" }.to_owned(),
            Setting::Count(count) => count.to_string(),
            Setting::Number(number) => number.to_string(),
            Setting::Word(word) => (*word).to_owned(),
            Setting::Text(text) => text.clone(),
            Setting::Folder(path) => path.display().to_string(),
            Setting::None => String::new(),
        }
    }

    /// For the record: numbers are numbers, all others are text.
    pub(super) fn value(&self) -> Value {
        match self {
            Setting::Count(count) => (*count).into(),
            Setting::Number(number) => (*number).into(),
            Setting::None => Value::Null,
            _ => self.text().into(),
        }
    }
}
