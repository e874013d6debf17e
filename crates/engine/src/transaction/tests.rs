//! Transactions that are rolled back for others, and clients that die.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_policy::{Priority, lock_scheduler};
use plimsoll_testing::until;

use super::*;
use crate::clock::{Clock, MonotonicClock};
use crate::engine::EngineOptions;
use crate::table::IndexKind;
use crate::table::layout::TableSpec;
use crate::value::{ColumnSpec, ColumnType, Value};

/// A clock that panics when a thread with this name reads it.
#[derive(Debug, Default)]
struct DeadlyClock(MonotonicClock);

const DOOMED_THREAD: &str = "dies when it looks at the clock";

impl Clock for DeadlyClock {
    fn now(&self) -> Duration {
        let is_doomed = std::thread::current().name() == Some(DOOMED_THREAD) && !std::thread::panicking();
        assert!(!is_doomed, "the client dies");
        self.0.now()
    }
}

/// A table of ten rows, keys 0 to 9, with a value.
fn engine(scheduler: &str) -> Arc<Engine> {
    let lock_scheduler = lock_scheduler(scheduler).expect("listed");
    let clock = Arc::new(DeadlyClock::default());
    filled(EngineOptions { lock_scheduler, clock, ..EngineOptions::default() })
}

fn filled(options: EngineOptions) -> Arc<Engine> {
    let engine = Engine::new(options);
    let column = |name: &str| ColumnSpec { name: name.to_owned(), kind: ColumnType::Int64, nullable: false };
    let columns = vec![column("key"), column("value")];
    let spec = TableSpec { name: "t".to_owned(), columns, primary_key: vec![0], secondary: vec![] };
    let table = engine.create_table(spec).expect("a small table");
    for key in 0..10 {
        table.load(&[Value::Int(key), Value::Int(0)]).expect("distinct keys");
    }
    engine
}

fn add(connection: &mut Connection, key: i64, amount: i64) -> Result<(), TransactionError> {
    let row = connection.find(0, &[Value::Int(key)], Purpose::Write)?.expect("one of the ten");
    let value = connection.int(0, row, 1);
    connection.set(0, row, 1, Value::Int(value + amount))
}

fn value(engine: &Arc<Engine>, key: i64) -> i64 {
    let look = |connection: &mut Connection| {
        let row = connection.find(0, &[Value::Int(key)], Purpose::Read)?.expect("one of the ten");
        Ok(connection.int(0, row, 1))
    };
    engine.connect().transact(Priority::LOW, look).expect("nobody is in the way for long")
}

fn wait_for_waiter(engine: &Engine) {
    until("a waiter", || engine.locks().waiter_count() > 0);
}

/// Runs `work` on a thread that dies in it.
fn die(engine: &Arc<Engine>, work: impl FnOnce(&mut Connection) + Send) {
    std::thread::scope(|scope| {
        let client = || {
            let mut connection = engine.connect();
            connection.begin(Priority::LOW, 0);
            work(&mut connection);
            panic!("the client dies");
        };
        let thread = std::thread::Builder::new().name(DOOMED_THREAD.to_owned());
        thread.spawn_scoped(scope, client).expect("a thread").join().expect_err("it dies");
    });
}

#[test]
fn a_preempted_transaction_is_run_again_and_loses_nothing() {
    let engine = engine("pabort");
    let mut attempts = 0;
    let mut low = engine.connect();
    std::thread::scope(|scope| {
        let outcome = low.transact(Priority::LOW, |low| {
            attempts += 1;
            add(low, 0, 1)?;
            if attempts == 1 {
                scope.spawn(|| engine.connect().transact(Priority::HIGH, |high| add(high, 0, 10)));
                until("a victim", || engine.lock_statistics().preempted > 0);
            }
            add(low, 1, 1)
        });
        assert_eq!(outcome, Ok(()));
    });
    assert_eq!(attempts, 2);
    assert_eq!((value(&engine, 0), value(&engine, 1)), (11, 1));
    let usage = low.usage();
    assert_eq!((usage.preemptions, usage.deadlocks), (1, 0));
    assert!(usage.rollback_time > Duration::ZERO);
    assert_eq!(engine.locks().name_count(), 0);
}

