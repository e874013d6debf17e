//! Results of a sweep along its axis: the smallest sufficient amount, and how throughput scales.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Interval;

/// The smallest sufficient allocation along one sweep of amounts, for one workload in one arm. Allocations are the values of
/// the sweep as written: 8, `64MB`, `unlimited`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The sweep key along which it was searched.
    pub axis: String,
    /// The values of all other swept settings.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The sufficient allocations for 90 % and for 95 % of the full allocation's throughput.
    pub levels: Vec<KneeLevel>,
    /// The monotone fit: `[allocation, throughput per second]`, ascending.
    pub fit: Vec<(serde_json::Value, f64)>,
}

/// The sufficient allocation for one share of full throughput.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KneeLevel {
    /// The share, 0.9 or 0.95.
    pub share: f64,
    /// The smallest measured allocation whose lower confidence bound reaches the share; `None` if not determined.
    pub allocation: Option<serde_json::Value>,
    /// Lower end of the allocation's 95 % interval.
    pub low: Option<serde_json::Value>,
    /// Upper end.
    pub high: Option<serde_json::Value>,
    /// Why it is not determined.
    pub why_not: Option<String>,
}

/// The universal scalability law fitted to throughput over clients, or over workers: `X(N) = gamma N / (1 + sigma (N-1) + kappa N (N-1))`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scalability {
    /// The sweep key that counts clients or workers.
    pub axis: String,
    /// The values of all other swept settings.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// Throughput of one client, or one worker, per second. `None`, as all figures here, if not determined.
    pub gamma: Option<Interval>,
    /// Contention: the serial share.
    pub sigma: Option<Interval>,
    /// Coherency: the cost of each pair.
    pub kappa: Option<Interval>,
    /// The number of clients or workers with the highest throughput; `None` also if the law has no peak.
    pub peak_clients: Option<Interval>,
    /// `[number, throughput per second]` of the fitted law, to draw it.
    pub fit: Vec<(f64, f64)>,
    /// Why it is not determined.
    pub why_not: Option<String>,
}

/// The kind of amount that the values of a sweep are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AxisRole {
    /// A resource given to work, of which more either helps or has no effect: its smallest sufficient amount is a knee.
    Allocation,
    /// Clients with concurrent requests.
    Clients,
    /// Anything else: the size of the data, a policy, a query.
    Other,
}
