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
use crate::table::{IndexKind, RowTable, TableError};
use crate::transaction::Connection;

/// The options of an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Orders the queues of locks, and decides about holders that block waiters.
    pub lock_scheduler: Arc<dyn LockScheduler>,
    /// Decides the CPU share of threads that work for transactions.
    pub cpu_scheduler: &'static dyn CpuScheduler,
    /// When work that was rolled back repeatedly gets the highest priority.
    pub starvation_bound: StarvationBound,
    /// Under `sync`: whether a transaction releases its locks when its changes have their place in the log, rather than
    /// when they are durable. It is acknowledged only when they are durable, and so are transactions that have read
    /// them.
    pub early_lock_release: bool,
    /// How long a transaction that is rolled back after changing something keeps its locks: a model of systems that
    /// undo changes by reading a log. Zero by default, because undo works in memory here.
    pub undo_delay: Duration,
    /// Whether ranges read in an index are protected from insertions. Without, rows can appear in ranges that a
    /// transaction has read (phantoms), and histories are not serializable; use this to measure the cost of protection.
    pub key_range_locks: bool,
    /// Slots of deleted rows that a table keeps free before it uses the first of them again.
    pub free_slots_min: usize,
    /// How often [`Connection::transact`] runs a victim again before it gives up.
    pub retry_max: u32,
    /// The clock for waiting times.
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

/// An embedded database: row tables under strict two-phase locking. Without a log, committed data lives as long as the
/// process; with one, see [`crate::log`].
#[derive(Debug)]
pub struct Engine {
    /// Only for a database with a data folder. Dropped first, because it makes a last checkpoint, which needs the other
    /// fields.
    checkpointer: Option<Checkpointer>,
    locks: Arc<LockTable>,
    catalog: Arc<Catalog>,
    pub(crate) options: EngineOptions,
    log: Option<Arc<Log>>,
    recovery: Option<RecoveryReport>,
}

/// The initial state of an engine.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) catalog: Catalog,
    pub(crate) log: Option<Log>,
    /// The existing checkpoints, if more are to be made.
    pub(crate) numbers: Option<Numbers>,
    /// The report of the recovery; `None` without a data folder.
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

    /// Adds an empty table. Names need not differ: tables are identified by their numbers.
    pub fn create_table(&self, spec: TableSpec) -> Result<Arc<RowTable>, TableError> {
        self.create_table_with(spec, IndexKind::Tree)
    }

    /// Adds an empty table whose primary key is an index of that kind. A database that outlives its process
    /// recovers trees.
    pub fn create_table_with(&self, spec: TableSpec, primary: IndexKind) -> Result<Arc<RowTable>, TableError> {
        let table = self.catalog.create(spec, primary, self.catalog_log())?;
        table.heap.set_free_slots_min(self.options.free_slots_min);
        Ok(table)
    }

    /// Removes a table; its rows are freed with the last reference to it. No transaction may use it, now or later.
    pub fn drop_table(&self, number: u32) {
        self.catalog.remove(number, self.catalog_log());
        // A log that will not be recovered from can forget the table.
        if let (Some(log), None) = (&self.log, &self.checkpointer) {
            log.queue.forget_table(number);
        }
    }

    /// The log for catalog changes: only a database that outlives its process needs to log them.
    fn catalog_log(&self) -> Option<&Log> {
        self.log.as_deref().filter(|_| self.checkpointer.is_some())
    }

    /// The table with this number.
    ///
    /// # Panics
    /// If the table does not exist. Numbers come from [`create_table`](Self::create_table), and a dropped table must
    /// not be used.
    pub fn row_table(&self, number: u32) -> Arc<RowTable> {
        self.catalog.get(number).expect("a table that was dropped is used no more")
    }

    /// All tables, in order of number.
    pub fn row_tables(&self) -> Vec<Arc<RowTable>> {
        self.catalog.contents(|| ()).0.tables
    }

    /// Opens a connection.
    pub fn connect(self: &Arc<Self>) -> Connection {
        Connection::new(Arc::clone(self))
    }

    /// The lock table, for statistics and tests.
    pub fn locks(&self) -> &LockTable {
        &self.locks
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.log.as_deref()
    }

    /// What the log has done so far, if there is a log.
    pub fn log_statistics(&self) -> Option<LogStatistics> {
        self.log.as_deref().map(Log::statistics)
    }

    /// The catalog, for tests of its readers.
    #[cfg(test)]
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The decisions of the lock table so far.
    pub fn lock_statistics(&self) -> LockStatistics {
        self.locks.statistics()
    }

    /// The place in the log that must be durable before the results of a read without locks are reported, and the log
    /// to ask. `None` if all readable data is durable, or if commits do not wait for the disk.
    pub(crate) fn debt_of_readers(&self) -> Option<(Arc<Log>, Ticket)> {
        let log = self.log.as_ref().filter(|_| self.options.early_lock_release)?;
        Some((Arc::clone(log), log.last_ticket()?))
    }
}
