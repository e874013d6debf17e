//! What a run did to the machine: devices and hardware counters.

use serde::{Deserialize, Serialize};

/// What the devices did within the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// CPU time of this process over window times the cores that it could run on, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// Cores that all others on this machine kept busy, time stolen by its host included.
    #[serde(default)]
    pub busy_cores_others: Option<f64>,
    /// Share of the window in which the disk was busy.
    pub io_busy: Option<f64>,
    /// Megabytes read from disk per second.
    pub read_mb_s: Option<f64>,
    /// Megabytes written to disk per second.
    pub write_mb_s: Option<f64>,
    /// Gigabytes (10^9 bytes) that the workloads' threads read from memory per second.
    pub dram_read_gb_s: Option<f64>,
}

/// Hardware counters over the window, scaled by coverage. Counts, in user mode.
///
/// The first five were counted together, at the same moments, so that their ratios may be taken; the others were counted
/// at other moments of the window.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Core cycles.
    pub cycles: Option<u64>,
    /// Instructions retired.
    pub instructions: Option<u64>,
    /// First-level data cache load misses.
    pub l1d_misses: Option<u64>,
    /// Last-level cache misses.
    pub llc_misses: Option<u64>,
    /// Mispredicted branches.
    pub branch_misses: Option<u64>,
    /// Branches.
    #[serde(default)]
    pub branches: Option<u64>,
    /// Second-level cache misses.
    #[serde(default)]
    pub l2_misses: Option<u64>,
    /// Loads whose page had to be looked up in the page table.
    #[serde(default)]
    pub dtlb_misses: Option<u64>,
    /// Bytes that were read from memory on behalf of the threads.
    #[serde(default)]
    pub dram_read_bytes: Option<u64>,
    /// Share of the threads' time on cores in which the first five were really counted, 0 to 1.
    pub coverage: f64,
}
