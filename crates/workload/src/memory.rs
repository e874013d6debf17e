//! The reference implementation of [`Database`]: one transaction at a time under a mutex, BTreeMap indexes, undo by
//! before-images.
//!
//! It is made for tests. Because it runs transactions one by one and without optimisations, every serializable database
//! must hold the same data after the same sequence of transactions. It is also stricter than a real one: a native
//! statement that writes a row it has not declared, changes a column of an index, or stores a value that its column
//! does not allow, fails here. It answers no SQL: [`Session::query`] is unsupported, and tests look at rows with
//! [`MemoryDatabase::scan`].

mod store;
mod transaction;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parking_lot::{Condvar, Mutex};

use crate::database::{Database, DatabaseError, QueryAnswer, Session};
use crate::schema::{Schema, TableId};
use crate::statement::{Rows, Statement, Value};
use store::Store;
use transaction::{Transaction, Undo};

/// A database in the memory of this process. See the module.
#[derive(Default)]
pub struct MemoryDatabase {
    schemas: Mutex<BTreeMap<String, Arc<SharedStore>>>,
}

/// The tables of one schema and the transaction that may run now.
struct SharedStore {
    store: Mutex<Store>,
    /// Whether a transaction is open. Sessions wait here for the open transaction to end, because it outlasts the calls
    /// during which the store itself is locked.
    busy: Mutex<bool>,
    turn: Condvar,
}

impl MemoryDatabase {
    /// A database without tables.
    pub fn new() -> Self {
        MemoryDatabase::default()
    }

    /// Calls `visit` with every row of a table, in the order in which they were inserted. Waits for no transaction, so
    /// none should be open.
    pub fn scan(
        &self,
        schema: &Schema,
        table: TableId,
        visit: &mut dyn FnMut(&[Value<'_>]),
    ) -> Result<(), DatabaseError> {
        self.shared(schema)?.store.lock().scan(table, visit);
        Ok(())
    }

    fn shared(&self, schema: &Schema) -> Result<Arc<SharedStore>, DatabaseError> {
        let schemas = self.schemas.lock();
        schemas
            .get(&*schema.name)
            .cloned()
            .ok_or_else(|| DatabaseError::Failed(format!("there are no tables of {}; create them first", schema.name)))
    }
}

impl Database for MemoryDatabase {
    fn create(&self, schema: &Schema) -> Result<(), DatabaseError> {
        let shared =
            SharedStore { store: Mutex::new(Store::new(schema)), busy: Mutex::new(false), turn: Condvar::new() };
        self.schemas.lock().insert(schema.name.to_string(), Arc::new(shared));
        Ok(())
    }

    fn drop_tables(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.schemas.lock().remove(&*schema.name);
        Ok(())
    }

    fn load(&self, schema: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.shared(schema)?.store.lock().load(table, &batch)
    }

    fn finish_load(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.shared(schema).map(drop)
    }

    fn session(&self, schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Ok(Box::new(MemorySession { shared: self.shared(schema)?, undo: None }))
    }

    fn refresh(&self, schema: &Schema) -> Result<(), DatabaseError> {
        self.shared(schema).map(drop)
    }
}

struct MemorySession {
    shared: Arc<SharedStore>,
    /// The changes to undo, while a transaction is open.
    undo: Option<Undo>,
}

impl MemorySession {
    fn end(&mut self, is_kept: bool) -> Result<(), DatabaseError> {
        let none = || DatabaseError::Failed("no transaction is open; begin one first".to_owned());
        let undo = self.undo.take().ok_or_else(none)?;
        if !is_kept {
            undo.apply(&mut self.shared.store.lock());
        }
        *self.shared.busy.lock() = false;
        self.shared.turn.notify_one();
        Ok(())
    }
}

impl Session for MemorySession {
    fn begin(&mut self) -> Result<(), DatabaseError> {
        if self.undo.is_some() {
            return Err(DatabaseError::Failed("a transaction is open already; commit or roll back first".to_owned()));
        }
        let mut busy = self.shared.busy.lock();
        self.shared.turn.wait_while(&mut busy, |busy| *busy);
        *busy = true;
        drop(busy);
        self.undo = Some(Undo::default());
        Ok(())
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        rows.clear();
        if self.undo.is_none() {
            self.begin()?;
            self.execute(statement, parameters, rows)?;
            return self.commit();
        }
        let undo = self.undo.as_mut().expect("a transaction is open");
        let mut store = self.shared.store.lock();
        let result = (statement.native)(&mut Transaction::new(&mut store, undo), parameters, rows);
        drop(store);
        if result.is_err() {
            self.end(false)?;
        }
        result
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.end(true)
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.end(false)
    }

    fn query(&mut self, _sql: &str) -> Result<QueryAnswer, DatabaseError> {
        Err(DatabaseError::Unsupported("the reference database answers no SQL".to_owned()))
    }
}

impl Drop for MemorySession {
    fn drop(&mut self) {
        // Fails only if no transaction is open, and then there is nothing to do.
        let _ = self.end(false);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
