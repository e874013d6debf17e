//! The requested mixes: those of a `--vary` key, or the measured ones.

use std::collections::BTreeSet;
use std::str::FromStr;

use plimsoll_notation::{choices, did_you_mean};
use serde::Serialize;
use serde_json::Value;

use super::inputs::{Inputs, Setting};
use super::loads::base_of;
use super::{PredictError, Request, check_workload};
use crate::experiment::range;
use crate::failed::invalid_runs;
use crate::results::{Estimate, Interval, Results, WorkloadResult};
use plimsoll_display::{self as units, distinct};

/// More mixes than this are taken for a typing error.
const VALUES_MAX: usize = 1000;

/// The key of the cores that all workloads share, whose effect the model knows.
const CORES: &str = "cores";

/// A key and its values: `olap.clients=1..50`, `cores=2,4,8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    /// The key as written.
    pub key: String,
    /// Its values.
    pub values: Vec<u32>,
}

/// A fault of the key or values to vary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VaryError {
    /// The text is not a key and its values.
    #[error(
        "`{0}` does not say what to vary; write KEY=FIRST..LAST, as in olap.clients=1..50, or a list, as in cores=2,4"
    )]
    Form(String),
    /// Values that make no sense.
    #[error("--vary {key}: {why}")]
    Values {
        /// The key.
        key: String,
        /// Why.
        why: String,
    },
    /// Values that cannot be held out.
    #[error("--hold-out {key}: {why}")]
    HoldOut {
        /// The key.
        key: String,
        /// Why.
        why: String,
    },
    /// A key to hold out that has one value in all runs.
    #[error("--hold-out {key}: the run did not sweep this{hint}; it swept {known}")]
    NotSwept {
        /// The key.
        key: String,
        /// ` (did you mean …?)`, or nothing.
        hint: String,
        /// The keys that it swept.
        known: String,
    },
    /// No model predicts the effect of the key.
    #[error(
        "`{key}` was not measured in a form that a model knows{hint}; these can be varied: {known}. To learn what it does, sweep it in an experiment"
    )]
    Unknown {
        /// The key.
        key: String,
        /// ` (did you mean …?)`, or nothing.
        hint: String,
        /// The keys that can.
        known: String,
    },
}

impl FromStr for Vary {
    type Err = VaryError;

    fn from_str(text: &str) -> Result<Self, VaryError> {
        let form = || VaryError::Form(text.to_owned());
        let (key, values) = text.split_once('=').ok_or_else(form)?;
        let (key, values) = (key.trim(), values.trim());
        let wrong = |why: String| VaryError::Values { key: key.to_owned(), why };
        if key.is_empty() || values.is_empty() {
            return Err(form());
        }
        let numbers: Vec<i64> = match values.contains("..") {
            true => range(values).map_err(wrong)?,
            false => values.split(',').map(|one| one.trim().parse()).collect::<Result<_, _>>().map_err(|_| form())?,
        };
        if numbers.len() > VALUES_MAX {
            return Err(wrong(format!("more than {VALUES_MAX} values; take a step, as in 1..50 by 5")));
        }
        let values = numbers.iter().map(|number| u32::try_from(*number)).collect::<Result<Vec<u32>, _>>();
        let values = values.map_err(|_| wrong("values must be 0 or more".to_owned()))?;
        Ok(Vary { key: key.to_owned(), values })
    }
}

/// The measurements of a workload in a mix, with 95 % intervals over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredWorkload {
    /// Requests per second.
    pub throughput_per_s: Interval,
    /// Mean response, milliseconds; `None` if no request was answered, or windows were too short for it.
    pub response_ms: Option<Interval>,
}

