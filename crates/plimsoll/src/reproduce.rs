//! `plimsoll reproduce`: the experiments that this program carries, and what of the published numbers they show.
//!
//! Everything lies in one folder: a run directory for each exhibit, the page (`reproduction.md`), and the claims as
//! they were when they had their first results (`claims.lock`). Exhibits already finished in that folder are kept, so
//! that a reproduction of many hours can be interrupted and continued.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use plimsoll_commands::failure::{CHECK_FAILED, Failure, INTERRUPTED};
use plimsoll_commands::output::{print_result, tell};
use plimsoll_commands::place::default_place;
use plimsoll_lab::claim::first_result::FirstResults;
use plimsoll_lab::document::settings;
use plimsoll_lab::experiment::{Terms, parse, resolve};
use plimsoll_lab::fingerprint::settings_hash;
use plimsoll_lab::plan::Plan;
use plimsoll_lab::reproduction::causes::Causes;
use plimsoll_lab::reproduction::{self, Exhibit, Measured, page};
use plimsoll_lab::results::Results;
use plimsoll_lab::run_directory::{RunDirectory, RunDirectoryError, read_results};
use plimsoll_lab::until_decided;
use plimsoll_notation::nearest;

use crate::arguments::ReproduceOptions;
use crate::exhibits::{CAUSES, CLAIMS_LOCK, EXHIBITS, Source};
use crate::experiment::Experiment;
use crate::run::{blocks_max, core_count, longest, say_how_long, terms};
use crate::targets::TARGETS;

/// The page, in the folder of a reproduction.
const PAGE: &str = "reproduction.md";
/// The claims as they were when they had their first results, there and in `experiments/`.
const LOCK: &str = "claims.lock";
/// Why an exhibit could not be run, in the place of its run directory.
const NOT_RUN: &str = "not-run.txt";

/// Runs the requested exhibits one after the other, or only writes the page of those already run.
pub fn run(options: &ReproduceOptions) -> Result<ExitCode, Failure> {
    let cores = core_count(options.cores);
    let all = plans(&terms(options.quick, cores)?)?;
    let wanted = wanted(options, &all)?;
    let place = options.page.clone().or_else(|| options.out.clone()).unwrap_or_else(|| default_place("reproduce"));
    let mut reproduction = Reproduction::open(&place)?;
    let mut stopped = false;
    let measured = if options.page.is_none() { &wanted[..] } else { &[] };
    for (_, plan) in measured {
        check_settings(&place.join(&plan.name), plan, most_blocks(options, plan))?;
    }
    for exhibit in measured {
        stopped = reproduction.measure(exhibit, options, cores)?;
        if stopped {
            break;
        }
    }
    let Some(written) = reproduction.write(&all)? else {
        let told = format!("{}: it has no runs of exhibits, so there is nothing to report", place.display());
        return Err(if stopped { Failure::Interrupted(told) } else { Failure::Input(anyhow::anyhow!(told)) });
    };
    let exhibits: Vec<Exhibit> = wanted.iter().filter_map(|exhibit| reproduction.exhibit(exhibit)).collect();
    print_result(&exhibits, options.json, |exhibits| reproduction::render(exhibits))?;
    tell(format_args!("written: {written}"));
    let failed = options.page.is_none() && exhibits.iter().any(Exhibit::has_failed);
    Ok(match (stopped, failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (_, true) => ExitCode::from(CHECK_FAILED),
        _ => ExitCode::SUCCESS,
    })
}

