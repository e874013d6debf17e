//! A transaction that was rolled back and cannot go on: what its server is brought to, and what its client is told.

use std::time::Instant;

use super::super::answers::{self, SYNC};
use super::super::prepared::Note;
use super::super::refuse::Refusal;
use super::super::{Mode, Notice, Outbox, Session, error_response, ready_for_query};
use super::{Rewind, Step};
use crate::statistics::count;

/// Makes a transaction fail and has no other effect: there is no such savepoint. Whoever reads the server's log finds why.
const FAIL: &str = "ROLLBACK TO SAVEPOINT preempted_by_plimsoll";

/// Why a transaction cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// An answer came out different.
    Differed,
    /// It may not be run again, and why.
    NotReplayable(&'static str),
    /// Its client has cancelled.
    Cancelled,
    /// It was never let in, and this is what its client is told.
    Refused(Vec<u8>),
}

impl Session {
    /// Ends a block that has failed, of which the client has not been told, when it asks for its end.
    pub(in crate::session) fn end_failed_block(
        &mut self,
        error: Vec<u8>,
        next: Note,
        now: Instant,
        out: &mut impl Outbox,
    ) {
        let rewind = Rewind::new(Step::RollBack, None, true);
        let failure = Some(Failure::Refused(error));
        self.mode = Mode::Rewinding(Rewind { is_waiting: true, failure, next, ..rewind });
        self.go_on_rewinding(now, out);
    }

    /// Refuses a transaction block whose BEGIN is not let in. It may have been sent together with what was to be done in it,
    /// which must not be done without: so the server is given a block that has failed, as if its first statement had.
    pub(in crate::session) fn refuse_block(&mut self, error: Vec<u8>, now: Instant, out: &mut impl Outbox) {
        self.end_failed_block(error, Note::default(), now, out);
    }

    /// Makes the server's transaction fail, if it has not, and tells the client.
    pub(super) fn fail(&mut self, now: Instant, out: &mut impl Outbox) {
        let Mode::Rewinding(rewind) = &mut self.mode else { return };
        rewind.step = Step::Fail;
        // A server is idle after a COMMIT, whatever has become of it.
        let is_over = !rewind.in_block || rewind.next.may_end;
        let has_closed = rewind.has_closed;
        rewind.has_closed &= self.status != b'I';
        match self.status {
            b'I' if has_closed => self.prepare_again(now, out),
            b'T' | b'E' if has_closed || is_over => self.ask(&answers::query("ROLLBACK"), now, out),
            b'I' if !is_over => self.ask(&answers::query(&format!("BEGIN; {FAIL}")), now, out),
            b'T' => self.ask(&answers::query(FAIL), now, out),
            _ => self.tell_failure(now, out),
        }
    }

    /// Prepares again what was closed for a replay, for the client has it. Each by itself: one may need what the transaction
    /// has made, and is missing then.
    fn prepare_again(&mut self, now: Instant, out: &mut impl Outbox) {
        let recording = self.recording.as_ref().expect("what was closed was recorded");
        let (mut request, mut count) = (Vec::new(), 0);
        for (name, parse) in &recording.parses() {
            for part in [&answers::close_statement(name)[..], parse, &SYNC] {
                request.extend_from_slice(part);
            }
            count += 1;
        }
        if count == 0 {
            return self.fail(now, out);
        }
        self.ask(&request, now, out);
        (1..count).for_each(|_| self.outstanding.sent(true));
        if let Mode::Rewinding(rewind) = &mut self.mode {
            rewind.left = count;
        }
    }

    fn tell_failure(&mut self, now: Instant, out: &mut impl Outbox) {
        let Mode::Rewinding(rewind) = std::mem::replace(&mut self.mode, Mode::Relay) else { return };
        let statistics = self.statistics(self.inside_index());
        let error = match rewind.failure {
            Some(Failure::Cancelled) => cancelled_error(),
            Some(Failure::Refused(error)) => error,
            Some(Failure::NotReplayable(why)) => {
                count(&statistics.replays_unsafe);
                preempted_error(why)
            }
            Some(Failure::Differed) | None => {
                count(&statistics.replays_differed);
                preempted_error("an answer would have been another")
            }
        };
        if rewind.in_flight.is_none() {
            self.mode = Mode::Refusing(Refusal::failed(error, self.status));
            return;
        }
        count(&statistics.errors);
        out.to_client(&error);
        out.to_client(&ready_for_query(self.status));
        if self.status == b'I' { self.end_transaction(now) } else { self.client_thinks(now) }
    }
}

/// What a client is told whose transaction was rolled back for another and could not be run again.
pub(super) fn preempted_error(why: &str) -> Vec<u8> {
    let detail = format!("It could not be run again unnoticed: {why}.");
    error_response(&Notice {
        severity: "ERROR",
        sqlstate: "40001",
        message: "preempted by a more important transaction",
        detail: Some(&detail),
        hint: Some("The transaction might succeed if retried."),
    })
}

fn cancelled_error() -> Vec<u8> {
    let message = "canceling statement due to user request";
    error_response(&Notice { severity: "ERROR", sqlstate: "57014", message, detail: None, hint: None })
}
