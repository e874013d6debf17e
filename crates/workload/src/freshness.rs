//! How fresh the data are that queries read in a database that keeps a second copy for them: a column copy of the
//! embedded engine, a standby of a server.
//!
//! A [`CopyWatch`] samples how far changes and copy are ([`CopyState`]); [`CopyHistory`] collects samples and computes
//! the figures of a window ([`Freshness`]), for every target in the same way:
//!
//! - `lambda` is the rate at which transactions publish changes, `mu` the rate at which they are applied to the copy while
//!   that is being done, `mu_merge` the rate at which queries merge those that are not applied yet. The names are those of
//!   Sirin, *Micro-architectural Analysis of Database Workloads*, 6.5.2.
//! - The **staleness** of an answer that begins at a moment is the age of the oldest change that it would lack. It is
//!   the lag if queries read only applied changes, and 0 if they merge the rest.
//! - The **lag** of the copy at a moment is the age of the oldest change that it does not hold: 0 if it holds all. The
//!   moment at which that change was published is interpolated between earlier samples. No clocks are compared and
//!   nothing is written to the database; a database without new changes has no lag.

use std::time::Duration;

use plimsoll_policy::WaitCounts;
use serde::{Deserialize, Serialize};

use crate::database::DatabaseError;

/// Looks at the copy that queries read.
///
/// After an error the watch cannot be used again: the copy, or the connection to it, is gone.
pub trait CopyWatch: Send {
    /// How far changes and copy are now.
    fn look(&mut self) -> Result<CopyState, DatabaseError>;
}

/// The unit of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeUnit {
    /// Rows that were added, changed or deleted.
    Tuples,
    /// Bytes of a server's log.
    LogBytes,
}

/// How far changes and copy are at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyState {
    /// The unit of changes.
    pub unit: ChangeUnit,
    /// Changes that transactions have published so far; a count that never falls.
    pub published: u64,
    /// How many of these the copy holds, in the order in which they were published.
    pub applied: u64,
    /// How many of the published changes a query reads that begins now, in the same order.
    pub readable: u64,
    /// Time so far in which changes were being applied, by any number of threads; `None` if unknown.
    pub applying: Option<Duration>,
    /// The changes that queries have merged so far; `None` if they read only applied changes.
    pub merged: Option<MergedChanges>,
    /// Memory that unapplied changes take now, bytes; `None` if unknown.
    pub delta_bytes: Option<u64>,
    /// Versions of the copy that are alive now. A count; `None` if the copy has no versions.
    pub versions: Option<u64>,
    /// How long commits so far waited to publish their changes, for readers, for the application of changes, or for
    /// other commits; `None` if unknown.
    pub blocked: Option<WaitCounts>,
}

/// The changes that queries have merged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergedChanges {
    /// Changes, each as often as a query has merged it. A count.
    pub changes: u64,
    /// Time spent on it, over the degree of parallelism of each query.
    pub time: Duration,
}

/// The activity of the copy within a window. Figures that were not measured are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Freshness {
    /// The unit of changes.
    pub unit: ChangeUnit,
    /// Changes published per second.
    pub lambda: Option<f64>,
    /// Changes applied per second in which they were being applied. `None` also if too few samples saw that.
    pub mu: Option<f64>,
    /// Changes that queries merged per second of merging. `None` if they merged none.
    pub mu_merge: Option<f64>,
    /// Share of time in which changes were being applied, 0 to 1.
    pub busy: Option<f64>,
    /// Lag, microseconds, as all times in the language of claims.
    pub lag_us: Option<Spread>,
    /// Changes that were published and not applied.
    pub lag_changes: Option<Spread>,
    /// The most memory that unapplied changes took, bytes.
    pub delta_bytes: Option<f64>,
    /// The most versions of the copy that were alive.
    pub versions: Option<f64>,
    /// Age of the oldest published change that a query beginning at a moment would not have read, microseconds; 0 if it
    /// would have read all. This is the freshness score of Milkai and others, *How Good is My HTAP System?* (SIGMOD
    /// 2022), evenly over time instead of at the beginning of each query.
    #[serde(default)]
    pub staleness_us: Option<Spread>,
    /// How long commits waited to publish their changes, for readers, for the application of changes, or for other
    /// commits, microseconds.
    #[serde(default)]
    pub blocked_us: Option<Tail>,
}

