//! Npgsql's messages: the registries that these tests use do not have a .NET runtime with that driver.
//!
//! It differs from other drivers: it first queries all types of the server, several queries at once. A BEGIN, and the
//! reset of a pooled session, wait until the next command and precede it in one packet. A batch is one unit, or one
//! unit for each of its commands.
//! of its pool, waits until the next command and goes before that in one packet; a batch is one unit, or a unit for each of its commands.

use std::mem::take;
use std::net::SocketAddr;
use std::thread;

use super::client::{Answer, Client, Refusal, message};
use super::drivers::load::Load;
use super::governed::Governed;
use super::requests::{bind, describe, execute, parse, query, sync};
use super::server::Server;

/// How a session with prepared statements, which stay, is reset.
const RESET: &str = "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;\
                     SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP";

const BEGIN: &str = "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// Its queries of the catalogs when it connects.
const TYPES: [&str; 3] = [
    "SELECT version()",
    "SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.typelem FROM pg_type AS t \
     JOIN pg_namespace AS ns ON ns.oid = t.typnamespace WHERE t.typtype IN ('b', 'r', 'm', 'e', 'd') ORDER BY t.oid",
    "SELECT typ.oid, att.attname, att.atttypid FROM pg_type AS typ JOIN pg_attribute AS att ON att.attrelid = typ.typrelid \
     WHERE typ.typtype = 'c' AND att.attnum > 0 AND NOT att.attisdropped ORDER BY typ.oid, att.attnum",
];

/// A connection as the driver has it.
struct Connector {
    client: Client,
    /// The messages before the next command, and the number of their answers.
    prepended: Vec<u8>,
    owed: usize,
    has_prepared: bool,
}

/// A command of a batch: the name under which it is prepared, or none, and its text.
type Command<'c> = (&'c str, &'c str);

impl Connector {
    fn open(client: Client) -> Connector {
        let mut connector = Connector { client, prepended: Vec::new(), owed: 0, has_prepared: false };
        connector.client.send(&TYPES.map(query).concat()).unwrap();
        for sql in TYPES {
            let answer = connector.client.answer().unwrap();
            assert!(answer.refusal.is_none() && !answer.rows.is_empty(), "{sql}: {answer:?}");
        }
        connector
    }

    fn prepend(&mut self, sql: &str) {
        self.prepended.extend(query(sql));
        self.owed += 1;
    }

    /// Returns the session to the pool and takes it out again.
    fn reuse(&mut self) {
        self.prepend(if self.has_prepared { RESET } else { "DISCARD ALL" });
    }

    fn prepare(&mut self, (name, sql): Command<'_>) {
        self.command(&[parse(name, sql), describe(name), sync()].concat(), 1).unwrap();
        self.has_prepared = true;
    }

    /// One unit, or with `barriers` one for each command.
    fn batch(&mut self, commands: &[Command<'_>], barriers: bool) -> Result<Vec<Answer>, Refusal> {
        let mut bytes = Vec::new();
        for (name, sql) in commands {
            if name.is_empty() {
                bytes.extend(parse("", sql));
            }
            bytes.extend(bind(name, &[]));
            bytes.extend(message(b'D', b"P\0"));
            bytes.extend(execute());
            if barriers {
                bytes.extend(sync());
            }
        }
        if !barriers {
            bytes.extend(sync());
        }
        self.command(&bytes, if barriers { commands.len() } else { 1 })
    }

    /// Sends the prepended messages and a command, and reads all answers. Returns the first error of any.
    fn command(&mut self, bytes: &[u8], answers: usize) -> Result<Vec<Answer>, Refusal> {
        let prepended = take(&mut self.prepended);
        self.client.send(&[&prepended[..], bytes].concat()).unwrap();
        let all: Vec<Answer> = (0..take(&mut self.owed) + answers).map(|_| self.client.answer().unwrap()).collect();
        match all.iter().find_map(|answer| answer.refusal.clone()) {
            Some(refusal) => Err(refusal),
            None => Ok(all.into_iter().rev().take(answers).rev().collect()),
        }
    }

    /// Runs a transaction, and retries it if necessary.
    fn transaction(&mut self, barriers: bool) {
        loop {
            self.prepend(BEGIN);
            let done = self.batch(&[("", "UPDATE hot SET low = low + 1 WHERE id = 1"), ("", "SELECT 1")], barriers);
            let done = done
                .and_then(|_| self.batch(&[("_p1", ""), ("", "UPDATE hot SET low = low + 1 WHERE id = 3")], barriers));
            let done = done.and_then(|_| self.command(&query("COMMIT"), 1));
            match done {
                Ok(answers) => return assert_eq!(answers[0].commands, ["COMMIT"]),
                Err(refusal) => {
                    assert!(["40001", "40P01"].contains(&refusal.state.as_str()), "{refusal:?}");
                    self.command(&query("ROLLBACK"), 1).unwrap();
                }
            }
        }
    }
}

const PREPARED: Command<'_> = ("_p1", "UPDATE hot SET low = low + 1 WHERE id = 2");
const CLIENTS: u32 = 6;
const ROUNDS: u32 = 10;

fn work(address: SocketAddr, database: &str, number: u32) {
    let mut connector = Connector::open(Client::connect(address, "low", database).unwrap());
    // Some have no prepared statement in their pool, so that the whole session state is discarded.
    for round in 0..ROUNDS {
        if !connector.has_prepared {
            connector.prepare(PREPARED);
        }
        connector.transaction((number + round).is_multiple_of(2));
        if number.is_multiple_of(3) {
            connector.has_prepared = false;
        }
        connector.reuse();
    }
    // A pending reset precedes the last command.
    let answers = connector.batch(&[("", "SELECT count(*) FROM pg_prepared_statements")], false).unwrap();
    assert_eq!(answers[0].value(), Some(if number.is_multiple_of(3) { "0" } else { "1" }));
}

#[test]
fn npgsql_by_its_messages() {
    let server = Server::start();
    let mut governed = Governed::start_with(&server, "", "mpl = 2");
    let load = Load::start(governed.address, server.database(), 2);
    thread::scope(|scope| {
        let (address, database) = (governed.address, server.database());
        for number in 0..CLIENTS {
            scope.spawn(move || work(address, database, number));
        }
    });
    load.stop();
    // Each transaction that was acknowledged counts once.
    let counts = "SELECT string_agg(low::text, ' ' ORDER BY id) FROM hot";
    let each = CLIENTS * ROUNDS;
    assert_eq!(server.value(counts), format!("{each} {each} {each}"));
    assert!(governed.count(Some("low"), "queued") > 0, "nobody was queued: admission was not tested");
    governed.assert_alive();
}

/// A batch in which one command fails: as one unit nothing of it stays; with a barrier after each, all but that one.
#[test]
fn a_batch_of_npgsql_fails_as_it_does_without_a_governor() {
    let server = Server::start();
    let governed = Governed::start(&server);
    let mut connector = Connector::open(governed.client("low", server.database()));
    let batch = [
        ("", "UPDATE hot SET low = low + 1 WHERE id = 1"),
        ("", "SELECT 1 / 0"),
        ("", "UPDATE hot SET low = low + 10 WHERE id = 1"),
    ];
    for (barriers, left) in [(false, "0"), (true, "11")] {
        let refusal = connector.batch(&batch, barriers).expect_err("a division by zero");
        assert_eq!(refusal.state, "22012");
        assert_eq!(server.value("SELECT low FROM hot WHERE id = 1"), left, "barriers: {barriers}");
    }
}
