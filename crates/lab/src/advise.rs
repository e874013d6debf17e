//! The load that meets a target: `plimsoll advise`.
//!
//! Mixes are [predicted](crate::predict) with each load of another workload, or each number of cores. The
//! promise is a percentile of one workload's response times. Percentiles come from a simulation that draws requests
//! from exponential distributions. The ratio of the workload's measured percentile alone to the simulated one is a
//! factor that mixes are assumed to share.

mod pitfalls;
mod settings_file;
#[cfg(test)]
mod tests;
pub mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use plimsoll_policy::{ParseTargetError, Target, TargetLimit};
use serde::Serialize;
use serde_json::Value;

use crate::predict::{
    CachePair, Model, PERCENTILES, PredictError, PredictedMix, Request as Prediction, Vary, alone, cache,
    check_workload, predict, usual_rate, without,
};
use crate::results::{Interval, Latency, Results, Verified};
use crate::summary::TOGETHER;
use plimsoll_display::distinct;

pub use settings_file::settings_file;

/// A promise to a workload: `oltp.p95 < 20ms`, `oltp.p95 < 1.3 x alone`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slo {
    /// The workload.
    pub workload: String,
    /// The target for its response times.
    pub target: Target,
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.workload, self.target)
    }
}

/// The text given is not a promise to a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SloError {
    /// The text does not name a workload.
    #[error("`{0}` names no workload; write for example oltp.p95 < 20ms")]
    Workload(String),
    /// The target after the workload cannot be read, or is not a percentile that can be predicted.
    #[error(transparent)]
    Target(#[from] ParseTargetError),
    /// The percentile is not one that is predicted.
    #[error("`{0}` is not predicted; p50, p95 and p99 are")]
    Percentile(String),
}

impl FromStr for Slo {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let (workload, target) = text.trim().split_once(".p").ok_or_else(|| SloError::Workload(text.to_owned()))?;
        let target: Target = format!("p{target}").parse()?;
        if workload.is_empty() {
            return Err(SloError::Workload(text.to_owned()));
        }
        let slo = Slo { workload: workload.to_owned(), target };
        if percentile(&slo).is_none() {
            return Err(SloError::Percentile(slo.target.percentile.to_string()));
        }
        Ok(slo)
    }
}

/// The percentile's name among those of a prediction.
pub(crate) fn percentile(slo: &Slo) -> Option<&'static str> {
    let name = slo.target.percentile.to_string();
    PERCENTILES.into_iter().find(|known| *known == name)
}

/// The promised percentile of some latencies; `None` if too few requests lie beyond it.
fn percentile_us(slo: &Slo, latency: &Latency) -> Option<u64> {
    match percentile(slo)? {
        "p50" => latency.p50,
        "p95" => latency.p95,
        _ => latency.p99,
    }
}

/// Whether the run's arms are pairs, without an arm of all workloads: then a mix has two workloads.
fn is_of_pairs(results: &Results) -> bool {
    let arms = &results.experiment.arms;
    !arms.iter().any(|arm| arm == TOGETHER) && arms.iter().any(|arm| arm.contains('+'))
}

/// A request for advice.
#[derive(Debug, Clone)]
pub struct Request {
    /// The promise to keep.
    pub slo: Slo,
    /// The key to vary and its values; by default the load of the workload to maximise, from 0 to twice that of the runs
    /// (from the least above 0 if it is the promised one).
    pub vary: Option<Vary>,
    /// The workload whose throughput is to be as high as possible. By default the workload whose clients are varied, or
    /// else the last workload other than the promised one.
    pub maximise: Option<String>,
}

/// Whether a mix keeps the promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The upper end of the percentile's interval is below the limit.
    Kept,
    /// The limit lies within the interval.
    Undecided,
    /// The lower end is above the limit.
    Broken,
    /// It could not be predicted.
    Refused,
}

/// One value that was tried.
#[derive(Debug, Clone, Serialize)]
pub struct TriedValue {
    /// Swept settings that are not loads, without the varied key.
    pub setting: BTreeMap<String, Value>,
    /// The varied key's value.
    pub value: u32,
    /// Whether the promise is kept.
    pub standing: Standing,
    /// The promised percentile, milliseconds; `None` if it was not predicted.
    pub percentile_ms: Option<Interval>,
    /// Requests per second of the workload to maximise; `None` as above.
    pub throughput_per_s: Option<Interval>,
    /// Whether the value lies beyond the measured range.
    pub is_extrapolated: bool,
    /// Why it was refused.
    pub refused: Option<String>,
}

