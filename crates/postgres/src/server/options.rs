//! The options of a server: what each can be, and when a new value takes effect.
//!
//! Adding one is an entry of [`SERVER_OPTIONS`]. Where PostgreSQL has a parameter of that name and kind, nothing else is
//! needed; other options are understood in [`settings`](super::settings).

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_policy::{CPU_SCHEDULERS, CpuScheduler};
use serde_json::Value;

use super::quantity::{format_bytes, format_time, parse_bytes, parse_time};

/// When a new value of an option takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// In sessions that are opened from then on.
    Session,
    /// Everywhere at once: the server reads its configuration again.
    Reload,
    /// After the server was stopped and started again with its data.
    Restart,
    /// Only in another server.
    NewServer,
}

/// An option of a server.
#[derive(Debug)]
pub struct ServerOption {
    /// Its name; that of PostgreSQL's parameter where there is one.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// When a new value takes effect.
    pub effect: Effect,
    /// Whether it is also possible for a server that is not ours: a session can set it for itself, whoever its user is.
    pub for_any_server: bool,
    pub(super) kind: Kind,
    /// Its value if nothing is said.
    pub(super) default: fn(&MachineSize) -> Setting,
}

/// What defaults and bounds depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineSize {
    /// Memory that this process may use, bytes.
    pub memory_bytes: u64,
    /// Cores that this process may use.
    pub cores: u32,
}

