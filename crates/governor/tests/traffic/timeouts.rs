//! Timeouts of a client do not begin again with each replay, as far as that could be noticed.

use std::thread;
use std::time::{Duration, Instant};

use super::contended::{PASS, TABLES};
use super::governed::Governed;
use super::server::Server;

const WANTED: &str = "UPDATE hot SET high = high + 1 WHERE id = 1";
const OWN: &str = "UPDATE hot SET low = low + 1 WHERE id = 1";

/// How a statement has ended that waits at the gate and holds a row, for which class high comes after a while.
struct Ended {
    state: Option<String>,
    took: Duration,
    /// How long class high has waited.
    waited: Duration,
}

/// More often than a session needs to learn the texts of a transaction.
const WARM: usize = 8;

const HIGH_COMES_AFTER: Duration = Duration::from_millis(600);

/// Opens the gate after a while.
fn end(server: &Server, governed: &Governed, (user, set): (&str, &str), opens_after: Duration) -> Ended {
    let mut low = governed.client(user, server.database());
    low.query(set).unwrap();
    for _ in 0..WARM {
        ["BEGIN", OWN, PASS, "ROLLBACK"].iter().for_each(|sql| drop(low.query(sql).unwrap()));
    }
    let mut gate = server.connection();
    gate.run(&format!("BEGIN; {PASS}")).unwrap();
    ["BEGIN", OWN].iter().for_each(|sql| drop(low.query(sql).unwrap()));
    let began = Instant::now();
    low.send_query(PASS).unwrap();
    let mut high = governed.client("high", server.database());
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(opens_after);
            gate.run("ROLLBACK").unwrap();
        });
        let waiter = scope.spawn(|| {
            thread::sleep(HIGH_COMES_AFTER);
            let began = Instant::now();
            high.query(WANTED).unwrap();
            began.elapsed()
        });
        let state = low.answer().unwrap().refusal.map(|refusal| refusal.state);
        let took = began.elapsed();
        low.query(if state.is_some() { "ROLLBACK" } else { "COMMIT" }).unwrap();
        Ended { state, took, waited: waiter.join().unwrap() }
    })
}

/// A client that waits for at most 1.5 s was answered after 2.5 s: the server began its timeout again with the replay. One that does
/// not retry keeps its transaction, and its statement ends in time. The timeout may also be that of its role.
#[test]
fn a_statement_ends_within_its_timeout_although_another_one_wants_its_row() {
    const TIMEOUT: Duration = Duration::from_millis(1500);
    const SOON: Duration = Duration::from_millis(500);
    let server = Server::start();
    server.connection().run(TABLES).unwrap();
    let [patient, retrying] = [false, true].map(|retries| Governed::start_strict(&server, retries));
    // A tenth of the timeout is not noticed.
    let ended = end(&server, &patient, ("low", "SET statement_timeout = '1min'"), 2 * TIMEOUT);
    assert_eq!(ended.state, None);
    assert!(ended.waited < TIMEOUT && ended.took > TIMEOUT, "it was replayed: {:?} {:?}", ended.waited, ended.took);
    for (of_role, set) in [("0", "SET statement_timeout = '1500ms'"), ("1500", "SELECT 1")] {
        server.connection().run(&format!("ALTER ROLE low SET statement_timeout = {of_role}")).unwrap();
        let user = ("low", set);
        let ended = end(&server, &patient, user, 3 * TIMEOUT);
        assert_eq!(ended.state.as_deref(), Some("57014"), "{user:?}: {:?} {:?}", ended.took, ended.waited);
        assert!(ended.took >= TIMEOUT && ended.took < TIMEOUT + SOON, "{user:?}: {:?}", ended.took);
        let ended = end(&server, &retrying, user, 3 * TIMEOUT);
        assert_eq!(ended.state.as_deref(), Some("40001"), "{user:?}: {:?} {:?}", ended.took, ended.waited);
        assert!(ended.took < TIMEOUT, "{user:?}: {:?}", ended.took);
    }
}
