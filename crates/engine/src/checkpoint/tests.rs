//! Checkpoints under crashes, faults and random histories.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod disk;
mod faults;
mod fuzzy;
mod states;

use std::sync::Arc;

use plimsoll_policy::Priority;

use super::*;
use crate::clock::{Clock, MonotonicClock};
use crate::engine::{Engine, EngineOptions, Parts};
use crate::log::storage::LogStorage;
use crate::log::tests::storage::MemoryStorage;
use crate::log::tests::{column, keyed};
use crate::log::{Durability, LogOptions};
use crate::recovery::{Recovered, RecoveryError, RecoveryReport, recover, remove_drafts, write_end_again};
use crate::table::layout::TableSpec;
use crate::table::{RowTable, TableError};
use crate::transaction::{Connection, Purpose, TransactionError};
use crate::value::{ColumnType, Value};

const DATABASE: u64 = 77;
/// The table with a primary key.
const KEYED: u32 = 0;
/// The table without any key but with an index.
const LIST: u32 = 1;

/// Options of a database with a folder, which these tests replace by a storage in memory.
fn options(durability: Durability) -> LogOptions {
    let data_folder = Some("in memory".into());
    // Checkpoints only when a test says so.
    LogOptions { durability, data_folder, checkpoint_bytes: u64::MAX / 2, ..LogOptions::default() }
}

/// Opens the contents of a storage as a database, as `Engine::open` opens a folder.
fn open(storage: &MemoryStorage, options: &LogOptions) -> Result<Arc<Engine>, RecoveryError> {
    open_with(storage, options, EngineOptions::default())
}

fn open_with(
    storage: &MemoryStorage,
    options: &LogOptions,
    engine: EngineOptions,
) -> Result<Arc<Engine>, RecoveryError> {
    open_in(Arc::new(storage.clone()), DATABASE, options, engine)
}

fn open_in(
    storage: Arc<dyn LogStorage>,
    database: u64,
    options: &LogOptions,
    engine: EngineOptions,
) -> Result<Arc<Engine>, RecoveryError> {
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::default());
    let recovered = recover(&*storage, database, &*clock)?;
    write_end_again(&*storage, &recovered)?;
    remove_drafts(&*storage);
    let Recovered { catalog, report, start, numbers, .. } = recovered;
    let log = Log::resume(storage, options, clock, start).unwrap();
    let parts = Parts { catalog, log: Some(log), numbers: Some(numbers), recovery: Some(report) };
    Ok(Engine::assemble(EngineOptions { retry_max: 1_000_000, ..engine }, parts).unwrap())
}

fn add_tables(engine: &Engine) {
    try_add_tables(engine).unwrap();
}

fn try_add_tables(engine: &Engine) -> Result<(), TableError> {
    let list = TableSpec {
        name: "list".to_owned(),
        columns: vec![column("number", ColumnType::Int64, false), column("note", ColumnType::Int64, true)],
        primary_key: vec![],
        secondary: vec![vec![0]],
    };
    assert_eq!(engine.create_table(keyed())?.number, KEYED);
    assert_eq!(engine.create_table(list)?.number, LIST);
    Ok(())
}

/// The rows as text. Looks into each index too: the heap and the index must agree.
fn rows(table: &RowTable) -> Vec<String> {
    let heap = &table.heap;
    let write_row = |row| {
        let mut text = String::new();
        for (column, spec) in table.spec.columns.iter().enumerate() {
            match spec.kind {
                _ if heap.is_null(row, column) => text.push_str("null"),
                ColumnType::Text(_) => heap.text(row, column, &mut text),
                _ => text.push_str(&heap.int(row, column).to_string()),
            }
            text.push('|');
        }
        text
    };
    for index in &table.indexes {
        assert_eq!(index.key_count(), heap.live_rows().count(), "{}", table.spec.name);
        let is_found = |row| index.get(&table.key_of(index, row)) == Some(row);
        assert!(heap.live_rows().all(is_found), "{}", table.spec.name);
    }
    let mut rows: Vec<_> = heap.live_rows().map(write_row).collect();
    rows.sort_unstable();
    rows
}

fn contents(engine: &Engine) -> [Vec<String>; 2] {
    [KEYED, LIST].map(|number| rows(&engine.row_table(number)))
}

/// The contents of a storage after recovery, which does not change it.
fn recovered(storage: &MemoryStorage) -> Result<([Vec<String>; 2], RecoveryReport), RecoveryError> {
    let Recovered { catalog, report, .. } = recover(storage, DATABASE, &MonotonicClock::default())?;
    let rows = [KEYED, LIST].map(|number| catalog.get(number).map_or_else(Vec::new, |table| rows(&table)));
    Ok((rows, report))
}