#[test]
fn a_preempted_transaction_cannot_commit() {
    let engine = engine("pabort");
    let mut low = engine.connect();
    low.begin(Priority::LOW, 0);
    add(&mut low, 0, 1).expect("nobody else");
    std::thread::scope(|scope| {
        scope.spawn(|| engine.connect().transact(Priority::HIGH, |high| add(high, 0, 10)));
        until("a victim", || engine.lock_statistics().preempted > 0);
        assert_eq!(low.commit(), Err(TransactionError::Preempted));
        assert!(!low.is_open() && TransactionError::Preempted.is_retryable());
    });
    assert_eq!(value(&engine, 0), 10);
}

#[test]
fn every_wait_is_told_once() {
    let engine = engine("nprio");
    let mut holder = engine.connect();
    holder.begin(Priority::LOW, 0);
    add(&mut holder, 0, 1).expect("nobody else");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut waiter = engine.connect();
            waiter.transact(Priority::HIGH, |waiter| add(waiter, 0, 1)).expect("it waits");
            let mut waits = Vec::new();
            waiter.take_lock_waits(&mut waits);
            assert_eq!(
                (waits.len() as u64, waits[0].queue_time),
                (waiter.usage().lock_waits, waiter.usage().lock_wait)
            );
            assert_eq!(waits[0].queue_time, waits[0].excess, "it was the first in the queue");
            waiter.take_lock_waits(&mut waits);
            assert_eq!(waits.len(), 1, "told twice");
        });
        wait_for_waiter(&engine);
        holder.commit().expect("it is nobody's victim");
    });
}

#[test]
fn a_client_that_dies_at_work_leaves_neither_locks_nor_changes() {
    let engine = engine("standard");
    die(&engine, |connection| {
        add(connection, 0, 5).expect("nobody else");
        connection.insert(0, &[Value::Int(100), Value::Int(1)]).expect("a new key");
    });
    assert_eq!(engine.locks().name_count(), 0);
    assert_eq!((value(&engine, 0), engine.row_table(0).heap.live_rows().count()), (0, 10));
    assert_eq!(engine.lock_statistics().abandoned, 1);
}

#[test]
fn a_client_that_dies_waiting_leaves_its_queue() {
    let engine = engine("standard");
    let mut holder = engine.connect();
    holder.begin(Priority::LOW, 0);
    add(&mut holder, 0, 1).expect("nobody else");
    die(&engine, |connection| {
        add(connection, 1, 5).expect("nobody else");
        // A request that begins to wait reads the clock.
        let _ = add(connection, 0, 5);
    });
    // The dead client's locks are free, and the holder's lock has no waiter any more.
    assert_eq!(value(&engine, 1), 0);
    holder.commit().expect("it is nobody's victim");
    assert_eq!((value(&engine, 0), engine.locks().name_count()), (1, 0));
    assert_eq!(engine.lock_statistics().abandoned, 1);
}

#[test]
fn a_client_that_dies_waiting_to_insert_leaves_no_gap_locked() {
    let engine = engine("standard");
    let mut reader = engine.connect();
    reader.begin(Priority::LOW, 0);
    // Both gaps at the end are read: below the last key, and above it.
    let (low, high) = ([Value::Int(9)], [Value::Int(20)]);
    let mut rows = Vec::new();
    reader.find_all((0, 0), &low, &high, Purpose::Read, &mut rows).expect("nobody else");
    die(&engine, |connection| {
        let _ = connection.insert(0, &[Value::Int(15), Value::Int(0)]);
    });
    reader.commit().expect("it is nobody's victim");
    assert_eq!((engine.locks().name_count(), engine.lock_statistics().abandoned), (0, 1));
    engine
        .connect()
        .transact(Priority::LOW, |new| new.insert(0, &[Value::Int(15), Value::Int(0)]).map(|_| ()))
        .unwrap();
}

