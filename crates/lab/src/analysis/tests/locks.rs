//! Lock waits over repeats, and the effect of policies on classes.

use super::*;
use crate::histograms::WorkloadHistograms;
use crate::results::ClaimVerdict;
use crate::results::{GovernedClass, Interval, Lengths, LockStatistics, Part, PolicyEffect, TimeShare};

const POLICIES: &str = r#"
name = "policies"
[[workload]]
name = "oltp"
kind = "tpcc"
clients = 4
priority = "high:0.5"
[sweep]
lock_policy = ["standard", "nprio", "cr(300ms)"]
think = ["exp 20ms", "exp 5ms"]
[run]
repeats = 3
[[claim]]
text = "the average of the table"
holds = 'average(t in think: gain("cr(300ms)", high, t)) > 2 and average(t in think: penalty(nprio, low, t)) < 1.4'
[[claim]]
text = "waits for holders"
holds = "wait_excess(nprio, high) == 100 and preemptions(nprio, low) == 10% and waits(nprio) == 1"
[[claim]]
text = "nothing was rolled back"
holds = "work_lost(nprio, high) > 0"
"#;

/// Mean latencies of high and low, microseconds: high gains more under the heavier load.
fn means(policy: &str, think: &str) -> [f64; 2] {
    let load = if think == "exp 5ms" { 2.0 } else { 1.0 };
    match policy {
        "standard" => [1_000.0 * load, 1_000.0 * load],
        "nprio" => [500.0, 1_200.0 * load],
        _ => [400.0, 1_500.0 * load],
    }
}

fn part(mean: f64, preempted: u64) -> (Part, Latencies) {
    let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("sound bounds");
    (0..200).for_each(|_| histogram.record(mean as u64).expect("within bounds"));
    let mut latency = crate::results::Latency::of(&histogram).expect("not empty");
    latency.mean = mean;
    let waits = Lengths::of(&histogram, 200.0 * 100.0);
    let locks = LockStatistics {
        requests: 200,
        requests_by_waits: vec![0, 200],
        requests_by_preemptions: vec![200 - preempted, preempted],
        response_s: 200.0 * mean / 1e6,
        queue_time_us: waits,
        wait_excess_us: waits,
        work_lost_us: Lengths { count: preempted, mean: (preempted > 0).then_some(50.0), ..Lengths::default() },
        rollback_s: Some(0.0),
        ..LockStatistics::default()
    };
    let part = Part {
        completed: 200,
        throughput_per_s: 20.0,
        latency_us: Some(latency),
        locks: Some(locks),
        ..Part::default()
    };
    (part, Latencies::of(&histogram))
}

/// The experiment with runs whose latencies have this deviation.
fn measured(deviation: f64, change: impl Fn(&mut RunRecord)) -> (Plan, Vec<RunRecord>, Results) {
    let plan = plan(POLICIES);
    let mut noise = Noise::new(5, deviation);
    let mut records = measure(&plan, |_, _, _| 40.0);
    for record in &mut records {
        let text = |key: &str| record.point.setting[key].as_str().expect("text").to_owned();
        let of_run = means(&text("lock_policy"), &text("think"));
        let (result, histograms) = (&mut record.point.workloads[0], &mut record.histograms[0]);
        for (class, mean) in ["high", "low"].into_iter().zip(of_run) {
            let (part, latencies) = part(mean * noise.factor(), if class == "low" { 20 } else { 0 });
            result.classes.insert(class.to_owned(), part);
            histograms.locks.queue_time.insert(class.to_owned(), latencies.clone());
            histograms.classes.insert(class.to_owned(), latencies);
        }
        let of_classes: Vec<_> = result.classes.values().filter_map(|part| part.locks.as_ref()).collect();
        result.all.locks = Some(LockStatistics::merged(&of_classes));
    }
    records.iter_mut().for_each(change);
    let results = results(&plan, &records);
    (plan, records, results)
}