/// An experiment that the program carries, resolved for this machine.
type Carried = (&'static Source, Plan);

/// A folder of exhibits.
struct Reproduction {
    place: PathBuf,
    causes: Causes,
    first: FirstResults,
}

impl Reproduction {
    /// The folder, which may have been begun before.
    fn open(place: &Path) -> Result<Self, Failure> {
        let mut first = FirstResults::parse(CLAIMS_LOCK).map_err(Failure::world)?;
        let lock = place.join(LOCK);
        if let Some(text) = read(&lock)? {
            let own = FirstResults::parse(&text);
            first.add_all(own.map_err(|error| Failure::Input(anyhow::anyhow!("{}: {error}", lock.display())))?);
        }
        Ok(Reproduction { place: place.to_owned(), causes: Causes::parse(CAUSES).map_err(Failure::world)?, first })
    }

    /// Runs one exhibit, continues it, or leaves it as it is if it is complete. Whether Ctrl-C ended it.
    fn measure(
        &mut self,
        (source, plan): &Carried,
        options: &ReproduceOptions,
        cores: Option<usize>,
    ) -> Result<bool, Failure> {
        let (text, quick, first) = (source.text, options.quick, self.first.of(&plan.name));
        let blocks_max = most_blocks(options, plan);
        let experiment = Experiment { plan, text, files: &[], quick, only: None, cores, first, blocks_max };
        let note = self.place.join(format!("{}.{NOT_RUN}", plan.name));
        let (stopped, why_not) = match run_one(&experiment, &self.place.join(&plan.name)) {
            Ok(results) => {
                self.first.add(&results);
                (results.runs_left > 0, None)
            }
            Err(Failure::Interrupted(_)) => (true, None),
            // One that this machine cannot run is no reason to leave out the others.
            Err(Failure::Input(error) | Failure::World(error)) => (false, Some(format!("{error:#}"))),
        };
        match why_not {
            Some(why) => write(&note, &why)?,
            // An earlier try may not have left one.
            None => drop(fs::remove_file(&note)),
        }
        Ok(stopped)
    }

    /// The state of an exhibit in the folder; `None` if it has never been run.
    fn exhibit(&self, (source, plan): &Carried) -> Option<Exhibit> {
        let directory = self.place.join(&plan.name);
        let note = fs::read_to_string(self.place.join(format!("{}.{NOT_RUN}", plan.name))).ok();
        let (results, why_not_run) = match (read_results(&directory), note) {
            (Err(RunDirectoryError::NotARun { .. }), None) => return None,
            (Err(error), None) => (None, Some(error.to_string())),
            // Earlier measurements are reported even if the run cannot be continued.
            (results, note) => (results.ok(), note),
        };
        let texts: Vec<&str> = plan.claims.iter().map(|claim| claim.text.as_str()).collect();
        let withdrawn = self.first.withdrawn(&plan.name, &texts);
        Some(Exhibit {
            id: plan.name.clone(),
            title: plan.title.clone().unwrap_or_default(),
            study: plan.study.clone(),
            differs: plan.differs.clone(),
            file: source.file.to_owned(),
            directory: directory.display().to_string(),
            measured: results.as_ref().map(Measured::of),
            claims: results.map(|results| results.claims).unwrap_or_default(),
            withdrawn: withdrawn.into_iter().map(str::to_owned).collect(),
            why_not_run,
        })
    }

    /// Writes the page of all that is in the folder, and the claims as they were first. Returns the page's path; `None` if
    /// there is nothing in it.
    fn write(&self, all: &[Carried]) -> Result<Option<String>, Failure> {
        let exhibits: Vec<Exhibit> = all.iter().filter_map(|exhibit| self.exhibit(exhibit)).collect();
        if exhibits.is_empty() {
            return Ok(None);
        }
        let missing: Vec<&str> = all.iter().map(|(_, plan)| plan.name.as_str()).collect();
        let missing =
            missing.into_iter().filter(|name| exhibits.iter().all(|exhibit| exhibit.id != *name)).collect::<Vec<_>>();
        let place = self.place.join(PAGE);
        write(&place, &page::page(&exhibits, &missing, &self.causes))?;
        write(&self.place.join(LOCK), &self.first.render())?;
        Ok(Some(place.display().to_string()))
    }
}

/// Runs an experiment into a folder, or continues it there.
fn run_one(experiment: &Experiment<'_>, place: &Path) -> Result<Results, Failure> {
    let plan = experiment.plan;
    match read_results(place) {
        Ok(results) if results.runs_left == 0 && has_claims_of(&results, plan) => {
            tell(format_args!("{}: was run before, kept", plan.name));
            return Ok(results);
        }
        Err(error @ RunDirectoryError::Newer { .. }) => return Err(Failure::input(error)),
        _ => {}
    }
    match RunDirectory::open(place) {
        Ok(found) => {
            tell(format_args!("{}: continues after {} of {} runs", plan.name, found.records.len(), plan.run_count()));
            experiment.resume(found).map(|ended| ended.results)
        }
        Err(RunDirectoryError::NotARun { .. }) => {
            let longest = experiment.blocks_max.and_then(|most| longest(plan, most).ok());
            say_how_long(plan, longest.as_ref().unwrap_or(plan).run_count(), true)?;
            experiment.begin(place).map(|ended| ended.results)
        }
        Err(error) => Err(Failure::input(error)),
    }
}

/// The most blocks to run for an exhibit. One without claims, or with a search for a knee, runs as its file says.
fn most_blocks(options: &ReproduceOptions, plan: &Plan) -> Option<u32> {
    blocks_max(&options.until_decided, plan).filter(|most| longest(plan, *most).is_ok())
}

/// Refuses a folder in which an exhibit was run with other settings, as the short form beside the full one.
fn check_settings(place: &Path, plan: &Plan, blocks_max: Option<u32>) -> Result<(), Failure> {
    let found = match read_results(place) {
        Ok(results) => results.experiment.settings_hash,
        Err(_) => match RunDirectory::open(place) {
            Ok(found) => found.header.settings_hash,
            // Faults are reported when it is run.
            Err(_) => return Ok(()),
        },
    };
    // The settings record whether it continues until its claims are decided.
    let looks = blocks_max.and_then(|most| until_decided::plans(plan, most).ok());
    let first = looks.as_ref().and_then(|looks| looks.first()).unwrap_or(plan);
    if found == settings_hash(&settings(first, &TARGETS)) {
        return Ok(());
    }
    let place = place.display();
    Err(Failure::Input(anyhow::anyhow!("{place}: it was run with other settings; name another folder with --out")))
}

/// Whether results are of these very claims.
fn has_claims_of(results: &Results, plan: &Plan) -> bool {
    let claims = plan.claims.iter().map(|claim| (claim.text.clone(), claim.hash()));
    claims.eq(results.claims.iter().map(|claim| (claim.text.clone(), claim.hash.clone())))
}

/// The text of a file; `None` if there is no such file.
fn read(place: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(place) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::World(anyhow::anyhow!("{}: {error}", place.display()))),
    }
}