#[test]
fn work_that_is_rolled_back_too_often_goes_first() {
    let engine = engine("pabort");
    let mut low = engine.connect();
    low.begin(Priority::LOW, 5);
    add(&mut low, 0, 1).expect("nobody else");
    std::thread::scope(|scope| {
        scope.spawn(|| engine.connect().transact(Priority::HIGH, |high| add(high, 0, 10)));
        wait_for_waiter(&engine);
        assert_eq!(low.commit(), Ok(()));
    });
    assert_eq!((value(&engine, 0), engine.lock_statistics().promotions), (11, 1));
}

#[test]
fn a_dear_rollback_keeps_its_locks_until_it_is_done() {
    let delay = Duration::from_millis(20);
    let engine = filled(EngineOptions { undo_delay: delay, ..EngineOptions::default() });
    let mut connection = engine.connect();
    connection.begin(Priority::LOW, 0);
    add(&mut connection, 3, 1).expect("nobody else is there");
    let lock_wait = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut connection = engine.connect();
            connection.transact(Priority::LOW, |connection| add(connection, 3, 10)).expect("it is let in");
            connection.usage().lock_wait
        });
        wait_for_waiter(&engine);
        connection.rollback();
        waiter.join().expect("it ends")
    });
    assert!(connection.usage().rollback_time >= delay, "{:?}", connection.usage());
    assert!(lock_wait >= delay, "{lock_wait:?}");
    assert_eq!(value(&engine, 3), 10);
}

#[test]
fn to_roll_back_what_has_changed_nothing_is_not_dear() {
    // If the delay applied, the test would not end.
    let engine = filled(EngineOptions { undo_delay: Duration::from_secs(1 << 20), ..EngineOptions::default() });
    let mut connection = engine.connect();
    connection.begin(Priority::LOW, 0);
    assert!(connection.find(0, &[Value::Int(3)], Purpose::Write).expect("nobody else is there").is_some());
    connection.rollback();
    assert_eq!(engine.locks().name_count(), 0);
}

/// A key is removed while another transaction has read the gap below it, and a third one waits for the gap above. The
/// heir then blocks the waiter, and schedulers are asked about it. If a latch were held at that time, an assertion
/// would fail (invariant 9).
#[test]
fn heirs_of_a_gap_are_raised_when_the_latch_has_been_given_up() {
    let engine = engine("nprio-inherit");
    let begun = |priority| {
        let mut connection = engine.connect();
        connection.begin(priority, 0);
        connection
    };
    let key = |key: i64| [Value::Int(key)];
    engine.connect().transact(Priority::LOW, |one| one.insert(0, &[Value::Int(15), Value::Int(0)])).expect("alone");
    // Below key 15, and above it.
    let (mut below, mut above) = (begun(Priority::LOW), begun(Priority::LOW));
    assert_eq!(below.find(0, &key(12), Purpose::Read), Ok(None));
    assert_eq!(above.find(0, &key(30), Purpose::Read), Ok(None));
    let mut deleter = begun(Priority::LOW);
    let row = deleter.find(0, &key(15), Purpose::Write).expect("nobody has locked it").expect("it is there");
    deleter.delete(0, row).expect("it is locked");
    let inserter = std::thread::scope(|scope| {
        let inserter = scope.spawn(|| {
            let mut inserter = begun(Priority::HIGH);
            inserter.insert(0, &[Value::Int(20), Value::Int(0)]).and_then(|_| inserter.commit())
        });
        wait_for_waiter(&engine);
        assert_eq!(below.work.member.priority(), Priority::LOW);
        deleter.commit().expect("nobody is in the way");
        assert_eq!(below.work.member.priority(), Priority::HIGH);
        drop((below, above));
        inserter.join().expect("it does not panic")
    });
    assert_eq!(inserter, Ok(()));
}

