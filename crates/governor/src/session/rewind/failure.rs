//! A transaction that was rolled back and cannot be replayed: how the server's state is set, and the client's error.

use std::time::Instant;

use plimsoll_policy::{NoReplay, Unsafe};

use super::super::aborted::Abort;
use super::super::answers::{self, Notice, SYNC, close_statement, error_response, ready_for_query};
use super::super::frames::Status;
use super::super::refuse::Refusal;
use super::super::unit::Shape;
use super::super::{Flow, Outbox, Session};
use super::{Cause, OWN, ROLLBACK, ROLLBACK_AND_CHAIN, Rewind, RewindStep, own};
use crate::governor::Outcome;
use crate::statistics::{AbortCause, AbortOutcome, count};

/// More steps than any failure needs.
pub(super) const STEPS_MAX: u32 = 10;

/// Why a transaction cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) enum Failure {
    /// The answer to the given unit, counted from 0, differed.
    Differed(usize),
    /// It may not be replayed, for the given reason.
    NotReplayable(NoReplay),
    /// The server does not confirm that nothing remains of a failed COMMIT: the client receives the server's error, and
    /// nothing else is changed.
    Unconfirmed,
    /// Its client has cancelled.
    Cancelled,
    /// The governor refuses its BEGIN or one of its statements with this error. Its earlier work remains.
    Refused(Vec<u8>),
}

impl Rewind {
    /// Whether the answered step was a COMMIT that the server carried out, although the beginning of its answer
    /// differed.
    pub(super) fn has_committed_otherwise(&self) -> bool {
        let commits = matches!(&self.cause, Cause::Cancelled(in_flight) if in_flight.commits);
        self.step == RewindStep::Beginning && commits && self.has_completed
    }

    /// Whether the answered step was a COMMIT that failed.
    pub(super) fn has_failed_to_commit(&self) -> bool {
        let is_over = self.step == RewindStep::Drain || self.step == RewindStep::Beginning && self.was_cancelled;
        is_over && matches!(&self.cause, Cause::Cancelled(in_flight) if in_flight.commits)
    }
}

impl Failure {
    /// The corresponding outcome for a transaction that was aborted.
    fn of_abort(&self) -> AbortOutcome {
        match self {
            Failure::Differed(_) => AbortOutcome::Differed,
            Failure::NotReplayable(why) => AbortOutcome::NotReplayed(*why),
            Failure::Unconfirmed => AbortOutcome::Unconfirmed,
            Failure::Cancelled | Failure::Refused(_) => AbortOutcome::Abandoned,
        }
    }
}

impl Session {
    /// Ends a failed block when the client asks for its end, if the client has not received the error.
    pub(in crate::session) fn end_failed_block(
        &mut self,
        error: Vec<u8>,
        next: Shape,
        now: Instant,
        out: &mut impl Outbox,
    ) {
        let rewind = Rewind::new(RewindStep::Fail, Cause::Spoke(next), None);
        let failure = Some(Failure::Refused(error));
        self.flow = Flow::Rewinding(Box::new(Rewind { is_due: true, failure, ..rewind }));
        self.go_on_rewinding(now, out);
    }

    /// Makes the client's block fail as an error in the server would, and answers the client's next unit with the given
    /// error. A client may have sent a BEGIN that is not admitted together with the block's statements, which must not
    /// run without a block: the server therefore gets a block that has failed.
    pub(in crate::session) fn fail_block(&mut self, error: Vec<u8>, now: Instant, out: &mut impl Outbox) {
        if let Some(inside) = &mut self.transaction {
            inside.is_unsafe(Unsafe::Refused);
        }
        self.end_failed_block(error, Shape::default(), now, out);
    }

    /// Makes the server's transaction fail, if it has not, and reports the failure to the client.
    pub(super) fn fail(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        if rewind.failure == Some(Failure::Unconfirmed) {
            return self.tell_failure(now, out);
        }
        rewind.failing_steps += 1;
        if rewind.failing_steps > STEPS_MAX {
            return self.end_confused(out);
        }
        let is_over = match &rewind.cause {
            Cause::Cancelled(in_flight) => !in_flight.in_block,
            // A server is idle after a COMMIT, even a failed one.
            Cause::Spoke(next) => next.runs.as_ref().is_some_and(|runs| runs.ends.is_some()),
            Cause::Thinking(_) => false,
        };
        let is_refused = matches!(rewind.failure, Some(Failure::Refused(_)));
        let fail = [answers::make_fail(), answers::end()].concat();
        match self.status {
            Status::Idle if rewind.has_closed => self.prepare_again(now, out),
            Status::Block | Status::Failed if rewind.has_closed || is_over => {
                self.ask(RewindStep::RollBack, &own(ROLLBACK), OWN, now, out);
            }
            Status::Idle if is_over => self.tell_failure(now, out),
            Status::Idle => self.ask(RewindStep::Fail, &[answers::run("BEGIN", &[]), fail].concat(), OWN, now, out),
            Status::Block if is_refused => self.ask(RewindStep::Fail, &fail, OWN, now, out),
            Status::Failed if is_refused || rewind.is_clean => self.tell_failure(now, out),
            // The whole block is rolled back, including work before a savepoint.
            Status::Block | Status::Failed => {
                let request = [answers::run(ROLLBACK_AND_CHAIN, &[]), fail].concat();
                self.ask(RewindStep::Fail, &request, OWN, now, out);
            }
        }
    }

