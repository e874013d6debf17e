//! The server's counts between two moments, and statements whose plan seems to have changed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::snapshot::{CounterKey, Counters, StatementCounter};

/// Fewer calls in a stretch say nothing about a plan.
const CALLS_LEAST: u64 = 10;
/// A plan is taken to have changed if the pages per call changed by at least this factor.
const PAGES_FACTOR: f64 = 4.0;
/// The most that rows per call may change by; if they changed by more, the query asks for something else.
const ROWS_FACTOR: f64 = 2.0;
/// With fewer pages per call a factor means nothing.
const PAGES_LEAST: f64 = 20.0;

/// Adds up all counters that were read, in order.
#[derive(Debug, Default)]
pub struct CounterHistory {
    first: Option<Counters>,
    last: Option<Counters>,
    /// Of each statement, pages, rows and time per call of its last stretch with enough calls.
    stretches: BTreeMap<CounterKey, (StatementCounter, Option<PerCall>)>,
    changes: Vec<Change>,
    vacuums: Vec<String>,
}

/// A statement whose plan seems to have changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The statement.
    pub key: CounterKey,
    /// When the change was observed.
    pub at: Duration,
    /// Before and after.
    pub calls: (PerCall, PerCall),
}

/// The resources of one call of a statement, as the mean of a stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PerCall {
    /// Pages looked at.
    pub pages: f64,
    /// Rows returned or changed.
    pub rows: f64,
    /// Seconds.
    pub time_s: f64,
}

impl CounterHistory {
    /// Adds counters.
    pub fn take(&mut self, counters: Counters) {
        for vacuum in &counters.vacuums {
            let table = vacuum.split(" (").next().unwrap_or(vacuum);
            if !self.vacuums.iter().any(|known| known == table) {
                self.vacuums.push(table.to_owned());
            }
        }
        for (key, now) in counters.statements.iter().flatten() {
            let known = self.stretches.entry(key.clone()).or_insert((*now, None));
            let stretch = since(now, &known.0);
            if now.calls < known.0.calls {
                // The server's counts were reset.
                *known = (*now, None);
            } else if stretch.calls >= CALLS_LEAST {
                let after = per_call(&stretch);
                if let Some(before) = known.1.filter(|before| has_changed(before, &after)) {
                    self.changes.push(Change { key: key.clone(), at: counters.at, calls: (before, after) });
                }
                *known = (*now, Some(after));
            }
        }
        self.first.get_or_insert_with(|| counters.clone());
        self.last = Some(counters);
    }

    /// The first and the last counters; `None` if they were read at most once.
    pub fn ends(&self) -> Option<(&Counters, &Counters)> {
        let (first, last) = (self.first.as_ref()?, self.last.as_ref()?);
        (last.at > first.at).then_some((first, last))
    }

    /// The counts of each statement in between; `None` without `pg_stat_statements`.
    pub fn statements(&self) -> Option<BTreeMap<&CounterKey, StatementCounter>> {
        let (first, last) = self.ends()?;
        let before = first.statements.as_ref()?;
        let now = last.statements.as_ref()?;
        let zero = StatementCounter::default();
        // The server forgot a statement and began to count it again if it has fewer calls than before.
        let in_between = |key, now: &StatementCounter| {
            let then = before.get(key).filter(|then| then.calls <= now.calls).unwrap_or(&zero);
            since(now, then)
        };
        let all = now.iter().map(|(key, now)| (key, in_between(key, now)));
        Some(all.filter(|(_, counter)| counter.calls > 0).collect())
    }

    /// The query ids of the statements that took most time in between, at most `count`.
    pub(crate) fn longest(&self, count: usize) -> Vec<i64> {
        let mut all: Vec<_> = self.statements().unwrap_or_default().into_iter().collect();
        all.sort_by_key(|(_, counter)| Reverse(counter.time));
        all.iter().take(count).map(|(key, _)| key.query_id).collect()
    }

    /// Statements whose plan seems to have changed.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Tables that were observed during a vacuum.
    pub fn vacuums(&self) -> &[String] {
        &self.vacuums
    }

    /// Sessions that were not visible, at the end.
    pub fn unseen_sessions(&self) -> usize {
        self.last.as_ref().map_or(0, |last| last.unseen_sessions)
    }
}

