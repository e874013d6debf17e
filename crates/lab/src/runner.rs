//! Runs the settings and arms of a plan, one after the other, and keeps the record of each run.
//!
//! The runs are grouped in blocks. A block has every arm of every setting once, in its own order (`order`), so that a drift of
//! the machine affects all in the same way; block k gives repeat k. Within a block clients begin every run at the beginning of
//! the same sequences, so arms differ only in which other workloads run. Every block has its own sequences
//! ([`seed_of_block`](crate::plan::RunPlan::seed_of_block)). A slower arm gets less far in its sequence; if requests differ in
//! cost, arms are compared at an equal mix.
//!
//! Data is loaded once and used by all runs that find it as it was loaded. A run that makes its data grow, as TPC-C
//! does, would make the next run look slower than it is, for any swept key; its data is therefore loaded again before
//! the next run that uses it (`store`, [`Reload`](crate::plan::Reload)).
//!
//! A run that other processes on the machine disturbed too much is discarded and repeated, up to a number of times
//! (`others`).
//!
//! The record of a finished run is handed to the caller before the next run begins. The caller writes it to a journal,
//! and passes the journal to [`Runner::run`] as `done` to continue a killed experiment.

mod checks;
mod error;
mod observer;
mod opened;
mod order;
mod pace;
mod patience;
mod plans;
mod point;
mod reconnect;
mod search;
mod simulated;
mod store;
mod tries;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_machine::busy_processes::ProcessTimes;
use plimsoll_machine::control::Limits;
use plimsoll_machine::host::Host;
use plimsoll_workload::benchmark::{Benchmark, CheckLine};
use plimsoll_workload::cancelling::cancelling;
use plimsoll_workload::database::{Database, DatabaseError};
use plimsoll_workload::driver::{ClientOptions, Drive, DriveError, Progress, Stop, drive};
use plimsoll_workload::parallelism::Parallelism;

use crate::counted::{self, CountedRun};
use crate::limits::{HOG, LLC_MIB, MEMORY_MIB, MachineLimits};
use crate::others;
use crate::plan::{Arm, CtrlC, Disturbed, Plan, RunPlan, Search, Setting, option_text};
use crate::record::{RunId, RunRecord};
use crate::results::Point;
use crate::sensors::{Instruments, ServerProcesses};
use crate::size;
use crate::targets::Targets;
pub use error::RunError;
use observer::{SensorObserver, ServerSensors};
pub use opened::OpenedDatabase;
pub use order::{Selection, SelectionError};
use pace::Pace;
use patience::Patience;
use plans::Plans;
use search::Rounds;
use store::Store;
pub use store::StoreError;

/// The activity of a runner.
#[derive(Debug, Clone, Copy)]
pub enum RunProgress<'a> {
    /// Data is loaded.
    Loading {
        /// The workload whose data it is.
        workload: &'a str,
        /// Rows loaded.
        done: u64,
        /// Rows in all.
        all: u64,
    },
    /// Clients run.
    Running {
        /// The arm that runs.
        arm: &'a str,
        /// Runs that are over. A count.
        done: usize,
        /// Runs known to be wanted. A count; a search for a knee may add to it.
        all: usize,
        /// How far the present run is.
        run: Progress,
        /// How long the known runs take from the beginning of this one, by the time that earlier ones took with their tries and
        /// loading.
        left: Duration,
    },
    /// Others on the machine disturbed a run for the first time in the experiment, or its server is away.
    Disturbed {
        /// How, and who they are.
        why: &'a str,
        /// What to do about it.
        remedy: &'a str,
    },
    /// Requests are counted on a simulated processor.
    Counting {
        /// The arm that runs.
        arm: &'a str,
        /// Runs that are over. A count.
        done: usize,
        /// Runs known to be wanted. A count.
        all: usize,
    },
    /// A run is simulated.
    Simulating {
        /// The arm that runs.
        arm: &'a str,
        /// Runs that are over. A count.
        done: usize,
        /// Runs known to be wanted. A count.
        all: usize,
        /// How much of the present run is done, 0 to 1.
        share: f64,
    },
}

/// The observers of a runner, and its stop signal.
pub struct Watch<'a> {
    /// Called with the current activity, several times per second.
    pub progress: &'a mut (dyn FnMut(RunProgress<'_>) + Send),
    /// Called with each finished run; the next one begins when this returns.
    pub keep: &'a mut dyn FnMut(&RunRecord) -> Result<(), String>,
    /// Set by Ctrl-C: no further run begins. The current one is finished if its window is open, unless the plan says otherwise.
    pub stop: &'a AtomicBool,
    /// Seconds since the experiment began.
    pub elapsed_s: &'a dyn Fn() -> f64,
}

