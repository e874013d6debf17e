//! Transactions: strict two-phase locking over row tables, serializable, with undo.
//!
//! A [`Connection`] runs one transaction at a time. Every operation takes its locks first, in this order: an intention on the
//! table, the gaps and the row in an index. Locks are kept until the end. After an error the transaction can only be
//! [rolled back](Connection::rollback); [`Connection::transact`] does that, and runs it again where that can help.

mod read;
mod redo;
mod undo;
mod write;

use std::sync::Arc;
use std::time::Duration;

use plimsoll_policy::Priority;
pub use read::End;
use redo::Debt;
use undo::Undo;

use crate::delta::{ChangedRow, CommitBatch};
use crate::engine::Engine;
use crate::lock::head::Answer;
use crate::lock::{LockName, LockWait, Member, Mode, RequestError};
use crate::log::LogError;
use crate::log::record::Unit;
use crate::table::RowTable;
use crate::table::heap::RowId;
use crate::table::index::{Gap, Index};
use crate::value::ValueError;

/// Why an operation or a transaction failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Rolled back to break a deadlock. Run it again.
    #[error("deadlock victim")]
    Deadlock,
    /// Preempted by a more important transaction. Run it again.
    #[error("preempted by a more important transaction")]
    Preempted,
    /// A row with that primary key exists.
    #[error("duplicate key in {table}")]
    Duplicate {
        /// The table.
        table: String,
    },
    /// A value does not fit its column, or cannot be a key.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Columns of an index never change: delete the row and insert another.
    #[error("{table}.{column} belongs to an index and cannot change; delete the row and insert another")]
    IndexedColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// The primary key of the table is a hash index, which has no ranges.
    #[error(
        "ranges of the primary key of {table} cannot be read, because its index is a hash table; open the database with \
         `index=tree`"
    )]
    NoRanges {
        /// The table.
        table: String,
    },
    /// The changes could not be logged. The transaction was rolled back. With early lock release, however, its changes
    /// stay visible without being durable, and the log has failed for all transactions.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The transaction met an error before and has not been rolled back yet.
    #[error("the transaction has failed; roll it back")]
    Failed,
}

impl TransactionError {
    /// Whether the same transaction may succeed when it is run again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, TransactionError::Deadlock | TransactionError::Preempted)
    }
}

impl From<RequestError> for TransactionError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Deadlock => TransactionError::Deadlock,
            RequestError::Preempted => TransactionError::Preempted,
        }
    }
}

/// The waiting times of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time spent waiting for locks, until they were granted or refused.
    pub lock_wait: Duration,
    /// Lock requests that had to wait. A count.
    pub lock_waits: u64,
    /// Time that commits spent on the log: asleep, or writing it.
    pub log_wait: Duration,
    /// Time spent on rolling back changes.
    pub rollback_time: Duration,
    /// Attempts that ended as a deadlock victim. A count.
    pub deadlocks: u64,
    /// Attempts that were preempted. A count.
    pub preemptions: u64,
}

/// The purpose of finding a row, which decides how the row is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be read: S.
    Read,
    /// To be read, and perhaps written later: U.
    Update,
    /// To be written: X.
    Write,
}

impl Purpose {
    fn row_mode(self) -> Mode {
        match self {
            Purpose::Read => Mode::S,
            Purpose::Update => Mode::U,
            Purpose::Write => Mode::X,
        }
    }

    fn table_mode(self) -> Mode {
        match self {
            Purpose::Read => Mode::IS,
            Purpose::Update | Purpose::Write => Mode::IX,
        }
    }
}

/// A user of the engine: at most one transaction at a time.
#[derive(Debug)]
pub struct Connection {
    state: TransactionState,
    tables: Tables,
    work: Work,
}

/// Tables used so far by a connection, by number. Kept apart from its [`Work`], so that an operation can borrow a table
/// without changing a reference count that all cores would contend for.
type Tables = Vec<Option<Arc<RowTable>>>;

/// The locks and changes of a connection's transaction.
#[derive(Debug)]
struct Work {
    engine: Arc<Engine>,
    member: Arc<Member>,
    /// The mode held on each table by this transaction, by number: table locks are asked for at every operation.
    table_modes: Vec<Option<Mode>>,
    held: Vec<LockName>,
    /// The last lock and its mode: a row that is found to be written is written column by column.
    locked_last: Option<(LockName, Mode)>,
    undo: Undo,
    /// The last log unit, kept for its memory.
    unit: Unit,
    usage: Usage,
    /// Waits for locks that have not been taken by [`Connection::take_lock_waits`] yet.
    lock_waits: Vec<LockWait>,
    /// Gaps for which the current operation has waited to insert.
    gaps: Vec<(LockName, Answer)>,
    /// Row numbers of a range, kept for its memory.
    range: Vec<RowId>,
    /// The rows that the transaction has changed, kept for its memory.
    changed: Vec<ChangedRow>,
    /// An empty batch for the next commit that publishes.
    spare_batch: CommitBatch,
}

