//! `results.json`: the complete results of an experiment.
//!
//! A figure that could not be measured is `null` or absent, never 0; [`Results::warnings`] or [`Point::unmeasured`] has the
//! reason.

mod claims;
mod curves;
mod device;
mod line;
mod merge;
mod mode;
mod near;
mod point;
mod server;
mod size;
mod verified;

use std::collections::BTreeMap;

use plimsoll_machine::MachineFacts;
use plimsoll_machine::memory_speed::KeptSpeed;
use plimsoll_workload::benchmark::CheckLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reproduction::origin::Origin;

pub use claims::{ClaimInterval, ClaimResult, ClaimVerdict, IntervalOf};
pub use curves::{AxisRole, Knee, KneeLevel, Scalability};
pub use device::{CacheSwitching, ColumnReading, Device, Unmeasured};
pub use line::{Isolation, KeptShare, Line, LineStanding};
pub(crate) use merge::mean;
pub use mode::Mode;
pub(crate) use near::CHANGED;
pub use near::NearResult;
pub use plimsoll_workload::driver::{
    AbortCounts as Aborted, FailedRequests, Latency, Lengths, LockStatistics, LockWait, MeanLength,
    PartMeasurement as Part, ResponseByWaits, TimeShare, WindowCheck, WorkloadMeasurement, share_of,
};
pub use point::*;
pub use server::*;
pub use size::{
    CatalogueChoice, Headroom, JointTrial, JudgedMachine, NotTried, SizePromise, SizeStanding, SizeTrial, SizedLevel,
    SizedResource, Sizes, SlowDown, SlowDownFinding,
};
pub use verified::{Verified, VerifiedSetting};

/// The version of this document. A program refuses documents with another one.
pub const FORMAT: u32 = 3;

/// The whole document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Version of the program.
    pub plimsoll: String,
    /// Commit the program was built from; `None` outside a checkout.
    pub commit: Option<String>,
    /// UTC, ISO 8601, when the experiment began.
    pub started: String,
    /// Seconds the whole experiment took, loading included.
    pub elapsed_s: f64,
    /// Whether figures were measured or simulated.
    #[serde(default)]
    pub mode: Mode,
    /// The experiment and the code that it was begun with, as hashes; `None` if the program did not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The machine it ran on; for a simulation, the machine that the simulator ran on.
    pub machine: MachineFacts,
    /// Hash of the facts that distinguish machines: processor, usable cores, caches, memory, kernel.
    pub machine_fingerprint: String,
    /// The speed of its memory, as measured beforehand by `plimsoll machine --probe`; `None` if it was not measured.
    #[serde(default)]
    pub memory_speed: Option<KeptSpeed>,
    /// The experiment.
    pub experiment: Experiment,
    /// Every run, in the order they ran. Other parts of the document name runs by their positions here, from 0.
    pub points: Vec<Point>,
    /// The merged repeats of each setting, arm and workload.
    pub estimates: Vec<Estimate>,
    /// The least relative difference of throughput between two settings that is distinguished from noise, per workload.
    pub noise_floor: BTreeMap<String, NoiseFloor>,
    /// Throughput of a workload beside others over its throughput alone, per setting and arm.
    pub interference: Vec<Interference>,
    /// The work that workloads do together, compared with taking turns, per setting and arm.
    #[serde(default)]
    pub side_by_side: Vec<SideBySide>,
    /// Smallest sufficient allocations along each numeric sweep.
    pub knees: Vec<Knee>,
    /// How throughput scales with the number of clients, if that was swept.
    pub scalability: Vec<Scalability>,
    /// The effect of policies on each class of a workload, if policies were swept: by workload, then by policy.
    #[serde(default)]
    pub policies: Vec<PolicyEffect>,
    /// The cost of a governor's levers for each class, if there was a governor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levers: Vec<LeverUse>,
    /// Whether it was run with the file's `quick` settings.
    #[serde(default)]
    pub quick: bool,
    /// Runs that were not made, because it was stopped; 0 if it is complete.
    #[serde(default)]
    pub runs_left: usize,
    /// Claims and whether they hold.
    pub claims: Vec<ClaimResult>,
    /// Sentences that follow from the numbers, most important first.
    pub advice: Vec<String>,
    /// The least that the workload needs of the machine, if that was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// The settings that isolate, if a study has tried any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Line>,
    /// Advice on a promise, as measured, if verification was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    /// The results of checking the data and the clients' input afterwards, if that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<CheckLine>>,
    /// Warnings for the reader, such as why figures are missing.
    pub warnings: Vec<String>,
}

