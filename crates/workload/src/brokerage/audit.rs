//! The work of completed transactions, for the check to compare with the mix and the data.

use std::sync::atomic::AtomicU64;

use super::request::{DRAWS, Kind, MIX, NAMES};
use crate::benchmark::CheckLine;
use crate::share::share;
use crate::tallies::{Tallies, add};

/// The tallies of all clients of a benchmark.
pub(super) type Audit = Tallies<Tally>;

/// Counts of some clients' transactions.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Tally {
    completed: [AtomicU64; NAMES.len()],
    /// Trade-Orders that customers took back.
    rolled_back: AtomicU64,
}

impl Tally {
    pub(super) fn completed(&self, kind: Kind) {
        add(&self.completed[kind as usize], 1);
    }

    pub(super) fn rolled_back(&self) {
        add(&self.rolled_back, 1);
    }
}

impl Audit {
    /// How many transactions of a kind have been completed.
    pub(super) fn done(&self, kind: Kind) -> u64 {
        self.sum(|tally| &tally.completed[kind as usize])
    }

    fn taken_back(&self) -> u64 {
        self.sum(|tally| &tally.rolled_back)
    }

    /// The mix that customers drew, against the specified one.
    pub(super) fn judge_mix(&self) -> Vec<CheckLine> {
        let drawn = |kind| match kind {
            Kind::TradeOrder => self.done(kind) + self.taken_back(),
            _ => self.done(kind),
        };
        let all: u64 = MIX.iter().map(|(kind, _)| drawn(*kind)).sum();
        if all == 0 {
            return Vec::new();
        }
        let line = |&(kind, of): &(Kind, i64)| {
            share(format!("mix: {}", NAMES[kind as usize]), drawn(kind), all, of as f64 / DRAWS as f64)
        };
        let mut lines: Vec<_> = MIX.iter().map(line).collect();
        let what = "mix: trade_orders taken back".to_owned();
        lines.push(share(what, self.taken_back(), drawn(Kind::TradeOrder), 0.01));
        lines
    }
}
