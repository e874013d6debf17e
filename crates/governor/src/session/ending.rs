//! The ends of the two connections.
//!
//! A server learns that its client has closed the connection only when it reads the next message, so it runs everything
//! that arrived before, and answers it. The session does the same: it accepts all that the client has sent, and then the
//! relay passes the end on. From that moment nothing more can be sent to the server, so the transaction is neither
//! rolled back for others nor replayed.

use super::answers::parameter_status;
use super::begin::Entry;
use super::frames::{Frontend, HEAD_BYTES, Head, Status};
use super::{Bound, Flow, Outbox, Session};

/// A parameter that has had this value on every server since PostgreSQL 10. To be told again changes nothing.
const CONSTANT_PARAMETER: (&str, &str) = ("integer_datetimes", "on");

impl Session {
    /// Whether it waits for admission.
    pub fn is_queued(&self) -> bool {
        matches!(self.flow, Flow::Queued(_))
    }

    /// Whether all messages are passed on unread.
    pub fn is_ungoverned(&self) -> bool {
        matches!(self.flow, Flow::Ungoverned)
    }

    /// Whether the server owes no answer, and no unit is open.
    pub fn is_answered(&self) -> bool {
        !self.is_under_way()
    }

    /// The client sends nothing more, and everything before was accepted. Returns whether the server may learn that
    /// now; if so, nothing will be sent to the server any more. It may not while a rollback is under way, or a cancel.
    pub fn end_client(&mut self) -> bool {
        if !self.takes_client_bytes() {
            return false;
        }
        {
            let mut state = self.card.state();
            let is_aimed_at = state.cancels.preempting == Some(state.unit) && !self.outstanding.is_empty();
            if state.cancels.in_flight > 0 || is_aimed_at {
                return false;
            }
            // Under the same lock, so that no cancel is aimed at it from now on.
            (state.preemptible, state.cycle_loss) = (false, None);
        }
        if let Some(inside) = &mut self.transaction {
            // The server ends it when it reads the end.
            inside.may_end = true;
        }
        self.unit.bound.take_if(|(kind, _)| *kind == Bound::Commit);
        self.texts.asks_no_more();
        self.publish();
        true
    }

    /// Whether nothing of what the client has sent outlasts it: a block is open or begins, and neither the bytes that
    /// were accepted nor those that still wait can end it, so the server will roll it back.
    pub fn leaves_nothing(&self, waiting: &[u8]) -> bool {
        let is_in_block = match &self.flow {
            Flow::Queued(queued) => queued.entry != Entry::Statement,
            Flow::Relay => {
                let is_open =
                    self.transaction.as_ref().is_some_and(|inside| inside.is_read() && !inside.may_have_ended());
                is_open && self.status == Status::Block
            }
            _ => false,
        };
        is_in_block && !self.may_end_in(waiting)
    }

    fn may_end_in(&self, mut waiting: &[u8]) -> bool {
        // The server does not run an incomplete message.
        while let Ok(Some(head)) = Head::read(waiting)
            && let Some(message) = waiting.get(..head.bytes)
        {
            let ask = Frontend::of(head.tag);
            if ask.is_read() && self.note_of_message(ask, Some(&message[HEAD_BYTES..])).may_end {
                return true;
            }
            waiting = &waiting[head.bytes..];
        }
        false
    }

    /// Finds out whether a client that has closed its direction still reads: the system of one that does not answers
    /// these bytes by resetting the connection. Returns whether they were sent: not in the middle of a message.
    pub fn sound_out(&self, out: &mut impl Outbox) -> bool {
        if self.from_server.left > 0 {
            return false;
        }
        let (name, value) = CONSTANT_PARAMETER;
        out.to_client(&parameter_status(name, value));
        true
    }

    /// The server has closed the connection: its client receives everything that the server has sent.
    pub fn end_server(&mut self, out: &mut impl Outbox) {
        if !matches!(self.flow, Flow::Rewinding(_) | Flow::Limiting(_)) {
            self.show(out);
        }
    }
}