/// Absence is locked for the key that was looked for and for no other, and not by ranges, which are refused.
#[test]
fn a_hash_index_keeps_absent_what_a_transaction_has_not_found() {
    let engine = Engine::new(EngineOptions::default());
    let column = |name: &str| ColumnSpec { name: name.to_owned(), kind: ColumnType::Int64, nullable: false };
    let columns = vec![column("key"), column("value")];
    let spec = TableSpec { name: "t".to_owned(), columns, primary_key: vec![0], secondary: vec![vec![1]] };
    engine.create_table_with(spec, IndexKind::Hash).expect("a small table");
    let insert = |connection: &mut Connection, key| connection.insert(0, &[Value::Int(key), Value::Int(0)]).map(|_| ());
    let mut reader = engine.connect();
    reader.begin(Priority::LOW, 0);
    assert_eq!(reader.find(0, &[Value::Int(5)], Purpose::Read), Ok(None));
    engine.connect().transact(Priority::LOW, |other| insert(other, 6)).expect("no transaction has looked for it");
    std::thread::scope(|scope| {
        let inserter = scope.spawn(|| engine.connect().transact(Priority::LOW, |other| insert(other, 5)));
        wait_for_waiter(&engine);
        insert(&mut reader, 5).expect("its own lock does not keep it out");
        reader.commit().expect("no transaction is in its way");
        let duplicate = TransactionError::Duplicate { table: "t".to_owned() };
        assert_eq!(inserter.join().expect("it does not panic"), Err(duplicate));
    });
    let mut rows = Vec::new();
    let mut range = |index| {
        reader.begin(Priority::LOW, 0);
        let outcome = reader.find_all((0, index), &[], &[], Purpose::Read, &mut rows).map(|()| rows.len());
        reader.rollback();
        outcome
    };
    assert_eq!(range(1), Ok(2), "a secondary index has ranges");
    let refused = range(0).expect_err("a hash table has none").to_string();
    assert!(refused.contains("primary key of t") && refused.contains("`index=tree`"), "{refused}");
    assert_eq!(engine.locks().name_count(), 0);
}

/// The space behind the last row that was wanted stays free for other transactions.
#[test]
fn the_first_rows_of_a_range_are_locked_and_no_others() {
    let engine = engine("standard");
    for (end, limit, deleted, expect) in [
        (End::First, 3, &[][..], &[0, 1, 2][..]),
        (End::Last, 2, &[], &[9, 8]),
        (End::First, 2, &[0, 2], &[1, 3]),
        (End::Last, 2, &[9, 8, 6], &[7, 5]),
        (End::First, 99, &[], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (End::Last, 0, &[], &[]),
    ] {
        let mut connection = engine.connect();
        connection.begin(Priority::LOW, 0);
        for key in deleted {
            let row = connection.find(0, &[Value::Int(*key)], Purpose::Write).expect("alone").expect("one of the ten");
            connection.delete(0, row).expect("alone");
        }
        let mut rows = vec![99];
        connection.find_some((0, 0), (&[], &[]), (end, limit), Purpose::Read, &mut rows).expect("alone");
        let keys: Vec<i64> = rows.iter().map(|&row| connection.int(0, row, 0)).collect();
        assert_eq!(keys, expect);
        let locked = |key: i64| {
            let table = engine.row_table(0);
            let row = table.indexes[0].get(&table.indexes[0].keys.low(&[Value::Int(key)])).expect("one of the ten");
            let name = LockName::row(0, row);
            engine.locks().held(&connection.work.member, name).is_some()
        };
        let locked: Vec<i64> = (0..10).filter(|key| locked(*key)).collect();
        let mut wanted: Vec<i64> = expect.iter().chain(deleted).copied().collect();
        wanted.sort_unstable();
        assert_eq!(locked, wanted, "{end:?} {limit}");
        connection.rollback();
    }
}
