//! The state machine of one session: bytes in, bytes out. Its paper is `session/README.md`.
//!
//! It has no socket and no clock: [`Session::on_client`] and [`Session::on_server`] are given what was read and the time,
//! and put what is to be sent into an [`Outbox`]. A session begins when its client has been let in by the server and both
//! wait for the first query.
//!
//! `client` reads what the client sends and `server` what the server answers; `begin` is what happens when a transaction
//! begins (class, admission), `rewind` what happens when it was rolled back for another. `outstanding`, `prepared` and
//! `recording` are what is remembered.

mod answers;
mod begin;
mod client;
mod frames;
mod outstanding;
mod prepared;
mod recording;
mod refuse;
mod rewind;
mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_policy::{ClassIndex, Login};

pub use answers::{Notice, error_response, notice_response, ready_for_query};
pub use frames::{HEAD_BYTES, Head, INSPECT_MAX};

use crate::governor::{Governor, SessionCommand};
use crate::registry::{ChosenBy, Phase, SessionCard};
use crate::settings::{ClassSettings, Settings};
use crate::statistics::{ClassStatistics, count};
use outstanding::Outstanding;
use prepared::PreparedNotes;
use recording::Recording;
use refuse::Refusal;
use rewind::Rewind;

/// How long a client waits for admission before it is told so.
const QUEUE_NOTICE_AFTER: Duration = Duration::from_secs(5);

/// A unit that began while nobody less important was inside is looked at again after this time.
const LATE_WITH_NOBODY_BELOW: Duration = Duration::from_millis(50);

/// Where a session puts what it sends. Bytes that cannot be sent at once are kept by whoever implements this.
pub trait Outbox {
    /// To the server.
    fn to_server(&mut self, bytes: &[u8]);
    /// To the client.
    fn to_client(&mut self, bytes: &[u8]);
}

/// Why a session cannot go on: somebody does not speak the protocol. Its client is told, if it is still there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub String);

/// What becomes of bytes.
#[derive(Debug)]
enum Mode {
    /// They are passed on.
    Relay,
    /// The client's first message of a transaction waits for admission.
    Queued {
        /// Since when.
        since: Instant,
        /// Whether the client was told.
        is_noticed: bool,
        /// Whether its first statement begins a block.
        begins: bool,
    },
    /// What the client asks up to its next Sync is answered with an error by us.
    Refusing(Refusal),
    /// The transaction was rolled back for another, and is being run again or brought to an end.
    Rewinding(Rewind),
    /// The transaction was rolled back for another while its client was thinking, which does not know yet.
    RolledBack,
}

/// The transaction that is inside.
#[derive(Debug, Clone, Copy)]
struct Inside {
    class: ClassIndex,
    /// Whether admission counts it.
    is_admitted: bool,
    since: Instant,
    /// How long it waited for admission.
    waited: Option<Duration>,
}

/// A message that is passing, of which some bytes have not been seen.
#[derive(Debug, Clone, Copy, Default)]
struct Passing {
    left: usize,
    /// Whether it is passed on; otherwise dropped.
    is_passed: bool,
    /// Whether it is part of an answer that is compared.
    is_answer: bool,
}

/// A session that a client was let into. See the module.
#[derive(Debug)]
pub struct Session {
    governor: Arc<Governor>,
    card: Arc<SessionCard>,
    settings: Arc<Settings>,
    generation: u64,
    /// As it stands; the application's name may change.
    login: Login,
    /// The class that the rules give it, and the one it has.
    login_class: ClassIndex,
    session_class: ClassIndex,
    session_chosen_by: ChosenBy,
    mode: Mode,
    /// A cancel is on its way; the next unit waits for its arrival.
    is_held: bool,
    /// What comes next begins a transaction, or is answered by us: it waits until everything before it has been answered.
    waits_for_rest: bool,
    inside: Option<Inside>,
    /// Messages of a unit have been sent, and not what ends it.
    unit_open: bool,
    unit_since: Instant,
    outstanding: Outstanding,
    /// What the server has said of the transaction last: `I`, `T` or `E`.
    status: u8,
    /// Its end was asked for, or could have been.
    may_end: bool,
    /// Whether units overlapped in this transaction.
    is_pipelined: bool,
    /// What is in flight has effects that are not undone with it, or may commit by itself.
    must_not_cancel: bool,
    prepared: PreparedNotes,
    /// Kept by sessions that may be rolled back.
    recording: Option<Box<Recording>>,
    /// Whether what passes now is recorded.
    is_recording: bool,
    from_client: Passing,
    from_server: Passing,
    /// When the watcher is to be told that the unit in flight is late, or it is to be seen again whether it should.
    rings_at: Option<Instant>,
    /// Since when the client thinks within a transaction.
    thinking_since: Option<Instant>,
    /// The server answered what it was not asked: nothing is done any more but passing on.
    is_ungoverned: bool,
    has_ended: bool,
}

