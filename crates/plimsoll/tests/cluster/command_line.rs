//! Clusters as a user starts them.

use std::path::Path;
use std::process::Command;

use plimsoll_testing::{Need, says, skip};

use crate::pair::exported;
use crate::program::{RunningProgram, assert_ended, items, json, names, output, plimsoll, run, said};

pub const SECRET: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_bench_makes_its_own_data_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("cluster:?workers=2&dop=1&partition_kib=64&folder={}", folder.path().display());
    let document = json(&run(
        &["bench", "tpch:0.01", "--target", &target, "--seconds", "1", "--warmup", "0", "--check", "--json"],
        folder.path(),
    ));
    let checks = items(&document["checks"]);
    assert!(checks.len() >= 22 && checks.iter().all(|check| check["holds"] != false), "{checks:?}");
    let workload = &items(&document["points"])[0]["workloads"][0];
    assert!(workload["completed"].as_u64() > Some(0), "{workload}");
    assert_eq!(names(folder.path()), [""; 0]);
}

/// The queries of CH-benCHmark read the tables of TPC-C, with rows that transactions would change.
#[test]
fn the_queries_of_ch_run_on_an_export() {
    let folder = exported("ch:1");
    let target = format!("cluster:?workers=2&dop=1&data={}", folder.path().join("out").display());
    let bench = ["bench", "ch:1", "--target", &target, "--seconds", "1", "--warmup", "0", "--json"];
    let both = run(&bench, folder.path());
    let told = String::from_utf8(both.stdout).unwrap();
    says("transactions on a cluster", &told, "a cluster answers queries only");
    let queries = [&bench[..], &["--parameter", "mix=queries"]].concat();
    let document = json(&run(&queries, folder.path()));
    assert!(items(&document["points"])[0]["workloads"][0]["completed"].as_u64() > Some(0), "{document}");
    let other = run(&["bench", "tpch:0.01", "--target", &target, "--seconds", "1"], folder.path());
    assert_ended(&other, 3);
    says("data of another workload", &said(&other), "is not known to have this workload's data");
}

/// Queries of a user's own, over tables that a server may have exported.
#[test]
fn own_sql_runs_on_an_export() {
    let folder = exported("tpch:0.01");
    let script = "\\set segment random(1, 3)\n\
                  select n_name, count(*) from customer join nation on c_nationkey = n_nationkey\n\
                  where n_regionkey = :segment group by n_name order by n_name;\n";
    std::fs::write(folder.path().join("segments.sql"), script).unwrap();
    let arguments = ["bench", "file:segments.sql", "--target", "cluster:?data=out&dop=1", "--seconds", "1", "--json"];
    let document = json(&run(&arguments, folder.path()));
    let workload = &items(&document["points"])[0]["workloads"][0];
    assert!(
        workload["completed"].as_u64() > Some(0) && workload["failed"].as_u64().is_none_or(|failed| failed == 0),
        "{workload}"
    );
    std::fs::write(folder.path().join("wrong.sql"), "select count(*) from sales;\n").unwrap();
    let arguments = ["bench", "file:wrong.sql", "--target", "cluster:?data=out&dop=1", "--seconds", "1", "--json"];
    let outcome = run(&arguments, folder.path());
    assert!(
        String::from_utf8_lossy(&outcome.stdout).contains("the export has the tables")
            || said(&outcome).contains("the export has the tables")
    );
}

#[test]
fn workers_of_a_run_can_have_a_quota_of_cores() {
    let target = "cluster:?workers=2&dop=1&cores=0.4&partition_kib=64";
    let outcome = output(&["bench", "tpch:0.01", "--target", target, "--seconds", "1", "--warmup", "0", "--json"]);
    if said(&outcome).contains("cannot be limited") {
        return skip(Need::Cgroups, said(&outcome));
    }
    let document = json(&outcome);
    let workload = &items(&document["points"])[0]["workloads"][0];
    assert!(workload["completed"].as_u64() > Some(0), "{document}");
    let computing = workload["time_share"]["cpu_run"].as_f64().expect("the workers' threads are known");
    assert!((0.01..0.9).contains(&computing), "{computing}: a worker has no more than its quota, and waits for rows");
}

/// A worker that a user starts.
fn worker(export: &Path, secret: &str) -> (RunningProgram, String) {
    worker_with(export, secret, &["--listen", "127.0.0.1:0"])
}

/// A worker that a user starts with these arguments.
pub fn worker_with(export: &Path, secret: &str, more: &[&str]) -> (RunningProgram, String) {
    let arguments = [&["worker", "--dop", "1", "--data", "out"], more].concat();
    let mut program = RunningProgram::start(plimsoll(&arguments, export).env("PLIMSOLL_CLUSTER_SECRET", secret));
    program.until("listening at ");
    let (_, address) = program.said.rsplit_once("listening at ").unwrap();
    let address = address.split(';').next().unwrap().to_owned();
    (program, address)
}

pub fn bench(folder: &Path, workload: &str, addresses: &str, data: &str, secret: &str) -> Command {
    let target = format!("cluster://{addresses}?data={data}&dop=2&partition_kib=64");
    let mut command =
        plimsoll(&["bench", workload, "--target", &target, "--seconds", "1", "--warmup", "0", "--json"], folder);
    command.env("PLIMSOLL_CLUSTER_SECRET", secret);
    command
}

#[test]
fn workers_of_a_user_answer_who_knows_the_secret_and_has_their_data() {
    let folder = exported("tpch:0.01");
    let (mut one, first) = worker(folder.path(), SECRET);
    let (_other, second) = worker(folder.path(), SECRET);
    let both = format!("{first},{second}");
    let document = json(&bench(folder.path(), "tpch:0.01", &both, "out", SECRET).output().unwrap());
    let workload = &items(&document["points"])[0]["workloads"][0];
    assert!(workload["completed"].as_u64() > Some(0), "{document}");
    assert!(workload["network_bytes"]["gather"].as_u64() > Some(0), "{document}");

    let refused = |addresses: &str, data: &str, secret: &str, expect: &str| {
        let outcome = bench(folder.path(), "tpch:0.01", addresses, data, secret).output().unwrap();
        assert_ne!(outcome.status.code(), Some(0));
        says(addresses, &said(&outcome), expect);
    };
    refused(&both, "out", "another secret, as long as it", "without spaces");
    refused(
        &both,
        "out",
        "another-secret-as-long-as-the-true-one",
        &format!("the worker at {first} has another secret"),
    );
    refused(&both, "nothing", SECRET, "has no manifest.json");
    assert_ended(&run(&["export", "other", "--workload", "tpch:0.02"], folder.path()), 0);
    refused(&both, "other", SECRET, &format!("the worker at {first} has a manifest with SHA-256"));
    one.signal("TERM");
    assert_eq!(one.end(), Some(0));
    refused(&both, "out", SECRET, &format!("the worker at {first} does not answer"));
}

#[test]
fn a_worker_without_a_good_secret_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let start = |secret: Option<&str>| {
        let mut command = plimsoll(&["worker", "--listen", "127.0.0.1:0", "--data", "."], folder.path());
        command.env_remove("PLIMSOLL_CLUSTER_SECRET");
        secret.map(|secret| command.env("PLIMSOLL_CLUSTER_SECRET", secret));
        let outcome = command.output().unwrap();
        assert_ended(&outcome, 3);
        said(&outcome)
    };
    says("none", &start(None), "set PLIMSOLL_CLUSTER_SECRET to 16 characters or more");
    says("a short one", &start(Some("short")), "and has 5");
}
