//! One client's record of its requests, and the rule by which a request counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hdrhistogram::Histogram;
use plimsoll_policy::Priority;

use super::clock::Nanos;
use super::failures::Failures;
use super::lock_recorder::LockRecorder;
use super::measurement::{AbortCounts, InFlight};
use super::samples::{SECOND, Seconds};
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, LockWait, NetworkBytes, SessionUsage};

/// Latencies above this are recorded as this, and counted as clamped.
pub const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Three significant digits: a recorded latency is off by at most one part in a thousand.
const DIGITS: u8 = 3;

/// An empty histogram of microseconds.
pub(super) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX.as_micros() as u64, DIGITS)
        .expect("bounds and digits are within its limits")
}

/// The measurement window, `begin` inclusive, `end` exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// When it opens.
    pub begin: Nanos,
    /// When it closes.
    pub end: Nanos,
}

impl Bounds {
    /// The moments inside at which a whole number of seconds has passed: the end of every sample but the last.
    pub(super) fn whole_seconds(&self) -> impl Iterator<Item = Nanos> + use<> {
        (self.begin..self.end).step_by(SECOND as usize).skip(1)
    }

    fn contains(&self, moment: Nanos) -> bool {
        (self.begin..self.end).contains(&moment)
    }

    /// How much of `from..to` lies inside.
    fn overlap(&self, from: Nanos, to: Nanos) -> Nanos {
        to.min(self.end).saturating_sub(from.max(self.begin))
    }
}

/// One request that has ended, well or not.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedRequest<'a> {
    /// Position in the benchmark's list of transactions.
    pub transaction: usize,
    /// Its priority.
    pub priority: Priority,
    /// When it was meant to begin.
    pub intended: Nanos,
    /// When it could begin: as intended, or when its client was done with the previous one.
    pub ready: Nanos,
    /// When its last attempt began.
    pub last_attempt: Nanos,
    /// When its last attempt ended.
    pub end: Nanos,
    /// How its last attempt ended; the error of a request given up.
    pub outcome: Result<Outcome, &'a DatabaseError>,
    /// Attempts rolled back as a deadlock's victim. A count.
    pub deadlocks: u32,
    /// Attempts rolled back for a more important transaction. A count.
    pub preemptions: u32,
    /// Attempts rolled back because another transaction had changed rows that they had read. A count.
    pub conflicts: u32,
    /// Time spent waiting for locks; `None` if the target does not report it.
    pub lock_wait: Option<Duration>,
    /// Lock requests that had to wait. A count.
    pub lock_waits: u64,
    /// Each of them; `None` if the target does not report single waits.
    pub each_lock_wait: Option<&'a [LockWait]>,
    /// The age of each preempted attempt when the preemption was reported, without the rollback if its time is known.
    pub work_lost: &'a [Duration],
    /// Time spent on undoing the attempts that were rolled back; `None` if the target does not report it.
    pub rollback_time: Option<Duration>,
    /// Time spent waiting for devices; `None` if the target does not report it.
    pub io_wait: Option<Duration>,
    /// Time spent on round trips between statements.
    pub round_trip: Duration,
    /// The most memory that the operators of its last query kept at a time, bytes; `None` if that is not known.
    pub query_memory: Option<u64>,
    /// What the processes that answered it received from each other; `None` if that is not known.
    pub network_bytes: Option<NetworkBytes>,
}

#[cfg(test)]
impl EndedRequest<'static> {
    /// A first transaction of high priority that committed at its first attempt and met no other.
    pub(super) fn undisturbed(intended: Nanos, end: Nanos) -> Self {
        EndedRequest {
            transaction: 0,
            priority: Priority::HIGH,
            intended,
            ready: intended,
            last_attempt: intended,
            end,
            outcome: Ok(Outcome::Committed),
            deadlocks: 0,
            preemptions: 0,
            conflicts: 0,
            lock_wait: Some(Duration::ZERO),
            lock_waits: 0,
            each_lock_wait: Some(&[]),
            work_lost: &[],
            rollback_time: Some(Duration::ZERO),
            io_wait: Some(Duration::ZERO),
            round_trip: Duration::ZERO,
            query_memory: None,
            network_bytes: None,
        }
    }
}

