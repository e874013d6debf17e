//! Early lock release: other transactions continue before the disk has the commit, and none is acknowledged too early.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::storage::Fault;
use super::*;
use crate::transaction::Purpose;

fn early_engine(storage: &MemoryStorage) -> Arc<Engine> {
    let clock = Arc::new(MonotonicClock::default());
    let log = Log::start(Box::new(storage.clone()), &options(Durability::Sync), clock).unwrap();
    let engine = Engine::with_log(EngineOptions { early_lock_release: true, ..EngineOptions::default() }, Some(log));
    add_tables(&engine);
    engine
}

fn find(connection: &mut Connection, key: i64) -> Result<bool, TransactionError> {
    Ok(connection.find(KEYED, &[Value::Int(key)], Purpose::Read)?.is_some())
}

#[test]
fn others_see_what_is_on_its_way_and_are_acknowledged_after_it() {
    let storage = MemoryStorage::default();
    let engine = early_engine(&storage);
    let acknowledged = AtomicUsize::new(0);
    storage.close_gate();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            insert(&mut engine.connect(), 0, "x").unwrap();
            acknowledged.fetch_add(1, Ordering::SeqCst);
        });
        storage.wait_for_sync();
        let mut reader = engine.connect();
        reader.begin(Priority::LOW, 0);
        // Without early release this would wait for the disk, and the test forever. It may wait for a moment, between
        // the append to the log and the release.
        assert_eq!(find(&mut reader, 0), Ok(true));
        assert_eq!(acknowledged.load(Ordering::SeqCst), 0);
        let opener = scope.spawn(|| storage.open_gate());
        reader.commit().unwrap();
        opener.join().unwrap();
        assert_eq!(replayed_keys(&storage.durable()), [0], "a reader was acknowledged before what it has read");
    });
}

#[test]
fn a_log_that_fails_after_the_locks_went_acknowledges_nobody() {
    let storage = MemoryStorage::with_fault(Fault::Sync(0));
    let engine = early_engine(&storage);
    let mut connection = engine.connect();
    let error = insert(&mut connection, 0, "x").unwrap_err();
    assert!(matches!(error, TransactionError::Log(LogError::Dead { .. })) && !error.is_retryable(), "{error}");
    assert_eq!((connection.is_open(), engine.locks().name_count()), (false, 0));
    // The change is visible, but neither a transaction that has read it nor any change is acknowledged.
    connection.begin(Priority::LOW, 0);
    assert_eq!(find(&mut connection, 0), Ok(true));
    assert_eq!(connection.commit().unwrap_err().to_string(), error.to_string());
    assert_eq!(insert(&mut connection, 1, "x").unwrap_err().to_string(), error.to_string());
}
