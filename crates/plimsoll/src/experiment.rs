//! Runs a plan into a run directory: the common part of `study`, `run` and `reproduce`.

use std::path::{Path, PathBuf};

use plimsoll_commands::failure::Failure;
use plimsoll_commands::interrupt;
use plimsoll_commands::output::tell;
use plimsoll_lab::capacity;
use plimsoll_lab::claim::first_result::{self, Hashes};
use plimsoll_lab::document::{Provenance, document, settings};
use plimsoll_lab::fingerprint::{machine_fingerprint, settings_hash};
use plimsoll_lab::host_limits::HostLimits;
use plimsoll_lab::journal::JournalHeader;
use plimsoll_lab::plan::Plan;
use plimsoll_lab::record::RunRecord;
use plimsoll_lab::results::{FORMAT, Results};
use plimsoll_lab::run_directory::{RunDirectory, RunDirectoryError};
use plimsoll_lab::runner::{Opened, Outcome, RunError, Runner, Selection, Watch};
use plimsoll_lab::sensors::{Instruments, level_latencies};
use plimsoll_lab::until_decided;
use plimsoll_machine::MachineFacts;
use plimsoll_workload::driver::DriveError;
use plimsoll_workload::file::WorkloadFile;

use crate::hog;
use crate::memory_speed;
use crate::progress::Progress;
use crate::provenance::Beginning;
use crate::targets::TARGETS;

/// An experiment about to be run.
#[derive(Debug)]
pub struct Experiment<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// The text that makes the plan, kept beside the results.
    pub text: &'a str,
    /// The files of workloads that it names, kept there, too.
    pub files: &'a [WorkloadFile],
    /// Whether the plan was made with the text's quick settings.
    pub quick: bool,
    /// The runs it is restricted to, as typed.
    pub only: Option<&'a str>,
    /// The number of cores it is sized for, if that was asked for.
    pub cores: Option<usize>,
    /// Claims that had results before it was begun, as they were then.
    pub first: Hashes,
    /// The most blocks to run until its claims are decided; `None` if it runs as many as the plan says.
    pub blocks_max: Option<u32>,
}

/// Runs, warnings and an open database from before an experiment began or continued.
#[derive(Debug, Default)]
pub struct Before {
    /// Runs that are done.
    pub records: Vec<RunRecord>,
    /// Caveats for the reader.
    pub warnings: Vec<String>,
    /// A database that is open.
    pub opened: Opened,
}

/// An experiment that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its results.
    pub results: Results,
    /// The files it left.
    pub files: Vec<PathBuf>,
    /// Whether Ctrl-C ended it before all runs were done.
    pub stopped: bool,
    /// Whether it was ended because others use the machine.
    pub given_up: bool,
    /// The database, for work that continues with it.
    pub opened: Opened,
}

/// The runs of an experiment.
struct Schedule {
    selection: Selection,
    /// The plan up to each evaluation of its claims; one, unless it runs until they are decided.
    looks: Vec<Plan>,
}

impl<'a> Experiment<'a> {
    /// All of a plan that was made from that text for this machine, as often as it says.
    pub fn of(plan: &'a Plan, text: &'a str) -> Self {
        let first = Hashes::new();
        Experiment { plan, text, files: &[], quick: false, only: None, cores: None, first, blocks_max: None }
    }

    /// Runs it from the beginning into an empty or new folder.
    pub fn begin(&self, place: &Path) -> Result<Ended, Failure> {
        self.begin_after(place, Before::default())
    }

    /// The same, with the runs and the open database of `before`.
    pub fn begin_after(&self, place: &Path, before: Before) -> Result<Ended, Failure> {
        let beginning = Beginning::now();
        let machine = MachineFacts::read();
        // Before a folder is made.
        let schedule = self.schedule()?;
        let header = self.header(&schedule.looks[0], &beginning.provenance(), &machine);
        let mut directory = RunDirectory::create(place, self.text, &machine, &header).map_err(begin_failure)?;
        directory.keep_files(self.files).map_err(begin_failure)?;
        self.run(schedule, directory, beginning, machine, header, before)
    }

