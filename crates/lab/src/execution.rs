//! Carries out an experiment in a run directory: from a plan to its results, in one process or several.
//!
//! An [`Execution`] is an experiment about to be carried out. It tells how long it will take (`length`), runs what is
//! left of it in blocks until its plan or its claims are done, and writes the results: the [`Conclusion`].
//! [`ExecutionError`] says whose fault it is if it cannot. The program that embeds the lab provides the databases, the
//! stop signal and the screen ([`Program`]).

mod beginning;
mod error;
mod length;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};

use plimsoll_machine::MachineFacts;
use plimsoll_machine::memory_speed::MemorySpeed;
use plimsoll_workload::file::WorkloadFile;

use crate::capacity;
use crate::claim::first_result::{self, Hashes};
use crate::counted;
use crate::document::{document, settings};
use crate::experiment::{Experiment, Terms, parse, resolve};
use crate::fingerprint::{machine_fingerprint, settings_hash};
use crate::host_limits::HostLimits;
use crate::journal::JournalHeader;
use crate::kept_speed;
use crate::plan::Plan;
use crate::program::Program;
use crate::record::RunRecord;
use crate::reproduction::origin::Origin;
use crate::results::{FORMAT, Results};
use crate::run_directory::{EXPERIMENT, RunDirectory, StoredExperiment};
use crate::runner::{OpenedDatabase, Outcome, RunError, RunProgress, Runner, Selection, Watch};
use crate::sensors::{Instruments, level_latencies};
use crate::targets::Targets;
use crate::until_decided;
pub(crate) use beginning::Beginning;
pub use error::{ExecutionError, Fault};
pub(crate) use length::length as told_length;

/// What is requested of an experiment file.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Whether it is run in the short form.
    pub quick: bool,
    /// The runs it is restricted to, as typed.
    pub only: Option<String>,
    /// The number of cores it is sized for; `None` for the default.
    pub cores: Option<usize>,
    /// The limit of its blocks if it runs until its claims are decided.
    pub until_decided: Option<until_decided::Limit>,
    /// Whether it may take very long.
    pub confirmed: bool,
}

/// An experiment about to be carried out.
#[derive(Debug, Clone)]
pub struct Execution {
    /// What to run.
    pub plan: Plan,
    /// The text that makes the plan, kept beside the results.
    pub(crate) text: String,
    /// The files of workloads that it names, kept there, too.
    pub(crate) files: Vec<WorkloadFile>,
    /// Whether the plan was made with the text's quick settings.
    pub(crate) quick: bool,
    /// The runs it is restricted to, as typed.
    pub(crate) only: Option<String>,
    /// The number of cores it is sized for, if that was requested.
    pub(crate) cores: Option<usize>,
    /// Claims that had results before it was begun, as they were then.
    pub(crate) first: Hashes,
    /// The most blocks to run until its claims are decided; `None` if it runs as many as the plan says.
    pub(crate) blocks_max: Option<u32>,
    /// Whether it may take very long.
    pub(crate) confirmed: bool,
}

/// The state in which an execution starts.
#[derive(Debug, Default)]
pub(crate) struct Start {
    /// Warnings for the reader.
    pub warnings: Vec<String>,
    /// A database that is open.
    pub opened: OpenedDatabase,
}

/// An experiment that has ended.
#[derive(Debug)]
pub struct Conclusion {
    /// Its results.
    pub results: Results,
    /// The files it left.
    pub files: Vec<PathBuf>,
    /// Whether Ctrl-C ended it before all runs were done.
    pub stopped: bool,
    /// Whether it was ended because others use the machine.
    pub given_up: bool,
    /// The database, for work that continues with it.
    pub opened: OpenedDatabase,
}

impl Conclusion {
    /// Whether it was given up, or its results show a failure.
    pub fn has_failed(&self) -> bool {
        self.given_up || self.results.has_failed()
    }
}

