//! Plays a session from text.
//!
//! A line is an act and, after `=>`, the resulting output: `S[…]` to the server, `C[…]` to the client. Acts: `> …` the
//! client sends, `< …` the server sends, `! …` another thread acts: `aim` (a preemption of the unit in flight),
//! `aim_at_cycle` (to break a cycle), `arrived` (a cancel), `lost` (it was not sent), `cancel` (the client cancels),
//! `idle` (roll back, its client thinks), `admitted`, `timeout`, `cancelled` (in the queue), `time`, `pause` (the pause before a replay is over).
//!
//! Some lines abbreviate several: `= asked => answered` is a client's message and the server's answer, both of which
//! pass unchanged; `! preempted => …` is `aim`, the error of the cancelled unit, which is dropped, and `arrived`;
//! `! broken => …` the same with `aim_at_cycle`. One of [`EXCHANGES`] after `=>` is a request of the session itself and
//! the server's answer, followed by the resulting output.
//!
//! Messages: a tag, and its contents after a colon. `Q:select_1`, `P:name:sql`, `B:portal:name`, `E`, `D`, `C:name`,
//! `S`, `H`, `d`, `c`, `X` from clients; `1`, `2`, `3`, `D:row`, `R:value,value` (columns), `C:tag`, `Z:T`, `E:57014`,
//! `N:00000`, `S:name=value`, `G`, `A` from servers. Underscores denote spaces, and `%` an underscore.

use std::sync::atomic::Ordering;

use super::*;
use crate::effects::{Horizon, Outlook};
use plimsoll_policy::Abandoned;

/// Words for requests of the session itself, and the server's answers.
const EXCHANGES: [(&str, &str, &str); 4] = [
    ("rolled-back", "S[!ROLLBACK S]", "C:ROLLBACK Z:I"),
    ("chained", "S[!ROLLBACK_AND_CHAIN S]", "C:ROLLBACK Z:T"),
    ("failed", "S[!fail S]", "E:42601 Z:E"),
    ("chained-and-failed", "S[!ROLLBACK_AND_CHAIN !fail S]", "C:ROLLBACK E:42601 Z:E"),
];

pub(super) struct Story {
    pub session: Session,
    pub governor: Arc<Governor>,
    pub now: Instant,
    /// Bytes that were not accepted.
    held: Vec<u8>,
    /// The session has sent a request of its own.
    has_own: bool,
    /// How many bytes are offered at once.
    pub step: usize,
    /// Whether transactions are known to be safe, so that the server is not asked.
    pub is_known: bool,
    /// The number of the last transaction that has changed the code of texts that are learned. Transactions begin at 100.
    pub newest: u64,
}

#[derive(Default)]
pub(super) struct Sent {
    pub server: Vec<u8>,
    pub client: Vec<u8>,
}

impl Outbox for Sent {
    fn to_server(&mut self, bytes: &[u8]) {
        self.server.extend_from_slice(bytes);
    }
    fn to_client(&mut self, bytes: &[u8]) {
        self.client.extend_from_slice(bytes);
    }
}

/// Whether the bytes contain a message after which its client waits for an answer.
fn is_awaited(mut bytes: &[u8]) -> bool {
    while let Ok(Some(head)) = Head::read(bytes)
        && head.bytes <= bytes.len()
    {
        if matches!(head.tag, b'Q' | b'F' | b'S' | b'H') {
            return true;
        }
        bytes = &bytes[head.bytes..];
    }
    false
}

/// Plays a story for a session of class low, whole and byte by byte.
pub(super) fn check(lines: &str) {
    check_as("low_user", lines);
}

/// Plays a story for a session of `user`, whole and byte by byte.
pub(super) fn check_as(user: &str, lines: &str) {
    check_each(|| Story::new(user), lines);
}

/// Plays a story whole and byte by byte, and returns how each has ended.
pub(super) fn check_each(begin: impl Fn() -> Story, lines: &str) -> [Story; 3] {
    [usize::MAX, 1, 3].map(|step| {
        let mut story = begin();
        story.step = step;
        story.play(lines);
        story
    })
}

