//! Which request is hurt by less of which resource, from the runs of a search for sizes.
//!
//! The search tries the least amount of nearly every resource, since many hardly matter. The mean latency of each kind of
//! request there, over that with everything in the same block, is its slow-down.

use std::collections::BTreeSet;

use super::resources::of_key;
use super::search::{Evidence, is_load};
use crate::analysis::side_by_side::over_blocks;
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::results::{Point, SlowDown, SlowDownFinding, WorkloadResult};

/// Slow-downs up to this one do not count.
const NOTICED: f64 = 1.1;

/// Blocks from which there is an interval.
const BLOCKS_LEAST: usize = 2;

/// Blocks after which noise is taken to hide the rest.
const BLOCKS_MOST: usize = 12;

/// The settings with more runs of which it may be decided whether a kind of request is hurt.
pub(super) fn undecided(evidence: &Evidence<'_>, plan: &Plan) -> Vec<usize> {
    let open = |found: &Found| found.slow_downs.iter().any(|one| one.finding == SlowDownFinding::Undecided);
    let found = of_axes(evidence, plan).into_iter().filter(open).map(|found| found.setting);
    found.filter(|setting| evidence.of_setting(*setting).count() < BLOCKS_MOST).collect()
}

/// The slow-down of each kind of request with the least amount of each resource that has figures, the worst first.
pub(super) fn of(evidence: &Evidence<'_>, plan: &Plan, records: &[RunRecord]) -> Vec<SlowDown> {
    let full = evidence.full();
    let with_plans = |Found { setting, slow_downs }| {
        slow_downs.into_iter().map(move |one: SlowDown| SlowDown {
            plan_changed: is_changed(records, full, setting, &one.request),
            ..one
        })
    };
    let mut found: Vec<SlowDown> = of_axes(evidence, plan).into_iter().flat_map(with_plans).collect();
    found.sort_by(|a, b| b.times.value.total_cmp(&a.times.value));
    found
}

/// What the least amount of a resource does.
struct Found {
    setting: usize,
    slow_downs: Vec<SlowDown>,
}

fn of_axes(evidence: &Evidence<'_>, plan: &Plan) -> Vec<Found> {
    let full = evidence.full();
    let kinds: BTreeSet<&str> =
        evidence.of_setting(full).flat_map(|(_, result)| result.transactions.keys().map(String::as_str)).collect();
    let mut all = Vec::new();
    for axis in (0..plan.axes.len()).filter(|axis| !is_load(plan, *axis)) {
        let key = plan.axes[axis].key.as_str();
        let settings = (0..plan.axes[axis].values.len() - 1).map(|at| (at, evidence.with(&[(axis, at)])));
        let mut settings = settings.filter(|(_, setting)| evidence.of_setting(*setting).count() >= BLOCKS_LEAST);
        let Some((at, setting)) = settings.next() else { continue };
        let mut slow_downs = Vec::new();
        for kind in &kinds {
            let pairs = evidence.of_setting(setting).filter_map(|(block, limited)| {
                let full = evidence.of_setting(full).find(|(other, _)| *other == block)?.1;
                let (before, after) = (latency_us(full, kind)?, latency_us(limited, kind)?);
                (before > 0.0).then_some(Some(after / before))
            });
            let pairs: Vec<Option<f64>> = pairs.collect();
            if pairs.len() < BLOCKS_LEAST {
                continue;
            }
            let Some(times) = over_blocks(pairs) else { continue };
            slow_downs.push(SlowDown {
                request: (*kind).to_owned(),
                key: key.to_owned(),
                resource: of_key(key).map_or(key, |resource| resource.name).to_owned(),
                amount: plan.axes[axis].values[at].clone(),
                times,
                finding: finding(times.low, times.high),
                plan_changed: None,
            });
        }
        all.push(Found { setting, slow_downs });
    }
    all
}

