//! Workloads whose requests fail in each way and at each rate, against a made-up target: the share that failed, the reason and
//! whether the run counts are told on the terminal, in the report, in the results and in comparisons.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commands;
mod target;

use std::sync::atomic::AtomicBool;

use plimsoll_lab::compare::{MARGIN, compare};
use plimsoll_lab::document::{Provenance, document, settings};
use plimsoll_lab::experiment::{Terms, parse, resolve};
use plimsoll_lab::limits::NoLimits;
use plimsoll_lab::plan::Plan;
use plimsoll_lab::results::Results;
use plimsoll_lab::runner::{RunProgress, Runner, Selection, Watch};
use plimsoll_lab::table::{self, comparison};
use plimsoll_lab::{report, run_directory};
use plimsoll_machine::MachineFacts;

use target::Failing;

/// A workload of two clients.
const W: &str =
    "[[workload]]\nname = \"w\"\nkind = \"rows\"\nscale = 0.001\nparameters = { rows = 1, updates = 0 }\nclients = 2\n";

/// Two short repeats.
const SHORT: &str = "[run]\nwarmup = \"0s\"\nmeasure = \"50ms\"\nrepeats = 2\n";

/// One workload, two repeats.
fn run(way: &str, percent: u64, of_run: &str) -> Results {
    measured(&Failing::default(), (way, percent), &format!("{W}{SHORT}{of_run}\n"))
}

/// Runs workloads against a target that fails in this way.
fn measured(targets: &Failing, (way, percent): (&str, u64), workloads: &str) -> Results {
    let text = format!(
        "name = \"failing\"\n[target]\nurl = \"made-up:\"\noptions = {{ fails = \"{way} {percent}\" }}\n{workloads}"
    );
    run_text(targets, (way, percent), &text)
}

fn run_text(targets: &Failing, (way, percent): (&str, u64), text: &str) -> Results {
    let terms = Terms { others_max: Some(1000.0), ..Terms::here(targets, false) };
    let resolved = parse(text, "x.toml").and_then(|experiment| resolve(&experiment, &terms));
    let plan: Plan = resolved.unwrap_or_else(|error| panic!("{error}"));
    let stop = AtomicBool::new(false);
    let mut is_away_told = false;
    let mut progress = |progress: RunProgress<'_>| {
        is_away_told |= matches!(progress, RunProgress::Disturbed { why, .. } if why.contains("the server is away"));
    };
    let mut watch = Watch { progress: &mut progress, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let outcome = Runner::new(&plan, targets, &mut NoLimits).run(&Selection::default(), Vec::new(), &mut watch);
    assert_eq!(
        is_away_told,
        loses_the_server(way, percent),
        "{way} {percent}: waiting for a server is told, and only that"
    );
    let records = outcome.unwrap_or_else(|error| panic!("{way} {percent}: {error}")).records;
    let provenance = Provenance {
        version: "0".to_owned(),
        commit: None,
        started: "2026-01-01T00:00:00Z".to_owned(),
        elapsed_s: 1.0,
    };
    document(&plan, settings(&plan, targets), provenance, MachineFacts::read(), &records, Vec::new())
}

fn loses_the_server(way: &str, percent: u64) -> bool {
    percent > 0 && ["restart", "killed"].contains(&way)
}

