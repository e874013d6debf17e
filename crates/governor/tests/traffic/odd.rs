//! Clients that do what few drivers do, on a real server: long names, units sent together, messages in the middle of an
//! answer.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::Connection;
use plimsoll_testing::until;

use super::client::{Client, PATIENCE};
use super::governed::Governed;
use super::requests::{bind, execute, parse, query, sync};
use super::server::Server;

/// Longer than any answer takes that nothing holds up, and much shorter than what holds it up.
const SOON: Duration = Duration::from_secs(2);
const LATE: &str = "4";

/// Whether nothing arrives for a while.
fn is_silent(client: &mut Client) -> bool {
    client.set_patience(Duration::from_millis(300)).unwrap();
    let message = client.message();
    client.set_patience(PATIENCE).unwrap();
    message.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// Sends messages, and returns how long it takes until one of that type has arrived.
fn until_heard(client: &mut Client, messages: &[u8], tag: u8) -> Duration {
    let began = Instant::now();
    client.send(messages).unwrap();
    while client.message().unwrap().tag != tag {}
    began.elapsed()
}

/// A table of two rows, the second of which is locked until the connection ends its transaction.
fn contested(server: &Server, table: &str) -> Connection {
    let mut holder = server.connection();
    let rows = format!("CREATE TABLE {table} (id int, n int); INSERT INTO {table} VALUES (1, 0), (2, 0)");
    holder.run(&format!("{rows}; GRANT ALL ON {table} TO public")).unwrap();
    holder.run(&format!("BEGIN; UPDATE {table} SET n = n + 1 WHERE id = 2")).unwrap();
    holder
}

fn update(table: &str, id: u32) -> String {
    format!("UPDATE {table} SET n = n + 1 WHERE id = {id}")
}

/// Waits until that many sessions wait for locks of a table.
fn until_waiting(server: &Server, table: &str, count: usize) {
    let waiting =
        format!("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{table}%'");
    until("they wait", || server.value(&waiting) == count.to_string());
}

/// A COMMIT was prepared under a long name and run under another that is the same for the server, and more behind it. The
/// rest was cancelled for a more important transaction, and the client received the error that nothing of its transaction remained.
#[test]
fn a_commit_that_is_run_under_another_name_is_not_denied() {
    let server = Server::shared();
    let governed = Governed::start(&server);
    let mut holder = contested(&server, "odd_names");
    let name = "x".repeat(63);
    let (mut low, mut high) = (governed.client("low", server.database()), governed.client("high", server.database()));
    low.send(&[parse(&format!("{name}1"), "COMMIT"), sync()].concat()).unwrap();
    low.answer().unwrap();
    low.query("BEGIN").unwrap();
    low.query("INSERT INTO odd_names VALUES (3, 3)").unwrap();
    let run = |sql: &str| [parse("", sql), bind("", &[]), execute()].concat();
    let rest = [run(&update("odd_names", 1)), run(&update("odd_names", 2))].concat();
    low.send(&[bind(&format!("{name}2"), &[]), execute(), rest, sync()].concat()).unwrap();
    until_waiting(&server, "odd_names", 1);
    high.send_query(&update("odd_names", 1)).unwrap();
    until_waiting(&server, "odd_names", 2);
    // It is left alone, however long that takes.
    assert!(is_silent(&mut high) && is_silent(&mut low));
    holder.run("COMMIT").unwrap();
    assert_eq!((low.answer().unwrap().refusal, high.answer().unwrap().refusal), (None, None));
    assert_eq!(server.value("SELECT count(*) FROM odd_names"), "3");
}

/// With room for one of the class, a second client went in behind a unit that needs no admission.
#[test]
fn nobody_goes_in_behind_a_unit_that_needs_no_admission() {
    let server = Server::shared();
    let governed = Governed::start_with(&server, "", "mpl = 1");
    let mut inside = governed.client("low", server.database());
    let mut behind = governed.client("low", server.database());
    for (unit, next) in [
        ([parse("s", "SELECT 1"), sync()].concat(), [bind("s", &[]), execute(), sync()].concat()),
        (query("COMMIT"), query("SELECT 1")),
        (super::requests::unit("COMMIT"), query("SELECT 1")),
    ] {
        inside.query("BEGIN").unwrap();
        behind.send(&[unit, next].concat()).unwrap();
        behind.answer().unwrap();
        assert!(is_silent(&mut behind), "it is answered while another is inside");
        inside.query("COMMIT").unwrap();
        assert_eq!(behind.answer().unwrap().value(), Some("1"));
    }
}

/// Notices came with the end of their statement, and errors outside of a block with the Sync.
#[test]
fn notices_and_errors_come_when_the_server_sends_them() {
    let server = Server::shared();
    let governed = Governed::start(&server);
    for user in ["low", "high"] {
        let mut client = governed.client(user, server.database());
        let raises = format!("DO $$ BEGIN RAISE NOTICE 'now'; PERFORM pg_sleep({LATE}); END $$");
        for messages in [query(&raises), super::requests::unit(&raises)] {
            assert!(until_heard(&mut client, &messages, b'N') < SOON, "{user}");
            client.answer().unwrap();
        }
        let fails = [parse("", "SELECT 1/0"), bind("", &[]), execute()].concat();
        assert!(until_heard(&mut client, &fails, b'E') < SOON, "{user}");
        client.send(&sync()).unwrap();
        assert_eq!(client.answer().unwrap().status, b'I');
    }
}

/// A statement with a notice was rolled back for a more important one and run again, and the notice came twice.
#[test]
fn a_notice_of_a_statement_that_is_run_again_comes_once() {
    // Its own, and made before the governor: its tables must be older than what the governor knows to have ended.
    let server = Server::start();
    let mut holder = contested(&server, "odd_notices");
    let governed = Governed::start(&server);
    let (mut low, mut high) = (governed.client("low", server.database()), governed.client("high", server.database()));
    low.query("BEGIN").unwrap();
    low.query(&update("odd_notices", 1)).unwrap();
    let tells = format!("DROP TABLE IF EXISTS odd_nothing; {}", update("odd_notices", 2));
    assert!(until_heard(&mut low, &query(&tells), b'N') < SOON);
    until_waiting(&server, "odd_notices", 1);
    high.query(&update("odd_notices", 1)).unwrap();
    holder.run("COMMIT").unwrap();
    let answer = low.answer().unwrap();
    assert_eq!((answer.tags, answer.commands.len()), (b"CCZ".to_vec(), 2));
    assert_eq!(governed.count(Some("low"), "replays_verified"), 1);
    low.query("ROLLBACK").unwrap();
}

/// A session that listens: its transaction was replayed, and a notification came in the middle of it.
#[test]
fn a_notification_comes_when_the_transaction_has_ended() {
    let server = Server::shared();
    let governed = Governed::start(&server);
    let mut low = governed.client("low", server.database());
    low.query("LISTEN odd_news").unwrap();
    low.query("BEGIN").unwrap();
    low.query("UPDATE hot SET low = low + 1 WHERE id = 3").unwrap();
    server.connection().run("NOTIFY odd_news").unwrap();
    governed.client("high", server.database()).query("UPDATE hot SET high = high + 1 WHERE id = 3").unwrap();
    let answer = low.query("SELECT 'on'").unwrap();
    assert_eq!((answer.value(), governed.count(Some("low"), "replays_verified")), (Some("on"), 1));
    assert!(!answer.tags.contains(&b'A'), "{answer:?}");
    assert!(is_silent(&mut low));
    let answer = low.query("COMMIT").unwrap();
    assert_eq!(answer.tags, b"CAZ");
}

/// A function that raises 40001 by itself was run 21 times.
#[test]
fn an_error_that_an_application_raises_is_passed_on() {
    let server = Server::shared();
    let governed = Governed::start(&server);
    let mut low = governed.client("low", server.database());
    low.query(
        "CREATE SEQUENCE raised;
         CREATE FUNCTION raises() RETURNS int LANGUAGE plpgsql AS
         $$ BEGIN PERFORM nextval('raised'); RAISE 'try again' USING ERRCODE = '40001'; END $$",
    )
    .unwrap();
    low.send_query("SELECT raises()").unwrap();
    assert_eq!(low.answer().unwrap().refusal.map(|refusal| refusal.state), Some("40001".to_owned()));
    assert_eq!(server.value("SELECT last_value FROM raised"), "1");
}