/// Requests of one kind and priority.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    /// Latency of completed requests, microseconds.
    pub latency: Histogram<u64>,
    /// Requests completed, each weighted with the share of its time inside the window.
    pub work_done: f64,
    /// Requests in the system at both ends of the window.
    pub in_flight: InFlight,
    /// Time inside the window during which a request was under way, from `ready` to its end.
    pub occupied: Nanos,
    /// The same from their intended start.
    pub in_system: Nanos,
    /// The most memory that a completed request's query kept at a time, bytes; `None` if that is known of none.
    pub query_memory: Option<u64>,
    /// What the processes that answered completed requests received from each other; `None` if that is unknown of one.
    pub network_bytes: Option<NetworkBytes>,
}

impl Cell {
    pub(super) fn new() -> Self {
        Cell {
            latency: empty_histogram(),
            work_done: 0.0,
            in_flight: InFlight::default(),
            occupied: 0,
            in_system: 0,
            query_memory: None,
            network_bytes: None,
        }
    }

    /// Adds the figures of another cell.
    pub(super) fn merge(&mut self, other: &Cell) {
        if !other.latency.is_empty() {
            self.add_network_bytes(other.network_bytes);
        }
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
        self.work_done += other.work_done;
        self.in_flight.add(other.in_flight);
        self.occupied += other.occupied;
        self.in_system += other.in_system;
        self.query_memory = self.query_memory.max(other.query_memory);
    }

    /// Adds those of further completed requests, before they are in the histogram.
    fn add_network_bytes(&mut self, more: Option<NetworkBytes>) {
        let so_far = if self.latency.is_empty() { Some(NetworkBytes::default()) } else { self.network_bytes };
        self.network_bytes = so_far.zip(more).map(|(one, other)| one + other);
    }
}

/// The record of one client or, after merging, of one workload.
#[derive(Debug, Clone)]
pub(super) struct Recorder {
    /// By transaction and priority; made when first needed, because a cell may take hundreds of kilobytes.
    pub cells: BTreeMap<(usize, Priority), Cell>,
    /// The window's seconds: figures without a histogram are recorded only here, and totals are sums.
    pub seconds: Seconds,
    /// Time inside the window that requests which were never begun spent in the system.
    pub unserved_in_system: Nanos,
    /// Sum of the latencies of requests that ended inside, given up or not.
    pub ended_total: Nanos,
    /// Requests that were meant to begin inside. A count.
    pub offered: u64,
    /// Requests that should have begun before the window's end and could not, because no client was free. A count.
    pub backlog: u64,
    /// Requests in the system at the window's ends that were never begun.
    pub unserved: InFlight,
    /// Whether every session reported the lock waits of every request that ended inside.
    pub knows_lock_wait: bool,
    /// The same of waits for devices.
    pub knows_io_wait: bool,
    /// Lock requests that had to wait, of the requests that ended inside. A count.
    pub lock_waits: u64,
    /// Lock waits and rollbacks of the requests that ended inside, by priority.
    pub locks: BTreeMap<Priority, LockRecorder>,
    /// Whether every session reported each lock wait of every request that ended inside.
    pub knows_each_lock_wait: bool,
    /// Time that requests which ended inside spent on round trips.
    pub round_trip: Duration,
    /// Completed requests whose latency was above [`LATENCY_MAX`]. A count.
    pub clamped: u64,
    /// Why requests that ended inside were given up.
    pub failures: Failures,
    /// Why attempts that ended inside were run again, of requests that did not end inside, too.
    pub run_again: Failures,
}

impl Recorder {
    /// An empty record.
    pub(super) fn new() -> Self {
        Recorder {
            cells: BTreeMap::new(),
            seconds: Seconds::default(),
            unserved_in_system: 0,
            ended_total: 0,
            offered: 0,
            backlog: 0,
            unserved: InFlight::default(),
            knows_lock_wait: true,
            knows_io_wait: true,
            lock_waits: 0,
            locks: BTreeMap::new(),
            knows_each_lock_wait: true,
            round_trip: Duration::ZERO,
            clamped: 0,
            failures: Failures::default(),
            run_again: Failures::default(),
        }
    }

    /// The priorities that requests had, lowest first.
    pub(super) fn priorities(&self) -> BTreeSet<Priority> {
        self.cells.keys().map(|(_, priority)| *priority).collect()
    }

    /// [`Cell::occupied`] of all requests.
    #[cfg(test)]
    pub(super) fn occupied(&self) -> Nanos {
        self.cells.values().map(|cell| cell.occupied).sum()
    }

    /// The record of requests of that kind.
    pub(super) fn cell(&self, transaction: usize, priority: Priority) -> Option<&Cell> {
        self.cells.get(&(transaction, priority))
    }

