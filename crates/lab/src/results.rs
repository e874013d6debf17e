//! `results.json`: what an experiment leaves behind.
//!
//! Every figure that could not be measured is `null`, never 0, and [`Results::warnings`] says why.

use std::collections::BTreeMap;

use plimsoll_machine::MachineFacts;
use plimsoll_workload::benchmark::CheckLine;
use serde::{Deserialize, Serialize};

/// The whole document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// Version of the program.
    pub plimsoll: String,
    /// Commit the program was built from; `None` outside a checkout.
    pub commit: Option<String>,
    /// UTC, ISO 8601, when the experiment began.
    pub started: String,
    /// Seconds the whole experiment took, loading included.
    pub elapsed_s: f64,
    /// The machine it ran on.
    pub machine: MachineFacts,
    /// What was run.
    pub experiment: Experiment,
    /// Every point, in the order they ran.
    pub points: Vec<Point>,
    /// The least relative difference of throughput that this run can tell from noise, per workload: half the spread
    /// between repeats of the same setting, relative to their mean. `None` with fewer than two repeats.
    pub noise_floor: BTreeMap<String, Option<f64>>,
    /// Throughput together over throughput alone, per workload; for analytical ones at an equal mix of queries.
    pub interference: BTreeMap<String, Option<Interference>>,
    /// Sentences that follow from the numbers, most important first.
    pub advice: Vec<String>,
    /// Smallest sufficient allocations, where a sweep looked for them.
    pub knees: Vec<serde_json::Value>,
    /// Claims and whether they hold.
    pub claims: Vec<serde_json::Value>,
    /// What was checked of the data and the clients' input afterwards, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<CheckLine>>,
    /// Why figures are missing, and what else a reader must know.
    pub warnings: Vec<String>,
}

/// What was run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// Hash of `settings`: runs with equal hashes measured the same thing.
    pub settings_hash: String,
    /// Every setting as resolved, defaults included, by name.
    pub settings: BTreeMap<String, serde_json::Value>,
}

/// Throughput together divided by throughput alone.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Interference {
    /// Ratio of the means over repeats.
    pub ratio: f64,
    /// The smallest ratio any pair of repeats gives.
    pub low: f64,
    /// The largest ratio any pair of repeats gives.
    pub high: f64,
}

/// One arm of one setting, run once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    /// The swept settings; empty in a study.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// Who ran: `alone:NAME` or `together`.
    pub arm: String,
    /// 1 for the first run of this setting and arm.
    pub repeat: u32,
    /// Whether the figures may be used.
    pub valid: bool,
    /// Why not.
    pub why_invalid: Option<String>,
    /// Seconds of the measurement window.
    pub window_s: f64,
    /// What controls were seen to achieve.
    pub achieved: BTreeMap<String, serde_json::Value>,
    /// What each workload did.
    pub workloads: Vec<WorkloadResult>,
    /// What the devices did.
    pub device: Device,
    /// Hardware counters summed over every thread of the workloads.
    pub counters: Option<Counters>,
    /// Top-down breakdown; `None` until a method is chosen for the processor.
    pub top_down: Option<serde_json::Value>,
}

/// What one workload did within the window.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// Its name in the experiment.
    pub name: String,
    /// The benchmark.
    pub kind: String,
    /// Whether its requests are queries, which differ in cost: their throughput counts work done within the window, and arms
    /// are compared at an equal mix of queries.
    #[serde(default)]
    pub analytical: bool,
    /// How many clients ran.
    pub clients: usize,
    /// Requests completed, those that rolled themselves back as prescribed included.
    pub completed: u64,
    /// Completed requests per second of window. Of an analytical workload: queries per second, each credited with the
    /// share of its time inside the window, because a window holds few of them.
    pub throughput_per_s: f64,
    /// Requests and attempts that came to nothing.
    pub aborted: Aborted,
    /// Latency of all completed requests from their intended start. `None` if none completed.
    pub latency_us: Option<Latency>,
    /// `[quantile, microseconds]` pairs that draw the distribution, ascending.
    pub latency_distribution: Vec<(f64, u64)>,
    /// The same by priority class.
    pub classes: BTreeMap<String, Part>,
    /// The same by kind of transaction or query.
    pub transactions: BTreeMap<String, Part>,
    /// Where response time went.
    pub time_share: Option<TimeShare>,
    /// What the lock manager saw.
    pub locks: Option<Locks>,
    /// Hardware counters of this workload's threads alone.
    pub counters: Option<Counters>,
}

/// A part of a workload's requests: a class, or a kind of transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// Requests completed.
    pub completed: u64,
    /// As [`WorkloadResult::throughput_per_s`].
    pub throughput_per_s: f64,
    /// Their latency. `None` if none completed.
    pub latency_us: Option<Latency>,
}

/// Attempts that came to nothing within the window. Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aborted {
    /// Attempts rolled back as victim of a deadlock, and run again.
    pub deadlock: u64,
    /// Attempts rolled back for a more important transaction, and run again.
    pub preempted: u64,
    /// Requests that rolled themselves back as the benchmark prescribes; these count as completed too.
    pub user: u64,
    /// Requests given up: an error, or more retries than the bound.
    pub error: u64,
}

/// Latency in microseconds. A percentile is `None` where too few requests completed to say: fewer than 1 / (1 - q).
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p999: Option<u64>,
    /// Largest.
    pub max: u64,
}

/// Parts of response time; they add up to 1. A part that could not be measured is `None` and is within `other`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TimeShare {
    /// On a core.
    pub cpu_run: Option<f64>,
    /// Runnable, waiting for a core.
    pub cpu_wait: Option<f64>,
    /// Waiting for a device.
    pub io: Option<f64>,
    /// Waiting for a database lock.
    pub lock: Option<f64>,
    /// Everything else: for queries, mostly workers with nothing to do.
    pub other: f64,
}

/// What the lock manager saw within the window.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Locks {
    /// Requests that had to wait. A count.
    pub waits: u64,
    /// Total time they waited, seconds.
    pub wait_s: f64,
}

/// What the devices did within the window.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Device {
    /// CPU time of this process over window times cores, 0 to 1.
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
    /// Gigabytes read from memory per second.
    pub dram_read_gb_s: Option<f64>,
}

/// Hardware counters over the window, already scaled by coverage. Counts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Counters {
    /// Core cycles, user mode.
    pub cycles: Option<u64>,
    /// Instructions retired, user mode.
    pub instructions: Option<u64>,
    /// First-level data cache load misses.
    pub l1d_misses: Option<u64>,
    /// Last-level cache misses.
    pub llc_misses: Option<u64>,
    /// Mispredicted branches.
    pub branch_misses: Option<u64>,
    /// Share of the window in which the events were really counted, 0 to 1.
    pub coverage: f64,
}