/// The outcome of running a plan.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Every finished run, earlier ones first.
    pub records: Vec<RunRecord>,
    /// Whether it was stopped before all runs were done.
    pub stopped: bool,
    /// The number of runs left. A count.
    pub left: usize,
    /// Why it ended before all runs were done, if others on the machine are the reason.
    pub given_up: Option<String>,
}

/// Runs a plan.
pub struct Runner<'a> {
    plan: &'a Plan,
    store: Store<'a>,
    limits: &'a mut dyn MachineLimits,
    /// Determined when they are first needed.
    instruments: Option<Instruments>,
    /// The limits under which the data was loaded; see [`limits_while_loading`].
    loaded_under: Limits,
    /// Whether other processes on the machine have disturbed a run, and how.
    disturbance: &'a dyn Fn(&Point, f64) -> Option<String>,
    /// Whether the person who watches knows of others on the machine.
    is_told: bool,
    /// The setting that ran last.
    last: Option<usize>,
    /// Whether the server went away and has not been opened again.
    is_server_lost: bool,
    plans: Plans,
    /// The program that counts requests, and its first argument; empty if there is none.
    counting: &'a [OsString],
    pace: Pace,
}

impl<'a> Runner<'a> {
    /// A runner that has not yet opened or limited anything.
    pub fn new(plan: &'a Plan, targets: &'a dyn Targets, limits: &'a mut dyn MachineLimits) -> Self {
        let store = Store::new(targets);
        Runner {
            plan,
            store,
            limits,
            instruments: None,
            loaded_under: Limits::new(),
            disturbance: &others::disturbance,
            is_told: false,
            last: None,
            is_server_lost: false,
            plans: Plans::default(),
            counting: &[],
            pace: Pace::default(),
        }
    }

    /// Uses these instruments to measure windows.
    pub fn with_instruments(self, instruments: Instruments) -> Self {
        Runner { instruments: Some(instruments), ..self }
    }

    /// Counts requests on a simulated processor, where the plan asks for that, with this program.
    pub(crate) fn with_counting(self, counting: &'a [OsString]) -> Self {
        Runner { counting, ..self }
    }

    /// Continues the same plan for more repeats. The open database and its data stay.
    pub(crate) fn go_on_with(&mut self, plan: &'a Plan) {
        self.plan = plan;
    }

    /// Runs the selected part of the plan that is not among the `done`.
    pub fn run(
        &mut self,
        selection: &Selection,
        done: Vec<RunRecord>,
        watch: &mut Watch<'_>,
    ) -> Result<Outcome, RunError> {
        let mut records = done;
        let mut finished: BTreeSet<RunId> = records.iter().map(|record| record.id).collect();
        let mut rounds = Rounds::default();
        let runs = selection.run_count(self.plan);
        let block = runs.div_ceil(self.plan.run.repeats.max(1) as usize);
        let has_result = records.iter().any(|record| !record.point.disturbed);
        let mut patience = Patience::new(self.plan.estimated_time(runs), block, has_result);
        if self.plan.run.search == Search::Size {
            self.pace = Pace::within((watch.elapsed_s)(), size::search::time_left(self.plan, &records));
        }
        while let Some(round) = rounds.next(self.plan, selection, &records) {
            let wanted: Vec<RunId> = round.into_iter().filter(|id| !finished.contains(id)).collect();
            for (position, id) in wanted.iter().enumerate() {
                let left = wanted.len() - position;
                if watch.stop.load(Ordering::Relaxed) {
                    return Ok(Outcome { records, stopped: true, left, given_up: None });
                }
                let at = (records.len(), records.len() + left);
                self.pace.begin((watch.elapsed_s)(), left, self.plan.estimated_time(1));
                match self.run_one(*id, at, &mut patience, watch) {
                    Err(RunError::Store(StoreError::Stopped)) => {
                        return Ok(Outcome { records, stopped: true, left, given_up: None });
                    }
                    Err(error) => return Err(error),
                    Ok(record) => {
                        (watch.keep)(&record).map_err(RunError::Keep)?;
                        finished.insert(*id);
                        records.push(record);
                    }
                }
                if patience.is_hopeless() && left > 1 && self.plan.run.disturbed == Disturbed::Discard {
                    let why = records.last().and_then(|record| record.point.why_invalid.clone());
                    return Ok(Outcome { records, stopped: false, left: left - 1, given_up: why });
                }
            }
        }
        Ok(Outcome { records, stopped: false, left: 0, given_up: None })
    }

