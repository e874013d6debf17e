//! Limits of the machine as a user sees them: put in force, seen to take effect, and removed afterwards, even after
//! failures.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;
#[path = "common/trial.rs"]
mod trial;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_machine::control::CONTROLS;
use plimsoll_machine::sensor::SENSORS;
use plimsoll_testing::{Need, skip};
use program::{RunningProgram, assert_ended, items, json, names, plimsoll, printed, run, said};
use serde_json::Value;
use tempfile::TempDir;
use trial::{FILES, MIXED, SMALL, folder};

/// An experiment on one core.
fn on_one_core(text: &str) -> String {
    format!("{text}\n[machine]\ncores = 1\n")
}

/// A folder with an experiment, and a lock and a journal of its own, so that tests do not wait for each other.
struct Trial {
    folder: TempDir,
    state: TempDir,
}

impl Trial {
    fn of(text: &str) -> Trial {
        Trial { folder: folder(text), state: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plimsoll(arguments, self.folder.path());
        command.env("PLIMSOLL_STATE", self.state.path());
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Whether a journal is left for the next process to undo.
    fn has_left_over(&self) -> bool {
        self.state.path().join("restore.jsonl").exists()
    }
}

/// The groups that a Plimsoll with this process number has made and that are still there. Other tests make groups at the
/// same time.
fn groups_of(process: u32) -> Vec<PathBuf> {
    fn walk(folder: &Path, prefix: &str, found: &mut Vec<PathBuf>) {
        // Groups may be removed while we look.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    found.push(entry.path());
                }
                walk(&entry.path(), prefix, found);
            }
        }
    }
    let mut found = Vec::new();
    // Skip the links beside the folders of version 1: their targets are found by name.
    walk(Path::new("/sys/fs/cgroup"), &format!("plimsoll-{process}-"), &mut found);
    if Path::new("/sys/fs/resctrl").exists() {
        walk(Path::new("/sys/fs/resctrl"), &format!("plimsoll-{process}-"), &mut found);
    }
    found
}

/// The program's description of this machine.
fn machine() -> Value {
    json(&run(&["machine", "--json"], tempfile::tempdir().unwrap().path()))
}

/// By which mechanism cores are limited here; `None`, noted as a skip, if they cannot be.
fn mechanism() -> Option<String> {
    let machine = machine();
    let cores = items(&machine["controls"]).iter().find(|control| control["key"] == "cores").unwrap();
    let reason = cores["reason"].as_str().unwrap().to_owned();
    if cores["available"] == true {
        return Some(reason);
    }
    skip(Need::Cgroups, format!("cores cannot be limited: {reason}"));
    None
}

/// Whether cores are limited by a group of their own here; noted as a skip if not.
fn makes_groups() -> bool {
    match mechanism() {
        Some(reason) if reason.starts_with("control groups") => true,
        Some(reason) => {
            skip(Need::Cgroups, format!("cores are not limited by a control group: {reason}"));
            false
        }
        None => false,
    }
}

