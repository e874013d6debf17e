//! Synthetic runs and the sentences that must be written about them.

use serde_json::json;

use super::*;
use crate::analysis;
use crate::report::fixture::{WINDOW_S, WorkloadRun, faster, point, poor_study, study, workload};
use crate::report::fixture::{histograms, results};
use crate::results::{Results, TimeShare};

const BASE: WorkloadRun = WorkloadRun {
    throughput_per_s: 1000.0,
    p50: 10_000,
    tail: 4.0,
    share: [Some(0.6), Some(0.05), Some(0.1), Some(0.1)],
    ipc: 1.2,
    llc: 2.0,
};

/// The document of these points, with all derived parts.
fn analysed(points: Vec<Point>) -> Results {
    let mut results = results(points, Vec::new());
    let histograms: Vec<_> = results.points.iter().map(histograms).collect();
    let histograms: Vec<_> = histograms.iter().map(Vec::as_slice).collect();
    analysis::complete(&mut results, &histograms);
    results
}

/// Two workloads `a` and `b`; for each, the throughputs alone and together, one for each repeat.
fn points(a: (&[f64], &[f64]), b: (&[f64], &[f64]), change: impl Fn(WorkloadRun) -> WorkloadRun) -> Vec<Point> {
    let did = |throughput: f64| WorkloadRun { throughput_per_s: throughput, ..BASE };
    let of = |name: &'static str, did: WorkloadRun| workload(name, "tpcc", 10, did);
    let repeat = |index: usize| index as u32 + 1;
    let mut points = Vec::new();
    points.extend(a.0.iter().enumerate().map(|(i, &t)| point("alone:a", repeat(i), vec![of("a", did(t))])));
    points.extend(b.0.iter().enumerate().map(|(i, &t)| point("alone:b", repeat(i), vec![of("b", did(t))])));
    points.extend(
        a.1.iter()
            .zip(b.1)
            .enumerate()
            .map(|(i, (&a, &b))| point("together", repeat(i), vec![of("a", change(did(a))), of("b", did(b))])),
    );
    points
}

fn of<'a, 'b>(summary: &'b Summary<'a>, name: &str) -> &'b Workload<'a> {
    summary.workloads.iter().find(|workload| workload.name == name).expect("it ran")
}

fn advice_of(a: (&[f64], &[f64]), b: (&[f64], &[f64]), change: impl Fn(WorkloadRun) -> WorkloadRun) -> Vec<String> {
    Summary::of(&analysed(points(a, b, change))).advice()
}

#[test]
fn invalid_points_count_for_nothing() {
    let mut points = points((&[100.0, 900.0], &[50.0]), (&[1.0], &[1.0]), |did| did);
    points[1].valid = false;
    let results = analysed(points);
    let summary = Summary::of(&results);
    let a = summary.workloads.iter().find(|w| w.name == "a").expect("a ran");
    assert_eq!((a.alone.runs.len(), a.alone.left_out), (1, 1));
    assert_eq!(a.interference.map(|i| i.value), Some(0.5));
    assert_eq!(a.noise_floor, None);
}

#[test]
fn other_settings_are_not_averaged_in() {
    let mut points = points((&[100.0, 900.0], &[50.0]), (&[1.0], &[1.0]), |did| did);
    points[1].setting.insert("cores".to_string(), json!(4));
    let results = analysed(points);
    let summary = Summary::of(&results);
    assert_eq!(of(&summary, "a").interference.map(|i| i.value), Some(0.5));
    assert_eq!(summary.settings_left_out, 1);
}

#[test]
fn percentiles_are_over_all_repeats_with_their_range_beside() {
    let slow = [(1, 900.0, 20_000), (2, 1000.0, 10_000), (3, 1100.0, 15_000)];
    let points = slow.map(|(repeat, throughput_per_s, p50)| {
        point("together", repeat, vec![workload("a", "tpcc", 1, WorkloadRun { throughput_per_s, p50, ..BASE })])
    });
    let results = analysed(points.into());
    let summary = Summary::of(&results);
    let together = &summary.workloads[0].together;
    let p50 = together.percentile("latency_us.p50").expect("measured");
    assert_eq!((p50.low, p50.high), (10_000.0, 20_000.0));
    assert!((12_000.0..17_000.0).contains(&p50.value), "{p50:?}");
    assert!(together.percentile("latency_us.p999").is_some(), "60,000 requests");
    assert!(together.reading().expect("it ran").class("none").is_none());
}

#[test]
fn time_shares_add_up_to_one_where_a_part_is_missing() {
    let mut points = points((&[100.0, 100.0], &[]), (&[], &[]), |did| did);
    points[1].workloads[0].all.time_share =
        Some(TimeShare { cpu_run: Some(0.4), io: Some(0.1), lock: Some(0.1), other: 0.4, ..TimeShare::default() });
    let share = Summary::of(&analysed(points)).workloads[0]
        .alone
        .cell
        .expect("it ran")
        .measured
        .all
        .time_share
        .expect("measured");
    assert_eq!(share.cpu_wait, None);
    let sum = [share.cpu_run, share.io, share.lock].iter().flatten().sum::<f64>() + share.other;
    assert!((sum - 1.0).abs() < 1e-9, "{share:?}");
    assert!((share.cpu_run.expect("both") - 0.5).abs() < 1e-9);
}