    /// Checks the data of the setting that ran last, and the input of its clients.
    pub fn check(&self) -> Result<Vec<CheckLine>, DatabaseError> {
        let Some(last) = self.last else { return Ok(Vec::new()) };
        let benchmarks = self.plan.benchmarks_of(&self.plan.setting(last)).expect("they were made for the run");
        let mut lines = checks::Lines::default();
        for benchmark in &benchmarks {
            lines.add(&benchmark.data(), benchmark.check(self.store.database())?);
        }
        Ok(lines.into_lines())
    }

    /// One try of a run.
    fn try_one(&mut self, id: RunId, at: (usize, usize), watch: &mut Watch<'_>) -> Result<RunRecord, RunError> {
        let setting = self.plan.setting(id.setting);
        let arm = &self.plan.arms[id.arm];
        if self.plan.is_simulated() {
            return simulated::run(self.plan, id, at, &setting, arm, watch);
        }
        if self.plan.run.simulated_requests.is_some() {
            return self.count(id, at, &setting, arm, watch);
        }
        let benchmarks = self.plan.benchmarks_of(&setting)?;
        let began_s = (watch.elapsed_s)();
        let run = run_name(&setting, arm, id.repeat);
        let mut prepared = self.prepare(&run, &setting, &benchmarks, &arm.members, watch);
        if prepared.as_ref().is_err_and(|error| self.goes_on_after(error)) {
            // The server went away between two runs, or while data was loaded: nothing is lost but time.
            self.lose_server();
            prepared = self.prepare(&run, &setting, &benchmarks, &arm.members, watch);
        }
        let record = match prepared {
            Ok(()) => self.measure(id, at, &setting, arm, &benchmarks, watch),
            Err(error) => Err(error),
        };
        for member in &arm.members {
            self.store.has_run(benchmarks[*member].as_ref());
        }
        self.last = Some(id.setting);
        match record {
            Err(error) if self.goes_on_after(&error) => {
                self.lose_server();
                Ok(point::without_figures(id, began_s, &setting, arm, error.reason()))
            }
            // An amount that cannot be put in force is no size; the search continues with others.
            Err(error @ RunError::Limits { .. }) if self.plan.run.search == Search::Size => {
                self.lose_server();
                Ok(point::without_figures(id, began_s, &setting, arm, error.reason()))
            }
            record => record,
        }
    }

    /// Counts requests on a simulated processor. A run that cannot be counted is invalid.
    fn count(
        &self,
        id: RunId,
        (done, all): (usize, usize),
        setting: &Setting,
        arm: &Arm,
        watch: &mut Watch<'_>,
    ) -> Result<RunRecord, RunError> {
        let at_s = (watch.elapsed_s)();
        let run = CountedRun { id, setting, arm, at_s, program: self.counting };
        let progress = &mut watch.progress;
        let mut waiting = || progress(RunProgress::Counting { arm: &arm.name, done, all });
        match counted::run(self.plan, &run, self.store.targets(), watch.stop, &mut waiting) {
            Ok(record) => record.ok_or(StoreError::Stopped.into()),
            Err(why) => Ok(point::without_figures(id, at_s, setting, arm, why)),
        }
    }

    /// Loads the data and then puts the limits in force, because they must not limit loading. Memory is an exception: a
    /// limit does not count memory that a process allocated before it was in force.
    fn prepare(
        &mut self,
        run: &str,
        setting: &Setting,
        benchmarks: &[Arc<dyn Benchmark>],
        members: &[usize],
        watch: &mut Watch<'_>,
    ) -> Result<(), RunError> {
        let failed = |error| RunError::Limits { run: run.to_owned(), error };
        let in_loading = limits_while_loading(&setting.limits);
        if in_loading != self.loaded_under {
            self.store.close();
            self.loaded_under.clone_from(&in_loading);
        }
        self.open(setting, watch)?;
        let reload = self.plan.run.reload;
        if self.store.must_load(benchmarks, members, reload)? {
            self.limits.set(&self.store.footprint(), &in_loading).map_err(failed)?;
        }
        self.store.prepare(setting, benchmarks, members, reload, watch)?;
        self.limits.set(&self.store.footprint(), &setting.limits).map_err(failed)
    }