/// The upper end of the distribution of commits' waits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// 99.9 % of the commits waited at most this long. `None` for fewer than 10,000 commits, which have fewer than ten
    /// beyond.
    pub p999: Option<f64>,
    /// None waited longer.
    pub max: Option<f64>,
}

/// The values that a figure did not exceed for half of the time, for 95 % of it, and at any time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// For half of the time.
    pub p50: Option<f64>,
    /// For 95 % of the time. `None` with few samples.
    pub p95: Option<f64>,
    /// At any time.
    pub max: Option<f64>,
}

/// Samples in which changes were being applied that are needed to compute their rate.
const LOOKS_BUSY_MIN: usize = 10;

/// Samples needed for one of them to lie beyond the 95th percentile.
const LOOKS_P95_MIN: usize = 20;

/// Commits needed for ten of them to lie beyond the 99.9th percentile.
const COMMITS_P999_MIN: u64 = 10_000;

/// Looks at a copy, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct CopyHistory {
    looks: Vec<CopySample>,
}

#[derive(Debug, Clone, Copy)]
struct CopySample {
    at: Duration,
    state: CopyState,
    lag: Duration,
    staleness: Duration,
}

impl CopyHistory {
    /// Adds a sample, taken at a moment of the watch's own clock that is not before the previous sample's. If the copy
    /// was behind already at the first sample, its lag is too small until it has caught up with that moment.
    pub fn add(&mut self, at: Duration, state: CopyState) {
        self.looks.push(CopySample { at, state, lag: Duration::ZERO, staleness: Duration::ZERO });
        let age = |known: u64| at.saturating_sub(self.published_at(known));
        let (lag, staleness) = (age(state.applied), age(state.readable));
        let look = self.looks.last_mut().expect("one was just added");
        (look.lag, look.staleness) = (lag, staleness);
    }

    /// When the change after the first `count` was published; now, if none was.
    fn published_at(&self, count: u64) -> Duration {
        let next = self.looks.partition_point(|look| look.state.published <= count);
        let Some(after) = self.looks.get(next) else { return self.looks.last().map_or(Duration::ZERO, |look| look.at) };
        let Some(before) = next.checked_sub(1).map(|before| self.looks[before]) else { return after.at };
        let part = (count - before.state.published) as f64 / (after.state.published - before.state.published) as f64;
        before.at + (after.at - before.at).mul_f64(part)
    }

    /// The activity of the copy between two moments; `None` with fewer than two samples.
    pub fn within(&self, from: Duration, to: Duration) -> Option<Freshness> {
        let looks = self.between(from, to);
        let [first, .., last] = looks else { return None };
        let time_s = (last.at - first.at).as_secs_f64();
        let rate = |count: u64, time_s: f64| (time_s > 0.0).then(|| count as f64 / time_s);
        let applying = |look: &CopySample| look.state.applying;
        let busy = applying(last).zip(applying(first)).map(|(last, first)| last.saturating_sub(first).as_secs_f64());
        let busy_looks = looks.windows(2).filter(|two| applying(&two[1]) > applying(&two[0])).count();
        let applied = last.state.applied.saturating_sub(first.state.applied);
        let merged = last.state.merged.zip(first.state.merged).and_then(|(last, first)| {
            let time = last.time.saturating_sub(first.time);
            rate(last.changes.saturating_sub(first.changes), time.as_secs_f64()).filter(|rate| *rate > 0.0)
        });
        let most = |of: fn(&CopyState) -> Option<u64>| looks.iter().filter_map(|look| of(&look.state)).max();
        Some(Freshness {
            unit: last.state.unit,
            lambda: rate(last.state.published.saturating_sub(first.state.published), time_s),
            mu: busy.filter(|_| busy_looks >= LOOKS_BUSY_MIN).and_then(|busy| rate(applied, busy)),
            mu_merge: merged,
            busy: busy.filter(|_| time_s > 0.0).map(|busy| (busy / time_s).min(1.0)),
            lag_us: Spread::of(looks.iter().map(|look| look.lag.as_secs_f64() * 1e6)),
            lag_changes: Spread::of(looks.iter().map(|look| look.behind() as f64)),
            delta_bytes: most(|state| state.delta_bytes).map(|bytes| bytes as f64),
            versions: most(|state| state.versions).map(|count| count as f64),
            staleness_us: Spread::of(looks.iter().map(|look| look.staleness.as_secs_f64() * 1e6)),
            blocked_us: last
                .state
                .blocked
                .zip(first.state.blocked)
                .and_then(|(last, first)| Tail::of(&last.since(&first))),
        })
    }

