//! Tables as rows in slots and ordered indexes over them.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow::record_batch::RecordBatch;

use crate::database::DatabaseError;
use crate::schema::{ColumnId, ColumnKind, Index, Schema, Table, TableId};
use crate::statement::{End, Value};

/// A stored value. The order of the variants is the order of keys: nulls first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Datum {
    Null,
    Int(i64),
    Text(Box<str>),
    /// Greater than every value; ends a range whose upper end is a prefix.
    Top,
}

impl Datum {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Datum::Null => Value::Null,
            Datum::Int(number) => Value::Int(*number),
            Datum::Text(text) => Value::Text(text),
            Datum::Top => unreachable!("ends ranges and is never stored"),
        }
    }
}

impl From<Value<'_>> for Datum {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Datum::Null,
            Value::Int(number) => Datum::Int(number),
            Value::Text(text) => Datum::Text(text.into()),
        }
    }
}

pub(super) type Row = Box<[Datum]>;

type Key = Vec<Datum>;

/// Every table of a schema.
pub(super) struct Store {
    pub(super) schema: Schema,
    tables: Vec<TableStore>,
}

struct TableStore {
    definition: &'static Table,
    /// A row's number is its place here; a deleted row leaves its place empty.
    rows: Vec<Option<Row>>,
    /// Invariant: each index holds exactly the rows present. Keys of secondary indexes end with the row's number, so that
    /// equal columns are all kept.
    indexes: Vec<BTreeMap<Key, u64>>,
}

impl TableStore {
    fn index_columns(&self, number: usize) -> &'static [ColumnId] {
        match number {
            0 => self.definition.primary_key,
            _ => self.definition.secondary[number - 1].columns,
        }
    }

    fn key(&self, number: usize, row: &[Datum], row_number: u64) -> Key {
        let mut key = self.index_columns(number).iter().map(|&column| row[column].clone()).collect::<Key>();
        if number > 0 {
            key.push(Datum::Int(row_number as i64));
        }
        key
    }

    /// Index 0 of a table without a primary key is kept empty.
    fn has_index(&self, number: usize) -> bool {
        !self.index_columns(number).is_empty()
    }
}

impl Store {
    pub(super) fn new(schema: &Schema) -> Self {
        let table = |definition: &'static Table| TableStore {
            definition,
            rows: Vec::new(),
            indexes: vec![BTreeMap::new(); 1 + definition.secondary.len()],
        };
        Store { schema: schema.clone(), tables: schema.tables.iter().map(table).collect() }
    }

    pub(super) fn scan(&self, table: TableId, visit: &mut dyn FnMut(&[Value<'_>])) {
        for row in self.tables[table].rows.iter().flatten() {
            let values = row.iter().map(Datum::value).collect::<Vec<_>>();
            visit(&values);
        }
    }

    pub(super) fn row(&self, table: TableId, row: u64) -> &[Datum] {
        self.tables[table].rows[row as usize].as_deref().expect("a row that was found stays until it is deleted")
    }

    /// Puts a checked value into a column that is in no index, and returns the previous value.
    pub(super) fn replace(&mut self, table: TableId, row: u64, column: ColumnId, value: Datum) -> Datum {
        let row = self.tables[table].rows[row as usize].as_deref_mut();
        let row = row.expect("a row that was found stays until it is deleted");
        std::mem::replace(&mut row[column], value)
    }

    /// Adds a row at a number of its own.
    pub(super) fn insert(&mut self, table: TableId, row: Row) -> Result<u64, DatabaseError> {
        check_row(self.tables[table].definition, &row)?;
        let number = self.tables[table].rows.len() as u64;
        self.tables[table].rows.push(None);
        self.put(table, number, row)?;
        Ok(number)
    }

    /// Puts a row at an empty place.
    pub(super) fn put(&mut self, table: TableId, number: u64, row: Row) -> Result<(), DatabaseError> {
        let table = &mut self.tables[table];
        if table.has_index(0) && table.indexes[0].contains_key(&table.key(0, &row, number)) {
            return Err(DatabaseError::Duplicate { table: table.definition.name.to_owned() });
        }
        for index in (0..table.indexes.len()).filter(|&index| table.has_index(index)).collect::<Vec<_>>() {
            let key = table.key(index, &row, number);
            table.indexes[index].insert(key, number);
        }
        table.rows[number as usize] = Some(row);
        Ok(())
    }

    /// Takes a row away and returns it.
    pub(super) fn take(&mut self, table: TableId, number: u64) -> Row {
        let table = &mut self.tables[table];
        let row = table.rows[number as usize].take().expect("a row that was found stays until it is deleted");
        for index in (0..table.indexes.len()).filter(|&index| table.has_index(index)).collect::<Vec<_>>() {
            let key = table.key(index, &row, number);
            table.indexes[index].remove(&key).expect("each index holds exactly the rows present");
        }
        row
    }

    pub(super) fn find(&self, index: Index, key: &[Value<'_>]) -> Option<u64> {
        let table = &self.tables[index.table];
        assert!(index.number == 0, "single rows are found by the primary key");
        assert_eq!(key.len(), table.definition.primary_key.len(), "the whole key of {}", table.definition.name);
        let key = key.iter().map(|&value| Datum::from(value)).collect::<Key>();
        table.indexes[0].get(&key).copied()
    }

    /// The rows whose keys begin with something within `low..=high`, in order of key, from one end.
    pub(super) fn range<'a>(
        &'a self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        end: End,
    ) -> Box<dyn Iterator<Item = u64> + 'a> {
        let table = &self.tables[index.table];
        let Table { name, has_key_ranges, .. } = table.definition;
        assert!(table.has_index(index.number), "{name} has no primary key");
        assert!(
            index.number > 0 || *has_key_ranges,
            "declare {name} with key ranges, for its primary key has one read"
        );
        let low = low.iter().map(|&value| Datum::from(value)).collect::<Key>();
        let high = high.iter().map(|&value| Datum::from(value)).chain([Datum::Top]).collect::<Key>();
        if low > high {
            return Box::new(std::iter::empty());
        }
        let found = table.indexes[index.number].range(low..high).map(|(_, &row)| row);
        match end {
            End::First => Box::new(found),
            End::Last => Box::new(found.rev()),
        }
    }

    pub(super) fn load(&mut self, table: TableId, batch: &RecordBatch) -> Result<(), DatabaseError> {
        let definition = self.tables[table].definition;
        if batch.schema() != definition.arrow() {
            return Err(DatabaseError::Failed(format!(
                "a batch for {} has columns {:?}",
                definition.name,
                batch.schema().fields()
            )));
        }
        for row in 0..batch.num_rows() {
            let values = definition.columns.iter().zip(batch.columns());
            let values = values.map(|(column, array)| loaded(column.kind, array.as_ref(), row));
            self.insert(table, values.collect())?;
        }
        Ok(())
    }
}