impl Story {
    /// A session of `high_user` or `low_user`; classes `high` (priority high, unlimited) and `low` (preemptible, MPL 1, queue of 1).
    pub fn new(user: &str) -> Self {
        Self::with(user, |_| {})
    }

    /// A session of a governor with changed settings.
    pub fn with(user: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let (mut settings, now) = (for_tests(), Instant::now());
        change(&mut settings);
        Self::of(Arc::new(Governor::new(settings, now)), user, now)
    }

    /// Another session of the same governor.
    pub fn beside(&self, user: &str) -> Self {
        Self::of(self.governor.clone(), user, self.now)
    }

    fn of(governor: Arc<Governor>, user: &str, now: Instant) -> Self {
        governor.horizon.set(Horizon::new(100, 1));
        let session = session(&governor, user, now);
        Story { session, governor, now, held: Vec::new(), has_own: false, step: usize::MAX, is_known: true, newest: 0 }
    }

    pub fn play(&mut self, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (act, expect) = line.split_once("=>").unwrap_or_else(|| panic!("no => in {line}"));
            let (act, expect) = (act.trim(), expect.trim());
            if let Some(asked) = act.strip_prefix("= ") {
                self.play_act(&format!("> {asked}"), &format!("S[{asked}]"));
                self.play_act(&format!("< {expect}"), &format!("C[{expect}]"));
            } else if matches!(act, "! preempted" | "! broken") {
                let status = if self.session.status == Status::Idle { "I" } else { "E" };
                self.play_act(if act == "! broken" { "! aim_at_cycle" } else { "! aim" }, "");
                self.play_act(&format!("< E:57014 Z:{status}"), "");
                self.play_act("! arrived", expect);
            } else {
                self.play_act(act, expect);
            }
        }
    }

    fn play_act(&mut self, act: &str, expect: &str) {
        let (word, rest) = expect.split_once(' ').unwrap_or((expect, ""));
        if let Some((_, asked, answered)) = EXCHANGES.iter().find(|exchange| exchange.0 == word) {
            self.play_act(act, asked);
            return self.play_act(&format!("< {answered}"), rest);
        }
        let sent = self.act(act);
        let mut found = Vec::new();
        for (side, bytes) in [("S", &sent.server), ("C", &sent.client)] {
            if !bytes.is_empty() {
                found.push(format!("{side}[{}]", read(bytes, side == "S")));
            }
        }
        assert_eq!(found.join(" "), expect, "after {act} (step {})", self.step);
    }

    /// The request that an act causes.
    pub fn asked(&mut self, act: &str) -> String {
        let sent = self.act(act);
        assert!(sent.client.is_empty());
        read(&sent.server, true)
    }

    pub fn act(&mut self, act: &str) -> Sent {
        self.governor.effects.assumes_safe.store(self.is_known, Ordering::Relaxed);
        self.governor.foresight.assumes_safe.store(self.is_known, Ordering::Relaxed);
        let (who, what) = act.split_once(' ').expect("an act has two parts");
        let mut out = Sent::default();
        match who {
            ">" => {
                let bytes: Vec<u8> = what.split_whitespace().flat_map(|message| write(message, true)).collect();
                for part in bytes.chunks(self.step.min(bytes.len())) {
                    self.held.extend_from_slice(part);
                    self.offer(&mut out);
                }
            }
            "<" => {
                let bytes: Vec<u8> = what.split_whitespace().flat_map(|message| write(message, false)).collect();
                let mut bytes = bytes;
                if bytes.iter().rev().nth(5) == Some(&b'Z') && std::mem::take(&mut self.has_own) {
                    // The statement is closed in a unit of its own.
                    bytes.extend_from_slice(&write("3", false));
                    bytes.extend_from_within(bytes.len() - 11..bytes.len() - 5);
                }
                let mut held = Vec::new();
                for part in bytes.chunks(self.step.min(bytes.len())) {
                    held.extend_from_slice(part);
                    let taken = self.session.on_server(&held, self.now, &mut out).expect("the protocol is kept");
                    held.drain(..taken);
                }
                assert!(held.is_empty());
            }
            "!" => self.happen(what, &mut out),
            _ => panic!("no such act: {act}"),
        }
        self.offer(&mut out);
        if self.is_known {
            self.knows(Outlook::EQUAL);
        }
        self.has_own |= memchr::memmem::find(&out.server, b"\x01plimsoll").is_some();
        out
    }

    /// From now on that is known about the texts that the session would ask about.
    pub fn knows(&mut self, outlook: Outlook) {
        while let Some((key, _)) = self.session.texts.next_unknown() {
            self.governor.foresight.learn(key, outlook, self.newest, self.governor.clock(self.now));
        }
    }

    /// The session asks the server about a text; answers every question with no rows.
    pub fn learns(&mut self, act: &str) {
        let sent = self.act(act);
        assert!(read(&sent.server, true).starts_with("!select"), "{}", read(&sent.server, true));
        assert!(!self.session.takes_client_bytes());
        while self.has_own {
            // The limits and the question are a statement each.
            self.act("< C:SELECT C:SELECT Z:I");
        }
    }

    fn offer(&mut self, out: &mut Sent) {
        while !self.held.is_empty() && self.session.takes_client_bytes() {
            let taken = self.session.on_client(&self.held, self.now, out).expect("the protocol is kept");
            self.held.drain(..taken);
            if taken == 0 && self.session.takes_client_bytes() {
                assert!(
                    !is_awaited(&self.held),
                    "a message is left, and its client waits for an answer: {:?} {:?}",
                    self.held.escape_ascii().to_string(),
                    self.session.flow
                );
                break;
            }
        }
    }

    fn happen(&mut self, what: &str, out: &mut Sent) {
        let card = self.session.card.clone();
        let (transaction, unit) = place(&card);
        let arrived = SessionCommand::CancelArrived;
        let command = match what {
            "aim" => return assert!(card.aim_preemption(transaction, unit), "it is no victim"),
            "aim_at_cycle" => return assert!(card.aim_at_cycle(transaction, unit), "it is no victim"),
            "no_aim_at_cycle" => return assert!(!card.aim_at_cycle(transaction, unit), "it is a victim"),
            "no_aim" => return assert!(!card.aim_preemption(transaction, unit), "it is a victim"),
            "cancel" => return assert!(card.aim_client_cancel().is_some(), "nothing is in flight"),
            "time" => return self.session.on_time(self.now, out),
            "pause" => {
                self.now = self.session.replays_at().expect("it pauses");
                return self.session.on_time(self.now, out);
            }
            "arrived" => {
                card.cancel_arrived(true, true);
                arrived
            }
            "client_arrived" => {
                card.cancel_arrived(true, false);
                arrived
            }
            "lost" => {
                card.cancel_arrived(false, true);
                arrived
            }
            "idle" => SessionCommand::RollBackIdle { transaction, unit, event: EventId(1) },
            "idle_before" => SessionCommand::RollBackIdle { transaction, unit: unit - 1, event: EventId(1) },
            "admitted" => SessionCommand::Admitted,
            "timeout" => {
                assert_eq!(self.governor.abandon(card.id), Abandoned::Waited);
                SessionCommand::TimedOut
            }
            "cancelled" => SessionCommand::ClientCancelled,
            _ => panic!("no such event: {what}"),
        };
        self.session.on_command(command, self.now, out);
    }
}

