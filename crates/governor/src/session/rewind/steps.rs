//! The steps of a replay: proving that it is safe, restoring the server's state at the transaction's beginning, and
//! running it again.

use std::time::{Duration, Instant};

use plimsoll_policy::NoReplay;

use super::super::answers::{END_ANSWERS as OWN, SYNC, close_statement};
use super::super::frames::Status;
use super::super::inquiring::Inquiring;
use super::super::transaction::Began;
use super::super::workers::lower_locally;
use super::super::{Bound, Flow, Outbox, Session, Shown, Unit};
use super::failure::Failure;
use super::{Cause, ROLLBACK, ROLLBACK_AND_CHAIN, RewindStep, own};
use crate::effects::{Inquiry, Next};
use crate::statistics::AbortCause;

/// How long an inquiry may take. Its client waits, and so may others for what the client does next.
const INQUIRY_MAX: Duration = Duration::from_secs(3);

/// Whether the functions and statements that the transaction runs may be run twice.
#[derive(Debug)]
pub(super) enum Safety {
    Unknown,
    Asked(Box<Question>),
    Proved,
}

#[derive(Debug)]
pub(super) struct Question {
    pub inquiring: Inquiring,
    /// The message to send for it, until it has been answered.
    pub request: Option<Vec<u8>>,
}

impl Session {
    /// Proves that the transaction may be run twice, and restores the server's state at its beginning; then runs it
    /// again.
    pub(super) fn make_ready(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        let inside = self.transaction.as_mut().expect("what was rolled back is inside");
        if matches!(rewind.safety, Safety::Proved) {
            let is_chained = inside.began == Began::Unrecorded;
            return match self.status {
                Status::Block if is_chained && rewind.is_clean => self.close_prepared(now, out),
                Status::Block | Status::Failed if is_chained => {
                    self.ask(RewindStep::RollBack, &own(ROLLBACK_AND_CHAIN), OWN, now, out);
                }
                Status::Block | Status::Failed => self.ask(RewindStep::RollBack, &own(ROLLBACK), OWN, now, out),
                Status::Idle => self.close_prepared(now, out),
            };
        }
        let mut question = match std::mem::replace(&mut rewind.safety, Safety::Unknown) {
            Safety::Asked(question) => question,
            _ => {
                let recording = inside.recording.as_ref().expect("replay was found possible");
                let steps_back = rewind.abort.as_ref().is_some_and(|abort| abort.cause == AbortCause::LockWait);
                if steps_back && self.migration.only_rewrites() && recording.unit_count() == 0 {
                    rewind.safety = Safety::Proved;
                    return self.go_on_rewinding(now, out);
                }
                let (texts, unfinished) = recording.texts(steps_back);
                let inquiry = Inquiry::new(
                    texts,
                    self.reported.text_rules,
                    recording.older_statements(),
                    &self.settings.preemption.replay_functions,
                    self.reported.version,
                );
                let inquiry = inquiry.of_unfinished(unfinished).of_transaction(inside.horizon);
                Box::new(Question { inquiring: Inquiring::new(inquiry, now), request: None })
            }
        };
        let effects = &self.governor.effects;
        if question.request.is_none() {
            let Inquiring { inquiry, since, .. } = &mut question.inquiring;
            effects.look_up(&self.identity.login.database, inquiry);
            if now.saturating_duration_since(*since) > INQUIRY_MAX {
                inquiry.give_up();
            }
            match inquiry.next() {
                Next::Ask(asked) => question.request = Some(Inquiring::request(&asked)),
                Next::Known(verdict) => {
                    effects.keep(&self.identity.login.database, inquiry);
                    match verdict {
                        Ok(_) => rewind.safety = Safety::Proved,
                        Err(because) => {
                            self.texts.forget_outlooks(&self.governor.foresight);
                            inside.unsafe_because.get_or_insert(because);
                            rewind.failure = Some(Failure::NotReplayable(NoReplay::Unsafe(because)));
                        }
                    }
                    return self.go_on_rewinding(now, out);
                }
            }
        }
        let request = question.request.clone().unwrap_or_default();
        question.inquiring.asks();
        rewind.safety = Safety::Asked(question);
        if self.status == Status::Failed {
            return self.ask(RewindStep::RollBack, &own(ROLLBACK_AND_CHAIN), OWN, now, out);
        }
        // The question reads with a snapshot of its own, which a chained transaction must not keep.
        rewind.is_clean = self.status == Status::Idle;
        self.ask(RewindStep::Inquire, &request, OWN, now, out);
    }

