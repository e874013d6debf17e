//! A transaction that was rolled back for another: running it again so that nobody notices, or saying so.
//!
//! What was recorded is asked again, unit by unit, and each answer must be the one that the client has got. When all of
//! them are, the unit in flight is asked again, of whose answer the part that the client has got is compared and dropped,
//! and then the session goes on as if nothing had happened. When one differs, the server's transaction is made to fail and
//! the client gets 40001: that is what it would have got from a serializable database, and drivers run it again.

mod failure;

use std::time::Instant;

use plimsoll_policy::{ReplayFacts, may_replay};

use super::answers::{self, SYNC};
use super::prepared::Note;
use super::recording::AnswerHash;
use super::{Mode, Outbox, Session};
use crate::registry::Phase;
use crate::statistics::count;
use failure::{Failure, preempted_error};

/// A transaction that was rolled back and has not gone on.
#[derive(Debug)]
pub struct Rewind {
    step: Step,
    /// Whether the step waits for the arrival of a cancel before the next.
    is_waiting: bool,
    /// The unit that was in flight; `None` if the client was thinking.
    in_flight: Option<InFlight>,
    /// Whether the client has spoken since; otherwise nothing needs to be run again yet.
    is_wanted: bool,
    /// Whether the client is within a transaction block, as it knows.
    in_block: bool,
    /// What has been replayed was cancelled for another's sake in its turn.
    was_cancelled: bool,
    /// What the client must be told.
    failure: Option<Failure>,
    /// What the client says next, if it was thinking: how the transaction would end.
    next: Note,
    /// Statements that were prepared by name have been closed, and not all of them are there again.
    has_closed: bool,
    /// Answers of the step that are still to come.
    left: usize,
}

/// What was done last, or is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The rest of the answer to the cancelled unit is dropped.
    Drain,
    /// ROLLBACK.
    RollBack,
    /// Statements that were prepared by name are closed: they are no part of the transaction, and there still.
    Close,
    /// A transaction is begun that its client rolls back itself.
    Begin,
    /// That unit is run again.
    Unit(usize),
    /// The unit in flight is run again, and the beginning of its answer compared.
    Beginning,
    /// The server's transaction is ended, what was closed is prepared again, or a transaction is made to fail.
    Fail,
}

/// The unit that was in flight, and what the client has got of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InFlight {
    answered: u64,
    answer: AnswerHash,
}

impl Rewind {
    /// One of which nothing has been done but the step that is under way.
    fn new(step: Step, in_flight: Option<InFlight>, is_wanted: bool) -> Self {
        let in_block = in_flight.is_none();
        let (is_waiting, was_cancelled, has_closed) = (false, false, false);
        let next = Note::default();
        Rewind {
            step,
            is_waiting,
            in_flight,
            is_wanted,
            in_block,
            was_cancelled,
            failure: None,
            next,
            has_closed,
            left: 1,
        }
    }

    /// Whether what the server says now is compared.
    pub(super) fn is_comparing(&self) -> bool {
        matches!(self.step, Step::Unit(_) | Step::Beginning) && self.failure.is_none()
    }
}

impl Session {
    /// The unit in flight was cancelled for another's sake. Says whether the error is passed on: never.
    pub(super) fn preempted(&mut self, out: &mut impl Outbox) -> bool {
        self.count_preempted();
        let replays = self.card.state().rollbacks;
        match self.replay_verdict(replays) {
            Ok(()) => {
                let (answered, answer) = self.recording.as_ref().expect("replay was found possible").answer_so_far();
                self.rewind(Rewind::new(Step::Drain, Some(InFlight { answered, answer }), true));
            }
            Err(why) => {
                self.count_rollback();
                count(&self.statistics(self.inside_index()).replays_unsafe);
                out.to_client(&preempted_error(why));
            }
        }
        false
    }

    /// Rolls the transaction back if its client is still thinking after that unit.
    pub(super) fn roll_back_idle(&mut self, transaction: u64, unit: u64, now: Instant, out: &mut impl Outbox) {
        let is_there = {
            let state = self.card.state();
            state.phase == Phase::IdleInTransaction
                && (state.transaction, state.unit) == (transaction, unit)
                && state.cancels.in_flight == 0
        };
        let is_between = matches!(self.mode, Mode::Relay) && self.from_client.left == 0 && self.from_server.left == 0;
        let statistics = self.statistics(self.inside_index());
        if !is_there || !is_between || self.status != b'T' || !self.outstanding.is_empty() || !self.may_be_preempted() {
            count(&statistics.preempted_too_late);
            return;
        }
        count(&statistics.preempted_idle);
        self.rewind(Rewind::new(Step::RollBack, None, false));
        self.ask(&answers::query("ROLLBACK"), now, out);
    }

