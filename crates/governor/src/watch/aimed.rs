//! A session at which a cancel is aimed: it sends nothing until it is notified that the cancel has arrived, and it is always
//! notified.

use std::sync::Arc;

use super::act::Target;
use crate::governor::{Governor, Outcome, SessionCommand};
use crate::registry::{EventId, SessionCard};

/// The state of a cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CancelOutcome {
    /// Nothing was sent to its process, and nothing will be.
    NotSent,
    /// All that was sent has arrived, and nothing more will follow. If it is unknown whether anything was sent, this
    /// applies too: an error that follows may be of our making.
    Arrived,
    /// A cancel may still arrive at an unknown time. The session must never send anything again, and so is ended.
    Unknown,
}

/// A session at which a cancel is aimed. When this is dropped, the session continues, or is ended.
#[derive(Debug)]
pub(super) struct Aimed<'a> {
    governor: &'a Governor,
    pub(super) card: Arc<SessionCard>,
    /// The event that the session settles, unless nothing was sent to it.
    event: EventId,
    /// The state of the cancel as far as it is known; unknown from the moment at which something may be sent.
    pub(super) fate: CancelOutcome,
}

impl<'a> Aimed<'a> {
    /// Aims at a unit, if it is still the one in flight and may be preempted; otherwise the event came too late.
    pub(super) fn aim(governor: &'a Governor, target: &Target) -> Option<Self> {
        let (card, event) = (target.card.clone(), target.event);
        // Created only once the card is aimed at: dropping it reports that its cancel has arrived.
        let is_aimed = match (target.exceeds, target.breaks_cycle) {
            (Some(limit), _) => card.aim_at_runaway(target.transaction, target.unit, limit),
            (None, true) => card.aim_at_cycle(target.transaction, target.unit),
            (None, false) => card.aim_preemption(target.transaction, target.unit),
        };
        if !is_aimed {
            governor.settle(event, Outcome::TooLate);
            return None;
        }
        if target.exceeds.is_none() {
            // Nothing was sent yet, so the session cannot need these earlier.
            let mut state = card.state();
            state.cancels.was_waiting = target.if_waiting;
            state.cancels.event = Some(event);
            state.cancels.stake = Some(target.stake);
        }
        Some(Aimed { governor, card, event, fate: CancelOutcome::NotSent })
    }
}

impl Drop for Aimed<'_> {
    fn drop(&mut self) {
        if self.fate == CancelOutcome::NotSent {
            let mut state = self.card.state();
            state.cancels.event.take_if(|event| *event == self.event);
            drop(state);
            self.governor.settle(self.event, Outcome::TooLate);
        }
        let command = match self.fate {
            CancelOutcome::NotSent | CancelOutcome::Arrived => {
                self.card.cancel_arrived(self.fate == CancelOutcome::Arrived, true);
                SessionCommand::CancelArrived
            }
            // The card stays aimed at, so that nothing is sent before the session has ended.
            CancelOutcome::Unknown => SessionCommand::End {
                why: "a cancel of this transaction was sent to the server, and may still arrive".to_owned(),
            },
        };
        self.governor.tell(self.card.worker, self.card.id, command);
    }
}
