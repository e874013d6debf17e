//! Texts as the governor reads them and as PostgreSQL does: where a statement begins and ends, and which of them ends a
//! transaction.
//!
//! If the governor took a text that commits for a SELECT, it would run the text again after the commit. The server is
//! therefore asked: each text is sent within a transaction, and the tags of its `CommandComplete` messages show which
//! statements the server has read. The governor must have found all of these. It may find more, because the server does
//! not run text that it cannot read.
//!
//! [`generator`] makes texts that are hard to read: literals in every form, comments, names that are key words, bodies
//! of functions. Half of them are damaged afterwards.

mod generator;

use std::collections::BTreeMap;
use std::env;

use plimsoll_governor::statement::{self, End, Statement, TextRules};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::client::{Answer, Client, message};
use super::server::Server;
use generator::Generator;

/// Settings that a client may have changed.
const ENCODINGS: &[&str] = &["UTF8", "SJIS", "GBK", "BIG5"];

/// The same for every run.
const SEED: u64 = 20_260_331;

/// How many in a hundred texts the governor may mistake for the end of a transaction; these would only not be
/// preempted.
const OVERCAUTIOUS_PERCENT_MAX: usize = 2;

/// The statements that the governor reads, given its knowledge of the session.
fn read<'a>(sql: &'a [u8], parameters: &BTreeMap<String, String>) -> Statement<'a> {
    let mut rules = TextRules::default();
    for (name, value) in parameters {
        rules.on_parameter(name.as_bytes(), value.as_bytes());
    }
    statement::read_with(sql, rules)
}

/// How often the server has read each.
#[derive(Debug, Default)]
struct Tally {
    good: usize,
    ended: usize,
    begun: usize,
    several: usize,
    overcautious: usize,
}

impl Tally {
    /// Fails if the server has done more than the governor has read.
    fn add(&mut self, sql: &[u8], read: &Statement<'_>, answer: &Answer) {
        let has = |tags: &[&str]| answer.commands.iter().any(|command| tags.contains(&command.as_str()));
        let context =
            || format!("{:?}\n{read:?}\n{:?} {:?}", sql.escape_ascii().to_string(), answer.commands, answer.refusal);
        if has(&["COMMIT"]) {
            assert_eq!(read.ends, Some(End::Commit), "{}", context());
        }
        let has_ended = has(&["COMMIT", "ROLLBACK", "PREPARE TRANSACTION"]);
        let has_begun = has(&["BEGIN", "START TRANSACTION"]);
        assert!(!has_ended || read.ends.is_some(), "the server has read an end: {}", context());
        assert!(!has_begun || read.begins, "the server has read a beginning: {}", context());
        assert!(answer.commands.len() < 2 || read.several, "the server has read several statements: {}", context());
        if answer.refusal.is_none() {
            self.good += 1;
            self.ended += usize::from(has_ended);
            self.begun += usize::from(has_begun);
            self.several += usize::from(answer.commands.len() > 1);
            self.overcautious += usize::from(read.ends.is_some() && !has_ended);
        }
    }
}

/// Sends a text within a transaction.
fn ask(client: &mut Client, sql: &[u8]) -> Answer {
    client.query("ROLLBACK").unwrap();
    client.query("BEGIN").unwrap();
    client.send(&message(b'Q', &[sql, b"\0"].concat())).unwrap();
    client.answer().unwrap()
}

/// A session of the server with those settings and the objects that the texts need.
fn session(server: &Server, encoding: &str, is_standard: bool) -> Client {
    let socket = server.socket();
    let mut client = Client::connect(socket.as_path(), "low", server.database()).unwrap();
    client.query("CREATE TEMP TABLE ruled (n int)").unwrap();
    client.query(&format!("SET client_encoding = '{encoding}'")).unwrap();
    client.query(&format!("SET standard_conforming_strings = {}", if is_standard { "on" } else { "off" })).unwrap();
    client.query("SET backslash_quote = on").unwrap();
    client
}

#[test]
fn no_end_of_a_transaction_is_read_as_something_else() {
    let server = Server::shared();
    let texts = if env::var_os("PLIMSOLL_LONG").is_some() { 60_000 } else { 1_500 };
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    for &encoding in ENCODINGS {
        for is_standard in [true, false] {
            let mut tally = Tally::default();
            let mut client = session(&server, encoding, is_standard);
            for _ in 0..texts {
                let sql = Generator::new(&mut random, encoding).text();
                let parameters = client.parameters.clone();
                let answer = ask(&mut client, &sql);
                tally.add(&sql, &read(&sql, &parameters), &answer);
            }
            println!("{encoding}, standard strings: {is_standard}: {tally:?}");
            let enough = texts / 50;
            assert!(tally.ended > enough && tally.begun > enough && tally.several > enough, "{tally:?}");
            assert!(tally.overcautious * 100 <= tally.good * OVERCAUTIOUS_PERCENT_MAX, "{tally:?}");
        }
    }
}
