//! Every way to fail, at every rate, for the commands that build on runs: `predict`, `advise` and `study`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plimsoll_lab::limits::NoLimits;
use plimsoll_lab::results::Results;
use plimsoll_lab::runner::Watch;
use plimsoll_lab::study::{Lengths, Sides, Study, run_pilot};
use plimsoll_lab::{advise, predict, table};

use super::target::Failing;
use super::{SHORT, W, loses_the_server, measured, run_text, told};

/// Each way to fail, how often it does, and the words for it. The first 99 connections succeed at 1 %.
const WAYS: [(&str, u64, &str); 18] = [
    ("error", 1, "22012 division by zero"),
    ("error", 50, "22012 division by zero"),
    ("error", 100, "22012: division by zero"),
    ("timeout", 1, "57014 canceling statement due to statement timeout"),
    ("timeout", 50, "57014 canceling statement due to statement timeout"),
    ("timeout", 100, "57014: canceling statement due to statement timeout"),
    ("deadlock", 1, "deadlock victims"),
    ("deadlock", 50, "deadlock victims"),
    ("deadlock", 100, "40P01 deadlock detected"),
    ("connection", 1, "could not connect: FATAL 53300: too many clients already"),
    ("connection", 50, "could not connect: FATAL 53300: too many clients already"),
    ("connection", 100, "could not connect: FATAL 53300: too many clients already"),
    ("restart", 1, "the connection was lost: the server closed the connection"),
    ("restart", 50, "the connection was lost: the server closed the connection"),
    ("restart", 100, "the connection was lost: the server closed the connection"),
    ("killed", 1, "the connection was lost: FATAL 57P01: terminating connection"),
    ("killed", 50, "the connection was lost: FATAL 57P01: terminating connection"),
    ("killed", 100, "the connection was lost: FATAL 57P01: terminating connection"),
];

/// A target of which the hundredth connection is the second of the third run.
fn before_the_hundredth() -> Failing {
    let failing = Failing::default();
    failing.connections.store(94, Ordering::Relaxed);
    failing
}

/// A prediction, and advice, from runs of which something failed: they say what, or are refused for it.
#[test]
fn predictions_and_advice_tell_what_failed() {
    let both = format!("{W}{}{SHORT}", W.replace("\"w\"", "\"v\""));
    let mixes = predict::Request { vary: None, workloads: Vec::new(), model: "idd".parse().unwrap() };
    let promise = advise::Request { slo: "w.p95 < 1s".parse().unwrap(), vary: None, maximise: None };
    let answers = |results: &Results| {
        let predicted = predict::predict(results, None, &mixes);
        let advised = advise::advise(results, &promise);
        [
            predicted.map(|predicted| table::prediction::render(&predicted)).map_err(|error| error.to_string()),
            advised.map(|advised| table::advice::render(&advised)).map_err(|error| error.to_string()),
        ]
        .map(|answer| answer.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    for answer in answers(&measured(&Failing::default(), ("error", 0), &both)) {
        let text = answer.unwrap();
        assert!(!text.contains("failed") && !text.contains("invalid") && !text.contains("run again"), "{text}");
    }
    for (way, percent, words) in WAYS {
        let results = measured(&before_the_hundredth(), (way, percent), &both);
        let is_known = results.points.iter().any(|point| point.valid && point.arm == "alone:w");
        assert_eq!(
            is_known,
            matches!((way, percent), ("deadlock", 1 | 50) | (_, 1)) && !loses_the_server(way, percent)
        );
        for answer in answers(&results) {
            assert_eq!(answer.is_ok(), is_known, "{way} {percent}: {answer:?}");
            let text = answer.unwrap_or_else(|error| error);
            assert!(text.contains(words), "{way} {percent}: {text}");
        }
    }
}

/// A study has a pilot and runs of transactions and queries.
#[test]
fn studies_tell_what_failed() {
    let targets = Failing::default();
    let lengths = Lengths { warmup: Duration::ZERO, measure: Duration::from_millis(50) };
    for (way, percent, words) in WAYS.into_iter().chain([("error", 0, "")]) {
        let options = BTreeMap::from([("fails".to_owned(), format!("{way} {percent}"))]);
        let study = Study {
            url: "made-up:",
            options: &options,
            cores: 1,
            free_memory: None,
            quick: true,
            seed: 7,
            sides: Sides::default(),
            line: None,
            budget: None,
        };
        targets.opened.store(0, Ordering::Relaxed);
        if percent == 100 {
            assert!(pilot(&targets, &study), "{way}: nothing works in the pilot, and the study says so");
        }
        targets.connections.store(94, Ordering::Relaxed);
        targets.opened.store(0, Ordering::Relaxed);
        let text = study.experiment(lengths).replace("repeats = 5", "repeats = 2");
        let results = run_text(&targets, (way, percent), &text);
        for text in told(&results) {
            assert!(text.contains(words), "{way} {percent}: {text}");
            assert!(percent > 0 || !text.contains("Failed requests") && !text.contains("Invalid runs"), "{text}");
        }
        if percent == 100 {
            assert!(results.points.iter().all(|point| !point.valid), "{way}");
        }
    }
}

/// Whether the pilot of a study lets it begin.
fn pilot(targets: &Failing, study: &Study<'_>) -> bool {
    let stop = AtomicBool::new(false);
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    run_pilot(study, study.url, targets, &mut NoLimits, &mut watch).unwrap_or_else(|error| panic!("{error}")).is_some()
}