impl Session {
    /// A session whose server is ready for its first query.
    pub fn new(governor: Arc<Governor>, card: Arc<SessionCard>, now: Instant) -> Self {
        let generation = governor.generation();
        let settings = governor.settings();
        let login = card.login.clone();
        let matched = settings.rules.of_login(&login);
        let (session_class, chosen_by) = {
            let mut state = card.state();
            // Its client may have chosen another in the start-up message.
            if state.chosen_by != ChosenBy::Setting {
                (state.class, state.chosen_by) = (matched.class, ChosenBy::Rule(matched.rule));
            }
            (state.phase, state.since) = (Phase::Idle, now);
            (state.class, state.chosen_by)
        };
        Session {
            governor,
            card,
            settings,
            generation,
            login,
            login_class: matched.class,
            session_class,
            session_chosen_by: chosen_by,
            mode: Mode::Relay,
            is_held: false,
            waits_for_rest: false,
            inside: None,
            unit_open: false,
            unit_since: now,
            outstanding: Outstanding::default(),
            status: b'I',
            may_end: false,
            is_pipelined: false,
            must_not_cancel: false,
            prepared: PreparedNotes::default(),
            recording: None,
            is_recording: false,
            from_client: Passing::default(),
            from_server: Passing::default(),
            rings_at: None,
            thinking_since: None,
            is_ungoverned: false,
            has_ended: false,
        }
    }

    /// Whether more of the client's bytes can be taken now. While not, they should not be read either; it can become true
    /// with any call of any other method.
    pub fn takes_client_bytes(&self) -> bool {
        !self.has_ended
            && !self.is_held
            && !self.waits_for_rest
            && matches!(self.mode, Mode::Relay | Mode::Refusing(_) | Mode::RolledBack)
    }

    /// Whether it waits between transactions, so that a governor that is being stopped may end it.
    pub fn is_idle(&self) -> bool {
        self.is_at_rest() && matches!(self.mode, Mode::Relay) && self.from_server.left == 0
    }

    /// Whether it has asked to be ended: what was put out is to be sent, then both connections are closed.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Something that another thread asks.
    pub fn on_command(&mut self, command: SessionCommand, now: Instant, out: &mut impl Outbox) {
        match command {
            SessionCommand::Admitted => self.on_admitted(now),
            SessionCommand::TimedOut => self.on_queue_timeout(now, out),
            SessionCommand::ClientCancelled => self.on_cancelled_in_queue(now, out),
            SessionCommand::CancelArrived => {
                self.is_held = false;
                self.go_on_rewinding(now, out);
            }
            SessionCommand::RollBackIdle { transaction, unit, event: _ } => {
                self.roll_back_idle(transaction, unit, now, out)
            }
            SessionCommand::End { why } => self.end("57P01", &why, out),
        }
    }

    /// When [`on_time`](Self::on_time) is to be called next; `None` for not at all. Asked after every other call.
    pub fn wakes_at(&self) -> Option<Instant> {
        let notice = match self.mode {
            Mode::Queued { since, is_noticed: false, .. } => Some(since + QUEUE_NOTICE_AFTER),
            _ => None,
        };
        let idle = self.thinking_since.zip(self.inside_class().idle_in_transaction_timeout);
        let idle = idle.map(|(since, timeout)| since + timeout);
        [notice, self.rings_at, idle].into_iter().flatten().min()
    }

    /// The time has come.
    pub fn on_time(&mut self, now: Instant, out: &mut impl Outbox) {
        self.notice_queued(now, out);
        if self.rings_at.is_some_and(|at| at <= now) {
            if self.is_anybody_below() {
                self.rings_at = None;
                self.governor.bell.ring();
            } else {
                self.expect_lateness(now);
            }
        }
        let timeout = self.inside_class().idle_in_transaction_timeout;
        if let Some((since, timeout)) = self.thinking_since.zip(timeout)
            && now >= since + timeout
        {
            count(&self.statistics(self.inside_index()).idle_ended);
            let why = format!(
                "terminating connection: class \"{}\" lets a transaction wait for its client for {timeout:?}",
                self.inside_class().name
            );
            self.end("25P03", &why, out);
        }
    }

