//! What a run measured: plain data, one window for all of it.

use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_policy::Priority;
use serde::{Deserialize, Serialize};

use super::lock_recorder::LockRecorder;
use super::lock_statistics::LockMeasurement;
use super::recorder::{Cell, Recorder, empty_histogram};
use super::samples::Sample;
use super::warm_up::WarmUpMeasurement;

/// What all workloads of a run did within its window.
#[derive(Debug, Clone)]
pub struct DriveMeasurement {
    /// The exact length of the window; every rate is per second of it.
    pub window: Duration,
    /// When the window opened, after the call of [`drive`](super::drive).
    pub opened_at: Duration,
    /// What came before.
    pub warmup: WarmUpMeasurement,
    /// From the moment the observer was told that the window opens to the moment it was told that it has closed. Longer
    /// than the window by what the coordinator's wake-ups took; what sensors counted belongs to this length.
    pub observed: Duration,
    /// The workloads, in the order given.
    pub workloads: Vec<WorkloadMeasurement>,
    /// What a reader of the figures must know; empty if all is well.
    pub warnings: Vec<String>,
}

/// What one workload did within the window.
#[derive(Debug, Clone)]
pub struct WorkloadMeasurement {
    /// Its name in the experiment.
    pub name: String,
    /// Its benchmark's name.
    pub benchmark: &'static str,
    /// Whether its requests are queries that run on the database's query threads.
    pub is_analytical: bool,
    /// How many clients ran.
    pub clients: usize,
    /// The exact length of the window.
    pub window: Duration,
    /// Everything, whatever its class and kind: the merger of [`transactions`](Self::transactions).
    pub all: PartMeasurement,
    /// The parts by priority, the most urgent first; a priority that no request had is absent.
    pub classes: Vec<(Priority, PartMeasurement)>,
    /// The parts by kind of transaction or query, in the benchmark's order, all of them.
    pub transactions: Vec<(&'static str, PartMeasurement)>,
    /// Attempts that came to nothing.
    pub aborted: AbortCounts,
    /// Sum of the latencies of the completed requests, exact where histograms are rounded.
    pub response_total: Duration,
    /// Time inside the window during which clients had a request under way, summed over clients: from the moment a
    /// request could begin (its intended start, or the end of the client's previous request if later) to its end,
    /// clipped to the window. At most `clients * window`. The denominator of time shares.
    pub occupied: Duration,
    /// Time spent waiting for locks by requests that ended inside the window; `None` where the target cannot tell.
    pub lock_wait: Option<Duration>,
    /// Time that requests which ended in the window waited for devices; `None` where the target cannot tell.
    pub io_wait: Option<Duration>,
    /// How many lock requests had to wait, of requests that ended inside the window.
    pub lock_waits: u64,
    /// Time that requests which ended in the window spent on round trips between statements
    /// ([`ClientOptions::round_trip`](super::ClientOptions::round_trip)): how long clients really slept, which is longer than
    /// what was drawn by what their wake-ups took. It is within the occupied time and no part of the database's.
    pub round_trip: Duration,
    /// Completed requests whose latency was above the histograms' largest value and recorded as that.
    pub clamped: u64,
    /// The window second by second, all of it.
    pub samples: Vec<Sample>,
}

/// Requests of a workload, or of a part of it, within the window.
#[derive(Debug, Clone)]
pub struct PartMeasurement {
    /// Requests that ended inside the window, those that rolled themselves back as prescribed included.
    pub completed: u64,
    /// Requests weighted with the share of their time inside the window, both edges included.
    pub work_done: f64,
    /// Per second of window: work done for an analytical benchmark, completed requests for all others.
    pub throughput_per_s: f64,
    /// Latency of the completed requests from their intended start, microseconds.
    pub latency_us: Histogram<u64>,
    /// What its requests met at locks: of all of them and of each class. `None` of a kind of transaction, of which it is not
    /// kept, and where the target cannot tell each lock wait, which is then a warning.
    pub locks: Option<LockMeasurement>,
}

/// Attempts that came to nothing, of requests that ended inside the window. Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortCounts {
    /// Attempts rolled back as victim of a deadlock.
    pub deadlock: u64,
    /// Attempts rolled back for a more important transaction.
    pub preempted: u64,
    /// Attempts rolled back because another transaction had changed what they had read.
    #[serde(default)]
    pub conflict: u64,
    /// Requests that rolled themselves back as the benchmark prescribes; these are completed too.
    pub user: u64,
    /// Requests given up: an error, or more retries than the bound.
    pub error: u64,
}

impl AbortCounts {
    /// Takes in what other requests met.
    pub fn add(&mut self, other: &AbortCounts) {
        self.deadlock += other.deadlock;
        self.preempted += other.preempted;
        self.conflict += other.conflict;
        self.user += other.user;
        self.error += other.error;
    }
}

/// What is known of a workload beside what its clients noted down.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    pub name: &'a str,
    pub benchmark: &'static str,
    pub is_analytical: bool,
    pub transactions: &'static [&'static str],
    pub clients: usize,
    pub window: Duration,
}

impl About<'_> {
    /// Puts together what a workload's clients noted down.
    pub(super) fn measurement(&self, recorder: &Recorder) -> WorkloadMeasurement {
        let priorities = recorder.priorities();
        let locks = |noted: Option<LockRecorder>| noted.as_ref().map(LockRecorder::measured);
        let cells = |transaction| priorities.iter().filter_map(move |priority| recorder.cell(transaction, *priority));
        let kinds = 0..self.transactions.len();
        let transactions = self.transactions.iter().zip(kinds.clone());
        let classes = priorities.iter().rev().map(|&priority| {
            let cells = kinds.clone().filter_map(|kind| recorder.cell(kind, priority));
            (priority, PartMeasurement { locks: locks(recorder.locks(|of| of == priority)), ..self.part(cells) })
        });
        let all = self.part(kinds.clone().flat_map(cells));
        WorkloadMeasurement {
            name: self.name.to_owned(),
            benchmark: self.benchmark,
            is_analytical: self.is_analytical,
            clients: self.clients,
            window: self.window,
            all: PartMeasurement { locks: locks(recorder.locks(|_| true)), ..all },
            classes: classes.collect(),
            transactions: transactions.map(|(name, kind)| (*name, self.part(cells(kind)))).collect(),
            aborted: recorder.aborted(),
            response_total: recorder.response_total(),
            occupied: Duration::from_nanos(recorder.occupied),
            lock_wait: recorder.lock_wait(),
            io_wait: recorder.io_wait(),
            lock_waits: recorder.lock_waits,
            round_trip: recorder.round_trip,
            clamped: recorder.clamped,
            samples: recorder.seconds.samples(self.window, self.is_analytical, recorder.knows_lock_wait),
        }
    }

    fn part<'c>(&self, cells: impl Iterator<Item = &'c Cell>) -> PartMeasurement {
        let mut sum = Cell { latency: empty_histogram(), work_done: 0.0 };
        cells.for_each(|cell| sum.merge(cell));
        let completed = sum.latency.len();
        let amount = if self.is_analytical { sum.work_done } else { completed as f64 };
        PartMeasurement {
            completed,
            work_done: sum.work_done,
            throughput_per_s: amount / self.window.as_secs_f64(),
            latency_us: sum.latency,
            locks: None,
        }
    }
}
