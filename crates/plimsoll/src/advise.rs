//! `plimsoll advise`: the load that keeps a promise.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_commands::failure::Failure;
use plimsoll_commands::output::{print_result, tell};
use plimsoll_lab::advise::verify::{VERIFY, Verification};
use plimsoll_lab::advise::{Advice, Request, advise, settings_file};
use plimsoll_lab::experiment::{parse, resolve};
use plimsoll_lab::results::{Results, Verified};
use plimsoll_lab::run_directory::{RunDirectory, amend, read_results};
use plimsoll_lab::table::advice;

use crate::arguments::AdviseOptions;
use crate::experiment::Experiment;
use crate::run::{say_how_long, terms};

/// Advises and prints. Fails as a claim does if no value keeps the promise, or if a measurement shows that the advised
/// value does not keep it.
pub fn run(options: &AdviseOptions) -> Result<ExitCode, Failure> {
    let mut results = read_results(&options.run).map_err(Failure::input)?;
    let request = Request { slo: options.slo.clone(), vary: options.vary.clone(), maximise: options.maximise.clone() };
    let mut advised = advise(&results, &request).map_err(Failure::input)?;
    if options.verify && advised.best.is_some() {
        let verified = verify(options, &results, &advised)?;
        results.verified = Some(verified.clone());
        amend(&options.run, &results).map_err(Failure::world)?;
        advised.verified = Some(verified);
    }
    if let Some(file) = &options.write {
        write(file, &advised)?;
    }
    print_result(&advised, options.json, advice::render)?;
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

/// Measures the advised value and its neighbour.
fn verify(options: &AdviseOptions, results: &Results, advised: &Advice) -> Result<Verified, Failure> {
    let place = options.run.join(VERIFY);
    RunDirectory::check_place(&place).map_err(|error| {
        Failure::Input(anyhow::anyhow!(
            "{error}; advice on this run was measured before, so move that folder away first"
        ))
    })?;
    let verification = Verification::of(results, advised, &options.slo).map_err(Failure::input)?;
    // Files that the experiment names lie beside its own.
    let file = options.run.join("experiment.toml");
    let refused = |error: &dyn std::fmt::Display| {
        Failure::Input(anyhow::anyhow!(
            "the run cannot be made again, so its advice cannot be verified: {error}\nadvise without --verify, or run the experiment again"
        ))
    };
    let text = verification.text();
    let experiment = parse(text, &file.display().to_string()).map_err(|error| refused(&error))?;
    let plan = resolve(&experiment, &terms(results.quick, verification.cores())?).map_err(|error| refused(&error))?;
    tell(format_args!("verifying {}", verification.words()));
    say_how_long(&plan, plan.run_count(), true)?;
    let files = experiment.workload_files();
    let experiment = Experiment { files: &files, quick: results.quick, ..Experiment::of(&plan, text) };
    let ended = experiment.begin(&place)?;
    if ended.stopped {
        return Err(Failure::Interrupted(format!(
            "stopped before the advice was verified; {} keeps what was measured",
            place.display()
        )));
    }
    Ok(verification.verified(&ended.results))
}
