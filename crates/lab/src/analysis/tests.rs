//! The analysis of whole experiments on a target whose response is known.

mod claims;
mod curves;
mod locks;

use serde_json::json;

use super::made_up::{LATENCIES, Noise, measure, plan, pooled, results};
use crate::histograms::Latencies;
use crate::plan::Plan;
use crate::record::RunRecord;
use crate::results::{Estimate, Finding, Results};

const STUDY: &str = r#"
name = "study"
[[workload]]
name = "oltp"
kind = "tpcc"
clients = 4
[[workload]]
name = "olap"
kind = "tpch"
scale = 0.1
[sweep]
dop = [1, 2, 4]
[run]
repeats = 3
"#;

/// Requests per second: queries gain from threads. Together, transactions lose a third and queries nothing.
fn truth(dop: f64, workload: &str, is_alone: bool) -> f64 {
    match (workload, is_alone) {
        ("oltp", true) => 3_000.0,
        ("oltp", false) => 2_000.0,
        _ => 10.0 * dop,
    }
}

/// A study with noise of this deviation, whose runs `change` may alter.
fn study(repeats: u32, seed: u64, deviation: f64, change: impl Fn(&mut RunRecord)) -> (Plan, Vec<RunRecord>, Results) {
    let plan = plan(&STUDY.replace("repeats = 3", &format!("repeats = {repeats}")));
    let mut noise = Noise::new(seed, deviation);
    let mut records = measure(&plan, |id, setting, workload| {
        let dop = setting.swept["dop"].as_f64().expect("a number");
        truth(dop, workload, plan.arms[id.arm].members.len() == 1) * noise.factor()
    });
    records.iter_mut().for_each(change);
    let results = results(&plan, &records);
    (plan, records, results)
}