fn loaded(kind: ColumnKind, array: &dyn Array, row: usize) -> Datum {
    if array.is_null(row) {
        return Datum::Null;
    }
    match kind {
        ColumnKind::Int => Datum::Int(array.as_primitive::<Int32Type>().value(row).into()),
        ColumnKind::BigInt => Datum::Int(array.as_primitive::<Int64Type>().value(row)),
        ColumnKind::Decimal { .. } => Datum::Int(array.as_primitive::<Decimal128Type>().value(row) as i64),
        ColumnKind::Text(_) => Datum::Text(array.as_string_view().value(row).into()),
        ColumnKind::Date => Datum::Int(array.as_primitive::<Date32Type>().value(row).into()),
        ColumnKind::Timestamp => Datum::Int(array.as_primitive::<TimestampMicrosecondType>().value(row)),
    }
}

fn check_row(table: &Table, row: &[Datum]) -> Result<(), DatabaseError> {
    if row.len() != table.columns.len() {
        return Err(DatabaseError::Failed(format!(
            "a row of {} has {} values, not {}",
            table.name,
            row.len(),
            table.columns.len()
        )));
    }
    row.iter().enumerate().try_for_each(|(column, value)| check_value(table, column, value))
}

/// Fails where a column does not allow a value.
pub(super) fn check_value(table: &Table, column: ColumnId, value: &Datum) -> Result<(), DatabaseError> {
    let column = &table.columns[column];
    let is_allowed = match (value, column.kind) {
        (Datum::Null, _) => column.nullable,
        (Datum::Text(text), ColumnKind::Text(bytes_max)) => text.len() <= bytes_max,
        (Datum::Int(number), ColumnKind::Int | ColumnKind::Date) => i32::try_from(*number).is_ok(),
        (Datum::Int(_), ColumnKind::BigInt | ColumnKind::Timestamp) => true,
        (Datum::Int(number), ColumnKind::Decimal { precision, .. }) => {
            number.unsigned_abs() < 10u64.pow(precision.into())
        }
        _ => false,
    };
    if is_allowed {
        return Ok(());
    }
    Err(DatabaseError::Failed(format!("{}.{} is {:?} and cannot hold {value:?}", table.name, column.name, column.kind)))
}
