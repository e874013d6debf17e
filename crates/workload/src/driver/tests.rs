//! Tests of whole runs: with a clock that jumps where time matters, with short real windows elsewhere.

mod board;
mod in_flight;
mod open_loop;
mod stopping;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_policy::Priority;

use super::board::Board;
use super::client_loop::{ClientLoop, Signals, Team};
use super::clock::{Clock, Nanos};
use super::fakes::{FakeBenchmark, FakeDatabase, ROLLBACK};
use super::pacing::{Arrivals, Pacing, Urgency};
use super::recorder::{Bounds, Recorder};
use super::round_trip::RoundTrips;
use super::*;
use crate::benchmark::Benchmark;

const MS: Nanos = 1_000_000;

/// A clock that moves only when a client works or sleeps.
#[derive(Debug, Clone, Default)]
struct JumpingClock(Arc<AtomicU64>);

impl JumpingClock {
    fn pass(&self, length: Nanos) {
        self.0.fetch_add(length, Ordering::Relaxed);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    fn doze_until(&self, deadline: Nanos) {
        self.0.store(deadline, Ordering::Relaxed);
    }
}

/// One client, alone, in simulated time: attempt number n takes `service(n)` and ends as `act(n)` says.
fn simulate(
    options: &ClientOptions,
    window: Bounds,
    service: impl Fn(u64) -> Nanos + Send + Sync + 'static,
    act: impl Fn(u64) -> Result<(), DatabaseError> + Send + Sync + 'static,
) -> Result<Recorder, DriveError> {
    simulate_and_count(options, window, service, act).0
}

/// As [`simulate`], with the number of requests that the client reported as completed, within the window or not.
fn simulate_and_count(
    options: &ClientOptions,
    window: Bounds,
    service: impl Fn(u64) -> Nanos + Send + Sync + 'static,
    act: impl Fn(u64) -> Result<(), DatabaseError> + Send + Sync + 'static,
) -> (Result<Recorder, DriveError>, u64) {
    let clock = JumpingClock::default();
    let database_clock = clock.clone();
    let database = FakeDatabase::scripted(move |number| {
        database_clock.pass(service(number));
        act(number)
    });
    let benchmark = FakeBenchmark::new();
    let signals = Signals::new(1);
    signals.bounds.set(window).expect("new");
    let team = Team {
        workload: "w",
        clients: 1,
        retry_max: options.retry_max,
        hopeless: AtomicUsize::new(0),
        board: Board::new(1),
        arrivals: Arrivals::of(options, "w"),
    };
    let session = database.session(benchmark.schema()).expect("it opens sessions");
    let mut session = RoundTrips::new(session, options, "w", 0, &clock, &signals);
    let client_loop = ClientLoop {
        clock: &clock,
        signals: &signals,
        team: &team,
        number: 0,
        pacing: Pacing::new(options, "w", 0, 0, team.arrivals.as_ref()),
        urgency: Urgency::new(options, &benchmark, "w", 0),
        past_end: false,
    };
    let recorder = client_loop.run(&mut *benchmark.client(0, 7), &mut session, 0);
    (recorder, team.board.completed())
}

fn latencies(recorder: &Recorder) -> Histogram<u64> {
    let mut all = super::recorder::empty_histogram();
    for cell in recorder.cells.values() {
        all.add(&cell.latency).expect("equal bounds");
    }
    all
}

#[test]
fn a_closed_loop_measures_the_service_and_thinks_in_between() {
    let options = ClientOptions { think: "const 9ms".parse().expect("a delay"), ..ClientOptions::default() };
    let window = Bounds { begin: 100 * MS, end: 200 * MS };
    let recorder = simulate(&options, window, |_| MS, |_| Ok(())).expect("it runs");
    let all = latencies(&recorder);
    // A request every 10 ms: the one that ends as the window begins counts, the one that ends with it only occupies.
    assert_eq!(all.len(), 10);
    assert!(all.equivalent(all.min(), 1_000) && all.equivalent(all.max(), 1_000));
    assert_eq!((recorder.occupied(), recorder.response_total()), (10 * MS, Duration::from_millis(10)));
}

#[test]
fn a_request_is_tried_again_up_to_the_bound_and_then_given_up() {
    let options = ClientOptions { retry_max: 3, ..ClientOptions::default() };
    let window = Bounds { begin: 0, end: 8 * MS };
    // The first request is a victim, meets a conflict and then succeeds; the second is preempted for good.
    let act = |number| match number {
        0 => Err(DatabaseError::Deadlock),
        1 => Err(DatabaseError::Conflict("could not serialize access".to_owned())),
        3..=6 => Err(DatabaseError::Preempted),
        _ => Ok(()),
    };
    let (recorder, completed) = simulate_and_count(&options, window, |_| MS, act);
    let recorder = recorder.expect("it runs");
    // Attempts 0, 1, 2 are the first request, 3 to 6 the second, which ends at 7 ms; one more would end at 8 ms, outside.
    assert_eq!(recorder.aborted(), AbortCounts { deadlock: 1, preempted: 4, conflict: 1, user: 0, error: 1 });
    let all = latencies(&recorder);
    assert_eq!(all.len(), 1);
    assert!(all.equivalent(all.max(), 3_000), "latency spans all attempts: {}", all.max());
    let again = recorder.run_again.clone().into_reasons();
    let again: Vec<_> = again.iter().map(|one| (one.count, one.code.as_deref(), one.message.as_str())).collect();
    let expect = [
        (3, None, "preempted by a more important transaction"),
        (1, Some("40001"), "could not serialize access"),
        (1, Some("40P01"), "deadlock detected"),
    ];
    assert_eq!(again, expect, "the fourth preemption was not followed by another attempt");
    assert_eq!(completed, 2, "the one given up is not completed, the one that ends outside is");
    assert_eq!(recorder.lock_waits, 7);
    assert_eq!(recorder.lock_wait(), Some(Duration::from_micros(7)));
}

#[test]
fn what_preemptions_cost_is_known_by_attempt() {
    let window = Bounds { begin: 0, end: 20 * MS };
    // Attempts last 1, 2, 3, 4, 5 ms. The first is a deadlock's victim, the next two are preempted, the fourth
    // succeeds, and so does the fifth at its first attempt.
    let act = |number| match number {
        0 => Err(DatabaseError::Deadlock),
        1 | 2 => Err(DatabaseError::Preempted),
        _ => Ok(()),
    };
    let service = |number| (number + 1) * MS;
    let recorder = simulate(&ClientOptions::default(), window, service, act).expect("it runs");
    let locks = recorder.locks(|priority| priority == Priority::LOW).expect("the fake tells each wait");
    assert_eq!((locks.requests_by_preemptions.as_slice(), locks.rollbacks), ([1, 0, 1].as_slice(), 3));
    assert_eq!(locks.rollback_time, Some(3 * ROLLBACK));
    // Rollback time is not lost work.
    let lost = Duration::from_millis(2 + 3) - 2 * ROLLBACK;
    assert_eq!(locks.work_lost, super::lock_recorder::Total { count: 2, total: lost });
    assert_eq!(
        locks.successful_attempts,
        super::lock_recorder::Total { count: 2, total: Duration::from_millis(4 + 5) }
    );
    assert!((locks.statistics().work_lost_share.expect("known") - lost.as_secs_f64() / 0.009).abs() < 1e-12);
    // The first request waited once in each of four attempts, the second in its only one.
    assert_eq!(locks.requests_by_waits, [0, 1, 0, 0, 1]);
    let [never, once, _, more] = locks.response_by_waits;
    assert_eq!((never.count, once.total, more.total), (0, Duration::from_millis(5), Duration::from_millis(10)));
    assert_eq!((locks.queue_time_us.len(), locks.wait_remainder_total()), (5, Duration::from_micros(2)));
}

/// Story: every request met deadlocks until the window had ended. There was no failure and no count, and the advice was a longer
/// window.
#[test]
fn attempts_of_requests_that_never_end_are_counted() {
    let window = Bounds { begin: 2 * MS, end: 8 * MS };
    let act = |number| if number < 50 { Err(DatabaseError::Deadlock) } else { Ok(()) };
    let recorder = simulate(&ClientOptions::default(), window, |_| MS, act).expect("it runs");
    assert_eq!(recorder.aborted(), AbortCounts::default(), "the request ended after the window");
    let again = recorder.run_again.into_reasons();
    assert_eq!((again.len(), again[0].code.as_deref(), again[0].count), (1, Some("40P01"), 6));
}

#[test]
fn a_request_is_preempted_dozens_of_times_before_it_is_given_up() {
    let window = Bounds { begin: 0, end: 300 * MS };
    let act = |number| if number < 200 { Err(DatabaseError::Preempted) } else { Ok(()) };
    let recorder = simulate(&ClientOptions::default(), window, |_| MS, act).expect("it runs");
    assert_eq!(recorder.aborted(), AbortCounts { preempted: 200, user: 33, ..AbortCounts::default() });
}

#[test]
fn a_workload_of_which_nothing_works_ends_the_run_with_the_database_s_words() {
    let window = Bounds { begin: 0, end: 1000 * MS };
    let broken = |_| Err(DatabaseError::Failed("relation does not exist".to_owned()));
    let error = simulate(&ClientOptions::default(), window, |_| MS, broken).expect_err("nothing works");
    let told = "workload w: the first 100 requests of every client failed, the last one with: relation does not exist";
    assert_eq!(error.to_string(), told);
}

/// The disk is full after the first request, and all others fail. They are counted: no run ends because of them.
#[test]
fn requests_that_fail_one_after_the_other_are_counted_with_their_reason() {
    let window = Bounds { begin: 0, end: 1000 * MS };
    let later = |number| if number == 0 { Ok(()) } else { Err(DatabaseError::Failed("disk full".to_owned())) };
    let recorder = simulate(&ClientOptions::default(), window, |_| MS, later).expect("it goes on");
    assert_eq!(recorder.aborted().error, 998);
    let reasons = recorder.failures.into_reasons();
    assert_eq!((reasons.len(), reasons[0].count, reasons[0].message.as_str()), (1, 998, "disk full"));
}

/// The calls that an observer received, in order.
#[derive(Default)]
struct Log {
    told: Vec<String>,
    threads: Vec<WorkloadThreads>,
    phases: Vec<Phase>,
    /// Lengths given with the ticks of the warm-up.
    warm_up_lengths: Vec<Option<Duration>>,
    /// Set at the first tick of this phase.
    stop_in: Option<(Phase, Arc<AtomicBool>)>,
}

impl WindowObserver for Log {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        self.told.push("opened".to_owned());
        self.threads = threads.to_vec();
    }

