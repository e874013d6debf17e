//! How a unit is made to fail as if it had been cancelled, or as if the server had aborted it.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use plimsoll_governor::governor::{Outcome, PreemptionEvent};
use plimsoll_governor::registry::{EventId, SessionCard};

use super::super::wire::{self, Message};
use super::link::Link;

/// Fails in the place of a statement: it fails when it is planned, after the statements before it have run.
const FAILING: &str = "SELECT 1/0";

/// Put before a text, it makes the commit at the end of the text fail, behind all that acts before PostgreSQL's own
/// decision, such as the commit of a foreign server: a server refuses to empty a temporary table with references only then.
const FAILING_COMMIT: &str = "DO $plimsoll$ BEGIN \
    CREATE TEMP TABLE plimsoll_a (id int PRIMARY KEY) ON COMMIT DELETE ROWS; \
    CREATE TEMP TABLE plimsoll_b (id int REFERENCES plimsoll_a); END $plimsoll$; ";

/// The server's error for a statement that was cancelled, or that ends its transaction.
pub fn error(state: &str, message: &str) -> Vec<u8> {
    let (state, message) = (format!("C{state}"), format!("M{message}"));
    let fields = ["SERROR", "VERROR", &state, &message, "Fpostgres.c", "L1", "RNone"];
    let mut body: Vec<u8> = fields.iter().flat_map(|field| wire::text(field)).collect();
    body.push(0);
    body
}

impl Link {
    /// Makes that statement, or that message, fail as if it had been cancelled.
    pub fn fail(&self, messages: &mut [Message], at: usize, unit: usize) {
        self.cancelled.lock().unwrap().push(unit);
        self.fail_there(messages, at, unit);
    }

    /// Makes that statement, or that message, fail. A COMMIT by itself fails as a real one does, with no transaction open
    /// after it, and so does the commit at the end of a text, behind the last of its statements.
    pub fn fail_there(&self, messages: &mut [Message], at: usize, unit: usize) {
        let text = messages.last().filter(|last| last.tag == b'Q').map(text_of);
        let Some(text) = text else { return self.fail_at(messages, at) };
        let count = self.shared.statements.lock().unwrap().get(&text).map_or(1, Vec::len);
        let is_committing = self.status.load(Ordering::SeqCst) == b'I' && at >= count && commits_at_its_end(&text);
        if !is_committing && !matches!(&text[..], "COMMIT" | "END") {
            return self.fail_at(messages, at);
        }
        self.shared.done.lock().unwrap().is_commit_failed = true;
        self.commits_failed.lock().unwrap().push(unit);
        let last = messages.last_mut().expect("it has a text");
        last.body = wire::text(&with_failing_commit(&text));
    }

    pub fn fail_at(&self, messages: &mut [Message], at: usize) {
        let Some(last) = messages.len().checked_sub(1) else { return };
        if messages[last].tag == b'Q' {
            let text = text_of(&messages[last]);
            let statements = self.shared.statements.lock().unwrap().get(&text).cloned().unwrap_or_default();
            let before = &statements[..at.min(statements.len().saturating_sub(1))];
            messages[last].body = wire::text(&with_failing(before));
        } else if last > 0 {
            // A named statement, so that the unnamed one stays.
            let at = at.min(last - 1);
            messages[at] = Message { tag: b'P', body: wire::parse("cancelled", "this fails")[5..].to_vec() };
        }
    }
}

/// The text of a `Query`.
fn text_of(message: &Message) -> String {
    String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned()
}

/// Whether a text outside of a block is one transaction, which its end commits.
fn commits_at_its_end(text: &str) -> bool {
    !["CALL", "COMMIT", "ROLLBACK", "BEGIN", "START", "DISCARD", "VACUUM"].iter().any(|word| text.contains(word))
}

/// A text whose commit fails after all of it was done.
pub fn with_failing_commit(text: &str) -> String {
    format!("{FAILING_COMMIT}{text}")
}

/// Whether a `Query` changes data in a way that a second run would show.
pub fn is_change(messages: &[Message]) -> bool {
    matches!(messages, [one] if one.body.starts_with(b"UPDATE accounts SET v = v +"))
}

/// A preemption, whose outcome the session will report.
pub fn preemption(card: &SessionCard) -> PreemptionEvent {
    let one = (card.id, card.process().unwrap_or_default());
    PreemptionEvent {
        id: EventId(0),
        at: SystemTime::now(),
        victim: one,
        victim_class: "low".to_owned(),
        waiter: one,
        waiter_class: "high".to_owned(),
        lever: "pow".to_owned(),
        waited: Duration::ZERO,
        victim_was: "ran",
        done: "cancelled",
        outcome: Outcome::Pending,
        stake: None,
    }
}

/// These statements, followed by one that fails.
pub fn with_failing(before: &[String]) -> String {
    before.iter().map(String::as_str).chain([FAILING]).collect::<Vec<_>>().join("; ")
}

/// Replaces a change with one that has no effect but the same answer.
pub fn make_idle(message: &mut Message) {
    const CHANGE: &[u8] = b"v = v + ";
    let changes: Vec<usize> = (0..message.body.len()).filter(|&at| message.body[at..].starts_with(CHANGE)).collect();
    for at in changes {
        message.body[at + CHANGE.len()] = b'0';
    }
}
