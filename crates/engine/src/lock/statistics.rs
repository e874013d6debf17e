//! The decisions of the lock table so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of an engine's lock table since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockStatistics {
    /// Transactions chosen as a deadlock's victim.
    pub deadlocks: u64,
    /// Transactions preempted at once, running or waiting (`Preempt`).
    pub preempted: u64,
    /// Transactions preempted because they were waiting themselves (`PreemptIfWaiting`).
    pub preempted_waiting: u64,
    /// Transactions preempted when their time was over (`PreemptAfter`).
    pub preempted_late: u64,
    /// Times that a transaction inherited a higher priority, or a higher CPU priority, from a waiter.
    pub inheritances: u64,
    /// Attempts that began with the highest priority because their work had been rolled back too often.
    pub promotions: u64,
    /// Transactions that were open when their connection was dropped: their client died, or forgot them.
    pub abandoned: u64,
    /// Times that the system refused a thread the nice value of its priority.
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
    /// Relaxed: the counts are independent of each other.
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
