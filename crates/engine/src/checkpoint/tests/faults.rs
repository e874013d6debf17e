//! Failures at any call: no acknowledged change is lost, and a failed checkpoint leaves the one before.

use super::*;
use crate::log::tests::storage::Fault;

/// Opens a database, changes it with checkpoints in between, and closes it. Returns the keys whose changes were acknowledged
/// and the messages of checkpoints that failed.
fn run(storage: &MemoryStorage, bounds: &LogOptions) -> (Vec<i64>, Vec<String>) {
    let (mut acknowledged, mut failures) = (Vec::new(), Vec::new());
    let Ok(engine) = open(storage, bounds) else { return (acknowledged, failures) };
    if try_add_tables(&engine).is_err() {
        return (acknowledged, failures);
    }
    let mut connection = engine.connect();
    for key in 0..40 {
        if put(&mut connection, key, "a note of some length").is_ok() {
            acknowledged.push(key);
        }
        if key % 10 == 9 {
            failures.extend(engine.checkpoint().err().map(|error| error.to_string()));
        }
    }
    (acknowledged, failures)
}

fn found_keys(storage: &MemoryStorage) -> Vec<i64> {
    let (rows, _) = recovered(storage).unwrap();
    let mut keys: Vec<i64> = rows[0].iter().map(|row| row.split('|').next().unwrap().parse().unwrap()).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn a_disk_that_is_full_at_any_call_loses_nothing_acknowledged() {
    let bounds = LogOptions { segment_bytes: 500, ..options(Durability::Sync) };
    let storage = MemoryStorage::default();
    assert_eq!(run(&storage, &bounds).0.len(), 40);
    let calls = storage.calls();
    assert!(calls > 100, "{calls}");
    let mut checkpoint_failures = 0;
    for call in 0..calls {
        let storage = MemoryStorage::with_fault(Fault::Any(call));
        let (acknowledged, failures) = run(&storage, &bounds);
        // Threads decide how units are grouped, so one run has a few more calls than another.
        assert!(storage.has_failed() || call + 10 > calls, "call {call} of {calls}");
        checkpoint_failures += usize::from(!failures.is_empty());
        for disk in [storage.durable(), storage.clone(), storage.after_crash(call)] {
            let found = found_keys(&disk);
            assert!(acknowledged.iter().all(|key| found.contains(key)), "call {call}: {acknowledged:?} {found:?}");
            // The change that failed may be found, too; after it, the log has failed.
            assert!(found.len() <= acknowledged.len() + 1, "call {call}: {acknowledged:?} {found:?}");
        }
        // With room again, the database opens and continues.
        let again = open(&storage.durable(), &bounds).unwrap();
        if again.row_tables().len() == 2 {
            put(&mut again.connect(), 1_000, "later").unwrap();
            again.checkpoint().unwrap();
        }
    }
    assert!(checkpoint_failures > 10, "{checkpoint_failures}");
}

#[test]
fn a_checkpoint_that_fails_leaves_the_one_before_and_the_log_that_it_needs() {
    let storage = MemoryStorage::default();
    let engine = open(&storage, &options(Durability::Sync)).unwrap();
    add_tables(&engine);
    put(&mut engine.connect(), 1, "one").unwrap();
    engine.checkpoint().unwrap();
    put(&mut engine.connect(), 2, "two").unwrap();
    storage.set_fault(Fault::Create(2));
    let error = engine.checkpoint().unwrap_err().to_string();
    assert!(error.starts_with("checkpoint-0000000002.draft: "), "{error}");
    assert_eq!(engine.checkpoint_failure(), Some(error));
    let statistics = engine.log_statistics().unwrap();
    assert_eq!((statistics.checkpoints, statistics.checkpoint_failures), (1, 1));
    assert_eq!(recovered(&storage.durable()).unwrap().0, contents(&engine));
    // The failure did not harm the log.
    put(&mut engine.connect(), 3, "three").unwrap();
    assert_eq!(engine.checkpoint().unwrap().number, 3);
    assert_eq!(engine.checkpoint_failure(), None);
}

#[test]
fn a_log_whose_checkpoints_fail_is_full_at_its_bound_and_goes_on_when_one_succeeds() {
    let storage = MemoryStorage::default();
    let bounds = LogOptions { bytes_max: 1_500, ..options(Durability::Sync) };
    let engine = open(&storage, &bounds).unwrap();
    add_tables(&engine);
    let mut connection = engine.connect();
    let error = (0..).map(|key| put(&mut connection, key, "a note")).find_map(Result::err).unwrap();
    assert_eq!(error, TransactionError::Log(LogError::Full { bytes_max: 1_500 }));
    assert!(error.to_string().contains("make room on the disk"), "{error}");
    assert_eq!(recovered(&storage.durable()).unwrap().0, contents(&engine));
    // Dropping is still possible.
    engine.drop_table(LIST);
    engine.checkpoint().unwrap();
    put(&mut connection, 1_000_000, "goes on").unwrap();
}