    fn rewind(&mut self, rewind: Rewind) {
        self.count_rollback();
        self.mode = Mode::Rewinding(rewind);
    }

    fn count_rollback(&mut self) {
        let mut state = self.card.state();
        state.rollbacks += 1;
        (state.phase, state.preemptible) = (Phase::Preempted, false);
    }

    /// A cancel for another's sake has done something.
    fn count_preempted(&self) {
        let was_waiting = self.card.state().cancels.was_waiting;
        let statistics = self.statistics(self.inside_index());
        count(if was_waiting { &statistics.preempted_waiting } else { &statistics.preempted_running });
    }

    /// Whether the transaction, which was run again so many times already, may be once more.
    fn replay_verdict(&self, replays: u32) -> Result<(), &'static str> {
        let Some(recording) = self.recording.as_ref().filter(|_| self.is_recording) else {
            return Err("replay is off");
        };
        let bound = self.settings.preemption.bound.rollbacks();
        let facts = ReplayFacts {
            commit_sent: self.may_end,
            units_outstanding: if self.is_pipelined || self.unit_open { 2 } else { 1 },
            bytes: recording.len(),
            bytes_max: self.settings.preemption.replay_bytes_max as u64,
            attempts: replays,
            attempts_max: bound.unwrap_or(u32::MAX),
            unsafe_because: recording.unsafe_because,
        };
        may_replay(&facts).map_err(|reason| reason.name())
    }

    /// The client speaks, and does not know that its transaction was rolled back while it was thinking.
    pub(super) fn rewind_for_client(&mut self, next: Note, now: Instant, out: &mut impl Outbox) {
        // The rollback that this is about has been counted.
        let replays = self.card.state().rollbacks.saturating_sub(1);
        let verdict = if next.rolls_back { Ok(()) } else { self.replay_verdict(replays) };
        let failure = verdict.err().map(Failure::NotReplayable);
        self.thinking_since = None;
        let rewind = Rewind::new(Step::RollBack, None, true);
        self.mode = Mode::Rewinding(Rewind { is_waiting: true, failure, next, ..rewind });
        self.go_on_rewinding(now, out);
    }

    /// A statement of the replay was cancelled.
    pub(super) fn cancelled_again(&mut self) {
        let cancels = self.cancelled_for();
        let Mode::Rewinding(rewind) = &mut self.mode else { return };
        match cancels {
            (_, true) => rewind.failure = Some(Failure::Cancelled),
            (true, false) => {
                rewind.was_cancelled = true;
                self.count_preempted();
            }
            // By somebody else, an administrator or a timeout: an answer that differs.
            (false, false) => {}
        }
    }

    /// A message of the server has passed: is the beginning of the answer complete that the client has got?
    pub(super) fn compare_beginning(&mut self) {
        let Mode::Rewinding(rewind) = &mut self.mode else { return };
        let (Step::Beginning, Some(in_flight), Some(recording)) = (rewind.step, &rewind.in_flight, &self.recording)
        else {
            return;
        };
        let (answered, answer) = recording.answer_so_far();
        if rewind.failure.is_some() || rewind.was_cancelled || answered < in_flight.answered {
            return;
        }
        if (answered, answer) == (in_flight.answered, in_flight.answer) {
            self.replayed();
        } else {
            rewind.failure = Some(Failure::Differed);
        }
    }

    /// The replay is complete: what follows is passed on again.
    fn replayed(&mut self) {
        count(&self.statistics(self.inside_index()).replays_verified);
        self.mode = Mode::Relay;
    }

    /// The server has answered a step.
    pub(super) fn rewind_step_done(&mut self, status: u8, now: Instant, out: &mut impl Outbox) {
        let Mode::Rewinding(rewind) = &mut self.mode else { return };
        rewind.left = rewind.left.saturating_sub(1);
        if rewind.left > 0 {
            return;
        }
        match rewind.step {
            Step::Drain => rewind.in_block = status != b'I',
            Step::Unit(_) | Step::Beginning if rewind.was_cancelled => {
                rewind.was_cancelled = false;
                rewind.step = Step::Drain;
                self.count_rollback();
            }
            Step::Unit(unit) => {
                let recording = self.recording.as_mut().expect("units are of a recording");
                if (recording.restart_answer(), status) != recording.unit_answer(unit) && rewind.failure.is_none() {
                    rewind.failure = Some(Failure::Differed);
                }
            }
            // The answer ended before it was as long as the first time.
            Step::Beginning if rewind.failure.is_none() => rewind.failure = Some(Failure::Differed),
            Step::RollBack | Step::Begin | Step::Close | Step::Beginning | Step::Fail => {}
        }
        if let Mode::Rewinding(rewind) = &mut self.mode {
            rewind.is_waiting = true;
        }
        self.go_on_rewinding(now, out);
    }

    /// Takes the next step, if the last has been answered and no cancel is on its way.
    pub(super) fn go_on_rewinding(&mut self, now: Instant, out: &mut impl Outbox) {
        let Mode::Rewinding(rewind) = &mut self.mode else { return };
        let cancels = self.card.state().cancels;
        if !rewind.is_waiting || cancels.in_flight > 0 {
            return;
        }
        rewind.is_waiting = false;
        if cancels.by_client.is_some() && rewind.is_wanted {
            rewind.failure.get_or_insert(Failure::Cancelled);
        }
        if rewind.failure.is_some() {
            return self.fail(now, out);
        }
        let (step, is_wanted) = (rewind.step, rewind.is_wanted);
        match step {
            Step::Drain if self.status != b'I' => {
                rewind.step = Step::RollBack;
                self.ask(&answers::query("ROLLBACK"), now, out);
            }
            Step::RollBack if !is_wanted => {
                self.mode = Mode::RolledBack;
                self.thinking_since.get_or_insert(now);
            }
            Step::RollBack if rewind.next.rolls_back => {
                // Nothing needs to be run again for that.
                rewind.step = Step::Begin;
                self.ask(&answers::query("BEGIN"), now, out);
            }
            Step::Begin => {
                self.mode = Mode::Relay;
                self.client_thinks(now);
            }
            Step::Drain | Step::RollBack => self.close_prepared(now, out),
            Step::Close => self.ask_unit(0, now, out),
            Step::Unit(unit) => self.ask_unit(unit + 1, now, out),
            Step::Beginning | Step::Fail => unreachable!("both end with the answer or a failure"),
        }
    }

    fn close_prepared(&mut self, now: Instant, out: &mut impl Outbox) {
        let recording = self.recording.as_ref().expect("replay was found possible");
        if recording.prepared_names().is_empty() {
            return self.ask_unit(0, now, out);
        }
        let mut request = Vec::new();
        for name in recording.prepared_names() {
            request.extend_from_slice(&answers::close_statement(name));
        }
        request.extend_from_slice(&SYNC);
        if let Mode::Rewinding(rewind) = &mut self.mode {
            (rewind.step, rewind.has_closed) = (Step::Close, true);
        }
        self.ask(&request, now, out);
    }

    /// Runs a unit again; after the last, the one in flight, or the client goes on.
    fn ask_unit(&mut self, unit: usize, now: Instant, out: &mut impl Outbox) {
        let Mode::Rewinding(rewind) = &mut self.mode else { return };
        let recording = self.recording.as_mut().expect("replay was found possible");
        recording.restart_answer();
        let is_last = unit == recording.unit_count();
        let range = recording.unit_range(unit);
        let Some(answered) = rewind.in_flight.as_ref().map(|unit| unit.answered).or((!is_last).then_some(0)) else {
            self.replayed();
            self.client_thinks(now);
            return;
        };
        rewind.step = if is_last { Step::Beginning } else { Step::Unit(unit) };
        let request = recording.bytes(range).to_vec();
        self.ask(&request, now, out);
        if is_last && answered == 0 {
            self.replayed();
        }
        let may_be_preempted = self.may_be_preempted();
        let mut state = self.card.state();
        (state.phase, state.since, state.preemptible) = (Phase::Active, now, may_be_preempted);
    }

    /// Sends a unit of our own.
    fn ask(&mut self, request: &[u8], now: Instant, out: &mut impl Outbox) {
        {
            let mut state = self.card.state();
            state.unit += 1;
            state.since = now;
            (state.phase, state.preemptible) = (Phase::Preempted, false);
            state.cancels.preempting = None;
        }
        if let Mode::Rewinding(rewind) = &mut self.mode {
            rewind.left = 1;
        }
        self.outstanding.sent(false);
        out.to_server(request);
    }
}
