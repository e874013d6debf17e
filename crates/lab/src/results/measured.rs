//! What the driver and the sensors measured of a workload, as one measurement.

use plimsoll_workload::driver::{PartMeasurement, WorkloadMeasurement};

use super::{Latency, LockWait, Part, TimeShare, WindowCheck, WorkloadResult};
use crate::activity::ServerShares;
use crate::sensors::Counted;

impl WorkloadResult {
    /// What one workload did in a window.
    pub(crate) fn of(measured: &WorkloadMeasurement, time_share: Option<TimeShare>, counted: &Counted) -> Self {
        let transactions = measured.transactions.iter().map(|(name, part)| ((*name).to_owned(), Part::of(part)));
        let classes = measured.classes.iter().map(|(priority, part)| (priority.to_string(), Part::of(part)));
        WorkloadResult {
            name: measured.name.clone(),
            kind: measured.benchmark.to_owned(),
            analytical: measured.is_analytical,
            clients: measured.clients,
            all: Part {
                time_share: time_share.map(|share| share.within(served_share(measured))),
                ..Part::of(&measured.all)
            },
            aborted: measured.aborted,
            latency_distribution: Latency::distribution(&measured.all.latency_us),
            classes: classes.collect(),
            transactions: transactions.collect(),
            round_trip_share: round_trip_share(measured),
            // Known to sensors alone.
            block_io_s: None,
            window: window_check(measured),
            lock_wait: measured
                .lock_wait
                .map(|wait| LockWait { waits: measured.lock_waits, wait_s: wait.as_secs_f64() }),
            counters: counted.counters,
            top_down: counted.top_down.clone(),
            cache_misses: counted.cache_misses.clone(),
            server: None,
            simulated: None,
        }
    }

    /// The same with what was seen of the server's processes.
    pub(crate) fn on_server(mut self, shares: ServerShares) -> Self {
        self.classes.iter_mut().for_each(|(class, part)| shares.of_class(class, part));
        self.transactions.iter_mut().for_each(|(name, part)| shares.of_transaction(name, part));
        self.server = Some(shares.known);
        self
    }
}

impl Part {
    fn of(measured: &PartMeasurement) -> Self {
        Part {
            completed: measured.completed,
            throughput_per_s: measured.throughput_per_s,
            latency_us: Latency::of(&measured.latency_us),
            in_flight: Some(measured.in_flight),
            locks: measured.locks.as_ref().map(|locks| locks.statistics.clone()),
            time_share: None,
            samples: None,
        }
    }
}

/// How much of the time that requests spent in the system a client had them; the rest they waited for one. 1 in closed loop.
fn served_share(measured: &WorkloadMeasurement) -> f64 {
    let in_system = measured.in_system.as_secs_f64();
    if in_system > 0.0 { (measured.occupied.as_secs_f64() / in_system).min(1.0) } else { 1.0 }
}

fn window_check(measured: &WorkloadMeasurement) -> WindowCheck {
    let seconds = measured.window.as_secs_f64();
    let open = measured.open_loop.as_ref();
    WindowCheck {
        littles_law: Some(measured.littles_law()),
        offered_per_s: open.map(|open| open.offered as f64 / seconds),
        backlog: open.map(|open| open.backlog),
        queue_share: open.map(|_| 1.0 - served_share(measured)),
        doubts: measured.doubts.clone(),
    }
}

/// Round trips as a share of response time, which they are part of.
fn round_trip_share(measured: &WorkloadMeasurement) -> Option<f64> {
    let whole = measured.in_system.as_secs_f64();
    (whole > 0.0 && !measured.is_analytical).then(|| (measured.round_trip.as_secs_f64() / whole).min(1.0))
}
