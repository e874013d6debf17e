//! The next messages of a client whose transaction was rolled back while it was thinking, and which does not know it.
//!
//! Whatever it sends, in any pieces, every unit gets one answer, in order. Either all is as if nothing had happened,
//! and then the whole transaction is present; or a request fails with 40001, and then nothing of the transaction is
//! present.

use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_testing::until;

use super::super::client::{Answer, Client};
use super::super::requests::{self, close, parse, query, sync};
use super::Attacked;

/// The client's messages, unit by unit, all sent at once.
type Units = &'static [&'static str];

/// `close` is a Close of a statement with its Sync, `extended …` a statement by the extended protocol, the rest are queries.
const CASES: &[Units] = &[
    &["COMMIT"],
    &["ROLLBACK"],
    &["extended COMMIT"],
    &["extended ROLLBACK"],
    &["SELECT 'on'", "COMMIT"],
    &["extended SELECT 'on'", "extended COMMIT"],
    &["close", "close", "COMMIT"],
    &["close", "close", "extended COMMIT"],
    &["close", "ROLLBACK"],
    &["close", "SELECT 'on'", "close", "COMMIT"],
    &["sync", "COMMIT"],
    &["SAVEPOINT s", "RELEASE s", "COMMIT"],
    &["SELECT 1/0", "COMMIT"],
    &["SELECT 1/0", "ROLLBACK"],
    &["UPDATE rolled SET low = low + 10", "COMMIT"],
];

fn said(unit: &str) -> Vec<u8> {
    match unit.strip_prefix("extended ") {
        Some(sql) => requests::unit(sql),
        None if unit == "sync" => sync(),
        None if unit == "close" => [close("mine"), sync()].concat(),
        None => query(unit),
    }
}

/// One test at a time uses the table.
fn only_one() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As after the beginning.
fn prepare(attacked: &Attacked) {
    attacked.server.connection().run("UPDATE rolled SET low = 0, high = 0").unwrap();
}

/// A client of class low within a transaction that has been rolled back for one of class high. If `reads`, it has read
/// data that the other has changed since, so that it cannot be replayed unnoticed.
fn rolled_back(attacked: &Attacked, reads: bool) -> Client {
    prepare(attacked);
    let mut low = attacked.client("low");
    low.send(&[parse("mine", "SELECT 1"), sync()].concat()).unwrap();
    low.answer().unwrap();
    low.query("BEGIN").unwrap();
    if reads {
        low.query("SELECT high FROM rolled").unwrap();
    }
    low.query("UPDATE rolled SET low = low + 1").unwrap();
    // It waits for the row until the other is rolled back.
    attacked.client("high").query("UPDATE rolled SET high = high + 1").unwrap();
    low
}

fn check(attacked: &Attacked, units: Units, reads: bool) {
    let mut client = rolled_back(attacked, reads);
    client.send(&units.iter().flat_map(|unit| said(unit)).collect::<Vec<_>>()).unwrap();
    let answers = units.iter().map(|_| client.answer().unwrap()).collect::<Vec<_>>();
    let context = format!("{units:?}, reads: {reads}: {answers:#?}");
    let mut was_told = false;
    for (unit, answer) in units.iter().zip(&answers) {
        was_told |= answer.refusal.as_ref().is_some_and(|refusal| refusal.state == "40001");
        check_answer(unit.trim_start_matches("extended "), answer, was_told, &context);
    }
    let last = answers.last().unwrap();
    assert_eq!(last.status, b'I', "{context}");
    let is_committed = last.commands == ["COMMIT"];
    assert!(!(is_committed && was_told), "{context}");
    // As if nothing had happened, the next transaction is another one.
    assert_eq!(client.value("SELECT 'next'").unwrap(), "next", "{context}");
    drop(client);
    let adds = if units.iter().any(|unit| unit.starts_with("UPDATE")) { 11 } else { 1 };
    let expected = if is_committed { adds } else { 0 };
    let low = || attacked.server.value("SELECT low FROM rolled");
    until(&format!("low is {expected}: {context}"), || low() == expected.to_string());
}

