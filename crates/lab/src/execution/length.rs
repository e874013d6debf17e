//! How long an experiment will take, told before it begins.

use std::time::Duration;

use plimsoll_machine::space::available_memory;

use super::ExecutionError;
use crate::plan::{Plan, Search};
use crate::simulation;

/// Experiments that take longer than this are probably a typing error.
const UNASKED_MAX: Duration = Duration::from_secs(12 * 3600);

/// More runs than this are probably one too, however short they are: each has its clients to start and its line to keep.
const UNASKED_RUNS_MAX: usize = 100_000;

/// The number of runs and how long they will take. Refuses very long experiments unless they are `confirmed`.
pub(super) fn announcement(plan: &Plan, runs: usize, confirmed: bool) -> Result<String, ExecutionError> {
    if plan.run.search == Search::Size {
        let most = length(plan.run.sizing.budget);
        return Ok(format!("{}: as many runs as are needed, at most {most} with loading", plan.name));
    }
    let time = plan.estimated_time(runs);
    let how = if plan.is_simulated() { "simulated by one core" } else { "without loading" };
    let told = match plan.run.simulated_requests {
        Some(requests) => format!(
            "{}: {} runs of {requests} requests on a simulated processor, some 50 times slower than a real one",
            plan.name,
            count(runs)
        ),
        None => format!("{}: {} runs, {} {how}", plan.name, count(runs), length(time)),
    };
    let cost = plan.is_simulated().then(|| simulation::cost(plan, runs));
    let objection = match cost.and_then(|cost| cost.objection(available_memory())) {
        _ if confirmed => return Ok(told),
        Some(why) => why,
        None if time > UNASKED_MAX || runs > UNASKED_RUNS_MAX => {
            "use --yes to run it anyway, or sweep fewer values or measure for a shorter time".to_owned()
        }
        None => return Ok(told),
    };
    Err(ExecutionError::Refused(format!("{told}; {objection}")))
}

fn count(runs: usize) -> String {
    if runs == usize::MAX { "more than can be counted".to_owned() } else { runs.to_string() }
}

/// `45 s`, `12 min`, `3.5 hours`, `116 days`.
pub(crate) fn length(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 120.0 => format!("about {s:.0} s"),
        s if s < 7200.0 => format!("about {:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("about {:.1} hours", s / 3600.0),
        s if s < 730.0 * 86400.0 => format!("about {:.0} days", s / 86400.0),
        s => format!("about {:.0} years", s / 86400.0 / 365.25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::made_up::plan;

    #[test]
    fn lengths_are_told_in_a_unit_that_fits() {
        let check = |seconds: u64, expect: &str| assert_eq!(length(Duration::from_secs(seconds)), expect);
        check(45, "about 45 s");
        check(700, "about 12 min");
        check(3 * 3600 + 1800, "about 3.5 hours");
        check(10_000_000, "about 116 days");
        check(1_000_000_000_000, "about 31688 years");
    }

    #[test]
    fn long_experiments_and_very_many_runs_are_confirmed_first() {
        let plan = plan("name = \"x\"\n[[workload]]\nkind = \"tpcc\"\n[run]\nwarmup = \"0s\"\nmeasure = \"1s\"\n");
        let check = |runs, confirmed, expect: Result<&str, &str>| {
            let told = announcement(&plan, runs, confirmed).map_err(|error| error.to_string());
            assert_eq!(told.as_deref().map_err(|why| &why[..expect.unwrap_or_else(|why| why).len()]), expect);
        };
        check(90, false, Ok("x: 90 runs, about 90 s without loading"));
        check(50_000, true, Ok("x: 50000 runs, about 13.9 hours without loading"));
        check(50_000, false, Err("x: 50000 runs, about 13.9 hours without loading; use --yes to run it anyway"));
        check(usize::MAX, false, Err("x: more than can be counted runs, "));
    }
}
