//! The cost of freshness, and how fresh the column copy is.

use std::time::Duration;

use plimsoll_policy::WaitCounts;

/// Counts of the delta of a set of tables since it began, and its current state. Differences of two readings give
/// rates.
///
/// A *tuple* is a row that a commit has changed; a row changed by two commits counts twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Commits published: the length of their order.
    pub commits: u64,
    /// Tuples published.
    pub published: u64,
    /// Tuples folded into the column copy.
    pub folded: u64,
    /// Time that all propagation threads together have spent on folding.
    pub fold_time: Duration,
    /// Propagation threads.
    pub threads: usize,
    /// Changed rows that queries have merged. A snapshot merges each row once per set of columns, for any number of
    /// queries, and only rows that have changed since an earlier snapshot that is still held.
    pub merged: u64,
    /// Time that the threads of all queries together have spent on merging before they could evaluate the merged rows.
    pub merge_time: Duration,
    /// Tuples published and not folded.
    pub lag_tuples: u64,
    /// Age of the oldest tuple that is published and not folded; zero if there is none.
    pub lag: Duration,
    /// Bytes of tuples that are not folded.
    pub delta_bytes: u64,
    /// The largest value of `delta_bytes` so far.
    pub delta_bytes_peak: u64,
    /// Bytes of folded tuples that a snapshot still holds.
    pub retained_bytes: u64,
    /// Replaced chunk versions that a snapshot still holds. A count.
    pub old_versions: usize,
    /// Commits that had to wait for room or for a blocking propagation. A count.
    pub stalls: u64,
    /// Commits published when the delta was full. A count.
    pub overruns: u64,
    /// How long commits waited for the inbox's lock because a snapshot, a fold or another commit held it. Waits for
    /// room and for the end of a blocking propagation are `stalls` and are not included.
    pub waits: WaitCounts,
    /// Tuples that a query which begins now reads, folded or not.
    pub readable: u64,
}

impl Freshness {
    /// `mu`: tuples folded per second while all propagation threads work, since an earlier reading; `None` if they have
    /// not worked.
    pub fn folded_per_s(&self, earlier: &Freshness) -> Option<f64> {
        let by_thread = ratio(self.folded - earlier.folded, self.fold_time.saturating_sub(earlier.fold_time))?;
        Some(by_thread * self.threads as f64)
    }

    /// `mu'`: tuples merged per second while `degree` query threads merge, since an earlier reading; `None` if they
    /// have not merged.
    pub fn merged_per_s(&self, earlier: &Freshness, degree: usize) -> Option<f64> {
        let by_thread = ratio(self.merged - earlier.merged, self.merge_time.saturating_sub(earlier.merge_time))?;
        Some(by_thread * degree as f64)
    }
}

fn ratio(count: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| count as f64 / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_time_between_two_readings() {
        let earlier = Freshness { folded: 50, fold_time: Duration::from_secs(1), ..Freshness::default() };
        let later = Freshness {
            folded: 150,
            fold_time: Duration::from_secs(2),
            threads: 2,
            merged: 80,
            merge_time: Duration::from_secs(4),
            ..Freshness::default()
        };
        assert_eq!(later.folded_per_s(&earlier), Some(200.0), "two threads, each 100 per second of its work");
        assert_eq!(later.merged_per_s(&earlier, 4), Some(80.0));
        assert_eq!(later.merged_per_s(&later, 4), None, "nothing was merged");
    }
}
