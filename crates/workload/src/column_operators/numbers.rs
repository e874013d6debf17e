//! Uniform random integers that follow from a seed, a column and a part of it.

use rand::RngExt;
use rand_pcg::Pcg64;

use crate::parts::{RowRange, parts};

/// A column of integers from 1 to `high`, each equally likely.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    /// The benchmark's seed.
    pub(super) seed: u64,
    /// Which of the benchmark's columns it is.
    pub(super) column: u64,
    pub(super) high: i32,
}

impl Numbers {
    pub(super) fn part(&self, part: RowRange) -> Vec<i32> {
        let stream = u128::from(self.column) << 64 | u128::from(part.number);
        let mut random = Pcg64::new(u128::from(self.seed), stream);
        (0..part.rows).map(|_| random.random_range(1..=self.high)).collect()
    }

    /// The first `rows` numbers.
    pub(super) fn all(self, rows: u64) -> impl Iterator<Item = i32> {
        parts(rows).flat_map(move |part| self.part(part))
    }
}

/// The stream of a client's own draws.
pub(super) fn client_random(seed: u64, number: usize) -> Pcg64 {
    // No column has this number.
    Pcg64::new(u128::from(seed), u128::from(u64::MAX) << 64 | number as u128)
}