fn since(now: &StatementCounter, then: &StatementCounter) -> StatementCounter {
    StatementCounter {
        calls: now.calls.saturating_sub(then.calls),
        time: now.time.saturating_sub(then.time),
        rows: now.rows.saturating_sub(then.rows),
        pages: now.pages.saturating_sub(then.pages),
    }
}

fn per_call(stretch: &StatementCounter) -> PerCall {
    let calls = stretch.calls as f64;
    PerCall {
        pages: stretch.pages as f64 / calls,
        rows: stretch.rows as f64 / calls,
        time_s: stretch.time.as_secs_f64() / calls,
    }
}

fn has_changed(before: &PerCall, after: &PerCall) -> bool {
    let factor = |a: f64, b: f64| a.max(b) / a.min(b).max(f64::MIN_POSITIVE);
    let has_pages = before.pages.max(after.pages) >= PAGES_LEAST;
    // Half a row is added so that statements without rows compare, too.
    let same_rows = factor(before.rows + 0.5, after.rows + 0.5) <= ROWS_FACTOR;
    has_pages && same_rows && factor(before.pages + 1.0, after.pages + 1.0) >= PAGES_FACTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(query_id: i64) -> CounterKey {
        CounterKey { user: "ann".to_owned(), database: "shop".to_owned(), query_id }
    }

    fn counters(at_s: u64, statements: &[(i64, u64, u64, u64)]) -> Counters {
        let counter = |&(id, calls, rows, pages): &(i64, u64, u64, u64)| {
            (key(id), StatementCounter { calls, rows, pages, time: Duration::from_millis(calls) })
        };
        let statements = Some(statements.iter().map(counter).collect());
        Counters { at: Duration::from_secs(at_s), statements, ..Counters::default() }
    }

    #[test]
    fn what_was_counted_in_between() {
        let mut counted = CounterHistory::default();
        counted.take(counters(1, &[(1, 100, 100, 300), (2, 5, 5, 5)]));
        assert_eq!(counted.statements(), None);
        counted.take(counters(11, &[(1, 400, 400, 1200), (2, 5, 5, 5), (3, 7, 0, 0)]));
        let all = counted.statements().unwrap();
        let calls: Vec<(i64, u64)> = all.iter().map(|(key, counter)| (key.query_id, counter.calls)).collect();
        assert_eq!(calls, [(1, 300), (3, 7)]);
    }

    #[test]
    fn more_pages_for_as_many_rows_are_another_plan() {
        let mut counted = CounterHistory::default();
        counted.take(counters(0, &[(1, 0, 0, 0), (2, 0, 0, 0), (3, 0, 0, 0)]));
        counted.take(counters(10, &[(1, 100, 100, 400), (2, 100, 100, 400), (3, 100, 100, 400)]));
        // 1 reads a hundred times the pages; 2 finds a hundred times the rows with them; 3 has too few calls to judge.
        counted.take(counters(20, &[(1, 200, 200, 40_400), (2, 200, 10_100, 40_400), (3, 105, 105, 4_000)]));
        let changed: Vec<(i64, u64)> =
            counted.changes().iter().map(|change| (change.key.query_id, change.at.as_secs())).collect();
        assert_eq!(changed, [(1, 20)]);
        assert_eq!((counted.changes()[0].calls.0.pages, counted.changes()[0].calls.1.pages), (4.0, 400.0));
    }

    #[test]
    fn counters_that_were_reset_are_no_change() {
        let mut counted = CounterHistory::default();
        counted.take(counters(0, &[(1, 1_000, 1_000, 4_000)]));
        counted.take(counters(10, &[(1, 2_000, 2_000, 8_000)]));
        counted.take(counters(20, &[(1, 50, 50, 50_000)]));
        assert_eq!(counted.changes(), []);
        assert_eq!(counted.statements().unwrap()[&key(1)].calls, 50);
    }

    #[test]
    fn vacuums_are_told_once() {
        let mut counted = CounterHistory::default();
        for phase in ["scanning heap", "vacuuming heap"] {
            counted.take(Counters { vacuums: vec![format!("public.t ({phase})")], ..Counters::default() });
        }
        assert_eq!(counted.vacuums(), ["public.t"]);
    }
}
