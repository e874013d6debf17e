//! Comparisons of runs of targets whose response is known.

use super::*;
use crate::analysis::made_up::{Noise, measure, plan, results};
use crate::plan::Plan;
use crate::results::Results;

const RUN: &str = r#"
name = "run"
[target]
options = { memory = 4 }
[[workload]]
name = "oltp"
kind = "tpcc"
clients = 4
[[workload]]
name = "olap"
kind = "tpch"
scale = 0.1
[sweep]
dop = "1..8"
[run]
repeats = 3
"#;

/// Throughput by setting and workload, times the change of the runs at this DOP, times noise.
fn measured(plan: &Plan, seed: u64, deviation: f64, change: impl Fn(u64) -> f64) -> Results {
    let mut noise = Noise::new(seed, deviation);
    let records = measure(plan, |_, setting, workload| {
        let dop = setting.swept["dop"].as_u64().expect("a number");
        let truth = if workload == "oltp" { 5_000.0 } else { 30.0 * dop as f64 };
        truth * change(dop) * noise.factor()
    });
    results(plan, &records)
}

fn run(text: &str, seed: u64) -> Results {
    measured(&plan(text), seed, 0.02, |_| 1.0)
}

/// A/A: equal runs are called different in no more than the promised one of twenty comparisons.
#[test]
fn a_rerun_is_rarely_a_difference() {
    let is_difference = |answer: Answer| matches!(answer, Answer::Faster | Answer::Slower);
    let plan = plan(RUN);
    for deviation in [0.01, 0.05, 0.10] {
        let (mut differ, mut latencies_differ, mut count) = (0, 0, 0);
        for trial in 0..20 {
            let [base, other] = [2 * trial, 2 * trial + 1].map(|seed| measured(&plan, seed, deviation, |_| 1.0));
            let comparison = compare(&base, &other, MARGIN, false).expect("they can be compared");
            assert_eq!((comparison.points.len(), comparison.unmatched), (32, 0));
            assert_eq!(comparison.differences, [""; 0]);
            for point in &comparison.points {
                differ += usize::from(is_difference(point.throughput_answer));
                latencies_differ += usize::from(is_difference(point.latency_answer));
                count += 1;
            }
        }
        let most = count * 6 / 100;
        assert!(differ <= most, "noise {deviation}: {differ} of {count} equal points differ in throughput");
        assert!(latencies_differ <= most, "noise {deviation}: {latencies_differ} of {count} differ in latency");
    }
}

/// A quiet machine shows that two equal runs differ by no more than 5 %; a noisy one shows nothing, and says so.
#[test]
fn equality_is_shown_where_noise_is_small_and_undecided_where_it_is_not() {
    let plan = plan(RUN);
    let count = |deviation: f64, is: fn(Answer) -> bool| {
        let points = (0..10).flat_map(|trial| {
            let [base, other] = [2 * trial, 2 * trial + 1].map(|seed| measured(&plan, seed, deviation, |_| 1.0));
            compare(&base, &other, MARGIN, false).expect("they can be compared").points
        });
        points.filter(|point| point.workload == "oltp" && is(point.throughput_answer)).count()
    };
    let all = count(0.01, |_| true);
    let equal = count(0.01, |answer| answer == Answer::NoLargerDifference);
    assert!(equal * 100 >= all * 90, "{equal} of {all}");
    let undecided = count(0.10, |answer| matches!(answer, Answer::Undecided { .. }));
    assert!(undecided * 100 >= all * 90, "{undecided} of {all}");
}

/// The error that would hurt: a loss just beyond the margin that is called none.
#[test]
fn a_loss_beyond_the_margin_is_hardly_ever_called_none() {
    let plan = plan(RUN);
    for deviation in [0.01, 0.02, 0.05] {
        let (mut wrong, mut count) = (0, 0);
        for trial in 0..20 {
            let base = measured(&plan, 3_000 + trial, deviation, |_| 1.0);
            let other = measured(&plan, 4_000 + trial, deviation, |_| 1.0 / (1.0 + MARGIN) - 0.001);
            for point in compare(&base, &other, MARGIN, false).expect("they can be compared").points {
                wrong += usize::from(point.throughput_answer == Answer::NoLargerDifference);
                count += 1;
            }
        }
        assert!(wrong * 100 <= count * 3, "noise {deviation}: {wrong} of {count}");
    }
}

