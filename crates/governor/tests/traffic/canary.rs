//! Tests that must fail do fail.
//!
//! A [`Meddler`] between the governor and the server simulates mistakes of the governor: it changes an answer of a
//! replay, as if answers were not compared, and lets a cancel arrive late, as if the governor did not wait for its
//! arrival. One function checks each story, and returns the fault that it finds. It must find none if the governor
//! works properly, and one if the mistake takes effect.

pub mod meddler;

use std::thread;

use plimsoll_testing::until;

use super::client::{Client, cancel};
use super::governed::Governed;
use super::server::Server;
use meddler::Meddler;

/// The outcome that a client of class low sees for its transaction, which was rolled back while it was thinking.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// It was committed, as if nothing had happened.
    Nothing,
    /// 40001.
    Told,
}

/// The client must have read the same values as the transaction that was committed.
fn check_replay(heard: &Heard, was_the_same: bool) -> Result<(), String> {
    match (heard, was_the_same) {
        (Heard::Nothing, true) | (Heard::Told, false) => Ok(()),
        (Heard::Nothing, false) => Err("an answer of the replay was another, and the client was not told".to_owned()),
        (Heard::Told, true) => Err("every answer of the replay was the same, and the client was told 40001".to_owned()),
    }
}

/// A transaction of class low reads, changes and is rolled back while its client is thinking. If `is_changed`, the
/// replay reads other values.
fn replay(server: &Server, is_changed: bool) -> Heard {
    let meddler = Meddler::start(server.socket());
    let (_, control) = Governed::places(server);
    let governed = Governed::start_at(&meddler.url(), &control, "", "");
    let mut low = governed.client("low", server.database());
    low.query("BEGIN").unwrap();
    assert_eq!(low.value("SELECT 'bird 1' FROM hot WHERE id = 1").unwrap(), "bird 1");
    low.query("UPDATE hot SET low = low + 1 WHERE id = 1").unwrap();
    // It waits for the row until the other is rolled back.
    governed.client("high", server.database()).query("UPDATE hot SET high = high + 1 WHERE id = 1").unwrap();
    if is_changed {
        meddler.replace(b"bird 1", b"bird 2");
    }
    match low.query("COMMIT") {
        Ok(answer) => {
            assert_eq!(answer.commands, ["COMMIT"]);
            Heard::Nothing
        }
        Err(failure) => {
            assert_eq!(failure.state(), Some("40001"), "{failure}");
            Heard::Told
        }
    }
}

#[test]
fn an_answer_that_is_another_is_noticed_to_the_byte() {
    // At a server of its own: an old transaction of another test would make its table count as changed.
    let server = Server::start();
    for is_changed in [false, true] {
        check_replay(&replay(&server, is_changed), !is_changed).unwrap();
    }
    // A governor that does not compare answers would replay it unnoticed.
    check_replay(&Heard::Nothing, false).unwrap_err();
}

/// A statement sent after the cancelled one must not be affected by the cancel.
fn check_late_cancel(answer: &Result<String, String>) -> Result<(), String> {
    match answer {
        Ok(value) if value == "next" => Ok(()),
        other => Err(format!("a cancel has met the next statement: {other:?}")),
    }
}

/// A client runs a statement that waits, and its cancel is held up until that was answered. The next statement is sent
/// before the cancel continues, and waits too. Without a `governed`, clients connect to the server itself.
fn late_cancel(server: &Server, is_governed: bool) -> Result<String, String> {
    let meddler = Meddler::start(server.socket());
    let governed = is_governed.then(|| Governed::start_at(&meddler.url(), "", "", ""));
    let place = governed.as_ref().map_or(meddler.address(), |governed| governed.address);
    let mut client = Client::connect(place, "low", server.database()).unwrap();
    // The test, not the clock, decides how long each statement takes: the machine may be busy.
    let mut holder = server.connection();
    holder.run("SELECT pg_advisory_lock(71), pg_advisory_lock(72)").unwrap();
    meddler.holds_cancels(true);
    client.send_query("SELECT 'first' FROM pg_advisory_xact_lock(71)").unwrap();
    wait_for_statement(server, "first");
    let key = client.key.clone();
    thread::scope(|scope| {
        scope.spawn(|| cancel(place, &key).unwrap());
        meddler.wait_for_cancel();
        holder.run("SELECT pg_advisory_unlock(71)").unwrap();
        assert_eq!(client.answer().unwrap().refusal, None);
        client.send_query("SELECT 'next' FROM pg_advisory_xact_lock(72)").unwrap();
        if !is_governed {
            wait_for_statement(server, "next");
        }
        meddler.holds_cancels(false);
    });
    if is_governed {
        // The cancel has arrived; the statement begins only now, or was hit by it.
        holder.run("SELECT pg_advisory_unlock(72)").unwrap();
    }
    let answer = client.answer().unwrap();
    match answer.refusal {
        None => Ok(answer.value().unwrap_or_default().to_owned()),
        Some(refusal) => Err(refusal.state),
    }
}

/// Waits until that statement is running, and waits for its lock.
fn wait_for_statement(server: &Server, name: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT ''{name}''%'"
    );
    until(&format!("the statement `{name}` begins"), || server.value(&sql) != "0");
}

#[test]
fn a_cancel_that_comes_late_meets_nothing() {
    let server = Server::shared();
    check_late_cancel(&late_cancel(&server, true)).unwrap();
    // Without a governor, no session waits for the arrival of a cancel.
    check_late_cancel(&late_cancel(&server, false)).unwrap_err();
}
