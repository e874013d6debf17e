//! The command line as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn plimsoll(arguments: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    plimsoll(arguments, folder.path()).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON document on stdout and nothing else")
}

/// Every null below `value`, by its path, without the fields that are null by their nature.
fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Null => found.push(path.to_owned()),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| nulls(value, &format!("{path}.{name}"), found)),
        Value::Array(items) => items.iter().for_each(|item| nulls(item, path, found)),
        _ => {}
    }
}

#[test]
fn a_quick_study_measures_every_arm_and_explains_every_gap() {
    let folder = tempfile::tempdir().unwrap();
    let output = plimsoll(&["study", "--quick", "--json", "--out", "result"], folder.path()).output().unwrap();
    let document = json(&output);
    let points = document["points"].as_array().unwrap();
    let mut arms: Vec<&str> = points.iter().map(|point| point["arm"].as_str().unwrap()).collect();
    arms.sort_unstable();
    assert_eq!(arms, ["alone:olap", "alone:olap", "alone:oltp", "alone:oltp", "together", "together"]);
    for point in points {
        assert_eq!(point["valid"], true, "{point}");
        for workload in point["workloads"].as_array().unwrap() {
            assert!(workload["throughput_per_s"].as_f64().unwrap() > 0.0, "{workload}");
            let share = workload["time_share"].as_object().unwrap();
            let sum: f64 = share.values().filter_map(Value::as_f64).sum();
            assert!((sum - 1.0).abs() < 1e-6, "parts of response time add up to {sum}: {share:?}");
        }
    }
    for side in ["oltp", "olap"] {
        assert!(document["interference"][side]["ratio"].as_f64().unwrap() > 0.0);
    }
    assert!(!document["advice"].as_array().unwrap().is_empty());
    let mut gaps = Vec::new();
    nulls(&document["points"], "points", &mut gaps);
    let warnings = document["warnings"].as_array().unwrap();
    let by_nature = ["why_invalid", "top_down", "p90", "p95", "p99", "p999", "p50"];
    let needs_reason = gaps.iter().any(|gap| !by_nature.iter().any(|end| gap.ends_with(end)));
    assert!(!needs_reason || !warnings.is_empty(), "nulls without a reason: {gaps:?}");

    let written = std::fs::read(folder.path().join("result/results.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap()["points"], document["points"]);
    let report = std::fs::read_to_string(folder.path().join("result/report.html")).unwrap();
    assert!(report.starts_with("<!DOCTYPE html>") && report.contains("oltp"));
}

#[test]
fn tpcc_under_load_stays_consistent() {
    let output =
        output(&["bench", "tpcc:1", "--seconds", "3", "--clients", "4", "--priority", "high:0.1", "--check", "--json"]);
    let document = json(&output);
    let checks = document["checks"].as_array().unwrap();
    let failed: Vec<_> = checks.iter().filter(|check| check["holds"] == false).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(checks.iter().filter(|check| check["holds"] == true).count() >= 12, "{checks:?}");
    let workload = &document["points"][0]["workloads"][0];
    assert_eq!(workload["aborted"]["error"], 0);
    let classes = workload["classes"].as_object().unwrap();
    let completed: u64 = classes.values().map(|class| class["completed"].as_u64().unwrap()).sum();
    assert_eq!(completed, workload["completed"].as_u64().unwrap(), "classes add up");
    assert!(classes["high"]["completed"].as_u64().unwrap() > 0);
}

#[test]
fn the_22_answers_of_tpch_are_the_published_ones() {
    let document = json(&output(&["check", "tpch:1", "--json"]));
    assert_eq!(document["passed"], true, "{document}");
    let checks = document["checks"].as_array().unwrap();
    let answers = checks.iter().filter(|check| check["what"].as_str().unwrap().contains("answer"));
    assert_eq!(answers.filter(|check| check["holds"] == true).count(), 22, "{document}");
}

#[test]
fn the_machine_is_described() {
    let document = json(&output(&["machine", "--json"]));
    assert!(document["cores_usable"].as_u64().unwrap() >= 1);
    for capability in document["capabilities"].as_array().unwrap() {
        assert!(!capability["reason"].as_str().unwrap().is_empty(), "{capability}");
    }
    let text = output(&["machine"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("memory"), "{text}");
}

#[test]
fn bad_input_is_refused_with_a_remedy() {
    for (arguments, expect) in [
        (&["bench", "tpc"][..], "did you mean `tpcc`?"),
        (&["bench", "tpcc:0"], "give a whole number of warehouses"),
        (&["bench", "tpcc:-1"], "give a whole number of warehouses"),
        (&["bench", "tpcc:99999"], "are free; take a smaller scale"),
        (&["bench", "tpch:0"], "give a number from 0.01"),
        (&["bench", "tpcc", "--clients", "0"], "use 1 or more"),
        (&["bench", "tpcc", "--cliets", "2"], "--clients"),
        (&["bench", "tpcc", "--seconds", "0"], "give a number of seconds"),
        (&["bench", "tpcc", "--seconds", "NaN"], "give a number of seconds"),
        (&["bench", "tpcc", "--think", "expo 10ms"], "exp 10ms"),
        (&["bench", "tpcc", "--priority", "high:2"], "high:0.1"),
        (&["bench", "tpcc", "--option", "lock_polcy=nprio"], "did you mean `lock_policy`?"),
        (&["bench", "tpcc", "--target", "oracle:"], "use `embedded:`"),
        (&["check", "tpch:tiny"], "is no number"),
        (&["study", "--out", "/proc/nowhere/run"], "name another folder with --out"),
    ] {
        let output = output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expect), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// Presses Ctrl-C when stderr says `moment`; the exit code, what was said after, and what was left in the folder.
fn interrupted(arguments: &[&str], moment: &str) -> (Option<i32>, String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut child: Child =
        plimsoll(arguments, folder.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(moment) {
        line.clear();
        assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before it said `{moment}`");
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut said = String::new();
    lines.read_to_string(&mut said).unwrap();
    let code = child.wait().unwrap().code();
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (code, said, left.collect())
}

#[test]
fn ctrl_c_ends_every_phase_and_leaves_nothing_half_written() {
    for moment in ["loading tpcc", "loading tpch", "run 1 of 6"] {
        let (code, said, left) = interrupted(&["study", "--quick", "--out", "result"], moment);
        assert_eq!(code, Some(130), "{moment}: {said}");
        assert!(said.contains("nothing was written"), "{moment}: {said}");
        assert!(left.is_empty(), "{moment}: {left:?}");
    }
    let (code, said, left) = interrupted(&["study", "--quick", "--out", "result"], "run 3 of 6");
    assert_eq!((code, left), (Some(130), vec!["result".to_owned()]), "what is known is written: {said}");
}
