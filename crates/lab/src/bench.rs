//! One workload, or both sides of a benchmark's mix, run once: `plimsoll bench`.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_machine::MachineFacts;
use plimsoll_workload::driver::{ClientOptions, WarmUp};
use plimsoll_workload::registry::{Catalog, Kinds, Side, kind_and_scale, sides};
use serde_json::Value;

use crate::capacity;
use crate::counted;
use crate::document::{document, settings};
use crate::execution::{Beginning, Conclusion, ExecutionError};
use crate::limits::NoLimits;
use crate::plan::{
    Arm, CtrlC, FAILED_MAX, Plan, PlannedWorkload, Reload, RunPlan, Search, ServerLost, Setting, SizingTerms,
};
use crate::program::Program;
use crate::record::RunRecord;
use crate::runner::{OpenedDatabase, RunProgress, Runner, Selection, Watch};
use crate::summary::TOGETHER;

/// The longest window that makes sense, so that a typing error does not run for years.
const SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct BenchRequest<'a> {
    /// `NAME`, `NAME:SCALE` or `file:PATH`.
    pub workload: &'a str,
    /// Its parameters. Without any, both sides run of a benchmark that is about a mix.
    pub parameters: BTreeMap<String, Value>,
    /// The target's URL.
    pub url: &'a str,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// The clients of the workload, or of the first side of the mix. The data follow from their seed, too.
    pub clients: ClientOptions,
    /// Whether their number was not given, so that a recording runs with its own.
    pub clients_default: bool,
    /// Seconds to measure.
    pub seconds: f64,
    /// Seconds to run before measuring; by default a fifth of `seconds`, at most 5.
    pub warmup: Option<f64>,
    /// Seconds after which requests that outlast the window are cancelled; `None` if they run to their end.
    pub seconds_max: Option<f64>,
    /// The number of requests to count on a simulated processor, in place of a window; `None` to measure.
    pub simulated_requests: Option<u64>,
}

/// The plan of one run at one setting.
pub fn plan(request: &BenchRequest<'_>, kinds: &'static dyn Kinds) -> Result<Plan, ExecutionError> {
    let benchmarks = Catalog::with(request.clients.seed, kinds);
    let workloads = workloads(request, &benchmarks)?;
    let name = match &workloads[..] {
        [only] => format!("alone:{}", only.name),
        _ => TOGETHER.to_owned(),
    };
    let arm = Arm { name, members: (0..workloads.len()).collect() };
    let (url, options) = (request.url.to_owned(), request.options.clone());
    Ok(Plan {
        name: "bench".to_owned(),
        title: None,
        study: None,
        differs: Vec::new(),
        text: None,
        base: Setting { url, options, workloads, ..Setting::default() },
        axes: Vec::new(),
        arms: vec![arm],
        run: run_plan(request)?,
        claims: Vec::new(),
        benchmarks,
    })
}

/// The workload, or the sides of the mix. The sides after the first have one client each.
fn workloads(request: &BenchRequest<'_>, catalog: &Catalog) -> Result<Vec<PlannedWorkload>, ExecutionError> {
    let BenchRequest { workload: spec, parameters, clients, .. } = request;
    let kind = kind_and_scale(spec).0;
    let sides = if parameters.is_empty() { sides(kind) } else { &[] };
    let own = sides.first().map_or_else(|| parameters.clone(), Side::parameters);
    let (benchmark, scale) = catalog.of_spec(spec, &own)?;
    let clients = match request.clients_default {
        true => clients.clone().of_recording(&*benchmark),
        false => clients.clone(),
    };
    // Checked before anything is loaded.
    if let Some(fault) = clients.fault(&*benchmark) {
        return Err(ExecutionError::Refused(fault));
    }
    let workload = |name: &str, parameters, clients| {
        let (name, kind) = (name.to_owned(), kind.to_owned());
        PlannedWorkload { name, kind, scale, parameters, clients }
    };
    let name = sides.first().map_or(benchmark.name(), |side| side.name);
    let others = sides.iter().skip(1).map(|side| {
        let clients = ClientOptions { seed: clients.seed, ..ClientOptions::default() };
        workload(side.name, side.parameters(), clients)
    });
    Ok(std::iter::once(workload(name, own, clients.clone())).chain(others).collect())
}

fn run_plan(request: &BenchRequest<'_>) -> Result<RunPlan, ExecutionError> {
    let warmup = request.warmup.unwrap_or((request.seconds / 5.0).min(5.0));
    let (warmup, measure) = (length("warmup", warmup, 0.0)?, length("seconds", request.seconds, 0.1)?);
    Ok(RunPlan {
        warmup: WarmUp::For(warmup),
        measure,
        repeats: 1,
        seed: request.clients.seed,
        reload: Reload::default(),
        search: Search::default(),
        sizing: SizingTerms::default(),
        looks: 1,
        server_lost: ServerLost::Stop,
        // One run, reported as it was; if others were busy, with a warning.
        others_max: f64::INFINITY,
        tries: 1,
        disturbed: crate::plan::Disturbed::Discard,
        again: true,
        failed_max: FAILED_MAX,
        ctrl_c: CtrlC::Run,
        cut_after: cut_after(request.seconds_max, warmup + measure)?,
        simulated_requests: request.simulated_requests,
    })
}

fn length(name: &str, seconds: f64, least: f64) -> Result<Duration, ExecutionError> {
    if (least..=SECONDS_MAX).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(ExecutionError::Refused(format!("--{name} {seconds}: give a number of seconds from {least} to {SECONDS_MAX}")))
}

