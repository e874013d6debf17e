//! Looks at a made-up server, in simulated time: its states are known, and so is every share.

use std::time::Duration;

use plimsoll_machine::cpu_time::ThreadTimes;
use plimsoll_policy::{Doing, Priority};
use plimsoll_workload::activity::{Activity, StatementTotals, Upkeep};
use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::driver::{Board, DrivenWorkload, RunningRequest, WorkloadThreads};

use super::log::ServerLog;
use super::sampler::sample;
use super::schedule::Schedule;
use super::shares::ServerShares;
use super::tally::RequestTally;
use super::tally::Tally;
use super::{ActivityRecord, PERIOD, ServedWorkload, WorkloadTally};
use crate::results::{Mark, Part, Server, StateCounts, TimeShare};
use crate::time_share::tests::{driven, driven_part};

mod fake;

use fake::{FakeWatch, Time};

const WINDOW: Duration = Duration::from_secs(8);

/// The number of looks in a window if none is skipped.
const LOOKS: u64 = 1000;

/// A workload with a session on each of these processes.
fn threads(processes: &[i32]) -> WorkloadThreads {
    WorkloadThreads {
        workload: "shop".to_owned(),
        clients: vec![0; processes.len()],
        workers: None,
        servers: processes.iter().map(|process| Some(*process)).collect(),
        board: Board::new(processes.len()),
    }
}

fn run(watch: &mut FakeWatch, threads: &[WorkloadThreads]) -> ActivityRecord {
    let (log, mut time) = (ServerLog::open(watch), watch.time.clone());
    sample(watch, log, Tally::new(threads), Schedule::new(PERIOD, 7), &mut time)
}

fn doing(process: i32, doing: Doing) -> Activity {
    Activity { process, leader: None, doing }
}

fn request(transaction: u16, priority: Priority, number: u32) -> RunningRequest {
    RunningRequest { transaction, priority, number }
}

/// Clients with requests in flight for this long, all together.
fn measured(occupied: Duration) -> DrivenWorkload {
    let part = || driven_part(Duration::ZERO);
    let transactions = ["buy", "look"].map(|name| (name.to_owned(), part())).to_vec();
    DrivenWorkload { transactions, ..driven("shop", WINDOW, occupied) }
}

fn shares(
    seen: &WorkloadTally,
    looks: u64,
    run_s: f64,
    wait_s: f64,
    occupied: Duration,
) -> (ServerShares, Vec<String>) {
    let times = ThreadTimes { run: Duration::from_secs_f64(run_s), wait: Duration::from_secs_f64(wait_s) };
    let of = ServedWorkload { seen, looks, times: Some(times), clients: None, window: WINDOW };
    let mut warnings = Vec::new();
    (of.shares(&measured(occupied), &mut warnings), warnings)
}

/// Shares in thousandths, in the order of [`TimeShare::NAMES`]; -1 if unknown.
fn thousandths(share: TimeShare) -> [i64; 7] {
    let sum: f64 = share.parts().iter().flatten().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{share:?}");
    share.parts().map(|part| part.map_or(-1, |part| (part * 1000.0).round() as i64))
}

fn part(shares: &ServerShares, transaction: &str) -> (Option<[i64; 7]>, u64) {
    let mut part = Part::default();
    shares.of_transaction(transaction, &mut part);
    (part.time_share.map(thousandths), part.samples.expect("somebody looked"))
}

