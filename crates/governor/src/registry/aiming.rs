//! Cancels that are not for other transactions: those of clients, and those of statements that exceed a limit.

use plimsoll_policy::Runaway;

use super::{Phase, SessionCard};

impl SessionCard {
    /// Aims a cancel at a unit that exceeds a limit of its class, if it is still in flight.
    pub(crate) fn aim_at_runaway(&self, transaction: u64, unit: u64, why: Runaway) -> bool {
        let mut state = self.state();
        let is_there = state.phase == Phase::Active && (state.transaction, state.unit) == (transaction, unit);
        if !is_there
            || state.is_being_prepared
            || state.cancels.preempting == Some(unit)
            || state.cancels.runaway.is_some()
        {
            return false;
        }
        state.cancels.in_flight += 1;
        state.cancels.runaway = Some((unit, why));
        true
    }

    /// Aims a client's own cancel at the unit in flight; `None` if the client waits for none, or its pool
    /// sends the cancel later: then none must be sent now.
    pub fn aim_client_cancel(&self) -> Option<u64> {
        let mut state = self.state();
        if !state.is_awaited {
            return None;
        }
        if state.is_being_prepared {
            state.cancels.is_deferred = true;
            return None;
        }
        state.cancels.in_flight += 1;
        state.cancels.by_client = Some(state.unit);
        Some(state.unit)
    }
}
