//! The machine may crash at any moment, repeatedly, with checkpoints and reused segments: all acknowledged transactions
//! survive whole.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::*;

/// Each thread has a row in the keyed table that counts its transactions, and as many rows in the list; the newest few
/// of these are kept.
const THREADS: i64 = 3;
const KEPT: i64 = 4;
/// The first of the keys of the threads' accounts; the sum over the accounts is 0.
const ACCOUNTS: i64 = 100;

/// What a commit waits for, and when it releases its locks.
#[derive(Debug, Clone, Copy)]
struct Way {
    durability: Durability,
    early_lock_release: bool,
}

impl Way {
    fn open(self, storage: &MemoryStorage) -> Result<Arc<Engine>, RecoveryError> {
        let lag = std::time::Duration::from_micros(300);
        let log = LogOptions { checkpoint_bytes: 2_500, segment_bytes: 1_500, lag, ..options(self.durability) };
        let engine = EngineOptions { early_lock_release: self.early_lock_release, ..EngineOptions::default() };
        open_with(storage, &log, engine)
    }
}

fn begin(engine: &Arc<Engine>) {
    add_tables(engine);
    let mut connection = engine.connect();
    for thread in 0..THREADS {
        put(&mut connection, thread, "0").unwrap();
        put(&mut connection, ACCOUNTS + thread, "0").unwrap();
    }
    engine.log().unwrap().flush().unwrap();
}

/// Ends the threads, even if a check fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn number(connection: &mut Connection, key: i64) -> Result<(u64, i64), TransactionError> {
    let row = connection.find(KEYED, &[Value::Int(key)], Purpose::Write)?.expect("it was put there");
    let mut text = String::new();
    connection.text(KEYED, row, 2, &mut text);
    Ok((row, text.parse().expect("a number")))
}

/// The next transaction of a thread: it increments the count, moves an amount to a neighbour's account, adds a row to
/// the list and removes an old one.
fn step(connection: &mut Connection, thread: i64) -> Result<i64, TransactionError> {
    connection.transact(Priority::LOW, |connection| {
        let (row, count) = number(connection, thread)?;
        let count = count + 1;
        connection.set(KEYED, row, 2, Value::Text(&count.to_string()))?;
        for (account, amount) in [(thread, count), ((thread + 1) % THREADS, -count)] {
            let (row, balance) = number(connection, ACCOUNTS + account)?;
            connection.set(KEYED, row, 2, Value::Text(&(balance + amount).to_string()))?;
        }
        connection.insert(LIST, &[Value::Int(thread * 1_000_000 + count), Value::Int(count)])?;
        let old = [Value::Int(thread * 1_000_000 + count - KEPT)];
        let mut rows = Vec::new();
        connection.find_all((LIST, 0), &old, &old, Purpose::Write, &mut rows)?;
        rows.iter().try_for_each(|&row| connection.delete(LIST, row))?;
        Ok(count)
    })
}

/// Each thread's count in a recovered database, which must be consistent.
fn counts(engine: &Engine, what: &str) -> Vec<i64> {
    let [keyed, list] = contents(engine);
    let value = |key: i64| -> i64 {
        let prefix = format!("{key}|");
        let row = keyed.iter().find(|row| row.starts_with(&prefix)).unwrap_or_else(|| panic!("{what}: no row {key}"));
        row.split('|').nth(2).unwrap().parse().unwrap()
    };
    assert_eq!((0..THREADS).map(|thread| value(ACCOUNTS + thread)).sum::<i64>(), 0, "{what}");
    let counts: Vec<_> = (0..THREADS).map(value).collect();
    let mut expect: Vec<String> = Vec::new();
    for (thread, &count) in (0..).zip(&counts) {
        let kept = (count - KEPT + 1).max(1)..=count;
        expect.extend(kept.map(|count| format!("{}|{count}|", thread * 1_000_000 + count)));
    }
    expect.sort_unstable();
    assert_eq!(list, expect, "{what}");
    counts
}

/// Runs threads on a database, simulates `crashes` crashes at the same time, and returns a disk that one of them has
/// left.
fn crash_under_load(way: Way, storage: &MemoryStorage, crashes: u64, first_seed: u64) -> MemoryStorage {
    let engine = way.open(storage).unwrap();
    if engine.row_tables().is_empty() {
        begin(&engine);
    }
    let acknowledged = Mutex::new(counts(&engine, "before the load"));
    let is_over = AtomicBool::new(false);
    let mut left = storage.durable();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, acknowledged, is_over) = (&engine, &acknowledged, &is_over);
            scope.spawn(move || {
                let mut connection = engine.connect();
                while !is_over.load(Ordering::Relaxed) {
                    let count = step(&mut connection, thread).unwrap();
                    acknowledged.lock()[thread as usize] = count;
                }
            });
        }
        let _over = Over(&is_over);
        for seed in first_seed..first_seed + crashes {
            let before = acknowledged.lock().clone();
            let crashed = storage.after_crash(seed);
            left = crashed.durable();
            let after = acknowledged.lock().clone();
            let what = format!("crash {seed}");
            let again = match way.open(&crashed) {
                Ok(again) => again,
                Err(error) => panic!("{what}: {error}"),
            };
            for ((before, found), after) in before.iter().zip(counts(&again, &what)).zip(after) {
                // One more transaction may be there, the one about to be acknowledged. Under `async` the last ones may
                // be lost.
                let before = if way.durability == Durability::Sync { *before } else { 0 };
                assert!((before..=after + 1).contains(&found), "{what}: {before} <= {found} <= {after} + 1");
            }
        }
    });
    left
}

fn check(way: Way, generations: u64, crashes: u64) {
    let factor = if std::env::var_os("PLIMSOLL_LONG").is_some() { 20 } else { 1 };
    let mut storage = MemoryStorage::default();
    for generation in 0..generations * factor {
        storage = crash_under_load(way, &storage, crashes, generation * crashes);
    }
}

#[test]
fn what_was_acknowledged_survives_crashes_upon_crashes() {
    check(Way { durability: Durability::Sync, early_lock_release: false }, 16, 100);
}

#[test]
fn so_it_does_where_locks_are_given_up_early() {
    check(Way { durability: Durability::Sync, early_lock_release: true }, 8, 100);
}

#[test]
fn under_async_what_is_left_is_whole() {
    check(Way { durability: Durability::Async, early_lock_release: false }, 8, 100);
}
