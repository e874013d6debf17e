//! A governor in the connection path of less important sessions, while important ones are open at the server itself.

use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::{Password, ServerUrl};
use plimsoll_postgres::server::PrivateServer;
use plimsoll_testing::until;
use rustix::process::geteuid;

use super::beside::{client, lever, open, running, server};
use super::nice;
use super::process::{self, Governor, in_front_of, of_client, rows, value};

/// `shop` is important, and connects to the server; all others come through the governor.
const MORE: &str = r#"
[mode]
direct_sessions = true
[[class]]
name = "high"
priority = "high"
[[class]]
name = "low"
priority = "low"
mpl = 1
cpu = "nice 10"
retries = true
"#;

fn start(server: &PrivateServer) -> Governor {
    let before = in_front_of(server);
    let governor = Governor::start_with(|text| before(text) + MORE, false);
    governor.logged("are governed from now on");
    governor
}

fn through(governor: &Governor, server: &PrivateServer) -> Connection {
    process::open(&ServerUrl::of_socket(governor.folder.path(), 6432, "batch", server.database()))
}

fn console(governor: &Governor) -> Connection {
    let mut url = ServerUrl::of_socket(governor.folder.path(), 6432, "admin", "console");
    url.password = Some(Password::new("admin's password".to_owned()));
    process::open(&url)
}

#[test]
fn important_sessions_at_the_server_are_protected_from_those_that_come_through() {
    let (server, _own) = server();
    let governor = start(&server);
    let mut admin = console(&governor);
    let state = rows(&mut admin, "SHOW STATE");
    assert_eq!(value(&state, "mode"), "in the connection path, and beside the server for other sessions");
    let (mut shop, mut batch) = (open(&server, "shop"), through(&governor, &server));
    batch.run("begin; update account set money = 1 where id = 1").unwrap();
    until("the session at the server to be seen", || {
        client(&mut admin, shop.process_id()).is_some_and(|(class, ..)| class == "high")
    });
    assert_eq!(client(&mut admin, batch.process_id()).unwrap().0, "low");
    assert_eq!(rows(&mut admin, "SHOW CLIENTS").len(), 3, "with the operator's own at the server");
    assert!(lever(&mut admin, "sessions").0 && lever(&mut admin, "preemption").0);
    if geteuid().is_root() {
        until("the shares to be set", || nice(batch.process_id()) == Some(10));
        assert_eq!(nice(shop.process_id()), Some(0));
    }

    // The client of the lock's holder thinks: its transaction is rolled back, and replayed when it goes on.
    let began = Instant::now();
    shop.run("update account set money = 2 where id = 1").unwrap();
    assert!(began.elapsed() < Duration::from_secs(30), "nobody else frees the lock");
    batch.run("update account set money = 3 where id = 2; commit").unwrap();
    assert_eq!(shop.text("select money from account where id = 1").unwrap().as_deref(), Some("1"));

    // No session at the server is ever cancelled, of whatever class.
    let mut other = open(&server, "batch");
    other.run("begin; update account set money = 4 where id = 3").unwrap();
    let other = running(other, "select pg_sleep(1)");
    let waits = running(shop, "update account set money = 5 where id = 3");
    let (mut other, outcome) = other.join().unwrap();
    outcome.unwrap();
    other.run("commit").unwrap();
    let (mut shop, outcome) = waits.join().unwrap();
    outcome.unwrap();

    // Nor does any of them keep the governor from ending.
    let number = rows(&mut admin, "SHOW CLIENTS")
        .into_iter()
        .find(|row| of_client(row, "server_pid") == shop.process_id().to_string());
    let refused =
        admin.run(&format!("KILL {}", of_client(&number.unwrap(), "id"))).expect_err("it is at the server").to_string();
    assert!(refused.contains("is connected to the server itself"), "{refused}");
    drop((batch, admin));
    governor.end();
    shop.run("select 1").unwrap();
    if geteuid().is_root() {
        assert_eq!(nice(other.process_id()), Some(0), "an end puts everything back");
    }
}

/// A single thread with several sessions prepares statements in one while another has its transaction open, as pgbench
/// does: both would wait for ever if preparing had to be admitted.
#[test]
fn to_prepare_a_statement_needs_no_admission() {
    let (server, _own) = server();
    let governor = start(&server);
    let (mut first, mut second) = (through(&governor, &server), through(&governor, &server));
    first.run("begin").unwrap();
    let prepared = second.prepare_text("money", "select money from account where id = $1").unwrap();
    let waits = std::thread::spawn(move || {
        let mut money = None;
        let outcome = second.prepared_text_rows(&prepared, &["1"], &mut |row| money = row[0].map(str::to_owned));
        outcome.unwrap();
        money
    });
    let mut admin = console(&governor);
    until("the transaction to be queued", || rows(&mut admin, "SHOW QUEUE").len() == 1);
    first.run("commit").unwrap();
    assert_eq!(waits.join().unwrap().as_deref(), Some("0"));
    drop((first, admin));
    governor.end();
}

/// Neither of two governors in the path can tell which of the sessions at the server come through the other.
#[test]
fn two_in_the_path_leave_sessions_at_the_server_alone() {
    let (server, _own) = server();
    let first = start(&server);
    let shop = open(&server, "shop");
    let mut admin = console(&first);
    until("the session to be seen", || client(&mut admin, shop.process_id()).is_some());
    let second = Governor::start_with(in_front_of(&server), false);
    until("the first to leave it alone", || client(&mut admin, shop.process_id()).is_none());
    let (is_on, why) = lever(&mut admin, "sessions");
    assert!(!is_on && why.contains("another governor works in the connection path of"), "{why}");
    assert!(lever(&mut admin, "preemption").0, "the rest of it works");
    second.end();
    until("the session to be seen again", || client(&mut admin, shop.process_id()).is_some());
    drop(admin);
    first.end();
}
