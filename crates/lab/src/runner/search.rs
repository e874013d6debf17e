//! The next runs: the whole grid at once, or round by round the runs that a search for the knee requests.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_model::knee::SHARES;
use plimsoll_model::knee::search::KneeSearch;

use super::order::{Selection, in_groups, order};
use crate::analysis::equal_mix::{Costs, speed};
use crate::plan::{Plan, Search, Setting};
use crate::record::{RunId, RunRecord};
use crate::results::WorkloadResult;
use crate::size;

/// The rounds of a plan, one after the other.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The number of rounds so far.
    count: u64,
    asked: BTreeSet<RunId>,
}

impl Rounds {
    /// The runs of the next round, in the order in which they run, including those among the `records`; `None` when
    /// there are no further rounds. Every run that earlier rounds asked for must be among the records.
    ///
    /// A round follows only from the plan and the results of earlier rounds. An experiment that was killed in the
    /// middle of a round therefore continues as it would have without the kill.
    pub(super) fn next(&mut self, plan: &Plan, selection: &Selection, records: &[RunRecord]) -> Option<Vec<RunId>> {
        let known: Vec<&RunRecord> = records.iter().filter(|record| self.asked.contains(&record.id)).collect();
        let round = next_batch(plan, selection, &known, self.count)?;
        self.asked.extend(&round);
        self.count += 1;
        Some(round)
    }
}

fn next_batch(plan: &Plan, selection: &Selection, records: &[&RunRecord], round: u64) -> Option<Vec<RunId>> {
    match plan.run.search {
        Search::Grid if round == 0 => {
            let settings: Vec<usize> = (0..plan.setting_count().unwrap_or(usize::MAX)).collect();
            Some(order(plan, selection, &settings, |setting| data(plan, setting)))
        }
        Search::Grid => None,
        Search::Size => {
            let runs = size::search::next_block(plan, records.iter().copied());
            (!runs.is_empty()).then_some(runs)
        }
        Search::Knee => {
            let runs = asked_for(plan, selection, records);
            (!runs.is_empty()).then(|| in_groups(plan, vec![runs], round, |setting| data(plan, setting)))
        }
    }
}

/// The runs that the searches along the one numeric axis ask for: one search for each arm and workload, at every value
/// of the other axes. A run serves all workloads of its arm.
fn asked_for(plan: &Plan, selection: &Selection, records: &[&RunRecord]) -> Vec<RunId> {
    let numeric = plan.axes.iter().position(|axis| axis.amounts().is_some());
    let axis = numeric.expect("a plan that searches for a knee has a numeric axis");
    let allocations = plan.axes[axis].amounts().expect("it is numeric");
    let stride: usize = plan.axes[axis + 1..].iter().map(|axis| axis.values.len()).product();
    let first = |setting: &usize| (setting / stride).is_multiple_of(allocations.len());
    let mut runs = Vec::new();
    for start in (0..plan.setting_count().unwrap_or(usize::MAX)).filter(first) {
        for (arm, members) in plan.arms.iter().map(|arm| &arm.members).enumerate() {
            let mut wanted: BTreeMap<usize, usize> = BTreeMap::new();
            for member in members {
                let workload = &plan.base.workloads[*member].name;
                let of_curve = records.iter().filter(|record| {
                    record.id.arm == arm
                        && record.point.valid
                        && along(record.id.setting, start, stride, allocations.len())
                });
                let done = of_curve.filter_map(|record| {
                    let result = record.point.workloads.iter().find(|result| result.name == *workload)?;
                    Some(((record.id.setting - start) / stride, result))
                });
                let mut search = search(plan, &allocations);
                for (index, speed) in speeds(&done.collect::<Vec<_>>(), &allocations) {
                    search.record(index, &[speed]);
                }
                let mut count: BTreeMap<usize, usize> = BTreeMap::new();
                search.next().into_iter().flatten().for_each(|index| *count.entry(index).or_default() += 1);
                for (index, count) in count {
                    let most = wanted.entry(index).or_default();
                    *most = count.max(*most);
                }
            }
            for (index, count) in wanted {
                let setting = start + index * stride;
                let is_cell = |record: &&&RunRecord| record.id.setting == setting && record.id.arm == arm;
                let done = records.iter().filter(is_cell).map(|record| record.id.repeat).max().unwrap_or(0);
                let repeats = done + 1..=done + count as u32;
                runs.extend(repeats.map(|repeat| RunId { setting, arm, repeat, is_again: false }));
            }
        }
    }
    // A setting whose runs are all invalid is not asked for forever.
    let most = 3 * plan.run.repeats.max(2);
    runs.retain(|run| run.repeat <= most && selection.wants(plan, run.setting, run.arm));
    runs
}

/// The speed of the runs of a curve, each with the position of its allocation. If requests differ in cost, speed is at
/// an equal mix, as for the knee that is reported at the end ([`knees`](crate::analysis)).
fn speeds(runs: &[(usize, &WorkloadResult)], allocations: &[f64]) -> Vec<(usize, f64)> {
    let largest = |index: &usize| allocations.iter().all(|other| *other <= allocations[*index]);
    let full: Vec<&WorkloadResult> = runs.iter().filter(|(index, _)| largest(index)).map(|(_, run)| *run).collect();
    let all: Vec<&WorkloadResult> = runs.iter().map(|(_, run)| *run).collect();
    let costs = Costs::of(&full, &all);
    runs.iter().map(|(index, run)| (*index, speed(run, costs.as_ref()))).collect()
}

fn search(plan: &Plan, allocations: &[f64]) -> KneeSearch {
    KneeSearch::new(allocations.to_vec(), plan.run.repeats as usize, SHARES.to_vec(), None, plan.run.seed)
}

/// Whether a setting is one of those along the axis that begin at `start`.
fn along(setting: usize, start: usize, stride: usize, length: usize) -> bool {
    setting >= start && (setting - start).is_multiple_of(stride) && (setting - start) / stride < length
}

/// The data of a setting: settings with equal texts share their data.
fn data(plan: &Plan, setting: usize) -> String {
    let Setting { url, workloads, .. } = plan.setting(setting);
    let data = workloads.iter().map(|workload| {
        let made = plan.benchmark(workload);
        made.map_or_else(|error| error.to_string(), |benchmark| benchmark.data())
    });
    std::iter::once(url).chain(data).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