fn effect<'a>(results: &'a Results, policy: &str, class: &str) -> &'a PolicyEffect {
    let mut found = results.policies.iter().filter(|effect| effect.value == policy && effect.class == class);
    found.next().unwrap_or_else(|| panic!("no {policy} {class}: {:?}", results.policies))
}

#[test]
fn policies_are_averaged_over_what_else_was_swept() {
    let (_, _, results) = measured(0.0, |_| {});
    let classes: Vec<&str> = results.policies.iter().map(|effect| effect.class.as_str()).collect();
    assert_eq!(classes, ["high", "low", "high", "low"]);
    let nprio = effect(&results, "nprio", "high");
    // 1000 / 500 and 2000 / 500.
    assert!(is_near(nprio.gain.value, 3.0) && is_near(nprio.penalty.value, 0.375), "{nprio:?}");
    assert_eq!((nprio.settings, nprio.settings_left_out, nprio.preemptions_per_request), (2, 0, Some(0.0)));
    let low = effect(&results, "cr(300ms)", "low");
    assert!(is_near(low.penalty.value, 1.5) && is_near(low.gain.value, 1.0 / 1.5), "{low:?}");
    assert_eq!(low.preemptions_per_request, Some(0.1));
}

#[test]
fn what_one_policy_lacks_is_left_out_for_all() {
    let (_, _, results) = measured(0.0, |record| {
        if record.point.setting["lock_policy"] == "cr(300ms)" && record.point.setting["think"] == "exp 5ms" {
            record.point.valid = false;
        }
    });
    let nprio = effect(&results, "nprio", "high");
    assert!(is_near(nprio.gain.value, 2.0), "{nprio:?}");
    assert_eq!((nprio.settings, nprio.settings_left_out), (1, 1));
}

#[test]
fn intervals_of_policies_hold_the_truth_and_are_those_of_blocks() {
    let (_, _, results) = measured(0.05, |_| {});
    for (policy, class, truth) in [("nprio", "high", 3.0), ("cr(300ms)", "high", 3.75), ("nprio", "low", 1.0 / 1.2)] {
        let gain = effect(&results, policy, class).gain;
        let (low, high) = (gain.low.expect("repeated"), gain.high.expect("repeated"));
        assert!(low < truth && truth < high && high / low < 1.6, "{policy} {class}: {gain:?}");
    }
    let plan = plan(POLICIES);
    let one_class = super::results(&plan, &measure(&plan, |_, _, _| 40.0));
    assert!(one_class.policies.is_empty(), "one class gains at nobody's cost");
}

const WORKLOADS: &str = r#"
name = "workloads"
arms = ["alone:shop", "together"]
[[workload]]
name = "shop"
kind = "tpcc"
priority = "high"
[[workload]]
name = "reports"
kind = "tpcc"
[sweep]
governor = ["none", "on", "off"]
[run]
repeats = 3
[[claim]]
text = "the shop gains"
holds = "gain(on, high, together) > 3.9 and gain(on, shop, together) > 3.9 and gain(on, high, together) < 4.1"
[[claim]]
text = "reports pay"
holds = "penalty(on, low) > 1.2 and penalty(on, low) < 1.3"
"#;

