//! `plimsoll bench`: one workload, one run.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_commands::failure::{Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print, print_json};
use plimsoll_lab::capacity;
use plimsoll_lab::document::{document, settings};
use plimsoll_lab::limits::NoLimits;
use plimsoll_lab::plan::{Arm, CtrlC, FAILED_MAX, Plan, PlannedWorkload, Reload, RunPlan, Search, ServerLost, Setting};
use plimsoll_lab::record::RunRecord;
use plimsoll_lab::runner::{Runner, Selection, Watch};
use plimsoll_lab::table;
use plimsoll_machine::MachineFacts;
use plimsoll_workload::driver::{ClientOptions, WarmUp};
use plimsoll_workload::registry::{Catalog, kind_and_scale};
use serde_json::Value;

use crate::arguments::BenchOptions;
use crate::check::print_lines;
use crate::experiment::run_failure;
use crate::progress::Progress;
use crate::provenance::Beginning;
use crate::run::exit_code;
use crate::study::target_options;
use crate::targets::TARGETS;

/// The longest window that makes sense, so that a typing error does not run for years.
const SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

/// Runs one workload.
pub fn run(options: &BenchOptions) -> Result<ExitCode, Failure> {
    let beginning = Beginning::now();
    let plan = plan(options)?;
    // Before any thread or file is made.
    capacity::check_machine(&plan, &TARGETS).map_err(|why| Failure::Input(anyhow::anyhow!(why)))?;
    capacity::check_plan_fits(&plan, &TARGETS).map_err(Failure::input)?;
    let stop = interrupt::listen_to_end()?;
    let progress = Progress::new();
    let mut limits = NoLimits;
    let mut runner = Runner::new(&plan, &TARGETS, &mut limits);
    let outcome = {
        let mut show = |step: plimsoll_lab::runner::RunProgress<'_>| progress.show_run(step, &plan);
        let mut keep = |_: &RunRecord| Ok(());
        let elapsed_s = || beginning.elapsed_s();
        let mut watch = Watch { progress: &mut show, keep: &mut keep, stop, elapsed_s: &elapsed_s };
        runner.run(&Selection::default(), Vec::new(), &mut watch).map_err(|error| run_failure(error, None))?
    };
    if outcome.records.is_empty() {
        return Err(Failure::Interrupted("stopped before the run was complete".to_owned()));
    }
    let (settings, machine) = (settings(&plan, &TARGETS), MachineFacts::read());
    let provenance = beginning.provenance();
    let mut results = document(&plan, settings, provenance, machine, &outcome.records, Vec::new());
    if options.check && !stop.load(Ordering::Relaxed) {
        progress.show("checking", 0, 1);
        results.checks = Some(runner.check().map_err(Failure::world)?);
    }
    progress.clear();
    if options.json {
        print_json(&results)?;
    } else {
        print(&table::render(&results, &[]))?;
        print_lines(results.checks.as_deref().unwrap_or_default())?;
    }
    if stop.load(Ordering::Relaxed) {
        // The window was complete; statements that outlasted it were cancelled.
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(exit_code(&results))
}

/// The parameter that says which side of a mix of transactions and queries runs.
const MIX: &str = "mix";

/// The parameters of one side.
fn side(mix: &str) -> BTreeMap<String, Value> {
    [(MIX.to_owned(), mix.into())].into()
}

/// Whether both sides of a benchmark run: the default, because the mix is what the benchmark is about.
fn is_mixed(kind: &str, parameters: &BTreeMap<String, Value>) -> bool {
    kind == "ch" && parameters.is_empty()
}

/// One workload or both sides of a mix, one setting, one run.
fn plan(options: &BenchOptions) -> Result<Plan, Failure> {
    let kind = kind_and_scale(&options.workload).0.to_owned();
    let given = parameters(&options.parameters)?;
    let is_mixed = is_mixed(&kind, &given);
    let parameters = if is_mixed { side("transactions") } else { given };
    let benchmarks = Catalog::new(options.seed);
    let (benchmark, scale) = benchmarks.of_spec(&options.workload, &parameters).map_err(Failure::input)?;
    let clients = ClientOptions {
        clients: options.clients,
        think: options.think,
        rate: options.rate,
        round_trip: options.round_trip,
        priority: options.priority.clone(),
        seed: options.seed,
        ..ClientOptions::default()
    };
    // Checked before anything is loaded.
    if let Some(fault) = clients.fault(&*benchmark) {
        return Err(Failure::Input(anyhow::anyhow!(fault)));
    }
    let name = if is_mixed { "oltp" } else { benchmark.name() }.to_owned();
    let mut workloads = vec![PlannedWorkload { name, kind: kind.clone(), scale, parameters, clients }];
    if is_mixed {
        let clients = ClientOptions { seed: options.seed, ..ClientOptions::default() };
        workloads.push(PlannedWorkload { name: "olap".to_owned(), kind, scale, parameters: side("queries"), clients });
    }
    let name = if is_mixed { "together".to_owned() } else { format!("alone:{}", workloads[0].name) };
    let arm = Arm { name, members: (0..workloads.len()).collect() };
    let (warmup, measure) = window(options)?;
    let cut_after = cut_after(options, warmup + measure)?;
    Ok(Plan {
        name: "bench".to_owned(),
        title: None,
        study: None,
        differs: Vec::new(),
        text: None,
        base: Setting {
            swept: BTreeMap::new(),
            url: options.target.target.clone(),
            options: target_options(&options.target)?,
            limits: BTreeMap::new(),
            workloads,
            folder: Default::default(),
        },
        axes: Vec::new(),
        arms: vec![arm],
        run: RunPlan {
            warmup: WarmUp::For(warmup),
            measure,
            repeats: 1,
            seed: options.seed,
            reload: Reload::default(),
            search: Search::default(),
            looks: 1,
            server_lost: ServerLost::Stop,
            // One run, reported as it was; if others were busy, with a warning.
            others_max: f64::INFINITY,
            tries: 1,
            failed_max: FAILED_MAX,
            ctrl_c: CtrlC::Run,
            cut_after,
        },
        claims: Vec::new(),
        benchmarks,
    })
}

/// Parameters as typed, `KEY=VALUE`: numbers if they parse as numbers, else text.
pub fn parameters(typed: &[String]) -> Result<BTreeMap<String, Value>, Failure> {
    let pair = |text: &String| {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| Failure::Input(anyhow::anyhow!("--parameter {text}: it has no value; write KEY=VALUE")))?;
        let value = value.parse::<serde_json::Number>().map_or_else(|_| Value::from(value), Value::from);
        Ok((key.to_owned(), value))
    };
    typed.iter().map(pair).collect()
}

