//! The machine under the server, as it is written to `results.json`.

use serde::{Deserialize, Serialize};

use super::MissingRight;

/// The machine under the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostUse {
    /// Who had its cores.
    pub cores: Option<CoreUse>,
    /// What the disk of the data did.
    pub disk: Option<DiskUse>,
    /// Figures of the machine that were not visible, and why.
    pub missing: Vec<MissingRight>,
}

/// Who had the cores of a machine, in cores, on average.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// Cores of the machine. A count.
    pub machine: usize,
    /// Of these, what this process may use. A count.
    pub usable: usize,
    /// The server: all of its processes.
    pub postgres: f64,
    /// All other programs but this one.
    pub others: f64,
    /// This program.
    pub observer: f64,
    /// The hypervisor, while a process here wanted the core; null if the kernel does not report it.
    pub stolen: Option<f64>,
    /// The busiest of the other programs.
    pub named: Vec<ProcessUse>,
}

/// Processes of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// Their name as the kernel has it.
    pub name: String,
    /// The most of them at once. A count.
    pub count: usize,
    /// The cores that they had together.
    pub cores: f64,
}

/// What a disk did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskUse {
    /// Its name, as in `/proc/diskstats`.
    pub device: String,
    /// The share of the time in which it had a request under way.
    pub busy: f64,
    /// Reads.
    pub read: Operations,
    /// Writes.
    pub write: Operations,
    /// Percentiles of latencies; always null, because the kernel has no such figures.
    pub latency_percentiles_ms: Option<Vec<f64>>,
    /// What `plimsoll machine --probe` has found; null if it was not run.
    pub probe: Option<DiskProbe>,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operations {
    /// Megabytes (10^6 bytes) per second.
    pub mb_per_s: f64,
    /// Requests per second.
    pub per_s: f64,
    /// Mean milliseconds from being queued to being completed; null without requests.
    pub mean_ms: Option<f64>,
    /// The same in the window in which it was longest.
    pub worst_ms: Option<f64>,
}

/// What a probe has found of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskProbe {
    /// When it was measured.
    pub measured_at: String,
    /// The most random reads per second at any depth.
    pub reads_per_s_max: f64,
    /// Milliseconds of a read without others.
    pub read_ms: f64,
}