/// The smallest allocation that is sufficient, from a knee of the run.
#[derive(Debug, Clone, Serialize)]
pub struct Allocation {
    /// The allocated resource: the sweep key.
    pub key: String,
    /// The arm and workload.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The share of full throughput that it is sufficient for, 0.9 or 0.95.
    pub share: f64,
    /// The sufficient amount; `None` if the run does not show it.
    pub amount: Option<serde_json::Value>,
    /// Why the amount is unknown.
    pub why_not: Option<String>,
}

/// The output of `plimsoll advise`.
#[derive(Debug, Clone, Serialize)]
pub struct Advice {
    /// The promise, as written.
    pub slo: String,
    /// The limit, milliseconds.
    pub limit_ms: f64,
    /// The key that was varied.
    pub key: String,
    /// The workload whose throughput is to be high.
    pub maximise: String,
    /// Every value, in order.
    pub tried: Vec<TriedValue>,
    /// The position in `tried` of the best value that keeps the promise; `None` if none does.
    pub best: Option<usize>,
    /// Sufficient allocations by the run's knees.
    pub allocations: Vec<Allocation>,
    /// The gain of pairs of workloads from cache partitioning; empty unless a workload was measured alone with
    /// shrinking shares of the cache.
    pub cache: Vec<CachePair>,
    /// Limits of the advice, in sentences.
    pub cautions: Vec<String>,
    /// Pitfalls of performance studies that apply to the run, in sentences.
    pub pitfalls: Vec<String>,
    /// The advised value and its neighbour as measured, if verification was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
}

/// Why advice is not possible.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdviseError {
    /// The promised percentile was not measured alone, so that the simulation has nothing to be compared with.
    #[error(
        "the {percentile} of `{workload}` alone was not measured, or on too few requests; run it again with longer windows"
    )]
    NoPercentile {
        /// The workload.
        workload: String,
        /// The percentile.
        percentile: String,
    },
    /// Nothing can be predicted.
    #[error(transparent)]
    Predict(#[from] PredictError),
}

/// Finds the value that keeps the promise and gives the other workload the highest throughput.
pub fn advise(results: &Results, request: &Request) -> Result<Advice, AdviseError> {
    let names = &results.experiment.workloads;
    let own = &request.slo.workload;
    check_workload(results, own)?;
    // Alone, a workload puts its promise at risk by its own clients.
    let other = names.iter().rev().find(|name| *name != own).unwrap_or(own);
    let varied = request.vary.as_ref().and_then(|vary| vary.key.rsplit_once('.'));
    let varied = varied.filter(|(_, field)| matches!(*field, "clients" | "rate")).map(|(name, _)| name);
    let varied = varied.filter(|name| *name != own.as_str() && names.iter().any(|known| known == *name));
    let maximise = request.maximise.as_deref().or(varied).unwrap_or(other).to_owned();
    check_workload(results, &maximise)?;
    let vary = request.vary.clone().unwrap_or_else(|| default_vary(results, &maximise, u32::from(maximise == *own)));
    // A run of pairs has no mix of all workloads; the mix is then these two.
    let workloads = if is_of_pairs(results) { vec![own.clone(), maximise.clone()] } else { Vec::new() };
    let name = percentile(&request.slo).expect("checked when it was read");
    let anchor = alone::percentile(results, own, name)?;
    let anchor =
        anchor.ok_or_else(|| AdviseError::NoPercentile { workload: own.clone(), percentile: name.to_owned() })?;
    let limit_ms = match request.slo.target.limit {
        TargetLimit::Length(length) => length.as_secs_f64() * 1e3,
        TargetLimit::HundredthsOfAlone(factor) => f64::from(factor) / 100.0 * anchor.measured_ms,
    };
    let predicted = predict(results, None, &Prediction { vary: Some(vary.clone()), workloads, model: Model::Des })?;
    let factor = anchor.measured_ms / anchor.simulated_ms;
    let promised = Promised { workload: own, percentile: name, factor, limit_ms, doubt: 0.0 };
    let advice = advice_of(&predicted.mixes, &vary, &promised, &maximise);
    let pitfalls = pitfalls::of(results, &vary.key);
    let cautions = predicted.cautions().into_iter().chain(&predicted.failed).cloned();
    let cautions = cautions.chain(cache::cautions(&predicted.cache)).collect();
    Ok(Advice {
        slo: request.slo.to_string(),
        allocations: allocations(results),
        cautions,
        cache: predicted.cache,
        pitfalls,
        ..advice
    })
}

