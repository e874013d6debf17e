//! Answering for the server: what a client asks up to its next Sync gets an error.
//!
//! That is what a server does after an error, so no driver can tell the difference: no message is answered twice and none
//! is left over (a queue's timeout in the middle of a pipeline is how proxies give rows to the wrong query).

use std::time::Instant;

use plimsoll_policy::ClassIndex;

use super::client::{Fate, only_closes};
use super::frames::{HEAD_BYTES, Head, INSPECT_MAX};
use super::{Mode, Notice, Outbox, Session, error_response, ready_for_query};
use crate::statistics::count;

/// An error that a unit is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    error: Vec<u8>,
    /// The transaction's status after it.
    status: u8,
    is_said: bool,
    /// A unit passes that only closes something: nobody would look at an error there.
    is_passing: bool,
}

impl Refusal {
    /// For a transaction that does not begin.
    pub fn not_admitted(sqlstate: &'static str, why: &str) -> Self {
        let notice = Notice { severity: "ERROR", sqlstate, message: why, detail: None, hint: None };
        Refusal { error: error_response(&notice), status: b'I', is_said: false, is_passing: false }
    }

    /// What its client is told.
    pub fn into_error(self) -> Vec<u8> {
        self.error
    }

    /// For a transaction that has failed, with the status that its server has said.
    pub fn failed(error: Vec<u8>, status: u8) -> Self {
        Refusal { error, status, is_said: false, is_passing: false }
    }
}

impl Session {
    /// What becomes of a message while what the client asks is refused.
    pub(super) fn refuse_message(&mut self, head: Head, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> Fate {
        let class = self.inside_index();
        let Mode::Refusing(refusal) = &mut self.mode else { return Fate::Stay };
        if head.tag == b'X' {
            return Fate::Pass;
        }
        if !refusal.is_said && !refusal.is_passing && !self.outstanding.is_empty() {
            // An error of ours would come before the answers to what was sent earlier.
            self.waits_for_rest = true;
            return Fate::Stay;
        }
        if !refusal.is_said && head.tag == b'C' && !refusal.is_passing {
            match only_closes(bytes) {
                None => return Fate::Stay,
                Some(only_closes) => refusal.is_passing = only_closes,
            }
        }
        if refusal.is_passing {
            if head.tag == b'S' {
                refusal.is_passing = false;
                self.outstanding.sent(true);
            }
            return Fate::Pass;
        }
        if !refusal.is_said && refusal.status == b'E' && matches!(head.tag, b'Q' | b'P' | b'B') {
            if head.bytes <= INSPECT_MAX && bytes.len() < head.bytes {
                return Fate::Stay;
            }
            let error = refusal.error.clone();
            let note = self.note_of_message(head.tag, bytes.get(HEAD_BYTES..head.bytes));
            if note.rolls_back {
                self.mode = Mode::Relay;
                return self.read_message(head, bytes, now, out);
            }
            if note.may_end {
                // A server is idle after a COMMIT, whatever has become of it.
                self.end_failed_block(error, note, now, out);
                return Fate::Stay;
            }
        }
        self.say_refusal(head.tag, class, now, out)
    }

    fn say_refusal(&mut self, tag: u8, class: ClassIndex, now: Instant, out: &mut impl Outbox) -> Fate {
        let Mode::Refusing(refusal) = &mut self.mode else { return Fate::Stay };
        // A flush before the end of a unit asks for what there is, and that is the error.
        if !std::mem::replace(&mut refusal.is_said, true) {
            out.to_client(&refusal.error);
            count(&self.governor.statistics.class(class).errors);
        }
        if matches!(tag, b'Q' | b'F' | b'S') {
            let status = refusal.status;
            out.to_client(&ready_for_query(status));
            self.mode = Mode::Relay;
            match status {
                b'E' => self.client_thinks(now),
                _ if self.inside.is_some() => self.end_transaction(now),
                _ => {}
            }
        }
        Fate::Drop
    }
}