/// Two clients that are always busy: one buys with high priority, one looks with low; their states repeat every eight
/// looks.
#[test]
fn shares_are_what_was_seen() {
    let buys = [
        Doing::Running,
        Doing::Running,
        Doing::Lock,
        Doing::Lock,
        Doing::Io,
        Doing::IoLatch,
        Doing::Client,
        Doing::Idle,
    ];
    let looks = [Doing::Running, Doing::Other];
    let (time, threads) = (Time::default(), threads(&[101, 102]));
    threads.board.begin(0, request(0, Priority::HIGH, 0));
    threads.board.begin(1, request(1, Priority::LOW, 0));
    let mut watch = FakeWatch::new(&time, move |n| {
        let n = n as usize;
        Ok(vec![doing(101, buys[n % 8]), doing(102, looks[n % 2]), doing(999, Doing::Lock)])
    });
    let sampled = run(&mut watch, &[threads]);
    let seen = &sampled.workloads[0];
    let expect =
        StateCounts { running: 250 + 500, lock: 250, io: 125, io_latch: 125, client: 125, other: 500, idle: 125 };
    assert_eq!((seen.all, seen.absent), (expect, 0), "another's process is nobody's");

    // Both always busy: 16 s, of which looks saw 6 s running; the scheduler reports 4.5 s on cores and 1.5 s waiting
    // for one.
    let (found, warnings) = shares(seen, LOOKS, 4.5, 1.5, 2 * WINDOW);
    let whole = thousandths(found.whole.expect("known"));
    // Waiting for the client: 125 of 2000 looks in a transaction, and 125 at which the server had no work.
    assert_eq!(whole, [281, 94, 63, 63, 125, 125, 250]);
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(part(&found, "buy"), (Some([188, 63, 125, 125, 250, 250, 0]), 1000));
    assert_eq!(part(&found, "look"), (Some([375, 125, 0, 0, 0, 0, 500]), 1000));
    assert_eq!(part(&found, "none"), (None, 0));
    let mut high = Part::default();
    found.of_class("high", &mut high);
    assert_eq!(high.time_share.map(thousandths), part(&found, "buy").0);
    assert_eq!((found.known.under_way, found.known.changed, found.known.workers), (2000, 0, None));

    let Some(Server { sampler, statements, .. }) = sampled.server else { panic!("somebody looked") };
    assert_eq!((sampler.looks, sampler.left_out, sampler.late, &sampler.ended), (LOOKS, 0, 0, &None));
    assert_eq!((sampler.look_mean_us, sampler.look_max_us), (Some(10.0), Some(10.0)));
    assert!((sampler.duty - 0.00125).abs() < 1e-5 && (sampler.looks_per_s - 125.0).abs() < 0.5, "{sampler:?}");
    assert_eq!((statements, sampled.warnings), (None, vec!["no statistics of statements: nobody counts".to_owned()]));
}

/// A class whose requests waited for a free client for as long as clients worked on them, beside one whose requests did
/// not wait.
#[test]
fn shares_of_classes_run_from_the_intended_start() {
    let seen = StateCounts { running: 250, lock: 250, ..StateCounts::default() };
    let seen_part = || RequestTally { seen, changed: 0 };
    let parts = [((0, Priority::HIGH), seen_part()), ((1, Priority::LOW), seen_part())].into();
    let all = StateCounts { running: 500, lock: 500, ..StateCounts::default() };
    let seen = WorkloadTally { all, parts, ..WorkloadTally::default() };
    let class = |queued_s| {
        let mut part = driven_part(Duration::from_secs(4));
        part.times.in_system += Duration::from_secs(queued_s);
        part
    };
    let mut driven = measured(WINDOW);
    driven.classes = vec![(Priority::HIGH, class(0)), (Priority::LOW, class(4))];
    driven.transactions = vec![("buy".to_owned(), class(0)), ("look".to_owned(), class(4))];
    driven.all.times.in_system += Duration::from_secs(8);
    let times = ThreadTimes { run: Duration::from_secs(4), wait: Duration::ZERO };
    let of = ServedWorkload { seen: &seen, looks: LOOKS, times: Some(times), clients: None, window: WINDOW };
    let found = of.shares(&driven, &mut Vec::new());
    assert_eq!(found.whole.map(thousandths), Some([250, 0, 0, 0, 250, 0, 500]));
    let class = |name: &str| {
        let mut part = Part::default();
        found.of_class(name, &mut part);
        part.time_share.map(thousandths)
    };
    assert_eq!(class("high"), Some([500, 0, 0, 0, 500, 0, 0]));
    assert_eq!(class("low"), Some([250, 0, 0, 0, 250, 0, 500]));
    assert_eq!(part(&found, "look").0, class("low"));
}