    fn measure(
        &mut self,
        id: RunId,
        (done, all): (usize, usize),
        setting: &Setting,
        arm: &Arm,
        benchmarks: &[Arc<dyn Benchmark>],
        watch: &mut Watch<'_>,
    ) -> Result<RunRecord, RunError> {
        let database = self.store.database();
        let seed = self.plan.run.seed_of_block(id.repeat);
        let options = |member: &usize| ClientOptions { seed, ..setting.workloads[*member].clients.clone() };
        let options: Vec<ClientOptions> = arm.members.iter().map(options).collect();
        let drives = arm.members.iter().zip(&options).map(|(member, options)| Drive {
            name: &setting.workloads[*member].name,
            benchmark: benchmarks[*member].as_ref(),
            database,
            options,
        });
        let drives: Vec<Drive<'_>> = drives.collect();
        let name = || run_name(setting, arm, id.repeat);
        for drive in drives.iter().filter(|drive| drive.benchmark.is_analytical()) {
            let refreshed = cancelling(database, watch.stop, || database.refresh(drive.benchmark.schema()));
            refreshed.map_err(|error| match watch.stop.load(Ordering::Relaxed) {
                true => RunError::Store(StoreError::Stopped),
                false => RunError::Refresh { run: name(), error },
            })?;
        }
        let mut unseen = Vec::new();
        let plans = self.plans.of(id.setting, &drives, self.store.generation(), &mut unseen);
        let left = self.pace.left((watch.elapsed_s)());
        let mut tick = |run| (watch.progress)(RunProgress::Running { arm: &arm.name, done, all, run, left });
        let instruments = self.instruments.get_or_insert_with(|| Instruments::here(None));
        let mut sensors = server_sensors(database, seed, &mut unseen);
        sensors.processes.beside = self.limits.processes();
        let ours = sensors.processes.all();
        let mut observer = SensorObserver::new(&mut tick, self.limits, instruments, sensors);
        let RunPlan { ctrl_c, cut_after, .. } = self.plan.run;
        // Once there is something to lose, Ctrl-C waits for the end of the run.
        let stop = Stop { asked: watch.stop, spares_window: ctrl_c == CtrlC::AfterRun, cut_after };
        let began_s = (watch.elapsed_s)();
        let host = Host::real();
        let before = ProcessTimes::read(&host);
        let measured = drive(&drives, self.plan.run.window(), &mut observer, stop);
        let measured = match measured {
            Ok(measured) => measured,
            // This says nothing about the next run, which has another setting or other inputs.
            Err(error) if error.is_refused_work() && !error.is_server_lost() => {
                return Ok(point::without_figures(id, began_s, setting, arm, error.to_string()));
            }
            Err(DriveError::Stopped) => return Err(StoreError::Stopped.into()),
            Err(error) => return Err(RunError::Run { run: name(), error }),
        };
        let reading = observer.finish().expect("a run that succeeds has closed its window");
        let at_s = began_s + measured.opened_at.as_secs_f64();
        let mut record = point::record(id, at_s, setting, arm, &measured, reading, plans);
        point::refuse_failures(&mut record.point, self.plan.run.failed_max);
        record.point.others = ProcessTimes::read(&host).busiest_since(&before, &ours);
        record.point.parallelism = database.parallelism();
        record.point.indexes = point::indexes(database, &drives);
        record.point.device.learning = record.point.parallelism.as_ref().and_then(Parallelism::learning);
        for drive in &drives {
            record.warnings.extend(drive.benchmark.notes().iter().map(|note| format!("{}: {note}", drive.name)));
        }
        record.warnings.extend(unseen.into_iter().chain(database.warnings()));
        Ok(record)
    }
}

/// How to watch the server of a database, if it has one. A missing watch is explained by a warning.
fn server_sensors<'a>(database: &'a dyn Database, seed: u64, warnings: &mut Vec<String>) -> ServerSensors<'a> {
    let watch = database.activity().unwrap_or_else(|error| {
        warnings.push(format!("what the server's processes do is not seen: {error}"));
        None
    });
    let copy = database.freshness().unwrap_or_else(|error| {
        warnings.push(format!("how fresh the data are that queries read is not seen: {error}"));
        None
    });
    let processes =
        ServerProcesses { server: database.footprint().processes, proxy: database.proxy(), beside: Vec::new() };
    ServerSensors { database: Some(database), watch, copy, processes, seed }
}

/// A limit of memory, if there is one, together with the hogs. Hogs begin outside all limits, so changing them lifts
/// the limit of memory for a moment, after which it would not count data loaded before.
fn limits_while_loading(limits: &Limits) -> Limits {
    if !limits.contains_key(MEMORY_MIB) {
        return Limits::new();
    }
    let holds = |name: &str| [MEMORY_MIB, HOG, LLC_MIB].contains(&name);
    limits.iter().filter(|(name, _)| holds(name)).map(|(name, amount)| (name.clone(), amount.clone())).collect()
}

/// A run for people: `dop=2, together, repeat 1`.
fn run_name(setting: &Setting, arm: &Arm, repeat: u32) -> String {
    let swept = setting.swept.iter().map(|(key, value)| format!("{key}={}, ", option_text(value)));
    format!("{}{}, repeat {repeat}", swept.collect::<String>(), arm.name)
}

#[cfg(test)]
mod tests;