    /// The lag at the end of a window, if the copy then held no change published within it, and queries read nothing
    /// but the copy: the measured queries did not read the window's data.
    pub fn stale(&self, from: Duration, to: Duration) -> Option<Duration> {
        let last = self.between(from, to).last()?;
        let held_nothing = last.behind() > 0 && last.at - last.lag < from;
        (held_nothing && last.state.merged.is_none()).then_some(last.lag)
    }

    fn between(&self, from: Duration, to: Duration) -> &[CopySample] {
        let start = self.looks.partition_point(|look| look.at < from);
        let end = self.looks.partition_point(|look| look.at <= to);
        &self.looks[start..end.max(start)]
    }
}

impl CopySample {
    /// Changes that the copy does not hold.
    fn behind(&self) -> u64 {
        self.state.published.saturating_sub(self.state.applied)
    }
}

impl Tail {
    /// `None` of no commits.
    fn of(waits: &WaitCounts) -> Option<Tail> {
        let at_most = |share| waits.at_most(share).map(|wait| wait.as_secs_f64() * 1e6);
        let max = at_most(1.0);
        max.map(|_| Tail { p999: at_most(0.999).filter(|_| waits.len() >= COMMITS_P999_MIN), max })
    }
}

impl Spread {
    /// Of looks that are evenly spread over time; `None` of none.
    fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let max = sorted.last().copied();
        let below = |share: f64| sorted.get(((sorted.len() as f64 * share).ceil() as usize).checked_sub(1)?).copied();
        max.map(|_| Spread { p50: below(0.5), p95: below(0.95).filter(|_| sorted.len() >= LOOKS_P95_MIN), max })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(20);

    fn state(published: u64, applied: u64) -> CopyState {
        CopyState {
            unit: ChangeUnit::LogBytes,
            published,
            applied,
            readable: applied,
            applying: None,
            merged: None,
            delta_bytes: None,
            versions: None,
            blocked: None,
        }
    }

    /// A sample every 20 ms for `seconds`; published and applied changes are functions of the second.
    fn history(seconds: u32, of: impl Fn(f64) -> CopyState) -> CopyHistory {
        let mut history = CopyHistory::default();
        for look in 0..=seconds * 50 {
            history.add(EVERY * look, of((EVERY * look).as_secs_f64()));
        }
        history
    }

    #[track_caller]
    fn near(found: Option<f64>, expect: f64) {
        let found = found.unwrap();
        assert!((found - expect).abs() <= 1e-3 * expect.max(1.0), "{found} is not {expect}");
    }

    #[test]
    fn a_copy_that_is_half_a_second_behind() {
        let bytes = |second: f64| (second.max(0.0) * 1e6) as u64;
        let found = history(10, |second| state(bytes(second), bytes(second - 0.5)));
        let found = found.within(Duration::from_secs(2), Duration::from_secs(10)).unwrap();
        near(found.lambda, 1e6);
        let lag = found.lag_us.unwrap();
        near(lag.p50, 500_000.0);
        near(lag.p95, 500_000.0);
        near(lag.max, 500_000.0);
        near(found.lag_changes.unwrap().p50, 5e5);
        assert_eq!((found.mu, found.mu_merge, found.busy, found.delta_bytes), (None, None, None, None), "not measured");
    }

    #[test]
    fn a_database_at_rest_has_no_lag_and_an_old_change_that_is_missing_gets_older() {
        let at_rest = history(5, |_| state(700, 700)).within(Duration::ZERO, Duration::from_secs(5)).unwrap();
        assert_eq!((at_rest.lambda, at_rest.lag_us.unwrap().max), (Some(0.0), Some(0.0)));
        // One change in the second 1, which is never applied.
        let stuck = history(5, |second| state(if second < 1.0 { 700 } else { 701 }, 700));
        let found = stuck.within(Duration::ZERO, Duration::from_secs(5)).unwrap();
        assert!((3_980_000.0..=4_020_000.0).contains(&found.lag_us.unwrap().max.unwrap()), "{found:?}");
    }

