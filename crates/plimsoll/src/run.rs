//! `plimsoll run`: an experiment file, or one that was begun.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_commands::failure::{CHECK_FAILED, Failure, INTERRUPTED};
use plimsoll_commands::output::{print, print_json, tell};
use plimsoll_commands::place::default_place;
use plimsoll_lab::experiment::{Cores, Experiment as ExperimentFile, Terms, parse, resolve};
use plimsoll_lab::plan::Plan;
use plimsoll_lab::results::{ClaimVerdict, Results};
use plimsoll_lab::run_directory::RunDirectory;
use plimsoll_lab::runner::Selection;
use plimsoll_lab::simulation;
use plimsoll_lab::table;
use plimsoll_lab::until_decided::{self, BLOCKS_MAX};
use plimsoll_machine::facts::cores_usable;
use plimsoll_machine::space::available_memory;

use crate::arguments::{CoreCount, RunOptions, UntilDecidedOptions};
use crate::experiment::{Ended, Experiment};
use crate::targets::TARGETS;

/// Experiments that take longer than this are probably a typing error.
const UNASKED_MAX: Duration = Duration::from_secs(12 * 3600);

/// More runs than this are probably one too, however short they are: each has its clients to start and its line to keep.
const UNASKED_RUNS_MAX: usize = 100_000;

/// Runs an experiment.
pub fn run(options: &RunOptions) -> Result<ExitCode, Failure> {
    if let Some(place) = &options.resume {
        let found = RunDirectory::open(place).map_err(Failure::input)?;
        let file = place.join("experiment.toml");
        let experiment = parse(&found.text, &file.display().to_string()).map_err(Failure::input)?;
        let (quick, only) = (found.header.quick, found.header.only.clone());
        let cores = found.header.cores;
        let plan = resolve(&experiment, &terms(quick, cores)?).map_err(Failure::input)?;
        let text = found.text.clone();
        let (only, blocks_max) = (only.as_deref(), found.header.blocks_max);
        let resumed = Experiment { quick, only, cores, blocks_max, ..Experiment::of(&plan, &text) };
        return show(&resumed.resume(found)?, options.json);
    }
    // The command line asks for one of the two.
    let file = options.experiment.as_ref().expect("either an experiment or a folder to resume");
    begin(&read(file)?, options)
}

/// Reads an experiment file.
pub fn read(file: &Path) -> Result<ExperimentFile, Failure> {
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Input(anyhow::anyhow!("{}: {error}; name an experiment file", file.display())))?;
    parse(&text, &file.display().to_string()).map_err(Failure::input)
}

/// Runs an experiment from its beginning.
pub fn begin(experiment: &ExperimentFile, options: &RunOptions) -> Result<ExitCode, Failure> {
    let cores = core_count(options.cores);
    let plan = resolve(experiment, &terms(options.quick, cores)?).map_err(Failure::input)?;
    let only = options.only.as_deref();
    let wanted = Selection::parse(only.unwrap_or_default(), &plan).map_err(Failure::input)?;
    let blocks_max = blocks_max(&options.until_decided, &plan);
    let longest = match blocks_max {
        Some(blocks_max) => {
            longest(&plan, blocks_max).map_err(|why| Failure::Input(anyhow::anyhow!("--until-decided: {why}")))?
        }
        None => plan.clone(),
    };
    say_how_long(&longest, wanted.run_count(&longest), options.yes)?;
    let place = options.out.clone().unwrap_or_else(|| default_place(&plan.name));
    let files = experiment.workload_files();
    let whole = Experiment::of(&plan, experiment.text());
    let wanted = Experiment { files: &files, quick: options.quick, only, cores, blocks_max, ..whole };
    show(&wanted.begin(&place)?, options.json)
}

/// The most blocks to run until an experiment's claims are decided; `None` if that was not requested.
pub fn blocks_max(options: &UntilDecidedOptions, plan: &Plan) -> Option<u32> {
    let of_time = options.max_time.map(|time| until_decided::blocks_within(plan, time));
    options.until_decided.then(|| of_time.or(options.blocks_max).unwrap_or(BLOCKS_MAX))
}

/// The plan with as many repeats as it may take until its claims are decided.
pub fn longest(plan: &Plan, blocks_max: u32) -> Result<Plan, String> {
    let plans = until_decided::plans(plan, blocks_max)?;
    Ok(plans.into_iter().next_back().expect("there is at least one look"))
}

