//! Late units: the ones for which asking the server about lock waits is worthwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_policy::Priority;

use crate::governor::Governor;
use crate::registry::{CardState, Phase, SessionCard};
use crate::settings::Settings;

/// The late units of all sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Late {
    /// The processes of sessions whose unit has been in flight for longer than the threshold, above the lowest priority.
    pub processes: Vec<i32>,
    /// Whether a session with a lower priority than one of them has a transaction open, and so could be in its way.
    pub may_be_blocked: bool,
}

pub(super) fn late(governor: &Governor, settings: &Settings, now: Instant) -> Late {
    let (mut processes, mut highest, mut lowest_inside) = (Vec::new(), Priority::LOW, Priority::PROMOTED);
    for card in governor.registry.all() {
        let (phase, priority, since, may_wait) = {
            let state = card.state();
            // If the server shows which sessions wait, only those can be late.
            let may_wait = state.observed.is_none_or(|observed| observed.waits_for_lock);
            (state.phase, present_priority(settings, &state), state.since, may_wait)
        };
        if phase.is_inside() {
            lowest_inside = lowest_inside.min(priority);
        }
        let is_late =
            phase == Phase::Active && may_wait && now.saturating_duration_since(since) >= settings.preemption.threshold;
        if let Some(process) = card.process().filter(|_| is_late && priority > Priority::LOW) {
            processes.push(process);
            highest = highest.max(priority);
        }
    }
    Late { processes, may_be_blocked: lowest_inside < highest }
}

/// The priority of a session's transaction: that of its class, or above all if it is promoted. Nothing is done for a
/// transaction whose class is not certain.
pub(super) fn present_priority(settings: &Settings, state: &CardState) -> Priority {
    if !state.is_class_certain {
        return Priority::LOW;
    }
    settings.preemption.bound.present(settings.class(state.class).limits.priority, state.rollbacks)
}

/// How long the unit has been in flight; zero if none is.
pub(super) fn in_flight(state: &CardState, now: Instant) -> Duration {
    if state.phase == Phase::Active { now.saturating_duration_since(state.since) } else { Duration::ZERO }
}

/// The sessions with these server processes, which are sorted.
pub(super) fn cards_of(governor: &Governor, processes: &[i32]) -> Vec<(i32, Arc<SessionCard>)> {
    let is_wanted = |card: &SessionCard| card.process().filter(|process| processes.binary_search(process).is_ok());
    governor.registry.all().into_iter().filter_map(|card| Some((is_wanted(&card)?, card))).collect()
}
