//! Conversations of random messages, cut anywhere: the governor's answers must equal the server's.
//!
//! Each conversation is held with the server itself and through a governor, as a user of class high, of class low, and
//! as one that no lever affects. Messages and their order must be the same to the last byte, except for the names of
//! the process and the time.

use std::io::ErrorKind;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::client::{Client, Destination, Message, message};
use super::governed::Governed;
use super::server::Server;

/// Statements, some of them wrong.
const STATEMENTS: &[&str] = &[
    "SELECT 1",
    "SELECT 'a', NULL, 'b'",
    "SELECT repeat('x', 20000)",
    "SELECT generate_series(1, 40)",
    "SELECT 1/0",
    "SELECT",
    "SELEC 1",
    "",
    ";",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "BEGIN; SELECT 1; COMMIT; SELECT 2",
    "SELECT 1; SELECT 1/0; SELECT 3",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "SET work_mem = '3MB'",
    "RESET work_mem",
    "SHOW work_mem",
    "SET application_name = 'else'",
    "DISCARD ALL",
    "CREATE TEMP TABLE IF NOT EXISTS own (n int)",
    "INSERT INTO own VALUES (1), (2)",
    "SELECT count(*) FROM own",
    "PREPARE p AS SELECT 7",
    "EXECUTE p",
    "DEALLOCATE ALL",
    "DO $$ BEGIN RAISE NOTICE 'hear'; END $$",
    "LISTEN here",
    "NOTIFY nobody",
    "UNLISTEN *",
    "COPY (SELECT generate_series(1, 30)) TO STDOUT",
    "COPY own FROM STDIN",
    "SELECT 1 /* class='low' */",
    "SELECT \"it's\" -- 'not",
    "SELECT $$ ; BEGIN; $$",
    "SELECT $1",
    "SELECT $1::text",
    "DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 9)",
    "FETCH 4 FROM c",
    "CLOSE ALL",
];

const NAMES: &[&str] = &["", "", "one", "two"];

/// The next message of a client.
fn step() -> impl Strategy<Value = Vec<u8>> {
    let statement = || prop::sample::select(STATEMENTS);
    let name = || prop::sample::select(NAMES);
    let with_end = |text: &str| [text.as_bytes(), b"\0"].concat();
    prop_oneof![
        6 => statement().prop_map(move |sql| message(b'Q', &with_end(sql))),
        5 => (name(), statement()).prop_map(move |(name, sql)| message(b'P', &[&with_end(name), &with_end(sql), &b"\0\0"[..]].concat())),
        4 => (name(), name()).prop_map(move |(portal, name)| {
            message(b'B', &[&with_end(portal), &with_end(name), &b"\0\0\0\0\0\0"[..]].concat())
        }),
        1 => (name(), name()).prop_map(move |(portal, name)| {
            message(b'B', &[&with_end(portal), &with_end(name), &b"\0\0\0\x01\0\0\0\x03abc\0\0"[..]].concat())
        }),
        4 => (name(), 0..3_u32).prop_map(move |(portal, rows)| {
            message(b'E', &[&with_end(portal), &rows.to_be_bytes()[..]].concat())
        }),
        2 => (prop::sample::select(&b"SPX"[..]), name()).prop_map(move |(kind, name)| {
            message(b'D', &[&[kind][..], &with_end(name)].concat())
        }),
        1 => (prop::sample::select(&b"SP"[..]), name()).prop_map(move |(kind, name)| {
            message(b'C', &[&[kind][..], &with_end(name)].concat())
        }),
        6 => Just(message(b'S', b"")),
        2 => Just(message(b'H', b"")),
        1 => Just(message(b'd', b"1\n")),
        1 => Just(message(b'c', b"")),
        1 => Just(message(b'f', b"no\0")),
        // lo_creat(-1) has another answer each time; int4pl(2, 3) has not.
        1 => Just(message(b'F', b"\0\0\0\xb1\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x02\0\0\0\x04\0\0\0\x03\0\x01")),
        1 => Just(message(b'F', b"\0\0\0\x01\0\0\0\0\0\0")),
    ]
}

/// The answers.
#[derive(Debug, PartialEq)]
struct Held {
    messages: Vec<Message>,
    is_ended: bool,
}

/// Sends all of it in those pieces, then messages that end any state of a session, and returns the answers.
///
/// The server may end the connection: a message that does not belong in a copy is fatal.
fn hold(place: Destination, user: &str, database: &str, said: &[u8], cuts: &[usize]) -> Held {
    let mut client = Client::connect(place, user, database).unwrap();
    let mut pieces = cuts.iter().map(|cut| cut % (said.len() + 1)).collect::<Vec<_>>();
    pieces.extend([0, said.len()]);
    pieces.sort_unstable();
    let mut sender = client.second_handle();
    for piece in pieces.windows(2) {
        // If the other side has already disconnected, it has sent the reason.
        let _ = sender.send(&said[piece[0]..piece[1]]);
    }
    // Ends a copy, the skipping after an error, and a transaction; the last answer is known by its text. The end of a copy
    // ends the extended protocol's skipping, too, so that Sync comes behind it.
    let end = [
        message(b'f', b"end\0"),
        message(b'S', b""),
        message(b'Q', b"ROLLBACK\0"),
        message(b'Q', b"SELECT 'that was all'\0"),
    ];
    let _ = sender.send(&end.concat());
    let mut messages = Vec::new();
    loop {
        let message = match client.message() {
            Ok(message) => message,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("silence after {messages:?}")
            }
            Err(_) => return Held { messages, is_ended: true },
        };
        let is_last = message.tag == b'D' && message.body.ends_with(b"that was all");
        messages.push(message);
        if is_last {
            return Held { messages, is_ended: false };
        }
    }
}

#[test]
fn a_governor_answers_what_the_server_answers() {
    let server = Server::shared();
    let governed = Governed::start(&server);
    let cases = if std::env::var_os("PLIMSOLL_LONG").is_some() { 5_000 } else { 250 };
    // A failure writes no file beside the sources: it is printed, and the seed is fixed.
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    let mut runner =
        TestRunner::new_with_rng(config, proptest::test_runner::TestRng::deterministic_rng(Default::default()));
    let strategy = (
        prop::collection::vec(step(), 1..25),
        prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        prop::sample::select(&["high", "low", "low_other"][..]),
    );
    let outcome = runner.run(&strategy, |(steps, cuts, user)| {
        let said = steps.concat();
        let cuts = cuts.iter().map(|cut| cut.index(said.len() + 1)).collect::<Vec<_>>();
        let direct = hold(Destination::Unix(server.socket()), user, server.database(), &said, &[]);
        let governed = hold(Destination::Tcp(governed.address), user, server.database(), &said, &cuts);
        if direct.is_ended {
            // If a side closes while more data is on its way to it, its last messages may be lost.
            prop_assert!(governed.is_ended, "it goes on: {:?}", governed.messages);
            let count = governed.messages.len().min(direct.messages.len());
            prop_assert_eq!(&governed.messages[..count], &direct.messages[..count]);
        } else {
            prop_assert_eq!(governed, direct);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}\n{}", governed.said()));
}
