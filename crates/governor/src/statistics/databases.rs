//! Counts and times by database, as poolers and their dashboards have them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

/// A count of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseCount {
    /// How often a client was given a server connection: in session mode once, as it logs in.
    Assignments,
    Transactions,
    Units,
    /// Bytes from clients, and from the server.
    Received,
    Sent,
    /// Times in nanoseconds: of transactions, of units, and of waiting for admission.
    TransactionNanos,
    UnitNanos,
    WaitNanos,
    Logins,
}

const COUNTS: usize = 9;

/// The counts of one database since the governor started.
#[derive(Debug, Default)]
pub(crate) struct DatabaseStatistics([AtomicU64; COUNTS]);

/// The same at a moment, or between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DatabaseCounts([u64; COUNTS]);

/// All databases in which a client has had a session.
#[derive(Debug, Default)]
pub(crate) struct Databases(Mutex<BTreeMap<String, Arc<DatabaseStatistics>>>);

impl DatabaseStatistics {
    pub(crate) fn add(&self, count: DatabaseCount, number: u64) {
        // Relaxed: counters for operators.
        self.0[count as usize].fetch_add(number, Relaxed);
    }

    fn counts(&self) -> DatabaseCounts {
        DatabaseCounts(self.0.each_ref().map(|count| count.load(Relaxed)))
    }
}

impl DatabaseCounts {
    pub(crate) fn get(&self, count: DatabaseCount) -> u64 {
        self.0[count as usize]
    }

    pub(crate) fn since(&self, earlier: &DatabaseCounts) -> DatabaseCounts {
        let mut counts = *self;
        counts.0.iter_mut().zip(earlier.0).for_each(|(count, before)| *count = count.saturating_sub(before));
        counts
    }

    pub(crate) fn and(&self, other: &DatabaseCounts) -> DatabaseCounts {
        let mut counts = *self;
        counts.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
        counts
    }
}

impl Databases {
    /// The counts of a database to which a client has logged in.
    pub(crate) fn of(&self, name: &str) -> Arc<DatabaseStatistics> {
        let mut all = self.0.lock();
        match all.get(name) {
            Some(known) => known.clone(),
            None => all.entry(name.to_owned()).or_default().clone(),
        }
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, DatabaseCounts> {
        self.0.lock().iter().map(|(name, database)| (name.clone(), database.counts())).collect()
    }
}
