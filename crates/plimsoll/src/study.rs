//! `plimsoll study`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use plimsoll_commands::failure::{Failure, INTERRUPTED};
use plimsoll_commands::interrupt;
use plimsoll_commands::output::tell;
use plimsoll_commands::place::default_place;
use plimsoll_lab::capacity;
use plimsoll_lab::experiment::{Terms, parse, resolve};
use plimsoll_lab::host_limits::HostLimits;
use plimsoll_lab::line::{Attempt, Wanted, check_protect};
use plimsoll_lab::plan::Plan;
use plimsoll_lab::run_directory::{self, RunDirectory};
use plimsoll_lab::runner::{Opened, RunProgress, Selection, Watch};
use plimsoll_lab::study::{Lengths, Pilot, PilotError, Study, WORKLOADS, run_pilot};
use plimsoll_machine::MachineFacts;
use plimsoll_machine::space::available_memory;

use crate::arguments::{StudyOptions, TargetOptions};
use crate::experiment::{Before, Ended, Experiment, begin_failure, run_failure};
use crate::hog;
use crate::loading::parse_target;
use crate::progress::Progress;
use crate::provenance::Beginning;
use crate::run::{say_how_long, show};
use crate::targets::TARGETS;

/// Runs the main job.
pub fn run(options: &StudyOptions) -> Result<ExitCode, Failure> {
    check_protect(&options.protect, &WORKLOADS).map_err(|why| Failure::Input(anyhow::anyhow!("--protect: {why}")))?;
    if !(options.slo > 0.0 && options.slo <= 1.0) {
        return Err(Failure::Input(anyhow::anyhow!(
            "--slo {}: write a share above 0 and at most 1, such as 0.9",
            options.slo
        )));
    }
    let target_options = target_options(&options.target)?;
    // The text is kept with the results, which must not contain a password.
    let url = parse_target(&options.target)?.url();
    let study = Study {
        url: &url,
        options: &target_options,
        cores: MachineFacts::read().cores_usable,
        free_memory: available_memory(),
        quick: options.quick,
        seed: options.seed,
    };
    let place = options.out.clone().unwrap_or_else(|| default_place("study"));
    RunDirectory::check_place(&place).map_err(begin_failure)?;
    let Pilot { chosen, opened } = pilot(&study, &options.target.target)?;
    if let Some(why) = &chosen.too_short {
        tell(format_args!("windows will be too short: {why}"));
    }
    let lengths = chosen.lengths;
    let text = study.experiment(lengths);
    let plan = plan(&text, &options.target.target)?;
    say_how_long(&plan, plan.run_count(), true)?;
    let warnings = chosen.too_short.map(|why| format!("windows were too short: {why}"));
    let before = Before { warnings: warnings.into_iter().collect(), opened, ..Before::default() };
    let mut ended = Experiment::of(&plan, &text).begin_after(&place, before)?;
    if options.no_line || ended.stopped || ended.given_up {
        return show(&ended, options.json);
    }
    let line = draw(&study, options, lengths, &mut ended, &place)?;
    let code = show(&ended, options.json)?;
    Ok(match line.filter(|line| line.stopped) {
        Some(_) => {
            tell(format_args!("to continue: plimsoll run --resume {}", place.join(LINE).display()));
            ExitCode::from(INTERRUPTED)
        }
        None => code,
    })
}

