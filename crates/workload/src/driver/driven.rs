//! The results of a run of the driver: the measurement of each workload, and beside it the data that are needed only to
//! merge it with that of other runs, or with the readings of sensors.

use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_policy::Priority;

use super::doubt::LittlesLaw;
use super::latency::Latency;
use super::lock_recorder::LockRecorder;
use super::lock_statistics::WaitHistograms;
use super::measurement::{LockWait, PartMeasurement, WindowCheck, WorkloadMeasurement};
use super::recorder::{Cell, Recorder};
use super::samples::Sample;
use super::warm_up::WarmUpMeasurement;

/// The work of all workloads of a run within its window.
#[derive(Debug, Clone)]
pub struct DriveMeasurement {
    /// The exact length of the window; every rate is per second of it.
    pub window: Duration,
    /// When the window opened, after the call of [`drive`](super::drive).
    pub opened_at: Duration,
    /// The warm-up.
    pub warmup: WarmUpMeasurement,
    /// The time between the observer's calls at the opening and the closing of the window. It exceeds the window by the
    /// delays of the coordinator's wake-ups; sensor counts belong to this length.
    pub observed: Duration,
    /// The workloads, in the order given.
    pub workloads: Vec<DrivenWorkload>,
    /// Warnings for readers of the figures, beside the doubts about each workload; empty if all is well.
    pub warnings: Vec<String>,
    /// What the target cannot tell in any run.
    pub notes: Vec<String>,
}

/// The work of one workload within the window.
#[derive(Debug, Clone)]
pub struct DrivenWorkload {
    /// As results keep it.
    pub measured: WorkloadMeasurement,
    /// The exact length of the window.
    pub window: Duration,
    /// All of its requests.
    pub all: DrivenPart,
    /// The parts by priority, the most urgent first; a priority that no request had is absent.
    pub classes: Vec<(Priority, DrivenPart)>,
    /// The parts by kind of transaction or query, in the benchmark's order, all of them.
    pub transactions: Vec<(String, DrivenPart)>,
    /// Sum of the latencies of the completed requests, exact where histograms are rounded.
    pub response_total: Duration,
    /// Time that requests which ended in the window waited for devices; `None` if the target does not report it.
    pub io_wait: Option<Duration>,
    /// Completed requests whose latency was above the histograms' largest value and recorded as that.
    pub clamped: u64,
    /// The window second by second, all of it.
    pub samples: Vec<Sample>,
}

/// Requests of a workload, or of a part of it, as far as [`PartMeasurement`] does not have them.
#[derive(Debug, Clone)]
pub struct DrivenPart {
    /// Requests weighted with the share of their time inside the window, both edges included.
    pub work_done: f64,
    /// Latency of the completed requests from their intended start, microseconds.
    pub latency_us: Histogram<u64>,
    /// Lengths of time at locks; `None` where [`PartMeasurement::locks`] is.
    pub at_locks: Option<WaitHistograms>,
    /// How long they took inside the window.
    pub times: RequestTimes,
}

/// Time inside the window that requests took, summed over them, those given up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// While a client had them under way: from the moment a request could begin (its intended start, or the end of the client's
    /// previous request if later) to its end, clipped to the window. Of a workload at most `clients * window`. The denominator
    /// of time shares.
    pub occupied: Duration,
    /// While they were in the system: from their intended start, waiting for a free client included, to their end, clipped to
    /// the window. In closed loop that is [`occupied`](Self::occupied). Requests that no client ever took are of no part.
    pub in_system: Duration,
}

impl RequestTimes {
    /// How much of the time that requests spent in the system a client had them; the rest they waited for one. 1 in closed
    /// loop, and where there were none.
    pub fn served_share(&self) -> f64 {
        let in_system = self.in_system.as_secs_f64();
        if in_system > 0.0 { (self.occupied.as_secs_f64() / in_system).min(1.0) } else { 1.0 }
    }
}

/// The facts about a workload that its clients do not record.
#[derive(Debug)]
pub(super) struct WorkloadFacts<'a> {
    pub name: &'a str,
    pub benchmark: &'a str,
    pub is_analytical: bool,
    pub transactions: Vec<&'a str>,
    pub clients: usize,
    pub is_open: bool,
    pub window: Duration,
}

/// A part of a workload, both as results keep it and beside that.
type MeasuredPart = (PartMeasurement, DrivenPart);

