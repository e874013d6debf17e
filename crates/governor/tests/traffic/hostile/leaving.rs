//! Clients and servers that leave, with a real server: everything is as without a governor.

use std::thread;
use std::time::Duration;

use plimsoll_testing::until;
use rustix::process::{Pid, Signal, kill_process};

use super::super::client::{Client, Destination};
use super::super::governed::Governed;
use super::super::server::{ROLES, Server};
use super::Attacked;
use super::order::wait_for_queue;

/// How many clients write and leave.
const CLIENTS: usize = 10;

fn places(server: &Server, governed: &Governed) -> [Destination; 2] {
    [server.socket().as_path().into(), governed.address.into()]
}

/// Scripts that write and exit without waiting lost every eighth row, and every statement that took longer than they did.
#[test]
fn what_a_client_has_sent_before_it_closed_is_done() {
    let attacked = Attacked::start();
    let server = &attacked.server;
    server.connection().run("CREATE TABLE left_behind (name text); GRANT ALL ON left_behind TO public").unwrap();
    for (name, place) in ["direct", "governed"].iter().zip(places(server, &attacked.governed)) {
        let run = |sql: &str, then: fn(Client)| {
            let mut client = Client::connect(&place, ROLES[0], server.database()).unwrap();
            client.send_query(sql).unwrap();
            then(client);
        };
        for _ in 0..CLIENTS {
            run(&format!("INSERT INTO left_behind VALUES ('{name}')"), drop);
        }
        // It closes in the middle of the statement, and a block with its COMMIT in the same breath.
        run(&format!("INSERT INTO left_behind SELECT '{name}' FROM pg_sleep(0.6)"), |client| {
            thread::sleep(Duration::from_millis(200));
            drop(client);
        });
        run(&format!("BEGIN; INSERT INTO left_behind SELECT '{name}' FROM pg_sleep(0.2); COMMIT"), drop);
        let count = format!("SELECT count(*) FROM left_behind WHERE name = '{name}'");
        until(&format!("the rows of {name}"), || server.value(&count) == (CLIENTS + 2).to_string());
        // One that ceases to send receives the answer.
        let mut client = Client::connect(&place, ROLES[0], server.database()).unwrap();
        client.send_query("SELECT 'answered' FROM pg_sleep(0.1)").unwrap();
        client.close_sending().unwrap();
        assert_eq!(client.answer().unwrap().value(), Some("answered"), "{name}");
        assert!(client.is_closed());
    }
    server.connection().run("DROP TABLE left_behind").unwrap();
    attacked.stop();
}

/// The server ended sessions that were silent because the governor let them wait.
#[test]
fn time_outs_for_silence_do_not_meet_those_who_wait_for_admission() {
    let attacked = Attacked::start_with("", "mpl = 1");
    let mut outside = attacked.client("low");
    outside.query("SET idle_session_timeout = '1200ms'").unwrap();
    let mut holder = attacked.client("low");
    holder.query("BEGIN; SELECT 1").unwrap();
    outside.send_query("SELECT 'outside'").unwrap();
    // The other one keeps its place until it commits, and must not come first.
    wait_for_queue(&attacked, 1);
    let mut inside = attacked.client("high");
    inside.query("SET idle_in_transaction_session_timeout = '1200ms'").unwrap();
    inside.query("BEGIN").unwrap();
    inside.send_query("SELECT 'inside' /*class='low'*/").unwrap();
    thread::sleep(Duration::from_secs(3));
    holder.query("COMMIT").unwrap();
    assert_eq!(outside.answer().unwrap().value(), Some("outside"));
    assert_eq!(inside.answer().unwrap().value(), Some("inside"));
    inside.query("COMMIT").unwrap();
    drop((holder, outside, inside));
    attacked.stop();
}

/// A server that stops tells its clients so, in the middle of a statement as well as between two.
#[test]
fn clients_learn_why_their_server_stops() {
    for signal in [Signal::INT, Signal::QUIT] {
        let server = Server::start();
        let governed = Governed::start(&server);
        let last_words = |place: Destination| {
            let connect = || Client::connect(&place, ROLES[0], server.database()).unwrap();
            let mut clients = [connect(), connect(), connect()];
            clients[1].send_query("SELECT pg_sleep(60)").unwrap();
            clients[2].query("BEGIN; SELECT 1").unwrap();
            clients[2].send_query("SELECT pg_sleep(60)").unwrap();
            clients
        };
        let mut clients = places(&server, &governed).map(last_words);
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'";
        until("all to sleep", || server.value(sleeping) == "4");
        kill_process(Pid::from_raw(server.own().postmaster()).unwrap(), signal).unwrap();
        let [direct, through] = clients.each_mut().map(|clients| {
            clients.each_mut().map(|client| {
                let mut words = Vec::new();
                while let Ok(message) = client.message() {
                    if matches!(message.tag, b'E' | b'N') {
                        words.push((char::from(message.tag), message.field(b'S'), message.field(b'C')));
                    }
                }
                words
            })
        });
        assert!(direct.iter().all(|words| !words.is_empty()), "{direct:?}");
        assert_eq!(through, direct);
    }
}

/// With few files, connections that sent nothing took all of them, and no operator could log in.
#[test]
fn with_few_files_silent_connections_keep_no_operator_out() {
    let server = Server::shared();
    let governed = Governed::start(&server);
    governed.with_files(100);
    let silent: Vec<Client> = (0..150).filter_map(|_| Client::bare(governed.address).ok()).collect();
    let mut console = governed.console().unwrap();
    assert_eq!(console.query("SHOW CLIENTS").unwrap().status, b'I');
    assert_eq!(governed.client("high", server.database()).value("SELECT 1").unwrap(), "1");
    // Sessions take the rest, but not the last ones.
    let sessions: Vec<_> = (0..80).map(|_| Client::connect(governed.address, "low", server.database())).collect();
    assert!(sessions.iter().any(Result::is_err), "files are not few");
    for _ in 0..5 {
        assert!(governed.console().is_ok());
    }
    drop((silent, sessions, console));
}