/// When requests that outlast the window are cancelled, if they are.
fn cut_after(options: &BenchOptions, run: Duration) -> Result<Option<Duration>, Failure> {
    let Some(seconds) = options.seconds_max else { return Ok(None) };
    let least = run.as_secs_f64();
    if !(least..=SECONDS_MAX).contains(&seconds) {
        return Err(Failure::Input(anyhow::anyhow!(
            "--seconds-max {seconds}: warm-up and window alone take {least:.1} s; give that or more, up to {SECONDS_MAX}"
        )));
    }
    Ok(Some(Duration::from_secs_f64(seconds)))
}

/// Warm-up and measurement.
fn window(options: &BenchOptions) -> Result<(Duration, Duration), Failure> {
    let warmup = options.warmup.unwrap_or((options.seconds / 5.0).min(5.0));
    let duration = |name: &str, seconds: f64, least: f64| {
        let is_sound = (least..=SECONDS_MAX).contains(&seconds);
        let problem = || anyhow::anyhow!("--{name} {seconds}: give a number of seconds from {least} to {SECONDS_MAX}");
        is_sound.then(|| Duration::from_secs_f64(seconds)).ok_or_else(problem).map_err(Failure::Input)
    };
    Ok((duration("warmup", warmup, 0.0)?, duration("seconds", options.seconds, 0.1)?))
}