/// The values that were tried, and the best of them that keeps the promise.
pub(crate) fn advice_of(mixes: &[PredictedMix], vary: &Vary, promised: &Promised<'_>, maximise: &str) -> Advice {
    let mixes = mixes.iter().zip(vary.values.iter().cycle());
    let tried: Vec<TriedValue> =
        mixes.map(|(mix, value)| tried(mix, (&vary.key, *value), promised, maximise)).collect();
    let throughput = |at: usize| tried[at].throughput_per_s.map_or(0.0, |throughput| throughput.value);
    let kept = (0..tried.len()).filter(|at| tried[*at].standing == Standing::Kept);
    let best = kept.max_by(|a, b| throughput(*a).total_cmp(&throughput(*b)).then(b.cmp(a)));
    Advice {
        slo: String::new(),
        limit_ms: promised.limit_ms,
        key: vary.key.clone(),
        maximise: maximise.to_owned(),
        tried,
        best,
        allocations: Vec::new(),
        cautions: Vec::new(),
        cache: Vec::new(),
        pitfalls: Vec::new(),
        verified: None,
    }
}

/// Steps in which the rate of a workload is tried.
const RATE_STEPS: u32 = 20;

/// The clients of a workload from `least` to twice as many as ran, or its rate up to twice that of the runs.
fn default_vary(results: &Results, workload: &str, least: u32) -> Vary {
    if let Some(rate) = usual_rate(results, workload) {
        let step = |step: u32| (2.0 * rate * f64::from(step) / f64::from(RATE_STEPS)).round() as u32;
        let values = distinct((least..=RATE_STEPS).map(step));
        return Vary { key: format!("{workload}.rate"), values };
    }
    let of_runs = results.points.iter().flat_map(|point| &point.workloads).filter(|one| one.name == workload);
    let most = of_runs.map(|one| one.clients as u32).max().unwrap_or(1);
    Vary { key: format!("{workload}.clients"), values: (least..=2 * most).collect() }
}

/// The promise in the form in which mixes are judged.
pub(crate) struct Promised<'a> {
    pub(crate) workload: &'a str,
    pub(crate) percentile: &'static str,
    /// The measured percentile alone over the simulated one.
    pub(crate) factor: f64,
    pub(crate) limit_ms: f64,
    /// How far the percentile may be off beside the mean, in logarithms.
    pub(crate) doubt: f64,
}

fn tried(mix: &PredictedMix, (key, value): (&str, u32), promised: &Promised<'_>, maximise: &str) -> TriedValue {
    let of = |name: &str| mix.workloads.iter().find(|one| one.name == name);
    let own = of(promised.workload);
    let simulated = own.and_then(|own| *own.percentiles_ms.as_ref()?.get(promised.percentile)?);
    // The simulation's interval covers only its own randomness; the uncertainty over blocks is that of the mean.
    let interval = simulated.zip(own.and_then(|own| own.response_ms)).map(|(simulated, mean)| {
        let scaled = simulated.times(promised.factor);
        // Two independent doubts add as squares.
        let wider = |end: f64| (end / mean.value).ln().hypot(promised.doubt).exp();
        Interval {
            value: scaled.value,
            low: scaled.low.zip(mean.low).map(|(low, mean_low)| low / wider(mean_low)),
            high: scaled.high.zip(mean.high).map(|(high, mean_high)| high * wider(mean_high)),
        }
    });
    let standing = match interval.map(|interval| (interval.low, interval.high)) {
        None => Standing::Refused,
        Some((_, Some(high))) if high < promised.limit_ms => Standing::Kept,
        Some((Some(low), _)) if low > promised.limit_ms => Standing::Broken,
        Some(_) => Standing::Undecided,
    };
    let too_few = "the simulation answered too few requests for this percentile".to_owned();
    TriedValue {
        setting: without(&mix.setting, key),
        value,
        standing,
        percentile_ms: interval,
        throughput_per_s: of(maximise).map(|one| one.throughput_per_s),
        is_extrapolated: mix.is_extrapolated,
        refused: mix.refused.clone().or_else(|| interval.is_none().then_some(too_few)),
    }
}

fn allocations(results: &Results) -> Vec<Allocation> {
    let of_knee = |knee: &crate::results::Knee| {
        let level = |level: &crate::results::KneeLevel| Allocation {
            key: knee.axis.clone(),
            arm: knee.arm.clone(),
            workload: knee.workload.clone(),
            share: level.share,
            amount: level.allocation.clone(),
            why_not: level.why_not.clone(),
        };
        knee.levels.iter().map(level).collect::<Vec<_>>()
    };
    results.knees.iter().flat_map(of_knee).collect()
}
