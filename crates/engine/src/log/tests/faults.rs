//! Any failure ends the log; it has all changes acknowledged before, and failed changes are not acknowledged.

use super::storage::Fault;
use super::*;
use crate::transaction::Purpose;

#[test]
fn after_any_fault_changes_are_refused_and_nothing_acknowledged_is_lost() {
    let cases = [
        (Fault::Create(0), "beginning segment 1: no storage space"),
        (Fault::Create(2), "beginning segment 3: no storage space"),
        (Fault::Write(0), "segment 1 at byte 0: no storage space"),
        (Fault::Write(7), "no storage space"),
        (Fault::Sync(0), "the device has failed"),
        (Fault::Sync(5), "the device has failed"),
    ];
    for (fault, reason) in cases {
        let storage = MemoryStorage::with_fault(fault);
        let engine = logged_engine(&storage, &LogOptions { segment_bytes: 400, ..options(Durability::Sync) });
        let mut connection = engine.connect();
        let mut acknowledged = Vec::new();
        let error = loop {
            let key = acknowledged.len() as i64;
            match insert(&mut connection, key, "a note of some length") {
                Ok(()) => acknowledged.push(key),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("the log has failed (") && error.contains(reason), "{fault:?}: {error}");
        assert!(error.ends_with("changes are refused until the database is opened anew"), "{error}");
        // Rolled back: neither the row nor its locks remain.
        let next = acknowledged.len() as i64;
        let find = |key| move |connection: &mut Connection| connection.find(KEYED, &[Value::Int(key)], Purpose::Read);
        assert_eq!(connection.transact(Priority::LOW, find(next)), Ok(None));
        assert_eq!(engine.locks().name_count(), 0);
        // From then on commits are refused for the same reason, without a further call; reads still work.
        assert_eq!(insert(&mut connection, 1_000, "x").unwrap_err().to_string(), error);
        assert!(acknowledged.iter().all(|&key| connection.transact(Priority::LOW, find(key)).unwrap().is_some()));
        assert_eq!(engine.log().unwrap().flush().unwrap_err().to_string(), error);
        drop(connection);
        drop(engine);
        assert_eq!(storage.calls_after_fault(), 0, "{fault:?}: tried again");
        assert_eq!(replayed_keys(&storage.durable()), acknowledged, "{fault:?}");
        // Without a power failure, the transaction that failed may be found as well, but no other.
        let found = replayed_keys(&storage);
        assert!(found == acknowledged || found == [acknowledged, vec![next]].concat(), "{fault:?}: {found:?}");
    }
}

#[test]
fn an_async_failure_is_told_to_the_next_who_commits() {
    let storage = MemoryStorage::with_fault(Fault::Sync(0));
    let engine = logged_engine(&storage, &LogOptions { lag_bytes: 1, ..options(Durability::Async) });
    let mut connection = engine.connect();
    insert(&mut connection, 0, "acknowledged and lost").unwrap();
    assert!(engine.log().unwrap().flush().is_err());
    let error = insert(&mut connection, 1, "x").unwrap_err();
    assert!(matches!(error, TransactionError::Log(LogError::Dead { .. })) && !error.is_retryable(), "{error}");
}

#[test]
fn short_writes_are_completed() {
    let storage = MemoryStorage::with_short_writes(7);
    let engine = logged_engine(&storage, &LogOptions { segment_bytes: 500, ..options(Durability::Sync) });
    let mut connection = engine.connect();
    (0..20).for_each(|key| insert(&mut connection, key, "in pieces").unwrap());
    assert_eq!(replayed(&storage.durable()), contents(&engine));
}

#[test]
fn a_log_without_recovery_forgets_its_oldest_units_instead_of_being_full() {
    let storage = MemoryStorage::default();
    let bounds = LogOptions { bytes_max: 2_000, segment_bytes: 400, ..options(Durability::Sync) };
    let engine = logged_engine(&storage, &bounds);
    let mut connection = engine.connect();
    (0..300).for_each(|key| insert(&mut connection, key, "a note").unwrap());
    let segments = storage.bytes();
    let length: usize = segments.values().map(Vec::len).sum();
    assert!((2_000..3_500).contains(&length), "{length} in {} segments", segments.len());
    assert!(engine.log_statistics().unwrap().recycled_segments > 20);
    // The log has the end of the history, completely.
    let keys = replayed_keys(&storage.durable());
    assert!(keys.len() > 20 && keys.iter().copied().eq(300 - keys.len() as i64..300), "{keys:?}");
}
