//! What is told of failures.

use super::*;
use crate::results::Part;

fn failing(name: &str, completed: u64, aborted: Aborted, reasons: &[(&str, u64)]) -> WorkloadResult {
    let failed = reasons.iter().map(|(message, count)| FailedRequests {
        code: Some("22012".to_owned()),
        message: (*message).to_owned(),
        first: None,
        count: *count,
    });
    let driven = WorkloadMeasurement {
        name: name.to_owned(),
        all: Part { completed, ..Part::default() },
        aborted,
        failed: failed.collect(),
        ..WorkloadMeasurement::default()
    };
    WorkloadResult { driven, ..WorkloadResult::default() }
}

fn errors(error: u64) -> Aborted {
    Aborted { error, ..Aborted::default() }
}

fn point(arm: &str, workloads: Vec<WorkloadResult>) -> Point {
    Point { arm: arm.to_owned(), valid: true, workloads, ..Point::default() }
}

/// A third of the requests divide by zero: 6.02 thousand per second said nothing of it.
#[test]
fn a_share_above_the_bound_makes_a_run_invalid_with_its_reason() {
    let third = failing("w", 20_000, errors(10_000), &[("division by zero", 10_000)]);
    let why = too_many(&third, 0.05).expect("a third is more than 5 %");
    let told = why.replace('\u{202f}', " ");
    let expect = "w: 10 000 of 30 000 requests failed (33 %), most of them with 22012 division by zero; `failed_max` of [run] \
        allows 5.0 %: mend the requests, or raise it if failures are part of the workload";
    assert_eq!(told, expect);
    assert_eq!(too_many(&third, 0.5), None);
    assert_eq!(too_many(&failing("w", 95, errors(5), &[]), 0.05), None, "exactly as many as allowed");
    assert_eq!(too_many(&failing("w", 0, errors(0), &[]), 0.0), None, "nothing ended");
    assert!(too_many(&failing("w", 0, errors(1), &[]), 0.99).is_some(), "nothing succeeded");
    assert!(too_many(&failing("w", 1_000_000, errors(1), &[]), 0.0).is_some(), "none may fail");
}

/// Runs of an arm are added up, the invalid ones included; arms and settings are kept apart.
#[test]
fn failures_are_listed_by_arm_and_setting_with_the_largest_share_first() {
    let mut swept = point("alone:w", vec![failing("w", 1, errors(9), &[])]);
    swept.setting.insert("dop".to_owned(), 2.into());
    swept.valid = false;
    let points = [
        point("alone:w", vec![failing("w", 60, errors(10), &[("division by zero", 10)])]),
        point("alone:w", vec![failing("w", 20, errors(10), &[("division by zero", 10)])]),
        point("together", vec![failing("w", 5, errors(0), &[]), failing("v", 99, errors(1), &[])]),
        swept,
    ];
    let failed = FailureCounts::with_failures(&points);
    let told: Vec<_> = failed.iter().map(|cell| (cell.arm, cell.workload, cell.setting.len(), cell.told())).collect();
    let expect = [
        ("alone:w", "w", 1, "9 of 10 requests failed (90 %)".to_owned()),
        ("alone:w", "w", 0, "20 of 100 requests failed (20 %)".to_owned()),
        ("together", "v", 0, "1 of 100 requests failed (1.0 %)".to_owned()),
    ];
    assert_eq!(told, expect);
    assert_eq!((failed[1].reasons.len(), failed[1].reasons[0].count), (1, 20));
}

/// 37,366 deadlocks beside 174,738 completed requests were printed nowhere.
#[test]
fn attempts_that_were_run_again_are_counted_by_kind() {
    let aborted = Aborted { deadlock: 2, preempted: 3, conflict: 1, user: 7, error: 0 };
    let points = [
        point("alone:w", vec![failing("w", 10, aborted, &[])]),
        point("together", vec![failing("w", 5, aborted, &[]), failing("v", 5, errors(3), &[])]),
    ];
    let again = attempts_run_again(&points);
    let told: Vec<_> = again.iter().map(|(name, aborted, completed)| (*name, run_again(aborted), *completed)).collect();
    assert_eq!(told, [("w", Some("4 deadlock victims, 6 preempted, 2 conflicts".to_owned()), 15)]);
}

#[test]
fn a_workload_without_a_completed_request_says_what_its_attempts_met() {
    let reason = |code: Option<&str>, message: &str, count| FailedRequests {
        code: code.map(str::to_owned),
        message: message.to_owned(),
        first: None,
        count,
    };
    let deadlocks = reason(Some("40P01"), "deadlock detected", 1_200);
    let preempted = reason(None, "preempted by a more important transaction", 1_300);
    for (run_again, expect) in [
        (vec![], "no request of w completed within the window; make the window longer"),
        (
            vec![deadlocks.clone()],
            "no request of w completed within the window: 1 200 attempts were run again, all of them after 40P01 deadlock \
             detected; use fewer clients, or requests that conflict less",
        ),
        (
            vec![preempted, deadlocks],
            "no request of w completed within the window: 2 500 attempts were run again, most of them after preempted by a \
             more important transaction; use fewer clients, or requests that conflict less",
        ),
    ] {
        let measured = WorkloadMeasurement { name: "w".to_owned(), run_again, ..WorkloadMeasurement::default() };
        assert_eq!(idle(&measured).replace('\u{202f}', " "), expect);
    }
}

#[test]
fn invalid_runs_with_the_same_reason_are_one_entry() {
    let invalid = |why: &str| Point { why_invalid: Some(why.to_owned()), ..Point::default() };
    let points = [
        invalid("server gone"),
        point("alone:w", Vec::new()),
        invalid("w: 9 of 10 requests failed (90 %)"),
        invalid("w: 12 of 20 requests failed (60 %)"),
        Point::default(),
    ];
    let expect = [
        ("w: 9 of 10 requests failed (90 %)", vec![2, 3]),
        ("server gone", vec![0]),
        ("the reason was not recorded", vec![4]),
    ];
    assert_eq!(invalid_runs(&points), expect);
}