    #[test]
    fn mu_is_of_the_time_in_which_changes_are_applied() {
        // Published at 1000 per second; applied at 4000 per second in the first quarter of each second.
        let found = history(10, |second| {
            let (whole, part) = (second.floor(), second.fract().min(0.25));
            let applied = (whole * 1000.0 + part * 4000.0) as u64;
            let applying = Some(Duration::from_secs_f64(whole * 0.25 + part));
            let merged =
                Some(MergedChanges { changes: (second * 500.0) as u64, time: Duration::from_secs_f64(second * 0.1) });
            CopyState { applying, merged, versions: Some(2 + applied % 3), ..state((second * 1000.0) as u64, applied) }
        });
        let found = found.within(Duration::ZERO, Duration::from_secs(10)).unwrap();
        near(found.mu.map(|mu| mu / 100.0), 40.0);
        near(found.busy, 0.25);
        near(found.mu_merge.map(|mu| mu / 100.0), 50.0);
        near(found.versions, 4.0);
        // Seen at work in four looks only.
        let seldom = history(5, |second| CopyState {
            applying: Some(Duration::from_secs_f64(second.min(0.08))),
            ..state(100, 100)
        });
        let seldom = seldom.within(Duration::ZERO, Duration::from_secs(5)).unwrap();
        assert_eq!(seldom.mu, None, "{seldom:?}");
    }

    #[test]
    fn a_query_that_merges_what_is_not_applied_reads_no_stale_data() {
        let half = |second: f64| (second.max(0.0) * 1e6) as u64;
        let standby = history(4, |second| state(half(second), half(second - 0.5)));
        let merging =
            history(4, |second| CopyState { readable: half(second), ..state(half(second), half(second - 0.5)) });
        let bounded =
            history(4, |second| CopyState { readable: half(second - 0.1), ..state(half(second), half(second - 0.5)) });
        for (history, expect) in [(standby, 500_000.0), (merging, 0.0), (bounded, 100_000.0)] {
            let found = history.within(Duration::from_secs(1), Duration::from_secs(4)).unwrap();
            near(found.lag_us.unwrap().p50, 500_000.0);
            near(found.staleness_us.unwrap().p95, expect);
        }
    }

    #[test]
    fn waits_are_those_of_the_window() {
        let mut waits = WaitCounts::default();
        waits.add(Duration::from_secs(1));
        let blocked = |waits| CopyState { blocked: Some(waits), ..state(0, 0) };
        let mut history = CopyHistory::default();
        history.add(Duration::ZERO, blocked(waits));
        (0..20_000).for_each(|_| waits.add(Duration::ZERO));
        (0..30).for_each(|_| waits.add(Duration::from_micros(32)));
        history.add(EVERY, blocked(waits));
        let found = history.within(Duration::ZERO, EVERY).unwrap().blocked_us.unwrap();
        near(found.p999, 32.0);
        near(found.max, 32.0);
        waits.add(Duration::ZERO);
        history.add(EVERY * 2, blocked(waits));
        let few = history.within(EVERY, EVERY * 2).unwrap().blocked_us.unwrap();
        assert_eq!((few.p999, few.max), (None, Some(0.0)), "one commit has no percentile");
        assert_eq!(history.within(EVERY * 2, EVERY * 3), None);
    }

    #[test]
    fn a_copy_is_stale_that_holds_nothing_of_the_window() {
        let window = (Duration::from_secs(4), Duration::from_secs(8));
        let check = |applied: fn(f64) -> f64, merges: bool, expect: Option<u64>| {
            let found = history(8, |second| CopyState {
                merged: merges.then(MergedChanges::default),
                ..state((second * 1000.0) as u64, (applied(second) * 1000.0) as u64)
            });
            let lag = found.stale(window.0, window.1).map(|lag| lag.as_secs_f64().round() as u64);
            assert_eq!(lag, expect);
        };
        check(|second| second, false, None);
        check(|second| second / 2.0 + 0.1, false, None);
        check(|second| second.min(3.0), false, Some(5));
        check(|second| second.min(3.0), true, None);
        assert_eq!(CopyHistory::default().stale(window.0, window.1), None);
    }

    #[test]
    fn few_looks_have_no_percentile() {
        let all = history(1, |second| state((second * 100.0) as u64, 0));
        assert!(all.within(Duration::ZERO, EVERY * 30).unwrap().lag_us.unwrap().p95.is_some());
        assert!(all.within(Duration::ZERO, EVERY * 10).unwrap().lag_us.unwrap().p95.is_none());
        assert_eq!(all.within(Duration::ZERO, EVERY / 2), None);
        assert_eq!(all.within(EVERY * 9, EVERY), None);
    }
}