fn estimate<'a>(results: &'a Results, dop: u64, arm: &str, workload: &str) -> &'a Estimate {
    let mut found =
        results.estimates.iter().filter(|e| e.setting["dop"] == dop && e.arm == arm && e.workload == workload);
    let estimate = found.next().unwrap_or_else(|| panic!("no {dop} {arm} {workload}"));
    assert!(found.next().is_none(), "two of {dop} {arm} {workload}");
    estimate
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// A reader who doubts an estimate can compute it from the points that it names.
#[test]
fn every_estimate_follows_from_the_points_it_names() {
    let (_, records, results) = study(3, 1, 0.03, |_| {});
    assert_eq!(results.estimates.len(), 3 * 4);
    let mut named = 0;
    for estimate in &results.estimates {
        assert_eq!((estimate.runs.len(), &estimate.left_out), (3, &vec![]));
        named += estimate.runs.len();
        let points = estimate.runs.iter().map(|run| &results.points[*run]);
        let of_runs: Vec<_> = points
            .map(|point| {
                assert!(
                    point.valid && !point.is_again && point.setting == estimate.setting && point.arm == estimate.arm
                );
                point.workloads.iter().find(|result| result.name == estimate.workload).expect("it ran")
            })
            .collect();
        let mean = of_runs.iter().map(|result| result.all.throughput_per_s).sum::<f64>() / 3.0;
        assert!(is_near(estimate.throughput_per_s.value, mean));
        let latency = of_runs.iter().map(|result| result.all.latency_us.expect("measured").mean).sum::<f64>() / 3.0;
        assert!(is_near(estimate.mean_latency_us.expect("measured").value, latency));
        let all = pooled(&records, &estimate.runs, &estimate.workload);
        assert_eq!(all.len(), 3 * LATENCIES);
        let told = estimate.measured.all.latency_us.expect("measured");
        let expect = [0.5, 0.9, 0.95].map(|quantile| Some(all.value_at_quantile(quantile)));
        assert_eq!([told.p50, told.p90, told.p95], expect);
        let few = "of 600 requests fewer than ten are beyond the 99th percentile";
        assert_eq!((told.p99, told.p999, told.max), (None, None, all.max()), "{few}");
        for (name, part) in estimate.measured.transactions.iter().chain(&estimate.measured.classes) {
            let of_part =
                of_runs.iter().filter_map(|result| result.transactions.get(name).or(result.classes.get(name)));
            assert_eq!(part.completed, of_part.map(|part| part.completed).sum::<u64>());
            assert!(is_near(part.throughput_per_s, mean));
        }
        assert!(estimate.measured.latency_distribution.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }
    // Each valid run of each workload counts in one estimate; the second runs of the first setting in none.
    let results_of_runs = |is_again: bool| {
        records.iter().filter(|record| record.id.is_again == is_again).map(|record| record.point.workloads.len()).sum()
    };
    assert_eq!(named, results_of_runs(false));
    let again: usize = results_of_runs(true);
    assert_eq!(again, 3 * 4);
}

/// The percentile of a fast run with many requests and a slow one is that of all requests.
#[test]
fn percentiles_are_those_of_all_requests_and_not_averages() {
    let (_, records, results) = study(2, 2, 0.0, |record| {
        if record.id.repeat == 2 {
            // A tenth of the requests, each a hundred times as long.
            for workload in &mut record.histograms {
                let parts = workload.transactions.values_mut().chain(workload.classes.values_mut());
                for latencies in parts {
                    let mut histogram = latencies.histogram();
                    let longer: Vec<u64> =
                        histogram.iter_recorded().map(|step| step.value_iterated_to() * 100).collect();
                    histogram.reset();
                    longer.iter().step_by(10).for_each(|value| histogram.record(*value).expect("within bounds"));
                    *latencies = Latencies::of(&histogram);
                }
            }
        }
    });
    let estimate = estimate(&results, 1, "alone:oltp", "oltp");
    let told = estimate.measured.all.latency_us.expect("measured");
    let all = pooled(&records, &estimate.runs, "oltp");
    assert_eq!(told.p50, Some(all.value_at_quantile(0.5)));
    let average = |quantile: f64| {
        let of_run = |run: &usize| pooled(&records, &[*run], "oltp").value_at_quantile(quantile) as f64;
        estimate.runs.iter().map(of_run).sum::<f64>() / 2.0
    };
    let p50 = told.p50.expect("enough") as f64;
    assert!(average(0.5) > 10.0 * p50, "the average of medians is {} and the median {p50}", average(0.5));
}

#[test]
fn histograms_of_a_part_of_the_runs_pass_for_nothing() {
    let (_, _, results) = study(3, 3, 0.01, |record| {
        if record.id.repeat == 2 && record.point.arm == "together" {
            record.histograms.clear();
        }
    });
    let lacking = estimate(&results, 2, "together", "oltp");
    let lacking = &lacking.measured;
    assert!(lacking.latency_distribution.is_empty());
    for part in [&lacking.all, &lacking.transactions["new_order"]] {
        let latency = part.latency_us.expect("the mean of each run is in its point");
        assert_eq!((latency.p50, latency.p90), (None, None));
    }
    assert!(estimate(&results, 2, "alone:oltp", "oltp").measured.all.latency_us.is_some());
}

#[test]
fn invalid_runs_count_for_nothing_and_are_named() {
    let (_, records, results) = study(3, 4, 0.01, |record| {
        let is_hit = (record.id.setting, record.id.repeat) == (1, 2) || record.id.setting == 2;
        if is_hit && record.point.arm == "together" {
            record.point.valid = false;
            record.point.why_invalid = Some("made up".to_owned());
            record.point.workloads.iter_mut().for_each(|result| result.all.throughput_per_s *= 100.0);
        }
    });
    let invalid = |setting: usize| {
        let runs = records.iter().enumerate().filter(|(_, record)| record.id.setting == setting && !record.point.valid);
        runs.map(|(run, _)| run).collect::<Vec<_>>()
    };
    let hit = estimate(&results, 2, "together", "oltp");
    assert_eq!((hit.runs.len(), &hit.left_out), (2, &invalid(1)));
    assert!(is_within(hit.throughput_per_s.value, 2_000.0, 0.05), "{hit:?}");
    assert_eq!(estimate(&results, 2, "alone:oltp", "oltp").left_out, [0_usize; 0]);
    // Without a valid run there is no estimate and no ratio, but the points give the reason.
    assert!(results.estimates.iter().all(|e| e.setting["dop"] != 4 || e.arm != "together"));
    assert!(results.interference.iter().all(|i| i.setting["dop"] != 4));
    assert_eq!(invalid(2).len(), 3);
    for run in invalid(2) {
        assert_eq!(results.points[run].why_invalid.as_deref(), Some("made up"));
    }
    let floor = results.noise_floor["oltp"].deviation.expect("repeated");
    assert!(floor < 0.05, "noise of {floor}: an invalid run counted");
}

#[test]
fn the_run_apart_is_named_and_still_counts() {
    let (_, records, results) = study(3, 5, 0.01, |record| {
        if (record.id.setting, record.id.repeat, record.id.is_again) == (1, 3, false)
            && record.point.arm == "alone:oltp"
        {
            record.point.workloads[0].all.throughput_per_s = 1_500.0;
        }
    });
    let apart = records
        .iter()
        .position(|record| record.id.setting == 1 && record.id.repeat == 3 && record.point.arm == "alone:oltp");
    let hit = estimate(&results, 2, "alone:oltp", "oltp");
    assert_eq!((&hit.outliers, hit.runs.len()), (&vec![apart.expect("it ran")], 3));
    assert!(is_within(hit.throughput_per_s.value, 2_500.0, 0.05), "{hit:?}");
    let others = results.estimates.iter().filter(|other| !std::ptr::eq(*other, hit)).map(|other| other.outliers.len());
    assert!(others.sum::<usize>() <= 1, "noise is seldom far");
}

fn is_within(value: f64, truth: f64, share: f64) -> bool {
    (value / truth - 1.0).abs() <= share
}

#[test]
fn intervals_cover_the_truth() {
    let (mut covered, mut count) = (0, 0);
    for seed in 0..200 {
        let (_, _, results) = study(3, 100 + seed, 0.05, |_| {});
        for estimate in &results.estimates {
            let dop = estimate.setting["dop"].as_f64().expect("a number");
            let truth = truth(dop, &estimate.workload, estimate.arm.starts_with("alone"));
            let interval = estimate.throughput_per_s;
            let (low, high) = (interval.low.expect("repeated"), interval.high.expect("repeated"));
            covered += usize::from((low..=high).contains(&truth));
            count += 1;
        }
    }
    let share = covered as f64 / f64::from(count);
    assert!((0.90..=0.99).contains(&share), "{covered} of {count}");
}

#[test]
fn interference_is_what_it_is() {
    let (mut slower, mut same, mut covered) = (0, 0, 0);
    for seed in 0..100 {
        let (_, _, results) = study(3, 400 + seed, 0.03, |_| {});
        assert_eq!(results.interference.len(), 6, "two workloads at three settings, in the one arm that is shared");
        for shown in &results.interference {
            assert_eq!(shown.arm, "together");
            let truth = if shown.workload == "oltp" { 2.0 / 3.0 } else { 1.0 };
            let (low, high) = (shown.ratio.low.expect("repeated"), shown.ratio.high.expect("repeated"));
            covered += usize::from((low..=high).contains(&truth));
            match shown.workload.as_str() {
                "oltp" => slower += usize::from(shown.finding == Finding::Slower),
                _ => same += usize::from(shown.finding == Finding::NoDifference),
            }
        }
    }
    assert!(slower >= 295, "{slower} of 300 slowdowns by a third were seen");
    assert!(same >= 285, "{same} of 300 equals were called equal");
    assert!((540..=598).contains(&covered), "{covered} of 600 intervals cover the true ratio");
}

/// Drift that a block shares cancels where arms of the same block are compared.
#[test]
fn drift_of_the_machine_is_no_interference() {
    let (_, _, results) = study(3, 6, 0.005, |record| {
        let drift = [1.0, 0.7, 1.4][record.id.repeat as usize - 1];
        record.point.workloads.iter_mut().for_each(|result| {
            result.all.throughput_per_s *= drift;
            result.transactions.values_mut().for_each(|part| part.throughput_per_s *= drift);
        });
    });
    for shown in results.interference.iter().filter(|shown| shown.workload == "oltp") {
        assert_eq!(shown.finding, Finding::Slower);
        assert!(is_within(shown.ratio.value, 2.0 / 3.0, 0.02), "{shown:?}");
        let width = shown.ratio.high.expect("repeated") / shown.ratio.low.expect("repeated");
        assert!(width < 1.1, "{shown:?}");
    }
    let floor = results.noise_floor["oltp"];
    assert!(floor.deviation.expect("repeated") > 0.2, "the drift is part of one run's deviation: {floor:?}");
    assert!(floor.floor.expect("repeated") < 0.05, "and not of what tells settings apart: {floor:?}");
}

#[test]
fn the_noise_floor_rests_on_every_repeat_and_on_the_setting_that_ran_twice() {
    let (_, records, results) = study(4, 7, 0.02, |_| {});
    for (workload, floor) in &results.noise_floor {
        // Three settings in two arms, and the first setting once more in both: eight rows of four runs.
        assert_eq!(floor.degrees_of_freedom, 8 * 3, "{workload}");
        let deviation = floor.deviation.expect("repeated");
        assert!((0.012..0.03).contains(&deviation), "{workload}: {deviation}");
    }
    // Transactions do not depend on the DOP, so plain means give the difference of the two halves.
    let mean = |arm: &str, is_again: bool| {
        let runs = records
            .iter()
            .filter(|record| record.id.setting == 0 && record.id.is_again == is_again && record.point.arm == arm);
        let of_runs = runs.map(|record| record.point.workloads[0].all.throughput_per_s).collect::<Vec<_>>();
        assert_eq!(of_runs.len(), 4);
        of_runs.iter().sum::<f64>() / 4.0
    };
    let halves = ["alone:oltp", "together"].map(|arm| (mean(arm, false), mean(arm, true)));
    let apart = halves.map(|(first, again)| 1.0 - first.min(again) / first.max(again));
    let told = results.noise_floor["oltp"].repeated_setting.expect("it ran twice");
    assert!(is_near(told, apart[0].max(apart[1])), "{told} {apart:?}");
}

/// A kind of query that ran only in a second run (A/A) has no known cost: then all runs are reported in requests per
/// second, not some of them in seconds of work.
#[test]
fn second_runs_are_measured_in_the_unit_of_the_first() {
    let (_, _, results) = study(3, 9, 0.01, |record| {
        if record.id.is_again && record.point.arm == "alone:olap" {
            let transactions = &mut record.point.workloads[0].transactions;
            let part = transactions["q6"].clone();
            transactions.insert("q9".to_owned(), part);
        }
    });
    let floor = &results.noise_floor["olap"];
    assert!(floor.repeated_setting.expect("one ran twice") < 0.05, "{floor:?}");
    assert!(floor.deviation.expect("repeated") < 0.05, "{floor:?}");
}

#[test]
fn one_repeat_tells_no_spread() {
    let (_, _, results) = study(1, 8, 0.02, |_| {});
    assert!(results.estimates.iter().all(|e| e.throughput_per_s.low.is_none() && e.throughput_per_s.high.is_none()));
    assert!(results.interference.iter().all(|shown| shown.finding == Finding::NotDetermined));
    assert!(results.noise_floor.values().all(|floor| floor.floor.is_none() && floor.deviation.is_none()));
    assert!(results.noise_floor.values().all(|floor| floor.repeated_setting.is_some()), "A/A says what it can");
}

/// Everything follows from the points and their histograms, and is the same each time.
#[test]
fn the_document_can_be_analysed_again() {
    let (_, records, results) = study(3, 9, 0.02, |_| {});
    let mut again = results.clone();
    (again.estimates, again.interference) = (Vec::new(), Vec::new());
    let histograms: Vec<_> = records.iter().map(|record| record.histograms.as_slice()).collect();
    super::complete(&mut again, &histograms);
    assert_eq!(json!(again), json!(results));
}
