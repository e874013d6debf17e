//! Measures how fast a workload is with everything, before a search decides how long its windows are.

use std::time::Duration;

use serde_json::Value;

use super::{BUDGET_LEAST, EXPERIMENT_NAME, SizeRequest, WINDOW_LEAST, WINDOW_MOST, WINDOWS};
use crate::capacity;
use crate::execution::{Beginning, ExecutionError};
use crate::experiment::{Terms, parse, resolve};
use crate::host_limits::HostLimits;
use crate::program::Program;
use crate::runner::{OpenedDatabase, RunProgress, Runner, Selection, Watch};
use crate::study::pilot::{FIRST, GROWTH, REQUESTS_TOLD};
use crate::summary::REQUESTS_MIN;
use plimsoll_display::{rate, seconds};

/// What a pilot has found.
pub(super) struct Pilot {
    /// The length of windows.
    pub window: Duration,
    /// Why windows of that length are too short, if they are.
    pub warning: Option<String>,
    /// The database with its data.
    pub opened: OpenedDatabase,
}

/// Runs the workload with everything in longer and longer windows until it has completed some requests.
pub(super) fn run(
    request: &SizeRequest,
    axes: &[(&'static str, Vec<Value>)],
    program: &Program<'_>,
) -> Result<Pilot, ExecutionError> {
    let beginning = Beginning::now();
    let (mut opened, mut measure) = (OpenedDatabase::default(), FIRST);
    loop {
        let text = request.text(&[], measure, program.targets.kinds())?;
        let mut plan = resolve(&parse(&text, EXPERIMENT_NAME)?, &Terms::here(program.targets, false))?;
        request.url.clone_into(&mut plan.base.url);
        capacity::check(&plan, program.targets)?;
        let mut show = |step: RunProgress<'_>| match step {
            RunProgress::Loading { .. } => program.reporter.step(step, &plan),
            _ => program.reporter.activity("looking how fast it is with everything"),
        };
        let elapsed_s = || beginning.elapsed_s();
        let mut watch = Watch { progress: &mut show, keep: &mut |_| Ok(()), stop: program.stop, elapsed_s: &elapsed_s };
        let mut limits = HostLimits::new(program.hog.clone());
        let mut runner = Runner::new(&plan, program.targets, &mut limits).with_opened(opened);
        let outcome = runner.run(&Selection::default(), Vec::new(), &mut watch);
        opened = runner.into_opened();
        program.reporter.clear();
        let outcome = outcome.map_err(ExecutionError::Run)?;
        if outcome.stopped {
            let why = "stopped before a run was complete; nothing was written";
            return Err(ExecutionError::Interrupted(why.to_owned()));
        }
        let point = outcome.records.iter().map(|record| &record.point).next();
        if let Some(why) = point.and_then(|point| point.why_invalid.clone()) {
            return Err(ExecutionError::System(format!("the workload does not run with everything: {why}")));
        }
        let result = point.and_then(|point| point.workloads.first());
        let completed = result.map_or(0, |result| result.all.completed);
        let per_s = result.map_or(0.0, |result| result.all.throughput_per_s);
        if completed >= REQUESTS_TOLD || measure * GROWTH > request.budget / 4 {
            let (window, warning) = window(request.budget, per_s, axes.len());
            return Ok(Pilot { window, warning, opened });
        }
        measure *= GROWTH;
    }
}

/// The length of windows for a speed, and why it is too short, if it is.
fn window(budget: Duration, per_s: f64, axes: usize) -> (Duration, Option<String>) {
    let usual = (budget / WINDOWS).clamp(WINDOW_LEAST, WINDOW_MOST).as_secs_f64();
    let needed = if per_s > 0.0 { REQUESTS_MIN as f64 / per_s } else { f64::INFINITY };
    // Four blocks with every resource are the least that shows anything.
    let longest = (budget.as_secs_f64() / (4.0 * (axes as f64 + 2.0)) * 0.8).max(usual);
    let window = usual.max(needed).min(longest);
    let warning = (needed > longest).then(|| {
        let done = if per_s > 0.0 { rate(per_s) } else { "nothing that was seen".to_owned() };
        let enough = if per_s > 0.0 {
            let enough = Duration::from_secs_f64(needed * 4.0 * (axes as f64 + 2.0) / 0.8).max(BUDGET_LEAST);
            format!("a budget of {} allows {REQUESTS_MIN} requests in each", seconds(enough.as_secs_f64()))
        } else {
            "allow more time".to_owned()
        };
        format!("windows of {} are short, because it completes {done}; {enough} (--budget)", seconds(window))
    });
    (Duration::from_secs_f64((window * 10.0).ceil() / 10.0), warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_enough_requests_or_say_what_would() {
        let check = |budget: u64, per_s: f64, expect: f64, told: Option<&str>| {
            let (window, warning) = window(Duration::from_secs(budget), per_s, 6);
            assert!((window.as_secs_f64() - expect).abs() < 0.01, "{window:?}");
            assert_eq!(warning.is_some(), told.is_some(), "{warning:?}");
            let warning = warning.unwrap_or_default();
            assert!(told.is_none_or(|told| warning.contains(told)), "{warning}");
        };
        check(300, 10_000.0, 2.5, None);
        check(90, 10_000.0, 1.0, None);
        check(300, 0.5, 7.5, Some("--budget"));
        check(300, 0.0, 7.5, Some("nothing that was seen"));
    }
}
