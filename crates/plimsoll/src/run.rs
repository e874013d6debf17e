//! `plimsoll run`: an experiment file, or one that was begun.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_commands::failure::{CHECK_FAILED, Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::{print, print_json, tell};
use plimsoll_commands::place::default_place;
use plimsoll_lab::execution::{self, Conclusion, Execution, Request};
use plimsoll_lab::experiment::{Experiment, parse};
use plimsoll_lab::results::ClaimVerdict;
use plimsoll_lab::table;

use crate::arguments::RunOptions;
use crate::program::{failure, program};
use crate::progress::Progress;
use crate::targets::TARGETS;

/// Runs an experiment.
pub fn run(options: &RunOptions) -> Result<ExitCode, Failure> {
    if let Some(place) = &options.resume {
        let progress = Progress::new();
        let resumed = execution::resume(place, &program(interrupt::listen()?, &progress));
        return show(&resumed.map_err(failure)?, options.json);
    }
    // The command line asks for one of the two.
    let file = options.experiment.as_ref().expect("either an experiment or a folder to resume");
    begin(&read(file)?, options)
}

/// Reads an experiment file.
pub fn read(file: &Path) -> Result<Experiment, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Input(anyhow::anyhow!("{}: {error}; name an experiment file", file.display())))?;
    parse(&text, &file.display().to_string()).map_err(Failure::input)
}

/// Runs an experiment from its beginning.
pub fn begin(experiment: &Experiment, options: &RunOptions) -> Result<ExitCode, Failure> {
    let request = Request {
        quick: options.quick,
        only: options.only.clone(),
        cores: options.cores.map(usize::from),
        until_decided: options.until_decided.limit(),
        confirmed: options.yes,
    };
    let execution = Execution::of_file(experiment, request, &TARGETS).map_err(failure)?;
    let place = options.out.clone().unwrap_or_else(|| default_place(&execution.plan.name));
    let progress = Progress::new();
    let conclusion = execution.begin(&place, &program(interrupt::listen()?, &progress));
    show(&conclusion.map_err(failure)?, options.json)
}

/// Prints the results of an experiment and returns how it ended.
pub fn show(conclusion: &Conclusion, json: bool) -> Result<ExitCode, Failure> {
    let Conclusion { results, files, .. } = conclusion;
    let written: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    if json {
        print_json(results)?;
        tell(format_args!("written: {}", written.join(", ")));
    } else {
        print(&table::render(results, &written))?;
    }
    let undecided = results.count_claims(ClaimVerdict::Undecided);
    if undecided > 0 {
        let claims = if undecided == 1 { "1 claim is".to_owned() } else { format!("{undecided} claims are") };
        tell(format_args!("{claims} undecided: the bound is within the noise; --until-decided runs more repeats"));
    }
    if conclusion.stopped
        && let Some(folder) = files.first().and_then(|file| file.parent())
    {
        tell(format_args!("to continue: plimsoll run --resume {}", folder.display()));
    }
    Ok(exit_code(conclusion))
}

/// The exit code of an experiment that has results.
pub fn exit_code(conclusion: &Conclusion) -> ExitCode {
    match conclusion {
        Conclusion { stopped: true, .. } => ExitCode::from(INTERRUPTED),
        failed if failed.has_failed() => ExitCode::from(CHECK_FAILED),
        _ => ExitCode::SUCCESS,
    }
}
