//! Counts of work that ended, by which measurements are compared.

use std::ops::AddAssign;
use std::time::Duration;

/// Transactions that ended, and their total time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedWork {
    /// How many.
    pub count: u64,
    /// The sum of their times.
    pub time: Duration,
}

impl AddAssign for EndedWork {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.time += more.time;
    }
}

impl EndedWork {
    /// The part that is not in an earlier sum.
    #[must_use]
    pub fn since(self, before: EndedWork) -> EndedWork {
        EndedWork { count: self.count - before.count, time: self.time.saturating_sub(before.time) }
    }
}
