//! Where response time went: on a core, waiting for a core, waiting for devices and for locks, elsewhere (MW 2.6).
//!
//! The parts come from different sources (the scheduler's accounts, the session's own), so they need not fit the whole. The
//! remainder is [`TimeShare::other`]. If the parts add up to more than the whole they are scaled to it, and above 2 % a warning
//! gives the excess. One known cause is a thread that was granted its lock and then waits for a core, which is lock wait to the
//! session and core wait to the scheduler.

use std::time::Duration;

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_workload::driver::DrivenWorkload;

use crate::results::TimeShare;

/// Parts may exceed the whole by this share without a warning: the sources tick at different moments.
const EXCESS_MAX: f64 = 0.02;

/// The machine's measurements of the threads that serve one workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServingThreads {
    /// Their time on cores and waiting for one, over the sensors' window. `None` if unknown.
    pub times: Option<ThreadTimes>,
    /// How many threads serve requests: the clients' own, or the database's query threads for an analytical workload.
    pub count: usize,
    /// The sensors' window, which is a little longer than the clients'.
    pub window: Duration,
}

/// The time to be explained: how long `threads` could have served the workload's requests.
///
/// A transaction runs on its client's thread, so that is the time in which clients had a request in flight. Queries run
/// on the database's query threads, all of which are available to any query in flight: the time is their number times
/// the time in which a query was in flight. With one client, or with several that never pause, that time is known
/// exactly; in between it is taken to be as long as possible, so that `other` is an upper bound.
fn whole(driven: &DrivenWorkload, threads: &ServingThreads) -> f64 {
    let occupied = driven.all.times.occupied;
    if driven.measured.analytical {
        threads.count as f64 * occupied.min(driven.window).as_secs_f64()
    } else {
        occupied.as_secs_f64()
    }
}

/// The shares of a workload's response time, from the intended start of its requests: their wait for a free client is
/// within [`TimeShare::other`]. `None`, with a warning, if no request was in flight in the window or nothing is known
/// of the threads that served it.
pub fn time_share(driven: &DrivenWorkload, threads: &ServingThreads, warnings: &mut Vec<String>) -> Option<TimeShare> {
    let measured = &driven.measured;
    let name = &measured.name;
    let whole = whole(driven, threads);
    if whole <= 0.0 {
        let why = if threads.count == 0 { "its queries run in another process" } else { "no request was in flight" };
        warnings.push(format!("{name}: no time shares, because {why}"));
        return None;
    }
    // Sensors are opened a moment before the clients' window and closed a moment after it.
    let scale = driven.window.as_secs_f64() / threads.window.max(driven.window).as_secs_f64();
    let share_of_times = |time: Duration| time.as_secs_f64() * scale / whole;
    let cpu_run = threads.times.map(|times| share_of_times(times.run));
    let cpu_wait = threads.times.map(|times| share_of_times(times.wait));
    // A session's lock wait is its client's. A query waits for locks as a whole: none of its threads works during the
    // wait.
    let waiting_threads = if measured.analytical { threads.count as f64 } else { 1.0 };
    let lock = measured.lock_wait.map(|wait| wait.wait_s * waiting_threads / whole);
    if cpu_run.is_none() {
        warnings.push(format!("{name}: time on cores is unknown and within `other`"));
    }
    if lock.is_none() {
        warnings.push(format!("{name}: lock wait is unknown to this target and within `other`"));
    }
    // Queries wait for their reads on threads that are not counted, so their sessions report too little.
    let io = driven.io_wait.filter(|_| !measured.analytical).map(|wait| wait.as_secs_f64() / whole);
    if io.is_none() {
        warnings.push(format!("{name}: time waiting for devices (io) is unknown and within `other`"));
    }
    Some(divide(name, [cpu_run, cpu_wait, io, lock], warnings).within(driven.all.times.served_share()))
}

