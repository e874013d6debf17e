//! The machine may crash at any moment: each block that was not synced is kept or lost at random.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;

const THREADS: i64 = 3;
/// Transactions of each thread.
const COMMITS: i64 = 300;

#[test]
fn what_was_acknowledged_survives_a_crash_at_any_moment() {
    let storage = MemoryStorage::default();
    let engine = logged_engine(&storage, &LogOptions { segment_bytes: 3_000, ..options(Durability::Sync) });
    let acknowledged = Mutex::new(Vec::new());
    let ended = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, acknowledged, ended) = (&engine, &acknowledged, &ended);
            scope.spawn(move || {
                let mut connection = engine.connect();
                for key in (0..COMMITS).map(|commit| thread + THREADS * commit) {
                    insert(&mut connection, key, &"n".repeat(key as usize % 40)).unwrap();
                    acknowledged.lock().push(key);
                }
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut seed = 0;
        while ended.load(Ordering::SeqCst) < THREADS as usize {
            let before = acknowledged.lock().clone();
            let found = replayed_keys(&storage.after_crash(seed));
            assert!(before.iter().all(|key| found.binary_search(key).is_ok()), "crash {seed}");
            seed += 1;
        }
    });
    assert_eq!(replayed_keys(&storage.durable()).len() as i64, THREADS * COMMITS);
    assert_eq!(replayed(&storage.durable()), contents(&engine));
}

#[test]
fn async_loses_the_end_and_nothing_between() {
    let storage = MemoryStorage::default();
    let lag = Duration::from_micros(50);
    let engine = logged_engine(&storage, &LogOptions { segment_bytes: 3_000, lag, ..options(Durability::Async) });
    let mut connection = engine.connect();
    for key in 0..600 {
        insert(&mut connection, key, "in order").unwrap();
        if key % 7 == 0 {
            let found = replayed_keys(&storage.after_crash(key as u64));
            assert!(found.iter().copied().eq(0..found.len() as i64), "{found:?}");
            assert!(found.len() as i64 <= key + 1);
        }
    }
    engine.log().unwrap().flush().unwrap();
    assert_eq!(replayed_keys(&storage.durable()).len(), 600);
}
