//! Clients of the console, from start-up on, without sockets.

mod governing;
mod pgbouncer;

use std::time::Instant;

use plimsoll_policy::{NoReplay, Unsafe};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use proptest::prelude::*;

use super::command::{COMMANDS, Command};
use super::*;
use crate::governor::{Outcome, PreemptionEvent};
use crate::settings::AdminUser;
use crate::testing::{self, preemption};

fn governor() -> Arc<Governor> {
    let user =
        |name: &str, may_change| AdminUser { name: name.to_owned(), verifier: scram::hash_password(name), may_change };
    testing::governor(|settings| settings.admin.users = vec![user("admin", true), user("viewer", false)])
}

/// A client and the messages that it has received.
struct Client {
    console: Console,
    received: Vec<(u8, Vec<u8>)>,
}

impl Client {
    fn new(governor: &Arc<Governor>, user: &str) -> Self {
        let mut client = Client { console: Console::new(Arc::clone(governor), user, "test"), received: Vec::new() };
        client.send_bytes(&[]);
        client
    }

    /// A client that has logged in.
    fn let_in(governor: &Arc<Governor>, user: &str) -> Self {
        let mut client = Client::new(governor, user);
        client.log_in(user);
        assert!(client.console.is_let_in());
        client.received.clear();
        client
    }

    fn log_in(&mut self, password: &str) {
        let mut scram = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
        let first = scram.message().to_vec();
        self.send(b'p', &first_of_scram(first.len() as i32, &first));
        let challenge = self.received.last().expect("an answer").1[4..].to_vec();
        scram.update(&challenge).expect("a challenge");
        let proof = scram.message().to_vec();
        self.send(b'p', &proof);
        if let Some((_, body)) = self.received.iter().find(|(tag, body)| *tag == b'R' && body[..4] == [0, 0, 0, 12]) {
            scram.finish(&body[4..]).expect("the console knows the password, too");
        }
    }

    fn send_bytes(&mut self, bytes: &[u8]) -> usize {
        let mut sent = Vec::new();
        let taken = self.console.on_client(bytes, Instant::now(), &mut |bytes| sent.extend_from_slice(bytes));
        let mut rest = sent.as_slice();
        while let Some((message, length)) = first_message(rest, usize::MAX / 2).expect("answers are messages") {
            self.received.push((message.tag, message.body.to_vec()));
            rest = &rest[length..];
        }
        assert!(rest.is_empty(), "answers are whole");
        taken
    }

    fn send(&mut self, tag: u8, body: &[u8]) {
        let bytes = message(tag, body);
        assert_eq!(self.send_bytes(&bytes), bytes.len());
    }

    /// Sends a text as a simple query; returns the command tags of the answers.
    fn query(&mut self, text: &str) -> String {
        self.received.clear();
        self.send(b'Q', format!("{text}\0").as_bytes());
        self.tags()
    }

    fn tags(&self) -> String {
        self.received.iter().map(|(tag, _)| char::from(*tag)).collect()
    }

    /// The rows that were received, as texts.
    fn rows(&self) -> Vec<Vec<Option<String>>> {
        let row = |body: &[u8]| {
            let mut fields = Fields(body);
            let count = fields.count().expect("a count");
            let mut field = || {
                let length = usize::try_from(fields.int().expect("a length")).ok()?;
                Some(String::from_utf8_lossy(fields.bytes(length).expect("a field")).into_owned())
            };
            (0..count).map(|_| field()).collect()
        };
        self.received.iter().filter(|(tag, _)| *tag == b'D').map(|(_, body)| row(body)).collect()
    }

    /// The SQLSTATE of the first error, or nothing.
    fn code(&self) -> Option<String> {
        self.error().map(|(code, _)| code)
    }

