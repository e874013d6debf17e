//! Clients' counts of their own work, for checks to compare with the data.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// How many tallies there are; clients are spread over them so that they do not write the same cache line.
const TALLIES: usize = 32;

/// The tallies of all clients of a benchmark. A tally should be aligned to 128 bytes.
#[derive(Debug)]
pub(crate) struct Tallies<T>(Vec<T>);

impl<T: Default> Default for Tallies<T> {
    /// Nothing counted.
    fn default() -> Self {
        Tallies((0..TALLIES).map(|_| T::default()).collect())
    }
}

impl<T> Tallies<T> {
    /// Where the client of that number counts.
    pub(crate) fn of(&self, client: usize) -> &T {
        &self.0[client % TALLIES]
    }

    /// A count of all clients.
    pub(crate) fn sum(&self, count: impl Fn(&T) -> &AtomicU64) -> u64 {
        self.0.iter().map(|tally| count(tally).load(Ordering::Relaxed)).sum()
    }

    /// The same of a count that may be negative.
    pub(crate) fn signed_sum(&self, count: impl Fn(&T) -> &AtomicI64) -> i64 {
        self.0.iter().map(|tally| count(tally).load(Ordering::Relaxed)).sum()
    }
}

/// Adds to a count. Relaxed: counts order no other data, and are read after the clients have ended.
pub(crate) fn add(count: &AtomicU64, number: u64) {
    count.fetch_add(number, Ordering::Relaxed);
}
