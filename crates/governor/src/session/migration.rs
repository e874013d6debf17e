//! Migrations: a statement that needs a lock which stops readers or writers waits for it for a short time only, steps back, and
//! tries again. Its client notices nothing but the time.
//!
//! A process that wants a table queues behind a waiter for such a lock, even if the waiter itself waits for a long query. So `lock_timeout`
//! is set before the statement, and its earlier value is restored right after the answer, by units of our own (`workers.rs` has
//! the same for parallel workers). When the server fails the statement because that time is over, the transaction is rolled
//! back, which frees its locks, pauses, and is replayed like one that the server has aborted (`aborted.rs`).
//!
//! Invariants:
//!
//! 1. The bound is in force for one unit of the client, which consists of texts that neither read settings nor end a transaction
//!    (`statement::strong_lock`). Nothing else of the client passes before the earlier value has been restored.
//! 2. A wait is never longer with the bound than without it: the client's own `lock_timeout` and `statement_timeout` end all tries
//!    together when they would have ended the one. If its `lock_timeout` is shorter than a try, the statement is left alone.
//! 3. The statement in flight has changed nothing, for it has failed: what it would change does not forbid its replay. Only when it
//!    has been answered does it count among what the transaction has done (`Transaction::unsafe_once_done`).
//!
//! A function that sets the parameter by itself is not noticed.

mod errors;

use std::time::{Duration, Instant};

use plimsoll_policy::pause_between_tries;
use plimsoll_policy::{GuardMode, NextTry, NoReplay, ReplayFacts, StrongLockWait, Unsafe, may_replay, next_try};

use errors::{gave_up, lock_timeout_error, single_try};

use super::aborted::Abort;
use super::answers::{self, Notice, notice_response};
use super::client::MessageAction;
use super::frames::{Frontend, HEAD_BYTES, Status};
use super::message::Message;
use super::prepared::Note;
use super::refuse::Refusal;
use super::rewind::{Cause, Rewind, RewindStep};
use super::transaction::Transaction;
use super::workers::OwnStep;
use super::{Flow, Gate, INSPECT_MAX, Outbox, Session};
use crate::statement::patience::timeout;
use crate::statement::strong_lock::StrongLock;
use crate::statistics::{AbortCause, AbortOutcome, count};

/// SQLSTATE if a lock is not available.
const LOCK_NOT_AVAILABLE: &[u8] = b"55P03";

/// The function of the server that reports that `lock_timeout` is over. NOWAIT has the same SQLSTATE and other functions.
const INTERRUPTED: &[u8] = b"ProcessInterrupts";

/// How long a client waits before it receives a notice.
const NOTICE_AFTER: Duration = Duration::from_secs(5);

/// How often the earlier value may fail to be restored before the session is ended.
const UNDO_FAILURES_MAX: u32 = 3;

/// What a session knows about the bound.
#[derive(Debug, Default)]
pub(super) struct Migration {
    stage: Stage,
    /// How often the statement was tried in vain.
    tries: u32,
    is_noticed: bool,
    /// Its client has, or may have, set a timeout: the value is restored, and not the default.
    has_spoken: bool,
    undo_failures: u32,
    /// The server does not report its timeouts: no statement of the session is bounded.
    is_blind: bool,
}

#[derive(Debug, Default)]
enum Stage {
    /// The client's own value is in force.
    #[default]
    Free,
    /// The unit that is about to begin needs a strong lock, and the server has reported the timeouts.
    Known(OwnTimeouts),
    /// The bound is in force for the unit that is about to begin.
    Set(Bounded),
    /// It is in force for the unit under way.
    InUse(Bounded),
}

/// The timeouts of the client's session.
#[derive(Debug, Clone)]
struct OwnTimeouts {
    lock: Option<Duration>,
    /// `lock_timeout` as the server has shown it.
    shown: String,
    statement: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Bounded {
    own: OwnTimeouts,
    strong: StrongLock,
    /// It was set within a block, for the rest of it.
    in_block: bool,
    /// Why it has one try only, if so.
    again: Result<(), NoReplay>,
}

/// A unit of our own about the bound.
#[derive(Debug, Clone)]
pub(super) enum BoundAction {
    Ask,
    Set(Box<BoundSet>),
    Undo,
}

/// What is known once the bound has been set.
#[derive(Debug, Clone)]
pub(super) struct BoundSet(Bounded);

/// The statement that sets the parameter.
fn set(in_block: bool, value: &str) -> String {
    format!("SET {}lock_timeout = {value}", if in_block { "LOCAL " } else { "" })
}

impl Migration {
    /// A text that may set a timeout is sent.
    pub(super) fn hears_of_timeouts(&mut self) {
        self.has_spoken = true;
    }

