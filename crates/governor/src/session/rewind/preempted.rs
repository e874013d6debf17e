//! The beginning of a rewind: a unit was cancelled for another transaction, or a thinking client's transaction is rolled
//! back for one.

use std::time::Instant;

use plimsoll_policy::NoReplay;

use super::super::aborted::Abort;
use super::super::frames::Status;
use super::super::{Flow, Outbox, Session};
use super::{Cause, Failure, Rewind, RewindStep};
use crate::governor::Outcome;
use crate::registry::{EventId, Phase};
use crate::statistics::{AbortCause, count};

impl Session {
    /// The unit in flight was cancelled for another transaction; its client does not receive that error.
    pub(in crate::session) fn preempted(&mut self, now: Instant, out: &mut impl Outbox) {
        let (event, breaks_cycle) = self.count_preempted(now);
        let Some(inside) = &self.transaction else {
            // Cancels for other transactions are aimed only at transactions.
            return self.show(out);
        };
        let verdict = match breaks_cycle {
            true => self.abort_verdict(inside, false, now),
            false => self.replay_verdict_in_flight(inside, now),
        };
        let rewind = Rewind::new(RewindStep::Drain, Cause::Cancelled(self.in_flight()), event);
        let abort = breaks_cycle.then_some(Abort { cause: AbortCause::Cycle, error: None });
        self.rewind(Rewind { failure: verdict.err().map(Failure::NotReplayable), abort, ..rewind });
    }

    /// Rolls the transaction back if its client is still thinking after the given unit.
    pub(in crate::session) fn roll_back_idle(
        &mut self,
        transaction: u64,
        unit: u64,
        event: EventId,
        now: Instant,
        out: &mut impl Outbox,
    ) {
        self.publish();
        let is_there = {
            let state = self.card.state();
            state.phase == Phase::IdleInTransaction
                && (state.transaction, state.unit) == (transaction, unit)
                && state.cancels.in_flight == 0
                && state.preemptible
        };
        let is_between = matches!(self.flow, Flow::Relay) && self.from_client.left == 0 && self.from_server.left == 0;
        let statistics = self.statistics(self.inside_index());
        if !is_there || !is_between || self.status == Status::Idle {
            count(&statistics.preempted_too_late);
            return self.governor.settle(event, Outcome::TooLate);
        }
        count(&statistics.preempted_idle);
        self.count_stake(now);
        self.rewind(Rewind::new(RewindStep::Drain, Cause::Thinking(self.status), Some(event)));
        self.rewind_step_done(self.status, now, out);
    }

    /// A cancel for another transaction took effect. Returns the event that receives the outcome, and whether the
    /// cancel was to break a cycle of waiters.
    fn count_preempted(&self, now: Instant) -> (Option<EventId>, bool) {
        let (was_waiting, event, breaks_cycle) = {
            let mut state = self.card.state();
            (state.cancels.was_waiting, state.cancels.event.take(), state.cancels.breaks_cycle)
        };
        let statistics = self.statistics(self.inside_index());
        count(if was_waiting { &statistics.preempted_waiting } else { &statistics.preempted_running });
        self.count_stake(now);
        (event, breaks_cycle)
    }

    /// Counts the cost and the benefit of a rollback that was carried out.
    fn count_stake(&self, now: Instant) {
        let stake = self.card.state().cancels.stake.take();
        if let Some(stake) = stake {
            self.governor.statistics.count_stake(self.inside_index(), &stake, now);
        }
    }

    /// A statement of the replay was cancelled for another transaction: the replay starts over, if there is time for it.
    fn preempted_again(&mut self, now: Instant) {
        let verdict = self.transaction.as_ref().map_or(Ok(()), |inside| self.replay_verdict_in_flight(inside, now));
        self.attempts.rollbacks += 1;
        if let (Flow::Rewinding(rewind), Err(why @ NoReplay::Timeout)) = (&mut self.flow, verdict) {
            rewind.failure = Some(Failure::NotReplayable(why));
        }
    }

    /// A statement of the replay was cancelled.
    pub(in crate::session) fn cancelled_again(&mut self, now: Instant) {
        let cancels = self.cancelled_for();
        let is_ours = matches!(&self.flow, Flow::Rewinding(rewind) if rewind.is_comparing());
        let (event, breaks_cycle) =
            if cancels == (true, false) && is_ours { self.count_preempted(now) } else { (None, false) };
        let Flow::Rewinding(rewind) = &mut self.flow else { return };
        match cancels {
            // A client that thinks has nothing to cancel; the unit of ours that it hit is repeated.
            (_, true) if rewind.is_unnoticed() => {}
            (_, true) => rewind.failure = Some(Failure::Cancelled),
            (true, false) if is_ours => {
                rewind.was_cancelled = true;
                let before = std::mem::replace(&mut rewind.event, event);
                match breaks_cycle {
                    true => self.cycle_broken_again(now),
                    false => self.preempted_again(now),
                }
                self.settle(before, Outcome::Superseded);
            }
            // Cancelled by another party, an administrator or a timeout: an answer that differs.
            _ => {}
        }
    }
}
