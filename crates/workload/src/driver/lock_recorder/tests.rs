//! Lock waits and rollbacks of requests, counted by hand.

use super::*;
use crate::benchmark::Outcome;
use crate::database::DatabaseError;

const MS: u64 = 1_000_000;

fn millis(number: u64) -> Duration {
    Duration::from_millis(number)
}

/// A request that began at 0 and ended after `lasted_ms` milliseconds.
fn request(lasted_ms: u64) -> EndedRequest<'static> {
    EndedRequest::undisturbed(0, lasted_ms * MS)
}

fn wait(queue_ms: u64, excess_ms: u64) -> LockWait {
    LockWait { queue_time: millis(queue_ms), excess: millis(excess_ms), preempted: false }
}

/// A request that never waited, one that waited once, one that waited three times and was preempted once, one given up.
fn noted() -> LockRecorder {
    let mut locks = LockRecorder::new();
    locks.note(&request(10), &[]);
    locks.note(&EndedRequest { outcome: Ok(Outcome::RolledBack), ..request(60) }, &[wait(40, 40)]);
    let preempted = EndedRequest {
        last_attempt: 100 * MS,
        preemptions: 1,
        deadlocks: 1,
        work_lost: &[Duration::from_millis(75)],
        rollback_time: Some(millis(5)),
        ..request(170)
    };
    locks.note(&preempted, &[LockWait { preempted: true, ..wait(30, 20) }, wait(50, 0), wait(0, 0)]);
    let given_up = EndedRequest {
        outcome: Err(&DatabaseError::Preempted),
        deadlocks: 1,
        rollback_time: Some(millis(1)),
        ..request(60)
    };
    locks.note(&given_up, &[wait(30, 30)]);
    locks
}

fn check(locks: &LockRecorder) {
    assert_eq!((locks.requests(), locks.queue_time_us.len()), (4, 5));
    assert_eq!(locks.requests_by_waits, [1, 2, 0, 1]);
    assert_eq!(locks.requests_by_preemptions, [3, 1]);
    let totals = [locks.queue_time_total, locks.wait_excess_total, locks.wait_remainder_total()];
    assert_eq!(totals, [millis(150), millis(90), millis(60)]);
    assert_eq!(locks.queue_time_if_preempted, Total { count: 1, total: millis(30) });
    assert_eq!(locks.queue_time_if_completed(), Total { count: 4, total: millis(120) });
    assert_eq!(locks.statistics().queue_time_share, Some(0.5));
    let by_waits = locks.response_by_waits.map(|lengths| (lengths.count, lengths.total));
    let expect = [(1, millis(10)), (1, millis(60)), (0, millis(0)), (1, millis(170))];
    assert_eq!(by_waits, expect, "the one given up has no response time");
    assert_eq!(locks.successful_attempts, Total { count: 3, total: millis(140) });
    assert_eq!((locks.rollbacks, locks.rollback_time), (3, Some(millis(6))));
    assert_eq!(locks.work_lost, Total { count: 1, total: millis(75) });
    assert!((locks.statistics().work_lost_share.expect("one was preempted") - 75.0 / (140.0 / 3.0)).abs() < 1e-9);
    for (histogram, values) in [
        (&locks.queue_time_us, [0, 30_000, 30_000, 40_000, 50_000].as_slice()),
        (&locks.wait_excess_us, &[0, 0, 20_000, 30_000, 40_000]),
        (&locks.wait_remainder_us, &[0, 0, 0, 10_000, 50_000]),
        (&locks.work_lost_us, &[75_000]),
    ] {
        let mut expect = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 2).expect("sound bounds");
        values.iter().for_each(|value| expect.record(*value).expect("within bounds"));
        assert_eq!(*histogram, expect);
    }
}

#[test]
fn everything_is_counted_where_it_belongs() {
    check(&noted());
}

#[test]
fn clients_add_up() {
    let (mut one, other) = (LockRecorder::new(), noted());
    one.merge(&other);
    check(&one);
    one.merge(&other);
    assert_eq!((one.requests_by_waits, one.rollbacks), (vec![2, 4, 0, 2], 6));
    assert_eq!((one.work_lost.count, one.work_lost_us.len(), one.response_by_waits[3].count), (2, 2, 2));
}

#[test]
fn of_nothing_there_are_no_means() {
    let mut locks = LockRecorder::new();
    let none = locks.statistics();
    assert_eq!((none.queue_time_share, none.work_lost_share, none.requests), (None, None, 0));
    locks.note(&request(10), &[]);
    let calm = locks.statistics();
    assert_eq!((calm.queue_time_share, calm.work_lost_share, calm.queue_time_us.mean), (Some(0.0), None, None));
}

#[test]
fn an_unknown_rollback_time_stays_unknown() {
    let mut locks = noted();
    let mut unknown = LockRecorder::new();
    unknown.note(&EndedRequest { rollback_time: None, ..request(1) }, &[]);
    locks.merge(&unknown);
    assert_eq!((locks.rollback_time, locks.rollbacks), (None, 3));
}

#[test]
fn what_happens_too_often_is_counted_at_the_end() {
    let mut locks = LockRecorder::new();
    for waits in [100, 101, 5_000] {
        locks.note(&request(1), &vec![wait(0, 0); waits]);
    }
    assert_eq!((locks.requests_by_waits.len(), locks.requests_by_waits[100]), (101, 3));
    assert_eq!(locks.queue_time_us.len(), 5_201);
}

#[test]
fn the_histograms_of_three_hundred_clients_fit_into_a_tenth_of_a_gibibyte() {
    let locks = LockRecorder::new();
    let histograms = [&locks.queue_time_us, &locks.wait_excess_us, &locks.wait_remainder_us, &locks.work_lost_us];
    let bytes: usize = histograms.map(|histogram| histogram.distinct_values() * size_of::<u64>()).iter().sum();
    let (clients, classes) = (300, 2);
    assert!(bytes * clients * classes < 1 << 30, "{bytes}");
    assert!(bytes * clients * classes < 100 << 20, "{bytes}");
}
