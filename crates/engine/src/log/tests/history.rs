//! Random histories of several threads: the log gives the contents of the tables.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::transaction::Purpose;

/// Few, so that transactions conflict and the same keys are deleted and inserted again.
const KEYS: i64 = 12;

fn step(connection: &mut Connection, random: &mut Pcg64, value: i64) -> Result<(), TransactionError> {
    let key = random.random_range(0..KEYS);
    let found = connection.find(KEYED, &[Value::Int(key)], Purpose::Write)?;
    let note = format!("note {value}");
    let row = [Value::Int(key), Value::Int(value % 5), Value::Text(&note)];
    match (random.random_range(0..5), found) {
        (0, Some(found)) => connection.delete(KEYED, found)?,
        // The same key moves to another row.
        (1, Some(found)) => {
            connection.delete(KEYED, found)?;
            connection.insert(KEYED, &row)?;
        }
        (2, Some(found)) => connection.set(KEYED, found, 2, Value::Null)?,
        (_, Some(found)) => {
            connection.set(KEYED, found, 2, Value::Text("overwritten at once"))?;
            connection.set(KEYED, found, 2, Value::Text(&note))?;
        }
        (_, None) => drop(connection.insert(KEYED, &row)?),
    }
    // Only the connection that has inserted a row of a table without a key changes it, because no other can find it.
    if random.random_bool(0.5) {
        let listed = connection.insert(LIST, &[Value::Int(value)])?;
        match random.random_range(0..4) {
            0 => connection.set(LIST, listed, 0, Value::Null)?,
            1 => connection.delete(LIST, listed)?,
            _ => {}
        }
    }
    Ok(())
}

fn run_thread(engine: &Arc<Engine>, seed: u64) {
    let mut connection = engine.connect();
    let mut random = Pcg64::seed_from_u64(seed);
    for transaction in 0..25 {
        let rolls_back = random.random_bool(0.2);
        let steps = random.random_range(1..5);
        let outcome = connection.transact(Priority::LOW, |connection| {
            (0..steps).try_for_each(|at| step(connection, &mut random, transaction * 10 + at))?;
            if rolls_back { Err(TransactionError::Failed) } else { Ok(()) }
        });
        assert!(outcome.is_ok() || rolls_back, "{outcome:?}");
    }
}

#[test]
fn replay_of_any_history_gives_the_live_tables() {
    for seed in 0..60 {
        let durability = if seed % 2 == 0 { Durability::Sync } else { Durability::Async };
        // Small segments and buffers, so that groups span segments and committers wait for room.
        let segment_bytes = [200, 1_000, 1 << 20][seed as usize % 3];
        let buffer_bytes = [64, 4_096][seed as usize % 2];
        let options = LogOptions { segment_bytes, buffer_bytes, ..options(durability) };
        let storage = MemoryStorage::default();
        let engine = logged_engine(&storage, &options);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let engine = &engine;
                scope.spawn(move || run_thread(engine, seed * 100 + thread));
            }
        });
        engine.log().unwrap().flush().unwrap();
        assert_eq!(replayed(&storage.durable()), contents(&engine), "seed {seed}");
        let (transactions, end) = read(&storage);
        let statistics = engine.log_statistics().unwrap();
        assert_eq!(end.unwrap(), LogEnd { lsn: statistics.unit_bytes, torn: None }, "seed {seed}");
        assert_eq!(statistics.units, transactions.len() as u64);
        assert_eq!((statistics.durable_units, statistics.groups > 0), (statistics.units, true));
        let on_disk: usize = storage.bytes().values().map(Vec::len).sum();
        assert_eq!(statistics.written_bytes, on_disk as u64);
    }
}

#[test]
fn closing_writes_what_is_left() {
    let storage = MemoryStorage::default();
    let engine = logged_engine(&storage, &LogOptions { lag: Duration::from_secs(3_600), ..options(Durability::Async) });
    insert(&mut engine.connect(), 7, "left").unwrap();
    drop(engine);
    assert_eq!(replayed_keys(&storage.durable()), [7]);
}

#[test]
fn what_changes_nothing_leaves_nothing() {
    let storage = MemoryStorage::default();
    let engine = logged_engine(&storage, &options(Durability::Sync));
    let mut connection = engine.connect();
    let nothing = connection
        .transact(Priority::LOW, |connection| connection.find(KEYED, &[Value::Int(1)], Purpose::Read).map(|_| ()));
    nothing.unwrap();
    connection.begin(Priority::LOW, 0);
    connection.insert(LIST, &[Value::Int(1)]).unwrap();
    connection.rollback();
    assert_eq!(engine.log_statistics(), Some(LogStatistics::default()));
    assert!(storage.bytes().is_empty());
}

#[test]
fn dropping_the_tables_that_have_units_empties_the_log() {
    let storage = MemoryStorage::default();
    let engine = logged_engine(&storage, &LogOptions { segment_bytes: 200, ..options(Durability::Sync) });
    let mut connection = engine.connect();
    (0..20).for_each(|key| insert(&mut connection, key, "gone soon").unwrap());
    let add = |connection: &mut Connection| connection.insert(LIST, &[Value::Int(5)]).map(|_| ());
    connection.transact(Priority::LOW, add).unwrap();
    let log = engine.log().unwrap();
    drop(connection);
    engine.drop_table(KEYED);
    log.flush().unwrap();
    assert!(storage.bytes().len() > 5, "the other table still has units");
    engine.drop_table(LIST);
    log.flush().unwrap();
    assert!(storage.bytes().is_empty());

    // The log continues its numbers, with other tables.
    add_tables(&engine);
    let lsn = log.statistics().unit_bytes;
    let mut connection = engine.connect();
    connection.transact(Priority::LOW, |connection| connection.insert(3, &[Value::Int(6)]).map(|_| ())).unwrap();
    let (transactions, end) = read(&storage);
    assert_eq!((transactions.len(), transactions[0].lsn), (1, lsn));
    assert_eq!(end.unwrap().torn, None);
}