/// Measures what isolates the workloads of a finished study, and adds it to the results. If that fails, the study stays
/// as it is, with a warning. Returns the folder of the measurements, below the study's; `None` if nothing was measured.
fn draw(
    study: &Study<'_>,
    options: &StudyOptions,
    lengths: Lengths,
    ended: &mut Ended,
    place: &Path,
) -> Result<Option<Ended>, Failure> {
    let measured_max = if options.quick { 1 } else { 2 };
    let wanted = Wanted { protect: Some(options.protect.clone()), slo: options.slo, measured_max };
    let Some(attempt) = Attempt::consider(&ended.results, &wanted) else {
        ended.results.warnings.push("no line is drawn: a workload has too few valid runs alone or together".to_owned());
        run_directory::amend(place, &ended.results).map_err(Failure::world)?;
        return Ok(None);
    };
    let opened = std::mem::take(&mut ended.opened);
    let measured = match attempt.is_empty() {
        true => None,
        false => Some(measure_line(study, options, lengths, &attempt, opened, place)),
    };
    let measured = match measured {
        None => None,
        Some(Ok(measured)) => Some(measured),
        Some(Err(failure)) => {
            ended.results.warnings.push(format!("isolation was not measured: {}", reason(&failure)));
            None
        }
    };
    ended.results.line = Some(attempt.line(measured.as_ref().map(|measured| &measured.results)));
    run_directory::amend(place, &ended.results).map_err(Failure::world)?;
    Ok(measured)
}

fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Input(error) | Failure::World(error) => format!("{error:#}"),
        Failure::Interrupted(why) => why.clone(),
    }
}

fn measure_line(
    study: &Study<'_>,
    options: &StudyOptions,
    lengths: Lengths,
    attempt: &Attempt,
    opened: Opened,
    place: &Path,
) -> Result<Ended, Failure> {
    let text = study.line_experiment(lengths, attempt);
    let plan = plan(&text, &options.target.target)?;
    let only = attempt.only(&WORKLOADS);
    let selection = Selection::parse(&only, &plan).map_err(Failure::input)?;
    tell(format_args!("what isolates {}: {}", attempt.protect(), attempt.words().join("; ")));
    say_how_long(&plan, selection.run_count(&plan), true)?;
    let experiment = Experiment { only: Some(&only), ..Experiment::of(&plan, &text) };
    experiment.begin_after(&place.join(LINE), Before { opened, ..Before::default() })
}

/// The folder of the line's runs, below the study's.
const LINE: &str = "line";

/// The plan of a study's experiment. `url` is the target's with its password.
fn plan(text: &str, url: &str) -> Result<Plan, Failure> {
    let experiment = parse(text, "the study's experiment").map_err(Failure::input)?;
    let mut plan = resolve(&experiment, &Terms::here(&TARGETS, false)).map_err(Failure::input)?;
    url.clone_into(&mut plan.base.url);
    Ok(plan)
}

/// Measures the speed of the target, so that windows are long enough.
fn pilot(study: &Study<'_>, url: &str) -> Result<Pilot, Failure> {
    let stop = interrupt::listen()?;
    let shortest = plan(&study.experiment(study.shortest()), url)?;
    capacity::check_plan_fits(&shortest, &TARGETS).map_err(Failure::input)?;
    let (progress, beginning) = (Progress::new(), Beginning::now());
    let mut show = |step: RunProgress<'_>| match step {
        RunProgress::Loading { .. } => progress.show_run(step, &shortest),
        // Said when it costs a try.
        RunProgress::Disturbed { .. } => {}
        RunProgress::Running { .. } | RunProgress::Simulating { .. } => {
            progress.show("looking how fast they are", 0, 1)
        }
    };
    let elapsed_s = || beginning.elapsed_s();
    let mut watch = Watch { progress: &mut show, keep: &mut |_| Ok(()), stop, elapsed_s: &elapsed_s };
    let mut limits = HostLimits::new(hog::command());
    let pilot = run_pilot(study, url, &TARGETS, &mut limits, &mut watch);
    progress.clear();
    match pilot {
        Ok(Some(pilot)) => Ok(pilot),
        Ok(None) => Err(Failure::Interrupted("stopped before a run was complete; nothing was written".to_owned())),
        Err(PilotError::Run(error)) => Err(run_failure(error, None)),
        Err(error) => Err(Failure::input(error)),
    }
}

/// Options of a target as typed, `KEY=VALUE`.
pub fn target_options(options: &TargetOptions) -> Result<BTreeMap<String, String>, Failure> {
    // Parsed here for its errors, which name the option.
    parse_target(options)?;
    let pairs = options.options.iter().filter_map(|option| option.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
