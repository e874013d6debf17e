//! The main job: several workloads alone and together, under the same clock and the same sensors.
//!
//! The runs come in blocks. A block has every arm once (`alone:NAME` for each workload, then `together`) in an order of
//! its own, drawn from the seed, so that a drift of the machine hits all arms alike; block k gives repeat k of each arm.
//! Clients begin every run at the beginning of their sequences with the same seeds, so that arms differ in who else runs
//! and in nothing else. A slower arm gets less far in its sequence; the summary compares
//! arms at an equal mix.

mod convert;
mod defaults;
mod document;
mod observer;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::database::{Database, DatabaseError};
use plimsoll_workload::driver::{
    ClientOptions, Drive, DriveError, DriveMeasurement, Progress, Window, WorkloadMeasurement, drive,
};

use crate::results::{Point, WorkloadResult};
use crate::time_share::time_share;
pub use defaults::StudyDefaults;
pub use document::{Provenance, document, settings};
use observer::{SensorObserver, SensorReading};
use schedule::{Run, schedule};

/// One workload of a study, its tables loaded.
#[derive(Clone, Copy)]
pub struct StudyWorkload<'a> {
    /// Its name in the experiment.
    pub name: &'a str,
    /// What its clients run.
    pub benchmark: &'a dyn Benchmark,
    /// How many clients there are and how they behave.
    pub options: &'a ClientOptions,
}

/// How to run the arms.
#[derive(Debug, Clone, Copy)]
pub struct StudyPlan {
    /// Warm-up and measurement of each run.
    pub window: Window,
    /// How often each arm runs. Two or more are needed to tell a difference from noise.
    pub blocks: u32,
    /// The order of arms within each block is drawn from this.
    pub seed: u64,
}

/// How far a study is.
#[derive(Debug, Clone, Copy)]
pub struct StudyProgress<'a> {
    /// The arm that runs.
    pub arm: &'a str,
    /// Runs that are over. A count.
    pub done: usize,
    /// All runs of the study. A count.
    pub all: usize,
    /// How far the present run is.
    pub run: Progress,
}

/// What a study measured.
#[derive(Debug, Clone, Default)]
pub struct StudyMeasurement {
    /// Every run, in the order they ran.
    pub points: Vec<Point>,
    /// Why figures are missing, and what else a reader must know; each sentence once.
    pub warnings: Vec<String>,
    /// Whether Ctrl-C ended the study before all runs were done; the points of those done are here.
    pub stopped: bool,
}

/// Why a study has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// A run failed.
    #[error("{arm}, repeat {repeat}: {error}")]
    Run {
        /// The arm.
        arm: String,
        /// Which of its repeats.
        repeat: u32,
        /// What happened.
        error: DriveError,
    },
    /// The database could not show queries the changes of the run before.
    #[error("before {arm}, repeat {repeat}: {error}")]
    Refresh {
        /// The arm.
        arm: String,
        /// Which of its repeats.
        repeat: u32,
        /// The database's words.
        error: DatabaseError,
    },
}