/// The most waits that are kept individually; further ones are only in [`Usage`].
const LOCK_WAITS_KEPT_MAX: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransactionState {
    Idle,
    Active,
    Failed,
}

impl Connection {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let member = engine.locks().join();
        let work = Work {
            engine,
            member,
            table_modes: Vec::new(),
            held: Vec::new(),
            locked_last: None,
            undo: Undo::default(),
            unit: Unit::default(),
            usage: Usage::default(),
            lock_waits: Vec::new(),
            gaps: Vec::new(),
            range: Vec::new(),
            changed: Vec::new(),
            spare_batch: CommitBatch::default(),
        };
        Connection { state: TransactionState::Idle, tables: Vec::new(), work }
    }

    /// Begins a transaction, which the calling thread is to work on. `rollbacks` says how often the same work was
    /// rolled back before: from the engine's [starvation bound](plimsoll_policy::StarvationBound) on it gets the
    /// highest priority.
    ///
    /// # Panics
    /// If a transaction is open.
    pub fn begin(&mut self, priority: Priority, rollbacks: u32) {
        assert_eq!(self.state, TransactionState::Idle, "one transaction at a time");
        self.work.engine.locks().begin(&self.work.member, priority, rollbacks);
        self.state = TransactionState::Active;
    }

    /// Makes the transaction's changes permanent and visible, and releases its locks. A failed transaction is rolled
    /// back instead, with an error; so is a preempted one, and one whose changes cannot be logged.
    pub fn commit(&mut self) -> Result<(), TransactionError> {
        if self.state == TransactionState::Failed {
            self.rollback();
            return Err(TransactionError::Failed);
        }
        assert_eq!(self.state, TransactionState::Active, "commit without begin");
        match self.work.make_permanent(&self.tables) {
            Ok(debt) => {
                self.work.publish(&self.tables);
                self.work.finish_deletions(&self.tables);
                self.end();
                debt.map_or(Ok(()), |debt| self.work.pay(debt))
            }
            Err(error) => {
                self.fail(&error);
                self.rollback();
                Err(error)
            }
        }
    }

    /// Rolls back all changes and releases the locks. Does nothing if no transaction is open.
    pub fn rollback(&mut self) {
        if self.state != TransactionState::Idle {
            let began = self.work.engine.options.clock.now();
            self.work.engine.locks().roll_back(&self.work.member);
            self.work.take_back(&self.tables);
            self.end();
            self.work.usage.rollback_time += self.work.engine.options.clock.now().saturating_sub(began);
        }
    }

    /// Runs `work` in a transaction and commits it. Runs it again if it was a deadlock victim or preempted, up to the
    /// engine's bound.
    pub fn transact<T>(
        &mut self,
        priority: Priority,
        mut work: impl FnMut(&mut Connection) -> Result<T, TransactionError>,
    ) -> Result<T, TransactionError> {
        let mut rollbacks = 0;
        loop {
            self.begin(priority, rollbacks);
            let outcome = work(self).and_then(|value| self.commit().map(|()| value));
            match outcome {
                Err(error) if error.is_retryable() && rollbacks < self.work.engine.options.retry_max => {
                    self.rollback();
                    rollbacks += 1;
                }
                Err(error) => {
                    self.rollback();
                    return Err(error);
                }
                Ok(value) => return Ok(value),
            }
        }
    }

    /// The waiting times of this connection so far.
    pub fn usage(&self) -> Usage {
        self.work.usage
    }

    /// Adds every lock wait that has ended since the last call. Without calls, the first 65536 are kept.
    pub fn take_lock_waits(&mut self, waits: &mut Vec<LockWait>) {
        waits.append(&mut self.work.lock_waits);
    }

    /// Whether a transaction is open, failed or not.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state != TransactionState::Idle
    }

    /// Locks a whole table: S keeps all writers out.
    pub fn lock_table(&mut self, table: u32, mode: Mode) -> Result<(), TransactionError> {
        self.run(table, mode, |_, _| Ok(()))
    }

    /// Runs one operation on a table that is locked at least with this intention. An error fails the transaction.
    fn run<T>(
        &mut self,
        table: u32,
        mode: Mode,
        operation: impl FnOnce(&mut Work, &RowTable) -> Result<T, TransactionError>,
    ) -> Result<T, TransactionError> {
        match self.state {
            TransactionState::Active => {}
            TransactionState::Failed => return Err(TransactionError::Failed),
            TransactionState::Idle => panic!("operation without begin"),
        }
        let at = table as usize;
        if at >= self.tables.len() {
            self.tables.resize(at + 1, None);
            self.work.table_modes.resize(at + 1, None);
        }
        let table = self.tables[at].get_or_insert_with(|| self.work.engine.row_table(table));
        let outcome = self.work.intend(table.number, mode).and_then(|()| operation(&mut self.work, table));
        if let Err(error) = &outcome {
            self.fail(error);
        }
        outcome
    }

    fn fail(&mut self, error: &TransactionError) {
        self.state = TransactionState::Failed;
        match error {
            TransactionError::Deadlock => self.work.usage.deadlocks += 1,
            TransactionError::Preempted => self.work.usage.preemptions += 1,
            _ => {}
        }
    }

    /// The table of a row that is about to be read, which this transaction must have locked.
    #[inline]
    fn locked_row(&self, table: u32, row: RowId) -> &RowTable {
        debug_assert!(self.work.has_locked(table, row), "row {row} of table {table} is read without a lock");
        self.tables[table as usize].as_ref().expect("a row was found in it")
    }

    fn end(&mut self) {
        self.work.release_locks();
        self.state = TransactionState::Idle;
    }
}

