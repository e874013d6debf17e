//! Servers that are lost in the middle of a run.

use super::watched::Watched;
use super::*;

fn text(server_lost: &str) -> String {
    text_of("dying", server_lost)
}

fn text_of(policy: &str, server_lost: &str) -> String {
    format!(
        "name = \"lost\"\n[target]\nurl = \"memory:\"\noptions = {{ policy = \"{policy}\" }}\n[[workload]]\nkind = \"rows\"\n\
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
    assert_eq!(
        error,
        "alone:rows, repeat 1: workload rows: client 0 could not connect: the connection was lost: killed"
    );
    assert_eq!(targets.seen().opened, 1);
}

/// Story: a server that was restarted in the middle of a run takes a moment to accept connections. One attempt to connect was
/// made, and the experiment ended (3 of 3 times).
#[test]
fn a_server_that_takes_a_moment_to_come_back_is_waited_for() {
    let targets = Watched { away: 3, ..Watched::default() };
    let plan = plan(&text("go-on"), &targets);
    let records = go_on(&plan, &targets, "", Vec::new(), usize::MAX).expect("it goes on").records;
    assert_eq!(records.iter().map(|record| record.point.valid).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!((targets.seen().opened, targets.seen().refused), (2, 3));
}

/// No run is in flight while data is loaded: it is loaded again, and no run is lost.
#[test]
fn a_server_that_is_lost_while_data_is_loaded_costs_no_run() {
    let (_, records, seen) = run(&text_of("dying-in-load", "go-on"));
    assert!(records.iter().all(|record| record.point.valid));
    assert_eq!((seen.opened, seen.loaded), (2, [("rows_bigint".to_owned(), 1)].into()));
    let targets = Watched::default();
    let plan = plan(&text_of("dying-in-load", "stop"), &targets);
    let error = go_on(&plan, &targets, "", Vec::new(), usize::MAX).expect_err("the server is gone").to_string();
    assert!(error.starts_with("loading rows") && error.contains("the connection was lost: killed"), "{error}");
}

/// Ctrl-C while a lost server is waited for ends the experiment; what was measured is kept.
#[test]
fn waiting_for_a_lost_server_can_be_interrupted() {
    let targets = Watched { away: usize::MAX, ..Watched::default() };
    let (plan, stop) = (plan(&text("go-on"), &targets), AtomicBool::new(false));
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while targets.seen().refused == 0 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        Runner::new(&plan, &targets, &mut NoLimits)
            .run(&Selection::default(), Vec::new(), &mut watch)
            .expect("it stops")
    });
    assert_eq!((outcome.records.len(), outcome.stopped, outcome.left), (1, true, 2));
}