    /// Whether the client's own value is in force, so that its connection may serve others.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.stage, Stage::Free | Stage::Known(_))
    }

    fn in_use(&self) -> Option<&Bounded> {
        match &self.stage {
            Stage::InUse(bounded) => Some(bounded),
            _ => None,
        }
    }

    /// The unit for which the bound was set begins.
    pub(super) fn begins(&mut self) {
        if let Stage::Set(bounded) = std::mem::take(&mut self.stage) {
            (self.stage, self.tries, self.is_noticed) = (Stage::InUse(bounded), 0, false);
        }
    }

    /// Whether the statement in flight can be run again although it cannot be proved to be safe.
    pub(super) fn only_rewrites(&self) -> bool {
        self.in_use().is_some_and(|bounded| bounded.strong == StrongLock::Rewrite)
    }

    /// What running a statement means for its transaction: while it runs with the bound, nothing of what it changes; and why
    /// the transaction must not be run again once it has done so.
    pub(super) fn defers(&self, note: &Note) -> Option<(Note, Unsafe)> {
        let bounded = self.in_use()?;
        let because = match bounded.strong {
            StrongLock::Rewrite => note.unsafe_because,
            StrongLock::Change => note.changes_code.then_some(Unsafe::Function),
        };
        let unsafe_because = note.unsafe_because.filter(|_| bounded.strong == StrongLock::Change);
        because.map(|because| (Note { changes_code: false, unsafe_because, ..note.clone() }, because))
    }
}

impl Session {
    /// Sets the bound before the unit at the start of `bytes`, which passes, or stays until the server has answered.
    pub(super) fn bound_lock_wait(
        &mut self,
        message: &Message<'_>,
        bytes: &[u8],
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        if let Stage::InUse(_) = self.migration.stage {
            // The unit before had the bound.
            if self.restore_lock_timeout(now, out) {
                return MessageAction::Stay;
            }
            if matches!(self.migration.stage, Stage::InUse(_)) {
                if !self.outstanding.is_empty() {
                    self.gate = Gate::UntilRest;
                }
                return MessageAction::Stay;
            }
        }
        let is_enforced = self.settings.guards.migrations == GuardMode::Enforce && !self.migration.is_blind;
        let Some(inside) = self.transaction.as_ref().filter(|_| is_enforced && self.status != Status::Failed) else {
            return MessageAction::Pass;
        };
        let Some(strong) = self.strong_lock_of(message, bytes) else { return MessageAction::Stay };
        let Some(strong) = strong else {
            self.migration.stage = Stage::Free;
            return MessageAction::Pass;
        };
        if !self.outstanding.is_empty() {
            self.gate = Gate::UntilRest;
            return MessageAction::Stay;
        }
        let own = match &self.migration.stage {
            Stage::Free => {
                let questions = ["SHOW lock_timeout".to_owned(), "SHOW statement_timeout".to_owned()];
                return self.ask_own(OwnStep::LockWait(BoundAction::Ask), &questions, now, out);
            }
            Stage::Set(_) | Stage::InUse(_) => return MessageAction::Pass,
            Stage::Known(own) => own.clone(),
        };
        let because = message.note(self).unsafe_because.filter(|_| strong == StrongLock::Change);
        let again = because.map_or_else(|| self.may_step_back(inside, strong), |why| Err(NoReplay::Unsafe(why)));
        let bounded = Bounded { own, strong, in_block: self.status == Status::Block, again };
        let NextTry::Wait(wait) = self.next_try(&bounded, Duration::ZERO) else { return MessageAction::Pass };
        if bounded.own.lock.is_some_and(|own| own <= wait) {
            // Its client is in more of a hurry than the guard.
            self.migration.stage = Stage::Free;
            return MessageAction::Pass;
        }
        let sql = set(bounded.in_block, &wait.as_millis().to_string());
        self.ask_own(OwnStep::LockWait(BoundAction::Set(Box::new(BoundSet(bounded)))), &[sql], now, out)
    }

    /// How the unit at the start of `bytes` needs a strong lock, if it does; `None` while that is not known.
    fn strong_lock_of(&self, message: &Message<'_>, bytes: &[u8]) -> Option<Option<StrongLock>> {
        let is_text = matches!(message.ask, Frontend::Query | Frontend::Parse | Frontend::Bind) && message.is_whole;
        if !is_text || message.note(self).strong_lock.is_none() {
            return Some(None);
        }
        Some(self.shape_of(bytes)?.runs.and_then(|runs| runs.strong_lock))
    }

