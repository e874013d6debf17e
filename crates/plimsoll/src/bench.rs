//! `plimsoll bench`: one workload, one run.

use std::process::ExitCode;
use std::time::Duration;

use plimsoll_lab::study::{StudyPlan, StudyWorkload, document, measure, settings};
use plimsoll_lab::table;
use plimsoll_machine::MachineFacts;
use plimsoll_workload::driver::{ClientOptions, Window};
use plimsoll_workload::registry::benchmark;

use crate::arguments::BenchOptions;
use crate::check::{exit_code, print_lines};
use crate::failure::Failure;
use crate::interrupt;
use crate::loading::{load, parse_target};
use crate::progress::Progress;
use crate::provenance::Beginning;
use crate::study::study_failure;

/// The longest window that makes sense, so that a typing error does not run for years.
const SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

/// Runs one workload.
pub fn run(options: &BenchOptions) -> Result<ExitCode, Failure> {
    let beginning = Beginning::now();
    let target = parse_target(&options.target)?;
    let (benchmark, scale) = benchmark(&options.workload, options.seed).map_err(Failure::input)?;
    let plan = StudyPlan { window: window(options)?, blocks: 1, seed: options.seed };
    let client_options = ClientOptions {
        clients: options.clients,
        think: options.think,
        rate: options.rate,
        priority: options.priority,
        seed: options.seed,
        ..ClientOptions::default()
    };
    let stop = interrupt::listen()?;
    let progress = Progress::new();
    let database = load(&target, &[benchmark.as_ref()], &progress, stop)?;
    let workloads = [StudyWorkload { name: benchmark.name(), benchmark: benchmark.as_ref(), options: &client_options }];
    let mut tick = |step: plimsoll_lab::study::StudyProgress<'_>| progress.show_study(step, plan.window);
    let measured = measure(&database, &workloads, &plan, &mut tick, stop).map_err(study_failure)?;
    if measured.stopped {
        return Err(Failure::Interrupted("stopped before the run was complete".to_owned()));
    }
    let mut settings = settings(&workloads, &plan, target.settings());
    settings.insert(format!("{}.scale", benchmark.name()), scale.into());
    let mut results = document("bench", beginning.provenance(), MachineFacts::read(), settings, measured);
    if options.check {
        progress.show("checking", 0, 1);
        results.checks = Some(benchmark.check(&database).map_err(Failure::world)?);
    }
    progress.clear();
    if options.json {
        println!("{}", serde_json::to_string_pretty(&results).map_err(Failure::world)?);
    } else {
        print!("{}", table::render(&results, &table::Options::default()));
        print_lines(results.checks.as_deref().unwrap_or_default());
    }
    Ok(exit_code(results.checks.as_deref().unwrap_or_default()))
}

fn window(options: &BenchOptions) -> Result<Window, Failure> {
    let warmup = options.warmup.unwrap_or((options.seconds / 5.0).min(5.0));
    let duration = |name: &str, seconds: f64, least: f64| {
        let is_sound = (least..=SECONDS_MAX).contains(&seconds);
        let problem = || anyhow::anyhow!("--{name} {seconds}: give a number of seconds from {least} to {SECONDS_MAX}");
        is_sound.then(|| Duration::from_secs_f64(seconds)).ok_or_else(problem).map_err(Failure::Input)
    };
    Ok(Window { measure: duration("seconds", options.seconds, 0.1)?, warmup: duration("warmup", warmup, 0.0)? })
}
