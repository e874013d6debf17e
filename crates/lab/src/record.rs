//! The record of one finished run: its point, its histograms, its samples. It is the unit of the journal.

use plimsoll_workload::driver::DrivenWorkload;
use serde::{Deserialize, Serialize};

use crate::histograms::WorkloadHistograms;
use crate::results::{Aborted, Device, Mark, Point};
use crate::sensors::Second;

/// Identifies a run of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    /// The setting's number within the sweep, from 0.
    pub setting: usize,
    /// The arm's position in the plan.
    pub arm: usize,
    /// The block, from 1.
    pub repeat: u32,
    /// Whether it is the second run of that setting in this block (A/A).
    pub is_again: bool,
}

/// A finished run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// The run's identity.
    pub id: RunId,
    /// Its figures.
    pub point: Point,
    /// Latencies of each workload, in the order of [`Point::workloads`].
    pub histograms: Vec<WorkloadHistograms>,
    /// One for each second and workload.
    pub samples: Vec<SampleRow>,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
    /// What no run on this machine and target can tell: figures that are missing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The activity of one workload and the devices in one second of a window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleRow {
    /// The workload.
    pub workload: String,
    /// From the window's opening to the beginning of this sample, seconds.
    pub second: f64,
    /// The length of the sample: 1, or the remainder at the window's end.
    pub seconds: f64,
    /// Requests completed.
    pub completed: u64,
    /// As [`Part::throughput_per_s`](crate::results::Part::throughput_per_s).
    pub throughput_per_s: f64,
    /// Mean latency of the completed requests, microseconds; `None` if none completed.
    pub latency_mean_us: Option<f64>,
    /// The largest, microseconds.
    pub latency_max_us: Option<f64>,
    /// Attempts that were rolled back.
    pub aborted: Aborted,
    /// Time that requests which ended in this second waited for locks; `None` if the target does not report it.
    pub lock_wait_s: Option<f64>,
    /// Time that the threads which serve the workload were on a core, summed, seconds; `None` if unknown.
    #[serde(default)]
    pub cpu_run_s: Option<f64>,
    /// Time that they waited for a core.
    #[serde(default)]
    pub cpu_wait_s: Option<f64>,
    /// Time that they waited for block I/O.
    #[serde(default)]
    pub block_io_s: Option<f64>,
    /// The activity of the devices in this second.
    pub device: Device,
    /// The server's background work that began or ended in this second.
    #[serde(default)]
    pub marks: Vec<String>,
}

impl SampleRow {
    /// The seconds of the workload at `place`, with the measurements of each; a second that the observer missed has
    /// none.
    pub(crate) fn of<'a>(
        driven: &'a DrivenWorkload,
        place: usize,
        seconds: &'a [Second],
        marks: &'a [Mark],
    ) -> impl Iterator<Item = SampleRow> + 'a {
        driven.samples.iter().enumerate().map(move |(number, sample)| {
            let span = sample.at_s..sample.at_s + sample.seconds;
            let within = marks.iter().filter(|mark| span.contains(&mark.at_s));
            let second = seconds.get(number);
            let used = second.and_then(|second| second.workloads.get(place)).copied().unwrap_or_default();
            SampleRow {
                workload: driven.measured.name.clone(),
                second: sample.at_s,
                seconds: sample.seconds,
                completed: sample.completed,
                throughput_per_s: sample.throughput_per_s,
                latency_mean_us: sample.latency_mean_us,
                latency_max_us: sample.latency_max_us,
                aborted: sample.aborted,
                lock_wait_s: sample.lock_wait_s,
                cpu_run_s: used.times.map(|times| times.run.as_secs_f64()),
                cpu_wait_s: used.times.map(|times| times.wait.as_secs_f64()),
                block_io_s: used.block_io.map(|waited| waited.as_secs_f64()),
                device: second.map(|second| second.device).unwrap_or_default(),
                marks: within.map(|mark| mark.what.clone()).collect(),
            }
        })
    }
}