    fn close_prepared(&mut self, now: Instant, out: &mut impl Outbox) {
        let Some(recording) = self.recording() else { return };
        let mut request: Vec<u8> = recording.prepared_names().flat_map(close_statement).collect();
        if request.is_empty() {
            return self.ask_unit(0, now, out);
        }
        request.extend_from_slice(&SYNC);
        if let Flow::Rewinding(rewind) = &mut self.flow {
            rewind.has_closed = true;
        }
        self.ask(RewindStep::Close, &request, 1, now, out);
    }

    /// Runs a unit again. After the last, the unit in flight is run, or the client continues.
    pub(super) fn ask_unit(&mut self, unit: usize, now: Instant, out: &mut impl Outbox) {
        let last = self.recording().map(|recording| recording.unit_count());
        let bound = self.bound_of_replay(last == Some(unit), now);
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        let Some(inside) = &mut self.transaction else { return };
        let is_bounded = rewind.step == RewindStep::Bound(unit);
        let is_limited = is_bounded || rewind.step == RewindStep::Limit(unit);
        let limit = inside.workers.filter(|(before, _)| *before == unit && !is_limited);
        let Some(recording) = &mut inside.recording else { return };
        recording.restart_answer();
        let is_last = unit == recording.unit_count();
        let (in_flight, commits) = match &rewind.cause {
            Cause::Cancelled(in_flight) => (Some(in_flight.answered), in_flight.commits),
            _ => (None, false),
        };
        if is_last && in_flight.is_none() {
            self.replayed();
            self.since = now;
            return;
        }
        if let Some((_, workers)) = limit {
            return self.ask(RewindStep::Limit(unit), &own(&lower_locally(workers)), OWN, now, out);
        }
        if let Some(sql) = bound.filter(|_| !is_bounded) {
            return self.ask(RewindStep::Bound(unit), &own(&sql), OWN, now, out);
        }
        rewind.is_clean = false;
        let request = recording.bytes(recording.unit_range(unit)).to_vec();
        let step = if is_last { RewindStep::Beginning } else { RewindStep::Unit(unit) };
        let shown = std::mem::replace(&mut self.unit.shown, Shown::All);
        self.ask(step, &request, 1, now, out);
        if is_last && self.is_taking(RewindStep::Beginning) {
            if commits {
                // From here on it may be committed.
                self.transaction.iter_mut().for_each(|inside| inside.may_end = true);
                self.unit.bound = Some((Bound::Commit, Box::default()));
            }
            self.prepared.ask_again();
            if self.status == Status::Idle {
                // The server sends the withheld answer again.
                self.unit.shown = Shown::Nothing(Vec::new());
            }
            if in_flight == Some(0) {
                self.replayed();
            }
        } else {
            self.unit.shown = shown;
        }
    }

    pub(super) fn is_taking(&self, step: RewindStep) -> bool {
        matches!(&self.flow, Flow::Rewinding(rewind) if rewind.step == step && !rewind.is_due)
    }

    /// Sends a request that `answers` `ReadyForQuery` messages answer. If a cancel is on its way after all, the
    /// previous step remains the last one.
    pub(super) fn ask(
        &mut self,
        step: RewindStep,
        request: &[u8],
        answers: usize,
        now: Instant,
        out: &mut impl Outbox,
    ) {
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        let Ok(number) = self.card.begin_unit(true) else { return };
        (rewind.step, rewind.is_due, rewind.left, rewind.has_completed) = (step, false, answers, false);
        rewind.notices = 0;
        self.unit_number = number;
        let shown = std::mem::replace(&mut self.unit.shown, Shown::All);
        let asked = if matches!(rewind.cause, Cause::Cancelled(_)) { self.unit.asked } else { now };
        self.unit = Unit { shown, asked, ..Unit::new(now) };
        (0..answers).for_each(|_| self.outstanding.sent(number, false));
        out.to_server(request);
    }
}
