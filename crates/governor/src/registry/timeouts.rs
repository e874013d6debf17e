//! Timeouts by which the server ends statements: what is known of a session's, and how much of one is used.

use std::time::{Duration, Instant};

use super::{CardState, Phase};
use crate::statement::patience::Timeouts;

/// The part of a timeout that a unit may have used if it is to be replayed: the server begins a timeout again with each run, and the
/// client gets its answer that much later at most.
const REPLAYED_WITHIN: u32 = 10;

/// Whether a statement and its transaction, which began that long ago, have used more than that part of a timeout.
pub(crate) fn have_used(timeouts: Timeouts, begun: (Duration, Duration)) -> bool {
    timeouts.any(begun, |timeout, elapsed| elapsed > timeout / REPLAYED_WITHIN)
}

impl CardState {
    /// Its client may have set these timeouts.
    pub(crate) fn may_have_timeouts(&mut self, timeouts: Timeouts) {
        self.timeouts = self.timeouts.and(timeouts);
    }

    /// Whether its unit in flight has used up so much of a timeout that it is not replayed.
    pub(crate) fn has_used_timeout(&self, now: Instant) -> bool {
        let since = |at| now.saturating_duration_since(at);
        self.phase == Phase::Active
            && have_used(self.shortest_timeouts(), (since(self.asked), since(self.transaction_since)))
    }

    /// The shortest timeouts that the server may enforce, as far as is known.
    pub(crate) fn shortest_timeouts(&self) -> Timeouts {
        self.default_timeouts.map_or(self.timeouts, |(by_default, _)| self.timeouts.and(by_default))
    }

    /// Whether the server may end its unit in flight by itself within the given time, because of a timeout.
    pub(crate) fn gives_up_within(&self, rest: Duration, now: Instant) -> bool {
        let since = |at| now.saturating_duration_since(at);
        let begun = (since(self.since), since(self.transaction_since));
        self.shortest_timeouts().any(begun, |timeout, elapsed| timeout <= elapsed + rest)
    }
}
