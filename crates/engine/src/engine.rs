//! The engine as a whole: its row tables, its lock table and its log.

use std::sync::Arc;

use parking_lot::RwLock;
use plimsoll_policy::{CPU_SCHEDULERS, CpuScheduler, LOCK_SCHEDULERS, LockScheduler, StarvationBound, lock_scheduler};

use crate::clock::{Clock, MonotonicClock};
use crate::cpu_priority::CpuPriority;
use crate::lock::{LockOptions, LockStatistics, LockTable};
use crate::log::{Log, LogStatistics};
use crate::table::layout::TableSpec;
use crate::table::{RowTable, TableError};
use crate::transaction::Connection;

/// How an engine is to behave.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Orders the queues of locks, and decides about holders in the way.
    pub lock_scheduler: Arc<dyn LockScheduler>,
    /// Says what the threads that work for transactions get of the cores.
    pub cpu_scheduler: &'static dyn CpuScheduler,
    /// When work that was rolled back again and again goes before everybody.
    pub starvation_bound: StarvationBound,
    /// Under `sync`: whether a transaction gives up its locks when its changes have their place in the log, rather than
    /// when they are durable. It is acknowledged only when they are, and so is whatever has read them.
    pub early_lock_release: bool,
    /// How often [`Connection::transact`] runs a victim again before it gives up.
    pub retry_max: u32,
    /// What waiting times are measured with.
    pub clock: Arc<dyn Clock>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            lock_scheduler: lock_scheduler(LOCK_SCHEDULERS[0].example).expect("it is in the list"),
            cpu_scheduler: CPU_SCHEDULERS[0],
            starvation_bound: StarvationBound::default(),
            early_lock_release: false,
            retry_max: 100,
            clock: Arc::new(MonotonicClock::default()),
        }
    }
}

/// An embedded database: row tables under strict two-phase locking. Without a log, what is committed lives as long as the
/// process; with one, see [`crate::log`].
#[derive(Debug)]
pub struct Engine {
    locks: LockTable,
    tables: RwLock<Tables>,
    early_lock_release: bool,
    retry_max: u32,
    log: Option<Log>,
}

/// Every table by its number.
#[derive(Debug, Default)]
struct Tables {
    /// `None` where a table was dropped: numbers are never given twice, for locks are named by them.
    list: Vec<Option<Arc<RowTable>>>,
    /// How many indexes were made so far; the next one's number.
    indexes: u32,
}

impl Engine {
    /// An engine without tables and without a log.
    pub fn new(options: EngineOptions) -> Arc<Self> {
        Engine::with_log(options, None)
    }

    /// An engine without tables.
    pub fn with_log(options: EngineOptions, log: Option<Log>) -> Arc<Self> {
        let locks = LockOptions {
            scheduler: options.lock_scheduler,
            starvation_bound: options.starvation_bound,
            clock: options.clock,
            cpu: CpuPriority::new(options.cpu_scheduler),
        };
        Arc::new(Engine {
            locks: LockTable::new(locks),
            tables: RwLock::default(),
            early_lock_release: options.early_lock_release,
            retry_max: options.retry_max,
            log,
        })
    }

    /// Adds an empty table. Names need not differ: tables are known by their numbers.
    pub fn create_table(&self, spec: TableSpec) -> Result<Arc<RowTable>, TableError> {
        let mut tables = self.tables.write();
        let table = Arc::new(RowTable::new(tables.list.len() as u32, tables.indexes, spec)?);
        tables.indexes += table.indexes.len() as u32;
        tables.list.push(Some(Arc::clone(&table)));
        Ok(table)
    }

    /// Forgets a table; its rows go when nobody holds it any more. No transaction that uses it is under way, and none will
    /// begin.
    pub fn drop_table(&self, number: u32) {
        self.tables.write().list[number as usize] = None;
        if let Some(log) = &self.log {
            log.forget_table(number);
        }
    }

    /// The table of that number.
    ///
    /// # Panics
    /// If there is none: numbers come from [`create_table`](Self::create_table), and who drops a table uses it no more.
    pub fn row_table(&self, number: u32) -> Arc<RowTable> {
        let tables = self.tables.read();
        Arc::clone(tables.list[number as usize].as_ref().expect("a table that was dropped is used no more"))
    }

    /// Opens a connection.
    pub fn connect(self: &Arc<Self>) -> Connection {
        Connection::new(Arc::clone(self))
    }

    /// Every lock, for statistics and tests.
    pub fn locks(&self) -> &LockTable {
        &self.locks
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// What the log has done so far, if there is one.
    pub fn log_statistics(&self) -> Option<LogStatistics> {
        self.log.as_ref().map(Log::statistics)
    }

    /// What the lock table has decided so far.
    pub fn lock_statistics(&self) -> LockStatistics {
        self.locks.statistics()
    }

    pub(crate) fn early_lock_release(&self) -> bool {
        self.early_lock_release
    }

    pub(crate) fn retry_max(&self) -> u32 {
        self.retry_max
    }
}