#[test]
fn what_changed_is_found_where_it_changed() {
    let plan = plan(RUN);
    let (mut found, mut wrong, mut covered, mut changed) = (0, 0, 0, 0);
    for trial in 0..20 {
        let base = measured(&plan, 1_000 + trial, 0.05, |_| 1.0);
        let other = measured(&plan, 2_000 + trial, 0.05, |dop| if dop <= 4 { 0.7 } else { 1.0 });
        for point in compare(&base, &other, MARGIN, false).expect("they can be compared").points {
            let ratio = point.throughput.expect("both ran");
            if point.setting["dop"].as_u64() <= Some(4) {
                changed += 1;
                found +=
                    usize::from((point.throughput_answer, point.latency_answer) == (Answer::Slower, Answer::Slower));
                covered += usize::from(ratio.low <= Some(0.7) && Some(0.7) <= ratio.high);
                assert!(point.mean_latency.expect("both ran").value > 1.2);
            } else {
                wrong += usize::from(matches!(point.throughput_answer, Answer::Faster | Answer::Slower));
            }
        }
    }
    assert_eq!(changed, 320);
    assert!(found >= 288, "{found} of {changed} changes were found");
    assert!(covered >= 288, "{covered} of {changed} intervals cover the change");
    assert!(wrong <= 20, "{wrong} of 320 differences were seen where there were none");
}

#[test]
fn the_inverse_comparison_is_the_inverse() {
    let plan = plan(RUN);
    let base = measured(&plan, 1, 0.03, |_| 1.0);
    let other = measured(&plan, 2, 0.03, |_| 1.5);
    let (there, back) = (compare(&base, &other, MARGIN, false), compare(&other, &base, MARGIN, false));
    for (there, back) in there.expect("compared").points.iter().zip(&back.expect("compared").points) {
        assert_eq!((&there.setting, &there.arm, &there.workload), (&back.setting, &back.arm, &back.workload));
        assert_eq!((there.throughput_answer, back.throughput_answer), (Answer::Faster, Answer::Slower));
        assert_eq!((there.latency_answer, back.latency_answer), (Answer::Faster, Answer::Slower));
        assert_eq!((&there.base_runs, &there.runs), (&back.runs, &back.base_runs));
        let product = there.throughput.expect("both ran").value * back.throughput.expect("both ran").value;
        // Queries are weighted by their costs in the base, which is another run each time.
        assert!((product - 1.0).abs() < 0.01, "{product}");
    }
}

#[test]
fn every_point_names_its_runs() {
    let (base, other) = (run(RUN, 1), run(&RUN.replace("repeats = 3", "repeats = 5"), 2));
    for point in compare(&base, &other, MARGIN, false).expect("they can be compared").points {
        assert_eq!((point.base_runs.len(), point.runs.len()), (3, 5));
        for (results, runs) in [(&base, &point.base_runs), (&other, &point.runs)] {
            for run in runs {
                let of_run = &results.points[*run];
                assert!(of_run.setting == point.setting && of_run.arm == point.arm && !of_run.is_again);
            }
        }
        if point.workload == "oltp" {
            let mean = |results: &Results, runs: &[usize]| {
                let of_run = |run: &usize| results.points[*run].workloads[0].all.throughput_per_s;
                runs.iter().map(of_run).sum::<f64>() / runs.len() as f64
            };
            let ratio = mean(&other, &point.runs) / mean(&base, &point.base_runs);
            assert!((point.throughput.expect("both ran").value - ratio).abs() < 1e-9);
        }
    }
}

#[test]
fn target_options_repeats_and_swept_values_may_differ() {
    let check = |from: &str, to: &str, differs: &[&str], points: usize, unmatched: usize| {
        let comparison = compare(&run(RUN, 1), &run(&RUN.replace(from, to), 2), MARGIN, false);
        let comparison = comparison.unwrap_or_else(|error| panic!("{to}: {error}"));
        assert_eq!(comparison.differences, differs, "{to}");
        assert_eq!((comparison.points.len(), comparison.unmatched), (points, unmatched), "{to}");
    };
    check("memory = 4", "memory = 8", &["target.memory: \"4\" -> \"8\""], 32, 0);
    check("{ memory = 4 }", "{}", &["only the base has target.memory = \"4\""], 32, 0);
    // Another kind of target has other options, of which a few are named.
    check(
        "{ memory = 4 }",
        "{ policy = 1, lock_policy = 2, cpu_policy = 3, governor = 4 }",
        &[
            "only the base has target.memory = \"4\"",
            "only the other has target.cpu_policy = \"3\", target.governor = \"4\", target.lock_policy = \"2\" and 1 more",
        ],
        32,
        0,
    );
    check("repeats = 3", "repeats = 2", &["run.repeats: 3 -> 2"], 32, 0);
    check("repeats = 3", "repeats = 3\nseed = 8", &["run.seed: 7 -> 8"], 32, 0);
    // Five of eight values in common, and four workloads in three arms at each: three left there, one here.
    check("\"1..8\"", "[4, 5, 6, 7, 8, 9]", &["sweep.dop: [1,2,3,4,5,6,7,8] -> [4,5,6,7,8,9]"], 20, 16);
}

