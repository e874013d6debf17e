//! The contents of a unit: the logical changes of one transaction, and its commit.
//!
//! A record names its table by the engine's number and its row by the primary key; a row of a table without one by its
//! number, which means the row that was inserted with that number before. Values are as at the commit. Records are in
//! the order of the changes, so that a key that was deleted and inserted again is correct in the end. Where a database
//! outlives its process, creating and dropping a table is a separate unit, and checkpoints consist of the same records.

mod decode;

pub(crate) use decode::decode;

use crate::table::RowTable;
use crate::table::heap::RowId;
use crate::table::layout::TableSpec;
use crate::value::{ColumnType, Value};

/// Kinds of records, one byte each.
const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const COMMIT: u8 = 4;
const CREATE_TABLE: u8 = 5;
const DROP_TABLE: u8 = 6;
const KEEP_SET: u8 = 7;

/// Kinds of values, one byte each.
const NULL: u8 = 0;
const INT_32: u8 = 1;
const INT_64: u8 = 2;
const TEXT: u8 = 3;

/// A value in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedValue {
    /// Null.
    Null,
    /// An integer.
    Int(i64),
    /// Text.
    Text(String),
}

impl LoggedValue {
    /// As a value of the engine.
    pub fn value(&self) -> Value<'_> {
        match self {
            LoggedValue::Null => Value::Null,
            LoggedValue::Int(number) => Value::Int(*number),
            LoggedValue::Text(text) => Value::Text(text),
        }
    }
}

/// The row of its table that a record is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowName {
    /// The row with this primary key.
    Key(Vec<LoggedValue>),
    /// The row that was inserted last with this number.
    Number(RowId),
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A row was inserted.
    Insert {
        /// Its table.
        table: u32,
        /// Its number in the engine that wrote the log.
        row: RowId,
        /// All of its columns.
        values: Vec<LoggedValue>,
    },
    /// Columns of a row changed.
    Update {
        /// Its table.
        table: u32,
        /// Which row.
        row: RowName,
        /// The columns by position, and their new values.
        columns: Vec<(u16, LoggedValue)>,
    },
    /// A row was deleted.
    Delete {
        /// Its table.
        table: u32,
        /// Which row.
        row: RowName,
    },
    /// A table was made.
    CreateTable {
        /// Its number.
        table: u32,
        /// As declared.
        spec: TableSpec,
    },
    /// A table was dropped.
    DropTable {
        /// Its number.
        table: u32,
    },
    /// These tables are a set and were filled. Only in checkpoints.
    KeepSet {
        /// The name of the set.
        name: String,
        /// Their numbers.
        tables: Vec<u32>,
    },
}

/// A committed transaction, as read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedTransaction {
    /// Its place in the log.
    pub lsn: u64,
    /// The place after it.
    pub end_lsn: u64,
    /// Its changes.
    pub records: Vec<Record>,
}

/// A unit under construction. A connection keeps it for its memory.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    bytes: Vec<u8>,
    records: u32,
    /// Tables with a record; some of them occur more than once.
    tables: Vec<u32>,
    text: String,
    checksum: u32,
}