/// A number of cores as a number, if one was asked for.
pub fn core_count(asked: Option<CoreCount>) -> Option<usize> {
    asked.map(|asked| match asked {
        CoreCount::All => cores_usable(),
        CoreCount::Number(count) => count,
    })
}

/// The terms for which experiments are resolved: this machine, or the given number of its cores.
pub fn terms(quick: bool, cores: Option<usize>) -> Result<Terms<'static>, Failure> {
    let usual = Terms::here(&TARGETS, quick);
    let Some(count) = cores else { return Ok(usual) };
    let cores = Cores::asked(count, cores_usable()).map_err(|why| Failure::Input(anyhow::anyhow!("--cores: {why}")))?;
    Ok(Terms { cores, ..usual })
}

/// Prints, before anything runs, how long `runs` runs will take. Refuses very long experiments unless `yes`.
pub fn say_how_long(plan: &Plan, runs: usize, yes: bool) -> Result<(), Failure> {
    let time = plan.estimated_time(runs);
    let how = if plan.is_simulated() { "simulated by one core" } else { "without loading" };
    let told = format!("{}: {} runs, {} {how}", plan.name, told_count(runs), format_duration(time));
    let objection = plan.is_simulated().then(|| simulation::cost(plan, runs).objection(available_memory())).flatten();
    if let Some(why) = objection.filter(|_| !yes) {
        return Err(Failure::Input(anyhow::anyhow!("{told}; {why}")));
    }
    if (time > UNASKED_MAX || runs > UNASKED_RUNS_MAX) && !yes {
        return Err(Failure::Input(anyhow::anyhow!(
            "{told}; use --yes to run it anyway, or sweep fewer values or measure for a shorter time"
        )));
    }
    tell(told);
    Ok(())
}

fn told_count(count: usize) -> String {
    if count == usize::MAX { "more than can be counted".to_owned() } else { count.to_string() }
}

/// `45 s`, `12 min`, `3.5 hours`, `116 days`.
fn format_duration(length: Duration) -> String {
    match length.as_secs_f64() {
        s if s < 120.0 => format!("about {s:.0} s"),
        s if s < 7200.0 => format!("about {:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("about {:.1} hours", s / 3600.0),
        s if s < 730.0 * 86400.0 => format!("about {:.0} days", s / 86400.0),
        s => format!("about {:.0} years", s / 86400.0 / 365.25),
    }
}

/// Prints the results of an experiment and returns how it ended.
pub fn show(ended: &Ended, json: bool) -> Result<ExitCode, Failure> {
    let files: Vec<_> = ended.files.iter().map(|file| file.display().to_string()).collect();
    if json {
        print_json(&ended.results)?;
        tell(format_args!("written: {}", files.join(", ")));
    } else {
        print(&table::render(&ended.results, &files))?;
    }
    let undecided = ended.results.count_claims(ClaimVerdict::Undecided);
    if undecided > 0 {
        let claims = if undecided == 1 { "1 claim is".to_owned() } else { format!("{undecided} claims are") };
        tell(format_args!("{claims} undecided: the bound is within the noise; --until-decided runs more repeats"));
    }
    if ended.stopped
        && let Some(folder) = ended.files.first().and_then(|file| file.parent())
    {
        tell(format_args!("to continue: plimsoll run --resume {}", folder.display()));
    }
    Ok(match ended {
        Ended { stopped: true, .. } => ExitCode::from(INTERRUPTED),
        Ended { given_up: true, .. } => ExitCode::from(CHECK_FAILED),
        _ => exit_code(&ended.results),
    })
}

/// 1 if a claim or a check of the data fails, or no run is valid. A claim that is undecided, or could not be judged, has not
/// failed.
pub fn exit_code(results: &Results) -> ExitCode {
    let has_failed = results.count_claims(ClaimVerdict::Fails) > 0
        || results.checks.iter().flatten().any(|check| check.holds == Some(false))
        || !results.points.iter().any(|point| point.valid);
    if has_failed { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_a_unit_that_fits() {
        let check = |seconds: u64, expect: &str| assert_eq!(format_duration(Duration::from_secs(seconds)), expect);
        check(45, "about 45 s");
        check(700, "about 12 min");
        check(3 * 3600 + 1800, "about 3.5 hours");
        check(10_000_000, "about 116 days");
        check(1_000_000_000_000, "about 31688 years");
    }
}
