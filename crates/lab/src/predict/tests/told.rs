//! What predictions tell of the runs on which they rest: what failed in them, and who kept the cores.

use plimsoll_machine::busy_processes::BusyProcesses;

use super::{EXPERIMENT, alone_only, request, run};
use crate::predict::{Model, predict};
use crate::results::{Aborted, FailedRequests, Results};

#[test]
fn others_on_the_machine_are_named_with_what_they_used() {
    let mut alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, _| {});
    let cores = alone.machine.cores_usable as f64;
    let mix = |alone: &Results| {
        let predicted = predict(alone, None, &request(Some("long.clients=30"), Model::Mva)).expect("known key");
        predicted.mixes[0].clone()
    };
    let keep = |alone: &mut Results, share: f64| {
        for point in &mut alone.points {
            point.device.busy_cores_others = Some(share * cores);
            point.others = vec![BusyProcesses { name: "make".to_owned(), count: 2, cores: share * cores }];
        }
    };
    let told = format!(
        "other processes on this machine, or its host, kept {busy:.2} of {cores} cores busy during the runs: make (2 processes) \
         {busy:.2} cores",
        busy = 0.75 * cores
    );
    keep(&mut alone, 0.05);
    assert!(!mix(&alone).cautions.iter().any(|caution| caution.starts_with("other processes")));
    keep(&mut alone, 0.75);
    assert!(mix(&alone).cautions.iter().any(|caution| caution.starts_with(&told)), "{:?}", mix(&alone).cautions);

    // What others took differs from block to block by more than a model can know.
    for point in alone.points.iter_mut().filter(|point| point.repeat == 1) {
        point.workloads.iter_mut().for_each(|one| one.all.latency_us.as_mut().expect("it answers").mean *= 1_000.0);
    }
    let refused = mix(&alone).refused.expect("nothing is known within a factor of ten");
    assert!(refused.contains(&format!("because {told}; stop them, and run it again")), "{refused}");
    keep(&mut alone, 0.0);
    let refused = mix(&alone).refused.expect("nor is it without others");
    assert!(!refused.contains("other processes") && refused.contains("from block to block"), "{refused}");
}

/// Runs without any sound one beside a workload were an advice to look elsewhere for the reason.
#[test]
fn what_failed_is_told_with_predictions() {
    let mut alone = run(&alone_only(EXPERIMENT), 1.0, 0.0, |_, one| {
        if one.name == "short" {
            one.all.completed = 75;
            one.aborted = Aborted { deadlock: 7, error: 25, ..Aborted::default() };
            let (code, message) = (Some("22012".to_owned()), "division by zero".to_owned());
            one.failed = vec![FailedRequests { code, message, first: None, count: 25 }];
        }
    });
    let asked = request(Some("long.clients=30"), Model::Mva);
    let cautions = predict(&alone, None, &asked).expect("known key").failed.join("\n");
    assert!(
        cautions.contains(
            "short: 400 of 1\u{202f}600 requests failed (25 %), most of them with 22012 division by zero; the model"
        ) && cautions.contains("attempts were run again, which the model does not know: short: 112 deadlock victims"),
        "{cautions}"
    );
    let why = "could not connect: FATAL 53300: too many clients already";
    let mut of_short = alone.points.iter_mut().filter(|point| point.arm == "alone:short");
    let first = of_short.next().expect("four repeats");
    (first.valid, first.why_invalid) = (false, Some(why.to_owned()));
    let cautions = predict(&alone, None, &asked).expect("three are left").failed.join("\n");
    assert!(cautions.contains(&format!("runs are invalid and were left out: {why}")), "{cautions}");
    for point in alone.points.iter_mut().filter(|point| point.arm == "alone:short") {
        (point.valid, point.why_invalid) = (false, Some(why.to_owned()));
    }
    let error = predict(&alone, None, &asked).expect_err("none is left").to_string();
    let mut mixed = run(EXPERIMENT, 1.2, 0.0, |_, _| {});
    mixed.estimates.retain(|cell| cell.arm != "together");
    for point in mixed.points.iter_mut().filter(|point| point.arm == "together") {
        (point.valid, point.why_invalid) = (false, Some(why.to_owned()));
    }
    let of_mixes = predict(&mixed, None, &request(None, Model::Mva)).expect_err("no mix is left").to_string();
    assert!(of_mixes.contains(&format!("several workloads together is invalid: {why}")), "{of_mixes}");
    assert_eq!(error, format!("every run of `short` alone is invalid: {why}. Run it again without that"));
}