/// What an option can be.
#[derive(Debug)]
pub(super) enum Kind {
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
    /// A CPU scheduler by name. Here nobody is asked when one transaction stands in another's way, so that it must not
    /// matter.
    CpuPolicy,
    /// A path.
    Folder,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Setting {
    Bytes(u64),
    Time(Duration),
    Switch(bool),
    Count(u32),
    Number(f64),
    Word(&'static str),
    Folder(PathBuf),
    /// Left to be found out.
    None,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The most processes that may work on one query. The server is started with room for so many workers, so that a sweep
/// over degrees of parallelism needs no restarts.
pub(super) const DOP_MAX: u32 = 64;

/// Every option, by name.
pub static SERVER_OPTIONS: &[ServerOption] = &[
    ServerOption {
        name: "allow_tmpfs",
        about: "`on`: data may lie in memory, and what is called disk is none",
        effect: Effect::NewServer,
        for_any_server: false,
        kind: Kind::Switch,
        default: |_| Setting::Switch(false),
    },
    ServerOption {
        name: "autovacuum",
        about: "whether the server cleans up dead rows and keeps statistics by itself",
        effect: Effect::Reload,
        for_any_server: false,
        kind: Kind::Switch,
        default: |_| Setting::Switch(true),
    },
    ServerOption {
        name: "bin_folder",
        about: "the folder of initdb and postgres; the newest installed version if it is not said",
        effect: Effect::NewServer,
        for_any_server: false,
        kind: Kind::Folder,
        default: |_| Setting::None,
    },
    ServerOption {
        name: "checkpoint_timeout",
        about: "longest time from one checkpoint to the next",
        effect: Effect::Reload,
        for_any_server: false,
        kind: Kind::Time { least: Duration::from_secs(30), most: Duration::from_secs(86_400) },
        default: |_| Setting::Time(Duration::from_secs(300)),
    },
    ServerOption {
        name: "cpu_policy",
        about: "what share of the cores the server's process of a session gets by its priority",
        effect: Effect::Session,
        for_any_server: false,
        kind: Kind::CpuPolicy,
        default: |_| Setting::Word("none"),
    },
    ServerOption {
        name: "deadlock_timeout",
        about: "how long a wait for a lock lasts before the server looks for a deadlock",
        effect: Effect::Reload,
        for_any_server: false,
        kind: Kind::Time { least: Duration::from_millis(1), most: Duration::from_secs(86_400) },
        default: |_| Setting::Time(Duration::from_secs(1)),
    },
    ServerOption {
        name: "dop",
        about: "degree of parallelism: processes that may work on one query, 1 is without parallel workers",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Count { least: 1, most: DOP_MAX },
        default: |machine| Setting::Count(machine.cores.clamp(1, DOP_MAX)),
    },
    ServerOption {
        name: "effective_cache_size",
        about: "what the optimizer takes to be cached by server and system together",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Bytes { least: 8 * KIB, most: |_| 16 * TIB },
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 4 * 3, 128 * MIB, TIB)),
    },
    ServerOption {
        name: "effective_io_concurrency",
        about: "how many pages a bitmap scan asks the disk for ahead of time",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Count { least: 0, most: 1000 },
        // As PostgreSQL 18 has it, so that versions can be compared.
        default: |_| Setting::Count(16),
    },
    ServerOption {
        name: "folder",
        about: "below which folder the server's own is made, on a real disk; that for temporary files if it is not said",
        effect: Effect::NewServer,
        for_any_server: false,
        kind: Kind::Folder,
        default: |_| Setting::None,
    },
    ServerOption {
        name: "fsync",
        about: "`off`: nothing waits for the disk, and a crash loses the database",
        effect: Effect::Reload,
        for_any_server: false,
        kind: Kind::Switch,
        default: |_| Setting::Switch(true),
    },
    ServerOption {
        name: "full_page_writes",
        about: "whether the first change of a page after a checkpoint puts the whole page into the log",
        effect: Effect::Reload,
        for_any_server: false,
        kind: Kind::Switch,
        default: |_| Setting::Switch(true),
    },
    ServerOption {
        name: "isolation",
        about: "isolation level of transactions",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Word(&["read committed", "repeatable read", "serializable"]),
        default: |_| Setting::Word("read committed"),
    },
    ServerOption {
        name: "jit",
        about: "whether long queries are compiled",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Switch,
        // What it saves or costs hangs on an estimate, so that times jump where nothing was changed.
        default: |_| Setting::Switch(false),
    },
    ServerOption {
        name: "maintenance_work_mem",
        about: "memory for building an index or cleaning up a table",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Bytes { least: MIB, most: |machine| machine.memory_bytes.min(TIB) },
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 32, 64 * MIB, 512 * MIB)),
    },
    ServerOption {
        name: "max_connections",
        about: "sessions at one time",
        effect: Effect::Restart,
        for_any_server: false,
        kind: Kind::Count { least: 10, most: 10_000 },
        default: |_| Setting::Count(500),
    },
    ServerOption {
        name: "max_wal_size",
        about: "how much log makes a checkpoint begin; the log takes about so much disk",
        effect: Effect::Reload,
        for_any_server: false,
        kind: Kind::Bytes { least: 32 * MIB, most: |_| TIB },
        // Five minutes at the rate at which a few cores write.
        default: |_| Setting::Bytes(4 * GIB),
    },
    ServerOption {
        name: "random_page_cost",
        about: "what the optimizer takes a page read out of order to cost, where one read in order costs 1",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Number { least: 0.0, most: 1e6 },
        // Disks without moving heads.
        default: |_| Setting::Number(1.1),
    },
    ServerOption {
        name: "shared_buffers",
        about: "the server's own cache",
        effect: Effect::Restart,
        for_any_server: false,
        kind: Kind::Bytes { least: MIB, most: |machine| (machine.memory_bytes / 10 * 9).min(TIB) },
        // A quarter of the memory, as PostgreSQL's manual has it, but no more than a server that comes and goes should take.
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 4, 32 * MIB, 4 * GIB)),
    },
    ServerOption {
        name: "synchronous_commit",
        about: "`off`: a commit does not wait until it is on disk, and a crash loses the last ones",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Word(&["on", "off", "local"]),
        default: |_| Setting::Word("on"),
    },
    ServerOption {
        name: "work_mem",
        about: "memory of each sort or hash table in each process before it spills to disk",
        effect: Effect::Session,
        for_any_server: true,
        kind: Kind::Bytes { least: 64 * KIB, most: |machine| machine.memory_bytes.min(TIB) },
        default: |machine| Setting::Bytes(mebibytes(machine.memory_bytes / 256, 4 * MIB, 64 * MIB)),
    },
];

/// Whole mebibytes within bounds.
fn mebibytes(bytes: u64, least: u64, most: u64) -> u64 {
    (bytes / MIB * MIB).clamp(least, most)
}

/// The names of the CPU schedulers that a server's sessions can have.
pub(super) fn cpu_policies() -> impl Iterator<Item = &'static str> + Clone {
    CPU_SCHEDULERS.iter().filter(|policy| policy.leaves_holders_alone()).map(|policy| CpuScheduler::name(*policy))
}