    /// Continues where an earlier run of it ended. `found` is the state that the earlier run left.
    pub fn resume(&self, found: Found) -> Result<Ended, Failure> {
        let machine = MachineFacts::read();
        let beginning = Beginning::earlier(&found.header.started);
        let schedule = self.schedule()?;
        let header = self.header(&schedule.looks[0], &beginning.provenance(), &machine);
        if header.settings_hash != found.header.settings_hash {
            return Err(Failure::Input(anyhow::anyhow!(
                "{}: its experiment.toml was changed after the start; start again",
                found.directory.place().display()
            )));
        }
        if header.machine_fingerprint != found.header.machine_fingerprint {
            return Err(Failure::Input(anyhow::anyhow!(
                "{}: it was started on another machine, or this machine has changed; figures of both would not be one experiment, so start again",
                found.directory.place().display()
            )));
        }
        let mut warnings = found.warnings;
        warnings.push(format!("resumed after {} runs", found.records.len()));
        if header.commit != found.header.commit || header.plimsoll != found.header.plimsoll {
            let told = |header: &JournalHeader| header.commit.clone().unwrap_or_else(|| header.plimsoll.clone());
            warnings.push(format!(
                "the first {} runs were made by another build ({}) than the rest ({})",
                found.records.len(),
                told(&found.header),
                told(&header)
            ));
        }
        let before = Before { records: found.records, warnings, ..Before::default() };
        self.run(schedule, found.directory, beginning, machine, found.header, before)
    }

    fn header(&self, first: &Plan, provenance: &Provenance, machine: &MachineFacts) -> JournalHeader {
        JournalHeader {
            format: FORMAT,
            plimsoll: provenance.version.clone(),
            commit: provenance.commit.clone(),
            settings_hash: settings_hash(&settings(first, &TARGETS)),
            machine_fingerprint: machine_fingerprint(machine),
            started: provenance.started.clone(),
            quick: self.quick,
            only: self.only.map(str::to_owned),
            cores: self.cores,
            claims: self.claims(),
            blocks_max: self.blocks_max,
        }
    }

    /// Its claims as they were at their first results, or the present ones if they have had none.
    fn claims(&self) -> Hashes {
        let mut claims: Hashes = self.plan.claims.iter().map(|claim| (claim.text.clone(), claim.hash())).collect();
        claims.extend(self.first.clone());
        claims
    }

    /// The schedule to run, if its data fits into memory.
    fn schedule(&self) -> Result<Schedule, Failure> {
        let selection = self.only.map(|only| Selection::parse(only, self.plan)).transpose().map_err(Failure::input)?;
        capacity::check_machine(self.plan, &TARGETS).map_err(|why| Failure::Input(anyhow::anyhow!(why)))?;
        capacity::check_plan_fits(self.plan, &TARGETS).map_err(Failure::input)?;
        let looks = match self.blocks_max {
            Some(blocks_max) => until_decided::plans(self.plan, blocks_max)
                .map_err(|why| Failure::Input(anyhow::anyhow!("--until-decided: {why}")))?,
            None => vec![self.plan.clone()],
        };
        Ok(Schedule { selection: selection.unwrap_or_default(), looks })
    }