/// Continues the experiment in a folder where an earlier process ended it.
pub fn resume(place: &Path, program: &Program<'_>) -> Result<Conclusion, ExecutionError> {
    let begun = RunDirectory::open(place)?;
    let experiment = parse(&begun.text, &place.join(EXPERIMENT).display().to_string())?;
    let JournalHeader { quick, only, cores, blocks_max, .. } = begun.header.clone();
    let plan = resolve(&experiment, &Terms::sized(program.targets, quick, cores).map_err(ExecutionError::Refused)?)?;
    Execution { quick, only, cores, blocks_max, ..Execution::of(plan, &begun.text) }.resume(begun, program)
}

impl Execution {
    /// All of a plan that was made from that text for this machine, as often as it says and however long it takes.
    pub(crate) fn of(plan: Plan, text: &str) -> Self {
        Execution {
            plan,
            text: text.to_owned(),
            files: Vec::new(),
            quick: false,
            only: None,
            cores: None,
            first: Hashes::new(),
            blocks_max: None,
            confirmed: true,
        }
    }

    /// An experiment file, as requested.
    pub fn of_file(
        experiment: &Experiment,
        request: Request,
        targets: &dyn Targets,
    ) -> Result<Execution, ExecutionError> {
        let Request { quick, only, cores, until_decided, confirmed } = request;
        let terms = Terms::sized(targets, quick, cores).map_err(ExecutionError::Refused)?;
        let plan = resolve(experiment, &terms)?;
        let blocks_max = until_decided.map(|limit| limit.blocks(&plan));
        let files = experiment.workload_files();
        Ok(Execution { files, quick, only, cores, blocks_max, confirmed, ..Execution::of(plan, experiment.text()) })
    }

    /// Runs it from the beginning into an empty or new folder.
    pub fn begin(&self, place: &Path, program: &Program<'_>) -> Result<Conclusion, ExecutionError> {
        self.begin_with(Start::default(), place, program)
    }

    /// The same, with the warnings and the open database of `start`.
    pub(crate) fn begin_with(
        &self,
        start: Start,
        place: &Path,
        program: &Program<'_>,
    ) -> Result<Conclusion, ExecutionError> {
        self.announce(program)?;
        let (beginning, machine) = (Beginning::now(), MachineFacts::read());
        // Before a folder is made.
        let (selection, looks) = self.schedule(program)?;
        let header = self.header(&looks[0], beginning, &machine, program);
        let created = RunDirectory::create(place, &self.text, &machine, &header);
        let mut directory = created.map_err(ExecutionError::of_place)?;
        directory.keep_files(&self.files).map_err(ExecutionError::of_place)?;
        let Start { warnings, opened } = start;
        ActiveExecution { execution: self, program, selection, looks, directory, beginning, machine, header, warnings }
            .run(Vec::new(), opened)
    }

    /// Continues where an earlier process ended it. `begun` is the state that this process left.
    pub(crate) fn resume(&self, begun: StoredExperiment, program: &Program<'_>) -> Result<Conclusion, ExecutionError> {
        let machine = MachineFacts::read();
        let beginning = Beginning::earlier(&begun.header.started);
        let (selection, looks) = self.schedule(program)?;
        let now = self.header(&looks[0], beginning, &machine, program);
        let StoredExperiment { directory, header, records, mut warnings, .. } = begun;
        let place = directory.place().display();
        if now.settings_hash != header.settings_hash {
            return Err(ExecutionError::Refused(format!(
                "{place}: its experiment.toml was changed after the start; start again"
            )));
        }
        if now.machine_fingerprint != header.machine_fingerprint {
            return Err(ExecutionError::Refused(format!(
                "{place}: it was started on another machine, or this machine has changed; figures of both would not be one experiment, so start again"
            )));
        }
        let done = records.len();
        warnings.push(format!("resumed after {done} runs"));
        if (&now.commit, &now.plimsoll) != (&header.commit, &header.plimsoll) {
            let told = |header: &JournalHeader| header.commit.clone().unwrap_or_else(|| header.plimsoll.clone());
            warnings.push(format!(
                "the first {done} runs were made by another build ({}) than the rest ({})",
                told(&header),
                told(&now)
            ));
        }
        ActiveExecution { execution: self, program, selection, looks, directory, beginning, machine, header, warnings }
            .run(records, OpenedDatabase::default())
    }

