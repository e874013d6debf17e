//! Every supported version of PostgreSQL, through the governor: logins, drivers and replays.
//!
//! `tools/postgresql-versions` fetches the versions. The foreign clients are psql, with the libpq of the tested version
//! from 15 on, and psycopg; [`encrypted`] has the tests over TLS. Each version has a server of its own.

pub mod encrypted;

use std::path::Path;
use std::process::Command;

use plimsoll_testing::postgres_version;

use super::client::{Client, cancel};
use super::drivers;
use super::governed::Governed;
use super::requests::{query, unit};
use super::server::{PASSWORD, Server};

/// The first version whose libpq has all functions that the installed psql needs.
const LIBPQ_MIN: u32 = 15;

/// The first version of protocol 3.2, in which cancel keys are longer.
const LONG_KEYS_SINCE: u32 = 18;

#[test]
fn postgresql_13() {
    check(13);
}

#[test]
fn postgresql_14() {
    check(14);
}

#[test]
fn postgresql_15() {
    check(15);
}

#[test]
fn postgresql_16() {
    check(16);
}

#[test]
fn postgresql_17() {
    check(17);
}

#[test]
fn postgresql_18() {
    check(18);
}

fn check(major: u32) {
    let Some(folder) = postgres_version(major) else { return };
    let mut server = Server::of(Some(&folder));
    assert_eq!(server.own().version().major, major);
    let rules = "local all plimsoll trust\nlocal all low_md5 md5\nlocal all all scram-sha-256\n";
    let roles = format!(
        "SET password_encryption = 'md5'; CREATE ROLE low_md5 LOGIN PASSWORD '{PASSWORD}';
         CREATE FUNCTION level(int) RETURNS bigint LANGUAGE sql AS 'SELECT low FROM hot WHERE id = $1'"
    );
    server.connection().run(&roles).unwrap();
    std::fs::write(server.own().data_folder().join("pg_hba.conf"), rules).unwrap();
    server.restart();

    let mut governed = Governed::start(&server);
    logins(&server, &governed);
    cancels(&server, &governed, major);
    pipelines(&server, &governed);
    replays(&server, &governed);
    governed.assert_alive();
    drop(governed);

    drivers::check_before(&server, None, &mut with_libpq(drivers::psql_program(), major, &folder), drivers::CHECKS);
    let mut program = drivers::python_program("python", "psycopg_checks.py");
    drivers::check_before(&server, None, &mut program, drivers::CHECKS);
    encrypted::check(&mut server, major);
}

/// A program with the libpq of a version, which speaks the newest protocol that it knows. The variable is unknown before 18.
fn with_libpq(mut program: Command, major: u32, folder: &Path) -> Command {
    if major >= LIBPQ_MIN {
        program.env("LD_LIBRARY_PATH", folder.join("../lib")).env("PGMAXPROTOCOLVERSION", "latest");
    }
    program
}

fn logins(server: &Server, governed: &Governed) {
    for user in ["low", "high", "low_md5"] {
        let mut client = governed.client(user, server.database());
        assert_eq!(client.value("SELECT current_user").unwrap(), user);
        let wrong = [("user", user), ("database", server.database())];
        let failure = Client::log_in(governed.address, &wrong, "wrong").expect_err("a wrong password");
        assert_eq!(failure.state(), Some("28P01"), "{user}: {failure}");
    }
}

/// A client that requests protocol 3.2, and the server's answer.
fn newest_protocol(server: &Server, governed: &Governed) -> Client {
    let parameters = format!("user\0low\0database\0{}\0\0", server.database());
    let length = u32::try_from(8 + parameters.len()).unwrap();
    let mut client = Client::bare(governed.address).unwrap();
    let first = [&length.to_be_bytes()[..], &(3_u32 << 16 | 2).to_be_bytes(), parameters.as_bytes()].concat();
    client.send(&first).unwrap();
    client.finish_log_in(PASSWORD).unwrap_or_else(|failure| panic!("protocol 3.2: {failure}"));
    client
}

fn cancels(server: &Server, governed: &Governed, major: u32) {
    let long = newest_protocol(server, governed);
    let key_bytes = if major >= LONG_KEYS_SINCE { 4 + 32 } else { 4 + 4 };
    assert_eq!(long.key.len(), key_bytes, "process and secret with protocol 3.2");
    let short = governed.client("low", server.database());
    assert_eq!(short.key.len(), 4 + 4, "process and secret with protocol 3.0");
    for mut client in [long, short] {
        client.send_query("SELECT pg_sleep(60)").unwrap();
        let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        plimsoll_testing::until("it sleeps", || server.value(sleeps) == "1");
        let mut wrong = client.key.clone();
        *wrong.last_mut().unwrap() ^= 1;
        cancel(governed.address, &wrong).unwrap();
        assert_eq!(server.value(sleeps), "1", "a cancel with a wrong key");
        cancel(governed.address, &client.key).unwrap();
        let refusal = client.answer().unwrap().refusal.expect("it was cancelled");
        assert_eq!(refusal.state, "57014", "{refusal:?}");
        assert_eq!(client.value("SELECT 1").unwrap(), "1");
    }
}

/// Several units in flight at once, one of which fails.
fn pipelines(server: &Server, governed: &Governed) {
    let mut client = governed.client("low", server.database());
    client.send(&["SELECT 7", "SELECT 1/0", "SELECT 8"].map(unit).concat()).unwrap();
    assert_eq!(client.answer().unwrap().value(), Some("7"));
    assert_eq!(client.answer().unwrap().refusal.unwrap().state, "22012");
    assert_eq!(client.answer().unwrap().value(), Some("8"));
    // As Npgsql does: BEGIN before the first statement, and what resets a pooled session before the next, without waiting.
    for (before, sql, status) in [
        (
            "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "UPDATE hot SET low = low + 1 WHERE id = 2 RETURNING 9",
            b'T',
        ),
        ("COMMIT", "SELECT 9", b'I'),
        ("DISCARD ALL", "SELECT 9", b'I'),
    ] {
        client.send(&[query(before), unit(sql)].concat()).unwrap();
        assert_eq!(client.answer().unwrap().refusal, None, "{before}");
        let answer = client.answer().unwrap();
        assert_eq!((answer.value(), answer.status), (Some("9"), status), "{before}");
    }
}

/// Important work needs a row that a client holds while it thinks. The function's body is read in the server's catalog before
/// its transaction is replayed.
fn replays(server: &Server, governed: &Governed) {
    let mut low = governed.client("low", server.database());
    low.query("BEGIN").unwrap();
    low.query("UPDATE hot SET low = low + 1 WHERE id = 1").unwrap();
    let level = low.value("SELECT level(1)").unwrap();
    let mut high = governed.client("high", server.database());
    high.query("UPDATE hot SET high = high + 1 WHERE id = 1").unwrap();
    assert_eq!(low.value("SELECT level(1)").unwrap(), level);
    low.query("COMMIT").unwrap();
    assert_eq!(governed.count(Some("low"), "preempted_idle"), 1);
    assert!(governed.count(Some("low"), "replays_verified") > 0);
    assert_eq!(server.value("SELECT low || ' ' || high FROM hot WHERE id = 1"), format!("{level} 1"));
}
