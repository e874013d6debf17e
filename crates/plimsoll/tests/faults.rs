//! Faults during experiments: kills, Ctrl-C, full disks, files that were changed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;
#[path = "common/trial.rs"]
mod trial;

use std::fs;
use std::path::Path;
use std::process::Command;

use plimsoll_lab::results::FORMAT;
use program::{RunningProgram, assert_ended, items, json, names, plimsoll, run, said};
use serde_json::Value;
use trial::{FILES, MIXED, SMALL, all_runs, finished, folder, runs};

#[test]
fn a_killed_experiment_goes_on_where_it_was() {
    let folder = folder(MIXED);
    let mut killed = RunningProgram::start(&mut plimsoll(&["run", "experiment.toml", "--out", "out"], folder.path()));
    killed.until("run 7 of 18");
    killed.signal("KILL");
    assert_eq!(killed.end(), None, "{}", killed.said);
    assert_eq!(names(&folder.path().join("out")), ["experiment.toml", "journal.jsonl", "machine.json"]);

    let journal = folder.path().join("out/journal.jsonl");
    let mut text = fs::read_to_string(&journal).unwrap();
    assert!(text.lines().count() >= 7, "a header and six runs");
    text.push_str("{\"id\":{\"setting\":1,\"ar");
    fs::write(&journal, &text).unwrap();
    let resumed = json(&run(&["run", "--resume", "out", "--json"], folder.path()));
    assert_eq!(runs(&resumed), all_runs());
    assert_eq!(resumed["claims"][0]["verdict"], "holds");
    let warnings = resumed["warnings"].to_string();
    assert!(warnings.contains("was torn (22 bytes)") && warnings.contains("resumed after"), "{warnings}");
    assert_eq!(names(&folder.path().join("out")), FILES);

    let text = fs::read_to_string(&journal).unwrap();
    let again = json(&run(&["run", "--resume", "out", "--json"], folder.path()));
    assert_eq!(again["points"], resumed["points"], "nothing is left to run");
    assert_eq!(fs::read_to_string(&journal).unwrap(), text);
}

#[test]
fn ctrl_c_finishes_the_run_at_hand_and_says_how_to_go_on() {
    let folder = folder(MIXED);
    let mut command = plimsoll(&["run", "experiment.toml", "--out", "out"], folder.path());
    let mut running = RunningProgram::start(&mut command);
    running.until("run 3 of 18");
    let second = run(&["run", "--resume", "out"], folder.path());
    assert_ended(&second, 2);
    assert!(said(&second).contains("in use by another plimsoll"), "{}", said(&second));
    running.signal("INT");
    assert_eq!(running.end(), Some(130), "{}", running.said);
    assert!(running.said.contains("finishing the current run"), "{}", running.said);
    assert_eq!(names(&folder.path().join("out")), FILES);
    let written: Value = serde_json::from_slice(&fs::read(folder.path().join("out/results.json")).unwrap()).unwrap();
    let done = items(&written["points"]).len();
    // The third run is finished unless it was still warming up.
    assert!((2..18).contains(&done), "{done}");
    assert!(written["warnings"].to_string().contains("plimsoll run --resume out"), "{}", written["warnings"]);

    let resumed = json(&run(&["run", "--resume", "out", "--json"], folder.path()));
    assert_eq!(runs(&resumed), all_runs());
    assert_eq!(items(&resumed["points"])[..done], items(&written["points"])[..], "what was measured is kept as it was");
}

#[test]
fn a_second_ctrl_c_ends_it_at_once() {
    let folder = folder(&SMALL.replace("100ms", "10min").replace("10ms", "0ms"));
    let mut running = RunningProgram::start(&mut plimsoll(&["run", "experiment.toml", "--out", "out"], folder.path()));
    running.until("run 1 of 2");
    running.signal("INT");
    running.until("press Ctrl-C again");
    running.signal("INT");
    assert_eq!(running.end(), Some(130), "{}", running.said);
    assert!(!folder.path().join("out/results.json").exists());
}

