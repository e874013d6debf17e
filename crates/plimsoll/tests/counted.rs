//! Counts of a simulated processor, as a user has them made.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::process::Command;

use plimsoll_testing::{Need, skip};
use program::{assert_ended, items, json, output, printed, said};
use serde_json::Value;

/// Whether Valgrind is there; otherwise the test is skipped.
fn has_valgrind() -> bool {
    let said = Command::new("valgrind").arg("--version").output();
    said.inspect_err(|error| skip(Need::Valgrind, error)).is_ok()
}

/// The counters of a workload of small rows, and how many requests they are of.
fn counted(arguments: &str) -> (Value, f64) {
    let line = format!("bench {arguments} --counters simulated --json");
    let document = json(&output(&line.split(' ').collect::<Vec<_>>()));
    assert_eq!(document["mode"], "simulated_processor");
    let workload = &items(&items(&document["points"])[0]["workloads"])[0];
    (workload["counters"].clone(), workload["completed"].as_f64().unwrap())
}

#[test]
fn larger_tables_miss_more_and_equal_runs_count_the_same() {
    if !has_valgrind() {
        return;
    }
    let rows = |scale: &str| counted(&format!("rows:{scale} --parameter columns=bigint --requests 300"));
    let (small, requests) = rows("0.001");
    assert_eq!(requests, 300.0);
    let of = |counters: &Value, name: &str| counters[name].as_f64().unwrap() / requests;
    let (large, _) = rows("0.2");
    for name in ["l1d_misses", "llc_misses"] {
        assert!(of(&large, name) > of(&small, name), "{name}: {large} {small}");
    }
    // Another thread may do a little of its own meanwhile.
    let (again, _) = rows("0.001");
    let ratio = of(&again, "instructions") / of(&small, "instructions");
    assert!((0.95..1.05).contains(&ratio), "{again} {small}");
    assert!(small["cycles"].is_null() && small["dram_read_bytes"].is_null(), "{small}");
}

#[test]
fn sessions_of_a_private_server_are_counted_too() {
    if !has_valgrind() {
        return;
    }
    let (counters, requests) = counted("tpcb:1 --target postgres: --requests 40");
    assert_eq!(requests, 40.0);
    // Five statements: far more than nothing, and far less than a login.
    let instructions = counters["instructions"].as_f64().unwrap() / requests;
    assert!((50e3..5e6).contains(&instructions), "{counters}");
}

#[test]
fn what_cannot_be_counted_is_refused_with_what_to_do() {
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let ended = output(&[&["bench", "rows:0.001", "--counters", "simulated"], arguments].concat());
        assert_ended(&ended, code);
        let told = format!("{}{}", said(&ended), printed(&ended));
        assert!(told.contains(words), "{told}");
    };
    refused(&["--clients", "2"], 2, "set clients = 1");
    refused(&["--target", "postgres://localhost/nothing"], 2, "use the target `embedded:` or `postgres:`");
    refused(&["--seconds", "3"], 2, "cannot be used with");
    if has_valgrind() {
        refused(&["--target", "postgres:", "--option", "dop=2"], 1, "processes that work for others are not counted");
    }
}