/// The lock on a gap of an index. A hash index has no neighbours, so its gaps are neither split nor merged: each is that of
/// a hash, and none below a row is ever locked.
fn gap_name(index: &Index, gap: Gap) -> LockName {
    match gap {
        Gap::Below(row) => LockName::gap(index.number, Some(row)),
        Gap::End => LockName::gap(index.number, None),
        Gap::Hash(hash) => LockName::absent(index.number, hash),
    }
}

impl Work {
    fn intend(&mut self, table: u32, mode: Mode) -> Result<(), TransactionError> {
        let at = table as usize;
        if !self.table_modes[at].is_some_and(|held| held.covers(mode)) {
            self.lock(LockName::table(table), mode)?;
            self.table_modes[at] = Some(self.table_modes[at].map_or(mode, |held| held.supremum(mode)));
        }
        Ok(())
    }

    /// Whether no other transaction can write a row, because it or its whole table is locked. For assertions.
    fn has_locked(&self, table: u32, row: RowId) -> bool {
        let keeps_writers_out = |mode: Mode| !mode.is_compatible(Mode::IX);
        self.table_modes[table as usize].is_some_and(keeps_writers_out)
            || self.engine.locks().held(&self.member, LockName::row(table, row)).is_some()
    }

    /// Asks for a lock, sleeps if need be, and remembers the lock.
    fn lock(&mut self, name: LockName, mode: Mode) -> Result<(), TransactionError> {
        if self.locked_last.is_some_and(|(last, held)| last == name && held.covers(mode)) {
            // The lock is held until the end of the transaction. But a victim should notice its rollback at every
            // request.
            return Ok(self.member.check()?);
        }
        if self.request(name, mode)? == Answer::Granted {
            self.held.push(name);
        }
        self.locked_last = Some((name, mode));
        Ok(())
    }

    /// Asks for a lock and sleeps if need be; the caller arranges its release.
    fn request(&mut self, name: LockName, mode: Mode) -> Result<Answer, TransactionError> {
        match self.engine.locks().ask(&self.member, name, mode)? {
            Answer::Wait => self.sleep(),
            answer => Ok(answer),
        }
    }

    #[cold]
    fn sleep(&mut self) -> Result<Answer, TransactionError> {
        let decision = self.engine.locks().wait(&self.member);
        self.usage.lock_wait += decision.wait.queue_time;
        self.usage.lock_waits += 1;
        if self.lock_waits.len() < LOCK_WAITS_KEPT_MAX {
            self.lock_waits.push(decision.wait);
        }
        Ok(decision.outcome?)
    }

    /// Passes the commit point and logs the changes. Returns the wait that remains after the locks are released.
    fn make_permanent(&mut self, tables: &Tables) -> Result<Option<Debt>, TransactionError> {
        // First: once the log has the commit, the transaction must not be rolled back any more.
        self.engine.locks().commit_point(&self.member)?;
        if self.engine.log().is_some() { self.log_changes(tables) } else { Ok(None) }
    }

    fn release_locks(&mut self) {
        // Gaps of an operation that did not end, for example because its thread died.
        let unfinished = self.gaps.drain(..).filter(|(_, answer)| *answer == Answer::Granted);
        self.held.extend(unfinished.map(|(gap, _)| gap));
        let locks = self.engine.locks();
        for name in self.held.drain(..) {
            locks.release(&self.member, name);
        }
        locks.release_inherited(&self.member);
        locks.end(&self.member);
        self.locked_last = None;
        self.table_modes.fill(None);
    }
}

impl Drop for Connection {
    /// Rolls back an open transaction, also if the client's thread dies: its locks are released in every case.
    fn drop(&mut self) {
        if self.is_open() {
            self.work.engine.locks().note_abandoned();
        }
        self.rollback();
        self.work.engine.locks().leave(&self.work.member);
    }
}

#[cfg(test)]
mod tests;
