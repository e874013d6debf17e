//! Timeouts by which the server ends statements: what is known of a session's, and how much of one is used.

use std::time::{Duration, Instant};

use super::{CardState, Phase};

/// The part of a timeout that a unit may have used if it is to be replayed: the server begins a timeout again with each run, and the
/// client gets its answer that much later at most.
const REPLAYED_WITHIN: u32 = 10;

/// Whether a unit has used more than that part of a timeout.
pub(crate) fn has_used(timeout: Option<Duration>, since: Instant, now: Instant) -> bool {
    timeout.is_some_and(|timeout| now.saturating_duration_since(since) > timeout / REPLAYED_WITHIN)
}

impl CardState {
    /// Its client may have set this timeout for its statements.
    pub(crate) fn may_have_timeout(&mut self, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |known| known.min(timeout)));
    }

    /// Whether its unit in flight has used up so much of a timeout that it is not replayed.
    pub(crate) fn has_used_timeout(&self, now: Instant) -> bool {
        self.phase == Phase::Active && has_used(self.shortest_timeout(), self.asked, now)
    }

    /// The shortest timeout that the server may enforce, as far as is known.
    pub(crate) fn shortest_timeout(&self) -> Option<Duration> {
        let by_default = self.default_timeout.and_then(|(timeout, _)| timeout);
        [self.timeout, by_default].into_iter().flatten().min()
    }

    /// Whether the server may end its unit in flight by itself within the given time, because of a timeout.
    pub(crate) fn gives_up_within(&self, rest: Duration, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.since);
        self.shortest_timeout().is_some_and(|timeout| timeout <= elapsed + rest)
    }
}
