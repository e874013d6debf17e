//! One client's connection to the embedded engine.

use std::sync::Arc;

use plimsoll_engine::Connection;
use plimsoll_engine::table_set::TableSet;
use plimsoll_policy::Priority;
use plimsoll_workload::database::{DatabaseError, LockWait, QueryAnswer, Session, SessionUsage};
use plimsoll_workload::statement::{Rows, Statement, Value};

use super::access::{Access, database_error};
use super::engines::QueryEngines;
use super::placement::{Placement, Role};

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
    /// Where the client's thread runs, if threads are placed.
    placement: Option<Placement>,
    /// The role for which that thread was placed.
    role: Option<Role>,
    /// Buffer for lock waits between the engine and the caller, kept to reuse its memory.
    waits: Vec<plimsoll_engine::LockWait>,
}

impl EmbeddedSession {
    pub(super) fn new(
        connection: Connection,
        tables: Arc<TableSet>,
        queries: QueryEngines,
        placement: Option<Placement>,
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
            placement,
            role: None,
            waits: Vec::new(),
        }
    }

    /// Places the client's thread when it begins to do something else.
    fn act_as(&mut self, role: Role) -> Result<(), DatabaseError> {
        let Some(placement) = self.placement.as_ref().filter(|_| self.role != Some(role)) else { return Ok(()) };
        placement.place_client(role)?;
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
        let failed = |error: &dyn std::error::Error| DatabaseError::Failed(error.to_string());
        let reading = self.tables.read().map_err(|error| failed(&error))?;
        let output =
            self.queries.of(self.priority).query(reading.snapshot(), sql, None).map_err(|error| failed(&error))?;
        reading.settle().map_err(|error| failed(&error))?;
        Ok(QueryAnswer { batches: output.batches, snapshot: output.snapshot })
    }

    fn usage(&self) -> SessionUsage {
        let usage = self.connection.usage();
        SessionUsage {
            lock_wait: Some(usage.lock_wait),
            lock_waits: usage.lock_waits,
            io_wait: Some(usage.log_wait),
            rollback_time: Some(usage.rollback_time),
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
