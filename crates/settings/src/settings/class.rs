//! The settings of a class.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_policy::cache_class::CacheClass;
use plimsoll_policy::cache_use::CacheUse;
use plimsoll_policy::{ClassLimits, GuardMode, Priority, Rate, RunawayLimits, Target};

use super::Held;

/// The default nice value of classes with priority low.
const NICE_OF_LOW: i32 = 10;

/// A class with all its settings.
#[derive(Debug, Clone)]
pub struct ClassSettings {
    /// Its name, unique.
    pub name: String,
    /// The priority, and the limits of running and queued transactions and of queue time.
    pub limits: ClassLimits,
    /// How many connections of a pool are kept for it, and how many it may have at most.
    pub pool_min: u32,
    /// See `pool_min`; `None` for all.
    pub pool_max: Option<u32>,
    /// Patterns of users that may choose the class although rules assign them a lower one.
    pub settable_by: Vec<glob::Pattern>,
    /// How long a transaction may wait for its client before its session is ended (25P03); `None` if unlimited.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// The CPU share of its server processes.
    pub cpu: CpuShare,
    /// The CPU time that its server processes keep at least, in percent, if they get only idle time; `None` for no
    /// minimum.
    pub cpu_floor_percent: Option<u32>,
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
    /// How many of its transactions may begin per unit of time; `None` for any number.
    pub rate: Option<Rate>,
    /// How many of them may begin at once after a rest; `None` for as many as in a second.
    pub burst: Option<u32>,
    /// How much one of its statements may take.
    pub runaway: RunawayLimits,
    /// What is done about what exceeds its rate and these limits; `None` for the modes of all classes.
    pub guards: Option<GuardMode>,
}

impl ClassSettings {
    /// A class before the table's defaults are put in, with the defaults that depend on its priority.
    pub(crate) fn of(name: &str, priority: Priority) -> Self {
        let is_low = priority == Priority::LOW;
        ClassSettings {
            name: name.to_owned(),
            limits: ClassLimits { priority, mpl: None, queue_max: None, timeout: None },
            pool_min: 0,
            pool_max: None,
            settable_by: Vec::new(),
            idle_in_transaction_timeout: None,
            cpu: if is_low { CpuShare::Nice(NICE_OF_LOW) } else { CpuShare::Untouched },
            cpu_floor_percent: None,
            disk: if is_low { DiskUse::Yields } else { DiskUse::Untouched },
            cache: CacheUse::ALL,
            control_groups: Arc::default(),
            preemptible: is_low,
            replay: false,
            retries: false,
            retry_aborted: 0,
            workers_max: None,
            is_paused: false,
            target: None,
            mpl_min: None,
            held: Held::default(),
            rate: None,
            burst: None,
            runaway: RunawayLimits::default(),
            guards: None,
        }
    }
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
    pub fn is_less(self) -> bool {
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

impl std::fmt::Display for CpuShare {
    /// As in the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CpuShare::Untouched => f.write_str("untouched"),
            CpuShare::Prompt => f.write_str("prompt"),
            CpuShare::Nice(value) => write!(f, "nice {value}"),
            CpuShare::Idle => f.write_str("idle"),
        }
    }
}

/// Why the classes' parts of the cache contradict each other; `None` if they do not. Masks are the operator's choice.
pub fn cache_fault(classes: &[ClassSettings]) -> Option<String> {
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
