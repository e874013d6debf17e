//! A benchmark's row operations as the engine's.

use plimsoll_engine::transaction::{Connection, End as EngineEnd, Purpose, TransactionError};
use plimsoll_engine::value::Value as EngineValue;
use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::schema::{ColumnId, Index, TableId};
use plimsoll_workload::statement::{End, Intent, RowAccess, RowRef, Value};
use smallvec::SmallVec;

/// A connection, and which of the engine's tables a schema's are.
pub(super) struct Access<'a> {
    pub(super) connection: &'a mut Connection,
    /// The engine's number of each table of the schema; `None` for those that are not kept as rows.
    pub(super) tables: &'a [Option<u32>],
    /// Row numbers of a range, kept to reuse its memory.
    pub(super) range: &'a mut Vec<u64>,
}

/// Rows of all benchmarks so far have fewer columns: no allocation for the values of one.
type Values<'a> = SmallVec<[EngineValue<'a>; 24]>;

fn values<'a>(values: &[Value<'a>]) -> Values<'a> {
    values.iter().map(|value| engine_value(*value)).collect()
}

fn engine_value(value: Value<'_>) -> EngineValue<'_> {
    match value {
        Value::Null => EngineValue::Null,
        Value::Int(number) => EngineValue::Int(number),
        Value::Text(text) => EngineValue::Text(text),
    }
}

fn purpose(intent: Intent) -> Purpose {
    match intent {
        Intent::Read => Purpose::Read,
        Intent::Update => Purpose::Update,
        Intent::Write => Purpose::Write,
    }
}

fn engine_end(end: End) -> EngineEnd {
    match end {
        End::First => EngineEnd::First,
        End::Last => EngineEnd::Last,
    }
}

pub(super) fn database_error(error: TransactionError) -> DatabaseError {
    match error {
        TransactionError::Deadlock => DatabaseError::Deadlock,
        TransactionError::Preempted => DatabaseError::Preempted,
        TransactionError::Duplicate { table } => DatabaseError::Duplicate { table },
        other => DatabaseError::Failed(other.to_string()),
    }
}

impl Access<'_> {
    fn number(&self, table: TableId) -> u32 {
        self.tables[table].expect("statements with a native form are about tables that are kept as rows")
    }
}

impl RowAccess for Access<'_> {
    fn find(&mut self, index: Index, key: &[Value<'_>], intent: Intent) -> Result<Option<RowRef>, DatabaseError> {
        assert_eq!(index.number, 0, "a single row is found by the primary key");
        let number = self.number(index.table);
        let found = self.connection.find(number, &values(key), purpose(intent)).map_err(database_error)?;
        Ok(found.map(|row| RowRef { table: index.table, row }))
    }

    fn find_end(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        end: End,
        intent: Intent,
    ) -> Result<Option<RowRef>, DatabaseError> {
        let engine_index = (self.number(index.table), index.number);
        let end = engine_end(end);
        let found = self.connection.find_end(engine_index, &values(low), &values(high), end, purpose(intent));
        Ok(found.map_err(database_error)?.map(|row| RowRef { table: index.table, row }))
    }

    fn find_all(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        intent: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        let engine_index = (self.number(index.table), index.number);
        let rows = &mut *self.range;
        let outcome = self.connection.find_all(engine_index, &values(low), &values(high), purpose(intent), rows);
        outcome.map_err(database_error)?;
        found.extend(rows.iter().map(|&row| RowRef { table: index.table, row }));
        Ok(())
    }

    fn find_some(
        &mut self,
        index: Index,
        (low, high): (&[Value<'_>], &[Value<'_>]),
        (end, limit): (End, usize),
        intent: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        let engine_index = (self.number(index.table), index.number);
        let (low, high) = (values(low), values(high));
        let rows = &mut *self.range;
        let which = (engine_end(end), limit);
        let outcome = self.connection.find_some(engine_index, (&low, &high), which, purpose(intent), rows);
        outcome.map_err(database_error)?;
        found.extend(rows.iter().map(|&row| RowRef { table: index.table, row }));
        Ok(())
    }

    fn int(&self, row: RowRef, column: ColumnId) -> i64 {
        self.connection.int(self.number(row.table), row.row, column)
    }

    fn is_null(&self, row: RowRef, column: ColumnId) -> bool {
        self.connection.is_null(self.number(row.table), row.row, column)
    }

    fn text(&self, row: RowRef, column: ColumnId, into: &mut String) {
        self.connection.text(self.number(row.table), row.row, column, into);
    }

    fn set(&mut self, row: RowRef, column: ColumnId, value: Value<'_>) -> Result<(), DatabaseError> {
        let number = self.number(row.table);
        self.connection.set(number, row.row, column, engine_value(value)).map_err(database_error)
    }

    fn insert(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), DatabaseError> {
        let number = self.number(table);
        self.connection.insert(number, &values(row)).map(|_| ()).map_err(database_error)
    }

    fn delete(&mut self, row: RowRef) -> Result<(), DatabaseError> {
        let number = self.number(row.table);
        self.connection.delete(number, row.row).map_err(database_error)
    }
}
