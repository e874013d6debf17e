//! Answers of the server.

use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_policy::Unsafe;

use super::frames::{Backend, HEAD_BYTES, Head, INSPECT_MAX, Status};
use super::prepared::Change;
use super::transaction::Began;
use super::{Bound, Flow, Gate, HELD_MAX, HELD_MAX_CANCELLED, Outbox, Passing, ProtocolError};
use super::{Session, Shown, Transaction, Unit, answers};
use crate::registry::Immunity;
use crate::statement::patience::Timeouts;
use crate::statistics::{AbortCause, count};

/// SQLSTATE of a statement that was cancelled.
const CANCELLED: &[u8] = b"57014";

impl Session {
    /// Offers bytes from the server, starting with those not accepted before; returns how many are accepted. The rest
    /// is an incomplete message of at most 64 KiB.
    pub fn on_server(&mut self, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> Result<usize, ProtocolError> {
        let (mut at, mut passed) = (0, 0);
        loop {
            let seen = self.from_server.left.min(bytes.len() - at);
            if self.from_server.is_answer
                && let Some(recording) = self.recording()
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
            let answer = Backend::of(head.tag);
            let there = head.bytes.min(INSPECT_MAX);
            let is_read = self.reads(answer);
            if is_read && bytes.len() - at < there {
                break;
            }
            let body = if is_read { &bytes[at + HEAD_BYTES..at + there] } else { &[][..] };
            // The session's own messages, and those that it has kept, must come after those that have passed.
            let may_speak = !matches!(self.flow, Flow::Relay) || !self.notifications.is_empty();
            if answer == Backend::Error || answer == Backend::Ready && may_speak {
                self.send(&bytes[passed..at], out);
                passed = at;
            }
            self.outstanding.heard(head.tag);
            let is_passed = self.read_answer(answer, body, now, out)?;
            if !is_passed {
                self.send(&bytes[passed..at], out);
                passed = at;
            }
            let is_answer = answer.is_of_unit() && self.is_comparing();
            self.from_server = Passing { left: head.bytes, is_passed, is_answer };
        }
        self.send(&bytes[passed..at], out);
        self.bytes.1 += at as u64;
        self.publish();
        Ok(at)
    }

    /// Whether the body of such a message is read.
    fn reads(&self, answer: Backend) -> bool {
        match answer {
            Backend::Ready | Backend::Error | Backend::Parameter | Backend::Notice => true,
            Backend::CommandComplete => {
                let is_heard = |inside: &Transaction| inside.class_before.is_some() || inside.runs_unread;
                self.unit.is_only(Bound::Chain) || self.transaction.as_ref().is_some_and(is_heard)
            }
            Backend::Notification => matches!(self.flow, Flow::Rewinding(_)),
            Backend::DataRow => match &self.flow {
                Flow::Rewinding(rewind) => rewind.inquires(),
                Flow::Limiting(_) | Flow::Learning(_) => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// Passes bytes on to the client, or withholds them while the client must not see them.
    fn send(&mut self, bytes: &[u8], out: &mut impl Outbox) {
        if bytes.is_empty() {
            return;
        }
        let held_max = self.held_max(bytes.len());
        match &mut self.unit.shown {
            Shown::Nothing(held) if held.len() + bytes.len() <= held_max => held.extend_from_slice(bytes),
            Shown::Nothing(_) => {
                self.show(out);
                out.to_client(bytes);
            }
            Shown::All => out.to_client(bytes),
        }
    }

    /// How many bytes may be withheld once so many more have arrived.
    fn held_max(&self, more: usize) -> usize {
        match &self.unit.shown {
            Shown::Nothing(held) if held.len() + more > HELD_MAX => {}
            _ => return HELD_MAX,
        }
        if self.must_be_unseen() { HELD_MAX_CANCELLED } else { HELD_MAX }
    }

    /// Whether a cancel for another is on its way to a unit whose client does not retry: it is run again only if its client
    /// has seen nothing of it.
    pub(super) fn must_be_unseen(&self) -> bool {
        let must_replay = self.transaction.as_ref().is_some_and(|inside| !self.settings.class(inside.class).retries);
        let (is_preempted, _) = self.cancelled_for();
        must_replay && is_preempted
    }

    /// From now on the client receives the answer as it arrives, starting with the withheld part.
    pub(super) fn show(&mut self, out: &mut impl Outbox) {
        if let Shown::Nothing(held) = std::mem::replace(&mut self.unit.shown, Shown::All)
            && !held.is_empty()
        {
            out.to_client(&held);
        }
    }

    /// Handles a message, and returns whether it is passed on.
    fn read_answer(
        &mut self,
        answer: Backend,
        body: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> Result<bool, ProtocolError> {
        if answer == Backend::Ready && std::mem::take(&mut self.is_kept_alive) {
            // Nothing else was outstanding when it was asked for.
            return Ok(false);
        }
        if matches!(self.flow, Flow::Ungoverned) {
            return Ok(true);
        }
        if answer == Backend::Notice && answers::is_farewell(body) {
            // The session ends, and its client must learn why, whatever is under way.
            self.show(out);
            return Ok(true);
        }
        let is_passed = !self.is_for_us(answer, body);
        match answer {
            Backend::Ready => match *body {
                [status] => match Status::of(status) {
                    Some(status) => Ok(self.on_ready(status, now, out)),
                    None => Err(ProtocolError(format!("the server's ReadyForQuery says {:?}", char::from(status)))),
                },
                _ => Err(ProtocolError(format!("the server's ReadyForQuery has {} bytes", body.len()))),
            },
            Backend::Error => Ok(self.on_error(body, now, out)),
            Backend::Parameter => {
                self.on_parameter(body);
                Ok(true)
            }
            Backend::Notification => Ok(self.on_notification(body, out)),
            Backend::Notice => {
                self.check_commit_wait(body);
                Ok(is_passed && self.on_notice(out))
            }
            Backend::ParseComplete | Backend::CloseComplete => {
                self.on_confirmed();
                Ok(is_passed)
            }
            Backend::DataRow if is_passed => {
                self.on_row();
                Ok(true)
            }
            Backend::CommandComplete if is_passed => {
                self.on_completed(body);
                Ok(true)
            }
            Backend::Suspended if is_passed => {
                // Further rows may come in further units, one by one.
                self.transaction.iter_mut().for_each(|inside| inside.forecast.shows_order());
                Ok(true)
            }
            Backend::CopyIn | Backend::CopyOut if is_passed => {
                self.on_copy(answer, out);
                Ok(true)
            }
            _ => Ok(is_passed),
        }
    }

    /// A row is passed on, or withheld.
    fn on_row(&mut self) {
        self.count_row();
        let is_further = std::mem::replace(&mut self.unit.has_rows, true);
        if let Some(inside) = self.transaction.as_mut().filter(|_| self.unit.is_seen()) {
            inside.forecast.shows_rows();
            if is_further {
                inside.forecast.shows_order();
            }
        }
    }

    /// Whether a message answers a request of our own, or one that is run again. If so, it is heard.
    fn is_for_us(&mut self, answer: Backend, body: &[u8]) -> bool {
        match &mut self.flow {
            Flow::Rewinding(rewind) => rewind.hears(answer, body),
            Flow::Limiting(limiting) => limiting.hears(answer, body),
            Flow::Learning(learning) => learning.hears(answer, body),
            _ => return false,
        }
        true
    }

    /// The server has carried out a statement.
    fn on_completed(&mut self, tag: &[u8]) {
        self.unit.has_completed = true;
        if let Some(inside) = &mut self.transaction {
            inside.hears_command(tag);
            if inside.runs_unread && tag == b"SET\0" {
                self.card.state().may_have_timeouts(Timeouts::UNKNOWN);
            }
        }
        if tag == b"ROLLBACK\0" {
            self.on_rolled_back();
        }
        self.unit.has_chained = self.unit.is_only(Bound::Chain) && matches!(tag, b"ROLLBACK\0" | b"COMMIT\0");
    }

    /// The server has confirmed that it prepared or closed a statement.
    fn on_confirmed(&mut self) {
        let is_own = match &self.flow {
            Flow::Rewinding(rewind) => !rewind.is_at_the_unit_in_flight(),
            Flow::Limiting(_) | Flow::Learning(_) => true,
            _ => false,
        };
        if is_own {
            return;
        }
        let (change, inside) = (self.prepared.confirm(), self.transaction.as_mut());
        let Some(inside) = inside else { return };
        match change {
            Some(Change::Prepare { name, recorded, .. }) if !name.is_empty() => {
                inside.keeps(|recording| recording.prepared(&name, recorded));
            }
            Some(Change::Close { name }) if !name.is_empty() => inside.keeps(|recording| recording.closed(&name)),
            // A replay would find it prepared, or missing.
            Some(Change::PrepareUnknown) => inside.is_unsafe(Unsafe::PreparedStatement),
            _ => {}
        }
    }

    /// The server was ready without having been asked. Its client may understand this message; we do not, so we only
    /// relay from now on.
    fn end_governing(&mut self, now: Instant, out: &mut impl Outbox) {
        tracing::warn!(session = self.card.id.0, "the server was ready without having been asked");
        count(&self.governor.statistics.desyncs);
        self.show(out);
        self.release_notifications(out);
        self.end_transaction(now);
        self.flow = Flow::Ungoverned;
        self.gate = Gate::Open;
    }

    fn on_ready(&mut self, status: Status, now: Instant, out: &mut impl Outbox) -> bool {
        let Some(unit) = self.outstanding.answered() else {
            self.end_governing(now, out);
            return true;
        };
        let was_idle = std::mem::replace(&mut self.status, status) == Status::Idle;
        if self.gate == Gate::UntilRest {
            self.gate = Gate::Open;
        }
        if matches!(self.flow, Flow::Rewinding(_)) {
            self.rewind_step_done(status, now, out);
            return false;
        }
        if matches!(self.flow, Flow::Limiting(_)) {
            self.own_answered(now, out);
            return false;
        }
        if matches!(self.flow, Flow::Learning(_)) {
            self.learning_answered(now, out);
            return false;
        }
        self.show(out);
        if status == Status::Idle {
            self.release_notifications(out);
        }
        self.prepared.unit_answered(unit);
        let (size_max, is_alone) = (self.settings.preemption.replay_bytes_max, !self.is_under_way());
        // What ends with its transaction is never compared.
        if let Some(recording) = self.recording().filter(|_| status != Status::Idle || !is_alone) {
            recording.unit_answered(status, size_max);
        }
        let statistics = self.statistics(self.inside_index());
        count(&statistics.units);
        let took = now.saturating_duration_since(self.unit.since);
        statistics.times.unit.record(took);
        self.count_for_database(took);
        self.forget_cancels();
        let next = Unit { rows_left: self.rows_max(), ..Unit::new(now) };
        let answered = std::mem::replace(&mut self.unit, next);
        self.note_answered(&answered, status, is_alone, now);
        if is_alone {
            (self.rings_at, self.since, self.rules_may_change) = (None, now, false);
            match status {
                Status::Idle => {
                    self.end_transaction(now);
                    if !self.restore_lock_timeout(now, out) {
                        self.learn(now, out);
                    }
                }
                Status::Block if answered.has_chained && !answered.has_failed && !was_idle => {
                    self.chain_transaction(now)
                }
                Status::Block => self.transaction.iter_mut().for_each(Transaction::is_answered_in_block),
                Status::Failed => {}
            }
            if status != Status::Idle {
                self.restore_lock_timeout(now, out);
            }
        } else {
            // The next of several pipelined units is in flight.
            self.expect_lateness(now);
        }
        true
    }

    /// The transaction has ended with AND CHAIN: another transaction begins, with the same admission.
    fn chain_transaction(&mut self, now: Instant) {
        let Some(ended) = self.transaction.take() else { return };
        self.count_transaction(&ended, now);
        self.spare_recording = ended.recording;
        let recorded = self.recorded(ended.class, true);
        (self.attempts.rollbacks, self.attempts.aborts) = (0, 0);
        {
            let mut state = self.card.state();
            state.transaction += 1;
            state.transaction_since = now;
        }
        let mut next = Transaction {
            is_admitted: ended.is_admitted,
            began: Began::Unrecorded,
            ..Transaction::new(ended.class, now, self.governor.horizon.get())
        };
        next.begins(recorded, self.governor.code_catches.load(Ordering::Relaxed));
        self.transaction = Some(next);
    }

    fn on_error(&mut self, body: &[u8], now: Instant, out: &mut impl Outbox) -> bool {
        if answers::is_fatal(body) {
            // The session ends, and its client must learn why.
            self.show(out);
            count(&self.statistics(self.inside_index()).errors);
            return true;
        }
        self.outstanding.failed();
        if self.outstanding.is_skipping() {
            // The server waits for a Sync, so the client's Sync must not wait for the server.
            self.is_unit_open = true;
            if self.gate == Gate::UntilRest {
                self.gate = Gate::Open;
            }
        }
        match &mut self.flow {
            Flow::Limiting(limiting) => {
                limiting.fails(body);
                return false;
            }
            Flow::Learning(_) => return false,
            _ => {}
        }
        let was_cancelled = answers::sqlstate(body) == Some(CANCELLED);
        // What an application raises by itself is no abort by the server, and it would raise it again.
        let abort = answers::sqlstate(body).and_then(AbortCause::of_sqlstate).filter(|_| !answers::is_raised(body));
        let is_lock_wait_over = self.is_lock_wait_over(body);
        if let Flow::Rewinding(_) = self.flow {
            if is_lock_wait_over {
                self.step_back_again(now, out);
            }
            if was_cancelled {
                self.cancelled_again(now);
            }
            if let Some(cause) = abort {
                self.aborted_again(cause, now);
            }
            return false;
        }
        self.unit.has_failed = true;
        if is_lock_wait_over && !self.step_back(body, now, out) {
            return false;
        }
        if was_cancelled && self.is_ended_as_runaway(now, out) {
            return false;
        }
        if was_cancelled {
            match self.cancelled_for() {
                (true, false) => {
                    self.preempted(now, out);
                    return false;
                }
                // The client's own cancel took effect; the next is for another transaction.
                (_, true) => self.card.state().cancels.by_client = None,
                (false, false) => {}
            }
        }
        if abort.is_some_and(|cause| self.aborted(cause, body, now)) {
            return false;
        }
        // It is not replayed, and its client may wait for the error before it sends its Sync.
        self.show(out);
        count(&self.statistics(self.inside_index()).errors);
        true
    }

    /// Whether the unit in flight was cancelled for another transaction, and whether its own client has cancelled.
    pub(super) fn cancelled_for(&self) -> (bool, bool) {
        let state = self.card.state();
        (state.cancels.preempting == Some(state.unit), state.cancels.by_client.is_some())
    }

    fn on_copy(&mut self, answer: Backend, out: &mut impl Outbox) {
        self.show(out);
        if let Some(inside) = &mut self.transaction {
            inside.is_unsafe(Unsafe::Copy);
            inside.unit_immunity = Some(Immunity::Copy);
        }
        if answer == Backend::CopyIn && self.outstanding.copy_in_begins() {
            self.is_unit_open = true;
        }
    }

    /// Whether answers are hashed now.
    fn is_comparing(&self) -> bool {
        match &self.flow {
            Flow::Rewinding(rewind) => rewind.is_comparing(),
            Flow::Limiting(_) => false,
            _ => self.transaction.as_ref().is_some_and(|inside| inside.recording.is_some()),
        }
    }

    pub(super) fn recording(&mut self) -> Option<&mut super::Recording> {
        self.transaction.as_mut()?.recording.as_deref_mut()
    }
}