    /// Whether a transaction can be replayed after its statement has waited for a lock in vain.
    fn may_step_back(&self, inside: &Transaction, strong: StrongLock) -> Result<(), NoReplay> {
        let facts = self.replay_facts(inside);
        let is_alone = inside.recording.as_ref().is_some_and(|recording| recording.unit_count() == 0);
        // What has run is proved by what is older than it, unless there is nothing to prove.
        let is_provable = inside.horizon.is_some() || strong == StrongLock::Rewrite && is_alone;
        may_replay(&ReplayFacts {
            is_off: facts.is_off || inside.recording.is_none(),
            unsafe_because: inside.unsafe_because.or((!is_provable).then_some(Unsafe::ChangedCode)),
            could_go_on: inside.has_savepoint,
            // It waits for others as it would in a queue, so that neither their number nor its timeouts count.
            attempts: 0,
            attempts_max: u32::MAX,
            ..facts
        })
    }

    fn next_try(&self, bounded: &Bounded, waited: Duration) -> NextTry {
        let guards = &self.settings.guards;
        next_try(&StrongLockWait {
            waited,
            bound: guards.migrations_wait,
            lock_timeout: bounded.own.lock,
            statement_timeout: bounded.own.statement,
            patience: guards.migrations_patience,
            may_run_again: bounded.again.is_ok(),
        })
    }

