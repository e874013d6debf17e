//! The folder of a reproduction: a run directory for each exhibit, the page, the runs behind the page, and the claims as
//! they were when they had their first results. Exhibits already finished in it are kept, so that a reproduction of many
//! hours can be interrupted and continued.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use plimsoll_notation::nearest;
use plimsoll_workload::file::WorkloadFile;
use tempfile::TempDir;

use super::causes::Causes;
use super::kept_runs::{KeptRun, KeptRuns};
use super::origin::{self, Origin};
use super::sitting::SittingRequest;
use super::{Exhibit, ExhibitRun, page};
use crate::claim::first_result::FirstResults;
use crate::document::settings;
use crate::execution::{Execution, ExecutionError, Fault};
use crate::experiment::{ExperimentError, Terms, parse, resolve};
use crate::fingerprint::settings_hash;
use crate::plan::Plan;
use crate::program::{Build, Program};
use crate::results::Results;
use crate::run_directory::{RunDirectory, RunDirectoryError, read_results};
use crate::targets::Targets;
use crate::until_decided;

/// The page.
const PAGE: &str = "reproduction.md";
/// The claims as they were when they had their first results.
const LOCK: &str = "claims.lock";
/// The finished runs behind the page.
const RUNS: &str = "runs.jsonl";
/// Why an exhibit could not be run, in the place of its run directory.
const NOT_RUN: &str = "not-run.txt";

/// A file that the program carries: an experiment, or a workload of one.
#[derive(Debug)]
pub struct CarriedFile {
    /// Its path in the source tree.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl CarriedFile {
    /// The experiment's name: its file's, with that of its folder, the study, before it.
    pub fn name(&self) -> String {
        let path = self.file.trim_start_matches("experiments/").trim_end_matches(".toml");
        path.replace('/', "-")
    }
}

/// The experiments that the program carries.
#[derive(Debug)]
pub struct Collection {
    /// Every experiment, in the order in which they are reproduced.
    pub files: &'static [CarriedFile],
    /// The files of their workloads.
    pub workload_files: &'static [CarriedFile],
    /// Their claims as they were when they had their first results.
    pub claims_lock: &'static str,
    /// Why claims of them do not hold, as far as that is known.
    pub causes: &'static str,
    /// The runs behind the page in `docs/`.
    pub runs: &'static str,
}

/// What is to be reproduced, and how.
#[derive(Debug, Clone, Default)]
pub struct ReproductionRequest {
    /// A study or the name of one experiment; `None` for all.
    pub name: Option<String>,
    /// Whether experiments are run in the short form.
    pub quick: bool,
    /// The number of cores they are sized for; `None` for the default.
    pub cores: Option<usize>,
    /// The limit of their blocks if they run until their claims are decided.
    pub until_decided: Option<until_decided::Limit>,
    /// Which of them are run and for how long, if not all that were not run before.
    pub sitting: Option<SittingRequest>,
}

/// An experiment of the collection, resolved for this machine.
#[derive(Debug)]
pub(super) struct PlannedExhibit {
    pub(super) carried: &'static CarriedFile,
    /// The files of its workloads, as it names them.
    workload_files: Vec<WorkloadFile>,
    pub(super) plan: Plan,
    /// The same in the short form.
    pub(super) short: Plan,
    pub(super) is_requested: bool,
}

impl PlannedExhibit {
    /// The plan by which such a run was made.
    fn of_run(&self, measured: Option<&ExhibitRun>) -> &Plan {
        if measured.is_some_and(|run| run.quick) { &self.short } else { &self.plan }
    }
}

/// A folder of exhibits.
#[derive(Debug)]
pub struct Reproduction {
    pub(super) place: PathBuf,
    pub(super) request: ReproductionRequest,
    causes: Causes,
    first: FirstResults,
    pub(super) kept: KeptRuns,
    pub(super) exhibits: Vec<PlannedExhibit>,
    pub(super) build: Build,
    /// Where the plans find the files of their workloads.
    _unpacked: TempDir,
}

impl Reproduction {
    /// The folder, which may have been begun before.
    pub fn open(
        collection: &Collection,
        request: ReproductionRequest,
        place: &Path,
        targets: &dyn Targets,
        build: Build,
    ) -> Result<Self, ExecutionError> {
        let unpacked = unpacked(collection).map_err(|error| ExecutionError::System(error.to_string()))?;
        let exhibits = exhibits(collection, unpacked.path(), &request, targets)?;
        let system = |error: toml::de::Error| ExecutionError::System(error.to_string());
        let mut first = FirstResults::parse(collection.claims_lock).map_err(system)?;
        let lock = place.join(LOCK);
        if let Some(text) = read(&lock)? {
            let own = FirstResults::parse(&text);
            first.add_all(own.map_err(|error| ExecutionError::Refused(format!("{}: {error}", lock.display())))?);
        }
        let causes = Causes::parse(collection.causes).map_err(system)?;
        let kept = kept_runs(collection, &request, place)?;
        let place = place.to_owned();
        Ok(Reproduction { place, request, causes, first, kept, exhibits, build, _unpacked: unpacked })
    }

