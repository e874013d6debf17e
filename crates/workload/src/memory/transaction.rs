//! Row operations of the one open transaction, and how they are taken back.

use std::collections::BTreeMap;

use super::store::{Datum, Row, Store, check_value};
use crate::database::DatabaseError;
use crate::schema::{ColumnId, Index, TableId};
use crate::statement::{End, Intent, RowAccess, RowRef, Value};

/// The changes and declarations of a transaction.
#[derive(Debug, Default)]
pub(super) struct Undo {
    steps: Vec<UndoStep>,
    /// The strongest intent with which each row was found, by table and row.
    declared: BTreeMap<(TableId, u64), RowRight>,
}

#[derive(Debug)]
enum UndoStep {
    Inserted { table: TableId, row: u64 },
    Deleted { table: TableId, row: u64, before: Row },
    Changed { table: TableId, row: u64, column: ColumnId, before: Datum },
}

/// The rights of a transaction to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RowRight {
    Read,
    Change,
    ChangeOrDelete,
}

impl From<Intent> for RowRight {
    fn from(intent: Intent) -> Self {
        match intent {
            Intent::Read => RowRight::Read,
            Intent::Update => RowRight::Change,
            Intent::Write => RowRight::ChangeOrDelete,
        }
    }
}

impl Undo {
    /// Undoes all changes, last step first.
    pub(super) fn apply(self, store: &mut Store) {
        for step in self.steps.into_iter().rev() {
            match step {
                UndoStep::Inserted { table, row } => drop(store.take(table, row)),
                UndoStep::Deleted { table, row, before } => {
                    store.put(table, row, before).expect("the key was free before the row was deleted");
                }
                UndoStep::Changed { table, row, column, before } => drop(store.replace(table, row, column, before)),
            }
        }
    }
}

/// The open transaction's view of the store.
pub(super) struct Transaction<'a> {
    store: &'a mut Store,
    undo: &'a mut Undo,
}

impl<'a> Transaction<'a> {
    pub(super) fn new(store: &'a mut Store, undo: &'a mut Undo) -> Self {
        Transaction { store, undo }
    }

    fn declare(&mut self, table: TableId, row: u64, intent: Intent) -> RowRef {
        let declared = self.undo.declared.entry((table, row)).or_insert(RowRight::Read);
        *declared = (*declared).max(intent.into());
        RowRef { table, row }
    }

    fn require(&self, row: RowRef, needed: RowRight) -> Result<(), DatabaseError> {
        let declared = self.undo.declared.get(&(row.table, row.row)).copied();
        if declared.is_some_and(|declared| declared >= needed) {
            return Ok(());
        }
        let table = self.store.schema.tables[row.table].name;
        Err(DatabaseError::Failed(format!("a row of {table} was found to {declared:?}, and now is to {needed:?}")))
    }
}

impl RowAccess for Transaction<'_> {
    fn find(&mut self, index: Index, key: &[Value<'_>], intent: Intent) -> Result<Option<RowRef>, DatabaseError> {
        let found = self.store.find(index, key);
        Ok(found.map(|row| self.declare(index.table, row, intent)))
    }

    fn find_end(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        end: End,
        intent: Intent,
    ) -> Result<Option<RowRef>, DatabaseError> {
        let found = self.store.range(index, low, high, end).next();
        Ok(found.map(|row| self.declare(index.table, row, intent)))
    }

    fn find_all(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        intent: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        let rows = self.store.range(index, low, high, End::First).collect::<Vec<_>>();
        found.extend(rows.into_iter().map(|row| self.declare(index.table, row, intent)));
        Ok(())
    }

    fn int(&self, row: RowRef, column: ColumnId) -> i64 {
        self.store.row(row.table, row.row)[column].value().int()
    }

    fn is_null(&self, row: RowRef, column: ColumnId) -> bool {
        self.store.row(row.table, row.row)[column] == Datum::Null
    }

    fn text(&self, row: RowRef, column: ColumnId, into: &mut String) {
        into.push_str(self.store.row(row.table, row.row)[column].value().text());
    }

    fn set(&mut self, row: RowRef, column: ColumnId, value: Value<'_>) -> Result<(), DatabaseError> {
        self.require(row, RowRight::Change)?;
        let table = &self.store.schema.tables[row.table];
        let mut index_columns = table.secondary.iter().flat_map(|index| index.columns).chain(table.primary_key);
        if index_columns.any(|&indexed| indexed == column) {
            let column = table.columns[column].name;
            return Err(DatabaseError::Failed(format!("{}.{column} is in an index and never changes", table.name)));
        }
        let value = Datum::from(value);
        check_value(table, column, &value)?;
        let before = self.store.replace(row.table, row.row, column, value);
        self.undo.steps.push(UndoStep::Changed { table: row.table, row: row.row, column, before });
        Ok(())
    }

    fn insert(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), DatabaseError> {
        let row = self.store.insert(table, row.iter().map(|&value| Datum::from(value)).collect())?;
        self.undo.steps.push(UndoStep::Inserted { table, row });
        Ok(())
    }

    fn delete(&mut self, row: RowRef) -> Result<(), DatabaseError> {
        self.require(row, RowRight::ChangeOrDelete)?;
        let before = self.store.take(row.table, row.row);
        self.undo.steps.push(UndoStep::Deleted { table: row.table, row: row.row, before });
        Ok(())
    }
}