    /// For how long the client has waited for its statement.
    fn has_waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.unit.asked)
    }

    /// The server has answered a unit of ours about the bound.
    pub(super) fn bound_answered(
        &mut self,
        action: BoundAction,
        values: &[String],
        error: Option<Vec<u8>>,
        now: Instant,
        out: &mut impl Outbox,
    ) {
        match (action, error) {
            (BoundAction::Undo, Some(_)) => self.undo_failed(out),
            (BoundAction::Undo, None) => {
                (self.migration.stage, self.migration.undo_failures) = (Stage::Free, 0);
                self.learn(now, out);
            }
            (_, Some(error)) => {
                // The client cancelled while it waited for its own unit, or a timeout of its session is over.
                self.migration.stage = Stage::Free;
                if let Some(inside) = self.transaction.as_mut().filter(|_| self.status != Status::Idle) {
                    // A replay would not meet this error.
                    inside.is_unsafe(Unsafe::Refused);
                }
                self.flow = Flow::Refusing(Refusal::new(error, self.status));
            }
            (BoundAction::Ask, None) => match values {
                [lock, statement] => {
                    self.migration.stage = Stage::Known(OwnTimeouts {
                        lock: timeout(lock.as_bytes()),
                        shown: lock.clone(),
                        statement: timeout(statement.as_bytes()),
                    });
                }
                _ => self.migration.is_blind = true,
            },
            (BoundAction::Set(set), None) => self.migration.stage = Stage::Set(set.0),
        }
    }

    fn undo_failed(&mut self, out: &mut impl Outbox) {
        self.migration.undo_failures += 1;
        if self.status == Status::Failed {
            // It ends with the block.
            self.migration.stage = Stage::Free;
        } else if self.migration.undo_failures >= UNDO_FAILURES_MAX {
            self.end("08P01", "the server does not restore lock_timeout", out);
        }
    }

    /// Restores the earlier value if everything has been answered; returns whether the server is asked to.
    pub(super) fn restore_lock_timeout(&mut self, now: Instant, out: &mut impl Outbox) -> bool {
        let Some(bounded) = self.migration.in_use() else { return false };
        if bounded.in_block && self.status != Status::Block {
            // It has ended with the block, or will.
            self.migration.stage = Stage::Free;
            return false;
        }
        if self.is_under_way() || !matches!(self.flow, Flow::Relay) {
            return false;
        }
        let shown = format!("'{}'", bounded.own.shown.replace('\'', ""));
        let sql = match (bounded.in_block, self.migration.has_spoken) {
            (true, _) => set(true, &shown),
            (false, true) => set(false, &shown),
            (false, false) => "RESET lock_timeout".to_owned(),
        };
        self.ask_own(OwnStep::LockWait(BoundAction::Undo), &[sql], now, out);
        matches!(self.flow, Flow::Limiting(_))
    }

    /// What is sent before a unit of a replay so that it waits for locks no longer than the statement itself; `None` if
    /// nothing is. A rollback has undone what was set within the block.
    pub(super) fn bound_of_replay(&self, is_last: bool, now: Instant) -> Option<String> {
        let bounded = self.migration.in_use()?;
        let in_block = self.status == Status::Block;
        if !in_block && !is_last {
            return None;
        }
        let NextTry::Wait(wait) = self.next_try(bounded, self.has_waited(now)) else { return None };
        Some(set(in_block, &wait.as_millis().max(1).to_string()))
    }

    /// Whether an error says that the bound is over.
    pub(super) fn is_lock_wait_over(&self, body: &[u8]) -> bool {
        let is_in_use = self.migration.in_use().is_some();
        is_in_use && answers::sqlstate(body) == Some(LOCK_NOT_AVAILABLE) && answers::routine(body) == Some(INTERRUPTED)
    }

    /// The bound is over: the transaction steps back and is tried again, or its client gets an error. Returns whether that is the
    /// server's own.
    pub(super) fn step_back(&mut self, body: &[u8], now: Instant, out: &mut impl Outbox) -> bool {
        let (Some(bounded), Some(inside)) = (self.migration.in_use(), &self.transaction) else { return true };
        let is_whole = body.len() + HEAD_BYTES < INSPECT_MAX;
        let waited = self.has_waited(now);
        let next = self.next_try(bounded, waited);
        let verdict = match matches!(self.flow, Flow::Relay) && self.from_client.left == 0 && is_whole {
            true => bounded.again.and_then(|()| self.may_step_back(inside, bounded.strong)),
            false => Err(NoReplay::Pipeline),
        };
        let error = match (next, verdict) {
            (NextTry::GiveUp(why), _) => {
                self.count_abort(AbortCause::LockWait, AbortOutcome::NotReplayed(NoReplay::Timeout));
                gave_up(why, waited)
            }
            (_, Err(why)) => {
                self.count_abort(AbortCause::LockWait, AbortOutcome::NotReplayed(why));
                Some(single_try(waited, why))
            }
            (NextTry::Wait(_), Ok(())) => {
                self.note_try(waited, out);
                let mut rewind = Rewind::new(RewindStep::Drain, Cause::Cancelled(self.in_flight()), None);
                rewind.abort = Some(Abort { cause: AbortCause::LockWait, error: None });
                rewind.pause = Some(now + self.pause(waited));
                self.flow = Flow::Rewinding(Box::new(rewind));
                return false;
            }
        };
        let Some(error) = error else { return true };
        self.show(out);
        count(&self.statistics(self.inside_index()).errors);
        out.to_client(&error);
        false
    }

    /// The same in a replay, which starts over.
    pub(super) fn step_back_again(&mut self, now: Instant, out: &mut impl Outbox) {
        let waited = self.has_waited(now);
        let is_comparing = matches!(&self.flow, Flow::Rewinding(rewind) if rewind.is_comparing());
        if !is_comparing {
            return;
        }
        self.note_try(waited, out);
        let pause = now + self.pause(waited);
        self.supersede_abort(AbortCause::LockWait, pause);
        if let Flow::Rewinding(rewind) = &mut self.flow {
            rewind.was_cancelled = true;
        }
    }

    /// The error of a statement whose time is over before it is tried again.
    pub(super) fn is_over_before_next_try(&self, now: Instant) -> Option<Vec<u8>> {
        let Flow::Rewinding(rewind) = &self.flow else { return None };
        rewind.abort.as_ref().filter(|abort| abort.cause == AbortCause::LockWait)?;
        let waited = self.has_waited(now);
        match self.next_try(self.migration.in_use()?, waited) {
            NextTry::GiveUp(why) => Some(gave_up(why, waited).unwrap_or_else(lock_timeout_error)),
            NextTry::Wait(_) => None,
        }
    }

    /// Counts a try in vain, and tells a client that has waited for a while.
    fn note_try(&mut self, waited: Duration, out: &mut impl Outbox) {
        self.migration.tries += 1;
        count(&self.statistics(self.inside_index()).lock_steps_back);
        if waited < NOTICE_AFTER || std::mem::replace(&mut self.migration.is_noticed, true) {
            return;
        }
        let message = format!(
            "waiting for a lock for {:.0}s so far: this statement has stepped back {} times, so that others do not queue behind it",
            waited.as_secs_f64(),
            self.migration.tries
        );
        let hint = "The governor goes on trying; cancel the statement to end that.";
        out.to_client(&notice_response(&Notice { hint: Some(hint), ..Notice::new("NOTICE", "00000", &message) }));
    }

    /// The pause before the next try; shorter if the time of the statement is over before.
    fn pause(&self, waited: Duration) -> Duration {
        let guards = &self.settings.guards;
        let pause = pause_between_tries(guards.migrations_wait, self.migration.tries);
        let own = self.migration.in_use().map(|bounded| [bounded.own.lock, bounded.own.statement]);
        let ends = own.into_iter().flatten().chain([guards.migrations_patience]).flatten();
        ends.map(|end| end.saturating_sub(waited)).fold(pause, Duration::min)
    }
}