/// When requests that outlast the window are cancelled, if they are.
fn cut_after(seconds_max: Option<f64>, run: Duration) -> Result<Option<Duration>, ExecutionError> {
    let Some(seconds) = seconds_max else { return Ok(None) };
    let least = run.as_secs_f64();
    if !(least..=SECONDS_MAX).contains(&seconds) {
        return Err(ExecutionError::Refused(format!(
            "--seconds-max {seconds}: warm-up and window alone take {least:.1} s; give that or more, up to {SECONDS_MAX}"
        )));
    }
    Ok(Some(Duration::from_secs_f64(seconds)))
}

/// Runs the result of [`plan`]; nothing is written. If `check`, the data and the clients' input are checked afterwards.
pub fn run(plan: &Plan, check: bool, program: &Program<'_>) -> Result<Conclusion, ExecutionError> {
    let beginning = Beginning::now();
    if let Some(why) = counted::fault(plan) {
        return Err(ExecutionError::Refused(why));
    }
    // Before any thread or file is made.
    capacity::check(plan, program.targets)?;
    let mut limits = NoLimits;
    let mut runner = Runner::new(plan, program.targets, &mut limits).with_counting(&program.counting);
    let outcome = {
        let mut show = |step: RunProgress<'_>| program.reporter.step(step, plan);
        let mut keep = |_: &RunRecord| Ok(());
        let elapsed_s = || beginning.elapsed_s();
        let mut watch = Watch { progress: &mut show, keep: &mut keep, stop: program.stop, elapsed_s: &elapsed_s };
        runner.run(&Selection::default(), Vec::new(), &mut watch)
    };
    let records = outcome.map_err(ExecutionError::Run)?.records;
    if records.is_empty() {
        return Err(ExecutionError::Interrupted("stopped before the run was complete".to_owned()));
    }
    let (settings, provenance) = (settings(plan, program.targets), beginning.provenance(program.build));
    let mut results = document(plan, settings, provenance, MachineFacts::read(), &records, Vec::new());
    // What was counted was in another process, and is gone.
    if check && !program.is_stopped() && plan.run.simulated_requests.is_none() {
        program.reporter.activity("checking");
        results.checks = Some(runner.check()?);
    }
    program.reporter.clear();
    // The window was complete; statements that outlasted it may have been cancelled.
    let (files, opened) = (Vec::new(), OpenedDatabase::default());
    Ok(Conclusion { results, files, stopped: program.is_stopped(), given_up: false, opened })
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::registry::NoKinds;

    use super::*;

    fn request(workload: &str) -> BenchRequest<'_> {
        BenchRequest {
            workload,
            parameters: BTreeMap::new(),
            url: "memory:",
            options: BTreeMap::new(),
            clients: ClientOptions { clients: 3, seed: 11, ..ClientOptions::default() },
            clients_default: false,
            seconds: 10.0,
            warmup: None,
            seconds_max: None,
            simulated_requests: None,
        }
    }

    fn told(plan: &Plan) -> Vec<(&str, f64, usize, u64)> {
        let workloads = plan.base.workloads.iter();
        workloads.map(|one| (one.name.as_str(), one.scale, one.clients.clients, one.clients.seed)).collect()
    }

    #[test]
    fn a_benchmark_about_a_mix_runs_both_sides_unless_one_is_asked_for() {
        let both = plan(&request("ch:2"), &NoKinds).expect("it is known");
        assert_eq!(told(&both), [("oltp", 2.0, 3, 11), ("olap", 2.0, 1, 11)]);
        assert_eq!((both.arms[0].name.as_str(), &both.arms[0].members[..]), ("together", &[0, 1][..]));
        let side = |parameter: &str, value: &str| {
            let parameters = BTreeMap::from([(parameter.to_owned(), value.into())]);
            plan(&BenchRequest { parameters, ..request("ch") }, &NoKinds).expect("it is known")
        };
        for plan in
            [side("mix", "transactions"), side("queries", "q6"), plan(&request("tpcc"), &NoKinds).expect("known")]
        {
            assert_eq!((plan.base.workloads.len(), plan.arms.len()), (1, 1));
            assert_eq!(plan.arms[0].name, format!("alone:{}", plan.base.workloads[0].name));
        }
    }

    #[test]
    fn windows_have_a_warm_up_and_bounds() {
        let run = |seconds: f64, warmup: Option<f64>, seconds_max: Option<f64>| {
            let plan = plan(&BenchRequest { seconds, warmup, seconds_max, ..request("tpcc") }, &NoKinds);
            plan.map(|plan| (plan.run.warmup.at_most().as_secs_f64(), plan.run.cut_after))
                .map_err(|error| error.to_string())
        };
        assert_eq!(run(10.0, None, None), Ok((2.0, None)));
        assert_eq!(run(100.0, None, None), Ok((5.0, None)));
        assert_eq!(run(10.0, Some(0.0), Some(10.0)), Ok((0.0, Some(Duration::from_secs(10)))));
        let check = |outcome: Result<_, String>, expect: &str| {
            assert!(outcome.as_ref().is_err_and(|why| why.starts_with(expect)), "{outcome:?}");
        };
        check(run(0.0, None, None), "--seconds 0: give a number of seconds from 0.1 to ");
        check(run(1.0, Some(-1.0), None), "--warmup -1: give a number of seconds from 0 to ");
        check(run(10.0, None, Some(11.0)), "--seconds-max 11: warm-up and window alone take 12.0 s; ");
    }
}
