//! `plimsoll reproduce`: the experiments that this program carries, and what of the published numbers they show.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_lab::experiment::{Terms, parse, resolve};
use plimsoll_lab::plan::Plan;
use plimsoll_lab::results::{ClaimResult, Results};
use plimsoll_lab::table::reproduction::{self, Exhibit};

use crate::arguments::ReproduceOptions;
use crate::exhibits::{EXHIBITS, Source};
use crate::experiment::Experiment;
use crate::failure::{CHECK_FAILED, Failure, INTERRUPTED};
use crate::output::{print, print_json};
use crate::run::{blocks_max, core_count, longest, say_how_long, terms};
use crate::study::default_place;

/// Runs the exhibits that were asked for, one after the other.
pub fn run(options: &ReproduceOptions) -> Result<ExitCode, Failure> {
    let cores = core_count(options.cores);
    let wanted = plans(options, &terms(options.quick, cores)?)?;
    let place = options.out.clone().unwrap_or_else(|| default_place("reproduce"));
    let mut exhibits = Vec::new();
    let mut stopped = false;
    for (source, plan) in &wanted {
        // An experiment that claims nothing, or searches for a knee, runs as its file says.
        let blocks_max = blocks_max(&options.until_decided, plan).filter(|most| longest(plan, *most).is_ok());
        let longest = blocks_max.and_then(|most| longest(plan, most).ok());
        let count = longest.as_ref().unwrap_or(plan).run_count();
        say_how_long(plan, count, true)?;
        let (text, quick) = (source.text, options.quick);
        let experiment = Experiment { plan, text, files: &[], quick, only: None, cores, blocks_max };
        match experiment.begin(&place.join(&plan.name)) {
            Ok(ended) => {
                stopped = ended.stopped;
                exhibits.push(exhibit(source, plan, Ok(ended.results), &place));
            }
            Err(Failure::Interrupted(_)) => stopped = true,
            // One that this machine cannot run is no reason to leave out the others.
            Err(Failure::Input(error) | Failure::World(error)) => {
                exhibits.push(exhibit(source, plan, Err(format!("{error:#}")), &place));
            }
        }
        if stopped {
            break;
        }
    }
    if options.json {
        print_json(&exhibits)?;
    } else {
        print(&reproduction::render(&exhibits))?;
    }
    Ok(match () {
        () if stopped => ExitCode::from(INTERRUPTED),
        () if exhibits.iter().any(Exhibit::has_failed) => ExitCode::from(CHECK_FAILED),
        () => ExitCode::SUCCESS,
    })
}

/// The plans of the exhibits of a study, of one by its name, or of all.
fn plans(options: &ReproduceOptions, terms: &Terms<'_>) -> Result<Vec<(&'static Source, Plan)>, Failure> {
    let mut wanted = Vec::new();
    for source in EXHIBITS {
        let experiment = parse(source.text, source.file).map_err(Failure::world)?;
        let plan = resolve(&experiment, terms).map_err(Failure::world)?;
        let is_wanted = options.study.as_ref().is_none_or(|word| {
            plan.study.as_ref().is_some_and(|study| study.eq_ignore_ascii_case(word))
                || plan.name.eq_ignore_ascii_case(word)
        });
        if is_wanted {
            wanted.push((source, plan));
        }
    }
    if wanted.is_empty() {
        let word = options.study.as_deref().unwrap_or_default();
        let names = EXHIBITS.iter().map(Source::name).collect::<Vec<_>>().join(", ");
        return Err(Failure::Input(anyhow::anyhow!(
            "there is no experiment of `{word}`; name a study (SR, SI, MW, GA, NO) or one of {names}"
        )));
    }
    Ok(wanted)
}

fn exhibit(source: &Source, plan: &Plan, results: Result<Results, String>, place: &Path) -> Exhibit {
    let (claims, why_not_run): (Vec<ClaimResult>, _) = match results {
        Ok(results) => (results.claims, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let directory: PathBuf = place.join(&plan.name);
    Exhibit {
        id: plan.name.clone(),
        title: plan.title.clone().unwrap_or_default(),
        file: source.file.to_owned(),
        directory: directory.display().to_string(),
        claims,
        why_not_run,
    }
}