    /// Attempts that failed or were rolled back.
    pub(super) fn aborted(&self) -> AbortCounts {
        self.seconds.total().aborted
    }

    /// Sum of the latencies of completed requests.
    pub(super) fn response_total(&self) -> Duration {
        Duration::from_nanos(self.seconds.total().latency_total)
    }

    /// Lock waits of the requests that ended inside; `None` if a session did not report them.
    pub(super) fn lock_wait(&self) -> Option<Duration> {
        self.knows_lock_wait.then(|| Duration::from_nanos(self.seconds.total().lock_wait))
    }

    /// Waits for devices of the requests that ended inside; `None` if a session did not report them.
    pub(super) fn io_wait(&self) -> Option<Duration> {
        self.knows_io_wait.then(|| Duration::from_nanos(self.seconds.total().io_wait))
    }

    /// Lock waits and rollbacks of requests of these priorities; `None` if a session did not report them.
    pub(super) fn locks(&self, is_wanted: impl Fn(Priority) -> bool) -> Option<LockRecorder> {
        let mut sum = LockRecorder::new();
        let wanted = self.locks.iter().filter(|(priority, _)| is_wanted(**priority));
        wanted.for_each(|(_, locks)| sum.merge(locks));
        self.knows_each_lock_wait.then_some(sum)
    }

    /// Records that an attempt failed at `end` and that its request is run again.
    pub(super) fn note_run_again(&mut self, error: &DatabaseError, end: Nanos, window: &Bounds) {
        if window.contains(end) {
            self.run_again.note(error);
        }
    }

    /// Notes down a request as far as the window is concerned with it.
    pub(super) fn note(&mut self, request: &EndedRequest<'_>, window: &Bounds) {
        let in_flight = self.note_arrival(request.intended, request.ready, request.end, window);
        let in_system = window.overlap(request.intended, request.end);
        let inside = window.overlap(request.ready, request.end);
        let counted = window.contains(request.end);
        if in_system == 0 && in_flight == InFlight::default() && !counted {
            return;
        }
        if counted {
            self.note_counted(request, window);
        }
        let cell = self.cells.entry((request.transaction, request.priority)).or_insert_with(Cell::new);
        cell.in_flight.add(in_flight);
        cell.occupied += inside;
        cell.in_system += in_system;
        if request.outcome.is_err() || (inside == 0 && !counted) {
            return;
        }
        // A request that took no time at all by the clock is wholly where it ended.
        let length = request.end - request.ready;
        let work = if length == 0 { 1.0 } else { inside as f64 / length as f64 };
        cell.work_done += work;
        self.seconds.credit(work, request.ready.max(window.begin), request.end.min(window.end), window);
        if counted {
            let highest = LATENCY_MAX.as_micros() as u64;
            let microseconds = ((request.end - request.intended + 500) / 1_000).max(1);
            cell.add_network_bytes(request.network_bytes);
            cell.latency.saturating_record(microseconds.min(highest));
            cell.query_memory = cell.query_memory.max(request.query_memory);
            self.clamped += u64::from(microseconds > highest);
        }
    }

    /// Records a request that should have begun, and that no client began.
    pub(super) fn note_unserved(&mut self, intended: Nanos, window: &Bounds) {
        let in_flight = self.note_arrival(intended, Nanos::MAX, Nanos::MAX, window);
        self.unserved.add(in_flight);
        self.unserved_in_system += window.overlap(intended, Nanos::MAX);
    }

    /// Records that a request was in the system from `intended` to `end`, and at a client from `ready` on; returns the
    /// ends of the window at which it was in the system.
    fn note_arrival(&mut self, intended: Nanos, ready: Nanos, end: Nanos, window: &Bounds) -> InFlight {
        self.offered += u64::from(window.contains(intended));
        self.backlog += u64::from(intended < window.end && ready >= window.end);
        let is_there = |moment: Nanos| u64::from(intended < moment && end >= moment);
        InFlight { begin: is_there(window.begin), end: is_there(window.end) }
    }

