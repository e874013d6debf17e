//! The command line as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use program::{RunningProgram, assert_ended, items, json, names, output, plimsoll, printed, run, said};
use serde_json::Value;

#[test]
fn a_quick_study_measures_every_arm_and_explains_every_gap() {
    let folder = tempfile::tempdir().unwrap();
    let document = json(&run(&["study", "--quick", "--json", "--out", "result"], folder.path()));
    assert!(document["format"].as_u64().unwrap() >= 2);
    let points = items(&document["points"]);
    let mut arms: Vec<&str> = points.iter().map(|point| point["arm"].as_str().unwrap()).collect();
    arms.sort_unstable();
    arms.dedup();
    assert_eq!(arms, ["alone:olap", "alone:oltp", "together"]);
    assert_eq!(points.len() % 4, 0, "every arm equally often, and one of them once more");
    let advice = items(&document["advice"]);
    let is_undecided = advice[0].as_str().unwrap().starts_with("Undecided");
    for point in points {
        assert_eq!(point["valid"], true, "{point}");
        for workload in items(&point["workloads"]) {
            assert!(workload["throughput_per_s"].as_f64().unwrap() > 0.0, "{workload}");
            assert!(workload["completed"].as_u64() >= Some(20) || is_undecided, "{workload} {advice:?}");
            let share = workload["time_share"].as_object().unwrap();
            let sum: f64 = share.values().filter_map(Value::as_f64).sum();
            assert!((sum - 1.0).abs() < 1e-6, "parts of response time add up to {sum}: {share:?}");
        }
    }
    for side in ["oltp", "olap"] {
        let entries = items(&document["interference"]).iter();
        let entries: Vec<&Value> = entries.filter(|entry| entry["workload"] == side).collect();
        let [entry] = entries[..] else { panic!("{entries:?}") };
        assert_eq!(entry["arm"], "together");
        let [low, value, high] = ["low", "value", "high"].map(|name| entry["ratio"][name].as_f64());
        assert!(0.0 < low.unwrap() && low <= value && value <= high, "{entry}");
        assert!(["faster", "slower", "no_difference"].contains(&entry["finding"].as_str().unwrap()), "{entry}");
        assert!(document["noise_floor"][side]["repeated_setting"].is_number(), "A/A: {}", document["noise_floor"]);
        let estimates = items(&document["estimates"]).iter().filter(|estimate| estimate["workload"] == side);
        assert_eq!(estimates.count(), 2, "alone and together");
    }
    assert!(!items(&document["advice"]).is_empty());
    assert!(document["experiment"]["text"].as_str().unwrap().contains("[[workload]]"), "it can be run again");

    let expect = ["experiment.toml", "journal.jsonl", "machine.json", "report.html", "requests.hdr", "results.json"];
    let written = names(&folder.path().join("result"));
    assert!(expect.iter().all(|file| written.iter().any(|name| name == file)), "{written:?}");
    line_is_drawn(&document["line"], &folder.path().join("result/line"));
    let written = std::fs::read(folder.path().join("result/results.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), document);
    let report = std::fs::read_to_string(folder.path().join("result/report.html")).unwrap();
    assert!(report.starts_with("<!DOCTYPE html>") && report.contains("oltp"));
}

/// In addition to its measurements the study tried a setting that may isolate, unless nothing needs isolating.
fn line_is_drawn(line: &Value, folder: &std::path::Path) {
    assert_eq!((line["protect"].as_str(), line["slo"].as_f64()), (Some("oltp"), Some(0.9)), "{line}");
    assert!(line["sentence"].as_str().is_some_and(|sentence| sentence.contains("oltp")), "{line}");
    let tried = items(&line["tried"]);
    let measured: Vec<&Value> = tried.iter().filter(|one| !items(&one["kept"]).is_empty()).collect();
    if tried[0]["standing"] == "kept" {
        return assert_eq!((measured.len(), folder.exists()), (1, false), "nothing needs isolating: {line}");
    }
    let is_one_core = tried.len() == 1;
    assert!(is_one_core || measured.len() == 3 && folder.join("results.json").is_file(), "{line}");
    for kept in measured.iter().flat_map(|one| items(&one["kept"])) {
        let [low, value, high] = ["low", "value", "high"].map(|end| kept["throughput"][end].as_f64().unwrap());
        assert!(0.0 < low && low <= value && value <= high, "{kept}");
    }
}

#[test]
fn a_study_refuses_a_line_that_makes_no_sense() {
    for (arguments, why) in [
        (["study", "--protect", "oltq"], "did you mean `oltp`?"),
        (["study", "--slo", "1.5"], "at most 1"),
        (["study", "--slo", "0"], "above 0"),
    ] {
        let output = output(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
    }
}

/// Both read the shop's tables, have their own names, and the run directory has everything to run it again.
#[test]
fn a_study_of_ones_own_workloads_has_their_names_and_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["shop.toml", "reports.toml"] {
        std::fs::copy(format!("../../docs/examples/{name}"), folder.path().join(name)).unwrap();
    }
    let arguments =
        ["study", "--oltp", "file:shop.toml", "--olap", "file:reports.toml", "--protect", "shop", "--quick"];
    let document = json(&run(&[&arguments[..], &["--json", "--out", "result"]].concat(), folder.path()));
    let arms: std::collections::BTreeSet<&str> =
        items(&document["points"]).iter().map(|point| point["arm"].as_str().unwrap()).collect();
    assert_eq!(arms.into_iter().collect::<Vec<_>>(), ["alone:reports", "alone:shop", "together"]);
    for point in items(&document["points"]) {
        for workload in items(&point["workloads"]) {
            assert!(workload["throughput_per_s"].as_f64().unwrap() > 0.0, "{workload}");
            assert_eq!(workload["aborted"]["error"], 0, "{workload}");
        }
    }
    assert_eq!(document["line"]["protect"], "shop");
    let sentence = document["line"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("shop") && sentence.contains("reports"), "{sentence}");
    for kept in ["result/shop.toml", "result/reports.toml", "result/experiment.toml"] {
        assert!(folder.path().join(kept).is_file(), "{kept}");
    }
}

#[test]
fn a_study_refuses_workloads_that_make_none() {
    let shop = concat!("file:", env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/shop.toml");
    for (arguments, why) in [
        (&["--olap", shop][..], "`shop` writes, and these are to be queries"),
        (&["--oltp", "tpcd"], "--oltp tpcd: "),
        (&["--oltp", "tpch"], "give it with --olap"),
        (&["--oltp", "file:nowhere.toml"], "nowhere.toml"),
        (&["--oltp", shop, "--protect", "shopp"], "did you mean `shop`?"),
        (&["--oltp-clients", "0"], "a number of clients from 1"),
    ] {
        let output = output(&[&["study"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
    }
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
    let sensors = items(&document["sensors"]);
    assert!(sensors.len() > 5, "{document}");
    for told in sensors.iter().chain(items(&document["controls"])) {
        assert!(!told["reason"].as_str().unwrap().is_empty(), "{told}");
        assert!(told["available"] == false || told["remedy"].is_null(), "{told}");
    }
    assert!(sensors.iter().all(|sensor| sensor["cost_us"].is_f64() == (sensor["available"] == true)), "{document}");
    let text = printed(&output(&["machine"]));
    assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("memory"), "{text}");
}

#[test]
fn bad_input_is_refused_with_a_remedy() {
    for (arguments, expect) in [
        (&["bench", "tpc"][..], "did you mean `tpcc`?"),
        (&["bench", "tpcc:0"], "give a whole number from 1 to 100000 (warehouses)"),
        (&["bench", "tpcc:-1"], "give a whole number from 1 to 100000 (warehouses)"),
        (&["bench", "tpcc:99999"], "are free; use a smaller scale"),
        (&["bench", "tpch:0"], "give a number from 0.01"),
        (&["bench", "tpcc", "--clients", "0"], "use 1 or more"),
        (&["bench", "tpcc", "--rate", "NaN"], "use a number above 0"),
        (&["bench", "tpcc", "--rate", "9", "--think", "exp 1ms"], "give one of them"),
        (&["bench", "tpcc", "--cliets", "2"], "--clients"),
        (&["bench", "tpcc", "--seconds", "0"], "give a number of seconds"),
        (&["bench", "tpcc", "--seconds", "NaN"], "give a number of seconds"),
        (&["bench", "tpcc", "--think", "expo 10ms"], "exp 10ms"),
        (&["bench", "tpcc", "--round-trip", "expo 1ms"], "exp 10ms"),
        (&["bench", "tpcc", "--round-trip", "exp -1ms"], "`-1` is not a number above 0"),
        (&["bench", "tpcc", "--round-trp", "exp 1ms"], "--round-trip"),
        (&["bench", "tpch:0.01", "--round-trip", "exp 1ms"], "each request of tpch is one query; leave it out"),
        (&["bench", "tpcc", "--priority", "high:2"], "high:0.1"),
        (&["bench", "tpcc", "--priority", "high:0.7, level2:0.4"], "the shares add up to 1.1"),
        (&["bench", "tpcc", "--option", "lock_polcy=nprio"], "did you mean `lock_policy`?"),
        (&["bench", "tpcc", "--target", "oracle:"], "use `embedded:`"),
        (&["size", "tpcc", "--target", "postgres://me@localhost/shop"], "cannot be limited from outside"),
        (&["size", "tpcc", "--resources", "core"], "did you mean `cores`?"),
        (&["size", "tpcc", "--latency", "p95"], "such as p95=20ms"),
        (&["size", "tpcc", "--budget", "1s"], "a search needs at least 20 s"),
        (&["size", "tpcc", "--catalogue", "nowhere.toml"], "name a catalogue of machines"),
        (&["check", "tpch:tiny"], "is not a number"),
        (&["reproduce", "sr-fig2-coer"], "did you mean `SR-fig2-cores`?"),
        (&["top", "https://localhost"], "write http://HOST:PORT"),
        (&["study", "--out", "/proc/nowhere/run"], "name another folder with --out"),
    ] {
        let output = output(arguments);
        assert_ended(&output, 2);
        assert!(said(&output).contains(expect), "{arguments:?}: {}", said(&output));
        assert!(!said(&output).starts_with("loading"), "{arguments:?}: refused before anything is loaded");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn ctrl_c_before_anything_was_measured_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = RunningProgram::start(&mut plimsoll(&["study", "--quick", "--out", "result"], folder.path()));
    running.until("loading oltp");
    running.signal("INT");
    assert_eq!(running.end(), Some(130), "{}", running.said);
    assert!(running.said.contains("nothing was written"), "{}", running.said);
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn ctrl_c_in_a_study_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = RunningProgram::start(&mut plimsoll(&["study", "--quick", "--out", "result"], folder.path()));
    // A run that still warms up is given up, so that one must have been measured.
    running.until("run 2 of");
    running.signal("INT");
    assert_eq!(running.end(), Some(130), "{}", running.said);
    let written = std::fs::read(folder.path().join("result/results.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert!(!items(&written["points"]).is_empty());
    assert!(written["warnings"].to_string().contains("plimsoll run --resume result"), "{}", written["warnings"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let command = format!("{program} machine --json | true; {program} machine | head -c 1 >/dev/null");
    let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
    assert_eq!(said(&output), "");
}

/// Story: the program panicked when no process read its stderr, as in `2>&1 | head`.
#[test]
fn a_reader_of_stderr_that_has_gone_changes_no_exit_code() {
    let code = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        program.args(arguments).stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap().code()
    };
    assert_eq!(code(&["bench", "rows:0.001", "--seconds", "0.1", "--warmup", "0"]), Some(0));
    assert_eq!(code(&["bench", "no_such_workload"]), Some(2));
}

/// `cargo install` copies the program alone, so nothing in it may point to its source tree.
#[test]
fn the_program_needs_no_file_of_its_source_tree() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_plimsoll")).unwrap();
    let here = std::env::current_dir().unwrap();
    let crates = format!("{}/", here.parent().unwrap().display());
    assert!(here.ends_with("crates/plimsoll"), "{}", here.display());
    assert!(!program.windows(crates.len()).any(|bytes| bytes == crates.as_bytes()), "it names {crates}");
}

/// Both come from the definition of the command line: no command is missing, and the hidden one is not there.
#[test]
fn shells_and_man_know_every_command() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&run(&["completions", shell], folder.path()));
        for command in ["study", "reproduce", "govern"] {
            assert!(script.contains(command), "{shell} {command}");
        }
    }
    let told = printed(&run(&["man", "pages"], folder.path()));
    assert_eq!(told, "pages: read them with `man -l pages/plimsoll.1`\n");
    let pages = names(&folder.path().join("pages"));
    for page in ["plimsoll.1", "plimsoll-run.1", "plimsoll-observe.1"] {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
    assert!(!pages.iter().any(|name| name.contains("hog")), "{pages:?}");
    let page = std::fs::read_to_string(folder.path().join("pages/plimsoll-run.1")).unwrap();
    assert!(page.contains("until\\-decided"), "{page}");
}