    /// Tells how long it will take. Refuses very long experiments that are not confirmed.
    fn announce(&self, program: &Program<'_>) -> Result<(), ExecutionError> {
        if let Some(why) = counted::fault(&self.plan) {
            return Err(ExecutionError::Refused(why));
        }
        let selection = self.selection()?;
        let looks = self.looks()?;
        let longest = looks.last().expect("there is at least one look");
        program.reporter.tell(&length::announcement(longest, selection.run_count(longest), self.confirmed)?);
        Ok(())
    }

    fn selection(&self) -> Result<Selection, ExecutionError> {
        Ok(Selection::parse(self.only.as_deref().unwrap_or_default(), &self.plan)?)
    }

    /// The plan up to each evaluation of its claims; one, unless it runs until they are decided.
    pub(crate) fn looks(&self) -> Result<Vec<Plan>, ExecutionError> {
        let Some(blocks_max) = self.blocks_max else { return Ok(vec![self.plan.clone()]) };
        let refused = |why| ExecutionError::Refused(format!("--until-decided: {why}"));
        until_decided::plans(&self.plan, blocks_max).map_err(refused)
    }

    /// What to run, if the machine has what it takes.
    fn schedule(&self, program: &Program<'_>) -> Result<(Selection, Vec<Plan>), ExecutionError> {
        let selection = self.selection()?;
        capacity::check(&self.plan, program.targets)?;
        Ok((selection, self.looks()?))
    }

    fn header(
        &self,
        first: &Plan,
        beginning: Beginning,
        machine: &MachineFacts,
        program: &Program<'_>,
    ) -> JournalHeader {
        JournalHeader {
            format: FORMAT,
            plimsoll: program.build.version.to_owned(),
            commit: program.build.commit.map(str::to_owned),
            settings_hash: settings_hash(&settings(first, program.targets)),
            machine_fingerprint: machine_fingerprint(machine),
            started: beginning.started(),
            quick: self.quick,
            only: self.only.clone(),
            cores: self.cores,
            claims: self.claims(),
            blocks_max: self.blocks_max,
            origin: Some(Origin::now(&self.plan, &self.text, self.quick, program.build)),
        }
    }

    /// Its claims as they were at their first results, or the present ones if they have had none.
    fn claims(&self) -> Hashes {
        let mut claims: Hashes = self.plan.claims.iter().map(|claim| (claim.text.clone(), claim.hash())).collect();
        claims.extend(self.first.clone());
        claims
    }
}

/// An execution under way.
struct ActiveExecution<'a> {
    execution: &'a Execution,
    program: &'a Program<'a>,
    selection: Selection,
    /// As [`Execution::looks`].
    looks: Vec<Plan>,
    directory: RunDirectory,
    beginning: Beginning,
    machine: MachineFacts,
    /// The first line of its journal.
    header: JournalHeader,
    warnings: Vec<String>,
}

/// The result of measuring.
struct Measurements {
    outcome: Result<Outcome, RunError>,
    opened: OpenedDatabase,
    /// Why a limit of the machine is still in force, if one is.
    still_limited: Option<String>,
}