/// Turns parts relative to the whole into shares that add up to 1.
fn divide(name: &str, parts: [Option<f64>; 4], warnings: &mut Vec<String>) -> TimeShare {
    let sum: f64 = parts.iter().flatten().sum();
    if sum > 1.0 + EXCESS_MAX {
        let excess = (sum - 1.0) * 100.0;
        warnings.push(format!(
            "{name}: time on cores, waiting for cores, for devices and for locks add up to {excess:.1} % more than response time; the shares are scaled to fit"
        ));
    }
    let [cpu_run, cpu_wait, io, lock] = parts.map(|part| part.map(|part| part / sum.max(1.0)));
    TimeShare::with_rest([cpu_run, cpu_wait, io, None, lock, None])
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_workload::driver::{DrivenPart, Histogram, LockWait, RequestTimes, WorkloadMeasurement};

    use super::*;

    /// A part whose requests were in flight for this long, all together.
    pub(crate) fn driven_part(occupied: Duration) -> DrivenPart {
        DrivenPart {
            work_done: 0.0,
            latency_us: Histogram::new(3).expect("three digits"),
            at_locks: None,
            times: RequestTimes { occupied, in_system: occupied },
        }
    }

    /// A workload whose requests were in flight for this long, all together.
    pub(crate) fn driven(name: &str, window: Duration, occupied: Duration) -> DrivenWorkload {
        DrivenWorkload {
            measured: WorkloadMeasurement { name: name.to_owned(), clients: 2, ..WorkloadMeasurement::default() },
            window,
            all: driven_part(occupied),
            classes: Vec::new(),
            transactions: Vec::new(),
            response_total: occupied,
            io_wait: None,
            clamped: 0,
            samples: Vec::new(),
        }
    }

    fn measured(analytical: bool, occupied_ms: u64, lock_wait_ms: Option<u64>) -> DrivenWorkload {
        let mut driven = driven("w", Duration::from_secs(1), Duration::from_millis(occupied_ms));
        driven.measured.analytical = analytical;
        driven.measured.lock_wait = lock_wait_ms.map(|ms| LockWait { waits: 1, wait_s: ms as f64 / 1e3 });
        driven
    }

    fn threads(count: usize, run_ms: u64, wait_ms: u64) -> ServingThreads {
        let times = ThreadTimes { run: Duration::from_millis(run_ms), wait: Duration::from_millis(wait_ms) };
        ServingThreads { times: Some(times), count, window: Duration::from_secs(1) }
    }

    /// Shares in whole percent: run, wait, lock, other; and how many warnings there are.
    fn check(measured: &DrivenWorkload, threads: &ServingThreads, expect: ([i64; 4], usize)) {
        let mut warnings = Vec::new();
        let share = time_share(measured, threads, &mut warnings).expect("there is a whole");
        warnings.retain(|warning| !warning.contains("(io)"));
        let parts = [share.cpu_run, share.cpu_wait, share.lock, Some(share.other)];
        let sum: f64 = parts.iter().flatten().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{share:?}");
        let percent = parts.map(|part| part.map_or(-1, |part| (part * 100.0).round() as i64));
        assert_eq!((percent, warnings.len()), expect, "{share:?} {warnings:?}");
    }

    #[test]
    fn transactions_divide_the_time_their_clients_were_at_it() {
        check(&measured(false, 1000, Some(300)), &threads(2, 400, 100), ([40, 10, 30, 20], 0));
        check(&measured(false, 500, Some(0)), &threads(2, 250, 0), ([50, 0, 0, 50], 0));
        check(&measured(false, 1000, None), &threads(2, 400, 100), ([40, 10, -1, 50], 1));
        let unknown = ServingThreads { times: None, ..threads(2, 0, 0) };
        check(&measured(false, 1000, Some(300)), &unknown, ([-1, -1, 30, 70], 1));
    }

    #[test]
    fn waits_for_devices_are_a_share_where_the_session_does_the_waiting() {
        let share = |is_analytical| {
            let measured = DrivenWorkload {
                io_wait: Some(Duration::from_millis(200)),
                ..measured(is_analytical, 1000, Some(300))
            };
            let mut warnings = Vec::new();
            (time_share(&measured, &threads(1, 400, 0), &mut warnings).expect("there is a whole"), warnings)
        };
        let (of_transactions, warnings) = share(false);
        assert_eq!((of_transactions.io, warnings), (Some(0.2), Vec::new()));
        assert!((of_transactions.other - 0.1).abs() < 1e-9, "{of_transactions:?}");
        let (of_queries, warnings) = share(true);
        assert_eq!(of_queries.io, None);
        assert_eq!(warnings, ["w: time waiting for devices (io) is unknown and within `other`"]);
    }

    #[test]
    fn queries_divide_the_time_of_all_workers_while_a_query_was_under_way() {
        check(&measured(true, 1000, Some(0)), &threads(4, 1000, 1000), ([25, 25, 0, 50], 0));
        // Two clients that never pause share the same workers.
        check(&measured(true, 2000, Some(0)), &threads(4, 1000, 1000), ([25, 25, 0, 50], 0));
        check(&measured(true, 500, Some(0)), &threads(4, 1000, 0), ([50, 0, 0, 50], 0));
        // While a query waits for a lock none of its workers has anything to do.
        check(&measured(true, 1000, Some(500)), &threads(4, 1000, 0), ([25, 0, 50, 25], 0));
    }

    #[test]
    fn shares_run_from_the_intended_start() {
        let mut queued = measured(false, 1000, Some(300));
        queued.all.times.in_system = Duration::from_secs(4);
        check(&queued, &threads(2, 400, 100), ([10, 3, 8, 80], 0));
    }

    #[test]
    fn sensors_that_watched_longer_are_scaled_to_the_window() {
        let longer = ServingThreads { window: Duration::from_secs(2), ..threads(2, 800, 200) };
        check(&measured(false, 1000, Some(300)), &longer, ([40, 10, 30, 20], 0));
    }

    #[test]
    fn parts_larger_than_the_whole_are_scaled_and_not_in_silence() {
        check(&measured(false, 1000, Some(500)), &threads(2, 400, 115), ([39, 11, 49, 0], 0));
        check(&measured(false, 1000, Some(700)), &threads(2, 400, 500), ([25, 31, 44, 0], 1));
    }

    #[test]
    fn without_a_whole_there_are_no_shares() {
        let mut warnings = Vec::new();
        assert!(time_share(&measured(false, 0, Some(0)), &threads(2, 0, 0), &mut warnings).is_none());
        assert!(time_share(&measured(true, 1000, Some(0)), &threads(0, 0, 0), &mut warnings).is_none());
        let expect = [
            "w: no time shares, because no request was in flight",
            "w: no time shares, because its queries run in another process",
        ];
        assert_eq!(warnings, expect);
    }
}
