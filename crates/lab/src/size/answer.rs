//! The answer of a search for sizes, from the records of its runs.

use serde_json::Value;

use super::resources::of_key;
use super::search::{Evidence, Goal, goals, is_load, limit_us};
use super::{slow_downs, words};
use crate::amounts::Amounts;
use crate::analysis::side_by_side::over_blocks;
use crate::others;
use crate::plan::Plan;
use crate::predict::own_cpu_s;
use crate::record::RunRecord;
use crate::results::{
    Headroom, Interval, JointTrial, Point, SizePromise, SizeStanding, SizeTrial, SizedLevel, SizedResource, Sizes,
};
use plimsoll_model::knee::bracket::{Bracket, BracketSearch, Standing};
use plimsoll_policy::Target;

/// The answer. `cores` and `memory_mib` are what the machine has.
pub(crate) fn answer(plan: &Plan, records: &[RunRecord], cores: usize, memory_mib: Option<f64>) -> Sizes {
    let evidence = Evidence::of(plan, records.iter());
    let whole = |key: &str| match key {
        "cpu_quota" => Some(cores as f64),
        crate::limits::MEMORY_MIB => memory_mib,
        _ => None,
    };
    let points: Vec<Point> = records.iter().map(|record| record.point.clone()).collect();
    let others = others::of_runs(&points, cores);
    let others_cores = others.as_ref().map_or(0.0, |_| busy_others(&points));
    let axes = || (0..plan.axes.len()).filter(|axis| !is_load(plan, *axis));
    let resources: Vec<SizedResource> =
        axes().map(|axis| resource(&evidence, plan, axis, whole(&plan.axes[axis].key), others_cores)).collect();
    let promise = plan.run.sizing.promise;
    let is_open = |axis: usize| goals(plan).iter().any(|goal| evidence.search(axis, *goal).next().is_some());
    Sizes {
        workload: plan.base.workloads.first().map(|workload| workload.name.clone()).unwrap_or_default(),
        full_per_s: mean(evidence.of_setting(evidence.full()).map(|(_, result)| result.all.throughput_per_s).collect()),
        promise: promise.map(|target| kept_promise(&evidence, plan, target)),
        not_tried: Vec::new(),
        slow_downs: slow_downs::of(&evidence, plan, records),
        joint: evidence.joint().and_then(|setting| joint(&evidence, plan, setting)),
        headroom: headroom(&evidence, plan, records, cores),
        others,
        budget_s: plan.run.sizing.budget.as_secs_f64(),
        took_s: evidence.spent_s,
        out_of_time: axes().any(is_open),
        catalogue: None,
        resources,
    }
}

/// The mean over blocks with Student's interval; `None` without any.
fn mean(values: Vec<f64>) -> Option<Interval> {
    over_blocks(values.into_iter().map(Some).collect())
}

fn milliseconds(us: Vec<f64>) -> Option<Interval> {
    mean(us.into_iter().map(|us| us / 1e3).collect())
}

fn busy_others(points: &[Point]) -> f64 {
    let busy: Vec<f64> = points.iter().filter_map(|point| point.device.busy_cores_others).collect();
    busy.iter().sum::<f64>() / busy.len().max(1) as f64
}

