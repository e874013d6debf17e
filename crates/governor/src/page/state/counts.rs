//! Counts of a class: in a window of time, and since the governor began.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::seconds;
use crate::history;
use crate::statistics::{ClassStatistics, ClassTotals};

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

/// Percentiles of a kind of time; null if none was measured.
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
    /// Counts.
    #[serde(flatten)]
    pub counts: ClassTotals,
    /// Work of the class that was thrown away by rollbacks for others.
    #[serde(default)]
    pub rollback_lost_s: f64,
    /// Waiting that rollbacks of others have saved the class, as expected when they were decided.
    #[serde(default)]
    pub rollback_won_s: f64,
    /// Transactions that the server failed (deadlock, serialization) or that were rolled back to break a deadlock, by what became
    /// of them; only what has happened.
    #[serde(default)]
    pub aborts: Vec<Aborted>,
}

/// How many transactions were aborted for a cause, and what became of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aborted {
    /// `deadlock` or `serialization` by the server, `cycle` by the governor.
    pub cause: String,
    /// `replayed`, `again`, `differed`, `unconfirmed`, `abandoned`, or why it was not replayed.
    pub outcome: String,
    /// How many.
    pub count: u64,
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
        let aborts = class.aborts.counted().map(|(cause, outcome, count)| Aborted {
            cause: cause.name().to_owned(),
            outcome: outcome.name().to_owned(),
            count,
        });
        Totals {
            counts: class.totals(),
            rollback_lost_s: seconds(Duration::from_nanos(class.rollback_lost_nanos.load(Relaxed))),
            rollback_won_s: seconds(Duration::from_nanos(class.rollback_won_nanos.load(Relaxed))),
            aborts: aborts.collect(),
        }
    }
}
