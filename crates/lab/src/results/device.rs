//! The activity of the machine and its devices within a window, or a second of it.

use plimsoll_machine::groups::GroupUse;
use plimsoll_machine::pressure::PressureUse;
use plimsoll_machine::resctrl::CacheUse;
use plimsoll_workload::freshness::Freshness;
use plimsoll_workload::parallelism::Learning;
use serde::{Deserialize, Serialize};

/// The activity of the machine and its devices. Figures that were not measured are missing;
/// [`Point::unmeasured`](super::Point::unmeasured) and the warnings say why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// CPU time of this process, of a server on this machine and of a proxy between them, over the window times the
    /// usable cores, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// The part of `cpu_busy` that this process used, with a server for its clients and its sampler. `None` if the database is
    /// in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_clients: Option<f64>,
    /// The part of `cpu_busy` of the process between clients and a server, such as a governor. `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_proxy: Option<f64>,
    /// Cores that all other processes on this machine kept busy, including time stolen by its host.
    #[serde(default)]
    pub busy_cores_others: Option<f64>,
    /// Share of the cores' time that the host of this guest gave to other guests, 0 to 1.
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
    /// Mean time of a read at the disk, including its wait in the queue, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms: Option<f64>,
    /// The same for a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms: Option<f64>,
    /// Gigabytes (10^9 bytes) that the workloads' threads read from memory per second.
    pub dram_read_gb_s: Option<f64>,
    /// Time in which tasks of the machine were stalled for lack of a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<PressureUse>,
    /// Last-level cache held by all processes, and their traffic between caches and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheUse>,
    /// The use of the control groups of the database's process, with all other processes in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupUse>,
    /// Time in which tasks of that group were stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_pressure: Option<PressureUse>,
    /// Last-level cache and memory traffic of the resctrl group of the database's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_cache: Option<CacheUse>,
    /// The state of the copy that queries read: a column copy or a standby. `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<Freshness>,
    /// The database's knowledge of degrees of parallelism when the window closed. `None` if it does not learn
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// Moves between cache classes. `None` if the database has no cache classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_switches: Option<CacheSwitching>,
    /// Reads of columns that are kept in files. `None` if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<ColumnReading>,
}

/// What queries read of columns that are kept in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnReading {
    /// Megabytes (10^6 bytes) read from the files per second.
    pub read_mb_s: f64,
    /// The part of the bytes that queries needed which was in memory already, 0 to 1. `None` if nothing may stay in
    /// memory, or nothing was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_share: Option<f64>,
    /// The most that was in memory at a time, MiB.
    pub held_mib: f64,
}

/// How often threads or processes were moved to another cache class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheSwitching {
    /// Moves per second.
    pub per_s: f64,
    /// Mean time of a move, microseconds. `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub us: Option<f64>,
    /// Whether no class was bound to a part of the cache, so that moves changed nothing but the thread's group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unbound: bool,
}

/// Why a sensor had no or not all figures within a window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unmeasured {
    /// The reason.
    pub reason: String,
    /// A remedy; `None` if none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
