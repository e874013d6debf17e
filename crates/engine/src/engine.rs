//! The engine as a whole: its row tables, its lock table and its log.

mod durable;

use std::sync::Arc;
use std::time::Duration;

use plimsoll_policy::{CPU_SCHEDULERS, CpuScheduler, LOCK_SCHEDULERS, LockScheduler, StarvationBound, lock_scheduler};

use crate::catalog::Catalog;
use crate::checkpoint::{Checkpointer, Numbers};
use crate::clock::{Clock, MonotonicClock};
use crate::cpu_priority::CpuPriority;
use crate::lock::{LockOptions, LockStatistics, LockTable};
use crate::log::{Log, LogError, LogStatistics, Ticket};
use crate::recovery::RecoveryReport;
use crate::table::heap::FREE_SLOTS_MIN;
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
    /// How long a transaction that is rolled back after it has changed something goes on holding its locks: a model of systems
    /// that take changes back by reading a log. Nothing by default, for changes are put back in memory here.
    pub undo_delay: Duration,
    /// Whether what was read in an index is kept from changing by further rows. Without, transactions see rows appear in ranges that
    /// they have read (phantoms), and histories are not serializable: for measuring what that costs.
    pub key_range_locks: bool,
    /// Slots of deleted rows that a table keeps free before it uses the first of them again.
    pub free_slots_min: usize,
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
            undo_delay: Duration::ZERO,
            key_range_locks: true,
            free_slots_min: FREE_SLOTS_MIN,
            retry_max: 100,
            clock: Arc::new(MonotonicClock::default()),
        }
    }
}

/// An embedded database: row tables under strict two-phase locking. Without a log, what is committed lives as long as the
/// process; with one, see [`crate::log`].
#[derive(Debug)]
pub struct Engine {
    /// Of a database with a data folder. Dropped first: it makes a last checkpoint, for which the rest is needed.
    checkpointer: Option<Checkpointer>,
    locks: Arc<LockTable>,
    catalog: Arc<Catalog>,
    pub(crate) options: EngineOptions,
    log: Option<Arc<Log>>,
    recovery: Option<RecoveryReport>,
}

/// What an engine begins with.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) catalog: Catalog,
    pub(crate) log: Option<Log>,
    /// The checkpoints that there are, if there are to be more.
    pub(crate) numbers: Option<Numbers>,
    /// Where the tables come from.
    pub(crate) recovery: Option<RecoveryReport>,
}

impl Engine {
    /// An engine without tables and without a log.
    pub fn new(options: EngineOptions) -> Arc<Self> {
        Engine::with_log(options, None)
    }

    /// An engine without tables.
    pub fn with_log(options: EngineOptions, log: Option<Log>) -> Arc<Self> {
        let parts = Parts { log, ..Parts::default() };
        Engine::assemble(options, parts).expect("only checkpoints can be refused")
    }

    pub(crate) fn assemble(options: EngineOptions, parts: Parts) -> Result<Arc<Self>, LogError> {
        let Parts { catalog, log, numbers, recovery } = parts;
        let cpu = CpuPriority::new(options.cpu_scheduler);
        if let Some(log) = log.as_ref().filter(|_| !cpu.is_off()) {
            log.queue.leave_to_writer();
        }
        let locks = Arc::new(LockTable::new(LockOptions {
            scheduler: Arc::clone(&options.lock_scheduler),
            starvation_bound: options.starvation_bound,
            clock: Arc::clone(&options.clock),
            cpu,
        }));
        let (catalog, log) = (Arc::new(catalog), log.map(Arc::new));
        let checkpointer = match (&log, numbers) {
            (Some(log), Some(numbers)) => {
                let (log, locks, catalog) = (Arc::clone(log), Arc::clone(&locks), Arc::clone(&catalog));
                Some(Checkpointer::start(log, locks, catalog, numbers)?)
            }
            _ => None,
        };
        let (contents, ()) = catalog.contents(|| ());
        contents.tables.iter().for_each(|table| table.heap.set_free_slots_min(options.free_slots_min));
        Ok(Arc::new(Engine { checkpointer, locks, catalog, options, log, recovery }))
    }

    /// Adds an empty table. Names need not differ: tables are known by their numbers.
    pub fn create_table(&self, spec: TableSpec) -> Result<Arc<RowTable>, TableError> {
        let table = self.catalog.create(spec, self.catalog_log())?;
        table.heap.set_free_slots_min(self.options.free_slots_min);
        Ok(table)
    }

    /// Forgets a table; its rows go when nobody holds it any more. No transaction that uses it is under way, and none will
    /// begin.
    pub fn drop_table(&self, number: u32) {
        self.catalog.remove(number, self.catalog_log());
        // A log that nobody will recover from can forget what it has.
        if let (Some(log), None) = (&self.log, &self.checkpointer) {
            log.queue.forget_table(number);
        }
    }

    /// Where changes of the catalog are logged: only a database that outlives its process needs that.
    fn catalog_log(&self) -> Option<&Log> {
        self.log.as_deref().filter(|_| self.checkpointer.is_some())
    }

    /// The table of that number.
    ///
    /// # Panics
    /// If there is none: numbers come from [`create_table`](Self::create_table), and who drops a table uses it no more.
    pub fn row_table(&self, number: u32) -> Arc<RowTable> {
        self.catalog.get(number).expect("a table that was dropped is used no more")
    }

    /// Every table there is, in order of number.
    pub fn row_tables(&self) -> Vec<Arc<RowTable>> {
        self.catalog.contents(|| ()).0.tables
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
        self.log.as_deref()
    }

    /// What the log has done so far, if there is one.
    pub fn log_statistics(&self) -> Option<LogStatistics> {
        self.log.as_deref().map(Log::statistics)
    }

    /// Every table, for tests of what reads them.
    #[cfg(test)]
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What the lock table has decided so far.
    pub fn lock_statistics(&self) -> LockStatistics {
        self.locks.statistics()
    }

    /// What has to be durable before somebody is told what was read without locks, and the log to ask. `None` if all that can be
    /// read is durable, or if commits do not wait for the disk.
    pub(crate) fn debt_of_readers(&self) -> Option<(Arc<Log>, Ticket)> {
        let log = self.log.as_ref().filter(|_| self.options.early_lock_release)?;
        Some((Arc::clone(log), log.last_ticket()?))
    }
}
