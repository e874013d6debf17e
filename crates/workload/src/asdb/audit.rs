//! What the completed transactions were and did, for the check to hold against the mix and the data.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::request::{HEAVY_ENTRIES, LITE_ENTRIES, MIX, REVISED, Request, TRANSACTIONS, TransactionKind};
use crate::benchmark::CheckLine;
use crate::share::share;

/// How many tallies there are; clients are spread over them so that they do not write the same cache line.
const TALLIES: usize = 32;

/// The tallies of all clients of a benchmark.
#[derive(Debug)]
pub(super) struct Audit {
    tallies: Vec<Tally>,
}

/// Counts of some clients' completed transactions.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Tally {
    completed: [AtomicU64; TRANSACTIONS.len()],
    /// Hundredths added to balances.
    added: AtomicI64,
    /// Entries deleted; how many were inserted follows from the transactions.
    deleted: AtomicU64,
}

impl Tally {
    /// Counts a transaction. Relaxed: counts order nothing, and are read when the clients are done.
    pub(super) fn completed(&self, kind: TransactionKind, request: &Request, deleted: u64) {
        self.completed[kind as usize].fetch_add(1, Ordering::Relaxed);
        if let Request::UpdateLite { amount, .. } = request {
            self.added.fetch_add(*amount, Ordering::Relaxed);
        }
        if deleted > 0 {
            self.deleted.fetch_add(deleted, Ordering::Relaxed);
        }
    }
}

/// What all clients together have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    completed: [u64; TRANSACTIONS.len()],
    /// Updates of balances.
    pub(super) updates: i64,
    /// Hundredths added to balances.
    pub(super) added: i64,
    /// Revisions of documents.
    pub(super) revisions: i64,
    /// Entries inserted.
    pub(super) inserted: i64,
    /// Entries deleted.
    pub(super) deleted: i64,
}

impl Audit {
    /// Nothing counted.
    pub(super) fn new() -> Self {
        Audit { tallies: (0..TALLIES).map(|_| Tally::default()).collect() }
    }

    /// Where the client of that number counts.
    pub(super) fn tally(&self, client: usize) -> &Tally {
        &self.tallies[client % TALLIES]
    }

    /// What all clients together have done.
    pub(super) fn done(&self) -> Done {
        let completed: [u64; TRANSACTIONS.len()] = std::array::from_fn(|kind| {
            self.tallies.iter().map(|tally| tally.completed[kind].load(Ordering::Relaxed)).sum()
        });
        let of = |kind: TransactionKind| completed[kind as usize] as i64;
        let deleted = self.tallies.iter().map(|tally| tally.deleted.load(Ordering::Relaxed)).sum::<u64>();
        Done {
            completed,
            updates: of(TransactionKind::UpdateLite),
            added: self.tallies.iter().map(|tally| tally.added.load(Ordering::Relaxed)).sum(),
            revisions: of(TransactionKind::UpdateHeavy) * REVISED as i64,
            inserted: of(TransactionKind::InsertLite) * LITE_ENTRIES as i64
                + of(TransactionKind::InsertHeavy) * HEAVY_ENTRIES as i64,
            deleted: deleted as i64,
        }
    }
}

impl Done {
    /// Whether nothing was done.
    pub(super) fn is_nothing(&self) -> bool {
        self.completed.iter().sum::<u64>() == 0
    }

    /// The mix that was drawn, against the one that was described.
    pub(super) fn judge_mix(&self) -> Vec<CheckLine> {
        let all = self.completed.iter().sum();
        let line = |(kind, percent)| {
            let name = TRANSACTIONS[kind as usize];
            share(format!("mix: {name}"), self.completed[kind as usize], all, f64::from(percent) / 100.0)
        };
        MIX.into_iter().map(line).collect()
    }
}
