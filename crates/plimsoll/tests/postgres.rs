//! PostgreSQL as a target, as a user runs it: a server comes, is measured, and leaves nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::path::Path;

use program::{items, json, output, printed, run, said};
use serde_json::Value;

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
    let document = json(&output(&[
        "bench",
        "tpcc:1",
        "--target",
        "postgres:",
        "--option",
        &option,
        "--clients",
        "8",
        "--seconds",
        "3",
        "--check",
        "--json",
    ]));
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
    let document = json(&output(&[
        "bench",
        "ch:1",
        "--target",
        "postgres:",
        "--parameter",
        "mix=transactions",
        "--clients",
        "2",
        "--seconds",
        "2",
        "--check",
        "--json",
    ]));
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
    refused(&["bench", "tpch:100000", "--target", "postgres:"], 2, "take a smaller scale");
}
