//! Which settings run next: the whole grid at once, or round by round those that a search for the knee asks for.

use plimsoll_workload::registry::make;

use super::order::{Selection, order};
use crate::plan::Plan;
use crate::record::{RunId, RunRecord};

/// The runs of a round, in the order in which they run; `None` when there are no further rounds.
pub(super) fn next_batch(
    plan: &Plan,
    selection: &Selection,
    _records: &[RunRecord],
    round: u64,
) -> Option<Vec<RunId>> {
    let settings = match round {
        _ if round == 0 => (0..plan.setting_count().unwrap_or(usize::MAX)).collect(),
        _ => return None,
    };
    Some(order(plan, selection, &settings, round, |setting| data(plan, setting)))
}

/// What a setting reads: settings with equal texts share their data.
fn data(plan: &Plan, setting: usize) -> String {
    let workloads = plan.setting(setting).workloads;
    let data = workloads.iter().map(|workload| {
        let made = make(&workload.kind, Some(workload.scale), &workload.parameters, plan.run.seed);
        made.map_or_else(|error| error.to_string(), |(benchmark, _)| benchmark.data())
    });
    data.collect::<Vec<_>>().join("\n")
}
