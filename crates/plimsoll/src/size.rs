//! `plimsoll size`: the least that a workload needs of the machine.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::interrupt;
use plimsoll_commands::place::default_place;
use plimsoll_lab::size::catalogue::{CatalogueMachine, read_catalogue};
use plimsoll_lab::size::{self, COPY_OF, SizeRequest};
use plimsoll_machine::facts::cores_usable;
use plimsoll_target::DEFAULT_URL;
use plimsoll_workload::registry::PATH_PREFIXES;

use crate::arguments::{SizeOptions, TargetOptions};
use crate::bench::parameters;
use crate::loading::target_options;
use crate::program::{failure, program};
use crate::progress::Progress;
use crate::run::show;

/// The target of workloads from files, whose SQL is a server's.
const SERVER_URL: &str = "postgres:";

/// Searches and prints. Fails as a claim does if even the whole machine breaks the promise.
pub fn run(options: &SizeOptions) -> Result<ExitCode, Failure> {
    let catalogue = options.catalogue.as_deref().map(read).transpose()?.unwrap_or_default();
    let progress = Progress::new();
    if let Some(place) = &options.resume {
        let program = program(interrupt::listen()?, &progress);
        return show(&size::resume(&catalogue, place, &program).map_err(failure)?, options.json);
    }
    let request = request(options)?;
    let place = options.out.clone().unwrap_or_else(|| default_place("size"));
    let program = program(interrupt::listen()?, &progress);
    let conclusion = request.carry_out(&catalogue, &place, &program).map_err(failure)?;
    show(&conclusion, options.json)
}

fn request(options: &SizeOptions) -> Result<SizeRequest, Failure> {
    // The command line asks for one of the two.
    let workload = options.workload.clone().expect("either a workload or a folder to resume");
    let is_of_server = PATH_PREFIXES.iter().any(|kind| workload.starts_with(kind));
    let usual = if is_of_server || options.copy.is_some() { SERVER_URL } else { DEFAULT_URL };
    let target = options.target.clone().unwrap_or_else(|| usual.to_owned());
    let copy = options.copy.iter().map(|url| format!("{COPY_OF}={url}"));
    let target = TargetOptions { target, options: options.options.iter().cloned().chain(copy).collect() };
    Ok(SizeRequest {
        workload,
        parameters: parameters(&options.parameters)?,
        options: target_options(&target)?,
        url: target.target,
        clients: options.clients.unwrap_or(2 * cores_usable()),
        think: options.think,
        rate: options.rate,
        promise: options.latency,
        resources: options.resources.clone(),
        budget: options.budget,
        seed: options.seed,
    })
}

fn read(file: &Path) -> Result<Vec<CatalogueMachine>, Failure> {
    let name = file.display().to_string();
    let wrong = |why: String| Failure::Input(anyhow::anyhow!(why));
    let text =
        fs::read_to_string(file).map_err(|error| wrong(format!("{name}: {error}; name a catalogue of machines")))?;
    read_catalogue(&name, &text).map_err(wrong)
}