/// Fails if that cannot be the answer to that unit. `was_told` includes this answer.
fn check_answer(unit: &str, answer: &Answer, was_told: bool, context: &str) {
    let state = answer.refusal.as_ref().map(|refusal| refusal.state.as_str());
    let is_refused = matches!(state, Some("40001" | "25P02"));
    assert!(state != Some("25P02") || was_told, "25P02 without 40001 before it: {context}");
    match unit {
        "close" => assert!(answer.tags == b"3Z" || is_refused, "{unit}: {context}"),
        "sync" => assert!(answer.tags == b"Z" || is_refused, "{unit}: {context}"),
        "ROLLBACK" => assert_eq!(answer.commands, ["ROLLBACK"], "{unit}: {context}"),
        "COMMIT" => {
            // For a failed transaction, it acts as a rollback.
            let is_end = answer.commands == ["COMMIT"] || answer.commands == ["ROLLBACK"];
            assert!(is_end || state == Some("40001"), "{unit}: {context}");
            assert_eq!(answer.status, b'I', "{unit}: {context}");
        }
        "SELECT 'on'" => assert!(answer.value() == Some("on") || is_refused, "{unit}: {context}"),
        "SELECT 1/0" => assert!(state == Some("22012") || is_refused, "{unit}: {context}"),
        _ => assert!(answer.commands.len() == 1 || is_refused, "{unit}: {context}"),
    }
}

#[test]
fn who_was_rolled_back_while_thinking_gets_answers_in_order() {
    let _one = only_one();
    let attacked = Attacked::start();
    for &units in CASES {
        for reads in [false, true] {
            check(&attacked, units, reads);
        }
    }
    assert!(attacked.governed.count(Some("low"), "preempted_idle") >= CASES.len() as u64);
    assert!(attacked.governed.count(Some("low"), "replays_verified") > 0);
    attacked.stop();
}

/// A client has a savepoint with the name by which the governor makes transactions fail. It is rolled back while it is
/// thinking, and the replay reads other data. The governor's ROLLBACK TO that name succeeded, so the transaction did
/// not fail, and the governor tried again without end.
#[test]
fn savepoints_may_have_any_name() {
    let _one = only_one();
    let attacked = Attacked::start();
    for _ in 0..3 {
        let mut client = attacked.client("low");
        prepare(&attacked);
        client.query("BEGIN").unwrap();
        client.query("SAVEPOINT preempted_by_plimsoll").unwrap();
        client.query("SELECT high FROM rolled").unwrap();
        client.query("UPDATE rolled SET low = low + 1").unwrap();
        attacked.client("high").query("UPDATE rolled SET high = high + 1").unwrap();
        let failure = client.query("SELECT 'on'").expect_err("the replay has read what is no longer so");
        assert_eq!(failure.state(), Some("40001"), "{failure}");
        assert_eq!(client.query("COMMIT").unwrap().commands, ["ROLLBACK"]);
        assert_eq!(client.value("SELECT 'next'").unwrap(), "next");
    }
    assert_eq!(attacked.server.value("SELECT low FROM rolled"), "0");
    attacked.stop();
}

/// A function catches the governor's cancel and raises an error of its own, which is longer than the governor reads. It
/// was forwarded, so a client was told of a cancel that it had not requested.
#[test]
fn an_error_of_our_cancel_may_have_any_length() {
    let attacked = Attacked::start();
    let mut holder = attacked.server.connection();
    holder
        .run(
            "CREATE OR REPLACE FUNCTION noisy(row_id int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                 UPDATE hot SET low = low + 1 WHERE id = row_id;
             EXCEPTION WHEN query_canceled THEN
                 RAISE EXCEPTION USING ERRCODE = 'query_canceled', MESSAGE = repeat('x', 100000);
             END $$",
        )
        .unwrap();
    holder.run("BEGIN; UPDATE hot SET low = low WHERE id = 3").unwrap();
    let mut low = attacked.client("low");
    low.query("BEGIN").unwrap();
    // It cannot be replayed, so its client gets the error.
    low.query("LISTEN birds").unwrap();
    low.query("UPDATE hot SET low = low WHERE id = 2").unwrap();
    low.send_query("SELECT noisy(3)").unwrap();
    attacked.client("high").query("UPDATE hot SET high = high WHERE id = 2").unwrap();
    let refusal = low.answer().unwrap().refusal.expect("it was rolled back");
    assert_eq!(refusal.state, "40001", "{:.100}", refusal.message);
    assert!(refusal.message.len() < 1000, "the error is passed on: {:.100}", refusal.message);
    assert_eq!(low.query("ROLLBACK").unwrap().status, b'I');
    holder.run("ROLLBACK").unwrap();
    attacked.stop();
}
