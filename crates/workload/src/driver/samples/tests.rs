//! Samples against the figures of the whole window.

use plimsoll_policy::Priority;
use proptest::prelude::*;

use super::super::recorder::{EndedRequest, Recorder};
use super::*;
use crate::benchmark::Outcome;
use crate::database::DatabaseError;

const BEGIN: Nanos = 5_000_000_000;

/// Credits one piece of work to a window of 2.5 s and checks the work done in each second.
fn check(from: Nanos, to: Nanos, expect: [f64; 3]) {
    let window = Bounds { begin: BEGIN, end: BEGIN + 2_500_000_000 };
    let mut seconds = Seconds::default();
    seconds.credit(1.0, BEGIN + from * 1_000_000, BEGIN + to * 1_000_000, &window);
    let samples = seconds.samples(Duration::from_millis(2_500), true, true);
    let found: Vec<f64> = samples.iter().map(|sample| sample.work_done).collect();
    for (found, expect) in found.iter().zip(expect) {
        assert!((found - expect).abs() < 1e-12, "{from}..{to}: {found:?}");
    }
}

#[test]
fn work_is_credited_to_the_seconds_in_which_it_was_done() {
    check(0, 1000, [1.0, 0.0, 0.0]);
    check(999, 1001, [0.5, 0.5, 0.0]);
    check(500, 2500, [0.25, 0.5, 0.25]);
    check(2000, 2500, [0.0, 0.0, 1.0]);
    // Work that takes no time is credited where it ended.
    check(1000, 1000, [0.0, 1.0, 0.0]);
    check(0, 0, [1.0, 0.0, 0.0]);
}

#[test]
fn every_second_of_the_window_has_a_sample_whatever_happened() {
    let lengths = |millis| {
        let samples = Seconds::default().samples(Duration::from_millis(millis), false, true);
        samples.iter().map(|sample| (sample.at_s, sample.seconds)).collect::<Vec<_>>()
    };
    assert_eq!(lengths(100), [(0.0, 0.1)]);
    assert_eq!(lengths(1000), [(0.0, 1.0)]);
    assert_eq!(lengths(2500), [(0.0, 1.0), (1.0, 1.0), (2.0, 0.5)]);
    let nothing = Seconds::default().samples(Duration::from_secs(1), false, true)[0];
    assert_eq!((nothing.latency_mean_us, nothing.latency_max_us), (None, None));
    assert_eq!((nothing.throughput_per_s, nothing.lock_wait_s), (0.0, Some(0.0)));
}

#[test]
fn a_session_that_cannot_tell_its_lock_waits_leaves_them_unknown_in_every_second() {
    let samples = Seconds::default().samples(Duration::from_secs(2), false, false);
    assert_eq!(samples.iter().map(|sample| sample.lock_wait_s).collect::<Vec<_>>(), [None, None]);
}

/// A request that may lie before, across, within or after the window.
fn any_request() -> impl Strategy<Value = (bool, EndedRequest<'static>)> {
    let length = prop_oneof![0_u64..10_000, 0_u64..4_000_000_000];
    let outcome =
        prop_oneof![Just(Err(&DatabaseError::Deadlock)), Just(Ok(Outcome::Committed)), Just(Ok(Outcome::RolledBack))];
    let counts = (0_u32..3, 0_u32..3, 0_u32..3, 0_u64..1_000_000, 0_u64..3);
    (any::<bool>(), 4_000_000_000_u64..9_000_000_000, length, 0_u64..2_000_000_000, outcome, counts).prop_map(
        |(is_mine, ready, length, queued, outcome, (deadlocks, preemptions, conflicts, lock_wait, lock_waits))| {
            let request = EndedRequest {
                transaction: (length % 2) as usize,
                ready,
                outcome,
                deadlocks,
                preemptions,
                conflicts,
                lock_wait: Some(Duration::from_nanos(lock_wait)),
                lock_waits,
                ..EndedRequest::undisturbed(ready - queued, ready + length)
            };
            (is_mine, request)
        },
    )
}

