//! What queries take from the disk, and what fresh data cost them.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What one query, or all of them, took from the disk and spent on changes that are in no chunk yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryUsage {
    /// Bytes of columns that scans read from files, in whole pages.
    pub column_bytes_read: u64,
    /// Bytes that sorts, aggregations and exchanges wrote because they did not fit the memory grant.
    pub spilled_bytes: u64,
    /// How many files they wrote them to.
    pub spill_files: u64,
    /// How many changes scans merged into what they read. A change counts for each scan that meets it.
    pub merged_tuples: u64,
    /// How long they took for that, on all threads together: finding the changes, hiding old rows, and testing the new ones.
    pub merge_time: Duration,
}

impl AddAssign for QueryUsage {
    fn add_assign(&mut self, other: QueryUsage) {
        self.column_bytes_read += other.column_bytes_read;
        self.spilled_bytes += other.spilled_bytes;
        self.spill_files += other.spill_files;
        self.merged_tuples += other.merged_tuples;
        self.merge_time += other.merge_time;
    }
}

/// Counts while a query runs, on all of its threads.
///
/// Relaxed throughout: each number stands for itself, and the query's end, which orders everything, is waited for before any
/// is read.
#[derive(Debug, Default)]
pub struct UsageMeter {
    column_bytes_read: AtomicU64,
    spilled_bytes: AtomicU64,
    spill_files: AtomicU64,
    merged_tuples: AtomicU64,
    merge_nanoseconds: AtomicU64,
}

impl UsageMeter {
    /// Columns were read from a file.
    pub fn read_columns(&self, bytes: usize) {
        self.column_bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A spill file was begun.
    pub fn began_spill_file(&self) {
        self.spill_files.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes were written to a spill file.
    pub fn spilled(&self, bytes: usize) {
        self.spilled_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Changes of a chunk were merged.
    pub fn merged(&self, tuples: usize) {
        self.merged_tuples.fetch_add(tuples as u64, Ordering::Relaxed);
    }

    /// Merging took time.
    pub fn spent_merging(&self, time: Duration) {
        self.merge_nanoseconds.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The counts as of now.
    pub fn usage(&self) -> QueryUsage {
        QueryUsage {
            column_bytes_read: self.column_bytes_read.load(Ordering::Relaxed),
            spilled_bytes: self.spilled_bytes.load(Ordering::Relaxed),
            spill_files: self.spill_files.load(Ordering::Relaxed),
            merged_tuples: self.merged_tuples.load(Ordering::Relaxed),
            merge_time: Duration::from_nanos(self.merge_nanoseconds.load(Ordering::Relaxed)),
        }
    }
}
