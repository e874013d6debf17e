//! What acts outside of the server's transaction, before its commit, or by code that was changed since, happens once.

use super::client::Failure;
use super::governed::Governed;
use super::server::{PASSWORD, Server};

/// A server with two rows, and another database that receives mails.
fn server() -> Server {
    let server = Server::start();
    let own = server.own();
    let (socket, port, user) = (own.socket_folder().display(), own.port(), own.user());
    let mut connection = server.connection();
    connection.run("CREATE DATABASE elsewhere").unwrap();
    let mail = "CREATE TABLE mail (a int)";
    let there = format!("host={socket} port={port} dbname=elsewhere");
    for sql in [
        "CREATE EXTENSION postgres_fdw".to_owned(),
        "CREATE EXTENSION dblink".to_owned(),
        format!(
            "CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw \
             OPTIONS (host '{socket}', port '{port}', dbname 'elsewhere')"
        ),
        format!("CREATE USER MAPPING FOR public SERVER elsewhere OPTIONS (user '{user}', password_required 'false')"),
        "CREATE FOREIGN TABLE mail (a int) SERVER elsewhere; GRANT ALL ON mail TO public".to_owned(),
        format!("SELECT dblink_exec('{there} user={user}', '{mail}; GRANT ALL ON mail TO public')"),
        "CREATE TABLE counter (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0)".to_owned(),
        "INSERT INTO counter VALUES (1), (2); GRANT ALL ON counter TO public".to_owned(),
        // As for a table of more than a page: a session that reads the whole table conflicts with all others.
        format!("ALTER DATABASE {} SET enable_seqscan = off", server.database()),
    ] {
        connection.run(&sql).unwrap();
    }
    server
}

/// A function that sends a mail, or one that does not.
fn sender(server: &Server, sends: bool) -> String {
    let (socket, port) = (server.own().socket_folder().display(), server.own().port());
    let there = format!("host={socket} port={port} dbname=elsewhere user=high password={PASSWORD}");
    let body = match sends {
        true => format!("SELECT dblink_exec('{there}', 'INSERT INTO mail VALUES (1)')"),
        false => "SELECT 'nothing'::text".to_owned(),
    };
    format!("CREATE OR REPLACE FUNCTION send() RETURNS text LANGUAGE sql VOLATILE AS $f$ {body} $f$")
}

/// Runs statements of a serializable transaction whose COMMIT fails. `meanwhile` is run by another session before that. Returns
/// the state of the error, and how many mails have arrived.
fn mails_of_a_failed_commit(
    server: &Server,
    governed: &Governed,
    statements: &[&str],
    meanwhile: &str,
) -> (String, String) {
    let mut client = governed.client("high", server.database());
    client.query("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
    for sql in statements {
        client.query(sql).unwrap_or_else(|failure| panic!("{sql}: {failure}"));
    }
    for sql in ["SELECT n >= 0 FROM counter WHERE id = 2", "UPDATE counter SET n = n + 1 WHERE id = 1"] {
        client.query(sql).unwrap();
    }
    let mut other = server.connection();
    let conflicting = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT n FROM counter WHERE id = 1; \
        UPDATE counter SET n = n + 1 WHERE id = 2; COMMIT";
    other.run(conflicting).unwrap();
    other.run(meanwhile).unwrap();
    let state = match client.query("COMMIT") {
        Ok(_) => "committed".to_owned(),
        Err(Failure::Refused(refusal)) => refusal.state,
        Err(failure) => panic!("{failure}"),
    };
    (state, server.value("SELECT count(*) FROM mail"))
}

fn failed(mails: &str) -> (String, String) {
    ("40001".to_owned(), mails.to_owned())
}

/// postgres_fdw commits on the other server before this server decides about its own commit. The transaction was
/// replayed, and there were two rows.
#[test]
fn a_row_in_a_foreign_table_arrives_once() {
    let server = server();
    let governed = Governed::start_with(&server, "", "");
    let insert = ["INSERT INTO mail VALUES (1)"];
    assert_eq!(mails_of_a_failed_commit(&server, &governed, &insert, "SELECT 1"), failed("1"));
    assert_eq!(governed.aborts("high", "serialization", "outside-effect"), 1);
}

/// A function that sends mails was harmless when a verdict about it was reached, became one that sends in a transaction that
/// ended by AND CHAIN, or was harmless again before the rollback. Each time the mail was sent twice.
#[test]
fn a_mail_of_a_function_that_was_replaced_is_sent_once() {
    let server = server();
    let (sends, is_harmless) = (sender(&server, true), sender(&server, false));
    server.connection().run(&is_harmless).unwrap();
    server.connection().run("ALTER FUNCTION send() OWNER TO high").unwrap();
    let governed = Governed::start_with(&server, "", "");
    let send = ["SELECT send()"];
    // The first transaction may be the one that shows the governor what is older than the next.
    let harmless = mails_of_a_failed_commit(&server, &governed, &send, "SELECT 1");
    assert_eq!(harmless, ("committed".to_owned(), "0".to_owned()), "{}", governed.page("/metrics"));
    let chained = [&sends[..], "COMMIT AND CHAIN", "SELECT send()"];
    assert_eq!(mails_of_a_failed_commit(&server, &governed, &chained, "SELECT 1"), failed("1"));
    assert_eq!(mails_of_a_failed_commit(&server, &governed, &send, &is_harmless), failed("2"));
    assert_eq!(governed.aborts("high", "serialization", "changed-code"), 1);
}

/// The session has chosen its random numbers. The transaction was replayed with later ones, and left other data than without
/// a governor.
#[test]
fn random_numbers_of_a_session_are_taken_once() {
    let server = server();
    let governed = Governed::start_with(&server, "", "");
    server.connection().run("CREATE TABLE drawn (a float8); GRANT ALL ON drawn TO public").unwrap();
    let draw = ["INSERT INTO drawn VALUES (random())"];
    assert_eq!(mails_of_a_failed_commit(&server, &governed, &draw, "SELECT 1"), failed("0"));
    assert_eq!(governed.aborts("high", "serialization", "random"), 1);
}
