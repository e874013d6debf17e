//! Replays a transaction that was rolled back for another so that its client does not notice, or reports the rollback.
//!
//! First the server's catalogs show whether the transaction may run twice (`effects`). Then the recorded units are sent
//! again, one by one, and each answer must equal the one that the client has received. If all do, the unit in flight is
//! sent again; the part of its answer that the client has already received is compared and dropped, and the session
//! continues as if nothing had happened. If an answer differs, the session makes the server's transaction fail and the
//! client receives 40001, as from a serializable database.
//!
//! A block is rolled back by ROLLBACK AND CHAIN: the server then has an empty block with the isolation level and access
//! mode that the client requested. It releases every lock, and its time-outs run as for any session whose client thinks
//! within a transaction.

mod failure;
mod preempted;
mod steps;

use std::time::Instant;

use super::aborted::Abort;
use super::answers::{self, END_ANSWERS as OWN};
use super::frames::{Backend, Status};
use super::recording::AnswerHash;
use super::unit::Shape;
use super::{Flow, Outbox, Session};
use crate::governor::Outcome;
use crate::registry::EventId;
use crate::statistics::{AbortOutcome, count};
pub(super) use failure::Failure;
use steps::Safety;

const ROLLBACK: &str = "ROLLBACK";
const ROLLBACK_AND_CHAIN: &str = "ROLLBACK AND CHAIN";

/// A transaction that was rolled back while its client was thinking, and whose client has sent nothing since. The
/// server has an empty block.
#[derive(Debug)]
pub(super) struct RolledBack {
    pub event: EventId,
    /// The transaction status that the client knows.
    status: Status,
}

/// A transaction that was rolled back and has not continued.
#[derive(Debug)]
pub(super) struct Rewind {
    step: RewindStep,
    /// The step has been answered, and the next waits for the arrival of a cancel.
    is_due: bool,
    cause: Cause,
    /// The event that receives the outcome.
    pub event: Option<EventId>,
    /// Set if the transaction was aborted, not rolled back for another.
    pub abort: Option<Abort>,
    safety: Safety,
    /// No statement of the client has run since the server's last rollback: no locks are held.
    is_clean: bool,
    /// The replay itself was cancelled for another transaction, or aborted by the server.
    pub was_cancelled: bool,
    /// A pause before the replay, after several aborts: until when.
    pub pause: Option<Instant>,
    /// How many notices the server has sent for the step.
    notices: u32,
    /// The failure to report to the client.
    pub failure: Option<Failure>,
    /// Statements that were prepared by name have been closed, and not all of them are prepared again.
    has_closed: bool,
    /// Answers of the step that are still to come.
    left: usize,
    /// The server has completed a statement of the step.
    has_completed: bool,
    /// The number of steps since the failure. It is bounded, regardless of the server's answers.
    failing_steps: u32,
}

/// What the client was doing.
#[derive(Debug)]
pub(super) enum Cause {
    /// It waited for the answer to a unit, which was cancelled or failed.
    Cancelled(InFlight),
    /// It was thinking, and has sent nothing since.
    Thinking(Status),
    /// It was thinking, and now sends a unit of this shape.
    Spoke(Shape),
}

/// The unit that was in flight, and the part of its answer that the client has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InFlight {
    answered: u64,
    answer: AnswerHash,
    /// It is the transaction's COMMIT, which has failed.
    commits: bool,
    /// Whether the client believes that it is within a transaction block.
    in_block: bool,
    /// How many notices the client has received.
    notices: u32,
}

/// The last step or the one under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RewindStep {
    /// The rest of the answer to the cancelled unit is dropped.
    Drain,
    /// The server's transaction is rolled back.
    RollBack,
    /// The server is asked about the objects that the transaction uses.
    Inquire,
    /// Statements that were prepared by name are closed: they are not part of the transaction, so the rollback kept
    /// them.
    Close,
    /// The limit of parallel workers that was set before the given unit is set again.
    Limit(usize),
    /// Waits for locks are bounded before the given unit.
    Bound(usize),
    /// The given unit is run again.
    Unit(usize),
    /// The unit in flight is run again, and the beginning of its answer is compared.
    Beginning,
    /// Statements that were closed for the replay are prepared again.
    PrepareAgain,
    /// The server's transaction is made to fail.
    Fail,
}

impl Rewind {
    pub(super) fn new(step: RewindStep, cause: Cause, event: Option<EventId>) -> Self {
        Rewind {
            step,
            is_due: false,
            cause,
            event,
            abort: None,
            safety: Safety::Unknown,
            is_clean: false,
            was_cancelled: false,
            pause: None,
            notices: 0,
            failure: None,
            has_closed: false,
            left: 1,
            has_completed: false,
            failing_steps: 0,
        }
    }

    /// Whether the client's own units are being run again, so that other sessions may wait for their locks.
    pub(super) fn runs_again(&self) -> bool {
        matches!(self.step, RewindStep::Unit(_) | RewindStep::Beginning) && !self.is_due
    }