impl MeasuredWorkload {
    /// The response is left out if the windows do not obey Little's law: they are then too short for it.
    fn of(cell: &Estimate, results: &Results) -> Self {
        let points = cell.runs.iter().filter_map(|run| results.points.get(*run));
        let runs = points.flat_map(|point| &point.workloads).filter(|one| one.name == cell.workload);
        let is_steady = WorkloadResult::littles_law(runs).doubt().is_none();
        MeasuredWorkload {
            throughput_per_s: cell.throughput_per_s,
            response_ms: cell.mean_latency_us.filter(|_| is_steady).map(|us| us.times(1e-3)),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct RequestedMix {
    /// Swept settings that are not loads.
    pub(super) base: Setting,
    pub(super) members: Vec<RequestedWorkload>,
    /// Other cores than those of the runs.
    pub(super) cores: Option<u32>,
    /// Whether its measurement adjusts the model.
    pub(super) is_calibration: bool,
}

/// A workload in it.
#[derive(Debug, Clone)]
pub(super) struct RequestedWorkload {
    pub(super) name: String,
    pub(super) clients: u32,
    pub(super) think_s: f64,
    /// Requests that arrive per second; `None` if clients wait for answers.
    pub(super) rate: Option<f64>,
    pub(super) measured: Option<MeasuredWorkload>,
}

pub(super) fn asked(
    inputs: &Inputs<'_>,
    against: Option<&Results>,
    request: &Request,
) -> Result<Vec<RequestedMix>, PredictError> {
    let vary = request.vary.as_ref();
    let known = &inputs.results.experiment.workloads;
    request.workloads.iter().try_for_each(|name| check_workload(inputs.results, name))?;
    if let Some(other) = against {
        let mixes: Vec<RequestedMix> =
            measured(inputs, other, false).into_iter().filter(|mix| is_within(mix, vary)).collect();
        let names = || choices(&inputs.results.experiment.workloads);
        return if mixes.is_empty() { Err(PredictError::NothingAgainst(names())) } else { Ok(mixes) };
    }
    if let Some(vary) = vary {
        let wanted = |name: &&String| request.workloads.is_empty() || request.workloads.contains(*name);
        let names: Vec<&String> = known.iter().filter(wanted).collect();
        return varied(inputs, vary, &names);
    }
    let mixes = measured(inputs, inputs.results, true);
    if mixes.is_empty() { Err(no_mix(inputs.results)) } else { Ok(mixes) }
}

/// Why a run has no mix: none ran, or none is valid.
fn no_mix(results: &Results) -> PredictError {
    let mixes = results.points.iter().filter(|point| !point.arm.starts_with("alone:"));
    match invalid_runs(mixes).first() {
        Some((why, _)) => PredictError::InvalidMixes((*why).to_owned()),
        None => PredictError::NoMix(results.experiment.workloads.last().cloned().unwrap_or_default()),
    }
}

/// The arms of a run with several workloads.
fn measured(inputs: &Inputs<'_>, results: &Results, is_calibration: bool) -> Vec<RequestedMix> {
    let of = Inputs::of(results);
    let mut mixes: Vec<(Setting, &str, RequestedMix)> = Vec::new();
    for cell in &results.estimates {
        if cell.arm.starts_with("alone:") || !inputs.results.experiment.workloads.contains(&cell.workload) {
            continue;
        }
        let member = RequestedWorkload {
            measured: Some(MeasuredWorkload::of(cell, results)),
            ..of.asked(&cell.setting, &cell.workload, cell.measured.clients as u32)
        };
        match mixes.iter_mut().find(|(setting, arm, _)| *setting == cell.setting && *arm == cell.arm) {
            Some((_, _, mix)) => mix.members.push(member),
            None => {
                let base = base_of(&cell.setting);
                let mix = RequestedMix { base, members: vec![member], cores: None, is_calibration };
                mixes.push((cell.setting.clone(), &cell.arm, mix));
            }
        }
    }
    mixes.into_iter().map(|(_, _, mix)| mix).filter(|mix| mix.members.len() > 1).collect()
}

/// Splits a run by the settings that have these values of a swept key: the run without them, which trains the model,
/// and the mixes of these settings, which test it. Both were measured in the same blocks, so slow drift affects both.
pub fn hold_out(results: &Results, held: &Vary) -> Result<(Results, Results), VaryError> {
    let value = |setting: &Setting| setting.get(&held.key).and_then(Value::as_u64);
    let is_held =
        |setting: &Setting| value(setting).is_some_and(|one| held.values.iter().any(|it| u64::from(*it) == one));
    let swept: BTreeSet<u64> = results.points.iter().filter_map(|point| value(&point.setting)).collect();
    if swept.is_empty() {
        let known: BTreeSet<&str> =
            results.points.iter().flat_map(|point| point.setting.keys()).map(String::as_str).collect();
        let hint = did_you_mean(&held.key, known.iter().copied());
        return Err(VaryError::NotSwept { key: held.key.clone(), hint, known: choices(known) });
    }
    let wrong = |why: String| VaryError::HoldOut { key: held.key.clone(), why };
    if let Some(missing) = held.values.iter().find(|value| !swept.contains(&u64::from(**value))) {
        return Err(wrong(format!(
            "{missing} was not measured; the run has swept {}",
            choices(swept.iter().map(u64::to_string))
        )));
    }
    if swept.len() == held.values.iter().collect::<BTreeSet<_>>().len() {
        return Err(wrong("these are all the values of the run, so that none is left to predict from".to_owned()));
    }
    let (mut taught, mut judges) = (results.clone(), results.clone());
    taught.points.retain(|point| !is_held(&point.setting));
    // These refer to points by position, which the remaining points no longer have.
    taught.estimates.clear();
    judges.estimates.retain(|cell| is_held(&cell.setting));
    Ok((taught, judges))
}

/// Whether a measured mix is among the requested values.
fn is_within(mix: &RequestedMix, vary: Option<&Vary>) -> bool {
    vary.is_none_or(|vary| {
        if let Some(value) = mix.base.get(&vary.key) {
            return value.as_u64().is_some_and(|value| vary.values.iter().any(|wanted| u64::from(*wanted) == value));
        }
        let of_load = |member: &RequestedWorkload| match vary.key.strip_prefix(member.name.as_str())? {
            ".clients" => Some(f64::from(member.clients)),
            ".rate" => member.rate,
            _ => None,
        };
        let load = mix.members.iter().find_map(of_load);
        load.is_none_or(|load| vary.values.iter().any(|value| f64::from(*value) == load))
    })
}

/// These workloads together, with each value of the key: the load of one of them, cores, or a swept setting such as
/// `dop`. The effect of a setting on a workload alone is not predicted, so each of its values must have been measured.
fn varied(inputs: &Inputs<'_>, vary: &Vary, names: &[&String]) -> Result<Vec<RequestedMix>, PredictError> {
    let bases = inputs.bases();
    let own: Vec<String> = names.iter().map(|name| inputs.load_key(name)).collect();
    let swept: BTreeSet<&str> = bases.iter().flat_map(|base| base.keys()).map(String::as_str).collect();
    let swept = swept.into_iter().filter(|key| *key != CORES);
    let known: Vec<&str> = own.iter().map(String::as_str).chain([CORES]).chain(swept).collect();
    if !known.contains(&vary.key.as_str()) {
        return Err(VaryError::Unknown {
            key: vary.key.clone(),
            hint: did_you_mean(&vary.key, known.iter().copied()),
            known: choices(known),
        }
        .into());
    }
    if vary.key == CORES && vary.values.contains(&0) {
        return Err(VaryError::Values { key: vary.key.clone(), why: "nothing runs on 0 cores".to_owned() }.into());
    }
    let mix = |base: &Setting, value: u32| {
        let member = |(name, key): (&&String, &String)| {
            let usual = inputs.usual(name);
            match usual.rate {
                _ if *key != vary.key => usual,
                Some(_) => RequestedWorkload { rate: Some(f64::from(value)), ..usual },
                None => RequestedWorkload { clients: value, ..usual },
            }
        };
        let members = names.iter().zip(&own).map(member).collect();
        let cores = (vary.key == CORES).then_some(value);
        RequestedMix { base: base.clone(), members, cores, is_calibration: false }
    };
    if vary.key == CORES || own.contains(&vary.key) {
        return Ok(bases.iter().flat_map(|base| vary.values.iter().map(|value| mix(base, *value))).collect());
    }
    let rests = distinct(bases.iter().map(|base| without(base, &vary.key)));
    let mut mixes = Vec::new();
    for (rest, value) in rests.iter().flat_map(|rest| vary.values.iter().map(move |value| (rest, *value))) {
        let is_it =
            |base: &&Setting| base[&vary.key].as_u64() == Some(u64::from(value)) && without(base, &vary.key) == *rest;
        let base = bases.iter().filter(|base| base.contains_key(&vary.key)).find(is_it).ok_or_else(|| {
            let measured: BTreeSet<String> =
                bases.iter().filter_map(|base| base.get(&vary.key)).map(units::value).collect();
            let why = format!("{value} was not measured; the run has swept {}", choices(&measured));
            VaryError::Values { key: vary.key.clone(), why }
        })?;
        mixes.push(mix(base, value));
    }
    Ok(mixes)
}

/// Settings without one key.
pub(crate) fn without(setting: &Setting, key: &str) -> Setting {
    setting.iter().filter(|(own, _)| *own != key).map(|(own, value)| (own.clone(), value.clone())).collect()
}