/// Every option with what it is, for error messages.
pub(super) fn option_list() -> String {
    let options: Vec<_> = SERVER_OPTIONS.iter().map(|option| format!("`{}` ({})", option.name, option.about)).collect();
    options.join(", ")
}

impl Kind {
    /// Understands a text, or says what it can be.
    pub(super) fn parse(&self, text: &str, machine: &MachineSize) -> Result<Setting, String> {
        let understood = match self {
            Kind::Bytes { least, most } => {
                parse_bytes(text).filter(|bytes| (*least..=most(machine)).contains(bytes)).map(Setting::Bytes)
            }
            Kind::Time { least, most } => {
                parse_time(text).filter(|time| (least..=most).contains(&time)).map(Setting::Time)
            }
            Kind::Switch => match text {
                "on" => Some(Setting::Switch(true)),
                "off" => Some(Setting::Switch(false)),
                _ => None,
            },
            Kind::Count { least, most } => {
                text.parse().ok().filter(|count| (least..=most).contains(&count)).map(Setting::Count)
            }
            Kind::Number { least, most } => {
                text.parse().ok().filter(|number| (least..=most).contains(&number)).map(Setting::Number)
            }
            // With hyphens it need not be quoted in a shell.
            Kind::Word(words) => words
                .iter()
                .find(|word| **word == text || word.replace(' ', "-") == text)
                .map(|word| Setting::Word(word)),
            Kind::CpuPolicy => cpu_policies().find(|name| *name == text).map(Setting::Word),
            Kind::Folder => is_plain_path(text).then(|| Setting::Folder(text.into())),
        };
        understood.ok_or_else(|| self.possible(machine))
    }

    /// What it can be, in words.
    fn possible(&self, machine: &MachineSize) -> String {
        let or = |words: Vec<String>| words.join(" or ");
        match self {
            Kind::Bytes { least, most } => {
                let most = most(machine);
                let most = if most >= GIB { most / GIB * GIB } else { most / MIB * MIB };
                format!(
                    "an amount from {} to {} with its unit: B, kB, MB, GB, TB",
                    format_bytes(*least),
                    format_bytes(most)
                )
            }
            Kind::Time { least, most } => {
                format!(
                    "a time from {} to {} with its unit: us, ms, s, min, h, d",
                    format_time(*least),
                    format_time(*most)
                )
            }
            Kind::Switch => "`on` or `off`".to_owned(),
            Kind::Count { least, most } => format!("a number from {least} to {most}"),
            Kind::Number { least, most } => format!("a number from {least} to {most}"),
            Kind::Word(words) => or(words.iter().map(|word| format!("`{word}`")).collect()),
            Kind::CpuPolicy => {
                let names = or(cpu_policies().map(|name| format!("`{name}`")).collect());
                format!("{names}; the others must be asked when one transaction waits for another")
            }
            Kind::Folder => "the absolute path of a folder, without commas, quotes and backslashes".to_owned(),
        }
    }
}

/// Whether a path can stand in the server's configuration, whose lists of folders have quotes of their own.
fn is_plain_path(text: &str) -> bool {
    text.starts_with('/') && !text.chars().any(|letter| letter.is_control() || r#"'",\"#.contains(letter))
}

impl Setting {
    /// As PostgreSQL writes it; nothing if it is left to be found out.
    pub(super) fn text(&self) -> String {
        match self {
            Setting::Bytes(bytes) => format_bytes(*bytes),
            Setting::Time(time) => format_time(*time),
            Setting::Switch(on) => if *on { "on" } else { "off" }.to_owned(),
            Setting::Count(count) => count.to_string(),
            Setting::Number(number) => number.to_string(),
            Setting::Word(word) => (*word).to_owned(),
            Setting::Folder(path) => path.display().to_string(),
            Setting::None => String::new(),
        }
    }

    /// For the record: numbers are numbers, the rest is text.
    pub(super) fn value(&self) -> Value {
        match self {
            Setting::Count(count) => (*count).into(),
            Setting::Number(number) => (*number).into(),
            Setting::None => Value::Null,
            _ => self.text().into(),
        }
    }
}