    /// Until when it pauses, if it does.
    pub(super) fn pauses_until(&self) -> Option<Instant> {
        self.pause.filter(|_| self.is_due)
    }

    /// Whether its client is thinking, and so does not know of the rollback.
    pub(super) fn is_unnoticed(&self) -> bool {
        matches!(self.cause, Cause::Thinking(_))
    }

    /// Whether the server's current answers are compared.
    pub(super) fn is_comparing(&self) -> bool {
        matches!(self.step, RewindStep::Unit(_) | RewindStep::Beginning) && self.failure.is_none()
    }

    /// Whether the server is answering a question about the transaction's effects.
    pub(super) fn inquires(&self) -> bool {
        self.step == RewindStep::Inquire
    }

    /// Whether the server is answering the unit that the client waits for.
    pub(super) fn is_at_the_unit_in_flight(&self) -> bool {
        matches!(self.step, RewindStep::Drain | RewindStep::Beginning)
    }

    /// Receives the server's answer to a question.
    pub(super) fn hears(&mut self, answer: Backend, body: &[u8]) {
        self.has_completed |= answer == Backend::CommandComplete;
        self.notices += u32::from(answer == Backend::Notice);
        let (RewindStep::Inquire, Safety::Asked(question)) = (self.step, &mut self.safety) else { return };
        question.inquiring.hears(answer, body);
    }
}

impl Session {
    /// The part of the answer to the unit in flight that the client has received.
    pub(super) fn in_flight(&self) -> InFlight {
        let is_single = self.status == Status::Idle;
        let recording = self.transaction.as_ref().and_then(|inside| inside.recording.as_ref());
        let so_far = recording.filter(|_| !is_single).map(|recording| recording.answer_so_far());
        let (answered, answer) = so_far.unwrap_or_default();
        let notices = self.unit.notices;
        InFlight { answered, answer, commits: self.is_at_commit(), in_block: !is_single, notices }
    }

    fn rewind(&mut self, rewind: Rewind) {
        *(if rewind.abort.is_some() { &mut self.attempts.aborts } else { &mut self.attempts.rollbacks }) += 1;
        self.flow = Flow::Rewinding(Box::new(rewind));
    }

    /// The client sends a unit, and does not know that its transaction was rolled back while it was thinking.
    pub(super) fn client_speaks(&mut self, next: Shape, now: Instant, out: &mut impl Outbox) {
        let Flow::RolledBack(RolledBack { event, status }) = &self.flow else { return };
        let (event, status) = (*event, *status);
        if next.runs.as_ref().is_some_and(|runs| runs.rolls_back()) {
            // Nothing needs to be replayed: the server's block is empty, as the client's will be.
            self.settle(Some(event), Outcome::EndedByClient);
            self.flow = Flow::Relay;
            return;
        }
        // Closing statements is possible in an empty block as in a full one, unless its client believes the block
        // failed.
        if next.only_closes && status == Status::Block {
            return;
        }
        // The rollback that led here has been counted already.
        let inside = self.transaction.as_ref().expect("what was rolled back is inside");
        let verdict = self.replay_verdict(inside, self.attempts.rollbacks.saturating_sub(1), now);
        let rewind = Rewind::new(RewindStep::RollBack, Cause::Spoke(next), Some(event));
        let failure = verdict.err().map(Failure::NotReplayable);
        self.flow = Flow::Rewinding(Box::new(Rewind { is_due: true, is_clean: true, failure, ..rewind }));
        self.go_on_rewinding(now, out);
    }

    /// A message of the server has passed: checks whether the part of the answer that the client has received is
    /// complete.
    pub(super) fn compare_beginning(&mut self) {
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        let Some(recording) = self.transaction.as_ref().and_then(|inside| inside.recording.as_ref()) else { return };
        let (RewindStep::Beginning, Cause::Cancelled(in_flight)) = (rewind.step, &rewind.cause) else { return };
        let (answered, answer) = recording.answer_so_far();
        if rewind.failure.is_some() || rewind.was_cancelled || answered < in_flight.answered {
            return;
        }
        if (answered, answer) == (in_flight.answered, in_flight.answer) {
            self.replayed();
        } else {
            rewind.failure = Some(Failure::Differed(recording.unit_count()));
        }
    }

    /// The replay is complete: later answers are passed on again.
    fn replayed(&mut self) {
        count(&self.statistics(self.inside_index()).replays_verified);
        if let Flow::Rewinding(rewind) = std::mem::replace(&mut self.flow, Flow::Relay) {
            if let Some(abort) = &rewind.abort {
                self.count_abort(abort.cause, AbortOutcome::Replayed);
            }
            if let Cause::Cancelled(in_flight) = &rewind.cause {
                self.unit.notices = in_flight.notices;
                self.unit.notices_known = in_flight.notices.saturating_sub(rewind.notices);
            }
            self.settle(rewind.event, Outcome::Replayed);
        }
    }