#[test]
fn the_scheduler_s_books_stand_and_looks_are_scaled_to_fit() {
    let seen = |running, lock, other| WorkloadTally {
        all: StateCounts { running, lock, other, ..StateCounts::default() },
        ..WorkloadTally::default()
    };
    let check = |seen: &WorkloadTally, run_s, occupied_s, expect: [i64; 7], warned: usize| {
        let (found, warnings) = shares(seen, LOOKS, run_s, 0.0, Duration::from_secs(occupied_s));
        assert_eq!((thousandths(found.whole.expect("known")), warnings.len()), (expect, warned), "{warnings:?}");
    };
    // One client, always busy: all of its 8 s are explained.
    check(&seen(500, 500, 0), 4.0, 8, [500, 0, 0, 0, 500, 0, 0], 0);
    // Half of the time seen running was not on a core, nor waiting for one: a page fault is neither.
    check(&seen(500, 500, 0), 2.0, 8, [250, 0, 0, 0, 500, 0, 250], 0);
    // It was on cores for longer than looks saw it running.
    check(&seen(400, 500, 0), 4.2, 8, [525, 0, 0, 0, 475, 0, 0], 0);
    check(&seen(400, 500, 100), 6.0, 8, [750, 0, 0, 0, 208, 0, 42], 1);
    // More than the whole: the server continues to work after it has answered.
    check(&seen(1000, 0, 0), 8.2, 8, [1000, 0, 0, 0, 0, 0, 0], 0);
    check(&seen(1000, 0, 0), 9.0, 8, [1000, 0, 0, 0, 0, 0, 0], 1);
    // The waits of a part are scaled as those of all: by 0.4 / 0.6.
    let mut crowded = seen(400, 600, 0);
    let of_buys = RequestTally { seen: StateCounts { running: 100, lock: 300, ..StateCounts::default() }, changed: 0 };
    crowded.parts.insert((0, Priority::LOW), of_buys);
    let (found, warnings) = shares(&crowded, LOOKS, 4.8, 0.0, WINDOW);
    assert_eq!(thousandths(found.whole.expect("known")), [600, 0, 0, 0, 400, 0, 0]);
    assert_eq!(part(&found, "buy"), (Some([500, 0, 0, 0, 500, 0, 0]), 400));
    assert!((found.known.waits_scaled.expect("they did not fit") - 2.0 / 3.0).abs() < 1e-9);
    assert!(warnings[0].contains("20.0 % more than response time"), "{warnings:?}");
    // A client that thinks for most of the time: the looks account for all of the time of its requests.
    check(&seen(125, 62, 0), 1.0, 2, [500, 0, 0, 0, 248, 252, 0], 0);
}

#[test]
fn too_few_looks_tell_only_what_the_scheduler_knows() {
    let seen = WorkloadTally {
        all: StateCounts { running: 25, lock: 25, ..StateCounts::default() },
        ..WorkloadTally::default()
    };
    let (found, warnings) = shares(&seen, 50, 4.0, 1.0, WINDOW);
    assert_eq!(thousandths(found.whole.expect("known")), [500, 125, -1, -1, -1, -1, 375]);
    assert!(warnings[0].starts_with("shop: 50 looks at the server are too few"), "{warnings:?}");
    let (found, warnings) = shares(&seen, 1000, 0.0, 0.0, Duration::ZERO);
    assert_eq!(
        (found.whole, warnings),
        (None, vec!["shop: no time shares, because no request was in flight".to_owned()])
    );
    let of = ServedWorkload { seen: &seen, looks: LOOKS, times: None, clients: None, window: WINDOW };
    let (mut warnings, measured) = (Vec::new(), measured(WINDOW));
    let whole = of.shares(&measured, &mut warnings).whole.expect("looks tell the rest");
    assert_eq!(thousandths(whole), [-1, -1, 0, 0, 25, 950, 25], "time on cores is within other");
    assert_eq!(warnings, ["shop: time on cores is unknown and within `other`"]);
}

