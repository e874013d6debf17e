//! Measures how fast a database answers, before a study decides how long its windows are.

use std::time::Duration;

use super::{ChosenLengths, Lengths, MeasuredSpeed, Runs, Study};
use crate::execution::ExecutionError;
use crate::experiment::{Terms, parse, resolve};
use crate::limits::MachineLimits;
use crate::results::WorkloadResult;
use crate::runner::{OpenedDatabase, Runner, Selection, Watch};
use crate::targets::Targets;

/// The first window of a pilot. Each further one is four times as long.
pub(crate) const FIRST: Duration = Duration::from_secs(1);
pub(crate) const GROWTH: u32 = 4;

/// The number of requests from which a rate is accurate enough to choose windows.
pub(crate) const REQUESTS_TOLD: u64 = 5;

/// The results of a pilot.
#[derive(Debug)]
pub struct Pilot {
    /// The lengths of the study's runs.
    pub chosen: ChosenLengths,
    /// The database with its data, with which the study continues.
    pub opened: OpenedDatabase,
}

/// Runs all workloads together, in longer and longer windows until each has completed some requests; `None` if it was
/// stopped. `url` is the target's with its password.
pub fn run_pilot(
    study: &Study<'_>,
    url: &str,
    targets: &dyn Targets,
    limits: &mut dyn MachineLimits,
    watch: &mut Watch<'_>,
) -> Result<Option<Pilot>, ExecutionError> {
    let (mut opened, mut measure) = (OpenedDatabase::default(), FIRST);
    loop {
        let text = study.text(Runs::Pilot, Lengths { measure, ..study.shortest() });
        let mut plan = resolve(&parse(&text, "the study's pilot")?, &Terms::here(targets, false))?;
        url.clone_into(&mut plan.base.url);
        // A rate that others have made too low only makes windows longer.
        plan.run.tries = 1;
        let mut runner = Runner::new(&plan, targets, &mut *limits).with_opened(opened);
        let outcome = runner.run(&Selection::default(), Vec::new(), watch).map_err(ExecutionError::Run)?;
        opened = runner.into_opened();
        if outcome.stopped {
            return Ok(None);
        }
        let workloads = outcome.records.iter().flat_map(|record| &record.point.workloads).collect::<Vec<_>>();
        if let Some(chosen) = chosen(study, measure, &workloads) {
            return Ok(Some(Pilot { chosen, opened }));
        }
        measure *= GROWTH;
    }
}

/// The choice that follows from a window of this length; `None` if a longer one is needed.
fn chosen(study: &Study<'_>, measure: Duration, workloads: &[&WorkloadResult]) -> Option<ChosenLengths> {
    let is_told = workloads.iter().all(|workload| workload.all.completed >= REQUESTS_TOLD);
    let seen = |workload: &&WorkloadResult| MeasuredSpeed {
        workload: workload.name.clone(),
        per_s: workload.all.throughput_per_s,
    };
    // Longer than the study's own: for requests that take seconds, it tells how much time would be enough.
    let is_last = measure * GROWTH > study.longest() * GROWTH;
    (is_told || is_last).then(|| study.choose(&workloads.iter().map(seen).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{Part, WorkloadMeasurement};
    use crate::study::Sides;

    #[test]
    fn windows_grow_until_each_workload_has_completed_some_requests() {
        let options = BTreeMap::new();
        let study = Study {
            url: "memory:",
            options: &options,
            cores: 1,
            free_memory: None,
            quick: true,
            seed: 7,
            sides: Sides::default(),
            line: None,
            budget: None,
        };
        let check = |length: u64, completed: u64, expect: Option<f64>| {
            let all = Part { completed, throughput_per_s: completed as f64 / length as f64, ..Part::default() };
            let driven = WorkloadMeasurement { name: "olap".to_owned(), all, ..WorkloadMeasurement::default() };
            let workload = WorkloadResult { driven, ..WorkloadResult::default() };
            let found = chosen(&study, Duration::from_secs(length), &[&workload]);
            assert_eq!(found.map(|chosen| chosen.lengths.measure.as_secs_f64()), expect, "{completed} in {length} s");
        };
        check(1, 4, None);
        check(1, 5, Some(2.7));
        check(1, 500, Some(0.9));
        // The next window would be much longer than the study's own.
        check(4, 4, Some(2.7));
        check(4, 0, Some(2.7));
    }
}