/// Story: an important workload ran beside one that was not, each with a class of its own. The report did not mention
/// the gains and losses, because it looked for classes within one workload only.
#[test]
fn workloads_with_a_class_each_gain_and_pay_at_each_others_cost() {
    let plan = plan(WORKLOADS);
    let mut records = measure(&plan, |_, _, _| 40.0);
    for record in &mut records {
        let governor = record.point.setting["governor"].as_str().expect("text").to_owned();
        for (result, histograms) in record.point.workloads.iter_mut().zip(&mut record.histograms) {
            let is_shop = result.name == "shop";
            let mean = match (is_shop, governor.as_str()) {
                (true, "on") => 500.0,
                (true, _) => 2_000.0,
                (false, "on") => 1_250.0,
                (false, _) => 1_000.0,
            };
            let (part, latencies) = part(mean, 0);
            let class = if is_shop { "high" } else { "low" };
            result.all.latency_us = part.latency_us;
            (result.classes, histograms.classes) =
                ([(class.to_owned(), part)].into(), [(class.to_owned(), latencies)].into());
        }
    }
    let results = results(&plan, &records);
    let told: Vec<_> = results
        .policies
        .iter()
        .map(|effect| (effect.value.as_str().expect("text"), effect.arm.as_str(), effect.who(), effect.gain.value))
        .collect();
    let who = |workload: &str, class: &str| format!("{workload}, {class}");
    assert_eq!(
        told,
        [
            ("on", "together", who("shop", "high"), 4.0),
            ("on", "together", who("reports", "low"), 0.8),
            ("off", "together", who("shop", "high"), 1.0),
            ("off", "together", who("reports", "low"), 1.0),
        ]
    );
    assert!(results.policies.windows(2).all(|pair| pair[0].is_beside(&pair[1])));
    let judged: Vec<_> = results.claims.iter().map(|claim| (claim.verdict, claim.why_not.as_deref())).collect();
    assert_eq!(judged, [(ClaimVerdict::Holds, None), (ClaimVerdict::Holds, None)]);
}

