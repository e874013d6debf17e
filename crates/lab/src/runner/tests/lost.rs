//! Servers that are lost in the middle of a run.

use super::watched::Watched;
use super::*;

fn text(server_lost: &str) -> String {
    format!(
        "name = \"lost\"\n[target]\nurl = \"memory:\"\noptions = {{ policy = \"dying\" }}\n[[workload]]\nkind = \"rows\"\n\
         scale = 0.001\n[run]\nothers_max = 1000\nwarmup = \"0s\"\nmeasure = \"10ms\"\nrepeats = 3\nserver_lost = \"{server_lost}\"\n"
    )
}

#[test]
fn the_run_is_invalid_and_the_next_one_finds_a_new_server() {
    let (_, records, seen) = run(&text("go-on"));
    let why: Vec<_> = records.iter().map(|record| record.point.why_invalid.as_deref()).collect();
    assert_eq!(why, [Some("workload rows: client 0 could not connect: the connection was lost: killed"), None, None]);
    assert!(records[0].point.workloads.is_empty() && !records[0].point.valid);
    assert_eq!((seen.opened, seen.loaded), (2, [("rows_bigint".to_owned(), 2)].into()));
}

#[test]
fn it_can_end_the_experiment() {
    let targets = Watched::default();
    let plan = plan(&text("stop"), &targets);
    let error = go_on(&plan, &targets, "", Vec::new(), usize::MAX).expect_err("the server is gone").to_string();
    assert!(error.contains("the connection was lost"), "{error}");
    assert_eq!(targets.seen().opened, 1);
}