    /// Runs the requested exhibits one after the other. Whether Ctrl-C ended it.
    pub fn measure(&mut self, program: &Program<'_>) -> Result<bool, ExecutionError> {
        let limit = self.request.until_decided;
        let executions: Vec<Execution> =
            self.requested_exhibits().map(|exhibit| self.execution(exhibit, limit)).collect();
        for execution in &executions {
            check_settings(execution, &self.place.join(&execution.plan.name), program)?;
        }
        for execution in &executions {
            if self.measure_one(execution, program)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The exhibits that are requested.
    pub(super) fn requested_exhibits(&self) -> impl Iterator<Item = &PlannedExhibit> {
        self.exhibits.iter().filter(|exhibit| exhibit.is_requested)
    }

    /// An exhibit about to be run. One without claims, or with a search for a knee, has as many blocks as its file says.
    pub(super) fn execution(&self, exhibit: &PlannedExhibit, limit: Option<until_decided::Limit>) -> Execution {
        let PlannedExhibit { carried, workload_files, plan, .. } = exhibit;
        let ReproductionRequest { quick, cores, .. } = self.request;
        let blocks_max = limit.map(|limit| limit.blocks(plan));
        let blocks_max = blocks_max.filter(|most| until_decided::plans(plan, *most).is_ok());
        let first = self.first.of(&plan.name);
        let files = workload_files.clone();
        Execution { files, quick, cores, first, blocks_max, ..Execution::of(plan.clone(), carried.text) }
    }

    /// Runs one exhibit, continues it, or leaves it as it is if it is complete. Whether Ctrl-C ended it.
    pub(super) fn measure_one(&mut self, execution: &Execution, program: &Program<'_>) -> Result<bool, ExecutionError> {
        let name = &execution.plan.name;
        let note = self.note(name);
        match run_one(execution, &self.place.join(name), program) {
            Ok(results) => {
                self.first.add(&results);
                self.kept.add(kept_run(&results));
                remove(&note);
                Ok(results.runs_left > 0)
            }
            Err(error) if error.fault() == Fault::Interruption => {
                remove(&note);
                Ok(true)
            }
            // One that this machine cannot run is no reason to leave out the others.
            Err(error) => write(&note, &error.to_string()).map(|()| false),
        }
    }

    /// The file that says why an exhibit could not be run.
    fn note(&self, name: &str) -> PathBuf {
        self.place.join(format!("{name}.{NOT_RUN}"))
    }

    /// The requested exhibits that are in the folder.
    pub fn requested(&self) -> Vec<Exhibit> {
        self.requested_exhibits().filter_map(|exhibit| self.exhibit(exhibit)).collect()
    }

    /// The last run of an exhibit: that of its run directory, or one of earlier that tells more. `None` if it has never
    /// been run.
    pub(super) fn last(&self, name: &str) -> Option<KeptRun> {
        let note = fs::read_to_string(self.note(name)).ok();
        let (run, why_not_run) = match (read_results(&self.place.join(name)), note) {
            (Err(RunDirectoryError::NotARun { .. }), None) => (None, None),
            (Err(error), None) => (None, Some(error.to_string())),
            // Earlier measurements are reported even if the run cannot be continued.
            (results, note) => (results.ok().map(|results| kept_run(&results)), note),
        };
        let mut runs = KeptRuns::default();
        self.kept.of(name).into_iter().cloned().chain(run).for_each(|run| runs.add(run));
        let name = name.to_owned();
        match (runs.of(&name).cloned(), why_not_run) {
            (run, None) => run,
            (Some(run), why_not_run) => Some(KeptRun { why_not_run, ..run }),
            (None, why_not_run) => Some(KeptRun { name, measured: None, why_not_run, claims: Vec::new() }),
        }
    }

    /// Why the last run of an exhibit is stale; `None` if it is not, or if this program does not know its sources.
    pub(super) fn stale(&self, exhibit: &PlannedExhibit, last: Option<&KeptRun>) -> Option<String> {
        let measured = last?.measured.as_ref().filter(|_| !self.build.sources.is_empty())?;
        let plan = exhibit.of_run(Some(measured));
        let now = Origin::now(plan, exhibit.carried.text, measured.quick, self.build);
        origin::stale(measured.origin.as_ref(), &now)
    }

    /// The state of an exhibit; `None` if it has never been run.
    fn exhibit(&self, exhibit: &PlannedExhibit) -> Option<Exhibit> {
        let PlannedExhibit { carried, plan, .. } = exhibit;
        let last = self.last(&plan.name)?;
        let texts: Vec<&str> = plan.claims.iter().map(|claim| claim.text.as_str()).collect();
        let withdrawn = self.first.withdrawn(&plan.name, &texts);
        Some(Exhibit {
            id: plan.name.clone(),
            title: plan.title.clone().unwrap_or_default(),
            study: plan.study.clone(),
            differs: exhibit.of_run(last.measured.as_ref()).differs.clone(),
            file: carried.file.to_owned(),
            directory: self.place.join(&plan.name).display().to_string(),
            stale: self.stale(exhibit, Some(&last)),
            measured: last.measured,
            claims: last.claims,
            withdrawn: withdrawn.into_iter().map(str::to_owned).collect(),
            why_not_run: last.why_not_run,
        })
    }

    /// The page of all runs that are known; `None` if there are none.
    pub fn page(&self) -> Option<String> {
        let exhibits: Vec<Exhibit> = self.exhibits.iter().filter_map(|exhibit| self.exhibit(exhibit)).collect();
        let all = self.exhibits.iter().map(|exhibit| exhibit.plan.name.as_str());
        let missing: Vec<&str> = all.filter(|name| exhibits.iter().all(|exhibit| exhibit.id != *name)).collect();
        (!exhibits.is_empty()).then(|| page::page(&exhibits, &missing, &self.causes))
    }

    /// Writes the page of all runs that are known, the runs, and the claims as they were first. Returns the page's path;
    /// `None` if there are no runs.
    pub fn write(&self) -> Result<Option<PathBuf>, ExecutionError> {
        let Some(page) = self.page() else { return Ok(None) };
        let place = self.place.join(PAGE);
        write(&place, &page)?;
        let mut runs = self.kept.clone();
        self.exhibits.iter().filter_map(|exhibit| self.last(&exhibit.plan.name)).for_each(|run| runs.add(run));
        write(&self.place.join(RUNS), &runs.render())?;
        write(&self.place.join(LOCK), &self.first.render())?;
        Ok(Some(place))
    }
}

/// The part of results that is kept without their run directory.
fn kept_run(results: &Results) -> KeptRun {
    let name = results.experiment.name.clone();
    KeptRun { name, measured: Some(ExhibitRun::of(results)), why_not_run: None, claims: results.claims.clone() }
}

/// The runs that a folder keeps. A sitting about stale or undecided runs begins with those of the page that the program
/// carries.
fn kept_runs(collection: &Collection, request: &ReproductionRequest, place: &Path) -> Result<KeptRuns, ExecutionError> {
    let mut kept = KeptRuns::default();
    if request.sitting.is_some_and(|sitting| sitting.is_of_page()) {
        kept.add_all(KeptRuns::parse(collection.runs).map_err(ExecutionError::System)?);
    }
    let file = place.join(RUNS);
    if let Some(text) = read(&file)? {
        let own = KeptRuns::parse(&text);
        kept.add_all(own.map_err(|error| ExecutionError::Refused(format!("{}: {error}", file.display())))?);
    }
    Ok(kept)
}

/// Runs an experiment into a folder, or continues it there.
fn run_one(execution: &Execution, place: &Path, program: &Program<'_>) -> Result<Results, ExecutionError> {
    let plan = &execution.plan;
    match read_results(place) {
        Ok(results) if results.runs_left == 0 && has_claims_of(&results, plan) => {
            program.reporter.tell(&format!("{}: was run before, kept", plan.name));
            return Ok(results);
        }
        Err(error @ RunDirectoryError::Newer { .. }) => return Err(error.into()),
        _ => {}
    }
    let conclusion = match RunDirectory::open(place) {
        Ok(begun) => {
            let (done, all) = (begun.records.len(), plan.run_count());
            program.reporter.tell(&format!("{}: continues after {done} of {all} runs", plan.name));
            execution.resume(begun, program)
        }
        Err(RunDirectoryError::NotARun { .. }) => execution.begin(place, program),
        Err(error) => Err(error.into()),
    };
    conclusion.map(|conclusion| conclusion.results)
}

/// Refuses a folder in which an exhibit was run with other settings, as the short form beside the full one.
fn check_settings(execution: &Execution, place: &Path, program: &Program<'_>) -> Result<(), ExecutionError> {
    let earlier = read_results(place).map(|results| results.experiment.settings_hash);
    let earlier = earlier.or_else(|_| RunDirectory::open(place).map(|begun| begun.header.settings_hash));
    // Faults of the folder are reported when the exhibit is run.
    let Ok(earlier) = earlier else { return Ok(()) };
    // The settings record whether it continues until its claims are decided.
    let looks = execution.looks()?;
    if earlier == settings_hash(&settings(&looks[0], program.targets)) {
        return Ok(());
    }
    let place = place.display();
    Err(ExecutionError::Refused(format!("{place}: it was run with other settings; name another folder with --out")))
}

/// Whether results are of these very claims.
fn has_claims_of(results: &Results, plan: &Plan) -> bool {
    let claims = plan.claims.iter().map(|claim| (claim.text.clone(), claim.hash()));
    claims.eq(results.claims.iter().map(|claim| (claim.text.clone(), claim.hash.clone())))
}

/// A folder with the files of the workloads, as they lie in the source tree.
fn unpacked(collection: &Collection) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("plimsoll-experiments-").tempdir()?;
    for CarriedFile { file, text } in collection.workload_files {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().expect("it is below the folder"))?;
        fs::write(path, text)?;
    }
    Ok(folder)
}