impl Results {
    /// The merged runs of a workload in an arm at a setting; `None` if none of them is valid.
    pub fn cell(&self, setting: &BTreeMap<String, serde_json::Value>, arm: &str, workload: &str) -> Option<&Estimate> {
        self.estimates.iter().find(|cell| cell.arm == arm && cell.workload == workload && cell.setting == *setting)
    }

    /// Whether a claim or a check of the data fails, or no run is valid, or a promise is broken even with everything. A claim that is undecided, or could not be judged,
    /// has not failed.
    pub fn has_failed(&self) -> bool {
        self.count_claims(ClaimVerdict::Fails) > 0
            || self.checks.iter().flatten().any(|check| check.holds == Some(false))
            || !self.points.iter().any(|point| point.valid)
            || self.sizes.as_ref().is_some_and(Sizes::is_short)
    }

    /// How many claims have this verdict.
    pub fn count_claims(&self, verdict: ClaimVerdict) -> usize {
        self.claims.iter().filter(|claim| claim.verdict == verdict).count()
    }
}

/// An experiment as it was run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Experiment {
    /// Its name.
    pub name: String,
    /// Its subject, in a sentence.
    pub title: Option<String>,
    /// The study whose exhibit it reproduces, if any.
    pub study: Option<String>,
    /// The differences from the study, beside the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// Hash of `settings`: runs with equal hashes measured the same thing.
    pub settings_hash: String,
    /// Every setting as resolved, defaults included, by name.
    pub settings: BTreeMap<String, serde_json::Value>,
    /// The swept axes, slowest first.
    pub sweep: Vec<SweptAxis>,
    /// The arms that ran at each setting: `alone:NAME`, `A+B`, `together`.
    pub arms: Vec<String>,
    /// The workloads' names, in the order of the file.
    pub workloads: Vec<String>,
    /// The experiment file as given; `None` if there was none.
    pub text: Option<String>,
}

/// A swept key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweptAxis {
    /// Its key, as in the keys of [`Point::setting`].
    pub key: String,
    /// Its values, in the order of the file.
    pub values: Vec<serde_json::Value>,
    /// The kind of amount that its values are.
    pub role: AxisRole,
}

/// A figure with its 95 % confidence interval over repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// Lower end; `None` with fewer than two repeats, which have no spread.
    pub low: Option<f64>,
    /// Upper end; `None` as for `low`.
    pub high: Option<f64>,
}

impl Interval {
    /// The same figure in another unit, or `factor` times as large; `factor` is above 0.
    pub(crate) fn times(self, factor: f64) -> Self {
        let times = |value: f64| value * factor;
        Interval { value: times(self.value), low: self.low.map(times), high: self.high.map(times) }
    }
}

/// The merged repeats of one setting, arm and workload: the cell that tables, reports, advice, comparisons and claims
/// read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Estimate {
    /// The swept settings.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// Its runs, as positions in [`Results::points`]: the samples of every figure here.
    pub runs: Vec<usize>,
    /// Runs of this setting and arm that are invalid and ignored.
    pub left_out: Vec<usize>,
    /// Runs among `runs` that lie far from the others. They are shown and counted, never dropped.
    pub outliers: Vec<usize>,
    /// Mean throughput over repeats, per second.
    pub throughput_per_s: Interval,
    /// Mean latency over repeats, microseconds; `None` if no request completed.
    pub mean_latency_us: Option<Interval>,
    /// The result of the workload in all of these runs together, [`WorkloadResult::merged`].
    pub measured: WorkloadResult,
    /// The activity of the devices, mean over runs; a figure that one run lacks is `None`.
    pub device: Device,
    /// The amount observed of each limit, mean over runs.
    #[serde(default)]
    pub achieved: BTreeMap<String, serde_json::Value>,
}

/// The noise of one workload's throughput. All figures are relative, so that 0.05 is 5 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// The least relative difference between the means of two settings that is not taken for noise; `None` with fewer than
    /// two repeats.
    pub floor: Option<f64>,
    /// Standard deviation of one run, relative to its setting's mean, pooled over all settings; `None` as for `floor`.
    pub deviation: Option<f64>,
    /// How many runs beyond the first of each setting the deviation rests on.
    pub degrees_of_freedom: usize,
    /// The largest relative difference seen between the two halves of the setting that ran twice (A/A); `None` if none did.
    pub repeated_setting: Option<f64>,
}

/// Throughput of a workload beside others over its throughput alone, at one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// The swept settings.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// The arm in which it was not alone.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The ratio; for analytical workloads at an equal mix of queries.
    pub ratio: Interval,
    /// The finding that follows from it.
    pub finding: Finding,
}

