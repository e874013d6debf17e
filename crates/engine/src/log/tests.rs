//! The log of an engine: histories can be read back, damage is never accepted as data, and faults lose nothing
//! acknowledged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod damage;
mod early_release;
mod faults;
mod groups;
mod history;
pub(crate) mod storage;

use std::sync::Arc;

use plimsoll_policy::Priority;

use super::reader::{LogEnd, LogReader, ReadError};
use super::record::{LoggedTransaction, LoggedValue};
use super::replay::replay;
use super::*;
use crate::clock::MonotonicClock;
use crate::engine::{Engine, EngineOptions};
use crate::table::RowTable;
use crate::table::layout::TableSpec;
use crate::transaction::{Connection, TransactionError};
use crate::value::{ColumnSpec, ColumnType, Value};
use storage::MemoryStorage;

/// The table with a primary key.
const KEYED: u32 = 0;
/// The table without a primary key.
const LIST: u32 = 1;

fn options(durability: Durability) -> LogOptions {
    LogOptions { durability, ..LogOptions::default() }
}

pub(crate) fn column(name: &str, kind: ColumnType, nullable: bool) -> ColumnSpec {
    ColumnSpec { name: name.to_owned(), kind, nullable }
}

/// A table with a primary key, and an index on its second column.
pub(crate) fn keyed() -> TableSpec {
    TableSpec {
        name: "keyed".to_owned(),
        columns: vec![
            column("key", ColumnType::Int64, false),
            column("tag", ColumnType::Int32, false),
            column("note", ColumnType::Text(40), true),
        ],
        primary_key: vec![0],
        secondary: vec![vec![1]],
    }
}

fn add_tables(engine: &Engine) {
    let list = TableSpec {
        name: "list".to_owned(),
        columns: vec![column("number", ColumnType::Int64, true)],
        primary_key: vec![],
        secondary: vec![],
    };
    engine.create_table(keyed()).unwrap();
    engine.create_table(list).unwrap();
}

fn logged_engine(storage: &MemoryStorage, options: &LogOptions) -> Arc<Engine> {
    let log = Log::start(Box::new(storage.clone()), options, Arc::new(MonotonicClock::default())).unwrap();
    let retry_max = 1_000_000;
    let engine = Engine::with_log(EngineOptions { retry_max, ..EngineOptions::default() }, Some(log));
    add_tables(&engine);
    engine
}

fn insert(connection: &mut Connection, key: i64, note: &str) -> Result<(), TransactionError> {
    connection.transact(Priority::LOW, |connection| {
        let values = [Value::Int(key), Value::Int(key % 3), Value::Text(note)];
        connection.insert(KEYED, &values).map(|_| ())
    })
}

/// All rows of a table, sorted.
fn rows(table: &RowTable) -> Vec<Vec<LoggedValue>> {
    let heap = &table.heap;
    let value = |row, column: usize| match table.spec.columns[column].kind {
        _ if heap.is_null(row, column) => LoggedValue::Null,
        ColumnType::Text(_) => {
            let mut text = String::new();
            heap.text(row, column, &mut text);
            LoggedValue::Text(text)
        }
        _ => LoggedValue::Int(heap.int(row, column)),
    };
    let columns = 0..table.spec.columns.len();
    let mut rows: Vec<Vec<_>> =
        heap.live_rows().map(|row| columns.clone().map(|column| value(row, column)).collect()).collect();
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

/// The rows of both tables. Every index must have a key for each.
fn contents(engine: &Engine) -> [Vec<Vec<LoggedValue>>; 2] {
    [KEYED, LIST].map(|number| {
        let table = engine.row_table(number);
        let rows = rows(&table);
        assert!(table.indexes.iter().all(|index| index.key_count() == rows.len()), "{}", table.spec.name);
        rows
    })
}

/// Replays a log on empty tables.
fn replayed(storage: &MemoryStorage) -> [Vec<Vec<LoggedValue>>; 2] {
    let engine = Engine::new(EngineOptions::default());
    add_tables(&engine);
    replay(LogReader::new(storage).unwrap(), |number| Some(engine.row_table(number))).unwrap();
    contents(&engine)
}

/// The keys that exist after replaying a log, ascending.
fn replayed_keys(storage: &MemoryStorage) -> Vec<i64> {
    let [keyed, _] = replayed(storage);
    let mut keys: Vec<_> = keyed
        .iter()
        .map(|row| match row[0] {
            LoggedValue::Int(key) => key,
            _ => unreachable!("keys are integers"),
        })
        .collect();
    keys.sort_unstable();
    keys
}

/// Every transaction of a log up to its end or the first error.
fn read(storage: &MemoryStorage) -> (Vec<LoggedTransaction>, Result<LogEnd, ReadError>) {
    let mut reader = match LogReader::new(storage) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Err(error)),
    };
    let mut transactions = Vec::new();
    for transaction in reader.by_ref() {
        match transaction {
            Ok(transaction) => transactions.push(transaction),
            Err(error) => return (transactions, Err(error)),
        }
    }
    let end = reader.end().unwrap().clone();
    (transactions, Ok(end))
}
