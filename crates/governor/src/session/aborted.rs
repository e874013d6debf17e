//! Transactions that the server aborted: as the victim of a deadlock (40P01), or because it could not serialize them
//! (40001). They are replayed by the rules for preempted ones, so that applications without retry loops do not fail.
//!
//! Three things differ from a preemption:
//!
//! - A client that must receive an error receives the server's own, byte for byte, and is in the same state as without
//!   an attempt. A transaction that has used savepoints is therefore not replayed: after the server's error its client
//!   may continue from a savepoint, but an attempt would destroy them.
//! - A COMMIT may have failed. An error in place of its `CommandComplete`, followed by an idle server, shows that
//!   nothing was committed: after writing the commit record PostgreSQL reports no errors but panics. Only then is the
//!   COMMIT run again, with the whole transaction.
//! - Priority sets no bound: a transaction that was aborted often is not promoted, but is chosen as a victim last, and
//!   pauses before it is replayed again.
//!
//! An error with one of these states that the application's own code has raised is not the server's, and is passed on.

use std::time::Instant;

use plimsoll_policy::{CycleLoss, Foreseen, NoReplay, ReplayFacts, may_replay, pause_before_replay};

use super::rewind::{Cause, Failure, Rewind, RewindStep};
use super::transaction::{Began, Transaction};
use super::{Bound, Flow, INSPECT_MAX, Session, Status, answers};
use crate::registry::Immunity;
use crate::statistics::{AbortCause, AbortOutcome};

/// An abort that the client does not know of yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Abort {
    /// The cause; of several aborts, one in the replay of the other, the last.
    pub cause: AbortCause,
    /// The server's message, which the client receives if the replay fails; `None` if it receives ours.
    pub error: Option<Vec<u8>>,
}

impl Session {
    /// The server failed a statement with an error that ends the transaction. Returns whether the transaction is
    /// replayed, so that the client does not receive that error.
    pub(super) fn aborted(&mut self, cause: AbortCause, body: &[u8], now: Instant) -> bool {
        let Some(inside) = &self.transaction else { return false };
        let is_whole = body.len() + super::HEAD_BYTES < INSPECT_MAX;
        let verdict = match matches!(self.flow, Flow::Relay) && self.from_client.left == 0 && is_whole {
            true => self.abort_verdict(inside, self.is_at_commit(), now),
            false => Err(NoReplay::Pipeline),
        };
        if let Err(why) = verdict {
            self.count_abort(cause, AbortOutcome::NotReplayed(why));
            return false;
        }
        self.attempts.aborts += 1;
        let abort = Some(Abort { cause, error: Some(answers::error_with_body(body)) });
        let mut rewind = Rewind::new(RewindStep::Drain, Cause::Cancelled(self.in_flight()), None);
        rewind.abort = abort;
        rewind.pause = Some(now + pause_before_replay(self.attempts.aborts));
        self.flow = Flow::Rewinding(Box::new(rewind));
        true
    }

    /// The server failed a statement of a replay in the same way: the replay starts over if permitted.
    pub(super) fn aborted_again(&mut self, cause: AbortCause, now: Instant) {
        let Some(inside) = &self.transaction else { return };
        let verdict = self.abort_verdict(inside, true, now);
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        if verdict.is_err() || !rewind.is_comparing() {
            // The answer differs from the first one.
            return;
        }
        rewind.was_cancelled = true;
        self.attempts.aborts += 1;
        self.supersede_abort(cause, now + pause_before_replay(self.attempts.aborts));
    }

    /// A statement of a replay was cancelled to break a cycle: the replay starts over, unless this has happened too
    /// often.
    pub(super) fn cycle_broken_again(&mut self, now: Instant) {
        let verdict = self.transaction.as_ref().map_or(Ok(()), |inside| self.abort_verdict(inside, true, now));
        self.attempts.aborts += 1;
        self.supersede_abort(AbortCause::Cycle, now + pause_before_replay(self.attempts.aborts));
        if let (Flow::Rewinding(rewind), Err(why)) = (&mut self.flow, verdict) {
            rewind.failure = Some(Failure::NotReplayable(why));
        }
    }

    /// A replay was aborted for the given cause, and pauses until then.
    pub(super) fn supersede_abort(&mut self, cause: AbortCause, until: Instant) {
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        rewind.pause = Some(until);
        let before = rewind.abort.take();
        rewind.abort = Some(Abort { cause, error: before.as_ref().and_then(|before| before.error.clone()) });
        if let Some(before) = before {
            self.count_abort(before.cause, AbortOutcome::Again);
        }
    }

    /// Counts the outcome of an abort.
    pub(super) fn count_abort(&self, cause: AbortCause, outcome: AbortOutcome) {
        self.statistics(self.inside_index()).aborts.count(cause, outcome);
    }

    /// Whether the unit in flight is only a COMMIT that has not been carried out, and the transaction can be begun as
    /// before. A chained transaction cannot: only the server knows its options.
    pub(super) fn is_at_commit(&self) -> bool {
        let may_begin_again = self.transaction.as_ref().is_some_and(|inside| inside.began != Began::Unrecorded);
        self.unit.is_only(Bound::Commit) && !self.unit.has_completed && self.status == Status::Block && may_begin_again
    }

    /// Whether the transaction may be replayed after the server aborted it, or after it was rolled back to break a
    /// cycle. `at_commit` says that its end has certainly not been carried out.
    pub(super) fn abort_verdict(
        &self,
        transaction: &Transaction,
        at_commit: bool,
        now: Instant,
    ) -> Result<(), NoReplay> {
        let class = self.settings.class(transaction.class);
        let facts = self.replay_facts(transaction);
        may_replay(&ReplayFacts {
            is_off: facts.is_off || class.retry_aborted == 0 || transaction.recording.is_none(),
            commit_sent: transaction.may_have_ended() && !at_commit,
            // Answers in a replay are not seen by the client.
            answered: facts.answered && !matches!(self.flow, Flow::Rewinding(_)),
            attempts: self.attempts.aborts,
            attempts_max: class.retry_aborted,
            out_of_time: self.has_used_timeout(transaction, self.unit.asked, now),
            could_go_on: transaction.has_savepoint,
            ..facts
        })
    }

    /// How a rollback now, to break a cycle of waiters, would affect the client; `None` if the transaction must not be
    /// rolled back.
    pub(super) fn cycle_loss(&self, transaction: &Transaction) -> Option<CycleLoss> {
        let immunity = self.immunity(transaction).filter(|immunity| *immunity != Immunity::NoRetry);
        if !transaction.is_read() || immunity.is_some() {
            return None;
        }
        // What is not known is attempted: the server would abort a member anyway.
        let is_foreseen = match transaction.forecast.foreseen() {
            Some(Foreseen::Values) => true,
            Some(Foreseen::Unknown) | None => transaction.foreseen_unsafe().is_some(),
        };
        if !is_foreseen && self.abort_verdict(transaction, false, self.unit.asked).is_ok() {
            return Some(CycleLoss::Unnoticed);
        }
        let class = self.settings.class(transaction.class);
        (class.preemptible && class.retries).then_some(CycleLoss::Told)
    }
}