/// The text on the terminal and that of the report, each on one line.
fn told(results: &Results) -> [String; 2] {
    let terminal = table::render(results, &[]);
    [terminal, report::render(results)].map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Requests that fail and are counted: the share, the reason, and whether the runs count.
#[test]
fn requests_that_fail_are_told_with_their_share_and_reason() {
    for (way, code, words) in
        [("error", "22012", "division by zero"), ("timeout", "57014", "canceling statement due to statement timeout")]
    {
        let sound = run(way, 0, "");
        assert!(sound.points.iter().all(|point| point.valid && point.workloads[0].aborted.error == 0));
        assert!(told(&sound).iter().all(|text| !text.contains("Failed requests") && !text.contains("What failed")));
        for percent in [1, 50] {
            let results = run(way, percent, "");
            for point in &results.points {
                let workload = &point.workloads[0];
                let (failed, completed) = (workload.aborted.error, workload.all.completed);
                let share = failed as f64 / (failed + completed) as f64;
                assert!((share - percent as f64 / 100.0).abs() < 0.01, "{way} {percent}: {share}");
                let reasons = &workload.failed;
                assert_eq!(
                    (reasons.len(), reasons[0].code.as_deref(), reasons[0].message.as_str()),
                    (1, Some(code), words)
                );
                assert_eq!(reasons[0].count, failed);
                assert_eq!(point.valid, percent == 1, "{:?}", point.why_invalid);
            }
            for text in told(&results) {
                assert!(
                    text.contains("requests") && text.contains(code) && text.contains(words),
                    "{way} {percent}: {text}"
                );
                assert_eq!(
                    text.contains("allows 5.0 %"),
                    percent == 50,
                    "the bound is named where it is exceeded: {text}"
                );
            }
            let compared = compare(&sound, &results, MARGIN, true).unwrap();
            assert_eq!(compared.failures.len(), 1, "{way} {percent}: a difference in failures is a difference");
            let first = comparison::render(&compared).lines().next().unwrap().to_owned();
            assert!(first.starts_with("failures differ: w in alone:w: requests that failed: 0 of"), "{first}");
        }
        let allowed = run(way, 50, "failed_max = 0.6");
        assert!(allowed.points.iter().all(|point| point.valid), "a workload of which half may fail");
    }
}

/// Where nothing works at all, each run ends early, is invalid, and names the reason; the experiment goes on.
#[test]
fn runs_of_which_nothing_works_are_invalid_with_their_reason() {
    for (way, why) in [
        (
            "error",
            "the first 100 requests of every client failed, the last one with: statement of a test: ERROR 22012: division by zero",
        ),
        ("timeout", "57014: canceling statement due to statement timeout"),
        ("deadlock", "40P01 deadlock detected"),
        ("connection", "could not connect: FATAL 53300: too many clients already"),
        ("restart", "the connection was lost: the server closed the connection"),
        ("killed", "the connection was lost: FATAL 57P01: terminating connection"),
    ] {
        let results = run(way, 100, "");
        assert_eq!(results.points.iter().map(|point| point.valid).collect::<Vec<_>>(), [false, false], "{way}");
        for point in &results.points {
            assert!(point.why_invalid.as_ref().unwrap().contains(why), "{way}: {:?}", point.why_invalid);
        }
        for text in told(&results) {
            assert!(text.contains(why), "{way}: {text}");
        }
        let compared = compare(&run(way, 0, ""), &results, MARGIN, true).unwrap();
        let text = comparison::render(&compared).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.starts_with("not compared: alone:w: no valid run in the other run:") && text.contains(why),
            "{text}"
        );
    }
}

/// One lost connection in a hundred requests, or one refused connection in two, spoils the run in which it happens and no other.
#[test]
fn lost_and_refused_connections_cost_the_run_in_which_they_happen() {
    let results = run("connection", 50, "");
    assert!(results.points.iter().all(|point| !point.valid), "one of the two clients of each run");
    for way in ["restart", "killed"] {
        let results = run(way, 1, "");
        assert!(results.points.iter().all(|point| !point.valid && point.workloads.is_empty()), "{way}");
        assert!(told(&results).iter().all(|text| text.contains("the connection was lost")));
    }
}

/// Deadlock victims that are run again fail no request, but are told.
#[test]
fn attempts_that_are_run_again_are_told() {
    let results = run("deadlock", 50, "");
    assert!(results.points.iter().all(|point| point.valid && point.workloads[0].aborted.error == 0));
    for text in told(&results) {
        assert!(text.contains("deadlock victims beside") && !text.contains("Failed requests"), "{text}");
    }
}

/// Story: deadlocks of which each takes a while, as a server's do, until the window had ended. "No request completed; make the
/// window longer" was all.
#[test]
fn a_workload_of_which_every_attempt_is_run_again_says_so() {
    let results = run("late-deadlock", 100, "");
    for point in &results.points {
        let (why, workload) = (point.why_invalid.as_deref().unwrap(), &point.workloads[0]);
        assert_eq!((workload.all.completed, workload.aborted.error), (0, 0), "no request ended: {why}");
        let again = &workload.run_again[0];
        assert!(again.count > 10, "{again:?}");
        let expect = format!(
            "no request of w completed within the window: {} attempts were run again, all of them after 40P01 deadlock detected",
            again.count
        );
        assert!(why.starts_with(&expect), "{why}");
    }
    assert!(told(&results).iter().all(|text| text.contains("run again, all of them after 40P01 deadlock detected")));
}

/// Results of versions that did not record reasons are read; their counts are told.
#[test]
fn results_without_reasons_are_read() {
    let mut written = serde_json::to_value(run("error", 1, "")).unwrap();
    for point in written["points"].as_array_mut().unwrap() {
        point["workloads"][0].as_object_mut().unwrap().remove("failed").unwrap();
    }
    for estimate in written["estimates"].as_array_mut().unwrap() {
        estimate["measured"].as_object_mut().unwrap().remove("failed").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("results.json"), written.to_string()).unwrap();
    let results = run_directory::read_results(folder.path()).unwrap();
    assert!(told(&results)[0].contains("requests failed (1.0 %)"), "{}", told(&results)[0]);
}