fn latency_us(result: &WorkloadResult, kind: &str) -> Option<f64> {
    let part = result.transactions.get(kind).filter(|part| part.completed > 0)?;
    part.latency_us.map(|latency| latency.mean)
}

fn finding(low: Option<f64>, high: Option<f64>) -> SlowDownFinding {
    match (low, high) {
        (Some(low), _) if low > NOTICED => SlowDownFinding::Hurt,
        (_, Some(high)) if high < NOTICED => SlowDownFinding::Insensitive,
        _ => SlowDownFinding::Undecided,
    }
}

/// Whether the target would run a query by another plan; `None` if it does not tell its plans.
fn is_changed(records: &[RunRecord], full: usize, setting: usize, kind: &str) -> Option<bool> {
    let hash = |wanted: usize| {
        let of_setting = records.iter().filter(|record| record.id.setting == wanted);
        let points = of_setting.map(|record| &record.point);
        let plan = |point: &Point| point.plans.iter().find(|plan| plan.query == kind).map(|plan| plan.hash.clone());
        points.filter_map(plan).next()
    };
    Some(hash(full)? != hash(setting)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::analysis::made_up::{self, Noise};
    use crate::results::PlannedQuery;

    const TEXT: &str = "name = \"size\"\n[[workload]]\nname = \"olap\"\nkind = \"tpch\"\n\
        [run]\nmeasure = \"10s\"\nsearch = \"size\"\nbudget = \"2h\"\n[sweep]\nmemory = [\"64kB\", \"1MB\", \"64MB\"]\ndop = [1, 2]\n";

    /// Q18 is three times as slow with little memory and has another plan; Q2 does not care.
    #[test]
    fn the_sensitive_query_is_found_and_the_other_called_insensitive() {
        let plan = made_up::plan(TEXT);
        let mut records = Vec::new();
        while let block = super::super::search::next_block(&plan, records.iter())
            && !block.is_empty()
        {
            for id in block {
                let setting = plan.setting(id.setting);
                let is_little = setting.swept["memory"] != "64MB";
                let mut noise = Noise::new(id.setting as u64 * 1_000 + u64::from(id.repeat), 0.01);
                let factor = noise.factor();
                let mut record = made_up::record(&plan, id, |_| 10.0 * factor);
                let parts = &mut record.point.workloads[0].driven.transactions;
                let part = parts.pop_first().expect("it has one kind").1;
                for (query, slower) in [("q18", if is_little { 3.0 } else { 1.0 }), ("q2", 1.0)] {
                    let mut part = part.clone();
                    let latency = part.latency_us.as_mut().expect("requests ended");
                    latency.mean *= slower * noise.factor();
                    parts.insert(query.to_owned(), part);
                    let hash = if query == "q18" && is_little { "1" } else { "0" };
                    let (hash, shape) = (hash.to_owned(), String::new());
                    let (workload, query) = ("olap".to_owned(), query.to_owned());
                    record.point.plans.push(PlannedQuery { workload, query, hash, shape });
                }
                records.push(record);
            }
        }
        let evidence = Evidence::of(&plan, records.iter());
        let found = of(&evidence, &plan, &records);
        let one = |request: &str, key: &str| {
            found.iter().find(|one| one.request == request && one.key == key).expect("both ran with little of both")
        };
        let q18 = one("q18", "memory");
        assert_eq!((q18.finding, q18.plan_changed, &q18.amount), (SlowDownFinding::Hurt, Some(true), &json!("64kB")));
        assert!((q18.times.value - 3.0).abs() < 0.2, "{:?}", q18.times);
        for (request, key) in [("q2", "memory"), ("q18", "dop"), ("q2", "dop")] {
            let other = one(request, key);
            assert_eq!((other.finding, other.plan_changed), (SlowDownFinding::Insensitive, Some(false)), "{other:?}");
        }
        assert_eq!(found[0].request, "q18", "the worst first");
    }
}
