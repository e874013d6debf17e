//! Experiments of two seconds, and the checks on each of their runs.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{assert_ended, items, json, printed, run, said};

/// Two workloads and a sweep over two values: 9 runs a block with the A/A ones, 18 in all.
pub const MIXED: &str = r#"name = "mixed"
title = "Reads beside writes"

[[workload]]
name = "reads"
kind = "rows"
scale = 0.001
parameters = { updates = 0 }

[[workload]]
name = "writes"
kind = "rows"
scale = 0.001
parameters = { updates = 1 }

[sweep]
"reads.clients" = [1, 2]

[run]
warmup = "10ms"
measure = "100ms"
repeats = 2

[[claim]]
text = "Reads are served beside writes"
holds = "throughput(reads, together) > 1"
published = "never"
"#;

/// As MIXED, with requests that are longer than what a busy machine adds to them: a round trip lies between the statement and the commit.
pub const TRAVELLING: &str = r#"name = "travelling"

[[workload]]
name = "reads"
kind = "rows"
scale = 0.01
clients = 8
round_trip = "const 5ms"
parameters = { updates = 0 }

[[workload]]
name = "writes"
kind = "rows"
scale = 0.01
round_trip = "const 5ms"
parameters = { updates = 1 }

[sweep]
"writes.clients" = [2, 4]

[run]
warmup = "10ms"
measure = "400ms"
repeats = 3
"#;

/// One workload, no sweep, two runs.
pub const SMALL: &str = r#"name = "small"

[[workload]]
kind = "rows"
scale = 0.001

[run]
warmup = "10ms"
measure = "100ms"
repeats = 2
"#;

/// An aggregation beside a scan that share a simulated cache: 9 runs a block with the A/A ones, 18 in all.
pub const SIMULATED: &str = r#"name = "corner"

[target]
url     = "simulated:"
options = { cache_mib = 1.71875, private_kib = 8, sampling = 1, warm_up = 100_000, references = 50_000 }

[[workload]]
name       = "group"
kind       = "aggregation"
parameters = { values = 312_500, groups = 3_125, cores = 4 }

[[workload]]
name       = "scan"
kind       = "packed_scan"
parameters = { cores = 4 }

[sweep]
"scan.mask" = ["all", "0x3"]

[run]
repeats = 2

[[claim]]
text  = "A scan in a corner leaves the aggregation faster"
holds = 'throughput(together, group, mask="0x3") > throughput(together, group, mask="all")'
"#;

/// Every file of a finished run.
pub const FILES: [&str; 7] = [
    "experiment.toml",
    "journal.jsonl",
    "machine.json",
    "report.html",
    "requests.hdr",
    "results.json",
    "samples.parquet",
];

/// A folder with an experiment file in it.
pub fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("experiment.toml"), text).unwrap();
    folder
}

/// Runs an experiment into `place` of the folder.
pub fn finished(text: &str, folder: &Path, place: &str) -> Value {
    fs::write(folder.join("experiment.toml"), text).unwrap();
    json(&run(&["run", "experiment.toml", "--out", place, "--json"], folder))
}

/// How often each run of MIXED is among the points.
pub fn runs(results: &Value) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for point in items(&results["points"]) {
        let (clients, arm) = (&point["setting"]["reads.clients"], &point["arm"]);
        *counts.entry(format!("{clients} {arm} {} {}", point["repeat"], point["is_again"])).or_insert(0) += 1;
    }
    counts
}

/// Each run of MIXED once.
pub fn all_runs() -> BTreeMap<String, usize> {
    let settings = [(1, false), (1, true), (2, false)];
    let arms = ["alone:reads", "alone:writes", "together"];
    let runs = settings.iter().flat_map(|(clients, is_again)| {
        arms.iter()
            .flat_map(move |arm| (1..=2).map(move |repeat| (format!("{clients} \"{arm}\" {repeat} {is_again}"), 1)))
    });
    runs.collect()
}

/// It has to be refused as bad input, with these words and nothing on stdout.
#[track_caller]
pub fn refused(arguments: &[&str], folder: &Path, expect: &str) {
    let output = run(arguments, folder);
    assert_ended(&output, 2);
    assert!(said(&output).contains(expect), "expected `{expect}` in {}", said(&output));
    assert!(output.stdout.is_empty(), "{}", printed(&output));
}