#[test]
fn other_workloads_and_machines_are_refused_unless_asked_for() {
    let base = run(RUN, 1);
    let check = |from: &str, to: &str, expect: &str| {
        let other = run(&RUN.replace(from, to), 2);
        let error = compare(&base, &other, MARGIN, false).expect_err(to);
        assert!(matches!(&error, CompareError::Workloads(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains(expect) && text.contains("--anyway"), "{text}");
        assert!(!compare(&base, &other, MARGIN, true).expect("asked for").points.is_empty());
    };
    check("scale = 0.1", "scale = 0.2", "olap.scale: 0.1 -> 0.2");
    check("clients = 4", "clients = 5", "oltp.clients: 4 -> 5");
    check("clients = 4", "clients = 4\nthink = \"exp 10ms\"", "oltp.think: ");
    check("kind = \"tpcc\"", "kind = \"rows\"", "oltp.kind: \"tpcc\" -> \"rows\"");
    check("repeats = 3", "repeats = 3\nmeasure = \"5s\"", "run.measure_s: 10.0 -> 5.0");
    check("repeats = 3", "repeats = 3\nwarmup = \"5s\"", "run.warmup: ");
    check("repeats = 3", "repeats = 3\nreload = \"never\"", "run.reload: \"when-grown\" -> \"never\"");

    let mut elsewhere = run(RUN, 2);
    elsewhere.machine.cpu_model = "a faster one".to_owned();
    elsewhere.machine_fingerprint = "other".to_owned();
    let error = compare(&base, &elsewhere, MARGIN, false).expect_err("another machine").to_string();
    assert!(error.contains("a faster one, other") && error.contains(&base.machine.cpu_model), "{error}");
    assert_eq!(compare(&base, &elsewhere, MARGIN, true).expect("asked for").points.len(), 32);
}

#[test]
fn nothing_in_common_is_an_error() {
    let other = run(&RUN.replace("\"1..8\"", "[9, 10]"), 2);
    assert_eq!(compare(&run(RUN, 1), &other, MARGIN, false).err(), Some(CompareError::NothingInCommon));
}

#[test]
fn points_without_a_valid_run_are_unmatched() {
    let (base, mut other) = (run(RUN, 1), run(RUN, 2));
    for point in other.points.iter_mut().filter(|point| point.arm == "together" && point.setting["dop"] == 8) {
        point.valid = false;
    }
    let comparison = compare(&base, &other, MARGIN, false).expect("the rest can be compared");
    assert_eq!((comparison.points.len(), comparison.unmatched), (30, 4));
}

/// A run missing from the middle of a series leaves the others in the blocks in which they ran.
#[test]
fn a_lost_run_does_not_move_the_others_to_another_block() {
    let plan = plan(RUN);
    let drift = [1.0, 1.5, 2.0];
    let drifting = |seed: u64| {
        let mut noise = Noise::new(seed, 0.001);
        let records = measure(&plan, |id, _, _| 1_000.0 * drift[id.repeat as usize - 1] * noise.factor());
        results(&plan, &records)
    };
    let (base, mut other) = (drifting(1), drifting(2));
    for point in other.points.iter_mut().filter(|point| point.repeat == 1 && point.setting["dop"] == 3) {
        point.valid = false;
    }
    for point in compare(&base, &other, MARGIN, false).expect("they can be compared").points {
        let ratio = point.throughput.expect("both ran");
        let is_hit = point.setting["dop"] == 3 && point.workload == "oltp";
        assert!(!is_hit || (ratio.value - 1.75 / 1.5).abs() < 0.01, "{ratio:?}");
        let is_hidden = matches!(point.throughput_answer, Answer::Undecided { .. });
        assert!(is_hidden, "the drift of three blocks hides it: {ratio:?}");
    }
}

#[test]
fn runs_without_repeats_cannot_tell() {
    let once = RUN.replace("repeats = 3", "repeats = 1");
    for (a, b) in [(&*once, &*once), (RUN, &*once), (&*once, RUN)] {
        for point in compare(&run(a, 1), &run(b, 2), MARGIN, false).expect("they can be compared").points {
            let ratio = point.throughput.expect("both ran");
            let undecided = Answer::Undecided { loss_max: None, gain_max: None };
            assert_eq!((point.throughput_answer, ratio.low, ratio.high), (undecided, None, None));
        }
    }
}

/// The same run, of which `failed` requests of each hundred of `oltp` failed at this DOP.
fn failing(failed: u64, at: u64) -> Results {
    let mut results = run(RUN, 1);
    for point in results.points.iter_mut().filter(|point| point.setting["dop"] == at) {
        for workload in point.workloads.iter_mut().filter(|workload| workload.name == "oltp") {
            workload.driven.all.completed = 10_000 - 100 * failed;
            workload.driven.aborted.error = 100 * failed;
        }
    }
    results
}

/// Story: half of the requests of one of two runs failed, and there was "no difference seen".
#[test]
fn failures_differ_beyond_chance_or_not_at_all() {
    for (base, other, expect) in [(0, 50, true), (50, 0, true), (2, 3, true), (3, 3, false), (0, 0, false)] {
        let compared = compare(&failing(base, 2), &failing(other, 2), MARGIN, false).expect("they can be compared");
        let found = compared.failures.iter().map(|one| (one.arm.as_str(), one.workload.as_str()));
        let found: std::collections::BTreeSet<_> = found.collect();
        let arms: &[_] = if expect { &[("alone:oltp", "oltp"), ("together", "oltp")] } else { &[] };
        assert_eq!(found, arms.iter().copied().collect(), "{base} and {other} of each hundred");
        assert!(compared.failures.iter().all(|one| one.setting["dop"] == 2));
    }
    // One request in ten thousand is no difference that matters.
    let mut one = failing(0, 2);
    one.points.iter_mut().flat_map(|point| &mut point.workloads).for_each(|workload| workload.driven.aborted.error = 1);
    assert_eq!(compare(&failing(0, 2), &one, MARGIN, false).expect("they can be compared").failures, []);
}

#[test]
fn what_has_no_valid_run_in_one_of_the_two_is_named_with_the_reason() {
    let base = run(RUN, 1);
    let mut other = run(RUN, 2);
    for point in other.points.iter_mut().filter(|point| point.arm == "together" && point.setting["dop"] == 3) {
        (point.valid, point.why_invalid) = (false, Some("the server was lost".to_owned()));
    }
    let compared = compare(&base, &other, MARGIN, false).expect("they can be compared");
    let [missing] = &compared.without_valid_run[..] else { panic!("{:?}", compared.without_valid_run) };
    assert_eq!((missing.arm.as_str(), &missing.setting["dop"]), ("together", &Value::from(3)));
    assert_eq!((missing.base.as_deref(), missing.other.as_deref()), (None, Some("the server was lost")));
    for point in &mut other.points {
        (point.valid, point.why_invalid) = (false, Some("the server was lost".to_owned()));
    }
    let compared = compare(&base, &other, MARGIN, false).expect("the reason is an answer");
    assert_eq!((compared.points.len(), compared.without_valid_run.len()), (0, 24));
}

#[test]
fn the_schema_of_comparisons_in_the_documentation_is_up_to_date() {
    let schema = schemars::schema_for!(Comparison).to_value();
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    plimsoll_testing::check_made("../../docs/comparison.schema.json", &text);
}

/// Each key that is written is described, and each that is described is written.
#[test]
fn comparisons_have_the_keys_of_their_schema() {
    let base = run(RUN, 1);
    let mut other = failing(30, 2);
    other.points.iter_mut().filter(|point| point.arm == "alone:olap").for_each(|point| point.valid = false);
    let compared = compare(&base, &other, MARGIN, false).expect("they can be compared");
    let written = serde_json::to_value(&compared).expect("JSON");
    let schema = schemars::schema_for!(Comparison).to_value();
    let described =
        |of: &Value| -> Vec<String> { of["properties"].as_object().expect("keys").keys().cloned().collect() };
    let keys = |of: &Value| -> Vec<String> { of.as_object().expect("an object").keys().cloned().collect() };
    assert_eq!(keys(&written), described(&schema));
    for (list, name) in
        [("points", "ComparedPoint"), ("failures", "ComparedFailures"), ("without_valid_run", "WithoutValidRun")]
    {
        assert_eq!(keys(&written[list][0]), described(&schema["$defs"][name]), "{list}");
    }
}