    /// Records the figures of requests that ended inside the window, given up or not.
    fn note_counted(&mut self, request: &EndedRequest<'_>, window: &Bounds) {
        self.ended_total += request.end - request.intended;
        let second = self.seconds.at(request.end, window);
        second.aborted.deadlock += u64::from(request.deadlocks);
        second.aborted.preempted += u64::from(request.preemptions);
        second.aborted.conflict += u64::from(request.conflicts);
        match request.outcome {
            Ok(Outcome::Committed) => {}
            Ok(Outcome::RolledBack) => second.aborted.user += 1,
            Err(error) => {
                second.aborted.error += 1;
                self.failures.note(error);
            }
        }
        if request.outcome.is_ok() {
            let latency = request.end - request.intended;
            second.completed += 1;
            second.latency_total += latency;
            second.latency_max = second.latency_max.max(latency);
        }
        match request.lock_wait {
            Some(wait) => second.lock_wait += wait.as_nanos() as Nanos,
            None => self.knows_lock_wait = false,
        }
        match request.io_wait {
            Some(wait) => second.io_wait += wait.as_nanos() as Nanos,
            None => self.knows_io_wait = false,
        }
        self.lock_waits += request.lock_waits;
        self.round_trip += request.round_trip;
        match request.each_lock_wait {
            Some(waits) => {
                self.locks.entry(request.priority).or_insert_with(LockRecorder::new).note(request, waits);
            }
            None => self.knows_each_lock_wait = false,
        }
    }

    /// Adds the record of another recorder of the same workload.
    pub(super) fn merge(&mut self, other: &Recorder) {
        for (key, cell) in &other.cells {
            self.cells.entry(*key).or_insert_with(Cell::new).merge(cell);
        }
        self.seconds.merge(&other.seconds);
        self.unserved_in_system += other.unserved_in_system;
        self.ended_total += other.ended_total;
        self.offered += other.offered;
        self.backlog += other.backlog;
        self.unserved.add(other.unserved);
        self.knows_lock_wait &= other.knows_lock_wait;
        self.knows_io_wait &= other.knows_io_wait;
        self.lock_waits += other.lock_waits;
        for (priority, locks) in &other.locks {
            self.locks.entry(*priority).or_insert_with(LockRecorder::new).merge(locks);
        }
        self.knows_each_lock_wait &= other.knows_each_lock_wait;
        self.round_trip += other.round_trip;
        self.clamped += other.clamped;
        self.failures.merge(&other.failures);
        self.run_again.merge(&other.run_again);
    }
}