proptest! {
    #[test]
    fn samples_add_up_to_the_window(
        requests in prop::collection::vec(any_request(), 0..60),
        millis in 1_u64..4_000,
    ) {
        let window = Bounds { begin: BEGIN, end: BEGIN + millis * 1_000_000 };
        let (mut all, mut other) = (Recorder::new(), Recorder::new());
        for (is_mine, request) in &requests {
            if *is_mine { &mut all } else { &mut other }.note(request, &window);
        }
        all.merge(&other);
        let length = Duration::from_millis(millis);
        let samples = all.seconds.samples(length, false, all.knows_lock_wait);

        // The expected value of each figure, from the requests alone.
        let inside = requests.iter().map(|(_, request)| request).filter(|request| {
            (window.begin..window.end).contains(&request.end)
        });
        let done: Vec<&EndedRequest> = inside.clone().filter(|request| request.outcome.is_ok()).collect();
        let latency = |request: &EndedRequest| (request.end - request.intended) as f64 / 1e3;
        let count = |of: fn(&AbortCounts) -> u64| samples.iter().map(|sample| of(&sample.aborted)).sum::<u64>();
        prop_assert_eq!(samples.iter().map(|sample| sample.completed).sum::<u64>(), done.len() as u64);
        prop_assert_eq!(count(|a| a.deadlock), inside.clone().map(|r| u64::from(r.deadlocks)).sum::<u64>());
        prop_assert_eq!(count(|a| a.preempted), inside.clone().map(|r| u64::from(r.preemptions)).sum::<u64>());
        prop_assert_eq!(count(|a| a.conflict), inside.clone().map(|r| u64::from(r.conflicts)).sum::<u64>());
        let ended = |outcome| inside.clone().filter(|request| request.outcome == outcome).count() as u64;
        prop_assert_eq!(count(|a| a.user), ended(Ok(Outcome::RolledBack)));
        prop_assert_eq!(count(|a| a.error), ended(Err(&DatabaseError::Deadlock)));
        let waited: Duration = inside.clone().filter_map(|request| request.lock_wait).sum();
        prop_assert_eq!(all.lock_wait(), Some(waited));
        let sampled: f64 = samples.iter().filter_map(|sample| sample.lock_wait_s).sum();
        prop_assert!((sampled - waited.as_secs_f64()).abs() < 1e-9);
        let total: f64 = done.iter().map(|request| latency(request)).sum();
        let sampled: f64 =
            samples.iter().map(|s| s.latency_mean_us.unwrap_or_default() * s.completed as f64).sum();
        prop_assert!((sampled - total).abs() <= total * 1e-9);
        prop_assert!((all.response_total().as_secs_f64() * 1e6 - total).abs() <= total * 1e-9);
        let largest = samples.iter().filter_map(|sample| sample.latency_max_us).fold(0.0, f64::max);
        prop_assert_eq!(largest, done.iter().map(|request| latency(request)).fold(0.0, f64::max));

        // And against the histograms and the work done of the window.
        let cells: Vec<_> = (0..2).filter_map(|kind| all.cell(kind, Priority::HIGH)).collect();
        prop_assert_eq!(cells.iter().map(|cell| cell.latency.len()).sum::<u64>(), done.len() as u64);
        let work_done: f64 = cells.iter().map(|cell| cell.work_done).sum();
        prop_assert!((samples.iter().map(|sample| sample.work_done).sum::<f64>() - work_done).abs() < 1e-9);

        // The samples cover the window without gaps.
        prop_assert!((samples.iter().map(|sample| sample.seconds).sum::<f64>() - length.as_secs_f64()).abs() < 1e-9);
        for (number, sample) in samples.iter().enumerate() {
            prop_assert_eq!(sample.at_s, number as f64);
            prop_assert!((sample.throughput_per_s * sample.seconds - sample.completed as f64).abs() < 1e-6);
        }
    }
}
