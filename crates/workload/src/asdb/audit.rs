//! The input and the work of completed transactions, for the check to compare with the mix and the data.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::request::{HEAVY_ENTRIES, LITE_ENTRIES, MIX, REVISED, Request, TransactionKind};
use crate::benchmark::CheckLine;
use crate::share::share;
use crate::tallies::{Tallies, add};

/// The tallies of all clients of a benchmark.
pub(super) type Audit = Tallies<Tally>;

/// Counts of some clients' completed transactions.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Tally {
    completed: [AtomicU64; MIX.len()],
    /// Hundredths added to balances.
    added: AtomicI64,
    /// Entries deleted; how many were inserted follows from the transactions.
    deleted: AtomicU64,
}

impl Tally {
    /// Counts a transaction.
    pub(super) fn completed(&self, kind: TransactionKind, request: &Request, deleted: u64) {
        add(&self.completed[kind as usize], 1);
        if let Request::UpdateLite { amount, .. } = request {
            self.added.fetch_add(*amount, Ordering::Relaxed);
        }
        if deleted > 0 {
            add(&self.deleted, deleted);
        }
    }
}

/// The work of all clients together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkDone {
    completed: [u64; MIX.len()],
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
    /// The work of all clients together.
    pub(super) fn done(&self) -> WorkDone {
        let completed: [u64; MIX.len()] = std::array::from_fn(|kind| self.sum(|tally| &tally.completed[kind]));
        let of = |kind: TransactionKind| completed[kind as usize] as i64;
        WorkDone {
            completed,
            updates: of(TransactionKind::UpdateLite),
            added: self.signed_sum(|tally| &tally.added),
            revisions: of(TransactionKind::UpdateHeavy) * REVISED as i64,
            inserted: of(TransactionKind::InsertLite) * LITE_ENTRIES as i64
                + of(TransactionKind::InsertHeavy) * HEAVY_ENTRIES as i64,
            deleted: self.sum(|tally| &tally.deleted) as i64,
        }
    }
}

impl WorkDone {
    /// Whether nothing was done.
    pub(super) fn is_nothing(&self) -> bool {
        self.completed.iter().sum::<u64>() == 0
    }

    /// The mix that was drawn, against the one that was described.
    pub(super) fn judge_mix(&self) -> Vec<CheckLine> {
        let all = self.completed.iter().sum();
        let line = |(kind, name, percent): (TransactionKind, &str, u32)| {
            share(format!("mix: {name}"), self.completed[kind as usize], all, f64::from(percent) / 100.0)
        };
        MIX.into_iter().map(line).collect()
    }
}