/// Story: under a governor the reports lost a third of their throughput, and the cause was not visible: they may have
/// waited for admission, been rolled back, or waited for a core.
#[test]
fn levers_tell_what_they_took_of_each_class() {
    let plan = plan(WORKLOADS);
    let mut records = measure(&plan, |_, _, _| 40.0);
    let governed = |class: &str, wait: f64, rolled_back: u64| GovernedClass {
        class: class.to_owned(),
        transactions: 100,
        transaction_s: 2.0,
        admission_wait_s: wait,
        rolled_back,
    };
    let share = TimeShare::with_rest([Some(0.2), Some(0.3), Some(0.0), None, Some(0.1), None]);
    for record in &mut records {
        if record.point.setting["governor"] != "none" {
            record.point.workloads.iter_mut().for_each(|workload| workload.all.time_share = Some(share));
            let idle = GovernedClass { transactions: 0, ..governed("batch", 0.0, 0) };
            record.point.governor = vec![governed("high", 0.0, 0), governed("low", 0.5, 7), idle];
        }
    }
    let results = results(&plan, &records);
    let classes: Vec<_> = results.levers.iter().map(|used| (used.arm.as_str(), used.class.as_str())).collect();
    let each = [("alone:shop", "high"), ("alone:shop", "low"), ("together", "high"), ("together", "low")];
    let mut expect = [each, each].concat();
    let mut found = classes.clone();
    expect.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expect, "without a governor, and of a class without transactions, there is nothing to tell");
    let low = results.levers.iter().find(|used| used.arm == "together" && used.class == "low").expect("it is there");
    assert!(is_near(low.admission_wait_us, 5_000.0) && is_near(low.admission_share.expect("known"), 0.25), "{low:?}");
    assert!(
        is_near(low.rolled_back_per_transaction, 0.07) && is_near(low.core_wait_share.expect("known"), 0.3),
        "{low:?}"
    );
    assert_eq!(low.work_lost_share, None);
    assert_eq!(low.why_not, ["a governor counts rollbacks, not the age of the transactions that it rolls back"]);
    assert_eq!(low.transactions, 300, "over all repeats");
    let high = results.levers.iter().find(|used| used.class == "high").expect("it is there");
    assert_eq!(high.work_lost_share, Some(0.0));

    // Within one workload the scheduler distinguishes sessions, not classes.
    for record in &mut records {
        for workload in &mut record.point.workloads {
            workload.classes.insert("high".to_owned(), Part::default());
        }
    }
    let mixed = super::results(&plan, &records).levers;
    let low = mixed.iter().find(|used| used.class == "low" && used.arm == "together").expect("it is there");
    assert!(low.core_wait_share.is_none() && low.why_not[1].contains("its own workload"), "{low:?}");

    let text = crate::table::render(&results, &[]);
    assert!(text.contains("Which lever took it") && text.contains("5.00 ms"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let page = crate::report::render(&results);
    assert!(
        page.contains("Which lever took it") && page.contains("not the age of the transactions that it rolls back")
    );
}

/// Story: the report said that a class "gains 0.8", which is a loss, and that one "pays 0.98" although no effect was
/// visible.
#[test]
fn what_is_seen_of_a_policy_depends_on_its_interval() {
    let (_, _, results) = measured(0.0, |_| {});
    let interval = |value: f64, low: f64, high: f64| Interval { value, low: Some(low), high: Some(high) };
    let effect = |gain: Interval, penalty: Interval| PolicyEffect { gain, penalty, ..results.policies[0].clone() };
    let slower = effect(interval(0.8, 0.7, 0.9), interval(1.25, 1.1, 1.4));
    let faster = effect(interval(1.25, 1.1, 1.4), interval(0.8, 0.7, 0.9));
    let same = effect(interval(1.02, 0.95, 1.1), interval(0.98, 0.91, 1.05));
    let seen = |effect: &PolicyEffect, pays: bool| {
        let (word, by) = effect.seen(pays);
        (word, by.value)
    };
    assert_eq!([seen(&slower, false), seen(&slower, true)], [("loses", 1.25), ("pays", 1.25)]);
    assert_eq!([seen(&faster, false), seen(&faster, true)], [("gains", 1.25), ("gains", 1.25)]);
    assert_eq!([seen(&same, false), seen(&same, true)], [("no difference seen", 1.02), ("no difference seen", 0.98)]);
    // A single run has no interval, so the factor alone decides.
    let once = |value: f64| Interval { value, low: None, high: None };
    assert_eq!(seen(&effect(once(0.8), once(1.25)), false), ("loses", 1.25));
}

#[test]
fn lock_waits_of_repeats_are_put_together() {
    let (_, _, results) = measured(0.0, |_| {});
    let estimate = &results.estimates[0];
    let locks = estimate.measured.classes["low"].locks.as_ref().expect("every run has them");
    assert_eq!((locks.requests, locks.waits(), locks.preemptions()), (600, 600, 60));
    assert_eq!((locks.queue_time_us.mean, locks.queue_time_us.p95.is_some()), (Some(100.0), true));
    assert_eq!(locks.wait_excess_us.p95, None, "without histograms there are no percentiles");

    let forget = |histograms: &mut WorkloadHistograms| histograms.locks.queue_time.clear();
    let (_, _, results) = measured(0.0, |record| {
        if record.id.repeat == 2 {
            record.histograms.iter_mut().for_each(forget);
        }
    });
    let locks = results.estimates[0].measured.classes["low"].locks.as_ref().expect("every run has them");
    assert_eq!((locks.waits(), locks.queue_time_us.p95), (600, None), "of a part of the runs there are none");

    let (_, _, results) = measured(0.0, |record| {
        if record.id.repeat == 2 {
            record.point.workloads[0].classes.get_mut("low").expect("there").locks = None;
        }
    });
    assert!(results.estimates[0].measured.classes["low"].locks.is_none());
    assert!(results.estimates[0].measured.classes["high"].locks.is_some());
}

#[test]
fn claims_are_judged_by_lock_statistics_and_averages() {
    let (plan, records, results) = measured(0.02, |_| {});
    let told: Vec<_> = results.claims.iter().map(|claim| claim.verdict).collect();
    let expect = [ClaimVerdict::Holds, ClaimVerdict::Holds, ClaimVerdict::NotJudged];
    assert_eq!(told, expect, "{:?}", results.claims);
    let why = results.claims[2].why_not.as_deref().expect("a reason");
    assert!(why.ends_with("no attempt was preempted"), "{why}");

    let mut mute = records.clone();
    for result in mute.iter_mut().map(|record| &mut record.point.workloads[0]) {
        result.all.locks = None;
        result.classes.values_mut().for_each(|part| part.locks = None);
    }
    let claims = super::results(&plan, &mute).claims;
    let why = claims[1].why_not.as_deref().expect("a reason");
    assert!(why.ends_with("this target cannot tell lock waits apart"), "{why}");
}
