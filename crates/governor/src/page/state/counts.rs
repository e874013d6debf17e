//! Counts of a class: in a window of time, and since the governor began.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::seconds;
use crate::history;
use crate::page::aborted::Aborted;
use crate::statistics::ClassStatistics;

/// What happened within some seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowState {
    /// How long that was really: less while the governor is young.
    pub seconds: f64,
    /// Transactions that ended, a second.
    pub transactions_per_s: f64,
    /// Units (queries, or all up to a Sync) that ended, a second.
    pub units_per_s: f64,
    /// Errors that clients were sent, a second.
    pub errors_per_s: f64,
    /// Transactions rolled back for others, a second.
    pub preempted_per_s: f64,
    /// Times of transactions, waiting to be let in included.
    pub transaction: Times,
    /// Times of units.
    pub unit: Times,
    /// Waiting to be let in, of those that had to.
    pub queue: Times,
}

/// Times of whatever it is; null where there was nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean_s: Option<f64>,
    /// The median, to 3 %.
    pub p50_s: Option<f64>,
    /// The 95th percentile, to 3 %.
    pub p95_s: Option<f64>,
    /// The 99th percentile, to 3 %.
    pub p99_s: Option<f64>,
}

/// What was counted since the governor began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Transactions that ended, whichever way.
    pub transactions: u64,
    /// Units (queries, or all up to a Sync) that ended.
    pub units: u64,
    /// Errors that clients were sent.
    pub errors: u64,
    /// Transactions that had to wait to be let in.
    pub queued: u64,
    /// Transactions refused because the queue was full.
    pub refused_full: u64,
    /// Transactions refused because they had waited too long.
    pub refused_timeout: u64,
    /// Transactions rolled back for others while they waited for a lock.
    pub preempted_waiting: u64,
    /// Transactions rolled back for others while they ran.
    pub preempted_running: u64,
    /// Transactions rolled back for others while they waited for their client.
    pub preempted_idle: u64,
    /// Preemptions without effect: the victim had moved on.
    pub preempted_too_late: u64,
    /// Work of the class that was thrown away by these.
    #[serde(default)]
    pub rollback_lost_s: f64,
    /// Waiting that rollbacks of others have saved the class, as expected when they were decided.
    #[serde(default)]
    pub rollback_won_s: f64,
    /// Transactions that were left alone because their rollback would have cost more than it saves.
    #[serde(default)]
    pub rollbacks_spared: u64,
    /// Rollbacks after which the transaction that they were meant to help still waited, for another one.
    #[serde(default)]
    pub rollbacks_in_vain: u64,
    /// Preemptions that were decided and, by `track`, not done.
    pub preemptions_tracked: u64,
    /// Replays that came out the same.
    pub replays_verified: u64,
    /// Replays in which an answer differed; the client got 40001.
    pub replays_differed: u64,
    /// Rolled back and not replayed, for that was not safe; the client got 40001.
    pub replays_unsafe: u64,
    /// Transactions that the server failed (deadlock, serialization) or that were rolled back to break a deadlock, by what became
    /// of them; only what has happened.
    #[serde(default)]
    pub aborts: Vec<Aborted>,
    /// Sessions ended because a transaction waited for its client for too long.
    pub idle_ended: u64,
}

impl WindowState {
    pub(super) fn of(window: &history::Window) -> Self {
        let counts = &window.counts;
        WindowState {
            seconds: seconds(window.length),
            transactions_per_s: window.rate(counts.transactions),
            units_per_s: window.rate(counts.units),
            errors_per_s: window.rate(counts.errors),
            preempted_per_s: window.rate(counts.preempted),
            transaction: Times::of(&counts.transaction_times),
            unit: Times::of(&counts.unit_times),
            queue: Times::of(&counts.queue_times),
        }
    }
}

impl Times {
    pub(super) fn of(counts: &crate::statistics::Counts) -> Self {
        let percentile = |share| counts.percentile(share).map(seconds);
        Times {
            count: counts.count(),
            mean_s: counts.mean().map(seconds),
            p50_s: percentile(0.5),
            p95_s: percentile(0.95),
            p99_s: percentile(0.99),
        }
    }
}

impl Totals {
    pub(super) fn of(class: &ClassStatistics) -> Self {
        Totals {
            transactions: class.transactions.load(Relaxed),
            units: class.units.load(Relaxed),
            errors: class.errors.load(Relaxed),
            queued: class.queued.load(Relaxed),
            refused_full: class.refused_full.load(Relaxed),
            refused_timeout: class.refused_timeout.load(Relaxed),
            preempted_waiting: class.preempted_waiting.load(Relaxed),
            preempted_running: class.preempted_running.load(Relaxed),
            preempted_idle: class.preempted_idle.load(Relaxed),
            preempted_too_late: class.preempted_too_late.load(Relaxed),
            rollback_lost_s: seconds(Duration::from_nanos(class.rollback_lost_nanos.load(Relaxed))),
            rollback_won_s: seconds(Duration::from_nanos(class.rollback_won_nanos.load(Relaxed))),
            rollbacks_spared: class.rollbacks_spared.load(Relaxed),
            rollbacks_in_vain: class.rollbacks_in_vain.load(Relaxed),
            preemptions_tracked: class.preemptions_tracked.load(Relaxed),
            replays_verified: class.replays_verified.load(Relaxed),
            replays_differed: class.replays_differed.load(Relaxed),
            replays_unsafe: class.replays_unsafe.load(Relaxed),
            aborts: class.aborts.counted().map(Aborted::of).collect(),
            idle_ended: class.idle_ended.load(Relaxed),
        }
    }
}
