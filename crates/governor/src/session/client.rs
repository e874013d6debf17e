//! Messages of the client.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_policy::Unsafe;

use super::class::Setting;
use super::frames::{Frontend, Head, text};
use super::message::{Message, sql_of_message};
use super::prepared::{Change, Names, Note};
use super::refuse::Refusal;
use super::transaction::{Began, Transaction};
use super::unit::{Shape, only_closes, shape};
use super::{Bound, Flow, Gate, Outbox, Passing, ProtocolError, Session, Shown, Status, Unit};
use crate::registry::Held;
use crate::statement::name::stored;
use crate::statement::patience::timeouts_set_by;
use crate::statement::{self, End};

/// How a message is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageAction {
    Pass,
    /// It is dropped: we have answered it, or will.
    Drop,
    /// It stays, and is read again when more bytes arrive or the state changes.
    Stay,
}

impl Session {
    /// Offers bytes from the client, starting with those not accepted before; returns how many are accepted. The rest
    /// is an incomplete message of at most 64 KiB, or everything while [`takes_client_bytes`](Self::takes_client_bytes)
    /// is false.
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
            self.unrecorded = at - passed;
            match self.take_message(head, &bytes[at..], now, out) {
                MessageAction::Stay => break,
                MessageAction::Pass => {
                    self.from_client = Passing { left: head.bytes, is_passed: true, is_answer: false }
                }
                MessageAction::Drop => {
                    self.pass_on(&bytes[passed..at], out);
                    passed = at;
                    self.from_client = Passing { left: head.bytes, is_passed: false, is_answer: false };
                }
            }
        }
        self.pass_on(&bytes[passed..at], out);
        self.bytes.0 += at as u64;
        self.publish();
        Ok(at)
    }

    fn pass_on(&mut self, bytes: &[u8], out: &mut impl Outbox) {
        if bytes.is_empty() {
            return;
        }
        if let Some(recording) = self.transaction.as_mut().and_then(|inside| inside.recording.as_mut()) {
            recording.sent(bytes, self.settings.preemption.replay_bytes_max);
        }
        out.to_server(bytes);
    }

    fn take_message(&mut self, head: Head, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> MessageAction {
        let ask = Frontend::of(head.tag);
        if ask == Frontend::Terminate || matches!(self.flow, Flow::Ungoverned) {
            return MessageAction::Pass;
        }
        match Message::read(ask, head, bytes) {
            Some(message) => self.read_message(&message, bytes, now, out),
            None => MessageAction::Stay,
        }
    }

    /// Decides how to handle the message at the start of `bytes`.
    pub(super) fn read_message(
        &mut self,
        message: &Message<'_>,
        bytes: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        match self.flow {
            Flow::Refusing(_) => return self.refuse_message(message, bytes, now, out),
            Flow::RolledBack(_) if !self.outstanding.is_empty() => {
                // A unit that only closes statements is being answered; a rewind would mistake its answer for its own.
                self.gate = Gate::UntilRest;
                return MessageAction::Stay;
            }
            Flow::RolledBack(_) => {
                let Some(next) = self.shape_of(bytes) else { return MessageAction::Stay };
                self.client_speaks(next, now, out);
                match self.flow {
                    // It closes statements.
                    Flow::RolledBack(_) => {}
                    // If the server need not be asked, no answer will cause the message to be read again.
                    Flow::Relay | Flow::Refusing(_) => return self.read_message(message, bytes, now, out),
                    _ => return MessageAction::Stay,
                }
            }
            _ => {}
        }
        if self.outstanding.is_copying_in() && matches!(message.ask, Frontend::Sync | Frontend::Flush) {
            // The server ignores it.
            if message.ask == Frontend::Sync {
                self.outstanding.sent_sync_in_copy();
            }
            return MessageAction::Pass;
        }
        if message.ask == Frontend::Flush && !self.is_unit_open {
            // It asks for nothing. As the beginning of a unit it would wait for a Sync that a copy swallows.
            return MessageAction::Pass;
        }
        match self.on_setting(message) {
            Setting::None | Setting::Done => {}
            Setting::Waits => return MessageAction::Stay,
            Setting::Refused(error) => return self.refuse_setting(error, message, bytes, now, out),
        }
        if let (true, Frontend::Query | Frontend::FunctionCall, Some(inside)) =
            (self.is_unit_open, message.ask, &mut self.transaction)
        {
            // It follows messages without a Sync: whether it is answered depends on them.
            inside.overlapped = true;
        }
        if !self.is_unit_open && message.ask.is_of_unit() {
            match self.begin_unit(message, bytes, now, out) {
                MessageAction::Pass => {}
                MessageAction::Stay => return MessageAction::Stay,
                MessageAction::Drop => return self.refuse_message(message, bytes, now, out),
            }
        }
        self.workers.reads(message.ask, message.body, message.is_whole);
        self.note_message(message);
        self.track(message.ask, out);
        MessageAction::Pass
    }

    /// A message begins a unit, and perhaps a transaction.
    fn begin_unit(
        &mut self,
        message: &Message<'_>,
        bytes: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        if self.transaction.is_none() && self.status == Status::Idle && !self.outstanding.is_empty() {
            // A unit that is not a transaction is still being answered; the next may begin one, and must be admitted.
            self.gate = Gate::UntilRest;
            return MessageAction::Stay;
        }
        if self.has_slipped_in() && !self.outstanding.is_empty() {
            self.gate = Gate::UntilRest;
            return MessageAction::Stay;
        }
        if self.is_at_rest() {
            let fate = match only_closes(bytes) {
                // Drivers close statements at any time and ignore the answers: this is not a transaction that could
                // wait.
                Some(true) => MessageAction::Pass,
                None => MessageAction::Stay,
                Some(false) => self.begin_transaction(message, bytes, now, out),
            };
            if fate != MessageAction::Pass {
                return fate;
            }
        } else if let Some(inside) = &self.transaction {
            if inside.began == Began::Bare && inside.is_watched && !self.outstanding.is_empty() {
                // Drivers send BEGIN and the first statement together. What overlaps is not replayed, so the statement
                // waits for the answer to BEGIN.
                self.gate = Gate::UntilRest;
                return MessageAction::Stay;
            }
            if inside.began == Began::Bare && self.may_reclassify(message) {
                let fate = self.reclassify(message.note(self), now, out);
                if fate != MessageAction::Pass {
                    return fate;
                }
            }
            if let Some(error) = self.transaction.as_ref().and_then(|inside| inside.failure.clone())
                && message.note(self).uses_savepoint
            {
                if !self.outstanding.is_empty() {
                    // Earlier messages may have ended the failed transaction, and begun another.
                    self.gate = Gate::UntilRest;
                    return MessageAction::Stay;
                }
                // Its savepoints no longer exist, and the server would not report that as 40001.
                self.flow = Flow::Refusing(Refusal::new(error, self.status));
                return MessageAction::Drop;
            }
        }
        if self.limit_workers(bytes, now, out) != MessageAction::Pass {
            return MessageAction::Stay;
        }
        match self.bound_lock_wait(message, bytes, now, out) {
            MessageAction::Pass if self.open_unit(now) => {
                self.migration.begins();
                MessageAction::Pass
            }
            _ => MessageAction::Stay,
        }
    }

    /// Whether the transaction needed no admission, although its class has a limit: its unit only prepares, or ends what
    /// is not open. What follows may begin another transaction, which does.
    fn has_slipped_in(&self) -> bool {
        let is_idle = self.status == Status::Idle;
        is_idle && self.transaction.as_ref().is_some_and(|one| !one.is_admitted && self.settings.is_limited(one.class))
    }

    /// Whether a message's text may change the class of its transaction, which has just begun.
    fn may_reclassify(&self, message: &Message<'_>) -> bool {
        match message.ask {
            Frontend::Query | Frontend::Parse => self.settings.rules.needs_fingerprints() || message.mentions.tag,
            Frontend::Bind => true,
            _ => false,
        }
    }

    /// Begins a unit, unless a cancel is on its way.
    fn open_unit(&mut self, now: Instant) -> bool {
        let is_alone = self.outstanding.is_empty();
        self.unit_number = match self.card.begin_unit(is_alone) {
            Ok(number) => number,
            Err(Held::UntilCancelArrives) => {
                self.gate = Gate::UntilCancelArrives;
                return false;
            }
            Err(Held::UntilAnswered) => {
                self.gate = Gate::UntilRest;
                return false;
            }
        };
        self.is_unit_open = true;
        if is_alone {
            self.unit = Unit { rows_left: self.rows_max(), ..Unit::new(now) };
            self.expect_lateness(now);
        }
        if let Some(inside) = &mut self.transaction {
            inside.unit_immunity = None;
            inside.overlapped |= !is_alone;
            if inside.began == Began::Bare && !(is_alone && self.status == Status::Idle) {
                inside.began = Began::AtWork;
            }
            if !is_alone && self.rules_may_change {
                // Its texts may not be what they seem.
                inside.runs_unread = true;
                inside.is_unsafe(Unsafe::Unread);
            }
            if is_alone && inside.recording.is_some() && self.status == Status::Idle {
                self.unit.shown = Shown::Nothing(Vec::new());
            }
        }
        true
    }

    /// Tracks the messages under way.
    fn track(&mut self, ask: Frontend, out: &mut impl Outbox) {
        match ask {
            _ if ask.ends_unit() => {
                self.outstanding.sent(self.unit_number, ask == Frontend::Sync);
                self.is_unit_open = self.outstanding.is_skipping();
            }
            Frontend::Parse | Frontend::Bind | Frontend::Describe | Frontend::Execute | Frontend::Close => {
                self.outstanding.sent_extended()
            }
            Frontend::CopyEnd => self.outstanding.sent_copy_end(),
            // Its client waits for the answers so far.
            Frontend::Flush => self.show(out),
            _ => {}
        }
    }

    /// Notes how the message affects whether the transaction may be rolled back and replayed.
    fn note_message(&mut self, message: &Message<'_>) {
        let Message { ask, body, .. } = *message;
        let is_read = self.transaction.as_ref().is_some_and(|inside| inside.is_read());
        self.note_snapshot(message);
        self.note_timeout(message);
        self.leaves(message);
        if ask == Frontend::Query {
            self.prepared.query();
        }
        match ask {
            Frontend::Query if is_read => {
                // If only the beginning of a text was read, the rest may end the transaction.
                let note = if message.is_whole { message.note(self) } else { Note::UNREAD };
                self.foresee_text(message.sql.unwrap_or_default(), note);
                self.runs(note, b"");
            }
            Frontend::Parse => self.note_parse(message),
            Frontend::Bind if is_read => {
                let names = body.and_then(text).and_then(|(portal, rest)| Some((portal, text(rest)?.0)));
                let note = message.note(self);
                let (portal, statement) = names.unwrap_or_default();
                if let Some(inside) = &mut self.transaction {
                    inside.binds(portal, statement);
                }
                self.foresee_bind(statement, note);
                self.runs(note, portal);
            }
            Frontend::Execute if is_read => {
                let portal = body.and_then(text).map_or(&b"?"[..], |(portal, _)| portal);
                if let Some(inside) = &mut self.transaction {
                    inside.runs_portal(portal);
                }
                self.unit.runs_portal(portal);
            }
            Frontend::Close => {
                let change = Change::of_close(body);
                if let Change::Close { name } = &change
                    && !name.is_empty()
                    && !self.prepared.is_asked_to_prepare(name)
                    && let Some(inside) = &mut self.transaction
                {
                    // A cancel may meet what comes behind it, when the statement is already closed.
                    inside.keeps(|recording| recording.may_close(name));
                }
                self.prepared.ask(self.unit_number, change);
            }
            // A function called by its number has unknown effects.
            Frontend::FunctionCall if is_read => {
                self.runs(&Note { unsafe_because: Some(Unsafe::FunctionCall), ..Note::default() }, b"");
            }
            _ => {}
        }
    }

    /// Notes whether an admitted transaction exports a snapshot, for which other sessions of its client may wait.
    fn note_snapshot(&mut self, message: &Message<'_>) {
        if let Some(inside) = self.transaction.as_mut().filter(|inside| inside.is_admitted) {
            inside.exports_snapshot |= message.mentions.snapshot;
        }
    }

    /// Notes how long its client lets statements run or wait. A shorter time stays known until the session ends: a function, a
    /// rollback or a RESET may restore it.
    fn note_timeout(&mut self, message: &Message<'_>) {
        if let Some(sql) = message.sql.filter(|_| message.mentions.timeout) {
            self.migration.hears_of_timeouts();
            self.card.state().may_have_timeouts(timeouts_set_by(sql, self.reported.text_rules));
        }
    }

    /// The current message's position among the recorded bytes.
    pub(super) fn place_of(&self, bytes: usize) -> std::ops::Range<usize> {
        let recording = self.transaction.as_ref().and_then(|inside| inside.recording.as_ref());
        let begin = recording.map_or(0, |recording| recording.end()) + self.unrecorded;
        begin..begin + bytes
    }

    fn runs(&mut self, note: &Note, portal: &[u8]) {
        let deferred = self.migration.defers(note);
        let note = deferred.as_ref().map_or(note, |(note, _)| note);
        if let (Some((_, because)), Some(inside)) = (&deferred, &mut self.transaction) {
            inside.unsafe_once_done = Some(*because);
        }
        self.rules_may_change |= note.changes_rules;
        let is_only = !std::mem::replace(&mut self.unit.has_run, true);
        let may_have_ended = self.transaction.as_ref().is_none_or(Transaction::may_have_ended);
        let bound = match note.ends {
            _ if !is_only => None,
            _ if note.chains => Some(Bound::Chain),
            _ if note.is_bare_begin => Some(Bound::Begin),
            Some(End::Commit) if !may_have_ended => Some(Bound::Commit),
            _ => None,
        };
        self.unit.bound = bound.zip(stored(portal).map(Into::into));
        let (prepared, status) = (&self.prepared, self.status);
        if let Some(inside) = &mut self.transaction {
            inside.runs(note, status, |name| prepared.of(name));
            if inside.unsafe_because.is_some() && matches!(&self.unit.shown, Shown::Nothing(held) if held.is_empty()) {
                // It is not replayed, so its client may see everything at once.
                self.unit.shown = Shown::All;
            }
        }
    }

    /// The known facts about the statement that a message runs or prepares.
    pub(super) fn note_of_message(&self, ask: Frontend, body: Option<&[u8]>) -> Note {
        let Some(body) = body else { return Note::default() };
        match ask {
            Frontend::Query | Frontend::Parse => {
                sql_of_message(ask, body).map_or_else(|| Note::UNREAD.clone(), |sql| self.note_of(sql))
            }
            Frontend::Bind => {
                let statement = text(body).and_then(|(_portal, rest)| text(rest));
                statement.map_or_else(|| Note::UNREAD.clone(), |(name, _)| self.prepared.of(name))
            }
            _ => Note::default(),
        }
    }

    /// The shape of the client's unit that begins here; `None` as for [`shape`].
    pub(super) fn shape_of(&self, bytes: &[u8]) -> Option<Shape> {
        shape(bytes, &|ask, body| self.note_of_message(ask, Some(body)))
    }

    /// The facts that a statement's text shows.
    pub(super) fn note_of(&self, sql: &[u8]) -> Note {
        let statement = statement::read_with(sql, self.reported.text_rules);
        let (class, has_refused_tag) = self.class_of_statement(sql, &statement);
        let own = |names: &statement::Names<'_>| names.iter().map(|name| name.as_ref().into()).collect();
        let has_names = !(statement.declares.is_empty() && statement.moves.is_empty() && statement.executes.is_empty());
        Note {
            class,
            has_refused_tag,
            begins: statement.begins,
            is_bare_begin: statement.is_bare_begin,
            may_end: statement.ends.is_some(),
            is_unread: false,
            ends: statement.ends.filter(|_| !statement.several),
            chains: statement.chains && !statement.several,
            uses_savepoint: statement.savepoint,
            changes_code: statement.changes_code,
            changes_patience: statement.changes_patience,
            changes_rules: statement.changes_rules,
            unsafe_because: statement.unreplayable,
            takes_advisory_lock: statement.takes_advisory_lock,
            strong_lock: statement::strong_lock::strong_lock(sql, self.reported.text_rules),
            names: has_names.then(|| {
                Arc::new(Names {
                    declares: own(&statement.declares),
                    moves: own(&statement.moves),
                    executes: own(&statement.executes),
                })
            }),
            key: None,
            leaves: None,
        }
    }
}