#[test]
fn a_run_on_one_core_is_valid_and_leaves_nothing() {
    if mechanism().is_none() {
        return;
    }
    let claim = "[[claim]]\ntext = \"One core is enough\"\nholds = \"achieved(cores) <= 1\"\n";
    let trial = Trial::of(&format!("{}\n{claim}", on_one_core(SMALL)));
    let mut command = trial.command(&["run", "experiment.toml", "--out", "out", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let results = json(&child.wait_with_output().unwrap());
    let points = items(&results["points"]);
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(point["valid"], true, "{}", point["why_invalid"]);
        let cores = point["achieved"]["cores"].as_f64().expect("a number of cores was achieved");
        assert!(cores <= 1.0, "{cores}");
    }
    assert_ne!(results["claims"][0]["verdict"], "fails", "{}", results["claims"]);
    assert_eq!(groups_of(process), Vec::<PathBuf>::new());
    assert!(!trial.has_left_over());
}

#[test]
fn what_a_kill_leaves_is_put_back_on_request() {
    if !makes_groups() {
        return;
    }
    let trial = Trial::of(&on_one_core(&SMALL.replace("100ms", "10min")));
    let mut killed = RunningProgram::start(&mut trial.command(&["run", "experiment.toml", "--out", "out"]));
    killed.until("run 1 of 2");
    killed.signal("KILL");
    assert_eq!(killed.end(), None, "{}", killed.said);
    let left = groups_of(killed.id());
    assert!(!left.is_empty() && trial.has_left_over(), "a killed run was limited: {left:?}");

    let restored = trial.output(&["machine", "--restore"]);
    assert_ended(&restored, 0);
    let told = printed(&restored);
    assert!(told.lines().all(|line| line.starts_with("put back: ")), "{told}");
    for group in &left {
        assert!(told.contains(&format!("removed the group {}", group.display())), "{told}");
    }
    assert_eq!(groups_of(killed.id()), Vec::<PathBuf>::new());
    assert!(!trial.has_left_over());
    let again = trial.output(&["machine", "--restore"]);
    assert_ended(&again, 0);
    assert_eq!(printed(&again), "there was nothing to restore\n");
    let again = json(&trial.output(&["machine", "--restore", "--json"]));
    assert!(items(&again["undone"]).is_empty() && items(&again["failed"]).is_empty(), "{again}");
}

#[test]
fn what_a_kill_leaves_is_put_back_by_the_next_that_limits() {
    if !makes_groups() {
        return;
    }
    let trial = Trial::of(&on_one_core(&SMALL.replace("100ms", "10min")));
    let mut killed = RunningProgram::start(&mut trial.command(&["run", "experiment.toml", "--out", "killed"]));
    killed.until("run 1 of 2");
    killed.signal("KILL");
    killed.end();
    assert!(!groups_of(killed.id()).is_empty());
    fs::write(trial.folder.path().join("experiment.toml"), on_one_core(SMALL)).unwrap();
    json(&trial.output(&["run", "experiment.toml", "--out", "next", "--json"]));
    assert_eq!(groups_of(killed.id()), Vec::<PathBuf>::new());
    assert!(!trial.has_left_over());
}

#[test]
fn one_limits_at_a_time() {
    if mechanism().is_none() {
        return;
    }
    let trial = Trial::of(&on_one_core(&SMALL.replace("100ms", "10min")));
    let mut first = RunningProgram::start(&mut trial.command(&["run", "experiment.toml", "--out", "first"]));
    first.until("run 1 of 2");
    let in_use = format!("(process {})", first.id());
    let second = trial.output(&["run", "experiment.toml", "--out", "second"]);
    assert_ended(&second, 3);
    assert!(said(&second).contains("another plimsoll") && said(&second).contains(&in_use), "{}", said(&second));
    assert!(!trial.folder.path().join("second").exists(), "nothing was measured");
    // Nor is it put back while it is wanted.
    let restore = trial.output(&["machine", "--restore"]);
    assert_ended(&restore, 3);
    assert!(said(&restore).contains(&in_use), "{}", said(&restore));
    // A run without limits does not wait.
    fs::write(trial.folder.path().join("free.toml"), SMALL).unwrap();
    json(&trial.output(&["run", "free.toml", "--out", "free", "--json"]));

    first.signal("INT");
    first.until("press Ctrl-C again");
    first.signal("INT");
    assert_eq!(first.end(), Some(130), "{}", first.said);
    if trial.has_left_over() {
        assert!(first.said.contains("plimsoll machine --restore"), "{}", first.said);
    }
    assert_ended(&trial.output(&["machine", "--restore"]), 0);
    assert_eq!(groups_of(first.id()), Vec::<PathBuf>::new());
}

#[test]
fn sigterm_ends_it_as_ctrl_c_does() {
    if mechanism().is_none() {
        return;
    }
    let trial = Trial::of(&on_one_core(MIXED));
    let mut running = RunningProgram::start(&mut trial.command(&["run", "experiment.toml", "--out", "out"]));
    running.until("run 3 of 18");
    running.signal("TERM");
    assert_eq!(running.end(), Some(130), "{}", running.said);
    let out = trial.folder.path().join("out");
    assert_eq!(names(&out), FILES);
    let results: Value = serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let done = items(&results["points"]).len();
    assert!((3..18).contains(&done), "{done}");
    assert_eq!(groups_of(running.id()), Vec::<PathBuf>::new());
    assert!(!trial.has_left_over());
}

#[test]
fn limits_that_cannot_be_are_refused_with_their_place() {
    let refusals = [
        ("cores = 99999", ":7:9: ", "it is at most"),
        ("cores = \"0-\"", ":7:9: ", "it is a number or a list such as 0-3,8"),
        ("cores = \"60000\"", ":7:9: ", "is not usable; usable are"),
        ("write_mb_s = 0", ":7:14: ", "it is at least 0.1 MB/s"),
        ("hog = \"cow:3\"", ":7:7: ", "`cow:3` is not a hog: there are cpu:threads"),
        ("cors = 1", ":7:1: ", "the machine has no limit `cors` (did you mean `cores`?)"),
    ];
    for (line, place, expect) in refusals {
        let text = format!("name = \"x\"\n[[workload]]\nkind = \"rows\"\nscale = 0.001\n\n[machine]\n{line}\n");
        let trial = Trial::of(&text);
        let output = trial.output(&["run", "experiment.toml", "--out", "out"]);
        assert_ended(&output, 2);
        let told = said(&output);
        assert!(told.contains(&format!("experiment.toml{place}")) && told.contains(expect), "{line}: {told}");
        assert!(output.stdout.is_empty() && names(trial.folder.path()) == ["experiment.toml"], "{line}");
        assert!(names(trial.state.path()).is_empty(), "{line}: nothing was to be limited");
    }
}

#[test]
fn experiments_are_sized_for_cores_that_there_are() {
    let trial = Trial::of(SMALL);
    for (count, expect) in [("0", "this is 0"), ("99999", "this is 99999"), ("two", "a number of cores or `all`")] {
        let output = trial.output(&["run", "experiment.toml", "--out", "out", "--cores", count]);
        assert_ended(&output, 2);
        assert!(said(&output).contains("--cores") && said(&output).contains(expect), "{}", said(&output));
    }
    assert_eq!(names(trial.folder.path()), ["experiment.toml"]);
    json(&trial.output(&["run", "experiment.toml", "--out", "out", "--cores", "all", "--json"]));
    assert!(!trial.has_left_over());
}

#[test]
fn the_machine_is_told_with_reasons_and_remedies() {
    let machine = machine();
    let told = |list: &str, name: &str| -> Vec<String> {
        let items = items(&machine[list]).iter();
        items.map(|item| item[name].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(told("sensors", "name"), SENSORS.iter().map(|sensor| sensor.name()).collect::<Vec<_>>());
    assert_eq!(told("controls", "key"), CONTROLS.iter().map(|control| control.key()).collect::<Vec<_>>());
    for item in items(&machine["sensors"]).iter().chain(items(&machine["controls"])) {
        let available = item["available"].as_bool().expect("available is true or false");
        assert!(item["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{item}");
        let remedy = item.get("remedy").expect("a remedy or null");
        assert!(remedy.is_null() || (!available && remedy.is_string()), "{item}");
    }
    for sensor in items(&machine["sensors"]) {
        assert_eq!(sensor["cost_us"].is_null(), sensor["available"] == false, "{sensor}");
    }
}

#[test]
fn a_hog_reports_for_each_line_and_ends_with_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = plimsoll(&["hog", "cpu:1"], folder.path());
    let mut hog = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = hog.stdin.take().unwrap();
    let mut lines = BufReader::new(hog.stdout.take().unwrap()).lines();
    let mut line = || serde_json::from_str::<Value>(&lines.next().expect("a line").unwrap()).unwrap();
    assert_eq!(line()["ready"]["hog"], "cpu:1");
    // On a busy machine it may take a while to get a core. A thread tells its time every so often, so that a window should not
    // be too short.
    let began = Instant::now();
    loop {
        thread::sleep(Duration::from_millis(250));
        input.write_all(b"\n").unwrap();
        let report = &line()["report"];
        assert_eq!((&report["hog"], &report["unit"]), (&"cpu:1".into(), &"threads".into()));
        let threads = report["achieved"].as_f64().expect("what it took is a number");
        assert!((0.0..=1.5).contains(&threads), "one thread has at most one core: {report}");
        if threads > 0.0 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it takes nothing: {report}");
    }
    drop(input);
    assert!(hog.wait().unwrap().success());
    assert!(lines.next().is_none(), "nothing more is said");
    assert_ended(&run(&["hog", "cow:3"], folder.path()), 2);
}
