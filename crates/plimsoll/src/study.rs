//! `plimsoll study`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_lab::capacity;
use plimsoll_lab::claim::first_result::Hashes;
use plimsoll_lab::experiment::{Terms, parse, resolve};
use plimsoll_lab::host_limits::HostLimits;
use plimsoll_lab::plan::Plan;
use plimsoll_lab::run_directory::RunDirectory;
use plimsoll_lab::runner::{RunProgress, Watch};
use plimsoll_lab::study::{Pilot, PilotError, Study, run_pilot};
use plimsoll_machine::MachineFacts;
use plimsoll_machine::space::available_memory;

use crate::arguments::{StudyOptions, TargetOptions};
use crate::experiment::{Before, Experiment, begin_failure, run_failure};
use crate::failure::Failure;
use crate::hog;
use crate::interrupt;
use crate::loading::parse_target;
use crate::output::tell;
use crate::progress::Progress;
use crate::provenance::Beginning;
use crate::run::{say_how_long, show};
use crate::targets::TARGETS;

/// Runs the main job.
pub fn run(options: &StudyOptions) -> Result<ExitCode, Failure> {
    let target_options = target_options(&options.target)?;
    // The text is kept with the results, which are not to have a password in them.
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
    let text = study.experiment(chosen.lengths);
    let plan = plan(&text, &options.target.target)?;
    say_how_long(&plan, plan.run_count(), true)?;
    let warnings = chosen.too_short.map(|why| format!("windows were too short: {why}"));
    let experiment = Experiment {
        plan: &plan,
        text: &text,
        files: &[],
        quick: false,
        only: None,
        cores: None,
        first: Hashes::new(),
        blocks_max: None,
    };
    let before = Before { warnings: warnings.into_iter().collect(), opened, ..Before::default() };
    show(&experiment.begin_after(&place, before)?, options.json)
}

/// The plan of a study's experiment. `url` is the target's with its password.
fn plan(text: &str, url: &str) -> Result<Plan, Failure> {
    let experiment = parse(text, "the study's experiment").map_err(Failure::input)?;
    let mut plan = resolve(&experiment, &Terms::here(&TARGETS, false)).map_err(Failure::input)?;
    url.clone_into(&mut plan.base.url);
    Ok(plan)
}

/// Looks at how fast the target is, so that windows become long enough.
fn pilot(study: &Study<'_>, url: &str) -> Result<Pilot, Failure> {
    let stop = interrupt::listen()?;
    let shortest = plan(&study.experiment(study.shortest()), url)?;
    capacity::check_plan_fits(&shortest, &TARGETS).map_err(Failure::input)?;
    let (progress, beginning) = (Progress::new(), Beginning::now());
    let mut show = |step: RunProgress<'_>| match step {
        RunProgress::Loading { .. } => progress.show_run(step, &shortest),
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

/// Options of a target as they were typed, `KEY=VALUE`.
pub fn target_options(options: &TargetOptions) -> Result<BTreeMap<String, String>, Failure> {
    // Understood here for its errors, which name the option.
    parse_target(options)?;
    let pairs = options.options.iter().filter_map(|option| option.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Where results go when nobody says otherwise.
pub fn default_place(name: &str) -> PathBuf {
    PathBuf::from("runs").join(format!("{name}-{}", Beginning::now().file_stamp()))
}
