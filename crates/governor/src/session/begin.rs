//! The beginning of a transaction: whether it may be admitted.

use std::sync::atomic::Ordering;
use std::time::Instant;

use plimsoll_policy::{Abandoned, Asked, ClassIndex, GuardMode};

use super::answers::{Notice, SYNC};
use super::client::MessageAction;
use super::frames::Frontend;
use super::message::Message;
use super::prepared::Note;
use super::recording::Recording;
use super::refuse::Refusal;
use super::transaction::{Began, Transaction};
use super::unit::only_prepares;
use super::{
    Flow, Gate, KEEP_ALIVE_EVERY, Outbox, QUEUE_NOTICE_AFTER, Session, Status, error_response, notice_response,
};
use crate::governor::refusal_message;
use crate::registry::ChosenBy;
use crate::statistics::count;

/// A transaction that waits for admission.
#[derive(Debug, Clone)]
pub(super) struct Queued {
    pub since: Instant,
    /// Whether its client has received the notice that it waits.
    pub is_noticed: bool,
    pub class: ClassIndex,
    pub entry: Entry,
    /// When the server last heard something from this session.
    heard_at: Instant,
}

impl Queued {
    /// Whether a server of that version may have a time-out for sessions that are as silent as this one.
    fn may_time_out(&self, version: u32) -> bool {
        self.entry == Entry::WithinBlock || version >= 140_000
    }
}

/// The part of a transaction that waits for admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// A statement outside of a block.
    Statement,
    /// The BEGIN of a block.
    Block,
    /// The first statement after a BEGIN, if its class is another one.
    WithinBlock,
}

impl Session {
    /// Whether the transaction that a message begins may enter.
    pub(super) fn begin_transaction(
        &mut self,
        message: &Message<'_>,
        bytes: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        let generation = self.governor.generation();
        if generation != self.generation && self.transaction.is_none() {
            (self.generation, self.settings) = (generation, self.governor.settings());
            self.workers.watch(self.settings.limits_workers(), false);
            self.classify_login();
        }
        let note = self.is_first_read(message).then(|| message.note(self));
        if let Some(inside) = &mut self.transaction {
            // It has waited and been admitted, and its first message is read again.
            inside.began = began(note);
            return MessageAction::Pass;
        }
        let known = note.and_then(|note| note.class);
        let (class, chosen_by) = known.unwrap_or((self.identity.class, self.identity.chosen_by));
        // To prepare a statement is not work that could wait: a client with several sessions may wait for the answer in
        // all of them, also in those with a transaction that was admitted.
        let only_prepares = match message.ask {
            Frontend::Parse if self.settings.is_limited(class) => only_prepares(bytes),
            _ => Some(false),
        };
        let Some(only_prepares) = only_prepares else { return MessageAction::Stay };
        if note.is_some_and(|note| note.has_refused_tag) {
            self.refuse_tag(out);
        }
        let may_migrate = note.is_some_and(|note| note.begins || note.strong_lock.is_some());
        self.note_rate(class, now);
        let transaction =
            Transaction { began: began(note), ..Transaction::new(class, now, self.governor.horizon.get()) };
        // It ends a transaction that is not open, or a prepared one, which transactions inside may wait for: it is over
        // at once.
        let only_ends = note.is_some_and(|note| note.ends.is_some()) && self.settings.is_limited(class);
        let Some(only_ends) = (if only_ends { self.only_ends(bytes) } else { Some(false) }) else {
            return MessageAction::Stay;
        };
        if only_ends || only_prepares || !self.settings.is_limited(class) {
            self.enter(transaction, chosen_by, may_migrate);
            return MessageAction::Pass;
        }
        match self.governor.ask_admission(self.card.claim(class), now) {
            Asked::Enter => {
                self.enter(Transaction { is_admitted: true, ..transaction }, chosen_by, may_migrate);
                MessageAction::Pass
            }
            Asked::Wait => {
                self.queue(class, chosen_by, self.entry(message), now);
                MessageAction::Stay
            }
            Asked::Refused(reason) => {
                let entry = self.entry(message);
                count(&self.statistics(class).refused_full);
                let why = refusal_message(&reason, &self.settings.class(class).name);
                self.refuse_admission("53300", &why, entry, now, out);
                if entry == Entry::Block { MessageAction::Stay } else { MessageAction::Drop }
            }
        }
    }

    /// Whether the unit that begins here runs one statement, which ends a transaction; `None` as for [`shape`](super::unit::shape).
    fn only_ends(&self, bytes: &[u8]) -> Option<bool> {
        Some(self.shape_of(bytes)?.runs.is_some_and(|runs| runs.ends.is_some()))
    }

    fn entry(&self, message: &Message<'_>) -> Entry {
        if message.note(self).begins { Entry::Block } else { Entry::Statement }
    }

    fn queue(&mut self, class: ClassIndex, chosen_by: ChosenBy, entry: Entry, now: Instant) {
        {
            let mut state = self.card.state();
            (state.class, state.chosen_by, state.transaction_since) = (class, chosen_by, now);
        }
        count(&self.statistics(class).queued);
        self.flow = Flow::Queued(Queued { since: now, is_noticed: false, class, entry, heard_at: now });
    }