impl ActiveExecution<'_> {
    /// Runs the runs that are not `done`, and writes the results.
    fn run(mut self, done: Vec<RunRecord>, opened: OpenedDatabase) -> Result<Conclusion, ExecutionError> {
        let done_count = done.len();
        let (memory_speed, unreadable) = kept_speed::load(self.program.state_folder.as_deref(), &self.machine);
        let speed = memory_speed.as_ref().map(|kept| &kept.speed);
        let Measurements { outcome, opened, still_limited } = self.measure(done, opened, speed);
        self.program.reporter.clear();
        if let Some(warning) = &still_limited {
            // Also after an error, which no document records.
            self.program.reporter.tell(warning);
        }
        let place = self.directory.place().to_owned();
        let kept = self.directory.has_runs().then(|| place.clone());
        let outcome = outcome.map_err(|error| ExecutionError::of_run(error, kept))?;
        if outcome.records.is_empty() {
            return Err(ExecutionError::Interrupted(
                "stopped before a run was complete; nothing was written".to_owned(),
            ));
        }
        self.warnings.extend(unreadable.into_iter().chain(still_limited).chain(ended_early(&outcome, &place)));
        let mut provenance = self.beginning.provenance(self.program.build);
        if outcome.records.len() == done_count {
            // This build measured nothing: it only judges earlier measurements again.
            (provenance.version, provenance.commit) = (self.header.plimsoll, self.header.commit);
        }
        let settings = settings(&self.looks[0], self.program.targets);
        let Outcome { records, stopped, left, given_up } = outcome;
        let mut results = document(&self.looks[0], settings, provenance, self.machine, &records, self.warnings);
        // A simulated machine has the speeds of its file.
        results.memory_speed = memory_speed.filter(|_| !self.execution.plan.is_simulated());
        (results.quick, results.runs_left) = (self.execution.quick, left);
        // Of runs by several builds, the first counts: if its code is old, so are some of them.
        results.origin = self.header.origin.clone();
        first_result::mark(&mut results.claims, &self.header.claims);
        let files = self.directory.finish(&results, &records);
        let files = files.map_err(|error| ExecutionError::Resumable { error: error.to_string(), place })?;
        Ok(Conclusion { results, files, stopped, given_up: given_up.is_some(), opened })
    }

    /// Runs the runs that are not `done`, with the limits that they need, and lifts all limits.
    fn measure(&mut self, done: Vec<RunRecord>, opened: OpenedDatabase, speed: Option<&MemorySpeed>) -> Measurements {
        let ActiveExecution { execution, program, selection, looks, directory, beginning, machine, .. } = self;
        let mut keep = |record: &RunRecord| directory.keep(record).map_err(|error| error.to_string());
        let mut show = |step: RunProgress<'_>| program.reporter.step(step, &execution.plan);
        let elapsed_s = || beginning.elapsed_s();
        let mut watch = Watch { progress: &mut show, keep: &mut keep, stop: program.stop, elapsed_s: &elapsed_s };
        let mut limits = HostLimits::new(program.hog.clone()).with_memory_speed(speed);
        let instruments = Instruments::here(speed.and_then(level_latencies));
        let runner = Runner::new(&looks[0], program.targets, &mut limits).with_counting(&program.counting);
        let mut runner = runner.with_instruments(instruments).with_opened(opened);
        let claims = |plan: &Plan, records: &[RunRecord]| {
            let (settings, provenance) = (settings(plan, program.targets), beginning.provenance(program.build));
            document(plan, settings, provenance, machine.clone(), records, Vec::new()).claims
        };
        let outcome = until_decided::run(&mut runner, looks, selection, done, &mut watch, &claims);
        let opened = runner.into_opened();
        let still_limited = limits.lift().err().map(|error| format!("the machine is still limited: {error}"));
        Measurements { outcome, opened, still_limited }
    }
}

/// The warning that an experiment ended with runs left, and how to continue.
fn ended_early(outcome: &Outcome, place: &Path) -> Option<String> {
    let (done, all, place) = (outcome.records.len(), outcome.records.len() + outcome.left, place.display());
    if outcome.stopped {
        return Some(format!(
            "stopped by Ctrl-C after {done} of {all} runs; to continue: plimsoll run --resume {place}"
        ));
    }
    let why = outcome.given_up.as_ref()?;
    Some(format!(
        "ended after {done} of {all} runs, because others use the machine and no run is valid: {why}; once they are gone: plimsoll run --resume {place}"
    ))
}
