//! `plimsoll study`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_lab::claim::first_result::Hashes;
use plimsoll_lab::experiment::{Terms, parse, resolve};
use plimsoll_lab::study::Study;
use plimsoll_machine::MachineFacts;
use plimsoll_machine::space::available_memory;

use crate::arguments::{StudyOptions, TargetOptions};
use crate::experiment::Experiment;
use crate::failure::Failure;
use crate::loading::parse_target;
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
    let text = study.experiment();
    let experiment = parse(&text, "the study's experiment").map_err(Failure::input)?;
    let mut plan = resolve(&experiment, &Terms::here(&TARGETS, false)).map_err(Failure::input)?;
    plan.base.url.clone_from(&options.target.target);
    say_how_long(&plan, plan.run_count(), true)?;
    let place = options.out.clone().unwrap_or_else(|| default_place("study"));
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
    let ended = experiment.begin(&place)?;
    show(&ended, options.json)
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