    /// Runs the remaining runs. `header` is the first line of its journal.
    fn run(
        &self,
        Schedule { selection, looks }: Schedule,
        mut directory: RunDirectory,
        beginning: Beginning,
        machine: MachineFacts,
        header: JournalHeader,
        Before { records: done, mut warnings, opened }: Before,
    ) -> Result<Ended, Failure> {
        let done_count = done.len();
        let stop = interrupt::listen()?;
        let progress = Progress::new();
        let (memory_speed, unreadable) = memory_speed::kept(&machine);
        let (outcome, opened, lifted) = {
            let mut keep = |record: &RunRecord| directory.keep(record).map_err(|error| error.to_string());
            let mut show = |step: plimsoll_lab::runner::RunProgress<'_>| progress.show_run(step, self.plan);
            let elapsed_s = || beginning.elapsed_s();
            let mut watch = Watch { progress: &mut show, keep: &mut keep, stop, elapsed_s: &elapsed_s };
            let speed = memory_speed.as_ref().map(|kept| &kept.speed);
            let mut limits = HostLimits::new(hog::command()).with_memory_speed(speed);
            let latencies = speed.and_then(level_latencies);
            let runner = Runner::new(&looks[0], &TARGETS, &mut limits);
            let mut runner = runner.with_instruments(Instruments::here(latencies)).with_opened(opened);
            let claims = |plan: &Plan, records: &[RunRecord]| {
                let settings = settings(plan, &TARGETS);
                document(plan, settings, beginning.provenance(), machine.clone(), records, Vec::new()).claims
            };
            let outcome = until_decided::run(&mut runner, &looks, &selection, done, &mut watch, &claims);
            let opened = runner.into_opened();
            (outcome, opened, limits.lift())
        };
        progress.clear();
        let still_limited = lifted.err().map(|error| format!("the machine is still limited: {error}"));
        if let Some(warning) = &still_limited {
            // Also after an error, which no document records.
            tell(warning);
        }
        let place = directory.place().to_owned();
        let kept = directory.has_runs().then_some(place.as_path());
        let Outcome { records, stopped, left, given_up } = outcome.map_err(|error| run_failure(error, kept))?;
        if records.is_empty() {
            return Err(Failure::Interrupted("stopped before a run was complete; nothing was written".to_owned()));
        }
        warnings.extend(unreadable.into_iter().chain(still_limited));
        if stopped {
            let (done, all) = (records.len(), records.len() + left);
            warnings.push(format!(
                "stopped by Ctrl-C after {done} of {all} runs; to continue: plimsoll run --resume {}",
                place.display()
            ));
        }
        warnings.extend(given_up.as_ref().map(|why| ended_early(why, (records.len(), left), &place)));
        let settings = settings(&looks[0], &TARGETS);
        let mut provenance = beginning.provenance();
        if records.len() == done_count {
            // This build measured nothing: it only judges earlier measurements again.
            (provenance.version, provenance.commit) = (header.plimsoll, header.commit);
        }
        let mut results = document(&looks[0], settings, provenance, machine, &records, warnings);
        // A simulated machine has the speeds of its file.
        results.memory_speed = memory_speed.filter(|_| !self.plan.is_simulated());
        (results.quick, results.runs_left) = (self.quick, left);
        first_result::mark(&mut results.claims, &header.claims);
        let files = directory.finish(&results, &records).map_err(|error| resumable(&error.into(), &place))?;
        Ok(Ended { results, files, stopped, given_up: given_up.is_some(), opened })
    }
}

/// The warning that an experiment ended because of others on the machine, after some runs and with some left.
fn ended_early(why: &str, (done, left): (usize, usize), place: &Path) -> String {
    format!(
        "ended after {done} of {} runs, because others use the machine and no run is valid: {why}; once they are gone: plimsoll run --resume {}",
        done + left,
        place.display()
    )
}

/// The state that an earlier run has left.
pub use plimsoll_lab::run_directory::Begun as Found;

/// The kind of failure that stops an experiment. `place` is the run directory, if it keeps the measurements so far.
pub fn run_failure(error: RunError, place: Option<&Path>) -> Failure {
    let is_input = matches!(&error, RunError::Run { error: DriveError::Options { .. }, .. });
    match place {
        _ if is_input => Failure::input(error),
        Some(place) => resumable(&error.into(), place),
        None => Failure::world(error),
    }
}

/// A folder that cannot be used is the wrong one; a full disk is not the caller's fault.
pub fn begin_failure(error: RunDirectoryError) -> Failure {
    match error {
        lack if lack.is_lack_of_room() => Failure::world(lack),
        exists @ RunDirectoryError::Exists(_) => Failure::input(exists),
        other => Failure::Input(anyhow::anyhow!("{other}; name another folder with --out")),
    }
}

fn resumable(error: &anyhow::Error, place: &Path) -> Failure {
    Failure::World(anyhow::anyhow!(
        "{error:#}\nthe measurements are kept; when this is solved, continue with: plimsoll run --resume {}",
        place.display()
    ))
}