/// One client whose requests change during a look: the look belongs to the earlier request, unless that request had
/// ended and left the server idle.
#[test]
fn requests_that_end_during_a_look_are_counted_and_those_that_are_over_are_not() {
    let (time, threads) = (Time::default(), threads(&[101]));
    let board = threads.board.clone();
    board.begin(0, request(0, Priority::LOW, 0));
    let mut watch = FakeWatch::new(&time, move |n| {
        let number = n as u32 + 1;
        Ok(match n % 4 {
            // The request continues.
            0 => vec![doing(101, Doing::Running)],
            // Another request begins.
            1 => {
                board.begin(0, request(0, Priority::LOW, number));
                vec![doing(101, Doing::Lock)]
            }
            // It ends before the look.
            2 => {
                board.end(0);
                vec![doing(101, Doing::Idle)]
            }
            // No request is in flight at the beginning, and one that begins later does not count; the session is not
            // listed.
            _ => {
                board.begin(0, request(1, Priority::LOW, number));
                board.begin(0, request(0, Priority::LOW, number));
                vec![]
            }
        })
    });
    let sampled = run(&mut watch, &[threads]);
    let seen = &sampled.workloads[0];
    assert_eq!(seen.all, StateCounts { running: 250, lock: 250, idle: 250, ..StateCounts::default() });
    assert_eq!((seen.absent, seen.parts.len()), (250, 1));
    let part_seen = seen.parts[&(0, Priority::LOW)];
    assert_eq!(
        (part_seen.seen, part_seen.changed),
        (StateCounts { running: 250, lock: 250, ..StateCounts::default() }, 250)
    );
    let (found, warnings) = shares(seen, LOOKS, 2.0, 0.0, Duration::from_secs(6));
    assert_eq!(part(&found, "buy"), (Some([500, 0, 0, 0, 500, 0, 0]), 500));
    let absent =
        "shop: the processes of its sessions were not listed 250 times in 1000 looks; what they did then is unknown";
    assert_eq!(warnings, [absent]);

    // With one more change, the requests are too short to be distinguished.
    let mut short = seen.clone();
    short.parts.get_mut(&(0, Priority::LOW)).expect("there is one").changed += 1;
    let (found, warnings) = shares(&short, LOOKS, 2.0, 0.0, Duration::from_secs(6));
    assert_eq!(part(&found, "buy"), (None, 500));
    assert!(warnings[0].contains("shorter than a look"), "{warnings:?}");
}

#[test]
fn a_server_that_dies_ends_the_looking_and_says_so() {
    let (time, threads) = (Time::default(), threads(&[101]));
    let gone = || DatabaseError::ConnectionLost("server closed the connection".to_owned());
    let mut watch =
        FakeWatch::new(&time, move |n| if n < 250 { Ok(vec![doing(101, Doing::Running)]) } else { Err(gone()) });
    let sampled = run(&mut watch, std::slice::from_ref(&threads));
    let sampler = sampled.server.expect("somebody looked").sampler;
    assert_eq!(sampler.looks, 250);
    assert_eq!(sampler.ended.as_deref(), Some("the connection was lost: server closed the connection"));
    assert!(sampled.warnings.iter().any(|warning| warning.contains("ended before the window did")));
    assert_eq!(sampled.workloads[0].all.running, 250, "what was seen until then is kept");

    // A server that is dead from the beginning.
    let mut watch = FakeWatch::new(&Time::default(), |_| unreachable!("nobody looks any more"));
    let mut time = watch.time.clone();
    let sampled = sample(&mut watch, Err(gone()), Tally::new(&[threads]), Schedule::new(PERIOD, 7), &mut time);
    assert_eq!(sampled.server.expect("somebody tried").sampler.looks, 0);
}

#[test]
fn looks_that_take_too_long_are_left_out_and_not_made_up_for() {
    let (time, threads) = (Time::default(), threads(&[101]));
    let mut watch = FakeWatch::new(&time, |_| Ok(vec![doing(101, Doing::Running)]));
    watch.look_length = 3 * PERIOD;
    let sampled = run(&mut watch, &[threads]);
    let sampler = sampled.server.expect("somebody looked").sampler;
    assert!((240..=300).contains(&sampler.looks), "{sampler:?}");
    assert!((LOOKS - 4..LOOKS + 4).contains(&(sampler.looks + sampler.left_out)), "{sampler:?}");
    assert!(sampler.duty > 0.7 && sampler.duty <= 1.0, "{sampler:?}");
    assert!(sampled.warnings.iter().any(|warning| warning.contains("were left out")), "{:?}", sampled.warnings);
}

