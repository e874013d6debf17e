//! The activity of the machine and its devices within a window, or a second of it.

use plimsoll_machine::group_use::GroupUse;
use plimsoll_machine::pressure::PressureUse;
use plimsoll_machine::resctrl::CacheUse;
use plimsoll_workload::freshness::Freshness;
use plimsoll_workload::parallelism::Learning;
use serde::{Deserialize, Serialize};

/// What the machine and its devices did. What was not measured is missing; [`Point::unmeasured`](super::Point::unmeasured)
/// and the warnings say why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// CPU time of this process, of a server's on this machine and of what is between them, over window times the cores that could be used, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// The part of `cpu_busy` that this process used, with a server for its clients and its sampler. `None` if the database is
    /// in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_clients: Option<f64>,
    /// The part of `cpu_busy` that is of the process between clients and a server, such as a governor. `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_proxy: Option<f64>,
    /// Cores that all others on this machine kept busy, time stolen by its host included.
    #[serde(default)]
    pub busy_cores_others: Option<f64>,
    /// Share of the cores' time that the host of this guest took for others, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<f64>,
    /// Speed of the cores, MHz, on average over cores and seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz: Option<f64>,
    /// Share of the window in which the disk was busy.
    pub io_busy: Option<f64>,
    /// Megabytes read from disk per second.
    pub read_mb_s: Option<f64>,
    /// Megabytes written to disk per second.
    pub write_mb_s: Option<f64>,
    /// Reads from disk completed per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_s: Option<f64>,
    /// Writes to disk completed per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_per_s: Option<f64>,
    /// Milliseconds that a read took at the disk, on average, waiting in its queue included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms: Option<f64>,
    /// The same of a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms: Option<f64>,
    /// Gigabytes (10^9 bytes) that the workloads' threads read from memory per second.
    pub dram_read_gb_s: Option<f64>,
    /// Time in which tasks of the machine stood still for want of a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<PressureUse>,
    /// Last-level cache that was held, and traffic between caches and memory, by all processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheUse>,
    /// The use of the control groups of the database's process, with all other processes in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupUse>,
    /// Time in which tasks of that group stood still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_pressure: Option<PressureUse>,
    /// Last-level cache and memory traffic of the resctrl group that the database's process is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_cache: Option<CacheUse>,
    /// What the copy of the data did that queries read: a column copy, a standby. `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<Freshness>,
    /// What the database had learned about degrees of parallelism when the window closed. `None` where it does not learn them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// Moves between cache classes. `None` where the database has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_switches: Option<CacheSwitching>,
}

/// How often threads or processes were moved to another cache class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheSwitching {
    /// Moves per second.
    pub per_s: f64,
    /// Microseconds that a move took, on average. `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub us: Option<f64>,
}

/// Why a sensor told nothing within a window, or not everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unmeasured {
    /// The reason.
    pub reason: String,
    /// What would help; `None` if nothing is known to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
