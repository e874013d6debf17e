//! The thread itself: it wakes when a session rings, acts, reports what works, and ends.

use std::time::Instant;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_testing::until;

use super::stage::{Client, HIGH, LOW, governor, server, url};
use crate::governor::Governor;
use crate::registry::Phase;
use crate::watch;

fn is_up(governor: &Governor) -> bool {
    governor.health.lock().control_up.is_some()
}

fn processes_of_governors(connection: &mut Connection, database: &str) -> Vec<String> {
    let sql = format!(
        "select pid from pg_stat_activity where application_name = 'plimsoll governor' and datname = '{database}'"
    );
    let mut found = Vec::new();
    connection.text_rows(&sql, &mut |row| found.extend(row[0].map(str::to_owned))).unwrap();
    found
}

#[test]
fn it_acts_when_it_is_rung_for_and_reconnects_when_it_was_cut_off() {
    let server = server();
    // A database of its own distinguishes this governor's connection from those of other tests.
    let mut connection = Connection::open(&url(&server)).unwrap();
    connection.run("create database watched").unwrap();
    let own = ServerUrl { database: "watched".to_owned(), ..url(&server) };
    let (governor, _commands, _poll) = governor(&server, "pow", |settings| settings.control = Some(own));
    let watcher = watch::start(governor.clone());
    until("it connects", || is_up(&governor));

    let [high, low, stranger] = [HIGH, LOW, LOW].map(|class| Client::new(&governor, &url(&server), class));
    governor.registry.remove(stranger.card.id);
    for round in 0..2 {
        stranger.run("begin; select pg_advisory_xact_lock(301)");
        low.run("begin; select pg_advisory_xact_lock(302)");
        high.send("begin; select pg_advisory_xact_lock(302)");
        low.send("select pg_advisory_xact_lock(301)");
        governor.bell.ring();
        assert_eq!(low.failure(), "57014", "round {round}");
        low.run("rollback");
        low.card.state().phase = Phase::Idle;
        high.outcome().unwrap();
        high.run("rollback");
        stranger.run("rollback");
        for process in processes_of_governors(&mut connection, "watched") {
            connection.run(&format!("select pg_terminate_backend({process}, 5000)")).unwrap();
        }
        // It notices by itself, or when the connection is next needed.
        until("it notices", || governor.health.lock().control_error.is_some() || round == 1);
        until("it connects again", || is_up(&governor) || round == 1);
    }
    watcher.stop();
    until("its connection is closed", || processes_of_governors(&mut connection, "watched").is_empty());
}

#[test]
fn without_a_way_to_ask_it_says_so() {
    let server = server();
    let nowhere = ServerUrl::of_socket("/nowhere", 1, "nobody", "none");
    for (control, why) in [(None, "no control connection is set"), (Some(nowhere), "/nowhere")] {
        let (governor, ..) = governor(&server, "pow", |settings| settings.control = control);
        let watcher = watch::start(governor.clone());
        until("it says why", || governor.health.lock().control_error.as_deref().is_some_and(|told| told.contains(why)));
        governor.bell.ring();
        drop(watcher);
        assert!(!is_up(&governor));
        for lever in ["preemption", "cpu shares", "inheritance"] {
            let lever = governor.lever(lever).unwrap();
            assert!(!lever.is_on && lever.why.contains(why), "{lever:?}");
        }
    }
}

/// Constants may be secrets, and a session beside the governor has no class.
#[test]
fn what_runs_is_seen_with_its_class_and_without_its_constants() {
    let server = server();
    let (governor, _commands, _poll) = governor(&server, "never", |_| {});
    let watcher = watch::start(governor.clone());
    let [relayed, stranger] = [HIGH, LOW].map(|class| Client::new(&governor, &url(&server), class));
    governor.registry.remove(stranger.card.id);
    relayed.send("select pg_sleep(600), 'secret'");
    stranger.send("select 4711 as number, pg_sleep(600)");
    // Others ran for a moment as the clients connected.
    let run_on = || -> Vec<_> {
        let minute = governor.activity.lock().minute(governor.clock(Instant::now()));
        assert_eq!(minute.hidden, 0);
        let running = minute.statements.into_iter().filter(|of| of.running > 0);
        running.map(|of| (of.class, of.running, of.text.unwrap_or_default())).collect()
    };
    until("both are seen", || run_on().len() == 2);
    let mut seen = run_on();
    seen.sort();
    assert_eq!((seen[0].0, seen[0].1, seen[1].0, seen[1].1), (None, 1, Some(HIGH), 1));
    assert!(seen[0].2.contains("number") && !seen[0].2.contains("4711") && !seen[1].2.contains("secret"), "{seen:?}");
    let mut connection = Connection::open(&url(&server)).unwrap();
    for client in [&relayed, &stranger] {
        connection.run(&format!("select pg_cancel_backend({})", client.process())).unwrap();
        assert_eq!(client.failure(), "57014");
    }
    watcher.stop();
}
