//! One client's connection to the embedded engine.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_engine::Connection;
use plimsoll_engine::table_set::TableSet;
use plimsoll_machine::thread_share::{own_slice, set_own_slice};
use plimsoll_policy::Priority;
use plimsoll_workload::database::{DatabaseError, LockWait, QueryAnswer, Session, SessionUsage};
use plimsoll_workload::statement::{Rows, Statement, Value};

use super::access::{Access, database_error};
use super::admission::QueryGate;
use super::engines::QueryEngines;
use super::placement::{Placement, Role};

/// What options say of a session.
pub(super) struct SessionTerms {
    /// Where the client's thread runs, if threads are placed.
    pub(super) placement: Option<Placement>,
    /// The gate before its queries, if they are limited.
    pub(super) gate: Option<Arc<QueryGate>>,
    /// The slice of its thread while it runs transactions, if it is not the kernel's own.
    pub(super) slice: Option<Duration>,
}

/// A connection, the tables of a schema, and the engines that run queries on them.
pub(super) struct EmbeddedSession {
    connection: Connection,
    tables: Arc<TableSet>,
    table_numbers: Vec<Option<u32>>,
    queries: QueryEngines,
    priority: Priority,
    /// How often the current work was rolled back: grows with each failed attempt, until one commits.
    rollbacks: u32,
    range: Vec<u64>,
    terms: SessionTerms,
    /// The role that the client's thread was prepared for.
    role: Option<Role>,
    /// The slice that the client's thread had before, if it was changed.
    slice_before: Option<Duration>,
    /// Buffer for lock waits between the engine and the caller, kept to reuse its memory.
    waits: Vec<plimsoll_engine::LockWait>,
    /// The most memory that the operators of its last query kept at a time.
    query_memory: Option<u64>,
}

impl EmbeddedSession {
    pub(super) fn new(
        connection: Connection,
        tables: Arc<TableSet>,
        queries: QueryEngines,
        terms: SessionTerms,
    ) -> Self {
        let numbers = (0..tables.table_count()).map(|table| tables.rows(table).map(|rows| rows.number)).collect();
        EmbeddedSession {
            connection,
            tables,
            table_numbers: numbers,
            queries,
            priority: Priority::default(),
            rollbacks: 0,
            range: Vec::new(),
            terms,
            role: None,
            slice_before: None,
            waits: Vec::new(),
            query_memory: None,
        }
    }

    /// Prepares the client's thread when it begins to do something else: its cores and its slice.
    fn act_as(&mut self, role: Role) -> Result<(), DatabaseError> {
        if self.role == Some(role) {
            return Ok(());
        }
        if let Some(placement) = &self.terms.placement {
            placement.place_client(role)?;
        }
        if let Some(slice) = self.terms.slice.filter(|_| role == Role::Transactions) {
            self.slice_before = self.slice_before.or_else(own_slice);
            set_own_slice(slice)
                .map_err(|error| DatabaseError::Failed(format!("transaction_slice={slice:?}: {error}")))?;
        }
        self.role = Some(role);
        Ok(())
    }

    /// Keeps the promise of the trait: after an error the transaction is over.
    fn after(&mut self, outcome: Result<(), DatabaseError>) -> Result<(), DatabaseError> {
        if let Err(error) = &outcome {
            self.connection.rollback();
            self.rollbacks = if error.is_retryable() { self.rollbacks + 1 } else { 0 };
        }
        outcome
    }
}

impl Drop for EmbeddedSession {
    /// Gives the thread its slice back, because it may begin threads that are no clients.
    fn drop(&mut self) {
        if let Some(slice) = self.slice_before {
            let _ = set_own_slice(slice);
        }
    }
}

impl Session for EmbeddedSession {
    fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.act_as(Role::Transactions)?;
        self.connection.begin(self.priority, self.rollbacks);
        Ok(())
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        rows.clear();
        // A statement outside of a transaction is one by itself. If it fails, the nested call rolls it back.
        if !self.connection.is_open() {
            self.begin()?;
            self.execute(statement, parameters, rows)?;
            return self.commit();
        }
        let mut access =
            Access { connection: &mut self.connection, tables: &self.table_numbers, range: &mut self.range };
        let outcome = (statement.native)(&mut access, parameters, rows);
        self.after(outcome)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        let outcome = self.connection.commit().map_err(database_error);
        if outcome.is_ok() {
            self.rollbacks = 0;
        }
        self.after(outcome)
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.connection.rollback();
        self.rollbacks = 0;
        Ok(())
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.act_as(Role::Queries)?;
        // Before the snapshot is taken: a query that has waited reads what was committed meanwhile.
        let _admitted = self.terms.gate.as_ref().map(QueryGate::enter);
        let failed = |error: &dyn std::error::Error| DatabaseError::Failed(error.to_string());
        let reading = self.tables.read().map_err(|error| failed(&error))?;
        let output =
            self.queries.of(self.priority).query(reading.snapshot(), sql, None).map_err(|error| failed(&error))?;
        reading.settle().map_err(|error| failed(&error))?;
        self.query_memory = Some(output.usage.peak_memory_bytes);
        Ok(QueryAnswer { batches: output.batches, snapshot: output.snapshot })
    }

    fn usage(&self) -> SessionUsage {
        let usage = self.connection.usage();
        SessionUsage {
            lock_wait: Some(usage.lock_wait),
            lock_waits: usage.lock_waits,
            io_wait: Some(usage.log_wait),
            rollback_time: Some(usage.rollback_time),
            query_memory: self.query_memory,
            network_bytes: None,
        }
    }

    fn take_lock_waits(&mut self, waits: &mut Vec<LockWait>) {
        self.connection.take_lock_waits(&mut self.waits);
        let waited = self.waits.drain(..);
        waits.extend(waited.map(|plimsoll_engine::LockWait { queue_time, excess, preempted }| LockWait {
            queue_time,
            excess,
            preempted,
        }));
    }
}
