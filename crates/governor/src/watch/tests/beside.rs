//! The statements of a governor beside its server: which sessions they affect, and which they must not.

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;

use super::stage::{Client, LOW, Stage, governor, url};
use crate::watch::beside::Observing;
use crate::watch::statements::{CANCEL_OBSERVED, END_OBSERVED};

/// A session as the server shows it: its process, and the start times of process, transaction, statement and state.
fn facts(connection: &mut Connection, process: i32) -> [String; 5] {
    let micros = |moment: &str| format!("(extract(epoch from {moment}) * 1e6)::int8");
    let moments = ["backend_start", "xact_start", "query_start", "state_change"].map(micros).join(", ");
    let mut facts: [String; 5] = Default::default();
    connection
        .text_rows(&format!("select pid, {moments} from pg_stat_activity where pid = {process}"), &mut |row| {
            for (fact, cell) in facts.iter_mut().zip(row) {
                *fact = cell.unwrap_or_default().to_owned();
            }
        })
        .unwrap();
    facts
}

/// Whether the statement affected a session with these parameters.
fn did(connection: &mut Connection, sql: &str, parameters: &[String]) -> bool {
    let prepared = connection.prepare_text("", sql).unwrap();
    let mut is_done = false;
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    connection.prepared_text_rows(&prepared, &parameters, &mut |row| is_done |= row == [Some("t")]).unwrap();
    is_done
}

const FAR: &str = "9999999999";

/// A cancel reaches only the transaction and statement that were judged: every identifying part must match.
#[test]
fn only_the_transaction_that_was_looked_at_is_cancelled() {
    let stage = Stage::new("pow");
    let victim = stage.stranger();
    let mut own = Connection::open_isolated(&url(&stage.server)).unwrap();
    let mut other = Connection::open(&url(&stage.server)).unwrap();
    victim.run("begin");
    victim.send("select pg_sleep(60)");
    let process = victim.process();
    stage.until_it_sleeps(&victim);
    let [pid, began, transaction, statement, _] = facts(&mut other, process);
    let with = |place: usize, value: &str| {
        let mut parameters = [&pid, &began, &transaction, &statement, "false", "{}", "{}", FAR].map(str::to_owned);
        parameters[place] = value.to_owned();
        parameters
    };
    for (place, value) in [(1, "1"), (2, "1"), (3, "1"), (4, "true"), (7, "1")] {
        assert!(!did(&mut own, CANCEL_OBSERVED, &with(place, value)), "${} = {value}", place + 1);
    }
    // A link of the chain that no longer exists.
    let mut stale = with(5, &format!("{{{process}}}"));
    stale[6] = "{1}".to_owned();
    assert!(!did(&mut own, CANCEL_OBSERVED, &stale));
    assert!(did(&mut own, CANCEL_OBSERVED, &with(4, "false")));
    assert_eq!(victim.failure(), "57014");
}

/// A session is ended only while its client still thinks as it did when it was judged, not once it has continued.
#[test]
fn only_a_client_that_still_thinks_loses_its_session() {
    let stage = Stage::new("pow");
    let victim = stage.stranger();
    let mut own = Connection::open_isolated(&url(&stage.server)).unwrap();
    let mut other = Connection::open(&url(&stage.server)).unwrap();
    let process = victim.process();
    victim.run("begin");
    let [pid, began, transaction, _, since] = facts(&mut other, process);
    let judged = [pid, began, transaction, since];
    victim.run("select 1");
    assert!(!did(&mut own, END_OBSERVED, &judged), "it has gone on");
    let [pid, began, transaction, _, since] = facts(&mut other, process);
    assert!(!did(&mut own, END_OBSERVED, &[pid.clone(), began.clone(), "1".to_owned(), since.clone()]));
    assert!(did(&mut own, END_OBSERVED, &[pid, began, transaction, since]));
    victim.send("select 1");
    assert!(victim.outcome().is_err());
}

/// Sessions of an isolated role are read correctly, whatever the texts of others contain.
#[test]
fn looks_take_any_text() {
    let stage = Stage::new("pow");
    let (victim, mut own) = (stage.stranger(), Connection::open_isolated(&url(&stage.server)).unwrap());
    victim.run("select '\u{e4}\\x', $tag$ \"quotes' $tag$");
    let observing = Observing::on(&mut own).unwrap();
    let mut text = || {
        let rows = observing.sight(&mut own).unwrap().rows;
        rows.into_iter().find(|row| row.process == victim.process()).expect("it is seen").text
    };
    assert!(text().is_empty(), "idle sessions come without texts");
    victim.send("select pg_sleep(0.3), '\u{e4}'");
    stage.until_it_sleeps(&victim);
    assert_eq!(String::from_utf8_lossy(&text()), "select pg_sleep(0.3), '\u{e4}'");
    victim.outcome().unwrap();
}

/// A text from a database with another encoding need not be valid in ours. Truncating it by characters was an error on
/// servers that check where each one ends, so one client could blind the governor.
#[test]
fn looks_take_texts_of_databases_with_other_encodings() {
    let stage = Stage::new("pow");
    let mut other = Connection::open(&url(&stage.server)).unwrap();
    other.run("create database latin encoding 'LATIN1' locale 'C' template template0").unwrap();
    let latin = ServerUrl { database: "latin".to_owned(), ..url(&stage.server) };
    let (governor, ..) = governor(&stage.server, "never", |_| {});
    let client = Client::new(&governor, &latin, LOW);
    let mut own = Connection::open_isolated(&url(&stage.server)).unwrap();
    let observing = Observing::on(&mut own).unwrap();
    client.send("select pg_sleep(0.5) -- \u{e4}");
    let process = client.process();
    stage.until_it_sleeps(&client);
    let sight = observing.sight(&mut own).unwrap();
    let row = sight.rows.iter().find(|row| row.process == process).expect("it is seen");
    assert!(row.text.ends_with(b"-- \xe4"), "{:?}", row.text);
    client.outcome().unwrap();
    drop(client);
    stage.until("it has gone", &format!("select not exists (select from pg_stat_activity where pid = {process})"));
    other.run("drop database latin").unwrap();
}
