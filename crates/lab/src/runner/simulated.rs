//! A run that is simulated: no database, no clients, no limits.

use std::sync::atomic::Ordering;

use plimsoll_model::cache_simulator::run_watched;

use super::{RunError, RunProgress, StoreError, Watch, run_name};
use crate::plan::{Arm, Plan, Setting};
use crate::record::{RunId, RunRecord};
use crate::simulation::{self, SimulatedRun};

/// Simulates one setting and arm. Ctrl-C ends it in the middle, because it can be repeated at any time.
pub(super) fn run(
    plan: &Plan,
    id: RunId,
    (done, all): (usize, usize),
    setting: &Setting,
    arm: &Arm,
    watch: &mut Watch<'_>,
) -> Result<RunRecord, RunError> {
    let refused = |why: String| RunError::Simulation { run: run_name(setting, arm, id.repeat), why };
    let seed = simulation::seed(plan.run.seed_of_block(id.repeat), id.is_again);
    let simulated = simulation::simulation(setting, &arm.members, seed).map_err(|fault| refused(fault.message))?;
    let references = (simulated.warm_up as f64) + simulated.references as f64;
    let mut goes_on = |made: u64| {
        let share = made as f64 / references;
        (watch.progress)(RunProgress::Simulating { arm: &arm.name, done, all, share });
        !watch.stop.load(Ordering::Relaxed)
    };
    let at_s = (watch.elapsed_s)();
    goes_on(0);
    let outcome = run_watched(&simulated, &mut goes_on).map_err(|error| refused(error.to_string()))?;
    let outcome = outcome.ok_or(RunError::Store(StoreError::Stopped))?;
    Ok(simulation::record(&SimulatedRun { id, at_s, setting, arm, simulation: &simulated, outcome: &outcome }))
}
