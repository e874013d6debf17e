//! Replication: how far a standby is behind, and what holds it up.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::results::{Conflicts, Replication, StandbyHere, StandbySeen};

/// A reading at a standby.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StandbyRow {
    /// Position in the log up to which it was received, bytes; `None` if it comes from an archive.
    pub received: Option<f64>,
    /// Position up to which it was replayed.
    pub replayed: Option<f64>,
    /// Age of the last transaction that was replayed; 0 if everything received was.
    pub lag_s: Option<f64>,
    /// Whether replay is paused.
    pub is_paused: bool,
    /// What replay waits for; `None` if it runs.
    pub waits_for: Option<String>,
    /// Queries that were cancelled for replay so far, by kind.
    pub conflicts: BTreeMap<String, u64>,
}

/// A standby, as its primary sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SenderRow {
    /// Its application name.
    pub name: String,
    /// `async`, `sync`, …
    pub sync_state: String,
    /// Bytes that it has not replayed yet.
    pub lag_bytes: Option<f64>,
    /// Time from a flush here to replay there; `None` if it is idle.
    pub replay_lag_s: Option<f64>,
}

/// All readings.
#[derive(Debug, Default)]
pub(crate) struct ReplicationHistory {
    first: Option<(Duration, StandbyRow)>,
    last: Option<(Duration, StandbyRow)>,
    lag_bytes_max: Option<f64>,
    lag_s_max: Option<f64>,
    waits: BTreeMap<String, usize>,
    readings: usize,
    standbys: BTreeMap<String, StandbySeen>,
}

/// What replay waits for while it has nothing to do.
const IDLE: [&str; 2] = ["Activity:RecoveryWalStream", "Activity:RecoveryWalAll"];

fn most(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}

fn lag_bytes(row: &StandbyRow) -> Option<f64> {
    row.received.zip(row.replayed).map(|(received, replayed)| (received - replayed).max(0.0))
}

impl ReplicationHistory {
    pub(crate) fn take_standby(&mut self, at: Duration, row: StandbyRow) {
        self.lag_bytes_max = most(self.lag_bytes_max, lag_bytes(&row));
        self.lag_s_max = most(self.lag_s_max, row.lag_s);
        self.readings += 1;
        let wait = row.waits_for.clone().unwrap_or_else(|| "(runs)".to_owned());
        let wait = if IDLE.contains(&wait.as_str()) { "(nothing to replay)".to_owned() } else { wait };
        *self.waits.entry(wait).or_default() += 1;
        self.first.get_or_insert_with(|| (at, row.clone()));
        self.last = Some((at, row));
    }

    pub(crate) fn take_senders(&mut self, rows: Vec<SenderRow>) {
        for row in rows {
            let seen = self.standbys.entry(row.name.clone()).or_insert_with(|| StandbySeen {
                name: row.name.clone(),
                sync_state: String::new(),
                lag_bytes: None,
                lag_bytes_max: None,
                replay_lag_s: None,
                replay_lag_s_max: None,
            });
            seen.lag_bytes_max = most(seen.lag_bytes_max, row.lag_bytes);
            seen.replay_lag_s_max = most(seen.replay_lag_s_max, row.replay_lag_s);
            (seen.sync_state, seen.lag_bytes, seen.replay_lag_s) = (row.sync_state, row.lag_bytes, row.replay_lag_s);
        }
    }

    pub(crate) fn results(&self) -> Replication {
        Replication { standby: self.standby(), standbys: self.standbys.values().cloned().collect() }
    }

    fn standby(&self) -> Option<StandbyHere> {
        let ((began, first), (ended, last)) = (self.first.as_ref()?, self.last.as_ref()?);
        let seconds = ended.saturating_sub(*began).as_secs_f64();
        let rate = |of: fn(&StandbyRow) -> Option<f64>| {
            of(last).zip(of(first)).filter(|_| seconds > 0.0).map(|(now, then)| (now - then).max(0.0) / seconds)
        };
        let more = |(kind, now): (&String, &u64)| Conflicts {
            kind: kind.clone(),
            count: now.saturating_sub(first.conflicts.get(kind).copied().unwrap_or(0)),
        };
        let share = |(what, count): (&String, &usize)| (what.clone(), *count as f64 / self.readings as f64);
        let mut replay: Vec<(String, f64)> = self.waits.iter().map(share).collect();
        replay.sort_by(|one, other| other.1.total_cmp(&one.1));
        Some(StandbyHere {
            received_bytes_per_s: rate(|row| row.received),
            replayed_bytes_per_s: rate(|row| row.replayed),
            lag_bytes: lag_bytes(last),
            lag_bytes_max: self.lag_bytes_max,
            lag_s: last.lag_s,
            lag_s_max: self.lag_s_max,
            paused: last.is_paused,
            replay,
            conflicts: last.conflicts.iter().map(more).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_between_readings() {
        let mut history = ReplicationHistory::default();
        assert_eq!(history.results(), Replication { standby: None, standbys: Vec::new() });
        let row = |received: f64, replayed: f64, lag_s, waits_for: Option<&str>, snapshots| StandbyRow {
            received: Some(received),
            replayed: Some(replayed),
            lag_s: Some(lag_s),
            is_paused: false,
            waits_for: waits_for.map(str::to_owned),
            conflicts: BTreeMap::from([("snapshot".to_owned(), snapshots)]),
        };
        history.take_standby(Duration::from_secs(1), row(1_000.0, 900.0, 0.5, None, 3));
        history
            .take_standby(Duration::from_secs(3), row(9_000.0, 4_000.0, 2.5, Some("IPC:RecoveryConflictSnapshot"), 3));
        history.take_standby(Duration::from_secs(5), row(9_000.0, 8_900.0, 0.0, Some("Activity:RecoveryWalStream"), 5));
        let found = history.results().standby.unwrap();
        assert_eq!((found.received_bytes_per_s, found.replayed_bytes_per_s), (Some(2_000.0), Some(2_000.0)));
        assert_eq!((found.lag_bytes, found.lag_bytes_max), (Some(100.0), Some(5_000.0)));
        assert_eq!((found.lag_s, found.lag_s_max), (Some(0.0), Some(2.5)));
        assert_eq!(found.conflicts, [Conflicts { kind: "snapshot".to_owned(), count: 2 }]);
        let shares: Vec<&str> = found.replay.iter().map(|(what, _)| what.as_str()).collect();
        assert_eq!(shares, ["(nothing to replay)", "(runs)", "IPC:RecoveryConflictSnapshot"]);
    }

    #[test]
    fn the_standbys_of_a_primary() {
        let mut history = ReplicationHistory::default();
        let row = |lag_bytes, replay_lag_s| SenderRow {
            name: "one".to_owned(),
            sync_state: "async".to_owned(),
            lag_bytes: Some(lag_bytes),
            replay_lag_s,
        };
        history.take_senders(vec![row(500.0, Some(0.3))]);
        history.take_senders(vec![row(20.0, None)]);
        let [found] = &history.results().standbys[..] else { panic!("one") };
        assert_eq!((found.lag_bytes, found.lag_bytes_max), (Some(20.0), Some(500.0)));
        assert_eq!((found.replay_lag_s, found.replay_lag_s_max), (None, Some(0.3)));
    }
}
