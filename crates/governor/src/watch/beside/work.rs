//! How many transactions more important sessions at the server end, and how long these take: for the automatic `mpl`.
//!
//! The server counts the transactions of all sessions. Those that came through the governor and the governor's own are
//! subtracted. Sessions report their counts to the server about once per second, so that the number of a second is inexact. The time is that
//! of the sessions seen with an open transaction, look by look. While a session of the lowest class or one that cannot
//! be seen is at work at the server, the counts cannot be attributed, and none are given.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::WireError;
use plimsoll_policy::{EndedWork, Priority};

use super::cards::{Cards, Noticed};
use crate::governor::Governor;
use crate::settings::Settings;
use crate::watch::control::Up;

/// The time between two counts.
const EVERY: Duration = Duration::from_secs(1);

/// A look longer ago does not show what a session has done since.
const LOOK_COUNTS_FOR: Duration = Duration::from_millis(500);

/// The work of more important sessions at the server.
#[derive(Debug)]
pub(super) struct DirectWork {
    next: Instant,
    looked: Instant,
    /// Transactions, since the first count, that are not attributed elsewhere; and how many of these were given.
    ended: Option<i64>,
    given: i64,
    /// The time of open transactions since the last count.
    time: Duration,
    is_unknown: bool,
}

impl DirectWork {
    pub(super) fn new(now: Instant) -> Self {
        DirectWork { next: now, looked: now, ended: None, given: 0, time: Duration::ZERO, is_unknown: false }
    }

    /// Adds what a look has shown, and counts if that is due.
    pub(super) fn note(
        &mut self,
        up: &mut Up,
        cards: &Cards,
        noticed: &Noticed,
        settings: &Settings,
        now: Instant,
    ) -> Result<(), WireError> {
        if settings.is_beside || settings.searched().next().is_none() {
            self.ended = None;
            return Ok(());
        }
        let since = now.saturating_duration_since(std::mem::replace(&mut self.looked, now)).min(LOOK_COUNTS_FOR);
        let lowest = settings.classes.iter().map(|class| class.limits.priority).min().unwrap_or(Priority::LOW);
        let (important, others) = cards.at_work(settings, lowest);
        self.time += since * u32::try_from(important).unwrap_or(u32::MAX);
        self.is_unknown |= others > 0 || noticed.unseen > 0;
        if now < self.next {
            return Ok(());
        }
        self.next = now + EVERY;
        let governor = &cards.governor;
        let all = up.transactions_ended()?;
        let elsewhere: u64 = governor.statistics.classes().map(|class| class.transactions.load(Relaxed)).sum();
        let own = governor.statistics.looks.load(Relaxed);
        let ended = all.saturating_sub_unsigned(elsewhere + own);
        self.give(governor, ended);
        Ok(())
    }

    fn give(&mut self, governor: &Governor, ended: i64) {
        let before = self.ended.replace(ended);
        if before.is_none() || std::mem::take(&mut self.is_unknown) {
            self.given = ended;
        }
        let count = u64::try_from(ended - self.given).unwrap_or_default();
        // Transactions through the governor are known before the server counts them, so that the difference may fall.
        self.given = self.given.max(ended);
        *governor.direct_work.lock() += EndedWork { count, time: std::mem::take(&mut self.time) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::for_tests;

    #[test]
    fn counts_that_fall_and_rise_again_are_given_once() {
        let now = Instant::now();
        let governor = Governor::new(for_tests(), now);
        let mut work = DirectWork::new(now);
        let mut given = Vec::new();
        for ended in [1_000, 1_100, 1_090, 1_150] {
            work.give(&governor, ended);
            given.push(governor.direct_work.lock().count);
        }
        assert_eq!(given, [0, 100, 100, 150]);
        work.is_unknown = true;
        work.time = Duration::from_secs(1);
        work.give(&governor, 2_000);
        let seen = *governor.direct_work.lock();
        assert_eq!(seen, EndedWork { count: 150, time: Duration::from_secs(1) }, "nobody knows whose they are");
        work.give(&governor, 2_010);
        assert_eq!(governor.direct_work.lock().count, 160);
    }
}