/// The waits of a session between two readings of its usage, and the memory of its last query.
pub(super) fn waited(before: &SessionUsage, after: &SessionUsage) -> SessionUsage {
    let since = |of: fn(&SessionUsage) -> Option<Duration>| {
        of(before).zip(of(after)).map(|(before, after)| after.saturating_sub(before))
    };
    SessionUsage {
        lock_wait: since(|usage| usage.lock_wait),
        lock_waits: after.lock_waits.saturating_sub(before.lock_waits),
        io_wait: since(|usage| usage.io_wait),
        rollback_time: since(|usage| usage.rollback_time),
        query_memory: after.query_memory,
        network_bytes: before.network_bytes.zip(after.network_bytes).map(|(before, after)| after.since(before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Bounds = Bounds { begin: 1_000_000, end: 2_000_000 };

    const WAIT: LockWait =
        LockWait { queue_time: Duration::from_micros(5), excess: Duration::from_micros(4), preempted: false };

    fn request(intended: Nanos, end: Nanos) -> EndedRequest<'static> {
        EndedRequest {
            transaction: 1,
            deadlocks: 1,
            lock_wait: Some(Duration::from_micros(10)),
            lock_waits: 2,
            each_lock_wait: Some(&[WAIT; 2]),
            io_wait: Some(Duration::from_micros(3)),
            round_trip: Duration::from_micros(20),
            ..EndedRequest::undisturbed(intended, end)
        }
    }

    /// Records one request and checks the figures: completed, work done, occupied, lock waits.
    fn check(intended: Nanos, end: Nanos, expect: (u64, f64, Nanos, u64)) {
        let mut recorder = Recorder::new();
        recorder.note(&request(intended, end), &WINDOW);
        let cell = recorder.cell(1, Priority::HIGH);
        let found = (
            cell.map_or(0, |cell| cell.latency.len()),
            cell.map_or(0.0, |cell| cell.work_done),
            cell.map_or(0, |cell| cell.occupied),
            recorder.lock_waits,
        );
        assert_eq!(found, expect, "{intended}..{end}");
    }

    #[test]
    fn a_request_counts_where_it_ends_and_is_credited_where_it_ran() {
        check(100, 999_999, (0, 0.0, 0, 0));
        check(500_000, 1_500_000, (1, 0.5, 500_000, 2));
        check(1_200_000, 1_300_000, (1, 1.0, 100_000, 2));
        check(1_750_000, 2_250_000, (0, 0.5, 250_000, 0));
        check(500_000, 2_500_000, (0, 0.5, 1_000_000, 0));
        check(2_000_000, 2_100_000, (0, 0.0, 0, 0));
        // The window's ends: its begin is inside, its end is outside.
        check(1_000_000, 1_000_000, (1, 1.0, 0, 2));
        check(2_000_000, 2_000_000, (0, 0.0, 0, 0));
    }

    #[test]
    fn whole_seconds_end_every_sample_but_the_last() {
        for (millis, expect) in [(500, 0), (1_000, 0), (1_001, 1), (2_000, 1), (2_500, 2)] {
            let window = Bounds { begin: 7, end: 7 + millis * 1_000_000 };
            let seconds: Vec<Nanos> = window.whole_seconds().collect();
            assert_eq!(seconds, [7 + SECOND, 7 + 2 * SECOND][..expect], "{millis}");
            let samples = Seconds::default().samples(Duration::from_millis(millis), false, true);
            assert_eq!(samples.len(), expect + 1, "{millis}");
        }
    }

    #[test]
    fn back_to_back_requests_fill_the_window_whatever_their_length() {
        for length in [300, 70_001, 900_000] {
            let mut recorder = Recorder::new();
            let mut start = 0;
            while start < 4_000_000 {
                recorder.note(&request(start, start + length), &WINDOW);
                start += length;
            }
            let work_done = recorder.cell(1, Priority::HIGH).expect("some ran").work_done;
            assert!((work_done * length as f64 - 1_000_000.0).abs() < 1.0, "{length}: {work_done}");
            assert_eq!(recorder.occupied(), 1_000_000);
        }
    }

    #[test]
    fn a_request_given_up_is_an_error_and_nothing_else() {
        let mut recorder = Recorder::new();
        recorder
            .note(&EndedRequest { outcome: Err(&DatabaseError::Deadlock), ..request(1_100_000, 1_200_000) }, &WINDOW);
        assert_eq!(recorder.aborted(), AbortCounts { deadlock: 1, error: 1, ..AbortCounts::default() });
        let cell = recorder.cell(1, Priority::HIGH).expect("it was under way");
        assert_eq!((cell.latency.len(), cell.work_done), (0, 0.0));
        assert_eq!((recorder.occupied(), recorder.response_total()), (100_000, Duration::ZERO));
    }

    #[test]
    fn queueing_before_the_client_was_ready_is_latency_but_occupies_nobody() {
        let mut recorder = Recorder::new();
        recorder.note(&EndedRequest { ready: 1_400_000, ..request(1_000_000, 1_500_000) }, &WINDOW);
        assert_eq!((recorder.occupied(), recorder.response_total()), (100_000, Duration::from_micros(500)));
        assert_eq!(recorder.cell(1, Priority::HIGH).expect("noted").latency.max(), 500);
    }

    #[test]
    fn requests_in_the_system_at_the_ends_are_counted_by_kind() {
        let mut recorder = Recorder::new();
        // Before, over the begin, up to the begin, inside, over the end, over both, waiting at the end, after.
        let intended_and_ends = [
            (100, 999_999),
            (500_000, 1_500_000),
            (900_000, 1_000_000),
            (1_200_000, 1_300_000),
            (1_750_000, 2_250_000),
            (500_000, 2_500_000),
        ];
        intended_and_ends.iter().for_each(|(intended, end)| recorder.note(&request(*intended, *end), &WINDOW));
        recorder.note(&EndedRequest { ready: 2_100_000, ..request(1_900_000, 2_200_000) }, &WINDOW);
        recorder.note(&request(2_000_000, 2_100_000), &WINDOW);
        recorder.note_unserved(900_000, &WINDOW);
        recorder.note_unserved(1_990_000, &WINDOW);
        recorder.note_unserved(2_000_000, &WINDOW);
        let cell = recorder.cell(1, Priority::HIGH).expect("noted");
        assert_eq!(cell.in_flight, InFlight { begin: 3, end: 3 });
        assert_eq!(recorder.unserved, InFlight { begin: 1, end: 2 });
        assert_eq!((recorder.offered, recorder.backlog), (4, 3));
        let served = 500_000 + 100_000 + 250_000 + 1_000_000 + 100_000;
        assert_eq!(cell.in_system, served);
        assert_eq!(recorder.unserved_in_system, 1_000_000 + 10_000);
        assert_eq!(recorder.ended_total, 1_000_000 + 100_000 + 100_000);
    }

    #[test]
    fn latencies_above_an_hour_are_clamped_and_counted() {
        let mut recorder = Recorder::new();
        let window = Bounds { begin: 0, end: Nanos::MAX };
        recorder.note(&request(0, 3_601_000_000_000), &window);
        recorder.note(&request(0, 3_600_000_000_000), &window);
        assert_eq!(recorder.clamped, 1);
        let cell = recorder.cell(1, Priority::HIGH).expect("noted");
        assert_eq!(cell.latency.len(), 2);
        assert!(cell.latency.equivalent(cell.latency.max(), 3_600_000_000));
    }

    #[test]
    fn one_session_that_cannot_tell_its_lock_waits_makes_the_sum_unknown() {
        let mut known = Recorder::new();
        known.note(&request(1_100_000, 1_200_000), &WINDOW);
        assert_eq!(known.lock_wait(), Some(Duration::from_micros(10)));
        let mut unknown = Recorder::new();
        unknown.note(&EndedRequest { lock_wait: None, ..request(1_100_000, 1_200_000) }, &WINDOW);
        known.merge(&unknown);
        assert_eq!(known.lock_wait(), None);
        assert!(known.io_wait().is_some(), "what is known of devices does not depend on locks");
        assert_eq!(known.cell(1, Priority::HIGH).expect("merged").latency.len(), 2);
        assert_eq!(
            known.locks(|_| true).map(|locks| locks.queue_time_us.len()),
            Some(4),
            "each of them is known all the same"
        );
        assert_eq!(known.round_trip, Duration::from_micros(40));
    }

    #[test]
    fn the_query_with_the_most_memory_counts_if_it_ended_well_inside() {
        let mut recorder = Recorder::new();
        let mut note = |end, outcome: Result<Outcome, &DatabaseError>, query_memory| {
            recorder.note(&EndedRequest { outcome, query_memory, ..request(end - 100, end) }, &WINDOW);
        };
        note(1_200_000, Ok(Outcome::Committed), Some(7));
        note(1_300_000, Ok(Outcome::Committed), Some(5));
        note(1_400_000, Ok(Outcome::Committed), None);
        note(1_500_000, Err(&DatabaseError::Deadlock), Some(8));
        note(2_000_050, Ok(Outcome::Committed), Some(9));
        let mut all = Recorder::new();
        all.merge(&recorder);
        assert_eq!(all.cell(1, Priority::HIGH).expect("noted").query_memory, Some(7));
    }

    #[test]
    fn bytes_between_processes_are_those_of_completed_requests_and_known_of_all_or_none() {
        let bytes = |shuffle| Some(NetworkBytes { shuffle, ..NetworkBytes::default() });
        let mut one = Recorder::new();
        let mut note = |end, outcome: Result<Outcome, &DatabaseError>, network_bytes| {
            one.note(&EndedRequest { outcome, network_bytes, ..request(end - 100, end) }, &WINDOW);
        };
        note(1_200_000, Ok(Outcome::Committed), bytes(7));
        note(1_300_000, Ok(Outcome::Committed), bytes(5));
        note(1_500_000, Err(&DatabaseError::Deadlock), None);
        note(2_000_050, Ok(Outcome::Committed), bytes(9));
        let known = |recorder: &Recorder| recorder.cell(1, Priority::HIGH).expect("noted").network_bytes;
        let mut all = Recorder::new();
        all.merge(&one);
        assert_eq!(known(&all), bytes(12));
        let mut other = Recorder::new();
        other.note(&EndedRequest { network_bytes: None, ..request(1_600_000, 1_700_000) }, &WINDOW);
        all.merge(&other);
        assert_eq!(known(&all), None);
    }

    #[test]
    fn one_session_that_cannot_tell_each_lock_wait_leaves_no_lock_statistics() {
        let mut known = Recorder::new();
        known.note(&request(1_100_000, 1_200_000), &WINDOW);
        known.note(&request(1_900_000, 2_100_000), &WINDOW);
        let requests =
            |recorder: &Recorder, of| recorder.locks(|priority| priority == of).map(|locks| locks.requests());
        assert_eq!(requests(&known, Priority::HIGH), Some(1), "where a request ends is what counts");
        assert_eq!(requests(&known, Priority::LOW), Some(0));
        let mut unknown = Recorder::new();
        unknown.note(&EndedRequest { each_lock_wait: None, ..request(1_100_000, 1_200_000) }, &WINDOW);
        known.merge(&unknown);
        assert_eq!(requests(&known, Priority::HIGH), None);
    }
}
