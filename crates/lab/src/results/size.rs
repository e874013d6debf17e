//! What a workload needs of the machine: a bracket for each resource, headroom, and the machine that suffices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Interval;

/// The answer of a search for sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// The workload.
    pub workload: String,
    /// Its speed with everything, requests per second.
    pub full_per_s: Option<Interval>,
    /// The promise on its response times, as written; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<SizePromise>,
    /// Each resource that was limited.
    pub resources: Vec<SizedResource>,
    /// The resources that were not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_tried: Vec<NotTried>,
    /// The slow-down of each kind of request with the least amount of each resource that was tried, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_downs: Vec<SlowDown>,
    /// With the sufficient amount of every resource at once; `None` if that was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joint: Option<JointTrial>,
    /// At twice the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Headroom>,
    /// Which other processes used the machine, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<String>,
    /// Seconds that the search might take, and those that it took.
    pub budget_s: f64,
    /// Seconds that its runs took, loading included.
    pub took_s: f64,
    /// Whether it ended because the time was over, with brackets that more time would narrow.
    pub out_of_time: bool,
    /// The cheapest machine of a catalogue that suffices, if a catalogue was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueChoice>,
}

impl Sizes {
    /// Whether even the full machine breaks the promise, beyond noise.
    pub fn is_short(&self) -> bool {
        self.promise.as_ref().is_some_and(|promise| promise.standing == SizeStanding::Broken)
    }
}

/// Whether the full machine keeps a promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeStanding {
    /// It keeps it, beyond noise.
    Kept,
    /// It breaks it, beyond noise.
    Broken,
    /// Noise hides which, or too few requests ended in a window.
    Undecided,
}

/// A promise, and the full machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizePromise {
    /// As written: `p95 < 20ms`.
    pub text: String,
    /// The promised percentile with everything, milliseconds; `None` if no window has enough requests for it.
    pub full_ms: Option<Interval>,
    /// Whether it is kept with everything.
    pub standing: SizeStanding,
    /// The answer in a sentence.
    pub sentence: String,
}

/// One resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizedResource {
    /// Its key in experiments.
    pub key: String,
    /// Its name.
    pub name: String,
    /// The unit of amounts that are numbers; empty if they have their own.
    pub unit: String,
    /// The full amount: a value, or `unlimited`.
    pub full: Value,
    /// The full amount as a number in that unit, or in bytes; `None` if it is not known.
    pub full_amount: Option<f64>,
    /// The bracket for each goal, in order: 90 % of full speed, 95 %, the promise.
    pub levels: Vec<SizedLevel>,
    /// The amounts that ran, ascending.
    pub trials: Vec<SizeTrial>,
    /// Why there is no answer, such as a limit that did not take effect.
    pub why_not: Option<String>,
    /// The answer in a sentence.
    pub sentence: String,
}

/// Where the least sufficient amount for a goal lies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizedLevel {
    /// The share of full speed, 0 to 1; `None` for the promise.
    pub share: Option<f64>,
    /// The largest amount that is insufficient, beyond noise; `None` if no tried amount is.
    pub more_than: Option<Value>,
    /// The smallest amount that is sufficient, beyond noise; `None` if none is known to be, which happens only for a promise.
    pub at_most: Option<Value>,
    /// Whether the two are neighbours, so that the bracket is as narrow as the amounts allow.
    pub is_narrow: bool,
    /// Whether the time was over before noise was known to hide the rest: more time may narrow the bracket.
    #[serde(default)]
    pub is_open: bool,
}

/// The runs of an amount.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeTrial {
    /// The amount.
    pub amount: Value,
    /// Its speed over that of the full amount in the same block, with the 95 % interval over blocks.
    pub ratio: Option<Interval>,
    /// The promised percentile, milliseconds.
    pub latency_ms: Option<Interval>,
    /// Valid runs. A count.
    pub runs: usize,
    /// Whether they are too few to decide what the bracket needs to know.
    #[serde(default)]
    pub is_open: bool,
}

/// What less of a resource does to a kind of request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowDown {
    /// The kind of request: a transaction of an own workload, a query of a benchmark.
    pub request: String,
    /// The resource's key.
    pub key: String,
    /// Its name.
    pub resource: String,
    /// The amount.
    pub amount: Value,
    /// Mean latency over that with everything, in the same block.
    pub times: Interval,
    /// What that says.
    pub finding: SlowDownFinding,
    /// Whether the target has another plan for it; `None` if it does not tell its plans.
    pub plan_changed: Option<bool>,
}

/// Whether a request is slower, beyond noise and by more than a tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowDownFinding {
    /// It is.
    Hurt,
    /// It is not.
    Insensitive,
    /// Noise hides which.
    Undecided,
}

/// All resources limited at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JointTrial {
    /// The amounts by key; resources that are not named are in full.
    pub setting: BTreeMap<String, Value>,
    /// Speed over that with everything.
    pub ratio: Option<Interval>,
    /// The promised percentile, milliseconds.
    pub latency_ms: Option<Interval>,
    /// The result in a sentence.
    pub sentence: String,
}

/// At twice the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Headroom {
    /// What was doubled: `clients` or `rate`.
    pub key: String,
    /// Speed with everything at twice the load, over that at the load itself; measured. `None` if it was not run.
    pub measured_ratio: Option<Interval>,
    /// The promised percentile at twice the load, milliseconds; measured.
    pub measured_ms: Option<Interval>,
    /// Cores that the workload kept busy at the load itself; measured.
    pub busy_cores: Option<f64>,
    /// Cores that twice as many requests per second keep busy: twice as many, by the utilisation law; predicted.
    pub predicted_cores: Option<f64>,
    /// The answer in a sentence.
    pub sentence: String,
}

/// A resource that was not limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotTried {
    /// Its name.
    pub resource: String,
    /// Why.
    pub why: String,
    /// What to do about it; `None` if nothing helps.
    pub remedy: Option<String>,
}

/// A choice among the machines of a catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CatalogueChoice {
    /// What the machine is to keep: `95 % of full speed`, `p95 < 20ms`.
    pub goal: String,
    /// Every machine, by price.
    pub machines: Vec<JudgedMachine>,
    /// The position of the cheapest that suffices; `None` if none is known to.
    pub best: Option<usize>,
    /// The choice, and why the next cheaper does not do.
    pub sentence: String,
}

/// A machine of a catalogue, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgedMachine {
    /// Its name.
    pub name: String,
    /// Its price, in the catalogue's currency.
    pub price: f64,
    /// Whether it suffices.
    pub standing: SizeStanding,
    /// Why it does not, or why that is not known.
    pub why_not: Vec<String>,
}