    /// Refuses a statement that is not admitted; a block is refused as a whole.
    fn refuse_admission(
        &mut self,
        sqlstate: &'static str,
        why: &str,
        entry: Entry,
        now: Instant,
        out: &mut impl Outbox,
    ) {
        let error = error_response(&Notice::new("ERROR", sqlstate, why));
        match entry {
            Entry::Statement => self.flow = Flow::Refusing(Refusal::new(error, Status::Idle)),
            Entry::Block | Entry::WithinBlock => self.fail_block(error, now, out),
        }
    }

    /// Whether a transaction's first message is read: its text may name the class, or must be known anyway.
    fn is_first_read(&self, message: &Message<'_>) -> bool {
        let guards = self.settings.guards.migrations == GuardMode::Enforce;
        match message.ask {
            Frontend::Query => {
                let mentions = &message.mentions;
                self.settings.rules.needs_fingerprints()
                    || mentions.tag
                    || mentions.bounds
                    || guards && mentions.strong_lock
            }
            // Prepared statements are always remembered.
            Frontend::Parse | Frontend::Bind => true,
            _ => false,
        }
    }

    /// Counts a transaction beyond the rate of its class, which would have waited.
    fn note_rate(&self, class: ClassIndex, now: Instant) {
        let pace = self.settings.class(class).pace().filter(|_| self.settings.budgets_of(class) == GuardMode::Warn);
        if pace.is_some_and(|pace| self.governor.is_beyond(class, pace, now)) {
            count(&self.statistics(class).beyond_rate);
        }
    }

    /// A transaction begins. `may_migrate`: one of its statements may need a strong lock, as far as its first message shows.
    fn enter(&mut self, mut inside: Transaction, chosen_by: ChosenBy, may_migrate: bool) {
        if !std::mem::take(&mut self.attempts.is_retry) {
            self.attempts.rollbacks = 0;
        }
        {
            let mut state = self.card.state();
            state.transaction_since = inside.since;
            state.transaction += 1;
        }
        self.serve(inside.class, chosen_by);
        let recorded = self.recorded(inside.class, may_migrate);
        inside.begins(recorded, self.governor.code_catches.load(Ordering::Relaxed));
        self.transaction = Some(inside);
    }

    /// Whether transactions of a class may be rolled back for others, and an empty recording if they may be replayed
    /// after that, after the server aborted them, or after they have waited for a strong lock.
    pub(super) fn recorded(&mut self, class: ClassIndex, may_migrate: bool) -> (bool, Option<Box<Recording>>) {
        let class = self.settings.class(class);
        let policy = &self.settings.preemption.policy;
        let is_watched = class.preemptible && policy.watches();
        let is_retried = class.retry_aborted > 0 && !policy.only_tracks();
        let steps_back = may_migrate && self.settings.guards.migrations == GuardMode::Enforce;
        let may_run_again = is_watched && policy.acts() || is_retried || steps_back;
        if !class.replay || !may_run_again {
            return (is_watched, None);
        }
        let mut recording = self.spare_recording.take().unwrap_or_default();
        recording.clear();
        (is_watched, Some(recording))
    }

    /// Counts a transaction of the class as inside.
    fn serve(&self, class: ClassIndex, chosen_by: ChosenBy) {
        let served = {
            let mut state = self.card.state();
            (state.class, state.chosen_by) = (class, chosen_by);
            std::mem::replace(&mut state.served, class)
        };
        if self.settings.share_of(served) != self.settings.share_of(class) {
            self.governor.change_shares();
        }
        self.statistics(class).inside.fetch_add(1, Ordering::Relaxed);
    }

    /// The first statement after a BEGIN may have a tag where the BEGIN had none: object-relational mappers and
    /// sqlcommenter write them so. No statement has run yet, so the transaction can still change class, and wait for
    /// admission.
    pub(super) fn reclassify(&mut self, note: &Note, now: Instant, out: &mut impl Outbox) -> MessageAction {
        let Some(inside) = self.transaction.as_mut().filter(|inside| inside.began == Began::Bare) else {
            return MessageAction::Pass;
        };
        let is_other = note.class.is_some_and(|(class, _)| class != inside.class);
        if (is_other || note.has_refused_tag) && !self.outstanding.is_empty() {
            self.gate = Gate::UntilRest;
            return MessageAction::Stay;
        }
        inside.began = Began::AtWork;
        if note.has_refused_tag {
            self.refuse_tag(out);
        }
        match note.class.filter(|_| is_other) {
            Some((class, chosen_by)) => self.change_class(class, chosen_by, now, out),
            None => MessageAction::Pass,
        }
    }

