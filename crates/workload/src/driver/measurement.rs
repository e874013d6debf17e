//! The work of a workload within a window, or within several together, as results keep it.
//!
//! The driver fills it in except for the time shares, which follow from sensor readings of the threads or processes
//! that served the requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::doubt::{Doubt, LittlesLaw};
use super::failures::FailedRequests;
use super::latency::Latency;
use super::lock_statistics::LockStatistics;
use super::time_share::TimeShare;
use crate::database::NetworkBytes;

/// The work of one workload within a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadMeasurement {
    /// Its name in the experiment.
    pub name: String,
    /// The benchmark.
    pub kind: String,
    /// Whether its requests are queries, which differ in cost and run on the database's query threads: their throughput counts
    /// work done within the window, and arms are compared at an equal mix of queries.
    #[serde(default)]
    pub analytical: bool,
    /// How many clients ran.
    pub clients: usize,
    /// All of its requests, of every class and kind.
    #[serde(flatten)]
    pub all: PartMeasurement,
    /// Requests and attempts that failed or were rolled back.
    pub aborted: AbortCounts,
    /// Why requests failed, the most frequent reason first; empty in documents of versions that did not record it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRequests>,
    /// Why attempts were run again, the most frequent reason first, of requests that were still under way at the end of
    /// the window, too. Each count is one of attempts. Empty in documents of versions that did not record it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_again: Vec<FailedRequests>,
    /// `[quantile, microseconds]` pairs that draw the distribution, ascending.
    pub latency_distribution: Vec<(f64, u64)>,
    /// The same by priority class; a class that no request had is absent.
    pub classes: BTreeMap<String, PartMeasurement>,
    /// The same by kind of transaction or query, all of the benchmark's.
    pub transactions: BTreeMap<String, PartMeasurement>,
    /// Share of response time that clients spent on round trips between their statements, as the experiment has them; it is
    /// within [`TimeShare::client`], or where that is `None` within [`TimeShare::other`]. `None` if no request was under way,
    /// and of queries, which have no round trips.
    #[serde(default)]
    pub round_trip_share: Option<f64>,
    /// How far the window shows a steady state.
    #[serde(default)]
    pub window: WindowCheck,
    /// How long its requests waited for locks, whether or not the target reports each wait
    /// ([`PartMeasurement::locks`]); `None` if it reports neither.
    #[serde(default)]
    pub lock_wait: Option<LockWait>,
}

/// Requests of a workload: all of them, those of a class, or those of a kind of transaction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartMeasurement {
    /// Requests that ended inside the window, those that rolled themselves back as prescribed included.
    pub completed: u64,
    /// Completed requests per second of window. Of an analytical workload: queries per second, each credited with the
    /// share of its time inside the window, because a window holds few of them.
    pub throughput_per_s: f64,
    /// Latency of the completed requests from their intended start. `None` if none completed.
    pub latency_us: Option<Latency>,
    /// Requests in the system when the window opened and when it closed; `None` over several runs. Counts. In open loop,
    /// requests that no client had taken yet are of no class and no kind, and counted with all of the workload only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
    /// The requests' lock waits and rollbacks; `None` for a kind of transaction, for which they are not recorded, and
    /// if the target does not report single lock waits, which is then a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<LockStatistics>,
    /// The parts of their response time, from their intended start; `None` if they were not measured for parts of a
    /// workload, or too few samples found such a request under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_share: Option<TimeShare>,
    /// How many samples of the server that rests on. A count; `None` if the server is not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The most memory that sorts, aggregations and joins of one of the queries kept at a time. Bytes. `None` if the
    /// target does not report it, and of requests that are no queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_memory_bytes: Option<u64>,
    /// What the processes that answered the completed requests received from each other, all together. `None` if the
    /// target is one process or does not report it, and if it is unknown of one of the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_bytes: Option<NetworkBytes>,
}

/// How far the window of a run shows a steady state of one workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowCheck {
    /// The two sides of Little's law; `None` in documents of versions that did not measure them.
    pub littles_law: Option<LittlesLaw>,
    /// In open loop: requests that arrived, per second of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// In open loop: requests that waited for a free client when the window closed. A count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// In open loop: share of the time that requests spent in the system in which they waited for a free client; it is within
    /// [`TimeShare::other`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_share: Option<f64>,
    /// Why the figures may not be those of a steady state.
    pub doubts: Vec<Doubt>,
}

impl WindowCheck {
    /// Merges the windows of several runs: Little's law over all of them.
    pub fn merged<'a>(windows: impl IntoIterator<Item = &'a WindowCheck>) -> WindowCheck {
        let laws: Option<Vec<LittlesLaw>> = windows.into_iter().map(|window| window.littles_law).collect();
        WindowCheck { littles_law: laws.map(LittlesLaw::sum), ..WindowCheck::default() }
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

/// Requests in the system at both ends of the window: arrived, and not yet ended. Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// When it opened.
    pub begin: u64,
    /// When it closed.
    pub end: u64,
}

impl InFlight {
    pub(super) fn add(&mut self, other: InFlight) {
        self.begin += other.begin;
        self.end += other.end;
    }
}

/// Attempts that failed or were rolled back, of requests that ended inside the window. Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortCounts {
    /// Attempts rolled back as victim of a deadlock.
    pub deadlock: u64,
    /// Attempts rolled back for a more important transaction.
    pub preempted: u64,
    /// Attempts rolled back because another transaction had changed rows that they had read.
    #[serde(default)]
    pub conflict: u64,
    /// Requests that rolled themselves back as the benchmark prescribes; these are completed too.
    pub user: u64,
    /// Requests given up: an error, or more retries than the bound.
    pub error: u64,
}

impl AbortCounts {
    /// Adds the counts of other requests.
    pub fn add(&mut self, other: &AbortCounts) {
        self.deadlock += other.deadlock;
        self.preempted += other.preempted;
        self.conflict += other.conflict;
        self.user += other.user;
        self.error += other.error;
    }
}