/// A message from its text.
pub(super) fn write(message: &str, from_client: bool) -> Vec<u8> {
    let mut parts = message.split(':');
    let tag = parts.next().expect("a tag").as_bytes()[0];
    let rest: Vec<String> = parts.map(|part| part.replace('_', " ").replace('%', "_")).collect();
    let part = |at: usize| rest.get(at).map_or("", String::as_str);
    let body: Vec<u8> = match (tag, from_client) {
        (b'Q', true) => format!("{}\0", part(0)).into_bytes(),
        // The rest is long, and not shown.
        (b'P', true) => format!("{}\0{}\0\0\0{}", part(0), part(1), part(2)).into_bytes(),
        (b'B', true) => format!("{}\0{}\0\0\0\0\0\0\0{}", part(0), part(1), part(2)).into_bytes(),
        (b'E', true) => b"\0\0\0\0\0".to_vec(),
        (b'C', true) => format!("S{}\0", part(0)).into_bytes(),
        (b'D', true) => b"P\0".to_vec(),
        (b'D', false) => part(0).as_bytes().to_vec(),
        (b'R', false) => row(part(0)),
        (b'E' | b'N', false) => format!("SERROR\0VERROR\0C{}\0Mwords{}\0\0", part(0), part(1)).into_bytes(),
        (b'F', false) => format!("SFATAL\0VFATAL\0C{}\0Mwords\0\0", part(0)).into_bytes(),
        (b'S', false) => part(0).replace('=', "\0").into_bytes().into_iter().chain([0]).collect(),
        (b'C', false) => format!("{}\0", part(0)).into_bytes(),
        (b'Z', false) => part(0).as_bytes().to_vec(),
        _ => part(0).as_bytes().to_vec(),
    };
    // `F` from a server is an error that ends the session, and `R` a row that can be read.
    let tag = match (tag, from_client) {
        (b'F', false) => b'E',
        (b'R', false) => b'D',
        _ => tag,
    };
    framed(tag, &body)
}