    /// Re-prepares the statements that a replay closed, because the client still holds them. Each has a unit of its
    /// own, so that one that needs a table of the transaction fails alone.
    fn prepare_again(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        rewind.has_closed = false;
        let (mut request, mut count) = (Vec::new(), 0);
        let recording = self.transaction.as_ref().and_then(|inside| inside.recording.as_ref());
        for (name, parse) in recording.into_iter().flat_map(|recording| recording.parses()) {
            for part in [&close_statement(name)[..], parse, &SYNC] {
                request.extend_from_slice(part);
            }
            count += 1;
        }
        if count == 0 {
            return self.fail(now, out);
        }
        self.ask(RewindStep::PrepareAgain, &request, count, now, out);
    }

    /// The error that the client receives, the error if it later returns to a savepoint (which no longer exists), and
    /// the outcome of the rollback.
    fn told(&self, failure: Option<Failure>, abort: Option<Abort>) -> (Vec<u8>, Option<Vec<u8>>, Outcome) {
        let statistics = self.statistics(self.inside_index());
        let cause = abort.as_ref().map(|abort| abort.cause);
        let of_server = abort.and_then(|abort| abort.error);
        let acted_outside =
            matches!(failure, Some(Failure::NotReplayable(NoReplay::Unsafe(why))) if why.may_act_outside());
        let ours = |counter, why: &str| {
            // A failure of the server is not counted as our rollback.
            if of_server.is_none() {
                count(counter);
            }
            let error = if acted_outside { acted_outside_error(cause, why) } else { preempted_error(cause, why) };
            of_server.clone().map_or_else(|| (error.clone(), Some(error.clone())), |error| (error, None))
        };
        let (told, outcome) = match failure {
            Some(Failure::Cancelled) => {
                let gone = preempted_error(cause, "its client cancelled it while it was run again");
                ((cancelled_error(), Some(gone)), Outcome::Abandoned)
            }
            Some(Failure::Refused(error)) => ((error, None), Outcome::Abandoned),
            Some(Failure::NotReplayable(why)) => {
                (ours(&statistics.replays_unsafe, &format!("not replayed ({why})")), Outcome::NotReplayed(why))
            }
            Some(Failure::Differed(unit)) => {
                let why = format!("in the replay the answer to statement {} differed", unit + 1);
                (ours(&statistics.replays_differed, &why), Outcome::Differed(unit + 1))
            }
            Some(Failure::Unconfirmed) => {
                let error = of_server.unwrap_or_else(|| preempted_error(cause, "the server has not confirmed that"));
                ((error, None), Outcome::Abandoned)
            }
            None => unreachable!("it has failed for a reason"),
        };
        (told.0, told.1, outcome)
    }

    fn tell_failure(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Rewinding(rewind) = std::mem::replace(&mut self.flow, Flow::Relay) else { return };
        if let (Some(abort), Some(failure)) = (&rewind.abort, &rewind.failure) {
            self.count_abort(abort.cause, failure.of_abort());
        }
        let (error, gone, outcome) = self.told(rewind.failure, rewind.abort);
        self.settle(rewind.event, outcome);
        if let (Some(inside), Some(_)) = (&mut self.transaction, &gone) {
            inside.failure = gone;
        }
        self.since = now;
        if !matches!(rewind.cause, Cause::Cancelled(_)) {
            self.flow = Flow::Refusing(Refusal::new(error, self.status));
            return;
        }
        count(&self.statistics(self.inside_index()).errors);
        // The client receives the answers to its earlier messages, whose effects may persist: prepared statements, for
        // example.
        self.show(out);
        self.prepared.unit_answered(self.unit_number);
        out.to_client(&error);
        if self.status == Status::Idle {
            self.release_notifications(out);
        }
        out.to_client(&ready_for_query(self.status));
        self.forget_cancels();
        if self.status == Status::Idle {
            self.end_transaction(now);
        }
        self.restore_lock_timeout(now, out);
    }
}

/// The error for a client whose transaction was rolled back for another and could not be replayed.
fn preempted_error(cause: Option<AbortCause>, why: &str) -> Vec<u8> {
    told_of_rollback(cause, "The transaction was rolled back and nothing of it remains", why)
}

/// The same for a transaction that has done, or may have done, something that no rollback undoes.
fn acted_outside_error(cause: Option<AbortCause>, why: &str) -> Vec<u8> {
    told_of_rollback(cause, "The transaction was rolled back; what it has done outside of the database may remain", why)
}

fn told_of_rollback(cause: Option<AbortCause>, what: &str, why: &str) -> Vec<u8> {
    let detail = format!("{what}; {why}.");
    let (sqlstate, message) = match cause {
        // The server would have reported a deadlock anyway, and clients must expect it.
        Some(AbortCause::Cycle) => ("40P01", "rolled back to break a deadlock"),
        Some(AbortCause::LockWait) => {
            ("55P03", "ended while it waited for a lock, so that others do not queue behind it")
        }
        _ => ("40001", "preempted by a more important transaction"),
    };
    let hint = Some("The transaction might succeed if retried.");
    error_response(&Notice { detail: Some(&detail), hint, ..Notice::new("ERROR", sqlstate, message) })
}

fn cancelled_error() -> Vec<u8> {
    error_response(&Notice::new("ERROR", "57014", "canceling statement due to user request"))
}
