//! A watch over sessions of a real server, each brought into a state and held there.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::Doing;
use plimsoll_postgres::activity::{Asker, Watch};
use plimsoll_postgres::server::{PrivateServer, ServerSettings};
use plimsoll_workload::activity::{Activity, ActivityWatch, Statements};

/// A look takes less than a millisecond, and every state that tests wait for comes about quickly.
const LOOKS_MAX: usize = 20_000;

fn connect(server: &PrivateServer) -> Connection {
    let folder = server.socket_folder().display().to_string();
    let text = format!("postgres://{}@/{}?host={folder}&port={}", server.user(), server.database(), server.port());
    Connection::open(&ServerUrl::parse(&text).unwrap()).unwrap()
}

/// Looks until a process, or a worker of it, is in that state.
fn wait_for(watch: &mut Watch<Asker>, what: &str, is_it: impl Fn(&Activity) -> bool) {
    for _ in 0..LOOKS_MAX {
        let mut seen = Vec::new();
        watch.look(&mut seen).unwrap();
        if seen.iter().any(&is_it) {
            return;
        }
    }
    panic!("{what} was not seen");
}

#[test]
fn every_state_of_a_session_is_seen_as_what_it_is() {
    let server = PrivateServer::start(ServerSettings::for_this_machine()).unwrap();
    let mut watch = Watch::new(Asker::new(connect(&server))).unwrap();
    let (mut one, mut two) = (connect(&server), connect(&server));
    let (first, second) = (one.process_id(), two.process_id());
    assert_eq!(one.server_process(), Some(first), "the server is on this machine");
    let is = |process, doing| move |seen: &Activity| seen.process == process && seen.doing == doing;

    one.run("create table t (a int primary key, b int); insert into t select i, 0 from generate_series(1, 100000) i")
        .unwrap();
    wait_for(&mut watch, "an idle session", is(first, Doing::Idle));
    one.run("begin; update t set b = 1 where a = 1").unwrap();
    wait_for(&mut watch, "an open transaction that waits for its client", is(first, Doing::Client));

    thread::scope(|scope| {
        let blocked = scope.spawn(|| two.run("update t set b = 2 where a = 1"));
        wait_for(&mut watch, "a lock wait", is(second, Doing::Lock));
        one.run("commit").unwrap();
        blocked.join().unwrap().unwrap();
    });
    thread::scope(|scope| {
        let asleep = scope.spawn(|| two.run("select pg_sleep(0.5)"));
        wait_for(&mut watch, "a sleep", is(second, Doing::Other));
        asleep.join().unwrap().unwrap();
    });
    thread::scope(|scope| {
        let busy = scope.spawn(|| two.run("select sum(i) from generate_series(1, 20000000) i"));
        wait_for(&mut watch, "a session that computes", is(second, Doing::Running));
        busy.join().unwrap().unwrap();
    });
    // Own looks and another's: the watch leaves itself out.
    let mut seen = Vec::new();
    watch.look(&mut seen).unwrap();
    assert!(seen.iter().all(|activity| Some(activity.process) != watch.server_process()), "{seen:?}");
    assert!(seen.iter().all(|activity| [first, second].contains(&activity.process)), "{seen:?}");
}

#[test]
fn commits_wait_for_the_log() {
    let server = PrivateServer::start(ServerSettings::for_this_machine().with(&[("fsync", "on")]).unwrap()).unwrap();
    let mut watch = Watch::new(Asker::new(connect(&server))).unwrap();
    let (stop, mut session) = (AtomicBool::new(false), connect(&server));
    session.run("create table t (a int)").unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                session.run("insert into t values (1)").unwrap();
            }
        });
        wait_for(&mut watch, "a wait for the log", |seen| matches!(seen.doing, Doing::Io | Doing::IoLatch));
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
fn parallel_workers_have_a_leader_and_upkeep_and_statements_are_told() {
    let server = PrivateServer::start(ServerSettings::for_this_machine()).unwrap();
    let mut watch = Watch::new(Asker::new(connect(&server))).unwrap();
    let mut session = connect(&server);
    let leader = session.process_id();
    let before = watch.upkeep().unwrap();
    session
        .run("create table t as select i a, i % 7 b from generate_series(1, 300000) i; analyze t; checkpoint")
        .unwrap();
    session
        .run("set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0")
        .unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                session.run("select b, count(*), sum(a) from t group by b").unwrap();
            }
        });
        wait_for(&mut watch, "a parallel worker", |seen| seen.leader == Some(leader) && seen.process != leader);
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    let after = watch.upkeep().unwrap();
    assert!(after.checkpoints_begun > before.checkpoints_begun, "{before:?} {after:?}");
    match watch.statements(true).unwrap() {
        Statements::Kept(all) => {
            assert!(server.has_statement_statistics());
            let of_t = all.iter().find(|statement| statement.text.contains("from t group by b")).expect("it ran");
            assert!(of_t.calls > 0 && of_t.rows == 7 * of_t.calls && of_t.time.as_nanos() > 0, "{of_t:?}");
            assert!(all.iter().all(|statement| !statement.text.contains("plimsoll watch")), "{all:?}");
        }
        Statements::NotKept(why) => assert!(!server.has_statement_statistics(), "{why}"),
    }
}

#[test]
fn a_server_that_goes_away_ends_the_watch() {
    let server = PrivateServer::start(ServerSettings::for_this_machine()).unwrap();
    let mut watch = Watch::new(Asker::new(connect(&server))).unwrap();
    let mut seen = Vec::new();
    watch.look(&mut seen).unwrap();
    drop(server);
    let error = watch.look(&mut seen).expect_err("the server is gone");
    assert!(matches!(error, plimsoll_workload::database::DatabaseError::ConnectionLost(_)), "{error:?}");
}