/// A row of columns, of which empty ones are null.
fn row(columns: &str) -> Vec<u8> {
    let columns: Vec<&str> = columns.split(',').collect();
    let mut row = (columns.len() as u16).to_be_bytes().to_vec();
    for column in columns {
        let length = if column.is_empty() { -1 } else { column.len() as i32 };
        row.extend_from_slice(&length.to_be_bytes());
        row.extend_from_slice(column.as_bytes());
    }
    row
}

pub(super) fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Messages to their text.
fn read(mut bytes: &[u8], from_client: bool) -> String {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let head = Head::read(bytes).expect("a length").expect("whole messages");
        let body = &bytes[5..head.bytes];
        let fields: Vec<String> = body
            .split(|byte| *byte == 0)
            .map(|field| String::from_utf8_lossy(field).replace('_', "%").replace(' ', "_"))
            .collect();
        let tag = char::from(head.tag);
        messages.push(match (head.tag, from_client) {
            (b'Q', true) => format!("Q:{}", fields[0]),
            (b'P', true) => format!("P:{}:{}", fields[0], fields[1]),
            (b'B', true) => format!("B:{}:{}", fields[0], fields[1]),
            (b'C', true) => format!("C:{}", &fields[0][1..]),
            (b'E' | b'N', false) => {
                let state = answers::sqlstate(body).expect("a state");
                let tag = if answers::is_fatal(body) && state.starts_with(b"57P") { 'F' } else { tag };
                format!("{tag}:{}", String::from_utf8_lossy(state))
            }
            (b'S', false) => format!("S:{}={}", fields[0], fields[1]),
            (b'D' | b'C' | b'Z', false) => format!("{tag}:{}", fields[0]),
            _ => tag.to_string(),
        });
        bytes = &bytes[head.bytes..];
    }
    // Requests of the session itself: `!ROLLBACK`, and `!fail` for the text that no server can parse.
    let own = "\u{1}plimsoll";
    let text = messages.join(" ").replace(&format!("C:{own} P:{own}:preempted%by%plimsoll"), "!fail");
    let text = text.replace(&format!("C:{own} P:{own}:"), "!").replace(&format!(" B::{own} E"), "");
    text.replace(&format!(" S C:{own} S"), " S")
}
