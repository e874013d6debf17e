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
use undo::Undo;

use crate::engine::Engine;
use crate::lock::head::Answer;
use crate::lock::{LockName, Member, Mode, RequestError};
use crate::log::LogError;
use crate::log::record::Unit;
use crate::table::RowTable;
use crate::table::heap::RowId;
use crate::value::ValueError;

/// Why an operation or a transaction failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// Rolled back so that others in a deadlock can go on. Run it again.
    #[error("deadlock victim")]
    Deadlock,
    /// A row with that primary key exists.
    #[error("duplicate key in {table}")]
    Duplicate {
        /// The table.
        table: String,
    },
    /// A value does not fit its column, or is no possible key.
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
    /// The changes could not be logged. The transaction was rolled back.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The transaction met an error before and was not rolled back yet.
    #[error("the transaction has failed; roll it back")]
    Failed,
}

impl TransactionError {
    /// Whether the same transaction may succeed when it is run again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, TransactionError::Deadlock)
    }
}

impl From<RequestError> for TransactionError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Deadlock => TransactionError::Deadlock,
        }
    }
}

/// What a connection has spent on waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time spent asleep, waiting for locks.
    pub lock_wait: Duration,
    /// Lock requests that had to wait. A count.
    pub lock_waits: u64,
    /// Time spent asleep in commits, waiting for the log.
    pub log_wait: Duration,
}

/// How a row is found: for what purpose, hence how it is locked.
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
    state: State,
    tables: Tables,
    work: Work,
}

/// Tables used so far by a connection, by number. Kept apart from its [`Work`], so that an operation can borrow a table
/// without counting a reference that every core would fight for.
type Tables = Vec<Option<Arc<RowTable>>>;

/// The locks and changes of a connection's transaction.
#[derive(Debug)]
struct Work {
    engine: Arc<Engine>,
    member: Arc<Member>,
    /// The mode held on each table by this transaction, by number: table locks are asked for at every operation.
    table_modes: Vec<Option<Mode>>,
    held: Vec<LockName>,
    undo: Undo,
    /// The unit of the log that was made last, kept for its memory.
    unit: Unit,
    usage: Usage,
    /// Row numbers of a range, kept for its memory.
    range: Vec<RowId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
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
            undo: Undo::default(),
            unit: Unit::default(),
            usage: Usage::default(),
            range: Vec::new(),
        };
        Connection { state: State::Idle, tables: Vec::new(), work }
    }

    /// Begins a transaction. `rollbacks` says how often the same work was rolled back before.
    ///
    /// # Panics
    /// If a transaction is open.
    pub fn begin(&mut self, priority: Priority, rollbacks: u32) {
        assert_eq!(self.state, State::Idle, "one transaction at a time");
        let serial = self.work.engine.next_serial();
        self.work.member.begin(priority, rollbacks, serial);
        self.state = State::Active;
    }

    /// Makes the transaction's changes permanent and visible, and gives up its locks. A failed transaction is rolled back
    /// instead, and says so; so is one whose changes cannot be logged.
    pub fn commit(&mut self) -> Result<(), TransactionError> {
        if self.state == State::Failed {
            self.rollback();
            return Err(TransactionError::Failed);
        }
        assert_eq!(self.state, State::Active, "commit without begin");
        if self.work.engine.log().is_some()
            && let Err(error) = self.work.log_changes(&self.tables)
        {
            self.rollback();
            return Err(error);
        }
        self.work.finish_deletions(&self.tables);
        self.end();
        Ok(())
    }

    /// Takes every change back and gives up the locks. Does nothing if no transaction is open.
    pub fn rollback(&mut self) {
        if self.state != State::Idle {
            self.work.take_back(&self.tables);
            self.end();
        }
    }

    /// Runs `work` in a transaction and commits it; runs it again when it was a deadlock's victim, up to the engine's bound.
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
                Err(error) if error.is_retryable() && rollbacks < self.work.engine.retry_max() => {
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

    /// What this connection has spent waiting so far.
    pub fn usage(&self) -> Usage {
        self.work.usage
    }

    /// Whether a transaction is open, failed or not.
    pub fn is_open(&self) -> bool {
        self.state != State::Idle
    }

    /// Locks a whole table: S keeps all writers out.
    pub fn lock_table(&mut self, table: u32, mode: Mode) -> Result<(), TransactionError> {
        self.run(table, mode, |_, _| Ok(()))
    }

    /// Runs one operation on a table that is locked with at least that intention. An error fails the transaction.
    fn run<T>(
        &mut self,
        table: u32,
        mode: Mode,
        operation: impl FnOnce(&mut Work, &RowTable) -> Result<T, TransactionError>,
    ) -> Result<T, TransactionError> {
        match self.state {
            State::Active => {}
            State::Failed => return Err(TransactionError::Failed),
            State::Idle => panic!("operation without begin"),
        }
        let at = table as usize;
        if at >= self.tables.len() {
            self.tables.resize(at + 1, None);
            self.work.table_modes.resize(at + 1, None);
        }
        let table = self.tables[at].get_or_insert_with(|| self.work.engine.row_table(table));
        let outcome = self.work.intend(table.number, mode).and_then(|()| operation(&mut self.work, table));
        if outcome.is_err() {
            self.state = State::Failed;
        }
        outcome
    }

    fn used_table(&self, table: u32) -> &RowTable {
        self.tables[table as usize].as_ref().expect("a row was found in it")
    }

    fn end(&mut self) {
        self.work.release_locks();
        self.state = State::Idle;
    }
}

impl Work {
    /// Locks a table with at least that mode.
    fn intend(&mut self, table: u32, mode: Mode) -> Result<(), TransactionError> {
        let at = table as usize;
        if !self.table_modes[at].is_some_and(|held| held.covers(mode)) {
            self.lock(LockName::table(table), mode)?;
            self.table_modes[at] = Some(self.table_modes[at].map_or(mode, |held| held.supremum(mode)));
        }
        Ok(())
    }

    /// Asks for a lock, sleeps if need be, and remembers it.
    fn lock(&mut self, name: LockName, mode: Mode) -> Result<(), TransactionError> {
        if self.request(name, mode)? == Answer::Granted {
            self.held.push(name);
        }
        Ok(())
    }

    /// Asks for a lock and sleeps if need be; the caller sees to its release.
    fn request(&mut self, name: LockName, mode: Mode) -> Result<Answer, TransactionError> {
        match self.engine.locks().request(&self.member, name, mode) {
            Ok((answer, None)) => Ok(answer),
            Ok((answer, Some(waited))) => {
                self.note_wait(waited);
                Ok(answer)
            }
            Err((error, waited)) => {
                self.note_wait(waited);
                Err(error.into())
            }
        }
    }

    fn note_wait(&mut self, waited: Duration) {
        self.usage.lock_wait += waited;
        self.usage.lock_waits += 1;
    }

    fn release_locks(&mut self) {
        let locks = self.engine.locks();
        for name in self.held.drain(..) {
            locks.release(&self.member, name);
        }
        locks.release_inherited(&self.member);
        self.table_modes.fill(None);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.rollback();
        self.work.engine.locks().leave(&self.work.member);
    }
}