/// Runs every arm in every block and measures.
pub fn measure(
    database: &dyn Database,
    workloads: &[StudyWorkload<'_>],
    plan: &StudyPlan,
    progress: &mut dyn FnMut(StudyProgress<'_>),
    stop: &AtomicBool,
) -> Result<StudyMeasurement, StudyError> {
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name).collect();
    let runs = schedule(&names, plan.blocks, plan.seed);
    let mut study = StudyMeasurement::default();
    for (done, run) in runs.iter().enumerate() {
        let mut tick = |progress_of_run| {
            progress(StudyProgress { arm: &run.arm, done, all: runs.len(), run: progress_of_run });
        };
        match run_one(database, workloads, run, plan.window, &mut tick, stop)? {
            Some((point, warnings)) => {
                study.points.push(point);
                for warning in warnings {
                    if !study.warnings.contains(&warning) {
                        study.warnings.push(warning);
                    }
                }
            }
            None => {
                study.stopped = true;
                study.warnings.push(format!("stopped by Ctrl-C after {done} of {} runs", runs.len()));
                break;
            }
        }
    }
    Ok(study)
}

/// Cores that others may keep busy before a reader must know: the kernel's own housekeeping takes less.
const OTHERS_CORES_MAX: f64 = 0.1;

/// One run of one arm, and what a reader of it must know; `None` if it was stopped.
fn run_one(
    database: &dyn Database,
    workloads: &[StudyWorkload<'_>],
    run: &Run,
    window: Window,
    tick: &mut dyn FnMut(Progress),
    stop: &AtomicBool,
) -> Result<Option<(Point, Vec<String>)>, StudyError> {
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let (arm, repeat) = (run.arm.clone(), run.repeat);
    let members = run.members.iter().map(|member| workloads[*member]);
    let drives: Vec<Drive<'_>> = members
        .map(|StudyWorkload { name, benchmark, options }| Drive { name, benchmark, database, options })
        .collect();
    for drive in drives.iter().filter(|drive| drive.benchmark.is_analytical()) {
        let refreshed = database.refresh(drive.benchmark.schema());
        refreshed.map_err(|error| StudyError::Refresh { arm: arm.clone(), repeat, error })?;
    }
    let mut observer = SensorObserver::new(tick);
    match drive(&drives, window, &mut observer, stop) {
        Ok(measured) => {
            let reading = observer.finish().expect("a run that succeeds has closed its window");
            Ok(Some(point(run, &measured, reading)))
        }
        Err(DriveError::Stopped) => Ok(None),
        Err(error) => Err(StudyError::Run { arm, repeat, error }),
    }
}

fn point(run: &Run, measured: &DriveMeasurement, reading: SensorReading) -> (Point, Vec<String>) {
    let mut warnings = measured.warnings.clone();
    warnings.extend(reading.warnings.iter().cloned());
    if let Some(cores) = reading.device.busy_cores_others.filter(|cores| *cores > OTHERS_CORES_MAX) {
        let (arm, repeat) = (&run.arm, run.repeat);
        warnings.push(format!(
            "{arm}, repeat {repeat}: others on this machine, or its host, kept {cores:.1} cores busy; measure on a quiet one"
        ));
    }
    let results = measured.workloads.iter().zip(&reading.workloads).map(|(measured, sensed)| {
        let share = time_share(measured, &sensed.serving, &mut warnings);
        warnings.extend(remarks(&run.arm, measured));
        convert::workload_result(measured, share, sensed.counters)
    });
    let results: Vec<WorkloadResult> = results.collect();
    let idle = measured.workloads.iter().find(|workload| workload.all.work_done == 0.0);
    let why_invalid = idle.map(|workload| {
        format!("no request of {} ran to success within the window; make the window longer", workload.name)
    });
    let point = Point {
        setting: BTreeMap::new(),
        arm: run.arm.clone(),
        repeat: run.repeat,
        is_again: false,
        at_s: 0.0,
        warmup_s: 0.0,
        valid: why_invalid.is_none(),
        why_invalid,
        window_s: measured.window.as_secs_f64(),
        achieved: BTreeMap::new(),
        workloads: results,
        device: reading.device,
        counters: reading.counters,
        top_down: None,
    };
    (point, warnings)
}

/// What a reader of a workload's figures must know.
fn remarks(arm: &str, measured: &WorkloadMeasurement) -> Vec<String> {
    let name = &measured.name;
    let mut remarks = Vec::new();
    if measured.is_analytical {
        remarks.push(format!(
            "{name}: throughput credits each query with the share of its time inside the window; since queries differ in cost, arms are compared at an equal mix of them"
        ));
    }
    if measured.aborted.error > 0 {
        let (errors, completed) = (measured.aborted.error, measured.all.completed);
        remarks.push(format!("{name}: {errors} requests were given up in {arm}, beside {completed} completed"));
    }
    if measured.clamped > 0 {
        let clamped = measured.clamped;
        remarks.push(format!("{name}: {clamped} latencies in {arm} were above an hour and are recorded as an hour"));
    }
    remarks
}
