//! A look: one statement ([`LOOK`](super::statements::LOOK)) that asks the server which sessions wait for which.
//!
//! It begins with late sessions and follows their blockers. `pg_blocking_pids` knows the queues of locks, which no join
//! of `pg_locks` can see, and costs little for a process that does not wait. The statement visits processes first and
//! asks for pairs afterwards: that asks twice for each process, but not for each pair. The README lists the cost of
//! other ways.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::WireError;

use super::control::Up;
use crate::registry::SessionCard;
use crate::statement::patience::{Timeouts, timeout, timeouts_among};

/// Which processes wait for which.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Looked {
    /// Processes that wait, each with its blockers, sorted and without duplicates; 0 is a prepared transaction.
    pub waits: BTreeMap<i32, Vec<i32>>,
    /// The server's clock, seconds since 1970; 0 if no session waits.
    pub at: f64,
    /// Whether commits may wait for standbys, and so must not be cancelled.
    pub commits_wait: bool,
}

impl Looked {
    /// Every process that waits or is waited for, sorted.
    pub(super) fn processes(&self) -> Vec<i32> {
        let mut all: Vec<i32> =
            self.waits.iter().flat_map(|(pid, blockers)| blockers.iter().chain([pid])).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The links of a shortest chain from a waiter to a blocker, as (waiter, blocker); `None` if they are not
    /// connected.
    pub(super) fn chain(&self, waiter: i32, blocker: i32) -> Option<Vec<(i32, i32)>> {
        let mut reached_from: BTreeMap<i32, i32> = BTreeMap::new();
        let mut todo = std::collections::VecDeque::from([waiter]);
        while let Some(at) = todo.pop_front() {
            for &next in self.waits.get(&at).into_iter().flatten() {
                if next != waiter && !reached_from.contains_key(&next) {
                    reached_from.insert(next, at);
                    todo.push_back(next);
                }
            }
        }
        let mut links = Vec::new();
        let mut at = blocker;
        while at != waiter {
            let from = *reached_from.get(&at)?;
            links.push((from, at));
            at = from;
        }
        links.reverse();
        Some(links)
    }
}

pub(super) fn look(up: &mut Up, from: &[i32]) -> Result<Looked, WireError> {
    let mut looked = Looked::default();
    up.connection.prepared_text_rows(&up.look, &[&array(from)], &mut |row| {
        let [Some(pid), Some(blockers), Some(at), Some(commits_wait)] = row else { return };
        let mut blockers = read_array(blockers);
        blockers.sort_unstable();
        blockers.dedup();
        if let Ok(pid) = pid.parse() {
            // A process may be reached in two ways while its blockers change.
            looked.waits.insert(pid, blockers);
        }
        looked.at = at.parse().unwrap_or(0.0);
        looked.commits_wait = *commits_wait != "f";
    })?;
    Ok(looked)
}

/// Which of these processes hold an advisory lock.
pub(super) fn advisory_holders(up: &mut Up, processes: &[i32]) -> Result<BTreeSet<i32>, WireError> {
    let mut holders = BTreeSet::new();
    up.connection.prepared_text_rows(&up.advisory, &[&array(processes)], &mut |row| {
        if let [Some(pid)] = row {
            holders.extend(pid.parse::<i32>());
        }
    })?;
    Ok(holders)
}

/// The lock that each of these processes waits for: equal texts are the same lock.
pub(super) fn waited_for(up: &mut Up, processes: &[i32]) -> Result<BTreeMap<i32, String>, WireError> {
    let mut locks = BTreeMap::new();
    up.connection.prepared_text_rows(&up.waited_for, &[&array(processes)], &mut |row| {
        if let &[Some(pid), Some(lock)] = row {
            locks.extend(pid.parse::<i32>().map(|pid| (pid, lock.to_owned())));
        }
    })?;
    Ok(locks)
}

/// What may end a session's waiting without a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WayOut {
    /// Its database has code that catches errors, or sets timeouts.
    pub catches: bool,
    /// How long the server lets it wait before it looks for a deadlock.
    pub deadlock_timeout: Duration,
}