impl WorkloadFacts<'_> {
    /// Merges the records of a workload's clients.
    pub(super) fn measurement(&self, recorder: &Recorder) -> DrivenWorkload {
        let priorities = recorder.priorities();
        let cells = |transaction| priorities.iter().filter_map(move |priority| recorder.cell(transaction, *priority));
        let kinds = 0..self.transactions.len();
        let (mut of_classes, mut classes) = (Vec::new(), Vec::new());
        for &priority in priorities.iter().rev() {
            let cells = kinds.clone().filter_map(|kind| recorder.cell(kind, priority));
            let (measured, driven) = with_locks(self.part(cells), recorder.locks(|of| of == priority));
            of_classes.push((priority.to_string(), measured));
            classes.push((priority, driven));
        }
        let (mut of_transactions, mut transactions) = (Vec::new(), Vec::new());
        for (name, kind) in self.transactions.iter().zip(kinds.clone()) {
            let (measured, driven) = self.part(cells(kind));
            of_transactions.push(((*name).to_owned(), measured));
            transactions.push(((*name).to_owned(), driven));
        }
        let (measured, mut driven) = with_locks(self.part(kinds.flat_map(cells)), recorder.locks(|_| true));
        let in_flight = measured.in_flight.map(|mut in_flight| {
            in_flight.add(recorder.unserved);
            in_flight
        });
        driven.times.in_system += Duration::from_nanos(recorder.unserved_in_system);
        let measured = WorkloadMeasurement {
            name: self.name.to_owned(),
            kind: self.benchmark.to_owned(),
            analytical: self.is_analytical,
            clients: self.clients,
            all: PartMeasurement { in_flight, ..measured },
            aborted: recorder.aborted(),
            failed: recorder.failures.clone().into_reasons(),
            run_again: recorder.run_again.clone().into_reasons(),
            latency_distribution: Latency::distribution(&driven.latency_us),
            classes: of_classes.into_iter().collect(),
            transactions: of_transactions.into_iter().collect(),
            round_trip_share: self.round_trip_share(recorder, &driven.times),
            window: self.window_check(recorder, &driven.times),
            lock_wait: recorder
                .lock_wait()
                .map(|wait| LockWait { waits: recorder.lock_waits, wait_s: wait.as_secs_f64() }),
        };
        DrivenWorkload {
            measured,
            window: self.window,
            all: driven,
            classes,
            transactions,
            response_total: recorder.response_total(),
            io_wait: recorder.io_wait(),
            clamped: recorder.clamped,
            samples: recorder.seconds.samples(self.window, self.is_analytical, recorder.knows_lock_wait),
        }
    }

    fn part<'c>(&self, cells: impl Iterator<Item = &'c Cell>) -> MeasuredPart {
        let mut sum = Cell::new();
        cells.for_each(|cell| sum.merge(cell));
        let completed = sum.latency.len();
        let amount = if self.is_analytical { sum.work_done } else { completed as f64 };
        let measured = PartMeasurement {
            completed,
            throughput_per_s: amount / self.window.as_secs_f64(),
            latency_us: Latency::of(&sum.latency),
            in_flight: Some(sum.in_flight),
            query_memory_bytes: sum.query_memory,
            network_bytes: sum.network_bytes,
            ..PartMeasurement::default()
        };
        let times = RequestTimes {
            occupied: Duration::from_nanos(sum.occupied),
            in_system: Duration::from_nanos(sum.in_system),
        };
        (measured, DrivenPart { work_done: sum.work_done, latency_us: sum.latency, at_locks: None, times })
    }

    /// Doubts are left out: they follow from the rest.
    fn window_check(&self, recorder: &Recorder, times: &RequestTimes) -> WindowCheck {
        let response_s = Duration::from_nanos(recorder.ended_total).as_secs_f64();
        let offered_per_s = recorder.offered as f64 / self.window.as_secs_f64();
        WindowCheck {
            littles_law: Some(LittlesLaw { in_system_s: times.in_system.as_secs_f64(), response_s }),
            offered_per_s: self.is_open.then_some(offered_per_s),
            backlog: self.is_open.then_some(recorder.backlog),
            queue_share: self.is_open.then(|| 1.0 - times.served_share()),
            doubts: Vec::new(),
        }
    }

    /// Round trips as a share of response time, which they are part of. Measured sleeps exceed the drawn lengths by the
    /// clients' wake-up delays.
    fn round_trip_share(&self, recorder: &Recorder, times: &RequestTimes) -> Option<f64> {
        let whole = times.in_system.as_secs_f64();
        (whole > 0.0 && !self.is_analytical).then(|| (recorder.round_trip.as_secs_f64() / whole).min(1.0))
    }
}

/// Adds the lock statistics to a part.
fn with_locks((measured, driven): MeasuredPart, noted: Option<LockRecorder>) -> MeasuredPart {
    let locks = noted.as_ref().map(LockRecorder::statistics);
    let at_locks = noted.map(LockRecorder::into_histograms);
    (PartMeasurement { locks, ..measured }, DrivenPart { at_locks, ..driven })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::measurement::InFlight;

    #[test]
    fn what_a_client_did_not_serve_was_waited_for() {
        let times = |occupied, in_system| RequestTimes {
            occupied: Duration::from_millis(occupied),
            in_system: Duration::from_millis(in_system),
        };
        assert_eq!(times(250, 1_000).served_share(), 0.25);
        assert_eq!(times(500, 500).served_share(), 1.0);
        assert_eq!(times(0, 0).served_share(), 1.0);
    }

    #[test]
    fn a_measurement_is_written_flat_and_read_back() {
        let all = PartMeasurement {
            completed: 7,
            throughput_per_s: 0.7,
            in_flight: Some(InFlight { begin: 1, end: 2 }),
            ..PartMeasurement::default()
        };
        let measured = WorkloadMeasurement {
            name: "w".to_owned(),
            latency_distribution: vec![(0.5, 3)],
            classes: [("low".to_owned(), all.clone())].into(),
            all,
            ..WorkloadMeasurement::default()
        };
        let written = serde_json::to_value(&measured).expect("plain data");
        assert_eq!(written["completed"], 7, "figures of all requests stand beside the name");
        assert_eq!(written["in_flight"], written["classes"]["low"]["in_flight"]);
        assert_eq!(serde_json::from_value::<WorkloadMeasurement>(written).expect("as written"), measured);
    }
}
