//! Commits that arrive while the disk is busy become durable together.

use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_testing::until;

use super::*;
use crate::lock::head::Answer;
use crate::lock::{LockName, Mode};

fn wait_for_units(engine: &Engine, units: u64) {
    until("the units of the log", || engine.log_statistics().unwrap().units >= units);
}

#[test]
fn commits_wait_for_the_disk_with_their_locks_and_go_together() {
    let storage = MemoryStorage::default();
    let engine = logged_engine(&storage, &options(Durability::Sync));
    let committed = AtomicUsize::new(0);
    storage.close_gate();
    std::thread::scope(|scope| {
        let commit = |key: i64| {
            insert(&mut engine.connect(), key, "x").unwrap();
            committed.fetch_add(1, Ordering::SeqCst);
        };
        scope.spawn(move || commit(0));
        storage.wait_for_sync();
        (1..6).for_each(|key| drop(scope.spawn(move || commit(key))));
        wait_for_units(&engine, 6);
        // The row of the first one is locked until the disk has the commit.
        let reader = engine.locks().join();
        let first_row = LockName::row(KEYED, 0);
        engine.locks().begin(&reader, Priority::LOW, 0);
        assert_eq!(engine.locks().ask(&reader, first_row, Mode::S), Ok(Answer::Wait));
        assert_eq!(committed.load(Ordering::SeqCst), 0);
        storage.open_gate();
        assert_eq!(engine.locks().wait(&reader).outcome, Ok(Answer::Granted));
        engine.locks().release(&reader, first_row);
    });
    let statistics = engine.log_statistics().unwrap();
    assert_eq!((statistics.groups, statistics.syncs, statistics.group_units_max), (2, 2, 5));
    assert_eq!(statistics.own_groups, 1, "who comes while another writes is left to the writer");
    assert_eq!(statistics.durable_units, 6);
    assert_eq!(replayed_keys(&storage), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn async_commits_do_not_wait_until_the_buffer_is_full() {
    let storage = MemoryStorage::default();
    let options = LogOptions { buffer_bytes: 200, lag_bytes: 1, ..options(Durability::Async) };
    let engine = logged_engine(&storage, &options);
    storage.close_gate();
    let mut connection = engine.connect();
    insert(&mut connection, 0, "on its way").unwrap();
    storage.wait_for_sync();
    insert(&mut connection, 1, "in the buffer").unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            let mut connection = engine.connect();
            (2..6).for_each(|key| insert(&mut connection, key, "too much for the buffer").unwrap());
            connection.usage().log_wait
        });
        until("the buffer to be full", || engine.log_statistics().unwrap().buffer_waits > 0);
        storage.open_gate();
        assert!(late.join().unwrap() > Duration::ZERO);
    });
    engine.log().unwrap().flush().unwrap();
    assert_eq!(replayed_keys(&storage.durable()), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_transaction_larger_than_segment_and_buffer_is_taken_whole() {
    let storage = MemoryStorage::default();
    let options = LogOptions { segment_bytes: 300, buffer_bytes: 100, ..options(Durability::Sync) };
    let engine = logged_engine(&storage, &options);
    let mut connection = engine.connect();
    insert(&mut connection, -1, "small").unwrap();
    let large = connection.transact(Priority::LOW, |connection| {
        (0..100).try_for_each(|number| connection.insert(LIST, &[Value::Int(number)]).map(|_| ()))
    });
    large.unwrap();
    insert(&mut connection, -2, "small").unwrap();
    let sizes: Vec<_> = storage.bytes().values().map(Vec::len).collect();
    assert_eq!(sizes.len(), 3, "{sizes:?}");
    assert!(sizes[1] > 300, "{sizes:?}");
    assert_eq!(replayed(&storage.durable()), contents(&engine));
}

#[test]
fn a_lone_committer_writes_itself_unless_threads_have_nice_values() {
    for (cpu_policy, own_groups) in [("none", 3), ("cpu-prio", 0)] {
        let storage = MemoryStorage::default();
        let log =
            Log::start(Box::new(storage.clone()), &options(Durability::Sync), Arc::new(MonotonicClock::default()));
        let cpu_scheduler = plimsoll_policy::cpu_scheduler(cpu_policy).unwrap();
        let engine = Engine::with_log(EngineOptions { cpu_scheduler, ..EngineOptions::default() }, log.ok());
        add_tables(&engine);
        let mut connection = engine.connect();
        (0..3).for_each(|key| insert(&mut connection, key, "x").unwrap());
        let statistics = engine.log_statistics().unwrap();
        assert_eq!((statistics.durable_units, statistics.own_groups), (3, own_groups), "{cpu_policy}");
        assert_eq!(replayed_keys(&storage.durable()), [0, 1, 2]);
    }
}
