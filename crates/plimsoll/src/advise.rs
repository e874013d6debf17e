//! `plimsoll advise`: the load that keeps a promise.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::interrupt;
use plimsoll_commands::output::print_result;
use plimsoll_lab::advise::verify::verify;
use plimsoll_lab::advise::{Advice, Request, advise, settings_file};
use plimsoll_lab::results::Verified;
use plimsoll_lab::run_directory::{amend, read_results};
use plimsoll_lab::seen::{self, Observation, SeenError, is_observation};
use plimsoll_lab::table::advice;

use crate::arguments::AdviseOptions;
use crate::program::{failure, program};
use crate::progress::Progress;

/// Advises and prints. Fails as a claim does if no value keeps the promise, or if a measurement shows that the advised
/// value does not keep it.
pub fn run(options: &AdviseOptions) -> Result<ExitCode, Failure> {
    let request = Request { slo: options.slo.clone(), vary: options.vary.clone(), maximise: options.maximise.clone() };
    if is_observation(&options.run) {
        return from_observation(options, &request);
    }
    let mut results = read_results(&options.run).map_err(Failure::input)?;
    let mut advised = advise(&results, &request).map_err(Failure::input)?;
    if options.verify && advised.best.is_some() {
        let progress = Progress::new();
        let program = program(interrupt::listen()?, &progress);
        let verified = verify(&options.run, &results, &advised, &options.slo, &program).map_err(failure)?;
        results.verified = Some(verified.clone());
        amend(&options.run, &results).map_err(Failure::world)?;
        advised.verified = Some(verified);
    }
    show(&advised, options)
}

/// The same from the folder of an observation, which cannot be measured again.
fn from_observation(options: &AdviseOptions, request: &Request) -> Result<ExitCode, Failure> {
    if options.verify {
        return Err(Failure::input(SeenError::Option("--verify")));
    }
    let observation = Observation::read(&options.run).map_err(Failure::input)?;
    show(&seen::advise(&observation, request).map_err(Failure::input)?, options)
}

fn show(advised: &Advice, options: &AdviseOptions) -> Result<ExitCode, Failure> {
    if let Some(file) = &options.write {
        write(file, advised)?;
    }
    print_result(advised, options.json, advice::render)?;
    let is_kept = advised.best.is_some() && advised.verified.as_ref().is_none_or(Verified::is_kept);
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write(file: &Path, advised: &Advice) -> Result<(), Failure> {
    let text = settings_file(advised).ok_or_else(|| {
        Failure::Input(anyhow::anyhow!(
            "{} was not written: of what was varied a governor can only set how many of a workload run at once and the degree of its queries, and no such number keeps {}",
            file.display(),
            advised.slo
        ))
    })?;
    let written =
        OpenOptions::new().write(true).create_new(true).open(file).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        Failure::Input(anyhow::anyhow!("{}: {error}; name a file that does not exist", file.display()))
    })
}