fn write(place: &Path, text: &str) -> Result<(), Failure> {
    let folder = place.parent().unwrap_or(place);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(place, text));
    written.map_err(|error| Failure::World(anyhow::anyhow!("{}: {error}", place.display())))
}

/// The plans of every exhibit.
fn plans(terms: &Terms<'_>) -> Result<Vec<Carried>, Failure> {
    let plan = |source: &'static Source| -> Result<Carried, Failure> {
        let experiment = parse(source.text, source.file).map_err(Failure::world)?;
        Ok((source, resolve(&experiment, terms).map_err(Failure::world)?))
    };
    EXHIBITS.iter().map(plan).collect()
}

/// The exhibits of a study, the one of a name, or all.
fn wanted<'a>(options: &ReproduceOptions, all: &'a [Carried]) -> Result<Vec<&'a Carried>, Failure> {
    let is_wanted = |plan: &Plan| {
        options.study.as_ref().is_none_or(|word| {
            plan.study.as_ref().is_some_and(|study| study.eq_ignore_ascii_case(word))
                || plan.name.eq_ignore_ascii_case(word)
        })
    };
    let wanted: Vec<&Carried> = all.iter().filter(|(_, plan)| is_wanted(plan)).collect();
    if wanted.is_empty() {
        return Err(Failure::Input(unknown(options.study.as_deref().unwrap_or_default())));
    }
    Ok(wanted)
}

/// That there is no such study or experiment, with the nearest name, or else with those of the study that was meant.
fn unknown(word: &str) -> anyhow::Error {
    let names: Vec<String> = EXHIBITS.iter().map(Source::name).collect();
    let small: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let near = nearest(word, small.iter().map(String::as_str));
    let near = near.and_then(|near| small.iter().position(|name| name == near)).map(|at| names[at].as_str());
    let study = word.split_once('-').map_or(word, |(study, _)| study).to_lowercase();
    let same: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.to_lowercase().starts_with(&format!("{study}-"))).collect();
    let instead = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if !same.is_empty() => format!("that study has {}", same.join(", ")),
        None => "name a study (SR, SI, MW, GA, NO) or an experiment, such as SR-fig2-cores".to_owned(),
    };
    anyhow::anyhow!("there is no study or experiment `{word}`; {instead}; docs/studies/ lists all")
}
