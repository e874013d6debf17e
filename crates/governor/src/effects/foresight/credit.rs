//! How much time questions may take.

use std::time::Duration;

/// How much of it may be used at once.
pub(super) const CREDIT_MAX: Duration = Duration::from_secs(10);

/// A share of time, which may be saved up to [`CREDIT_MAX`].
#[derive(Debug)]
pub(super) struct Credit {
    share: f64,
    /// How many nanoseconds may be used, below zero if questions took longer.
    nanos: i64,
    at: Duration,
}

impl Credit {
    pub(super) fn new(share: f64) -> Self {
        Credit { share, nanos: nanos(CREDIT_MAX), at: Duration::ZERO }
    }

    /// Whether a question may be asked at that time.
    pub(super) fn is_left(&mut self, at: Duration) -> bool {
        let earned = nanos(at.saturating_sub(self.at).mul_f64(self.share));
        self.nanos = self.nanos.saturating_add(earned).min(nanos(CREDIT_MAX));
        self.at = at.max(self.at);
        self.nanos > 0
    }

    /// A question has taken this long.
    pub(super) fn spend(&mut self, time: Duration) {
        self.nanos = self.nanos.saturating_sub(nanos(time));
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