impl Unit {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.tables.clear();
        self.records = 0;
    }

    /// A row was inserted.
    pub(crate) fn insert(&mut self, table: &RowTable, row: RowId) {
        self.begin(INSERT, table);
        self.bytes.extend_from_slice(&row.to_le_bytes());
        self.put_count(table.spec.columns.len());
        (0..table.spec.columns.len()).for_each(|column| self.put_column(table, row, column));
    }

    /// Columns of a row changed.
    pub(crate) fn update(&mut self, table: &RowTable, row: RowId, columns: impl ExactSizeIterator<Item = usize>) {
        self.begin(UPDATE, table);
        self.put_name(table, row);
        self.put_count(columns.len());
        for column in columns {
            self.put_count(column);
            self.put_column(table, row, column);
        }
    }

    /// A row was deleted. To be called while it is still readable.
    pub(crate) fn delete(&mut self, table: &RowTable, row: RowId) {
        self.begin(DELETE, table);
        self.put_name(table, row);
    }

    pub(crate) fn create_table(&mut self, table: u32, spec: &TableSpec) {
        self.begin_numbered(CREATE_TABLE, table);
        self.put_text(&spec.name);
        self.put_count(spec.columns.len());
        for column in &spec.columns {
            self.put_text(&column.name);
            let (kind, width) = match column.kind {
                ColumnType::Int32 => (INT_32, 0),
                ColumnType::Int64 => (INT_64, 0),
                ColumnType::Text(width) => (TEXT, width),
            };
            self.bytes.push(kind);
            self.bytes.extend_from_slice(&width.to_le_bytes());
            self.bytes.push(u8::from(column.nullable));
        }
        self.put_positions(&spec.primary_key);
        self.put_count(spec.secondary.len());
        spec.secondary.iter().for_each(|columns| self.put_positions(columns));
    }

    pub(crate) fn drop_table(&mut self, table: u32) {
        self.begin_numbered(DROP_TABLE, table);
    }

    /// These tables are a set and were filled.
    pub(crate) fn keep_set(&mut self, name: &str, tables: &[u32]) {
        self.bytes.push(KEEP_SET);
        self.records += 1;
        self.put_text(name);
        self.put_count(tables.len());
        tables.iter().for_each(|table| self.bytes.extend_from_slice(&table.to_le_bytes()));
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The transaction commits: the unit is complete.
    pub(crate) fn finish(&mut self) {
        self.bytes.push(COMMIT);
        self.bytes.extend_from_slice(&self.records.to_le_bytes());
        self.checksum = crc32fast::hash(&self.bytes);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }

    pub(super) fn tables(&self) -> &[u32] {
        &self.tables
    }

    fn begin(&mut self, kind: u8, table: &RowTable) {
        self.begin_numbered(kind, table.number);
    }

    fn begin_numbered(&mut self, kind: u8, table: u32) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&table.to_le_bytes());
        self.records += 1;
        if self.tables.last() != Some(&table) {
            self.tables.push(table);
        }
    }

    /// Tables have few columns and indexes fewer, and schemas have few tables.
    fn put_count(&mut self, count: usize) {
        self.bytes.push(u8::try_from(count).expect("at most 56 columns, and fewer indexes and tables than 256"));
    }

    fn put_positions(&mut self, columns: &[usize]) {
        self.put_count(columns.len());
        columns.iter().for_each(|&column| self.put_count(column));
    }

    fn put_text(&mut self, text: &str) {
        let length = u16::try_from(text.len()).expect("a column's text, and names, have at most 65 535 bytes");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn put_name(&mut self, table: &RowTable, row: RowId) {
        let key = &table.spec.primary_key;
        self.put_count(key.len());
        if key.is_empty() {
            self.bytes.extend_from_slice(&row.to_le_bytes());
        }
        key.iter().for_each(|&column| self.put_column(table, row, column));
    }

    fn put_column(&mut self, table: &RowTable, row: RowId, column: usize) {
        let heap = &table.heap;
        if heap.is_null(row, column) {
            self.bytes.push(NULL);
        } else if let ColumnType::Text(_) = table.spec.columns[column].kind {
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            heap.text(row, column, &mut text);
            self.bytes.push(TEXT);
            self.put_text(&text);
            self.text = text;
        } else {
            let number = heap.int(row, column);
            if let Ok(small) = i32::try_from(number) {
                self.bytes.push(INT_32);
                self.bytes.extend_from_slice(&small.to_le_bytes());
            } else {
                self.bytes.push(INT_64);
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::IndexKind;
    use crate::value::ColumnSpec;

    fn table(primary_key: Vec<usize>) -> RowTable {
        let column = |name: &str, kind, nullable| ColumnSpec { name: name.to_owned(), kind, nullable };
        let columns = vec![
            column("id", ColumnType::Int64, false),
            column("note", ColumnType::Text(40), true),
            column("day", ColumnType::Int32, true),
        ];
        let spec = TableSpec { name: "t".to_owned(), columns, primary_key, secondary: vec![] };
        RowTable::new(5, 0, spec, IndexKind::Tree).expect("a small table")
    }

    #[test]
    fn a_unit_is_read_as_written_and_no_part_of_it_is_one() {
        for key in [vec![0], vec![]] {
            let table = table(key.clone());
            let row = table.load(&[Value::Int(1 << 40), Value::Text("naïve"), Value::Null]).expect("fits");
            let mut unit = Unit::default();
            unit.insert(&table, row);
            unit.update(&table, row, [1, 2].into_iter());
            unit.delete(&table, row);
            unit.finish();
            let name =
                if key.is_empty() { RowName::Number(row) } else { RowName::Key(vec![LoggedValue::Int(1 << 40)]) };
            let text = LoggedValue::Text("naïve".to_owned());
            let values = vec![LoggedValue::Int(1 << 40), text.clone(), LoggedValue::Null];
            let expected = vec![
                Record::Insert { table: 5, row, values },
                Record::Update { table: 5, row: name.clone(), columns: vec![(1, text), (2, LoggedValue::Null)] },
                Record::Delete { table: 5, row: name },
            ];
            assert_eq!(decode(unit.bytes()), Some(expected));
            assert!((0..unit.bytes().len()).all(|length| decode(&unit.bytes()[..length]).is_none()));
        }
    }

    #[test]
    fn what_is_said_of_tables_is_read_as_written() {
        let mut spec = table(vec![0]).spec;
        spec.primary_key = vec![2, 0];
        spec.secondary = vec![vec![0], vec![0, 2]];
        let mut unit = Unit::default();
        unit.create_table(9, &spec);
        unit.keep_set("harbour", &[9, 70_000]);
        unit.drop_table(9);
        unit.finish();
        let expected = vec![
            Record::CreateTable { table: 9, spec },
            Record::KeepSet { name: "harbour".to_owned(), tables: vec![9, 70_000] },
            Record::DropTable { table: 9 },
        ];
        assert_eq!(decode(unit.bytes()), Some(expected));
        assert!((0..unit.bytes().len()).all(|length| decode(&unit.bytes()[..length]).is_none()));
    }
}
