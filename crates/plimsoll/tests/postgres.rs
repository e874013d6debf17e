//! PostgreSQL as a target, as a user runs it: a server comes, is measured, and leaves nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::path::Path;

use program::{items, json, output, printed, run, said};
use serde_json::Value;

/// A workload on a private server, checked afterwards.
fn bench(arguments: &str) -> Value {
    let line = format!("bench --target postgres: --check --json {arguments}");
    json(&output(&line.split(' ').collect::<Vec<_>>()))
}

/// The checks of a document that failed, and how many held.
fn checks(document: &Value) -> (Vec<&Value>, usize) {
    let all = items(&document["checks"]);
    let failed = all.iter().filter(|check| check["holds"] == false).collect();
    (failed, all.iter().filter(|check| check["holds"] == true).count())
}

/// Processes that run in a folder whose name is that of a private server's.
fn servers_below(folder: &Path) -> Vec<String> {
    let mark = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).ok();
    processes.filter_map(command).filter(|command| command.contains("postgres") && command.contains(&mark)).collect()
}

#[test]
fn tpcc_on_a_private_server_stays_consistent_and_leaves_nothing() {
    let folder = tempfile::Builder::new().prefix("plimsoll-test").tempdir_in("/var/tmp").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let option = format!("folder={}", folder.path().display());
    let document = bench(&format!("tpcc:1 --option {option} --clients 8 --seconds 3"));
    let (failed, held) = checks(&document);
    assert!(failed.is_empty() && held > 20, "{held} held, failed: {failed:?}");
    let workload = &document["points"][0]["workloads"][0];
    assert!(workload["throughput_per_s"].as_f64().unwrap() > 0.0, "{workload}");
    let share = &workload["time_share"];
    for part in ["cpu_run", "lock", "io"] {
        assert!(share[part].is_number(), "{part} of {share}");
    }
    assert_eq!(document["experiment"]["settings"]["target.fsync"], "on");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "its folder is gone");
    assert_eq!(servers_below(folder.path()), [""; 0]);
}

#[test]
fn every_query_of_ch_returns_rows_after_transactions_have_run() {
    let document = bench("ch:1 --parameter mix=transactions --clients 2 --seconds 2");
    let (failed, held) = checks(&document);
    assert!(failed.is_empty() && held >= 22, "{held} held, failed: {failed:?}");
}

#[test]
fn what_cannot_be_had_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], code: i32, expect: &str| {
        let output = run(arguments, folder.path());
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(expect), "{}", said(&output));
    };
    let bench = |target: &'static str| ["bench", "tpcc:1", "--target", target, "--seconds", "1"];
    refused(&bench("postgress:"), 2, "`postgres:` (a PostgreSQL server of its own");
    refused(&bench("postgres://nobody:secret@localhost:1/x"), 3, "localhost");
    let output = run(&bench("postgres://nobody:secret@localhost:1/x"), folder.path());
    assert!(!said(&output).contains("secret") && !printed(&output).contains("secret"), "{}", said(&output));
    refused(&["load", "tpcc:1", "--target", "postgres:"], 2, "goes with this process; name a server of yours");
    refused(&["bench", "tpch:100000", "--target", "postgres:"], 2, "use a smaller scale");
}

/// The example of the guide with a governor's own settings, in `folder` beside the sample file that operators begin with.
fn own_settings(folder: &Path, change: impl Fn(&str) -> String) {
    let docs = Path::new("../../docs");
    let guide = std::fs::read_to_string(docs.join("experiments.md")).unwrap();
    let mut blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let example = blocks.find(|block| block.contains("\"my-governor\"")).unwrap();
    std::fs::write(folder.join("experiment.toml"), format!("{example}\n[run]\nrepeats = 1\nmeasure = \"1s\"\n"))
        .unwrap();
    let sample = std::fs::read_to_string(docs.join("examples/plimsoll.toml")).unwrap();
    std::fs::write(folder.join("plimsoll.toml"), change(&sample)).unwrap();
}

/// Story: an operator who had written `plimsoll.toml` wanted to see its effect on the application before putting the
/// governor in front of it, but could only run experiments with settings that Plimsoll writes. The rules of the file
/// apply to the users of the experiment.
#[test]
fn an_experiment_runs_with_the_operators_own_settings() {
    let folder = tempfile::tempdir().unwrap();
    own_settings(folder.path(), str::to_owned);
    let output = run(&["run", "experiment.toml", "--quick", "--out", "out", "--json"], folder.path());
    // Whether its claim holds is for a quiet machine to say.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let points = items(&results["points"]);
    assert!(points.iter().all(|point| point["valid"] == true), "{points:?}");
    let governed: Vec<&Value> =
        points.iter().filter(|point| point["setting"]["governor_config"] == "plimsoll.toml").collect();
    assert!(!governed.is_empty() && governed.len() < points.len(), "{points:?}");
    for point in governed {
        let of = |class: &str| {
            let class = items(&point["governor"]).iter().find(|one| one["class"] == class);
            class.unwrap_or_else(|| panic!("{}", point["governor"]))["transactions"].as_u64().unwrap()
        };
        let did = |workload: &str| {
            let workload = items(&point["workloads"]).iter().find(|one| one["name"] == workload);
            workload.unwrap()["completed"].as_u64().unwrap()
        };
        // The governor's window is a moment longer than that of the clients.
        assert!(did("shop") > 0 && of("high") >= did("shop"), "`shop` is of class high: {}", point["governor"]);
        assert!(did("reports") > 0 && of("low") >= did("reports"), "all others are low: {}", point["governor"]);
    }
    assert!(items(&results["levers"]).iter().any(|used| used["class"] == "low"), "{}", results["levers"]);
    let effects: Vec<_> = items(&results["policies"])
        .iter()
        .map(|effect| (effect["workload"].as_str().unwrap(), effect["class"].as_str().unwrap()))
        .collect();
    assert_eq!(effects, [("shop", "high"), ("reports", "low")]);
    assert!(folder.path().join("out/plimsoll.toml").is_file(), "the file is kept with the results");
}

