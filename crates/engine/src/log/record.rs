//! What a unit says: the changes of one transaction, logically, and that it committed.
//!
//! A record names its table by the engine's number and its row by the primary key; a row of a table without one by its number,
//! which means the row that was inserted with that number before. Values are as at the commit. Records stand in the order in
//! which the changes were made, so that a key that was deleted and inserted again comes out right.

use crate::table::RowTable;
use crate::table::heap::RowId;
use crate::value::{ColumnType, Value};

/// Kinds of records, one byte each.
const INSERT: u8 = 1;
const UPDATE: u8 = 2;
const DELETE: u8 = 3;
const COMMIT: u8 = 4;

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
    /// As the engine takes it.
    pub fn value(&self) -> Value<'_> {
        match self {
            LoggedValue::Null => Value::Null,
            LoggedValue::Int(number) => Value::Int(*number),
            LoggedValue::Text(text) => Value::Text(text),
        }
    }
}

/// Which row of its table is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowName {
    /// The row with that primary key.
    Key(Vec<LoggedValue>),
    /// The row that was inserted with that number last.
    Number(RowId),
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A row came.
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
        /// The columns by position, and what they hold now.
        columns: Vec<(u16, LoggedValue)>,
    },
    /// A row went.
    Delete {
        /// Its table.
        table: u32,
        /// Which row.
        row: RowName,
    },
}

/// A committed transaction, as read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedTransaction {
    /// Its place in the log.
    pub lsn: u64,
    /// Its changes.
    pub records: Vec<Record>,
}

/// A unit that is being made. Kept by a connection for its memory.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    bytes: Vec<u8>,
    records: u32,
    /// Tables with a record, a bit of them more than once.
    tables: Vec<u32>,
    text: String,
    checksum: u32,
}

impl Unit {
    /// Forgets what it held.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.tables.clear();
        self.records = 0;
    }

    /// The row came.
    pub(crate) fn insert(&mut self, table: &RowTable, row: RowId) {
        self.begin(INSERT, table);
        self.bytes.extend_from_slice(&row.to_le_bytes());
        self.put_count(table.spec.columns.len());
        (0..table.spec.columns.len()).for_each(|column| self.put_column(table, row, column));
    }

    /// Columns of the row changed.
    pub(crate) fn update(&mut self, table: &RowTable, row: RowId, columns: impl ExactSizeIterator<Item = usize>) {
        self.begin(UPDATE, table);
        self.put_name(table, row);
        self.put_count(columns.len());
        for column in columns {
            self.put_count(column);
            self.put_column(table, row, column);
        }
    }

    /// The row went. To be called while it is still readable.
    pub(crate) fn delete(&mut self, table: &RowTable, row: RowId) {
        self.begin(DELETE, table);
        self.put_name(table, row);
    }

    /// The transaction commits: the unit is complete.
    pub(crate) fn finish(&mut self) {
        self.bytes.push(COMMIT);
        self.bytes.extend_from_slice(&self.records.to_le_bytes());
        self.checksum = crc32fast::hash(&self.bytes);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn checksum(&self) -> u32 {
        self.checksum
    }

    pub(super) fn tables(&self) -> &[u32] {
        &self.tables
    }

    fn begin(&mut self, kind: u8, table: &RowTable) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&table.number.to_le_bytes());
        self.records += 1;
        if self.tables.last() != Some(&table.number) {
            self.tables.push(table.number);
        }
    }

    /// Tables have few columns and indexes fewer.
    fn put_count(&mut self, count: usize) {
        self.bytes.push(u8::try_from(count).expect("a table has at most 56 columns"));
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
            self.text.clear();
            heap.text(row, column, &mut self.text);
            let length = u16::try_from(self.text.len()).expect("a column's text has at most 65 535 bytes");
            self.bytes.push(TEXT);
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(self.text.as_bytes());
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

/// The records of a unit; `None` if it is not one.
pub(super) fn decode(unit: &[u8]) -> Option<Vec<Record>> {
    let mut input = Input(unit);
    let mut records = Vec::new();
    loop {
        match input.u8()? {
            INSERT => {
                let (table, row) = (input.u32()?, input.u64()?);
                let values = input.list(Input::value)?;
                records.push(Record::Insert { table, row, values });
            }
            UPDATE => {
                let (table, row) = (input.u32()?, input.name()?);
                let columns = input.list(|input| Some((u16::from(input.u8()?), input.value()?)))?;
                records.push(Record::Update { table, row, columns });
            }
            DELETE => records.push(Record::Delete { table: input.u32()?, row: input.name()? }),
            COMMIT => return (input.u32()? as usize == records.len() && input.0.is_empty()).then_some(records),
            _ => return None,
        }
    }
}

/// Bytes still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u8()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn name(&mut self) -> Option<RowName> {
        let key = self.list(Input::value)?;
        if key.is_empty() { self.u64().map(RowName::Number) } else { Some(RowName::Key(key)) }
    }

    fn value(&mut self) -> Option<LoggedValue> {
        Some(match self.u8()? {
            NULL => LoggedValue::Null,
            INT_32 => LoggedValue::Int(i64::from(i32::from_le_bytes(self.array()?))),
            INT_64 => LoggedValue::Int(i64::from_le_bytes(self.array()?)),
            TEXT => {
                let length = u16::from_le_bytes(self.array()?);
                LoggedValue::Text(std::str::from_utf8(self.bytes(usize::from(length))?).ok()?.to_owned())
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::layout::TableSpec;
    use crate::value::ColumnSpec;

    fn table(primary_key: Vec<usize>) -> RowTable {
        let column = |name: &str, kind, nullable| ColumnSpec { name: name.to_owned(), kind, nullable };
        let columns = vec![
            column("id", ColumnType::Int64, false),
            column("note", ColumnType::Text(40), true),
            column("day", ColumnType::Int32, true),
        ];
        let spec = TableSpec { name: "t".to_owned(), columns, primary_key, secondary: vec![] };
        RowTable::new(5, 0, spec).expect("a small table")
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
}
