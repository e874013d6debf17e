//! What the lock table has decided so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an engine's lock table has done since it was made. Counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockStatistics {
    /// Transactions chosen as a deadlock's victim.
    pub deadlocks: u64,
    /// Transactions preempted at once, running or waiting (`Preempt`).
    pub preempted: u64,
    /// Transactions preempted because they waited themselves (`PreemptIfWaiting`).
    pub preempted_waiting: u64,
    /// Transactions preempted when their time was over (`PreemptAfter`).
    pub preempted_late: u64,
    /// Times that a transaction was given a higher priority, or a higher CPU priority, by another that waits for it.
    pub inheritances: u64,
    /// Attempts that began with the highest priority because the work had been rolled back so often.
    pub promotions: u64,
    /// Transactions that were open when their connection was dropped: their client died, or forgot them.
    pub abandoned: u64,
    /// Times that the system did not let a thread have the nice value of its priority.
    pub nice_refused: u64,
}

/// The counters behind [`LockStatistics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) deadlocks: AtomicU64,
    pub(super) preempted: AtomicU64,
    pub(super) preempted_waiting: AtomicU64,
    pub(super) preempted_late: AtomicU64,
    pub(super) inheritances: AtomicU64,
    pub(super) promotions: AtomicU64,
    pub(super) abandoned: AtomicU64,
}

impl Counters {
    /// Relaxed: each count stands for itself.
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, nice_refused: u64) -> LockStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LockStatistics {
            deadlocks: read(&self.deadlocks),
            preempted: read(&self.preempted),
            preempted_waiting: read(&self.preempted_waiting),
            preempted_late: read(&self.preempted_late),
            inheritances: read(&self.inheritances),
            promotions: read(&self.promotions),
            abandoned: read(&self.abandoned),
            nice_refused,
        }
    }
}
