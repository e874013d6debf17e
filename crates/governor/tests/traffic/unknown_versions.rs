//! A server that says it is newer than this governor: replay is off, unless the operator wants it and the server answers
//! the questions about its catalogs as known versions do.

use plimsoll_pg::connection::SUPPORTED;

use super::canary::meddler::Meddler;
use super::client::Client;
use super::governed::Governed;
use super::server::Server;

/// A relay in front of a server that makes it one version newer than every known one.
fn newer(server: &Server) -> Meddler {
    let meddler = Meddler::start(server.socket());
    let says = |major: u32| format!("server_version\0{major}").into_bytes();
    meddler.replace(&says(server.own().version().major), &says(SUPPORTED.end() + 1));
    meddler
}

fn governed(server: &Server, meddler: &Meddler, replays: bool) -> Governed {
    let (own, address) = (server.own(), meddler.address());
    let control = format!("control = \"postgres://{}@{address}/{}?sslmode=disable\"", own.user(), own.database());
    let preemption = format!("replay_on_unknown_versions = {replays}");
    Governed::start_preempting(&meddler.url(), &control, &preemption)
}

/// What `SHOW LEVERS` says of replay: whether it works, why, and its state.
fn replay(governed: &Governed) -> [String; 3] {
    let mut console = governed.console().unwrap_or_else(|failure| panic!("{failure}"));
    let answer = console.query("SHOW LEVERS").unwrap_or_else(|failure| panic!("{failure}"));
    let row = answer.rows.iter().find(|row| row[0].as_deref() == Some("replay")).expect("a row of replay");
    [1, 2, 3].map(|at| row[at].clone().unwrap_or_default())
}

/// An important update needs a row that a client has changed, which thinks. Returns the client's next answer.
fn preempt(server: &Server, governed: &Governed) -> Result<String, String> {
    let client = |user: &str| -> Client { governed.client(user, server.database()) };
    let mut low = client("low");
    low.query("BEGIN").unwrap();
    low.query("UPDATE hot SET low = low + 1 WHERE id = 1").unwrap();
    let mut high = client("high");
    high.query("UPDATE hot SET high = high + 1 WHERE id = 1").unwrap();
    low.value("SELECT low FROM hot WHERE id = 1").map_err(|failure| failure.state().unwrap_or("lost").to_owned())
}

/// The catalogs are those of the installed version, so the self-test passes, and transactions are replayed.
#[test]
fn replays_on_an_unknown_version_follow_a_self_test() {
    let server = Server::start();
    let meddler = newer(&server);
    let mut governed = governed(&server, &meddler, true);
    let [works, why, _] = replay(&governed);
    assert_eq!(works, "t", "{why}\n{}", governed.said());
    assert!(governed.said().contains("catalog questions as known versions do"), "{}", governed.said());
    assert_eq!(preempt(&server, &governed), Ok("1".to_owned()));
    assert!(governed.count(Some("low"), "replays_verified") > 0);
    governed.assert_alive();
}

#[test]
fn without_the_setting_nothing_is_replayed_and_the_reason_is_said() {
    let server = Server::start();
    let meddler = newer(&server);
    let governed = governed(&server, &meddler, false);
    let [works, why, state] = replay(&governed);
    assert_eq!((works.as_str(), state.as_str()), ("f", "failing"));
    assert!(why.contains("replay_on_unknown_versions = true") && why.contains("replays nothing"), "{why}");
    assert_eq!(preempt(&server, &governed), Err("40001".to_owned()));
}

/// A canary: one catalog answers something else than on known versions, in the only place where that shows.
#[test]
fn an_answer_that_means_something_else_keeps_replay_off() {
    let server = Server::start();
    let meddler = newer(&server);
    // The body of the self-test's function.
    meddler.replace(b"select $1", b"select $9");
    let governed = governed(&server, &meddler, true);
    let [works, why, state] = replay(&governed);
    assert_eq!((works.as_str(), state.as_str()), ("f", "failing"));
    assert!(why.contains("pg_proc (f): no row has plimsoll_f, sql, v, select $1"), "{why}");
    assert_eq!(preempt(&server, &governed), Err("40001".to_owned()));
}
