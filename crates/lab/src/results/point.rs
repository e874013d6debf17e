//! The results of one run: its arm, its workloads, and the machine.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use plimsoll_machine::busy_processes::BusyProcesses;
use plimsoll_machine::cache_miss::CacheMissBreakdown;
use plimsoll_machine::top_down::TopDown;
use plimsoll_policy::Priority;
use plimsoll_workload::database::QueryPlan;
use plimsoll_workload::driver::{LittlesLaw, WorkloadMeasurement};
use plimsoll_workload::parallelism::Parallelism;
use serde::{Deserialize, Serialize};

use super::{Device, Server, Unmeasured, WorkloadOnServer};
use crate::plan::{Arm, Setting};
use crate::record::RunId;

/// One arm of one setting, run once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Point {
    /// The swept settings; empty without a sweep.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// The arm that ran: `alone:NAME`, `A+B` or `together`.
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
    /// Why earlier tries of this run were discarded, in order; empty if it is the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thrown_away: Vec<String>,
    /// Whether others used the machine more than they may. It is then not valid, unless the experiment keeps such runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
    /// The processes that took cores from before the warm-up until after the window, other than ours and the database's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<BusyProcesses>,
    /// Seconds of the measurement window.
    pub window_s: f64,
    /// The amounts that controls were observed to achieve.
    pub achieved: BTreeMap<String, serde_json::Value>,
    /// The result of each workload.
    pub workloads: Vec<WorkloadResult>,
    /// The activity of the devices.
    pub device: Device,
    /// Why figures of the machine are missing: the reason of each sensor that lacks any, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmeasured: BTreeMap<String, Unmeasured>,
    /// Hardware counters summed over every thread of the workloads.
    pub counters: Option<Counters>,
    /// Top-down breakdown of all of them together.
    pub top_down: Option<TopDown>,
    /// The activity of a server; `None` if the database is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// The counts of a governor between clients and the server for each of its classes within the window; empty if
    /// there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub governor: Vec<GovernedClass>,
    /// The plans by which the target would run the workloads' queries at this setting; empty if it does not report
    /// them, or if the workloads have no queries.
    #[serde(default)]
    pub plans: Vec<PlannedQuery>,
    /// The target's knowledge of degrees of parallelism by the end of this run; `None` if it does not choose
    /// them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<Parallelism>,
    /// The kind of the index on the primary key of each table, by schema and table, such as `tpcc.stock`; empty if the
    /// target has one kind only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, String>,
}

impl Point {
    /// A run of an arm of a setting that began `at_s` seconds after its experiment, without figures.
    pub(crate) fn new(id: RunId, setting: &Setting, arm: &Arm, at_s: f64) -> Self {
        Point {
            setting: setting.swept.clone(),
            arm: arm.name.clone(),
            repeat: id.repeat,
            is_again: id.is_again,
            at_s,
            ..Point::default()
        }
    }
}

/// The counts of a governor for one of its classes within the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GovernedClass {
    /// The class, by its name in the governor's settings.
    pub class: String,
    /// Transactions that ended. A count.
    pub transactions: u64,
    /// The total time of these transactions, including the wait for admission, seconds.
    pub transaction_s: f64,
    /// The time that transactions waited for admission, seconds.
    pub admission_wait_s: f64,
    /// Transactions rolled back for more important ones, including those that were replayed. A count.
    pub rolled_back: u64,
}

/// The plan by which a target would run a query.
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

/// The result of one workload within the window of a run, or of several runs together ([`WorkloadResult::merged`]): the
/// measurements of the driver, and beside them those of sensors. It dereferences to the former.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// The measurements of its clients, with the time shares that follow from sensors.
    #[serde(flatten)]
    pub driven: WorkloadMeasurement,
    /// Time that the threads which served it waited for block I/O, summed, seconds. Missing if the kernel does not
    /// measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_io_s: Option<f64>,
    /// Hardware counters of this workload's threads alone.
    pub counters: Option<Counters>,
    /// Top-down breakdown of this workload's threads alone.
    #[serde(default)]
    pub top_down: Option<TopDown>,
    /// The older breakdown, cache misses times measured latencies, of this workload's threads alone.
    #[serde(default)]
    pub cache_misses: Option<CacheMissBreakdown>,
    /// The activity of the server's processes for the workload; `None` if the database is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<WorkloadOnServer>,
    /// The simulator's counts for its cores; `None` if the run was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<SimulatedCache>,
}

/// The cache simulator's counts for the cores of a workload. Counts, of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulatedCache {
    /// Lines read.
    pub references: u64,
    /// The reads whose sets were simulated; the counts below are of these.
    pub sampled: u64,
    /// Found in the core's own cache.
    pub private_hits: u64,
    /// Found in the shared cache only.
    pub shared_hits: u64,
    /// Read from memory.
    pub misses: u64,
    /// Mean delay of a read from memory because of other workloads, nanoseconds. Of all workloads together.
    pub memory_wait_ns: f64,
}

impl SimulatedCache {
    /// Hits of the shared cache, as a share of the references that reached it. `None` if none did.
    pub fn shared_hit_ratio(&self) -> Option<f64> {
        let reached = self.shared_hits + self.misses;
        (reached > 0).then(|| self.shared_hits as f64 / reached as f64)
    }

    /// Both together. Each delay weighs as much as its misses.
    pub(super) fn and(&self, other: &SimulatedCache) -> SimulatedCache {
        let misses = self.misses + other.misses;
        let waits = [self, other].map(|one| one.memory_wait_ns * one.misses as f64);
        SimulatedCache {
            references: self.references + other.references,
            sampled: self.sampled + other.sampled,
            private_hits: self.private_hits + other.private_hits,
            shared_hits: self.shared_hits + other.shared_hits,
            misses,
            memory_wait_ns: if misses > 0 { (waits[0] + waits[1]) / misses as f64 } else { 0.0 },
        }
    }
}

impl Deref for WorkloadResult {
    type Target = WorkloadMeasurement;

    fn deref(&self) -> &WorkloadMeasurement {
        &self.driven
    }
}

impl DerefMut for WorkloadResult {
    fn deref_mut(&mut self) -> &mut WorkloadMeasurement {
        &mut self.driven
    }
}

impl WorkloadResult {
    /// Both sides of Little's law over the windows of several runs of a workload. Requests cut off at the end of one
    /// window and at the beginning of another average out.
    pub(crate) fn littles_law<'a>(runs: impl IntoIterator<Item = &'a WorkloadResult>) -> LittlesLaw {
        LittlesLaw::sum(runs.into_iter().filter_map(|run| run.window.littles_law))
    }
}

/// Hardware counters over the window, scaled by coverage. Counts, in user mode unless the name says otherwise.
///
/// Cycles, instructions, misses of the first and the last level, and mispredicted branches were counted at the same
/// moments, so ratios of them are valid; the others were counted at other moments of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Core cycles.
    pub cycles: Option<u64>,
    /// Instructions retired.
    pub instructions: Option<u64>,
    /// Instructions retired in kernel mode.
    #[serde(default)]
    pub kernel_instructions: Option<u64>,
    /// Instructions spent waiting for spin locks, by samples; of PostgreSQL's processes only.
    #[serde(default)]
    pub spin_instructions: Option<u64>,
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
    /// Share of the threads' time on cores in which the first five were actually counted, 0 to 1.
    pub coverage: f64,
    /// Whether the processor was a [simulated](crate::counted) one. Only whole runs are, with all of their blocks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_simulated: bool,
}

/// The names of classes by priority; names that are not priorities come last.
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