#[test]
fn what_was_changed_is_not_gone_on_with() {
    let folder = folder(SMALL);
    finished(SMALL, folder.path(), "out");
    let out = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let (experiment, journal, results) = (read("experiment.toml"), read("journal.jsonl"), read("results.json"));
    let torn: Vec<&str> =
        journal.lines().enumerate().map(|(at, line)| if at == 1 { &line[..99] } else { line }).collect();
    let changes = [
        ("experiment.toml", experiment.replace("100ms", "110ms"), "its experiment.toml was changed"),
        ("experiment.toml", experiment.replace("kind", "kin"), "out/experiment.toml:4:1"),
        ("journal.jsonl", journal.replacen(&format!("\"format\":{FORMAT}"), "\"format\":99", 1), "in format 99"),
        ("journal.jsonl", torn.join("\n") + "\n", "journal.jsonl:2: not a line of a journal"),
        ("results.json", results.replacen(&format!("\"format\": {FORMAT}"), "\"format\": 99", 1), "in format 99"),
    ];
    for (name, text, expect) in changes {
        let before = read(name);
        assert_ne!(text, before, "{expect}: nothing was changed");
        fs::write(out.join(name), &text).unwrap();
        let output = run(&["run", "--resume", "out"], folder.path());
        assert_ended(&output, 2);
        assert!(said(&output).contains(expect), "{}", said(&output));
        assert_eq!(read(name), text, "{expect}: it is left as it was");
        fs::write(out.join(name), before).unwrap();
    }
    assert_ended(&run(&["run", "--resume", "out"], folder.path()), 0);
    let nowhere = run(&["run", "--resume", "nowhere"], folder.path());
    assert_ended(&nowhere, 2);
    assert!(said(&nowhere).contains("nowhere is not a run directory"), "{}", said(&nowhere));
}

/// The program with files limited to `blocks` blocks of 512 bytes: its writes fail as on a full disk.
fn with_small_files(blocks: u32, arguments: &str, folder: &Path) -> Command {
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_plimsoll");
    command.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec {program} {arguments}")]).current_dir(folder);
    command.env("PLIMSOLL_OTHERS_MAX", "1000");
    command
}

#[test]
fn a_full_disk_is_told_and_costs_no_run_that_was_measured() {
    let folder = folder(MIXED);
    let place = folder.path().join("out");
    for blocks in [1, 8] {
        let output = with_small_files(blocks, "run experiment.toml --out out", folder.path()).output().unwrap();
        assert_ended(&output, 3);
        assert!(said(&output).contains("File too large") && said(&output).contains("out/"), "{}", said(&output));
        assert!(!said(&output).contains("--resume"), "nothing was measured: {}", said(&output));
        assert!(!place.exists(), "{blocks}: {:?}", names(&place));
    }

    // A record has 7 to 12 KB here: some fit, and not all.
    let output = with_small_files(80, "run experiment.toml --out out", folder.path()).output().unwrap();
    assert_ended(&output, 3);
    let told = said(&output);
    assert!(told.contains("out/journal.jsonl: File too large") && told.contains("plimsoll run --resume out"), "{told}");
    assert_eq!(names(&place), ["experiment.toml", "journal.jsonl", "machine.json"]);
    let journal = fs::read_to_string(place.join("journal.jsonl")).unwrap();
    assert!(journal.ends_with('\n') && journal.lines().count() > 2, "whole lines: {journal}");
    assert!(journal.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{journal}");

    // The journal now has enough space; the results do not.
    assert_ended(&run(&["run", "--resume", "out"], folder.path()), 0);
    fs::remove_file(place.join("results.json")).unwrap();
    let output = with_small_files(160, "run --resume out", folder.path()).output().unwrap();
    assert_ended(&output, 3);
    assert!(said(&output).contains("plimsoll run --resume out"), "{}", said(&output));
    assert!(
        names(&place).iter().all(|name| !name.contains("partial") && name != "results.json"),
        "{:?}",
        names(&place)
    );
    let resumed = json(&run(&["run", "--resume", "out", "--json"], folder.path()));
    assert_eq!(runs(&resumed), all_runs());
}
