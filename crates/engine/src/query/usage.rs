//! The disk accesses of queries, their memory, and the cost of fresh data.

use std::ops::AddAssign;
use std::time::Duration;

use parking_lot::Mutex;

/// The disk accesses and the memory of one query, or of all of them, and their work on changes that are not in a chunk
/// yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryUsage {
    /// Bytes of columns that scans read from files, in whole pages.
    pub column_bytes_read: u64,
    /// Bytes that sorts, aggregations and exchanges wrote because they did not fit the memory grant.
    pub spilled_bytes: u64,
    /// The number of these files.
    pub spill_files: u64,
    /// Changes that scans merged. A change counts for each scan that reads it.
    pub merged_tuples: u64,
    /// The time that they spent on this, on all threads together: finding the changes, hiding old rows, and testing the
    /// new ones.
    pub merge_time: Duration,
    /// The most memory that the query's sorts, aggregations and joins kept at a time, all together; of several queries,
    /// that of the one with the most. Bytes. What a memory grant does not count is not in it.
    pub peak_memory_bytes: u64,
}

impl AddAssign for QueryUsage {
    fn add_assign(&mut self, other: QueryUsage) {
        self.column_bytes_read += other.column_bytes_read;
        self.spilled_bytes += other.spilled_bytes;
        self.spill_files += other.spill_files;
        self.merged_tuples += other.merged_tuples;
        self.merge_time += other.merge_time;
        self.peak_memory_bytes = self.peak_memory_bytes.max(other.peak_memory_bytes);
    }
}

/// Counts while a query runs, on all of its threads: for each chunk or block, not for each row.
#[derive(Debug, Default)]
pub struct UsageMeter(Mutex<QueryUsage>);

impl UsageMeter {
    /// Counts more of something.
    pub fn add(&self, count: impl FnOnce(&mut QueryUsage)) {
        count(&mut self.0.lock());
    }

    /// The counts as of now.
    pub fn usage(&self) -> QueryUsage {
        *self.0.lock()
    }
}