    fn second(&mut self) {
        self.told.push("second".to_owned());
    }

    fn closed(&mut self) {
        self.told.push("closed".to_owned());
    }

    fn tick(&mut self, progress: Progress) {
        if self.phases.last() != Some(&progress.phase) {
            self.phases.push(progress.phase);
        }
        if progress.phase == Phase::WarmUp {
            self.warm_up_lengths.push(progress.length);
        }
        if let Some((phase, stop)) = &self.stop_in
            && *phase == progress.phase
        {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

const SHORT: Window = Window { warmup: WarmUp::For(Duration::from_millis(5)), measure: Duration::from_millis(100) };

/// Runs a workload named `a` against that database.
fn run_one(
    database: &FakeDatabase,
    options: &ClientOptions,
    window: Window,
    log: &mut Log,
) -> Result<DriveMeasurement, DriveError> {
    let benchmark = FakeBenchmark::new();
    let stop = log.stop_in.as_ref().map(|(_, stop)| stop.clone()).unwrap_or_default();
    drive(&[Drive { name: "a", benchmark: &benchmark, database, options }], window, log, &*stop)
}

#[test]
fn two_workloads_run_at_once_and_their_parts_add_up() {
    let (transactions, queries) = (FakeBenchmark::new(), FakeBenchmark::analytical());
    let database = FakeDatabase::quick();
    let priority = "high:0.3".parse().expect("a rule");
    let options = ClientOptions { clients: 2, priority, ..ClientOptions::default() };
    let drives = [
        Drive { name: "oltp", benchmark: &transactions, database: &database, options: &options },
        Drive { name: "olap", benchmark: &queries, database: &database, options: &options },
    ];
    let mut log = Log::default();
    let measured = drive(&drives, SHORT, &mut log, &AtomicBool::new(false)).expect("it runs");

    assert_eq!(log.told, ["opened", "closed"]);
    assert_eq!(log.threads.len(), 2);
    let mut ids: Vec<i32> = log.threads.iter().flat_map(|threads| threads.clients.clone()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() == 4 && ids[0] > 0, "{ids:?}");
    assert_eq!(log.threads[0].workers, None);
    assert_eq!(log.threads[1].workers, Some(vec![41, 42]));

    assert_eq!(measured.window, SHORT.measure);
    assert!(measured.observed >= measured.window);
    assert!(measured.warmup.lasted >= SHORT.warmup.at_most() && measured.opened_at >= measured.warmup.lasted);
    assert_eq!(measured.warmup.is_steady, None);
    for workload in &measured.workloads {
        let WorkloadMeasurement { all, classes, transactions, .. } = &workload.measured;
        assert!(all.completed > 0);
        assert_eq!(all.completed, workload.all.latency_us.len());
        assert_eq!(all.completed, classes.values().map(|part| part.completed).sum::<u64>());
        assert_eq!(all.completed, transactions.values().map(|part| part.completed).sum::<u64>());
        let last = &workload.transactions[2];
        assert_eq!(workload.measured.aborted.user, transactions[&last.0].completed);
        assert_eq!(transactions[&last.0].completed, last.1.latency_us.len());
        assert_eq!(workload.measured.lock_wait.map(|wait| wait.waits), Some(all.completed));
        let class_locks = classes.values().map(|part| part.locks.as_ref().expect("the fake tells each wait"));
        assert_eq!(class_locks.map(|locks| locks.waits()).sum::<u64>(), all.completed);
        assert_eq!(all.locks.as_ref().map(|locks| locks.requests), Some(all.completed));
        assert!(transactions.values().all(|part| part.locks.is_none()));
        assert!(workload.all.times.occupied <= workload.window * 2);
        assert_eq!(workload.all.times.served_share(), 1.0, "a closed loop");
        // At each edge each of the two clients has one request at most that is credited in part.
        let work_done = workload.all.work_done;
        assert!((work_done - all.completed as f64).abs() <= 4.0);
        let amount = if workload.measured.analytical { work_done } else { all.completed as f64 };
        assert_eq!(all.throughput_per_s, amount / SHORT.measure.as_secs_f64());
        assert_eq!(classes.keys().collect::<Vec<_>>(), ["high", "low"]);
        assert_eq!(
            workload.classes.iter().map(|(class, _)| *class).collect::<Vec<_>>(),
            [Priority::HIGH, Priority::LOW]
        );
    }
    // A session gets its priority when it changes, and first of all.
    assert!(!database.priorities().is_empty());
}

#[test]
fn every_second_has_a_sample_and_the_observer_is_told() {
    let database = FakeDatabase::quick();
    let window = Window { measure: Duration::from_millis(1_010), ..SHORT };
    let options = ClientOptions { clients: 2, think: "exp 1ms".parse().expect("a delay"), ..ClientOptions::default() };
    let mut log = Log::default();
    let measured = run_one(&database, &options, window, &mut log).expect("it runs");
    assert_eq!(log.told, ["opened", "second", "closed"]);
    let workload = &measured.workloads[0];
    let [first, last] = workload.samples[..] else { panic!("{:?}", workload.samples) };
    assert_eq!((first.at_s, first.seconds, last.at_s, last.seconds), (0.0, 1.0, 1.0, 0.01));
    assert!(first.completed > 0);
    assert_eq!(first.completed + last.completed, workload.measured.all.completed);
    assert_eq!(first.aborted.user + last.aborted.user, workload.measured.aborted.user);
    assert_eq!(first.throughput_per_s, first.completed as f64);
    assert!((first.work_done + last.work_done - workload.all.work_done).abs() < 1e-6);
    let waited = first.lock_wait_s.zip(last.lock_wait_s).map(|(first, last)| first + last);
    assert!((waited.expect("known") - workload.measured.lock_wait.expect("known").wait_s).abs() < 1e-9);
}

#[test]
fn a_warm_up_that_does_not_become_steady_ends_at_its_bound_and_says_so() {
    let at_most = Duration::from_millis(30);
    let window = Window { warmup: WarmUp::UntilSteady { at_most }, ..SHORT };
    let mut log = Log::default();
    let measured = run_one(&FakeDatabase::quick(), &ClientOptions::default(), window, &mut log).expect("it runs");
    assert_eq!(measured.warmup.is_steady, None, "it was too short to tell");
    assert!(measured.warmup.lasted >= at_most);
    assert!(log.warm_up_lengths.iter().all(|length| *length == Some(at_most)), "{:?}", log.warm_up_lengths);
    let expect = "was not steady after a warm-up of 30ms, the most that was allowed: throughput cannot be \
        judged in less than 2s; its beginning may reach into the window, so allow a longer one";
    assert_eq!(measured.workloads[0].measured.window.doubts[0].told, expect);
}

#[test]
fn clients_that_sleep_through_the_end_are_woken() {
    let options =
        ClientOptions { clients: 3, think: "const 600s".parse().expect("a delay"), ..ClientOptions::default() };
    let mut log = Log::default();
    let measured = run_one(&FakeDatabase::quick(), &options, SHORT, &mut log).expect("it runs");
    assert_eq!(measured.workloads[0].measured.all.completed, 0);
    assert_eq!(measured.workloads[0].all.times.occupied, Duration::ZERO);
}

#[test]
fn a_panic_in_a_client_names_the_client_and_the_place_and_ends_the_others() {
    let database = FakeDatabase::scripted(|number| if number == 100 { panic!("lock table is torn") } else { Ok(()) });
    let options = ClientOptions { clients: 3, ..ClientOptions::default() };
    let error = run_one(&database, &options, SHORT, &mut Log::default()).expect_err("it panics");
    let DriveError::ClientPanicked { workload, client, message } = error else { panic!("{error}") };
    assert_eq!(workload, "a");
    assert!(client < 3);
    assert!(message.starts_with("lock table is torn at ") && message.contains("tests.rs:"), "{message}");
}

#[test]
fn a_database_that_opens_no_session_ends_the_run() {
    let options = ClientOptions { clients: 2, ..ClientOptions::default() };
    let error = run_one(&FakeDatabase::closed(), &options, SHORT, &mut Log::default()).expect_err("no session");
    let DriveError::NoSession { workload, error, .. } = error else { panic!("{error}") };
    assert_eq!((workload.as_str(), error), ("a", DatabaseError::Failed("too many connections".to_owned())));
}

#[test]
fn ctrl_c_ends_the_run_in_every_phase_but_the_last() {
    let long = Window { warmup: WarmUp::For(Duration::from_secs(600)), measure: Duration::from_secs(600) };
    let asleep = ClientOptions { think: "const 600s".parse().expect("a delay"), ..ClientOptions::default() };
    let check = |phase, window, expect: &[&str]| {
        let mut log = Log { stop_in: Some((phase, Arc::default())), ..Log::default() };
        let result = run_one(&FakeDatabase::quick(), &asleep, window, &mut log);
        assert_eq!(log.told, expect);
        result
    };
    assert_eq!(check(Phase::WarmUp, long, &[]).expect_err("stopped"), DriveError::Stopped);
    let measuring = Window { warmup: WarmUp::For(Duration::ZERO), ..long };
    assert_eq!(check(Phase::Measure, measuring, &["opened"]).expect_err("stopped"), DriveError::Stopped);
    check(Phase::Finish, SHORT, &["opened", "closed"]).expect("the window had ended");
}

#[test]
fn client_threads_live_until_the_observer_has_read_its_sensors() {
    struct Reader(Vec<i32>);
    impl WindowObserver for Reader {
        fn opened(&mut self, threads: &[WorkloadThreads]) {
            self.0 = threads[0].clients.clone();
        }
        fn closed(&mut self) {
            for thread in &self.0 {
                std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("the thread lives");
            }
        }
    }
    let (benchmark, database) = (FakeBenchmark::new(), FakeDatabase::quick());
    let options = ClientOptions { clients: 3, ..ClientOptions::default() };
    let drives = [Drive { name: "a", benchmark: &benchmark, database: &database, options: &options }];
    for _ in 0..5 {
        let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_millis(5) };
        drive(&drives, window, &mut Reader(Vec::new()), &AtomicBool::new(false)).expect("it runs");
    }
}

#[test]
#[should_panic(expected = "sensor is on fire")]
fn an_observer_that_panics_does_not_leave_the_clients_running() {
    struct Panics;
    impl WindowObserver for Panics {
        fn opened(&mut self, _threads: &[WorkloadThreads]) {
            panic!("sensor is on fire");
        }
        fn closed(&mut self) {}
    }
    let (benchmark, database) = (FakeBenchmark::new(), FakeDatabase::quick());
    let drives = [Drive { name: "a", benchmark: &benchmark, database: &database, options: &ClientOptions::default() }];
    let _ = drive(&drives, SHORT, &mut Panics, &AtomicBool::new(false));
}