fn resource(evidence: &Evidence<'_>, plan: &Plan, axis: usize, whole: Option<f64>, others_cores: f64) -> SizedResource {
    let of = &plan.axes[axis];
    let known = of_key(&of.key);
    let amounts = Amounts::of(&of.values);
    let full = of.values.last().cloned().unwrap_or_default();
    let level = |goal: Goal| {
        let bracket = evidence.search(axis, goal).bracket();
        // Beside others full speed is less than it would be without them, so that too little may look sufficient.
        let shifted = if of.key == "cpu_quota" && others_cores > 0.0 {
            let at = |high: usize| amounts.amount(&of.values[high]).unwrap_or(f64::INFINITY) + others_cores;
            let enough = |least: f64| of.values.iter().position(|one| amounts.amount(one) >= Some(least));
            Bracket { high: bracket.high.map(|high| enough(at(high)).unwrap_or(of.values.len() - 1)), ..bracket }
        } else {
            bracket
        };
        SizedLevel {
            share: match goal {
                Goal::Share(share) => Some(share),
                Goal::Promise(_) => None,
            },
            more_than: shifted.low.map(|low| of.values[low].clone()),
            at_most: shifted.high.map(|high| of.values[high].clone()),
            is_narrow: shifted.high.is_some_and(|high| shifted.low.map_or(0, |low| low + 1) == high),
            is_open: evidence.search(axis, goal).next().is_some(),
        }
    };
    let trial = |at: usize| {
        let setting = evidence.with(&[(axis, at)]);
        let runs = evidence.of_setting(setting).count();
        let promise = plan.run.sizing.promise;
        (runs > 0).then(|| SizeTrial {
            amount: of.values[at].clone(),
            ratio: if at + 1 == of.values.len() { None } else { mean(evidence.ratios(setting)) },
            latency_ms: promise.and_then(|target| milliseconds(evidence.latencies_us(setting, target))),
            runs,
            is_open: goals(plan).iter().any(|goal| evidence.search(axis, *goal).next() == Some(at)),
        })
    };
    let mut found = SizedResource {
        key: of.key.clone(),
        name: known.map_or(of.key.as_str(), |known| known.name).to_owned(),
        unit: known.map_or("", |known| known.unit).to_owned(),
        full_amount: amounts.amount(&full).filter(|amount| amount.is_finite()).or(whole),
        full,
        levels: goals(plan).into_iter().map(level).collect(),
        trials: (0..of.values.len()).filter_map(trial).collect(),
        why_not: evidence.is_mute(axis).then(|| words::mute(&evidence.reasons(axis))),
        sentence: String::new(),
    };
    found.sentence = words::resource(&found, plan.run.sizing, others_cores);
    found
}

fn kept_promise(evidence: &Evidence<'_>, plan: &Plan, target: Target) -> SizePromise {
    let full = milliseconds(evidence.latencies_us(evidence.full(), target));
    // The trial of the full amount is the same along every axis.
    let standing = (0..plan.axes.len()).find(|axis| !is_load(plan, *axis)).map(|axis| {
        let search: BracketSearch = evidence.search(axis, Goal::Promise(target));
        search.standing(plan.axes[axis].values.len() - 1)
    });
    let standing = match standing {
        Some(Standing::Sufficient) => SizeStanding::Kept,
        Some(Standing::Insufficient) => SizeStanding::Broken,
        _ => SizeStanding::Undecided,
    };
    let sentence = words::promise(target, limit_us(target) / 1e3, full, standing);
    SizePromise { text: target.to_string(), full_ms: full, standing, sentence }
}

fn joint(evidence: &Evidence<'_>, plan: &Plan, setting: usize) -> Option<JointTrial> {
    let ratio = mean(evidence.ratios(setting))?;
    let latency_ms = plan.run.sizing.promise.and_then(|target| milliseconds(evidence.latencies_us(setting, target)));
    let full = plan.setting(evidence.full()).swept;
    let limited = plan.setting(setting).swept.into_iter().filter(|(key, value)| full.get(key) != Some(value));
    let limited: std::collections::BTreeMap<String, Value> = limited.collect();
    let sentence = words::joint(&limited, ratio, latency_ms);
    Some(JointTrial { setting: limited, ratio: Some(ratio), latency_ms, sentence })
}

fn headroom(evidence: &Evidence<'_>, plan: &Plan, records: &[RunRecord], cores: usize) -> Option<Headroom> {
    let axis = (0..plan.axes.len()).find(|axis| is_load(plan, *axis))?;
    let doubled = evidence.with(&[(axis, 0)]);
    let full = evidence.full();
    let busy = records.iter().filter(|record| record.id.setting == full && record.point.valid).filter_map(|record| {
        let (cpu_s, _) = own_cpu_s(&record.point, record.point.workloads.first()?)?;
        (record.point.window_s > 0.0).then(|| cpu_s / record.point.window_s)
    });
    let busy: Vec<f64> = busy.collect();
    let busy_cores = (!busy.is_empty()).then(|| busy.iter().sum::<f64>() / busy.len() as f64);
    let mut headroom = Headroom {
        key: plan.axes[axis].key.clone(),
        measured_ratio: mean(evidence.ratios(doubled)),
        measured_ms: plan.run.sizing.promise.and_then(|target| milliseconds(evidence.latencies_us(doubled, target))),
        busy_cores,
        predicted_cores: busy_cores.map(|cores| 2.0 * cores),
        sentence: String::new(),
    };
    headroom.sentence = words::headroom(&headroom, cores);
    Some(headroom)
}

#[cfg(test)]
mod tests;