    /// The server has answered a step.
    pub(super) fn rewind_step_done(&mut self, status: Status, now: Instant, out: &mut impl Outbox) {
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        rewind.left = rewind.left.saturating_sub(1);
        if rewind.left > 0 {
            return;
        }
        if rewind.has_committed_otherwise() {
            // The transaction is committed, so every error that invites a retry would be false.
            let why = "the transaction was run again and committed, but the server's answer to its COMMIT differed";
            return self.end("08007", why, out);
        }
        if rewind.has_failed_to_commit() {
            match status {
                // Nothing of it remains, and it may be rolled back during the replay up to its COMMIT.
                Status::Idle => self.transaction.iter_mut().for_each(|inside| inside.may_end = false),
                _ => rewind.failure = Some(Failure::Unconfirmed),
            }
        }
        let recording = self.transaction.as_mut().and_then(|inside| inside.recording.as_mut());
        match (rewind.step, &mut rewind.cause) {
            // If a text begins a block itself, its client will learn so from the status.
            (RewindStep::Drain, Cause::Cancelled(in_flight)) => in_flight.in_block = status != Status::Idle,
            (RewindStep::Unit(_) | RewindStep::Beginning, _) if rewind.was_cancelled => {
                rewind.was_cancelled = false;
                rewind.step = RewindStep::Drain;
                // What has run this time may have been changed since the proof.
                rewind.safety = Safety::Unknown;
            }
            (RewindStep::Unit(unit), _) if rewind.failure.is_none() => {
                let recording = recording.expect("units are of a recording");
                if (recording.restart_answer(), status) != recording.unit_answer(unit) {
                    rewind.failure = Some(Failure::Differed(unit));
                }
            }
            // The answer ended before it was as long as the first time.
            (RewindStep::Beginning, _) if rewind.failure.is_none() => {
                let unit = recording.map_or(0, |recording| recording.unit_count());
                rewind.failure = Some(Failure::Differed(unit));
            }
            // It, or the unit behind it, may have been cancelled.
            (RewindStep::RollBack, _) => rewind.is_clean = rewind.has_completed && status != Status::Failed,
            (RewindStep::Fail, _) => rewind.is_clean = rewind.has_completed,
            (RewindStep::Inquire, _) => {
                if let Safety::Asked(question) = &mut rewind.safety {
                    let is_answered = question.inquiring.is_answered();
                    question.inquiring.inquiry.on_answered(is_answered);
                    question.request = None;
                    self.governor.shows_horizon(&self.settings, question.inquiring.inquiry.seen_horizon());
                }
            }
            _ => {}
        }
        rewind.is_due = true;
        self.go_on_rewinding(now, out);
    }

    /// Takes the next step, if the last has been answered and no cancel is on its way.
    pub(super) fn go_on_rewinding(&mut self, now: Instant, out: &mut impl Outbox) {
        let over = self.is_over_before_next_try(now);
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        let cancels = self.card.state().cancels;
        if !rewind.is_due || cancels.in_flight > 0 {
            return;
        }
        if cancels.by_client.is_some() && !rewind.is_unnoticed() {
            rewind.failure.get_or_insert(Failure::Cancelled);
        }
        if let Some(error) = over {
            rewind.failure.get_or_insert(Failure::Refused(error));
        }
        if rewind.failure.is_some() {
            return self.fail(now, out);
        }
        if rewind.pause.take_if(|until| *until <= now).is_none() && rewind.pause.is_some() {
            return;
        }
        match (rewind.step, &rewind.cause) {
            (_, Cause::Thinking(_)) if !rewind.is_clean => {
                rewind.failing_steps += 1;
                match rewind.failing_steps > failure::STEPS_MAX {
                    true => self.end_confused(out),
                    false => self.ask(RewindStep::RollBack, &own(ROLLBACK_AND_CHAIN), OWN, now, out),
                }
            }
            (_, Cause::Thinking(status)) => {
                let status = *status;
                let event = rewind.event.expect("who thinks is asked for a reason");
                self.flow = Flow::RolledBack(RolledBack { event, status });
                self.forget_cancels();
            }
            (RewindStep::Drain | RewindStep::RollBack | RewindStep::Inquire, _) => self.make_ready(now, out),
            (RewindStep::Close, _) => self.ask_unit(0, now, out),
            (RewindStep::Limit(unit) | RewindStep::Bound(unit), _) => self.ask_unit(unit, now, out),
            (RewindStep::Unit(unit), _) => self.ask_unit(unit + 1, now, out),
            (RewindStep::Beginning | RewindStep::PrepareAgain | RewindStep::Fail, _) => {
                unreachable!("they end with the answer or a failure")
            }
        }
    }

    /// Ends the session, because the state of the server's transaction is unknown.
    fn end_confused(&mut self, out: &mut impl Outbox) {
        self.end("08P01", "the server does not follow the request to end a transaction", out);
    }
}

/// A unit of our own that runs a statement without parameters.
fn own(sql: &str) -> Vec<u8> {
    [answers::run(sql, &[]), answers::end()].concat()
}
