//! The cost of each lever of a governor for each class: waiting for admission, rollbacks, waiting for a core.

use super::cells::key;
use crate::results::{GovernedClass, LeverUse, Part, Point, TimeShare, WorkloadResult};

/// The cost of the levers for each class of each governor, by setting and arm.
pub(super) fn of(points: &[Point]) -> Vec<LeverUse> {
    let mut groups: Vec<Vec<&Point>> = Vec::new();
    for point in points.iter().filter(|point| point.valid && !point.is_again && !point.governor.is_empty()) {
        let is_same = |other: &Point| other.arm == point.arm && key(&other.setting) == key(&point.setting);
        match groups.iter_mut().find(|group| is_same(group[0])) {
            Some(group) => group.push(point),
            None => groups.push(vec![point]),
        }
    }
    groups.iter().flat_map(|group| of_group(group)).collect()
}

/// The cost of the levers in the runs of one arm at one setting.
fn of_group(runs: &[&Point]) -> Vec<LeverUse> {
    let classes = runs[0].governor.iter().map(|class| class.class.as_str());
    classes.filter_map(|class| of_class(runs, class)).collect()
}

fn of_class(runs: &[&Point], class: &str) -> Option<LeverUse> {
    let counted: Vec<&GovernedClass> =
        runs.iter().flat_map(|run| &run.governor).filter(|one| one.class == class).collect();
    let transactions: u64 = counted.iter().map(|one| one.transactions).sum();
    if transactions == 0 {
        return None;
    }
    let sum = |of: fn(&GovernedClass) -> f64| counted.iter().map(|one| of(one)).sum::<f64>();
    let (time, wait) = (sum(|one| one.transaction_s), sum(|one| one.admission_wait_s));
    let rolled_back: u64 = counted.iter().map(|one| one.rolled_back).sum();
    let parts: Vec<&Part> =
        runs.iter().flat_map(|run| &run.workloads).filter_map(|workload| workload.classes.get(class)).collect();
    let mut why_not = Vec::new();
    let mut note = |known: Result<f64, &str>| known.map_err(|why| why_not.push(why.to_owned())).ok();
    Some(LeverUse {
        setting: runs[0].setting.clone(),
        arm: runs[0].arm.clone(),
        class: class.to_owned(),
        transactions,
        admission_wait_us: wait * 1e6 / transactions as f64,
        admission_share: (time > 0.0).then(|| wait / time),
        rolled_back_per_transaction: rolled_back as f64 / transactions as f64,
        work_lost_share: note(work_lost(&parts, rolled_back)),
        core_wait_share: note(core_wait(runs, class)),
        why_not,
    })
}

/// The share of response time that went into attempts which were rolled back, as clients saw it.
fn work_lost(parts: &[&Part], rolled_back: u64) -> Result<f64, &'static str> {
    if rolled_back == 0 {
        return Ok(0.0);
    }
    let locks: Option<Vec<_>> = parts.iter().map(|part| part.locks.as_ref()).collect();
    let locks = locks.filter(|locks| !locks.is_empty());
    let locks = locks.ok_or("a governor counts rollbacks, not the age of the transactions that it rolls back")?;
    if locks.iter().map(|locks| locks.preemptions()).sum::<u64>() < rolled_back {
        return Err("clients did not see the rollbacks that were replayed, so their age is not known");
    }
    let lost = locks.iter().map(|locks| locks.work_lost_us.mean.unwrap_or(0.0) * locks.preemptions() as f64 / 1e6);
    let response: f64 = locks.iter().map(|locks| locks.response_s).sum();
    if response > 0.0 { Ok(lost.sum::<f64>() / response) } else { Err("no request of the class completed") }
}

/// The share of response time spent on waiting for a core, by the scheduler's accounts of the workloads whose only
/// class it is.
fn core_wait(runs: &[&Point], class: &str) -> Result<f64, &'static str> {
    let workloads =
        || runs.iter().flat_map(|run| &run.workloads).filter(|workload| workload.classes.contains_key(class));
    if workloads().next().is_none() {
        return Err("the class of the governor has no priority of that name in the experiment");
    }
    if workloads().any(|workload| workload.classes.len() > 1) {
        return Err(
            "the scheduler does not account for the classes of a workload separately; give each class its own workload",
        );
    }
    let share = |workload: &WorkloadResult| {
        Some((workload.all.time_share?, workload.all.latency_us?.mean * workload.all.completed as f64))
    };
    let shares: Option<Vec<(TimeShare, f64)>> = workloads().map(share).collect();
    let mean = TimeShare::mean(&shares.unwrap_or_default()).and_then(|share| share.cpu_wait);
    mean.ok_or("the time shares of the workload are not known")
}