/// Workers come and go, and so do the scheduler's accounts of them.
#[test]
fn workers_are_told_apart_from_those_they_help() {
    let mut tally = Tally::new(&[threads(&[101, 102])]);
    let worker = |process, leader| Activity { process, leader: Some(leader), doing: Doing::Running };
    let ms = |run, wait| Some(ThreadTimes { run: Duration::from_millis(run), wait: Duration::from_millis(wait) });
    let mut look = |seen: &[Activity], times: &[(i32, Option<ThreadTimes>)]| {
        tally.before();
        let of = |process| times.iter().find(|(of, _)| *of == process).and_then(|(_, times)| *times);
        tally.after(seen, &of);
        tally.workloads[0].workers.clone()
    };
    let leader = doing(101, Doing::Other);
    look(&[leader, worker(7, 101), worker(8, 55)], &[(7, ms(100, 10)), (8, ms(9, 9))]);
    look(&[leader, worker(7, 101), worker(9, 101)], &[(7, ms(130, 11)), (9, ms(5, 0))]);
    // Process 7 has ended, and its id belongs to another.
    let seen = look(&[leader, worker(7, 101)], &[(7, ms(2, 2))]);
    assert_eq!((seen.seen.running, seen.different), (4, 3), "the one who helps a stranger does not count");
    assert_eq!(seen.times, ms(30 + 5 + 2, 1 + 2), "what it had used before the first look is not of this window");
    let unknown = look(&[leader, worker(11, 101)], &[(11, None)]);
    assert_eq!(unknown.times, None, "of a part it would be too little");
}

#[test]
fn upkeep_is_marked_when_it_begins_and_ends() {
    let (time, threads) = (Time::default(), threads(&[101]));
    let mut watch = FakeWatch::new(&time, |_| Ok(vec![doing(101, Doing::Running)]));
    let upkeep = |begun, written_ms, vacuums: &[&str]| Upkeep {
        checkpoints_begun: Some(begun),
        checkpoint_write: Some(Duration::from_millis(written_ms)),
        vacuums: vacuums.iter().map(|table| (*table).to_owned()).collect(),
    };
    watch.upkeep = vec![
        upkeep(4, 70, &["orders"]),
        upkeep(4, 70, &["orders"]),
        upkeep(5, 70, &["orders", "stock"]),
        upkeep(5, 90, &["stock"]),
        upkeep(5, 90, &[]),
    ];
    let marks = run(&mut watch, &[threads]).server.expect("somebody looked").marks;
    let found: Vec<(u64, &str)> = marks.iter().map(|Mark { at_s, what }| (*at_s as u64, what.as_str())).collect();
    let expect = [
        (2, "checkpoint begins"),
        (2, "vacuum of stock begins"),
        (3, "checkpoint ends"),
        (3, "vacuum of orders ends"),
        (4, "vacuum of stock ends"),
    ];
    assert_eq!(found, expect);
}

#[test]
fn statements_are_what_was_added_in_the_window() {
    let (time, threads) = (Time::default(), threads(&[101]));
    let mut watch = FakeWatch::new(&time, |_| Ok(vec![doing(101, Doing::Running)]));
    let totals = |id, text: &str, calls, ms| StatementTotals {
        id,
        text: text.to_owned(),
        calls,
        time: Duration::from_millis(ms),
        rows: 2 * calls,
        pages_hit: 10 * calls,
        pages_read: calls,
    };
    watch.statements = vec![
        vec![totals(1, "select  1", 10, 100), totals(2, "update t", 5, 50), totals(3, "vacuum", 1, 900)],
        // The third was not run again, the fourth is new, and the second was set back.
        vec![
            totals(1, "select\n 1", 30, 400),
            totals(2, "update t", 3, 30),
            totals(3, "vacuum", 1, 900),
            totals(4, "select 1", 1, 700),
        ],
    ];
    let statements = run(&mut watch, &[threads]).server.expect("somebody looked").statements.expect("they are kept");
    let found: Vec<_> = statements.iter().map(|one| (one.text.as_str(), one.calls, one.rows, one.pages_read)).collect();
    assert_eq!(found, [("select 1", 21, 42, 21), ("update t", 3, 6, 3)]);
    assert!((statements[0].time_s - 1.0).abs() < 1e-9 && (statements[1].time_s - 0.03).abs() < 1e-9, "{statements:?}");
}
