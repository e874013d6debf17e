//! Workers that end, hang, or outlive nobody.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use plimsoll_testing::{says, until};
use plimsoll_workload::database::Database;

use crate::pair::Pair;
use crate::program::{RunningProgram, names, plimsoll};

const QUERY: &str = "select l_shipmode, count(*), sum(o_totalprice) from lineitem join orders on l_orderkey = o_orderkey \
                     join customer on o_custkey = c_custkey group by l_shipmode";

fn signal(process: i32, name: &str) {
    // The shell's own `kill`: the program of that name is in a package that small systems do not have.
    assert!(Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().unwrap().success());
}

fn runs(process: i32) -> bool {
    // A zombie has ended.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// A worker is lost while queries run. They run again, the answers are right, and the run says so.
#[test]
fn a_worker_that_is_killed_is_replaced_and_its_queries_run_again() {
    for how in ["KILL", "STOP"] {
        let pair = Pair::new(&[]);
        let expect = sorted(pair.alone(QUERY).unwrap());
        let before = pair.cluster.footprint().processes;
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    assert_eq!(sorted(pair.distributed(QUERY).unwrap()), expect);
                }
            });
            signal(before[1], how);
            until("a query was run again", || pair.cluster.warnings().iter().any(|note| note.contains("run again")));
            has_ended.store(true, Ordering::Relaxed);
        });
        let told = pair.cluster.warnings().join("\n");
        says("the loss", &told, &format!("worker 2 (process {}) was lost", before[1]));
        says("the query", &told, "a query was run again because a worker was lost");
        let after = pair.cluster.footprint().processes;
        assert_eq!(after[0], before[0]);
        assert_ne!(after[1], before[1]);
        assert!(!runs(before[1]));
        drop(pair);
        until("all workers have ended", || !after.iter().any(|process| runs(*process)));
    }
}

fn sorted<T: Ord>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort();
    rows
}

/// A query that is under way ends when it is cancelled, and the next one runs.
#[test]
fn a_query_can_be_cancelled() {
    let pair = Pair::new(&[]);
    let long = "select count(*) from lineitem a, lineitem b where a.l_partkey + b.l_suppkey = 17 and a.l_comment < b.l_comment";
    thread::scope(|scope| {
        let query = scope.spawn(|| pair.distributed(long).unwrap_err().to_string());
        until("the query has ended", || {
            pair.cluster.cancel_statements();
            query.is_finished()
        });
        says("the query", &query.join().unwrap(), "cancelled");
    });
    pair.assert_same("select count(*) from nation");
}

/// Whoever kills the program leaves neither workers nor files.
#[test]
fn nothing_outlives_a_coordinator_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("cluster:?workers=2&dop=1&folder={}", folder.path().display());
    let arguments = ["bench", "tpch:0.01", "--target", &target, "--seconds", "100", "--warmup", "1"];
    let mut program = RunningProgram::start(&mut plimsoll(&arguments, folder.path()));
    until("its data are exported", || manifest_is_in(folder.path()));
    let workers = children(program.id());
    assert_eq!(workers.len(), 2);
    program.signal("KILL");
    program.end();
    until("its workers have ended", || !workers.iter().any(|worker| runs(*worker)));
    until("its files are gone", || names(folder.path()).is_empty());
}

fn manifest_is_in(folder: &Path) -> bool {
    let of_run = names(folder).into_iter().find(|name| name.starts_with("plimsoll-cluster-"));
    of_run.is_some_and(|name| folder.join(name).join("tpch/manifest.json").exists())
}

fn children(parent: u32) -> Vec<i32> {
    let path = format!("/proc/{parent}/task");
    let threads = std::fs::read_dir(path).unwrap().flatten();
    let of_thread =
        |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    threads
        .map(of_thread)
        .flat_map(|text| text.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<i32>>())
        .collect()
}
