//! What one run left: who ran, what each workload did, what the machine showed of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plimsoll_machine::cache_miss::CacheMissBreakdown;
use plimsoll_machine::top_down::TopDown;
use plimsoll_policy::Priority;
use plimsoll_workload::database::QueryPlan;
use serde::{Deserialize, Serialize};

use super::{Aborted, Latency, LockStatistics, Server, TimeShare, WorkloadOnServer};

/// One arm of one setting, run once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Point {
    /// The swept settings; empty where nothing is swept.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// Who ran: `alone:NAME`, `A+B` or `together`.
    pub arm: String,
    /// The block it ran in, from 1.
    pub repeat: u32,
    /// Whether this is the second run of the setting that runs twice in each block, to show the noise floor (A/A).
    #[serde(default)]
    pub is_again: bool,
    /// When its window opened, seconds since the experiment began.
    #[serde(default)]
    pub at_s: f64,
    /// Seconds of warm-up before the window.
    #[serde(default)]
    pub warmup_s: f64,
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
    /// Top-down breakdown of all of them together.
    pub top_down: Option<TopDown>,
    /// What a server showed of itself; `None` where the database is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// What a governor between clients and the server counted of each of its classes within the window; empty where there is
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub governor: Vec<GovernedClass>,
    /// By which plans the target would run the workloads' queries at this setting; empty where it does not tell, or the
    /// workloads have none.
    #[serde(default)]
    pub plans: Vec<PlannedQuery>,
}

/// What a governor counted of one of its classes within the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GovernedClass {
    /// The class, by its name in the governor's settings.
    pub class: String,
    /// Transactions that ended. A count.
    pub transactions: u64,
    /// The time that they took, waiting to be let in included, seconds.
    pub transaction_s: f64,
    /// The time that transactions waited to be let in, seconds.
    pub admission_wait_s: f64,
    /// Transactions rolled back for more important ones, those that were replayed included. A count.
    pub rolled_back: u64,
}

/// By which plan a target would run a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedQuery {
    /// The workload.
    pub workload: String,
    /// The query's name.
    pub query: String,
    /// 16 hexadecimal digits; equal for plans of equal shape.
    pub hash: String,
    /// The plan's operators with their tables and indexes, without costs and row counts.
    pub shape: String,
}

impl PlannedQuery {
    /// The plan of a query of that name.
    pub fn new(workload: &str, query: String, plan: QueryPlan) -> Self {
        PlannedQuery { workload: workload.to_owned(), query, hash: plan.hash, shape: plan.shape }
    }
}

/// What one workload did within the window of a run, or of several runs together ([`WorkloadResult::merged`]).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// All of its requests.
    #[serde(flatten)]
    pub all: Part,
    /// Requests and attempts that came to nothing.
    pub aborted: Aborted,
    /// `[quantile, microseconds]` pairs that draw the distribution, ascending.
    pub latency_distribution: Vec<(f64, u64)>,
    /// The same by priority class.
    pub classes: BTreeMap<String, Part>,
    /// The same by kind of transaction or query.
    pub transactions: BTreeMap<String, Part>,
    /// Share of response time that clients spent on round trips between their statements, as the experiment has them; it is
    /// within [`TimeShare::client`], or where that is `None` within [`TimeShare::other`]. `None` if no request was under way, and of queries, which have no round trips.
    #[serde(default)]
    pub round_trip_share: Option<f64>,
    /// How long its requests waited for locks, whether or not the target can tell each wait ([`Part::locks`]); `None` where it
    /// cannot tell at all.
    #[serde(default)]
    pub lock_wait: Option<LockWait>,
    /// Hardware counters of this workload's threads alone.
    pub counters: Option<Counters>,
    /// Top-down breakdown of this workload's threads alone.
    #[serde(default)]
    pub top_down: Option<TopDown>,
    /// The older breakdown, cache misses times measured latencies, of this workload's threads alone.
    #[serde(default)]
    pub cache_misses: Option<CacheMissBreakdown>,
    /// What the server's processes did for it; `None` where the database is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<WorkloadOnServer>,
}

/// Requests of a workload: all of them, those of a class, or those of a kind of transaction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Requests completed, those that rolled themselves back as prescribed included.
    pub completed: u64,
    /// Completed requests per second of window. Of an analytical workload: queries per second, each credited with the
    /// share of its time inside the window, because a window holds few of them.
    pub throughput_per_s: f64,
    /// Latency of the completed requests from their intended start. `None` if none completed.
    pub latency_us: Option<Latency>,
    /// What the requests met at locks; `None` of a kind of transaction, of which it is not kept, and where the
    /// target cannot tell lock waits apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockStatistics>,
    /// Where their response time went; `None` where it was not measured for parts of a workload, or too few looks found such
    /// a request under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_share: Option<TimeShare>,
    /// How many looks at the server that rests on. A count; `None` where nobody looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
}

impl Part {
    /// Where the response time of a part went over several runs, each weighing as much as its looks, and how many looks there
    /// were at it in all; `None` where nobody looked.
    pub(crate) fn time_share_over(runs: &[&Part]) -> (Option<TimeShare>, Option<u64>) {
        let samples: Vec<u64> = runs.iter().filter_map(|part| part.samples).collect();
        let shares: Vec<_> = runs.iter().filter_map(|part| Some((part.time_share?, part.samples? as f64))).collect();
        (TimeShare::mean(&shares), (!samples.is_empty()).then(|| samples.iter().sum()))
    }
}

/// How often and how long requests waited for locks within the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LockWait {
    /// Lock requests that had to wait. A count.
    pub waits: u64,
    /// Total time they waited, seconds.
    pub wait_s: f64,
}

/// What the devices did within the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// CPU time of this process, of a server's on this machine and of what is between them, over window times the cores that could be used, 0 to 1.
    pub cpu_busy: Option<f64>,
    /// The part of `cpu_busy` that is this process's: of a server, its clients and whoever watches. `None` where the database is
    /// in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_clients: Option<f64>,
    /// The part of `cpu_busy` that is of the process between clients and a server, such as a governor. `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_busy_proxy: Option<f64>,
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
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

/// The names of classes by priority; names that are none come last.
pub(crate) fn most_urgent_first<'a>(classes: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    let mut classes: Vec<&str> = classes.into_iter().map(String::as_str).collect();
    classes.sort_unstable_by_key(|class| (Reverse(class.parse::<Priority>().ok()), *class));
    classes.dedup();
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_go_by_priority() {
        let classes = ["low", "level3", "else", "high", "low"].map(str::to_owned);
        assert_eq!(most_urgent_first(&classes), ["level3", "high", "low", "else"]);
    }
}