fn put(connection: &mut Connection, key: i64, note: &str) -> Result<(), TransactionError> {
    connection.transact(Priority::LOW, |connection| {
        match connection.find(KEYED, &[Value::Int(key)], Purpose::Write)? {
            Some(row) => connection.set(KEYED, row, 2, Value::Text(note)),
            None => {
                let values = [Value::Int(key), Value::Int(key % 3), Value::Text(note)];
                connection.insert(KEYED, &values).map(|_| ())
            }
        }
    })
}

#[test]
fn what_was_committed_is_there_again_whatever_came_before() {
    let storage = MemoryStorage::default();
    let engine = open(&storage, &options(Durability::Sync)).unwrap();
    add_tables(&engine);
    let mut connection = engine.connect();
    (0..50).for_each(|key| put(&mut connection, key, "before the checkpoint").unwrap());
    let report = engine.checkpoint().unwrap();
    assert_eq!((report.number, report.rows), (1, 50));
    (40..60).for_each(|key| put(&mut connection, key, "behind it").unwrap());
    let expect = contents(&engine);
    let (found, report) = recovered(&storage.durable()).unwrap();
    assert_eq!(found, expect);
    assert_eq!((report.checkpoint, report.checkpoint_rows, report.transactions, report.torn), (Some(1), 50, 20, None));
    // Closing makes a checkpoint that has everything; opening and closing without a change makes none.
    drop(connection);
    drop(engine);
    for _ in 0..2 {
        let (found, report) = recovered(&storage.durable()).unwrap();
        assert_eq!(found, expect);
        assert_eq!((report.checkpoint, report.checkpoint_rows, report.transactions), (Some(2), 60, 0));
        drop(open(&storage, &options(Durability::Sync)).unwrap());
    }
}

#[test]
fn loaded_rows_and_sets_are_durable_with_the_checkpoint_that_enters_the_set() {
    let storage = MemoryStorage::default();
    let engine = open(&storage, &options(Durability::Async)).unwrap();
    add_tables(&engine);
    let load = |number| {
        engine.row_table(KEYED).load(&[Value::Int(number), Value::Int(1), Value::Null]).unwrap();
        engine.row_table(LIST).load(&[Value::Int(number), Value::Null]).unwrap();
    };
    (0..3_000).for_each(load);
    assert!(recovered(&storage.durable()).unwrap().0.iter().all(Vec::is_empty), "loading is not logged");
    engine.keep_set("both", vec![LIST, KEYED]).unwrap();
    let expect = contents(&engine);
    assert_eq!(recovered(&storage.durable()).unwrap().0, expect);

    let engine = open(&storage.durable(), &options(Durability::Sync)).unwrap();
    assert_eq!(engine.set("both"), Some(vec![LIST, KEYED]));
    // The log names rows of the list by their numbers, so recovery must restore these.
    let mut connection = engine.connect();
    connection.begin(Priority::LOW, 0);
    let mut found = Vec::new();
    connection.find_all((LIST, 0), &[Value::Int(100)], &[Value::Int(199)], Purpose::Write, &mut found).unwrap();
    assert_eq!(found.len(), 100);
    for (at, &row) in found.iter().enumerate() {
        match at % 2 {
            0 => connection.delete(LIST, row).unwrap(),
            _ => connection.set(LIST, row, 1, Value::Int(7)).unwrap(),
        }
    }
    connection.insert(LIST, &[Value::Int(-1), Value::Null]).unwrap();
    connection.commit().unwrap();
    let (expect, log) = (contents(&engine), engine.log().unwrap());
    log.flush().unwrap();
    let clock = MonotonicClock::default();
    let again = recover(log.storage(), DATABASE, &clock).unwrap().catalog;
    assert_eq!([KEYED, LIST].map(|number| rows(&again.get(number).unwrap())), expect);
    // Dropping a table drops its set, too, and neither comes back.
    engine.drop_table(KEYED);
    engine.drop_tables_outside_sets();
    log.flush().unwrap();
    let again = recover(log.storage(), DATABASE, &clock).unwrap().catalog;
    assert!(again.get(KEYED).is_none() && again.get(LIST).is_none() && again.set("both").is_none());
    assert_eq!(again.contents(|| ()).0.next_table, 2);
}

