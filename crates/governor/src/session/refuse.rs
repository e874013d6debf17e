//! Answers in place of the server: every message up to the end of the client's unit receives an error.
//!
//! A server does the same after an error, so no driver can notice the difference: no message is answered twice or left
//! unanswered. (When a queue times out in the middle of a pipeline, a proxy can easily return rows to the wrong query.)

use std::time::Instant;

use super::answers::ready_for_query;
use super::client::MessageAction;
use super::frames::{Frontend, Status};
use super::message::Message;
use super::unit::only_closes;
use super::{Flow, Gate, Outbox, Session};
use crate::statistics::count;

/// An error that answers a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    error: Vec<u8>,
    /// The transaction status that the client receives after the error: the status that the server reported.
    status: Status,
    is_said: bool,
    /// A unit that only closes statements is passing: an error there would be ignored.
    is_passing: bool,
}

impl Refusal {
    /// Refuses with the given error, for a server whose transaction has the given status.
    pub fn new(error: Vec<u8>, status: Status) -> Self {
        Refusal { error, status, is_said: false, is_passing: false }
    }
}

impl Session {
    /// Handles a message while the client's unit is refused.
    pub(super) fn refuse_message(
        &mut self,
        message: &Message<'_>,
        bytes: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        let ask = message.ask;
        let Flow::Refusing(refusal) = &mut self.flow else { return MessageAction::Stay };
        if !refusal.is_said && !refusal.is_passing && !self.outstanding.is_empty() {
            // Our error would arrive before the answers to earlier messages.
            self.gate = Gate::UntilRest;
            return MessageAction::Stay;
        }
        if !refusal.is_said && ask == Frontend::Close && !refusal.is_passing {
            match only_closes(bytes) {
                None => return MessageAction::Stay,
                Some(only_closes) => refusal.is_passing = only_closes,
            }
        }
        if refusal.is_passing {
            if ask == Frontend::Sync {
                refusal.is_passing = false;
                self.outstanding.sent(self.unit_number, true);
            }
            return MessageAction::Pass;
        }
        let is_first = !refusal.is_said && matches!(ask, Frontend::Query | Frontend::Parse | Frontend::Bind);
        if is_first && refusal.status == Status::Failed {
            let error = refusal.error.clone();
            let Some(next) = self.shape_of(bytes) else { return MessageAction::Stay };
            if next.runs.as_ref().is_some_and(|runs| runs.rolls_back()) {
                self.flow = Flow::Relay;
                return self.read_message(message, bytes, now, out);
            }
            if next.runs.as_ref().is_some_and(|runs| runs.ends.is_some()) {
                // A server is idle after a COMMIT, even a failed one.
                self.end_failed_block(error, next, now, out);
                return MessageAction::Stay;
            }
        }
        self.say_refusal(ask, now, out)
    }

    fn say_refusal(&mut self, ask: Frontend, now: Instant, out: &mut impl Outbox) -> MessageAction {
        let class = self.inside_index();
        let Flow::Refusing(refusal) = &mut self.flow else { return MessageAction::Stay };
        // A flush before the end of a unit requests the answers so far, that is, the error.
        if !std::mem::replace(&mut refusal.is_said, true) {
            out.to_client(&refusal.error);
            count(&self.governor.statistics.class(class).errors);
        }
        if ask.ends_unit() {
            let status = refusal.status;
            if status == Status::Idle {
                self.release_notifications(out);
            }
            out.to_client(&ready_for_query(status));
            self.flow = Flow::Relay;
            self.since = now;
            if status == Status::Idle {
                self.end_transaction(now);
            }
        }
        MessageAction::Drop
    }

    /// Refuses a unit with a forbidden setting. In a block the server's transaction must fail, too, or the server could
    /// commit a transaction that the client believes failed.
    pub(super) fn refuse_setting(
        &mut self,
        error: Vec<u8>,
        message: &Message<'_>,
        bytes: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        if self.status == Status::Block {
            self.fail_block(error, now, out);
            return MessageAction::Stay;
        }
        self.flow = Flow::Refusing(Refusal::new(error, self.status));
        self.refuse_message(message, bytes, now, out)
    }
}