/// Every exhibit of the collection, whose files are below `unpacked`. At least one is requested.
fn exhibits(
    collection: &Collection,
    unpacked: &Path,
    request: &ReproductionRequest,
    targets: &dyn Targets,
) -> Result<Vec<PlannedExhibit>, ExecutionError> {
    let terms = |quick| Terms::sized(targets, quick, request.cores).map_err(ExecutionError::Refused);
    let (terms, short_terms) = (terms(request.quick)?, terms(true)?);
    let planned = |carried: &'static CarriedFile| -> Result<PlannedExhibit, ExecutionError> {
        // The program carries only files that can be run.
        let failed = |error: ExperimentError| ExecutionError::System(error.to_string());
        let file = unpacked.join(carried.file).display().to_string();
        let experiment = parse(carried.text, &file).map_err(failed)?;
        let resolved = |terms: &Terms<'_>| resolve(&experiment, terms).map_err(failed);
        let (plan, short) = (resolved(&terms)?, resolved(&short_terms)?);
        let is_requested = request.name.as_ref().is_none_or(|word| {
            plan.study.as_ref().is_some_and(|study| study.eq_ignore_ascii_case(word))
                || plan.name.eq_ignore_ascii_case(word)
        });
        let workload_files = experiment.workload_files();
        Ok(PlannedExhibit { carried, workload_files, plan, short, is_requested })
    };
    let exhibits = collection.files.iter().map(planned).collect::<Result<Vec<_>, _>>()?;
    match &request.name {
        Some(word) if exhibits.iter().all(|exhibit| !exhibit.is_requested) => {
            Err(ExecutionError::Refused(unknown(word, collection)))
        }
        _ => Ok(exhibits),
    }
}