/// Story: important clients paid for a governor that helped them only against others. In the mode `split` they connect to
/// the server itself.
#[test]
fn only_unimportant_clients_come_through_a_split_governor() {
    let arguments = ["--option", "governor=split", "--priority", "high:0.5 of clients", "--clients", "4"];
    let bench = ["bench", "tpcc:1", "--target", "postgres:", "--check", "--json", "--seconds", "3"];
    let document = json(&output(&[&bench[..], &arguments].concat()));
    let (failed, held) = checks(&document);
    assert!(failed.is_empty() && held > 20, "{held} held, failed: {failed:?}");
    let point = &document["points"][0];
    let of = |class: &str| {
        let class = items(&point["governor"]).iter().find(|one| one["class"] == class);
        class.map_or(0, |class| class["transactions"].as_u64().unwrap())
    };
    let did = |class: &str| point["workloads"][0]["classes"][class]["completed"].as_u64().unwrap();
    assert!(did("high") > 0 && did("low") > 0, "{}", point["workloads"][0]);
    // The governor's window is a moment longer than that of the clients.
    assert!(of("low") >= did("low"), "through it came {}", point["governor"]);
    assert_eq!(of("high"), 0, "through it came {}", point["governor"]);
}

/// More clients than the server lets in.
const SHARED: &str = "tpcc:1 --option max_connections=50 --option governor_pool_size=4 --clients 60 --seconds 5";

/// Story: the governor pooled, and no experiment could say so: each client of one had a server connection of its own.
#[test]
fn clients_of_a_pool_are_more_than_the_server_has_connections() {
    let arguments = format!("bench --target postgres: --check --json --option governor=pool {SHARED}");
    let arguments: Vec<&str> = arguments.split(' ').chain(["--priority", "high:0.05 of clients"]).collect();
    let document = json(&output(&arguments));
    let (failed, held) = checks(&document);
    assert!(failed.is_empty() && held > 20, "{held} held, failed: {failed:?}");
    let point = &document["points"][0];
    for class in ["high", "low"] {
        let completed = point["workloads"][0]["classes"][class]["completed"].as_u64().unwrap();
        let governed = items(&point["governor"]).iter().find(|one| one["class"] == class);
        let governed = governed.map_or(0, |one| one["transactions"].as_u64().unwrap());
        assert!(completed > 0 && governed > 0, "{class}: {completed} completed, {governed} governed");
    }
    let share = &point["workloads"][0]["time_share"];
    assert!(["cpu_run", "io", "lock"].iter().all(|part| share[part].is_null()), "no process is a client's: {share}");
}

/// Story: where pgbouncer was missing, or too old to follow prepared statements, the comparison could not be had, and all
/// other settings of the experiment must not be lost with it.
#[test]
fn pgbouncer_in_the_place_of_a_governor_serves_clients_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!("bench --target postgres: --json --option governor=pgbouncer {SHARED}");
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let point = |output: std::process::Output| -> Value {
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
        document["points"][0].clone()
    };
    let missing = point(program::plimsoll(&arguments, folder.path()).env("PGBOUNCER", "/no/such").output().unwrap());
    let why = missing["why_invalid"].as_str().unwrap_or_default();
    assert!(why.contains("`/no/such` cannot be run") && why.contains("install pgbouncer 1.21 or newer"), "{missing}");
    let here = point(run(&arguments, folder.path()));
    match here["why_invalid"].as_str() {
        None => assert!(here["workloads"][0]["completed"].as_u64().unwrap() > 0, "{here}"),
        // This machine's is missing, too, or too old.
        Some(why) => assert!(why.contains("install pgbouncer 1.21 or newer"), "{why}"),
    }
}

/// Story: a typing error in the settings file was reported only when the governor did not start, in the middle of the
/// experiment, with a place in a copy of the file that the operator had never seen.
#[test]
fn faults_of_the_operators_own_settings_have_their_place() {
    let folder = tempfile::tempdir().unwrap();
    own_settings(folder.path(), |sample| sample.replacen("\n[listen]", "\ndefualt_class = \"low\"\n[listen]", 1));
    let output = run(&["run", "experiment.toml", "--quick", "--out", "out"], folder.path());
    let told = said(&output);
    let line = std::fs::read_to_string(folder.path().join("plimsoll.toml")).unwrap();
    let line = line.lines().position(|line| line.starts_with("defualt_class")).unwrap() + 1;
    assert!(!output.status.success() && told.contains("experiment.toml:"), "{told}");
    assert!(told.contains(&format!("plimsoll.toml:{line}:1: ")), "{told}");
    assert!(!folder.path().join("out").exists(), "nothing ran");
}