#[test]
fn rates_need_every_repeat_to_have_counted() {
    let mut points = points((&[100.0, 100.0], &[]), (&[], &[]), |did| did);
    let alone = |points: &[Point], key: &str| Summary::of(&analysed(points.to_vec())).workloads[0].alone.figure(key);
    assert!((alone(&points, "counters.ipc").expect("counted") - 1.2).abs() < 1e-6);
    assert!((alone(&points, "counters.llc_mpki").expect("counted") - 2.0).abs() < 1e-3);
    points[0].workloads[0].counters.as_mut().expect("counted").llc_misses = None;
    assert_eq!(alone(&points, "counters.llc_mpki"), None);
    assert!(alone(&points, "counters.ipc").is_some());
    points.iter_mut().for_each(|point| point.workloads[0].counters = None);
    assert_eq!(alone(&points, "counters.ipc"), None);
}

/// The first sentences about `a` must contain these words.
fn check_advice(got: &[String], expect: &[&str]) {
    assert!((1..=4).contains(&got.len()), "{got:#?}");
    for (position, expect) in expect.iter().enumerate() {
        let sentence = got.get(position).unwrap_or_else(|| panic!("no sentence with {expect:?}: {got:#?}"));
        assert!(sentence.contains(expect), "{expect:?} is not in {got:#?}");
    }
    for sentence in got {
        assert!(sentence.contains(|c: char| c.is_ascii_digit()), "no number in {sentence:?}");
        assert!(sentence.ends_with('.'), "{sentence:?}");
        assert!(!["NaN", "inf ", "None"].iter().any(|word| sentence.contains(word)), "{sentence:?}");
    }
}

#[test]
fn advice_names_what_was_lost_to() {
    let slowed: (&[f64], &[f64]) = (&[1000.0, 1020.0], &[500.0, 510.0]);
    let quiet: (&[f64], &[f64]) = (&[100.0, 104.0], &[101.0, 99.0]);
    let share = |share| move |did: WorkloadRun| WorkloadRun { share, p50: did.p50 * 2, ..did };
    let check = |change: &dyn Fn(WorkloadRun) -> WorkloadRun, expect: &str| {
        let got = advice_of(slowed, quiet, change);
        check_advice(
            &got,
            &[
                "Beside b, a runs at 0.50 of its speed alone: 505 /s instead of 1.01 k/s",
                expect,
                "b: no difference seen, 0.98",
            ],
        );
    };
    check(
        &share([Some(0.3), Some(0.5), Some(0.05), Some(0.05)]),
        "waiting for a core (50 % of response time, 5 % alone): cores are what they compete for",
    );
    check(&share([Some(0.3), Some(0.05), Some(0.05), Some(0.5)]), "priority lock scheduling");
    check(
        &share([Some(0.3), Some(0.05), Some(0.5), Some(0.05)]),
        "they compete for the disk; limit the disk bandwidth of b",
    );
    check(
        &share([Some(0.3), Some(0.05), Some(0.05), Some(0.05)]),
        "in none of the parts measured (55 % of response time, 15 % alone): look at queues",
    );
    check(
        &share([Some(0.3), None, None, Some(0.05)]),
        "waiting for a core and waiting for a device could not be measured and may be the cause",
    );
    let stalled = share([Some(0.75), Some(0.03), Some(0.05), Some(0.05)]);
    check(
        &|did| WorkloadRun { ipc: 0.7, llc: 6.0, ..stalled(did) },
        "0.70 instructions per cycle instead of 1.20 and misses the last-level cache 6.00 times",
    );
    check(&|did| WorkloadRun { ipc: 0.7, ..stalled(did) }, "suspect hyper-threads");
    check(&stalled, "executes 2.5 times as many instructions per request");
}

#[test]
fn time_on_a_core_without_counters_is_not_explained_away() {
    let mut points = points((&[1000.0, 1020.0], &[500.0, 510.0]), (&[100.0, 104.0], &[101.0, 99.0]), |did| {
        WorkloadRun { share: [Some(0.75), Some(0.03), Some(0.05), Some(0.05)], p50: did.p50 * 2, ..did }
    });
    points.iter_mut().flat_map(|point| &mut point.workloads).for_each(|w| w.counters = None);
    check_advice(&Summary::of(&analysed(points)).advice(), &["a runs at 0.50", "no hardware counters say"]);
}