    fn change_class(
        &mut self,
        class: ClassIndex,
        chosen_by: ChosenBy,
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        let Some(before) = self.transaction.take() else { return MessageAction::Pass };
        self.statistics(before.class).inside.fetch_sub(1, Ordering::Relaxed);
        if before.is_admitted {
            self.governor.leave(before.class, now);
        }
        let (is_watched, recording) = self.recorded(class, true);
        let began = if before.recording.is_none() { Began::Unrecorded } else { Began::AtWork };
        let recording = recording.map(|fresh| before.recording.unwrap_or(fresh));
        let is_limited = self.settings.is_limited(class);
        let asked = is_limited.then(|| self.governor.ask_admission(self.card.claim(class), now));
        let is_admitted = asked == Some(Asked::Enter);
        self.transaction = Some(Transaction { class, is_admitted, is_watched, recording, began, ..before });
        self.serve(class, chosen_by);
        match asked {
            None | Some(Asked::Enter) => MessageAction::Pass,
            Some(Asked::Wait) => {
                self.queue(class, chosen_by, Entry::WithinBlock, now);
                MessageAction::Stay
            }
            Some(Asked::Refused(reason)) => {
                count(&self.statistics(class).refused_full);
                let why = refusal_message(&reason, &self.settings.class(class).name);
                self.refuse_admission("53300", &why, Entry::WithinBlock, now, out);
                MessageAction::Stay
            }
        }
    }

    pub(super) fn on_admitted(&mut self, now: Instant) {
        let (since, class, entry) = match &mut self.flow {
            Flow::Queued(Queued { since, class, entry, .. }) => (*since, *class, *entry),
            // The session was ended just now, and returns its admission.
            Flow::Ended { queued } => {
                queued.take().into_iter().for_each(|class| self.governor.leave(class, now));
                return;
            }
            _ => return,
        };
        self.flow = Flow::Relay;
        let chosen_by = self.card.state().chosen_by;
        let waited = Some(now.saturating_duration_since(since));
        let horizon = self.governor.horizon.get();
        match (entry, &mut self.transaction) {
            (Entry::WithinBlock, Some(inside)) => (inside.is_admitted, inside.waited) = (true, waited),
            _ => self.enter(
                Transaction { is_admitted: true, waited, ..Transaction::new(class, since, horizon) },
                chosen_by,
                true,
            ),
        }
    }

    pub(super) fn on_queue_timeout(&mut self, now: Instant, out: &mut impl Outbox) {
        self.governor.confirm_expired(self.card.id);
        let Flow::Queued(Queued { since, entry, class, .. }) = self.flow else { return };
        count(&self.statistics(class).refused_timeout);
        let waited = now.saturating_duration_since(since);
        let name = &self.settings.class(class).name;
        let why = format!("class \"{name}\" is full: this transaction has waited {waited:.0?} to be admitted");
        self.refuse_admission("53300", &why, entry, now, out);
    }

    pub(super) fn on_cancelled_in_queue(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Queued(Queued { entry, .. }) = self.flow else { return };
        if self.governor.abandon(self.card.id) != Abandoned::Waited {
            // It was admitted or timed out just now, and the command that reports it is on its way.
            return;
        }
        self.refuse_admission("57014", "canceling statement due to user request", entry, now, out);
    }

    /// When a waiting session must act.
    pub(super) fn queue_wakes_at(&self, queued: &Queued) -> Option<Instant> {
        let notice = (!queued.is_noticed).then(|| queued.since + QUEUE_NOTICE_AFTER);
        let keep_alive = queued.may_time_out(self.reported.version).then(|| queued.heard_at + KEEP_ALIVE_EVERY);
        [notice, keep_alive].into_iter().flatten().min()
    }

    /// Lets the server hear a `Sync` from a session that waits; its answer is dropped.
    pub(super) fn keep_alive(&mut self, now: Instant, out: &mut impl Outbox) {
        let version = self.reported.version;
        let Flow::Queued(queued) = &mut self.flow else { return };
        if now < queued.heard_at + KEEP_ALIVE_EVERY || !queued.may_time_out(version) {
            return;
        }
        queued.heard_at = now;
        // A server that has not answered the last one has something else to do than to wait for its client.
        if !std::mem::replace(&mut self.is_kept_alive, true) {
            out.to_server(&SYNC);
        }
    }

    /// Sends a notice to a client that has waited for a while.
    pub(super) fn notice_queued(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Queued(queued) = &mut self.flow else { return };
        if queued.is_noticed || now < queued.since + QUEUE_NOTICE_AFTER || self.from_server.left > 0 {
            return;
        }
        queued.is_noticed = true;
        let class = queued.class;
        let message = format!("waiting to be admitted: class \"{}\" is full", self.settings.class(class).name);
        let hint = format!("SHOW QUEUE in the database \"{}\" has the reason.", self.settings.admin.database);
        out.to_client(&notice_response(&Notice { hint: Some(&hint), ..Notice::new("NOTICE", "00000", &message) }));
    }
}

/// How a transaction begins, given its first statement.
fn began(note: Option<&Note>) -> Began {
    if note.is_some_and(|note| note.is_bare_begin && note.class.is_none()) { Began::Bare } else { Began::AtWork }
}