#[test]
fn checkpoints_keep_the_log_short_and_its_files_few() {
    let storage = MemoryStorage::default();
    let bounds = LogOptions { checkpoint_bytes: 4_000, segment_bytes: 1_000, ..options(Durability::Sync) };
    let engine = open(&storage, &bounds).unwrap();
    add_tables(&engine);
    let mut connection = engine.connect();
    // A thread that commits alone writes the log itself, so on a busy machine thousands of commits may pass before the
    // checkpoint thread runs.
    for round in 0.. {
        put(&mut connection, round % 40, &format!("round {round}")).unwrap();
        let statistics = engine.log_statistics().unwrap();
        assert_eq!(statistics.checkpoint_failures, 0, "{statistics:?}");
        if statistics.checkpoints > 5 && statistics.recycled_segments > 20 {
            break;
        }
        assert!(round < 10_000_000, "{statistics:?}");
        std::thread::yield_now();
    }
    // One checkpoint, and perhaps the next with its draft.
    let names = storage.files().into_keys();
    let checkpoints = names.filter(|name| matches!(name, FileName::Checkpoint(_))).count();
    assert!((1..=2).contains(&checkpoints), "{checkpoints}");
    assert_eq!(recovered(&storage.durable()).unwrap().0, contents(&engine));
}

#[test]
fn what_is_of_another_database_or_damaged_is_refused() {
    let storage = MemoryStorage::default();
    let engine = open(&storage, &options(Durability::Sync)).unwrap();
    add_tables(&engine);
    put(&mut engine.connect(), 1, "one").unwrap();
    engine.checkpoint().unwrap();
    put(&mut engine.connect(), 2, "two").unwrap();
    let files = storage.files();
    let message = |storage: &MemoryStorage, database| {
        recover(storage, database, &MonotonicClock::default()).unwrap_err().to_string()
    };
    assert!(message(&storage, 78).contains("belongs to database 000000000000004d, not to 000000000000004e"));
    let (checkpoint, segment) = (FileName::Checkpoint(1), FileName::Segment(1));
    let mut without = files.clone();
    without.remove(&segment);
    let error = message(&MemoryStorage::of_files(without), DATABASE);
    assert!(error.contains("where the last checkpoint needs it") && error.contains("a segment is missing"), "{error}");
    let mut without = files.clone();
    without.remove(&checkpoint);
    // Only the log is left. It is complete, since nothing was loaded.
    assert_eq!(recovered(&MemoryStorage::of_files(without)).unwrap().1.checkpoint, None);
    for at in 0..files[&checkpoint].len() {
        // The rest of a header is not used.
        let header_rest = 48..64;
        let end_rest = files[&checkpoint].len() - 16..files[&checkpoint].len();
        if header_rest.contains(&at) || end_rest.contains(&at) {
            continue;
        }
        for damage in 0..2 {
            let mut damaged = files.clone();
            let bytes = damaged.get_mut(&checkpoint).unwrap();
            if damage == 0 {
                bytes[at] ^= 1 << (at % 8)
            } else {
                bytes.truncate(at)
            }
            let error = message(&MemoryStorage::of_files(damaged), DATABASE);
            assert!(error.contains("checkpoint-0000000001.rows"), "byte {at}: {error}");
        }
    }
    // The log ends before the checkpoint did.
    let mut damaged = files.clone();
    let first_unit = crate::log::format::HEADER_BYTES;
    damaged.get_mut(&segment).unwrap()[first_unit + 30] ^= 1;
    let error = message(&MemoryStorage::of_files(damaged), DATABASE);
    assert!(error.contains("the log ends at 0") && error.contains("was durable up to"), "{error}");
}

#[test]
fn what_stands_behind_a_torn_end_never_counts_again() {
    let storage = MemoryStorage::default();
    let engine = open(&storage, &options(Durability::Sync)).unwrap();
    add_tables(&engine);
    let mut connection = engine.connect();
    (1..=3).for_each(|key| put(&mut connection, key, "as long as all").unwrap());
    // The crash has kept the last unit, but not the one before.
    let mut files = storage.files();
    let segment = files.get_mut(&FileName::Segment(1)).unwrap();
    let length = segment.len();
    segment[length - 100] ^= 1;
    let crashed = MemoryStorage::of_files(files);
    let (rows, report) = recovered(&crashed).unwrap();
    assert_eq!((rows[0].len(), report.torn.is_some()), (1, true));
    // The next process writes another unit of the same length in the place of the lost one.
    let again = open(&crashed, &options(Durability::Sync)).unwrap();
    put(&mut again.connect(), 4, "as long as all").unwrap();
    for disk in [crashed.durable(), crashed.clone()] {
        let (rows, report) = recovered(&disk).unwrap();
        assert_eq!(rows, contents(&again));
        assert_eq!((rows[0].len(), report.torn), (2, None));
        // The damaged unit whole again, as if its block had reached the disk late.
        let mut files = disk.files();
        let segment = files.get_mut(&FileName::Segment(1)).unwrap();
        segment[length - 100] ^= 1;
        assert_eq!(recovered(&MemoryStorage::of_files(files)).unwrap().0, rows);
    }
}
