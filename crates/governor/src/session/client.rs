//! What the client sends.

use std::time::Instant;

use super::frames::{Head, INSPECT_MAX, text};
use super::prepared::Note;
use super::{Mode, Outbox, Passing, ProtocolError, Session};
use crate::registry::Phase;
use crate::statement::{self, End};
use plimsoll_policy::Unsafe;

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is passed on.
    Pass,
    /// It is dropped: we have answered it, or shall.
    Drop,
    /// It stays where it is, and is looked at again when there is more or something has changed.
    Stay,
}

impl Session {
    /// Offers bytes that the client has sent, those not taken before first; returns how many are taken. What is not taken is
    /// an incomplete message of at most 64 KiB, or all of it while [`takes_client_bytes`](Self::takes_client_bytes) is false.
    pub fn on_client(&mut self, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> Result<usize, ProtocolError> {
        let (mut at, mut passed) = (0, 0);
        loop {
            let seen = self.from_client.left.min(bytes.len() - at);
            self.from_client.left -= seen;
            at += seen;
            if !self.from_client.is_passed {
                passed = at;
            }
            if at == bytes.len() || !self.takes_client_bytes() {
                break;
            }
            let Some(head) = Head::read(&bytes[at..])? else { break };
            let fate = match self.mode {
                Mode::Refusing(_) => self.refuse_message(head, &bytes[at..], now, out),
                _ => self.read_message(head, &bytes[at..], now, out),
            };
            match fate {
                Fate::Stay => break,
                Fate::Pass => self.from_client = Passing { left: head.bytes, is_passed: true, is_answer: false },
                Fate::Drop => {
                    self.pass_on(&bytes[passed..at], out);
                    passed = at;
                    self.from_client = Passing { left: head.bytes, is_passed: false, is_answer: false };
                }
            }
        }
        self.pass_on(&bytes[passed..at], out);
        Ok(at)
    }

    fn pass_on(&mut self, bytes: &[u8], out: &mut impl Outbox) {
        if bytes.is_empty() {
            return;
        }
        if self.is_recording
            && let Some(recording) = &mut self.recording
        {
            recording.sent(bytes, self.settings.preemption.replay_bytes_max);
        }
        out.to_server(bytes);
    }

    pub(super) fn read_message(&mut self, head: Head, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> Fate {
        if self.is_ungoverned || head.tag == b'X' {
            return Fate::Pass;
        }
        let is_read = matches!(head.tag, b'Q' | b'P' | b'B' | b'C') && head.bytes <= INSPECT_MAX;
        if is_read && bytes.len() < head.bytes {
            return Fate::Stay;
        }
        let body = is_read.then(|| &bytes[5..head.bytes]);
        if matches!(self.mode, Mode::RolledBack) {
            let next = self.note_of_message(head.tag, body);
            self.rewind_for_client(next, now, out);
            // If nothing had to be asked of the server for that, nothing comes upon which the message would be looked at again.
            return match self.mode {
                Mode::Refusing(_) => self.refuse_message(head, bytes, now, out),
                _ => Fate::Stay,
            };
        }
        if let Some(refusal) = self.refused_setting(head.tag, body) {
            self.mode = Mode::Refusing(refusal);
            return self.refuse_message(head, bytes, now, out);
        }
        let begins_unit = !self.unit_open && is_of_unit(head.tag);
        let mut note = None;
        if begins_unit && self.inside.is_none() && self.status == b'I' && !self.outstanding.is_empty() {
            // Something that is no transaction is still being answered; what follows may be one, and has to be let in.
            self.waits_for_rest = true;
            return Fate::Stay;
        }
        if begins_unit && self.is_at_rest() {
            let fate = match only_closes(bytes) {
                // Drivers do that whenever they like and look at no answer: it is no transaction that could wait.
                Some(true) => Fate::Pass,
                None => Fate::Stay,
                Some(false) => {
                    let (fate, read) = self.begin_transaction(head.tag, body, now, out);
                    note = read;
                    fate
                }
            };
            match fate {
                Fate::Pass => {}
                Fate::Stay => return Fate::Stay,
                Fate::Drop => return self.refuse_message(head, bytes, now, out),
            }
        }
        if begins_unit && !self.open_unit(now) {
            return Fate::Stay;
        }
        if self.is_watched() || head.tag == b'P' || head.tag == b'C' {
            self.note_message(head.tag, body, note);
        }
        self.track(head.tag);
        Fate::Pass
    }

    /// Begins a unit, unless a cancel is on its way.
    fn open_unit(&mut self, now: Instant) -> bool {
        let is_alone = self.outstanding.is_empty();
        {
            let mut state = self.card.state();
            if state.cancels.in_flight > 0 {
                self.is_held = true;
                return false;
            }
            state.unit += 1;
            state.preemptible = false;
            (state.cancels.preempting, state.cancels.by_client) = (None, None);
            if is_alone {
                (state.phase, state.since) = (Phase::Active, now);
            }
        }
        self.unit_open = true;
        self.must_not_cancel = false;
        if is_alone {
            self.unit_since = now;
            self.expect_lateness(now);
        } else {
            self.is_pipelined = true;
        }
        self.thinking_since = None;
        true
    }

    /// Keeps count of what is under way.
    fn track(&mut self, tag: u8) {
        match tag {
            b'Q' | b'F' | b'S' => {
                self.outstanding.sent(tag == b'S');
                self.unit_open = false;
                if self.is_watched() {
                    let preemptible = self.may_be_preempted();
                    self.card.state().preemptible = preemptible;
                }
            }
            b'c' | b'f' => self.outstanding.sent_copy_end(),
            _ => {}
        }
    }

    /// Whether the transaction may be rolled back for others, so that its statements are read.
    pub(super) fn is_watched(&self) -> bool {
        self.inside.is_some() && self.inside_class().preemptible && self.settings.preemption.policy.watches()
    }

    /// Remembers what the message means for whether the transaction may be rolled back and run again.
    fn note_message(&mut self, tag: u8, body: Option<&[u8]>, read: Option<Note>) {
        match tag {
            b'Q' => {
                let note = read.unwrap_or_else(|| body.map_or(Note::UNREAD, |body| self.note_of(sql_of(body))));
                self.runs(note);
            }
            b'P' => {
                let parsed = body.and_then(text);
                let Some((name, rest)) = parsed else {
                    // Too long to be read. Its name is not known either, so from now on all are taken for the worst.
                    self.prepared.prepare_unknown();
                    return;
                };
                let note = read.unwrap_or_else(|| self.note_of(sql_of(rest)));
                self.prepared.prepare(name, note);
                if let Some(recording) = self.recording.as_mut().filter(|_| self.is_recording && !name.is_empty()) {
                    recording.prepared(name);
                }
            }
            b'B' => {
                let statement = body.and_then(text).and_then(|(_portal, rest)| text(rest));
                self.runs(statement.map_or(Note::UNREAD, |(name, _)| self.prepared.of(name)));
            }
            b'C' => {
                if let Some((&b'S', rest)) = body.and_then(|body| body.split_first())
                    && let Some((name, _)) = text(rest)
                {
                    self.prepared.close(name);
                    if let Some(recording) = self.recording.as_mut().filter(|_| self.is_recording && !name.is_empty()) {
                        recording.closed(name);
                    }
                }
            }
            // A function by its number: nobody knows what it does.
            b'F' => self.runs(Note { unsafe_because: Some(Unsafe::FunctionCall), ..Note::default() }),
            _ => {}
        }
    }

    fn runs(&mut self, note: Note) {
        self.may_end |= note.may_end;
        let Some(because) = note.unsafe_because else { return };
        if self.status == b'I' && matches!(because, Unsafe::OutsideEffect | Unsafe::FunctionCall | Unsafe::Copy) {
            // By itself it may commit on its way, or has taken what cannot be sent again.
            self.must_not_cancel = true;
        }
        if let Some(recording) = self.recording.as_mut().filter(|_| self.is_recording) {
            recording.is_unsafe(because);
        }
    }

    /// What is known of the statement that a message runs, or prepares to be run.
    pub(super) fn note_of_message(&self, tag: u8, body: Option<&[u8]>) -> Note {
        let Some(body) = body else { return Note::default() };
        match tag {
            b'Q' => self.note_of(sql_of(body)),
            b'P' => text(body).map_or(Note::UNREAD, |(_name, rest)| self.note_of(sql_of(rest))),
            b'B' => {
                let statement = text(body).and_then(|(_portal, rest)| text(rest));
                statement.map_or(Note::UNREAD, |(name, _)| self.prepared.of(name))
            }
            _ => Note::default(),
        }
    }

    /// What a statement's text says.
    pub(super) fn note_of(&self, sql: &[u8]) -> Note {
        let statement = statement::read(sql);
        Note {
            class: self.class_of_statement(sql, &statement),
            begins: statement.begins,
            may_end: statement.ends.is_some(),
            rolls_back: statement.ends == Some(End::Rollback) && !statement.several,
            unsafe_because: statement.unreplayable,
        }
    }
}

/// Whether a message of that type is part of a unit: what is answered, and not copied data.
fn is_of_unit(tag: u8) -> bool {
    matches!(tag, b'Q' | b'P' | b'B' | b'E' | b'D' | b'C' | b'H' | b'S' | b'F')
}

/// Whether the unit that begins here does nothing but close statements and portals; `None` if it may, and its end is not there:
/// then nobody waits for an answer yet. What is longer than can be held counts as more than that.
pub(super) fn only_closes(bytes: &[u8]) -> Option<bool> {
    let is_long = bytes.len() > INSPECT_MAX / 2;
    let known = closes_to_its_end(bytes);
    known.or(is_long.then_some(false))
}

fn closes_to_its_end(mut bytes: &[u8]) -> Option<bool> {
    loop {
        match Head::read(bytes) {
            Ok(Some(head)) if head.tag == b'S' => return Some(true),
            Ok(Some(head)) if head.tag == b'C' => bytes = bytes.get(head.bytes..)?,
            Ok(None) => return None,
            _ => return Some(false),
        }
    }
}

/// The statement's text in the body of a `Query`, or after the name in a `Parse`.
pub(super) fn sql_of(body: &[u8]) -> &[u8] {
    text(body).map_or(body, |(sql, _)| sql)
}
