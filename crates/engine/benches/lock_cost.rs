//! What a lock costs that nobody else wants: locking and unlocking a row through the lock table, and finding a row in a
//! transaction; under a scheduler without verdicts and one with them, alone and while 300 others wait for another row.
//!
//! `cargo bench --bench lock_cost` prints medians of rounds. Under `cargo test` it runs for a moment.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::time::Instant;

use plimsoll_engine::clock::MonotonicClock;
use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{LockName, LockOptions, LockTable, Mode};
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::transaction::Purpose;
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_engine::{Engine, EngineOptions};
use plimsoll_policy::{Priority, lock_scheduler};

/// How much is done: rounds, and locks in each.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    locks: u64,
    waiters: usize,
}

/// Rows that are locked in turn, more than a processor's first caches know.
const ROWS: u64 = 100_000;

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn rounds(size: Size, mut round: impl FnMut(u64)) -> f64 {
    let time = |at: usize| {
        let began = Instant::now();
        round(at as u64);
        began.elapsed().as_nanos() as f64 / size.locks as f64
    };
    median((0..size.rounds).map(time).collect())
}

/// Nanoseconds to lock a row and unlock it, ten held at a time as transactions do.
fn lock_and_unlock(table: &LockTable, size: Size) -> f64 {
    let member = table.join();
    table.begin(&member, Priority::LOW, 0);
    let cost = rounds(size, |round| {
        for ten in 0..size.locks / 10 {
            let name = |at: u64| LockName::row(1, (round * size.locks + ten * 7_919 + at) % ROWS);
            for at in 0..10 {
                assert_eq!(table.ask(&member, name(at), Mode::X), Ok(Answer::Granted));
            }
            (0..10).for_each(|at| table.release(&member, name(at)));
        }
    });
    table.commit_point(&member).unwrap();
    table.end(&member);
    table.leave(&member);
    cost
}

/// The same while a crowd waits for one other row: first without, then with.
fn beside_a_crowd(table: &LockTable, size: Size) -> (f64, f64) {
    let hot = LockName::row(0, 0);
    let holder = table.join();
    table.begin(&holder, Priority::LOW, 0);
    assert_eq!(table.ask(&holder, hot, Mode::X), Ok(Answer::Granted));
    let alone = lock_and_unlock(table, size);
    let crowded = std::thread::scope(|scope| {
        for at in 0..size.waiters {
            let wait = move || {
                let member = table.join();
                table.begin(&member, Priority::USUAL[at % 2], 0);
                if table.ask(&member, hot, Mode::X) == Ok(Answer::Wait) {
                    table.wait(&member).outcome.unwrap();
                }
                table.commit_point(&member).unwrap();
                table.release(&member, hot);
                table.end(&member);
                table.leave(&member);
            };
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, wait).unwrap();
        }
        while table.waiter_count() < size.waiters {
            std::thread::yield_now();
        }
        let crowded = lock_and_unlock(table, size);
        // A victim of a high-priority waiter by now, under some schedulers: it ends either way.
        table.roll_back(&holder);
        table.release(&holder, hot);
        table.end(&holder);
        crowded
    });
    assert_eq!(table.name_count(), 0, "locks are left");
    (alone, crowded)
}

/// Nanoseconds to find a row by its key and lock it to be written, its share of beginning and committing included; ten rows
/// a transaction.
fn find(scheduler: &str, size: Size) -> f64 {
    let engine =
        Engine::new(EngineOptions { lock_scheduler: lock_scheduler(scheduler).unwrap(), ..EngineOptions::default() });
    let columns = vec![ColumnSpec { name: "key".to_owned(), kind: ColumnType::Int64, nullable: false }];
    let spec = TableSpec { name: "t".to_owned(), columns, primary_key: vec![0], secondary: vec![] };
    let table = engine.create_table(spec).unwrap();
    for key in 0..ROWS as i64 {
        table.load(&[Value::Int(key)]).unwrap();
    }
    let mut connection = engine.connect();
    rounds(size, |round| {
        for ten in 0..size.locks / 10 {
            connection.begin(Priority::LOW, 0);
            for at in 0..10 {
                let key = (round * size.locks + ten * 7_919 + at) % ROWS;
                assert!(connection.find(0, &[Value::Int(key as i64)], Purpose::Write).unwrap().is_some());
            }
            connection.commit().unwrap();
        }
    })
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let size = if is_bench {
        Size { rounds: 501, locks: 10_000, waiters: 300 }
    } else {
        Size { rounds: 3, locks: 100, waiters: 20 }
    };
    for scheduler in ["standard", "nprio", "pow"] {
        let options = LockOptions::new(lock_scheduler(scheduler).unwrap(), Arc::new(MonotonicClock::default()));
        let (alone, crowded) = beside_a_crowd(&LockTable::new(options), size);
        let found = find(scheduler, size);
        println!(
            "{scheduler}: lock + unlock {alone:.1} ns, beside {} waiters {crowded:.1} ns ({:.3} of it); \
             find a row in a transaction {found:.1} ns",
            size.waiters,
            crowded / alone
        );
    }
}