    /// SQLSTATE and message of the first error, or nothing.
    fn error(&self) -> Option<(String, String)> {
        let (_, body) = self.received.iter().find(|(tag, _)| *tag == b'E')?;
        let fields: Vec<String> =
            body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
        let field = |of: char| fields.iter().find_map(|text| text.strip_prefix(of)).unwrap_or_default().to_owned();
        Some((field('C'), field('M')))
    }
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

/// The body of a client's first message of the exchange, with the length that it claims.
fn first_of_scram(length: i32, message: &[u8]) -> Vec<u8> {
    [b"SCRAM-SHA-256\0", &length.to_be_bytes()[..], message].concat()
}

#[test]
fn a_user_with_the_password_is_let_in() {
    let governor = governor();
    let mut client = Client::new(&governor, "admin");
    assert_eq!(client.tags(), "R");
    assert!(!client.console.is_let_in());
    client.log_in("admin");
    assert_eq!(client.tags(), format!("RRRR{}KZ", "S".repeat(PARAMETERS.len())));
}

#[test]
fn others_are_refused_alike_and_counted() {
    let governor = governor();
    let refuse = |user: &str, password: &str| {
        let mut client = Client::new(&governor, user);
        client.log_in(password);
        assert!(client.console.has_ended() && !client.console.is_let_in());
        assert_eq!(client.tags(), "RRE");
        client.error().expect("an error")
    };
    let expect = |user: &str| ("28P01".to_owned(), format!("password authentication failed for user \"{user}\""));
    assert_eq!(refuse("admin", "wrong"), expect("admin"));
    assert_eq!(refuse("nobody", "wrong"), expect("nobody"));
    assert_eq!(governor.statistics.console_refused.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn nothing_is_done_before_the_login() {
    let governor = governor();
    for (tag, body) in [(b'Q', "SHUTDOWN\0"), (b'P', "\0SHOW POOLS\0\0\0"), (b'X', ""), (b'p', "password\0")] {
        let mut client = Client::new(&governor, "admin");
        client.send(tag, body.as_bytes());
        assert!(client.console.has_ended(), "{}", char::from(tag));
        assert_eq!(client.tags(), "RE");
    }
}

/// Lengths that a client claims before login: CVE-2026-6664 was an overflow, CVE-2026-6665 a nonce too long for its
/// buffer.
#[test]
fn lengths_are_bounded_before_the_login() {
    let governor = governor();
    for length in [0u32, 3, 3000, 1 << 20, 0x7fff_ffff, 0xffff_ffff] {
        let mut client = Client::new(&governor, "admin");
        client.send_bytes(&[&b"p"[..], &length.to_be_bytes()].concat());
        assert!(client.console.has_ended(), "{length}");
        assert_eq!(client.code().as_deref(), Some("08P01"), "{length}");
    }
    for claimed in [-1i32, 0x7fff_ffff, 5] {
        let mut client = Client::new(&governor, "admin");
        client.send(b'p', &first_of_scram(claimed, b"n,,n=,r=abc"));
        assert!(client.console.has_ended(), "{claimed}");
    }
    let mut client = Client::new(&governor, "admin");
    let first = format!("n,,n=,r={}", "a".repeat(1500));
    client.send(b'p', &first_of_scram(first.len() as i32, first.as_bytes()));
    assert!(client.console.has_ended());
}

/// A command that changes nothing, with arguments where it needs some.
fn look_of(command: &Command) -> String {
    command.syntax().replace("'statement'", "'select 1'").replace("key = value …", "class = low")
}

/// CVE-2026-6667: read-only users could run a command that ends clients.
#[test]
fn users_that_may_look_only_change_nothing() {
    let governor = governor();
    let before = governor.settings().described();
    for command in COMMANDS {
        let mut client = Client::let_in(&governor, "viewer");
        let statement = match command.words {
            "SET" => "SET preemption.policy = never".to_owned(),
            "RESET" => "RESET preemption.policy".to_owned(),
            words if command.changes => format!("{words} 1"),
            _ => look_of(command),
        };
        client.query(&statement);
        assert_eq!(client.code().as_deref(), command.changes.then_some("42501"), "{statement}");
        // Nor by the extended protocol.
        client.received.clear();
        client.send(b'P', format!("\0{statement}\0\0\0").as_bytes());
        client.send(b'B', b"\0\0\0\0\0\0\0\0");
        client.send(b'E', b"\0\0\0\0\0");
        client.send(b'S', b"");
        assert_eq!(client.code().as_deref(), command.changes.then_some("42501"), "{statement}");
    }
    assert_eq!(governor.settings().described(), before);
    assert!(!governor.settings().classes.iter().any(|class| class.is_paused));
}

#[test]
fn every_look_has_as_many_cells_as_columns() {
    let mut client = Client::let_in(&governor(), "admin");
    for command in COMMANDS.iter().filter(|command| !command.changes) {
        let statement = look_of(command);
        assert_eq!(client.query(&statement).replace('D', ""), "TCZ", "{statement}: {:?}", client.error());
        assert!(client.rows().iter().all(|row| row.len() == command.columns.len()), "{statement}");
    }
}

/// Reports failed with 40001 again and again. The console said "rolled back", but not why they were not replayed.
#[test]
fn the_console_says_what_became_of_each_victim_and_why() {
    let governor = governor();
    let mut client = Client::let_in(&governor, "viewer");
    for (victim_was, outcome) in [
        ("waited for a lock", Outcome::Replayed),
        ("waited for its client", Outcome::Differed(12)),
        ("ran", Outcome::NotReplayed(NoReplay::Unsafe(Unsafe::Copy))),
    ] {
        governor.note(PreemptionEvent { victim_was, outcome, ..preemption() });
    }
    client.query("SHOW PREEMPTIONS");
    let columns = super::show::preemptions::COLUMNS;
    let place = |name: &str| columns.iter().position(|column| column.name == name).expect("a column");
    let cells = |name: &str| -> Vec<String> {
        client.rows().into_iter().map(|row| row[place(name)].clone().unwrap_or_default()).collect()
    };
    assert_eq!(cells("outcome"), ["40001: not replayed (copy)", "40001: answer 12 differed", "replayed"]);
    assert_eq!(cells("victim_was"), ["ran", "waited for its client", "waited for a lock"]);
    assert_eq!(cells("lever"), ["pow"; 3]);
}

#[test]
fn an_administrator_changes_what_can_be_changed() {
    let governor = governor();
    let mut client = Client::let_in(&governor, "admin");
    assert_eq!(client.query("SET class.low.mpl = 5; SET preemption.policy TO after(50ms)"), "NCNCZ");
    for key_and_value in ["cpu = nice 5", "retries = off", "cache = 0xf0", "cache = polluting"] {
        assert_eq!(client.query(&format!("set class.low.{key_and_value}")), "NCZ", "{:?}", client.error());
    }
    let settings = governor.settings();
    assert_eq!(settings.classes[1].limits.mpl, Some(5));
    assert_eq!(settings.preemption.policy.to_string(), "after(50ms)");
    assert_eq!(client.query("PAUSE low"), "NCZ");
    client.query("SHOW CLASSES");
    assert_eq!(client.rows()[1][7].as_deref(), Some("t"));
    assert_eq!(client.query("RESUME"), "CZ");
    assert_eq!(client.query("RESUME"), "EZ");
    let mut refused = |statement: &str, code: &str, part: &str| {
        client.query(statement);
        let (found, message) = client.error().unwrap_or_else(|| panic!("{statement} was carried out"));
        assert!(found == code && message.contains(part), "{statement}: {found} {message}");
    };
    refused("SET preemption.polcy = pow", "42704", "did you mean `preemption.policy`?");
    refused("SET class.lwo.mpl = 1", "42704", "did you mean `low`?");
    refused("SET class.low.mpl = x", "22023", "class.low.mpl: `x` is not a number");
    refused("SET class.low.cache = scans", "22023", "class.low.cache: `scans` is not a part of the cache");
    refused("SET class.high.cache = depends", "22023", "class.high.cache: every class is confined");
    refused("SET preemption.threshold = 1us", "22023", "shorter than 100us");
    refused("PAUSE medium", "42704", "there is no class \"medium\"");
    refused("KILL 99", "42704", "there is no session 99");
    refused("RELOAD", "F0000", "was not started from a file");
    refused("SHOW POLS", "42601", "did you mean `POOLS`?");
    refused("SHUTDOWN", "55000", "cannot be ended from here");
    refused("SELECT 'a", "42601", "has no second one");
    refused("DROP TABLE x", "42601", "this console has no command \"DROP\"");
}

#[test]
fn drivers_find_what_they_look_for_when_they_connect() {
    let mut client = Client::let_in(&governor(), "viewer");
    let mut check = |text: &str, tags: &str| assert_eq!(client.query(text), tags, "{text}: {:?}", client.error());
    check("", "IZ");
    check(";;", "IZ");
    check("SET extra_float_digits = 3", "CZ");
    check("SET application_name = 'x'; SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "CCZ");
    check("SELECT version()", "TDCZ");
    check("select pg_catalog.version()", "TDCZ");
    check("SELECT 1", "TDCZ");
    check("SHOW server_version", "TDCZ");
    check("SHOW TRANSACTION ISOLATION LEVEL", "TDCZ");
    check("SELECT pg_advisory_unlock_all();CLOSE ALL;UNLISTEN *;RESET ALL;", "TDCCCCZ");
    check("SELECT typname FROM pg_catalog.pg_type", "TCZ");
    check("BEGIN; SHOW POOLS; COMMIT", "CTCCZ");
    check("DISCARD ALL", "CZ");
}

#[test]
fn statements_can_be_prepared_and_fetched_in_parts() {
    let mut client = Client::let_in(&governor(), "viewer");
    client.send(b'P', b"help\0SHOW HELP\0\0\0");
    client.send(b'D', b"Shelp\0");
    client.send(b'B', b"p\0help\0\0\0\0\0\0\x01\0\x01");
    client.send(b'D', b"Pp\0");
    client.send(b'E', b"p\0\0\0\0\x02");
    client.send(b'E', b"p\0\0\0\0\0");
    client.send(b'C', b"Pp\0");
    client.send(b'C', b"Snone\0");
    client.send(b'H', b"");
    client.send(b'S', b"");
    assert_eq!(client.tags(), format!("1tT2TDDs{}C33Z", "D".repeat(COMMANDS.len() - 2)));
    client.received.clear();
    // After an error, everything up to the Sync is skipped.
    client.send(b'B', b"\0missing\0\0\0\0\0\0\0");
    client.send(b'E', b"\0\0\0\0\0");
    assert_eq!(client.tags(), "E");
    client.send(b'S', b"");
    client.send(b'P', b"\0SHOW VERSION\0\0\0");
    client.send(b'S', b"");
    assert_eq!(client.tags(), "EZ1Z");
    client.received.clear();
    client.send(b'P', b"help\0SHOW HELP\0\0\0");
    assert_eq!(client.code().as_deref(), Some("42P05"));
}

#[test]
fn numbers_come_in_binary_where_that_is_asked_for() {
    let mut client = Client::let_in(&governor(), "viewer");
    client.send(b'P', b"\0SHOW LISTS\0\0\0");
    client.send(b'B', b"\0\0\0\0\0\0\0\x01\0\x01");
    client.send(b'E', b"\0\0\0\0\x01");
    let row = &client.received.last_chunk::<2>().expect("two answers")[0].1;
    assert_eq!(row, b"\0\x02\0\0\0\x09databases\0\0\0\x04\0\0\0\0");
}

#[test]
fn a_right_that_was_taken_away_is_gone_at_once() {
    let governor = governor();
    let mut client = Client::let_in(&governor, "admin");
    governor.change(|settings| settings.admin.users[0].may_change = false).unwrap_or_else(|error| panic!("{error}"));
    client.query("PAUSE");
    assert_eq!(client.code().as_deref(), Some("42501"));
    governor.change(|settings| settings.admin.users.clear()).unwrap_or_else(|error| panic!("{error}"));
    client.query("SHOW POOLS");
    assert_eq!(client.code().as_deref(), Some("28000"));
}

proptest! {
    /// Any bytes in any pieces get an answer or end the session, and the division into pieces makes no difference.
    #[test]
    fn pieces_make_no_difference(parts in prop::collection::vec(any_message(), 1..6), cut in 1usize..20) {
        let governor = governor();
        let all: Vec<u8> = parts.concat();
        let mut whole = Client::let_in(&governor, "viewer");
        whole.send_bytes(&all);
        let mut pieces = Client::let_in(&governor, "viewer");
        let mut held: Vec<u8> = Vec::new();
        for piece in all.chunks(cut) {
            held.extend(piece);
            let taken = pieces.send_bytes(&held);
            held.drain(..taken);
        }
        prop_assert_eq!(whole.tags(), pieces.tags());
        prop_assert_eq!(whole.console.has_ended(), pieces.console.has_ended());
    }

    /// No bytes sent before the login cause a panic or let the client in.
    #[test]
    fn garbage_is_not_let_in(bytes in prop::collection::vec(any::<u8>(), 0..300), after in any::<bool>()) {
        let governor = governor();
        let mut client = Client::new(&governor, "admin");
        if after {
            client.send_bytes(&message(b'p', b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc"));
        }
        client.send_bytes(&bytes);
        prop_assert!(!client.console.is_let_in());
    }
}

/// A message that is valid, or nearly.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let texts = prop::sample::select(vec!["SHOW POOLS", "SELECT 1", "", "BEGIN", "nonsense", "SHOW HELP; SHOW LISTS"]);
    let tags = prop::sample::select(b"QPBDECSHFXdcfz".to_vec());
    prop_oneof![
        texts.prop_map(|text| message(b'Q', format!("{text}\0").as_bytes())),
        (tags, prop::collection::vec(any::<u8>(), 0..12)).prop_map(|(tag, body)| message(tag, &body)),
        Just(message(b'P', b"\0SHOW LISTS\0\0\0")),
        Just(message(b'B', b"\0\0\0\0\0\0\0\0")),
        Just(message(b'E', b"\0\0\0\0\0")),
        Just(message(b'S', b"")),
    ]
}
