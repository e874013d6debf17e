//! `plimsoll bench`: one workload, one run.

use std::collections::BTreeMap;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print, print_json};
use plimsoll_lab::bench::{self, BenchRequest};
use plimsoll_lab::table;
use plimsoll_lab::targets::Targets;
use plimsoll_workload::driver::ClientOptions;
use serde_json::Value;

use crate::arguments::{BenchOptions, CounterSource};
use crate::check::print_lines;
use crate::loading::target_options;
use crate::program::{failure, program};
use crate::progress::Progress;
use crate::run::exit_code;
use crate::targets::TARGETS;

/// Runs one workload.
pub fn run(options: &BenchOptions) -> Result<ExitCode, Failure> {
    let plan = bench::plan(&request(options)?, TARGETS.kinds()).map_err(failure)?;
    let progress = Progress::new();
    let program = program(interrupt::listen_to_end()?, &progress);
    let conclusion = bench::run(&plan, options.check, &program).map_err(failure)?;
    let results = &conclusion.results;
    if options.json {
        print_json(results)?;
    } else {
        print(&table::render(results, &[]))?;
        print_lines(results.checks.as_deref().unwrap_or_default())?;
    }
    Ok(exit_code(&conclusion))
}

fn request(options: &BenchOptions) -> Result<BenchRequest<'_>, Failure> {
    Ok(BenchRequest {
        workload: &options.workload,
        parameters: parameters(&options.parameters)?,
        url: &options.target.target,
        options: target_options(&options.target)?,
        clients: ClientOptions {
            clients: options.clients.unwrap_or(1),
            think: options.think,
            rate: options.rate,
            round_trip: options.round_trip,
            priority: options.priority.clone(),
            seed: options.seed,
            ..ClientOptions::default()
        },
        clients_default: options.clients.is_none(),
        seconds: options.seconds,
        warmup: options.warmup,
        seconds_max: options.seconds_max,
        simulated_requests: (options.counters == CounterSource::Simulated).then_some(options.requests),
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