    /// One of the two connections is gone: it leaves queues and registry.
    pub fn close(&mut self, now: Instant) {
        self.has_ended = true;
        if matches!(self.mode, Mode::Queued { .. }) {
            self.mode = Mode::Relay;
            if !self.governor.abandon(self.card.id) {
                // It was admitted in this moment, and has not been told yet.
                self.governor.leave(self.card.state().class, now);
            }
        }
        if self.inside.is_some() {
            self.end_transaction(now);
        }
        self.governor.registry.remove(self.card.id);
    }

    /// Ends the session, and tells its client why if that can be said between two messages.
    fn end(&mut self, sqlstate: &'static str, why: &str, out: &mut impl Outbox) {
        if !self.has_ended && self.from_server.left == 0 {
            let notice = Notice { severity: "FATAL", sqlstate, message: why, detail: None, hint: None };
            out.to_client(&error_response(&notice));
        }
        self.has_ended = true;
    }

    /// Whether there is no transaction and nothing under way.
    fn is_at_rest(&self) -> bool {
        self.status == b'I' && self.outstanding.is_empty() && !self.unit_open
    }

    /// From now on the unit in flight may be late, and the watcher is told if somebody less important may be in its way.
    ///
    /// While nobody less important is inside nobody is, and a timer for each of many quick units is a twentieth of what the
    /// relay does for them. So it is only seen now and then whether somebody has come.
    fn expect_lateness(&mut self, now: Instant) {
        let preemption = &self.settings.preemption;
        let is_watched = preemption.policy.watches() || self.settings.cpu.inheritance;
        self.rings_at = (is_watched && self.classes_below().next().is_some()).then(|| {
            let nobody_below = preemption.threshold.max(LATE_WITH_NOBODY_BELOW);
            now + if self.is_anybody_below() { preemption.threshold } else { nobody_below }
        });
    }

    /// What is counted of the classes that the transaction's own is more important than.
    fn classes_below(&self) -> impl Iterator<Item = &ClassStatistics> {
        let own = self.inside.map(|inside| self.settings.class(inside.class).limits.priority);
        let classes = self.settings.classes.iter().zip(self.governor.statistics.classes());
        let below = classes.filter(move |(class, _)| own.is_some_and(|own| class.limits.priority < own));
        below.map(|(_, statistics)| statistics)
    }

    /// Whether a transaction of theirs is inside.
    fn is_anybody_below(&self) -> bool {
        // Relaxed: who comes a moment later is seen with the next unit.
        self.classes_below().any(|class| class.inside.load(Ordering::Relaxed) > 0)
    }

    fn inside_index(&self) -> ClassIndex {
        self.inside.map_or(self.session_class, |inside| inside.class)
    }

    fn inside_class(&self) -> &ClassSettings {
        self.settings.class(self.inside_index())
    }

    fn statistics(&self, class: ClassIndex) -> &ClassStatistics {
        self.governor.statistics.class(class)
    }

    /// The transaction has ended, whichever way.
    fn end_transaction(&mut self, now: Instant) {
        let (class, chosen_by) = (self.session_class, self.session_chosen_by);
        {
            let mut state = self.card.state();
            (state.phase, state.since) = (Phase::Idle, now);
            (state.class, state.chosen_by, state.preemptible) = (class, chosen_by, false);
        }
        self.thinking_since = None;
        if let Some(recording) = self.recording.as_mut().filter(|_| self.is_recording) {
            recording.clear();
        }
        self.is_recording = false;
        let Some(inside) = self.inside.take() else { return };
        if inside.is_admitted {
            self.governor.leave(inside.class, now);
        }
        let statistics = self.statistics(inside.class);
        count(&statistics.transactions);
        statistics.inside.fetch_sub(1, Ordering::Relaxed);
        statistics.times.transaction.record(now.saturating_duration_since(inside.since));
        if let Some(waited) = inside.waited {
            statistics.times.queue.record(waited);
        }
    }

    /// The client has an answer and has not asked again.
    fn client_thinks(&mut self, now: Instant) {
        let preemptible = self.may_be_preempted();
        let mut state = self.card.state();
        (state.phase, state.since, state.preemptible) = (Phase::IdleInTransaction, now, preemptible);
        drop(state);
        self.thinking_since = Some(now);
    }

    /// Whether rolling the transaction back now would be right.
    fn may_be_preempted(&self) -> bool {
        self.inside_class().preemptible
            && self.settings.preemption.policy.watches()
            && !self.may_end
            && !self.must_not_cancel
            && !self.is_ungoverned
            && !self.unit_open
            && self.outstanding.count() <= 1
            && self.status != b'E'
    }
}
