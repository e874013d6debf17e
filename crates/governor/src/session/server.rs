//! What the server answers.

use std::time::Instant;

use super::frames::{HEAD_BYTES, Head, INSPECT_MAX, text};
use super::{Mode, Outbox, Passing, ProtocolError, Session, answers};
use crate::statistics::count;
use plimsoll_policy::Unsafe;

/// SQLSTATE of a statement that was cancelled.
const CANCELLED: &[u8] = b"57014";

impl Session {
    /// Offers bytes that the server has sent, those not taken before first; returns how many are taken. What is not taken is
    /// an incomplete message of at most 64 KiB.
    pub fn on_server(&mut self, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> Result<usize, ProtocolError> {
        let (mut at, mut passed) = (0, 0);
        loop {
            let seen = self.from_server.left.min(bytes.len() - at);
            if self.from_server.is_answer
                && let Some(recording) = &mut self.recording
            {
                recording.answered(&bytes[at..at + seen]);
            }
            self.from_server.left -= seen;
            at += seen;
            if !self.from_server.is_passed {
                passed = at;
            }
            if self.from_server.left == 0 {
                self.compare_beginning();
            }
            if at == bytes.len() {
                break;
            }
            let Some(head) = Head::read(&bytes[at..])? else { break };
            let is_read = matches!(head.tag, b'Z' | b'E' | b'S') && head.bytes <= INSPECT_MAX;
            if is_read && bytes.len() - at < head.bytes {
                break;
            }
            let body = if is_read { &bytes[at + HEAD_BYTES..at + head.bytes] } else { &[][..] };
            // What the session says itself must come after what has passed before.
            if head.tag == b'E' || head.tag == b'Z' && !matches!(self.mode, Mode::Relay) {
                send(&bytes[passed..at], out);
                passed = at;
            }
            let is_passed = self.read_answer(head, body, now, out)?;
            let is_answer = self.is_comparing() && !matches!(head.tag, b'Z' | b'N' | b'A' | b'S');
            if !is_passed {
                send(&bytes[passed..at], out);
                passed = at;
            }
            self.from_server = Passing { left: head.bytes, is_passed, is_answer };
        }
        send(&bytes[passed..at], out);
        Ok(at)
    }

    /// Looks at a message, and says whether it is passed on.
    fn read_answer(
        &mut self,
        head: Head,
        body: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> Result<bool, ProtocolError> {
        if self.is_ungoverned {
            return Ok(true);
        }
        match head.tag {
            b'Z' => match *body {
                [status] => Ok(self.on_ready(status, now, out)),
                _ => Err(ProtocolError(format!("the server's ReadyForQuery has {} bytes", body.len()))),
            },
            b'E' => Ok(self.on_error(body, out)),
            b'S' => {
                self.on_parameter(body);
                Ok(true)
            }
            b'A' => Ok(true),
            b'G' | b'W' | b'H' if !matches!(self.mode, Mode::Rewinding(_)) => {
                self.on_copy(head.tag);
                Ok(true)
            }
            _ => Ok(!matches!(self.mode, Mode::Rewinding(_))),
        }
    }

    fn on_ready(&mut self, status: u8, now: Instant, out: &mut impl Outbox) -> bool {
        if !self.outstanding.answered() {
            // Whatever has happened, its client may understand it; we do not, so we keep out of its way.
            tracing::warn!(session = self.card.id.0, "the server was ready without having been asked");
            count(&self.governor.statistics.desyncs);
            self.is_ungoverned = true;
            self.waits_for_rest = false;
            self.card.state().preemptible = false;
            self.end_transaction(now);
            return true;
        }
        self.status = status;
        self.waits_for_rest = false;
        if matches!(self.mode, Mode::Rewinding(_)) {
            self.rewind_step_done(status, now, out);
            return false;
        }
        if self.is_recording
            && let Some(recording) = &mut self.recording
        {
            recording.unit_answered(status);
        }
        let statistics = self.statistics(self.inside_index());
        count(&statistics.units);
        let took = now.saturating_duration_since(self.unit_since);
        statistics.times.unit.record(took);
        if self.outstanding.is_empty() && !self.unit_open {
            self.rings_at = None;
            if status == b'I' { self.end_transaction(now) } else { self.client_thinks(now) }
        } else {
            // The next of several that were sent ahead has its turn.
            self.unit_since = now;
            self.expect_lateness(now);
        }
        true
    }

    fn on_error(&mut self, body: &[u8], out: &mut impl Outbox) -> bool {
        let was_cancelled = answers::sqlstate(body) == Some(CANCELLED);
        if let Mode::Rewinding(_) = self.mode {
            if was_cancelled {
                self.cancelled_again();
            }
            return false;
        }
        count(&self.statistics(self.inside_index()).errors);
        if !was_cancelled {
            return true;
        }
        match self.cancelled_for() {
            (true, false) => self.preempted(out),
            _ => true,
        }
    }

    /// Whether the unit in flight has been cancelled for another's sake, and whether its own client has cancelled.
    pub(super) fn cancelled_for(&self) -> (bool, bool) {
        let state = self.card.state();
        (state.cancels.preempting == Some(state.unit), state.cancels.by_client.is_some())
    }

    fn on_copy(&mut self, tag: u8) {
        if let Some(recording) = self.recording.as_mut().filter(|_| self.is_recording) {
            recording.is_unsafe(Unsafe::Copy);
        }
        if tag != b'H' && self.outstanding.copy_in_begins() {
            self.unit_open = true;
        }
        if self.is_watched() {
            self.must_not_cancel = true;
            self.card.state().preemptible = false;
        }
    }

    /// An application may change its name, and its class with it.
    fn on_parameter(&mut self, body: &[u8]) {
        let Some((b"application_name", rest)) = text(body) else { return };
        let Some((name, _)) = text(rest) else { return };
        self.login.application_name = String::from_utf8_lossy(name).into_owned();
        self.classify_login();
    }

    /// Whether answers are hashed now.
    fn is_comparing(&self) -> bool {
        self.is_recording
            && match &self.mode {
                Mode::Rewinding(rewind) => rewind.is_comparing(),
                _ => true,
            }
    }
}

fn send(bytes: &[u8], out: &mut impl Outbox) {
    if !bytes.is_empty() {
        out.to_client(bytes);
    }
}