/// The work that the workloads of an arm do together at one setting, if all of them also ran alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SideBySide {
    /// The swept settings.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// The arm.
    pub arm: String,
    /// The sum of each workload's throughput over its throughput alone, within each block; the mean over blocks with
    /// Student's interval. Workloads that took turns would have 1, for any division of the time.
    pub work: Interval,
}

/// The finding of a comparison of two measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// More throughput, beyond noise.
    Faster,
    /// Less throughput, beyond noise.
    Slower,
    /// No difference beyond noise.
    NoDifference,
    /// Too few measurements to decide.
    NotDetermined,
}

impl Finding {
    /// In words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Finding::Faster => "faster",
            Finding::Slower => "slower",
            Finding::NoDifference => "no difference seen",
            Finding::NotDetermined => "not determined",
        }
    }
}

/// The effect of a policy on the response time of one class, against the first value of its sweep key (MW tab. 3.3).
///
/// Settings in which some policy has no valid run are left out for all policies, so that all are averaged over the same
/// settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyEffect {
    /// The sweep key whose values are policies: one that ends in `_policy`, or `governor`.
    pub axis: String,
    /// The policy.
    pub value: serde_json::Value,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The class.
    pub class: String,
    /// Whether the classes are spread over the workloads of the arm, so that one workload gains at the cost of another.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub across_workloads: bool,
    /// Mean latency under the first policy over mean latency under this one, averaged over the settings of the other
    /// swept keys: above 1 the class gains.
    pub gain: Interval,
    /// The inverse of that ratio, averaged in the same way: above 1 the class loses.
    pub penalty: Interval,
    /// Attempts of the class rolled back for a more important transaction, per request; `None` if the target does not
    /// report them.
    pub preemptions_per_request: Option<f64>,
    /// The number of settings averaged.
    pub settings: usize,
    /// The number of settings left out.
    pub settings_left_out: usize,
}

impl PolicyEffect {
    /// Whether both are of the same sweep key and arm, and of the same workload or of workloads that gain and lose at
    /// each other's cost. Such effects are listed one after the other.
    pub(crate) fn is_beside(&self, other: &PolicyEffect) -> bool {
        let place = |effect: &PolicyEffect| {
            let workload = (!effect.across_workloads).then(|| effect.workload.clone());
            (effect.axis.clone(), effect.arm.clone(), workload)
        };
        place(self) == place(other)
    }

    /// Its class for display beside other effects, with its workload if there are several.
    pub(crate) fn who(&self) -> String {
        if self.across_workloads { format!("{}, {}", self.workload, self.class) } else { self.class.clone() }
    }

    /// Whether its class is that of `last`, the last effect of its group, which is the least urgent one.
    pub(crate) fn is_least_urgent(&self, last: &PolicyEffect) -> bool {
        self.class == last.class
    }

    /// The direction of the effect and its factor: at least 1 if there is an effect. The least urgent class of a group
    /// `pays` for the others; one of the others that is slower `loses`.
    pub(crate) fn seen(&self, pays: bool) -> (&'static str, Interval) {
        let judged = if pays { self.penalty } else { self.gain };
        let (low, high) = (judged.low.unwrap_or(judged.value), judged.high.unwrap_or(judged.value));
        match (pays, low > 1.0, high < 1.0) {
            (_, false, false) => ("no difference seen", judged),
            (true, true, _) => ("pays", self.penalty),
            (true, _, true) => ("gains", self.gain),
            (false, true, _) => ("gains", self.gain),
            (false, _, true) => ("loses", self.penalty),
        }
    }
}

/// The cost of a governor's levers for one of its classes, over the valid runs of an arm at a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeverUse {
    /// The swept settings.
    pub setting: BTreeMap<String, serde_json::Value>,
    /// The arm.
    pub arm: String,
    /// The class, by its name in the governor's settings.
    pub class: String,
    /// Transactions that ended. A count.
    pub transactions: u64,
    /// Admission: the mean time that a transaction waited for admission, microseconds.
    pub admission_wait_us: f64,
    /// The same as a share of the time of transactions, 0 to 1; `None` if none took any time.
    pub admission_share: Option<f64>,
    /// Preemption: rollbacks for more important transactions per transaction, including those that were replayed.
    pub rolled_back_per_transaction: f64,
    /// Time spent on work that was rolled back, as a share of response time, 0 to 1; `None` if it is not known.
    pub work_lost_share: Option<f64>,
    /// Shares of the cores: time spent waiting for a core, as a share of response time, 0 to 1; `None` if it is not
    /// known.
    pub core_wait_share: Option<f64>,
    /// Why figures are missing.
    pub why_not: Vec<String>,
}
