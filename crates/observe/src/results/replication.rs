//! Replication, as it is written to `results.json`.

use serde::{Deserialize, Serialize};

/// Replication.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Replication {
    /// This server as a standby; null on a primary.
    pub standby: Option<StandbyHere>,
    /// The standbys that receive from this server.
    pub standbys: Vec<StandbySeen>,
}

/// A server that is a standby.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandbyHere {
    /// Bytes of the log received per second; null if they come from an archive.
    pub received_bytes_per_s: Option<f64>,
    /// Bytes of the log replayed per second.
    pub replayed_bytes_per_s: Option<f64>,
    /// Bytes that were received and not replayed, at the end.
    pub lag_bytes: Option<f64>,
    /// The most of them at a reading.
    pub lag_bytes_max: Option<f64>,
    /// Age of the last replayed transaction at the end; 0 if everything received was replayed.
    pub lag_s: Option<f64>,
    /// The most of it at a reading.
    pub lag_s_max: Option<f64>,
    /// Whether replay was paused at the end.
    pub paused: bool,
    /// What replay did, by readings: parts of 1.
    pub replay: Vec<(String, f64)>,
    /// Queries that were cancelled for replay.
    pub conflicts: Vec<Conflicts>,
}

/// Queries that were cancelled for replay, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflicts {
    /// The reason: `snapshot`, `lock`, …
    pub kind: String,
    /// How many.
    pub count: u64,
}

/// A standby as its primary sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandbySeen {
    /// Its application name.
    pub name: String,
    /// `async`, `sync`, `potential` or `quorum`.
    pub sync_state: String,
    /// Bytes that it had not replayed at the end.
    pub lag_bytes: Option<f64>,
    /// The most of them at a reading.
    pub lag_bytes_max: Option<f64>,
    /// From a flush here to replay there, at the end; null if it was idle.
    pub replay_lag_s: Option<f64>,
    /// The most of it at a reading.
    pub replay_lag_s_max: Option<f64>,
}