/// The ways out of the processes. One that the server does not report, or whose database cannot be asked, has an unknown one.
pub(super) fn ways_out(up: &mut Up, processes: &[i32], now: Instant) -> Result<BTreeMap<i32, WayOut>, WireError> {
    let (mut ways_out, mut elsewhere) = (BTreeMap::new(), BTreeMap::<String, Vec<i32>>::new());
    up.connection.prepared_text_rows(&up.gives_up, &[&array(processes)], &mut |row| match *row {
        [Some(pid), _, _, Some(database)] => {
            elsewhere.entry(database.to_owned()).or_default().extend(pid.parse::<i32>())
        }
        _ => ways_out.extend(way_out(row)),
    })?;
    for (database, processes) in elsewhere {
        up.elsewhere.gives_up(&database, &array(&processes), now, &mut |row| ways_out.extend(way_out(row)));
    }
    Ok(ways_out)
}

/// A process of the database that was asked, and its way out.
fn way_out(row: &[Option<&str>]) -> Option<(i32, WayOut)> {
    let &[Some(pid), Some(catches), Some(deadlock_timeout), None] = row else { return None };
    let deadlock_timeout = timeout(deadlock_timeout.as_bytes())?;
    Some((pid.parse().ok()?, WayOut { catches: catches != "f", deadlock_timeout }))
}

/// The shortest timeouts of the processes by default: of their roles and databases, and in the server's configuration.
fn default_timeouts(up: &mut Up, processes: &[i32]) -> Result<BTreeMap<i32, Timeouts>, WireError> {
    let mut timeouts = BTreeMap::new();
    let (mut read_at, mut of_server) = up.timeouts.clone();
    up.connection.prepared_text_rows(&up.default_timeouts, &[&array(processes), &read_at.clone()], &mut |row| {
        let &[Some(pid), Some(settings), Some(now_read_at), lines] = row else { return };
        if let Some(lines) = lines {
            (read_at, of_server) = (now_read_at.to_owned(), timeouts_among(lines.lines().map(str::as_bytes)));
        }
        let own = timeouts_among(settings.lines().map(str::as_bytes));
        timeouts.extend(pid.parse::<i32>().map(|pid| (pid, own.and(of_server))));
    })?;
    up.timeouts = (read_at, of_server);
    Ok(timeouts)
}

/// How long the default timeouts of a session are known: a change of the server's configuration may change them.
const TIMEOUTS_KNOWN_FOR: Duration = Duration::from_secs(60);

/// Asks for the default timeouts of the sessions that were not asked about lately.
pub(super) fn ask_timeouts(up: &mut Up, cards: &[(i32, Arc<SessionCard>)], now: Instant) -> Result<(), WireError> {
    let is_old = |asked: Instant| now.saturating_duration_since(asked) > TIMEOUTS_KNOWN_FOR;
    let is_unknown =
        |card: &SessionCard| !card.is_direct() && card.state().default_timeouts.is_none_or(|(_, asked)| is_old(asked));
    let unknown: Vec<_> = cards.iter().filter(|(_, card)| is_unknown(card)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let processes: Vec<i32> = unknown.iter().map(|(process, _)| *process).collect();
    let found = default_timeouts(up, &processes)?;
    for (process, card) in unknown {
        // Of a process that the server does not report, nothing is known.
        let timeouts = found.get(process).copied().unwrap_or(Timeouts::UNKNOWN);
        card.state().default_timeouts = Some((timeouts, now));
    }
    Ok(())
}

/// An array in the form that PostgreSQL reads.
pub(super) fn array<T: std::fmt::Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    format!("{{{}}}", values.join(","))
}

/// An array of numbers in the form that PostgreSQL writes.
pub(super) fn read_array(text: &str) -> Vec<i32> {
    text.trim_matches(['{', '}']).split(',').filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_written_and_read() {
        assert_eq!((array(&[1, 20]), array::<i32>(&[])), ("{1,20}".to_owned(), "{}".to_owned()));
        assert_eq!((read_array("{1,0,20}"), read_array("{}")), (vec![1, 0, 20], vec![]));
        assert_eq!(array(&[true, false]), "{true,false}");
    }

    #[test]
    fn the_shortest_chain_is_found_also_among_circles() {
        let waits = [(1, vec![2, 3]), (2, vec![3]), (3, vec![4, 1]), (5, vec![0])];
        let looked = Looked { waits: waits.into_iter().collect(), ..Looked::default() };
        assert_eq!(looked.chain(1, 4), Some(vec![(1, 3), (3, 4)]));
        assert_eq!(looked.chain(2, 2), Some(vec![]));
        assert_eq!(looked.chain(3, 2), Some(vec![(3, 1), (1, 2)]));
        assert_eq!(looked.chain(4, 1), None);
        assert_eq!(looked.chain(5, 4), None);
        assert_eq!(looked.processes(), [0, 1, 2, 3, 4, 5]);
    }
}