#[test]
fn advice_says_no_difference_where_there_is_none() {
    let check = |a: (&[f64], &[f64]), expect: &str| {
        let quiet: Vec<f64> = vec![100.0; a.1.len()];
        check_advice(&advice_of(a, (&[100.0], &quiet), |did| did), &[expect]);
    };
    check((&[1000.0, 1100.0], &[1020.0, 1000.0]), "a keeps 0.96 of its throughput alone, and a loss above ");
    check((&[1000.0, 1100.0], &[1020.0, 1000.0]), "% is excluded (95 % interval, noise floor ");
    // A difference that would matter, and noise that is larger still.
    check((&[90.0, 110.0], &[60.0, 75.0]), "Undecided: a ran at 0.67 of its speed alone (95 % interval");
    check((&[1000.0], &[930.0]), "1 repeat, which cannot show less than 10 %");
    // Repeats with equal counts do not exclude the loss of one request: 1 of 22.
    check((&[1.1, 1.1], &[1.1, 1.1]), "a keeps 1.00 of its throughput alone, and a loss above 4.5 % is excluded");
}

#[test]
fn what_rests_on_few_requests_is_undecided() {
    // Workloads that complete this few in a window of 20 s get no sentence on sharing, however far they seem to fall.
    for (alone, together, few) in [(0.2, 0.15, 3), (5.0, 0.5, 10), (0.9, 0.0, 0)] {
        let got = advice_of((&[alone; 3], &[together; 3]), (&[100.0; 3], &[100.0; 3]), |did| did);
        check_advice(
            &got,
            &[&format!("Undecided: a completed as few as {few} requests in a window, and 20 are needed")],
        );
        assert!(!got.iter().any(|sentence| sentence.contains("taking turns")), "{got:#?}");
    }
}

#[test]
fn latency_that_grows_behind_unchanged_throughput_is_told() {
    let waiting =
        |did: WorkloadRun| WorkloadRun { share: [Some(0.2), Some(0.7), Some(0.02), Some(0.02)], ..faster(did, 0.25) };
    let got = advice_of((&[1000.0, 1001.0], &[1000.0, 1000.5]), (&[100.0, 101.0], &[100.0, 100.5]), |did| {
        WorkloadRun { throughput_per_s: did.throughput_per_s, ..waiting(did) }
    });
    check_advice(
        &got,
        &[
            "Beside b, a keeps its throughput (1.00 of alone), but its p99 latency grows 4.0 times",
            "cores are what they compete for",
        ],
    );
}

#[test]
fn advice_survives_holes() {
    check_advice(&Summary::of(&analysed(Vec::new())).advice(), &["0 points"]);
    check_advice(
        &advice_of((&[0.0], &[0.0]), (&[100.0], &[100.0]), |did| did),
        &["completed 0 requests alone; measure longer"],
    );
    check_advice(
        &advice_of((&[100.0], &[0.0]), (&[100.0], &[100.0]), |did| did),
        &["Beside b, a completes 0 requests, against 100 /s alone"],
    );
    check_advice(&advice_of((&[100.0], &[]), (&[100.0], &[]), |did| did), &["0 of its runs together are valid"]);
    assert_eq!(advice_of((&[], &[100.0]), (&[], &[90.0]), |did| did), [""; 0], "nothing was run alone");
    check_advice(
        &advice_of((&[100.0], &[300.0]), (&[100.0], &[90.0]), |did| did),
        &["b: no difference seen", "ask what else changed"],
    );
    check_advice(&Summary::of(&analysed(poor_study().points)).advice(), &["shop runs at 0.41 of its speed alone"]);
}

#[test]
fn sharing_that_costs_more_than_turns_is_called_that() {
    let last = |a: &[f64], b: &[f64]| {
        let alone: Vec<f64> = a.iter().enumerate().map(|(block, _)| 100.0 + block as f64).collect();
        let got = advice_of((&alone, a), (&alone, b), |did| did);
        got.last().expect("at least one sentence").clone()
    };
    let worse = last(&[30.0, 31.0, 30.5], &[40.0, 41.0, 40.5]);
    assert!(
        worse.starts_with("Side by side they do only 0.70 times the work of taking turns (95 % interval 0."),
        "{worse}"
    );
    let better = last(&[80.0, 81.0, 80.5], &[70.0, 71.0, 70.5]);
    assert!(better.starts_with("Side by side they do 1.50 times"), "{better}");
    let open = last(&[50.0, 60.0, 45.0], &[40.0, 55.0, 52.0]);
    assert!(open.contains("than by taking turns is undecided: "), "{open}");
    let once = last(&[30.0], &[40.0]);
    assert!(!once.contains("taking turns"), "one block has no interval: {once}");
}

#[test]
fn the_study_of_the_fixture_reads_like_this() {
    let advice = study().advice;
    check_advice(
        &advice,
        &[
            "Beside reports, shop runs at 0.41 of its speed alone",
            "cores are what they compete for",
            "reports",
            "1.32 times the work of taking turns (95 % interval ",
        ],
    );
    assert_eq!(study().points.iter().map(|point| point.window_s).sum::<f64>(), 6.0 * WINDOW_S);
}