/// That there is no such study or experiment, with the nearest name, or else with those of the study that was meant.
fn unknown(word: &str, collection: &Collection) -> String {
    let names: Vec<String> = collection.files.iter().map(CarriedFile::name).collect();
    let small: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let near = nearest(word, small.iter().map(String::as_str));
    let near = near.and_then(|near| small.iter().position(|name| name == near)).map(|at| names[at].as_str());
    let study = word.split_once('-').map_or(word, |(study, _)| study).to_lowercase();
    let of_study = |name: &&str| name.to_lowercase().starts_with(&format!("{study}-"));
    let same: Vec<&str> = names.iter().map(String::as_str).filter(of_study).collect();
    let instead = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None if !same.is_empty() => format!("that study has {}", same.join(", ")),
        None => "name a study (SR, SI, MW, GA, NO) or an experiment, such as SR-fig2-cores".to_owned(),
    };
    format!("there is no study or experiment `{word}`; {instead}; docs/studies/ lists all")
}

/// The text of a file; `None` if there is no such file.
fn read(place: &Path) -> Result<Option<String>, ExecutionError> {
    match fs::read_to_string(place) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refused_by_system(place, &error)),
    }
}

/// Writes a file at once: after a kill it is the earlier one or the new one.
fn write(place: &Path, text: &str) -> Result<(), ExecutionError> {
    let folder = place.parent().unwrap_or(place);
    let partial = place.with_extension("partial");
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&partial, text));
    written.and_then(|()| fs::rename(&partial, place)).map_err(|error| refused_by_system(place, &error))
}

/// Removes the note of an earlier try, which may not have left one.
fn remove(note: &Path) {
    let _ = fs::remove_file(note);
}

fn refused_by_system(place: &Path, error: &io::Error) -> ExecutionError {
    ExecutionError::System(format!("{}: {error}", place.display()))
}

#[cfg(test)]
pub(super) mod tests;
