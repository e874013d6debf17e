//! The cost of a lock without contention: locking and unlocking a row through the lock table, and finding a row in a
//! transaction. Measured under a scheduler without verdicts and one with them, alone and while 300 others wait for
//! another row. Also the cost of beginning to wait behind 300 others, the search for cycles included.
//!
//! `cargo bench --bench lock_cost` prints medians of rounds. The cost of the others is a ratio of alternating rounds,
//! the fastest of a few each; its median has a 95 % interval. Under `cargo test` it runs for a moment. Others wait
//! without threads, because a sleeping thread uses no CPU.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::time::Instant;

use plimsoll_engine::clock::MonotonicClock;
use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{LockName, LockOptions, LockTable, Member, Mode};
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::transaction::Purpose;
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_engine::{Engine, EngineOptions};
use plimsoll_policy::{Priority, lock_scheduler};

/// The amount of work: rounds, and locks in each.
#[derive(Clone, Copy)]
struct Size {
    rounds: usize,
    locks: u64,
    waiters: usize,
}

/// Rows that are locked in turn, more than fit a processor's first caches.
const ROWS: u64 = 100_000;

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Nanoseconds to lock a row and unlock it, with ten held at a time as in transactions; `locks` rows in all.
fn lock_and_unlock(table: &LockTable, member: &Member, locks: u64, round: u64) -> f64 {
    let began = Instant::now();
    for ten in 0..locks / 10 {
        let name = |at: u64| LockName::row(1, (round * locks + ten * 7_919 + at) % ROWS);
        for at in 0..10 {
            assert_eq!(table.ask(member, name(at), Mode::X), Ok(Answer::Granted));
        }
        (0..10).for_each(|at| table.release(member, name(at)));
    }
    began.elapsed().as_nanos() as f64 / locks as f64
}

fn joined(table: &LockTable, priority: Priority) -> Arc<Member> {
    let member = table.join();
    table.begin(&member, priority, 0);
    member
}

/// Rolls back a member that holds these rows, and that may wait for another.
fn leave(table: &LockTable, member: &Member, held: &[LockName]) {
    table.roll_back(member);
    held.iter().for_each(|name| table.release(member, *name));
    table.end(member);
    table.leave(member);
}

fn hot() -> LockName {
    LockName::row(0, 0)
}

/// Makes `waiters` members wait for the hot row, does something, and rolls them back.
fn beside<T>(table: &LockTable, waiters: usize, work: impl FnOnce() -> T) -> T {
    let crowd: Vec<_> = (0..waiters).map(|at| joined(table, Priority::USUAL[at % 2])).collect();
    crowd.iter().for_each(|member| assert_eq!(table.ask(member, hot(), Mode::X), Ok(Answer::Wait)));
    let done = work();
    crowd.iter().rev().for_each(|member| leave(table, member, &[]));
    done
}

/// The cost of a lock alone and beside a crowd in nanoseconds, and the ratio: its median and the ends of its 95 %
/// interval.
struct Crowding {
    alone: f64,
    beside: f64,
    ratio: [f64; 3],
}

/// Alternating rounds without and with a crowd; the fastest of a few of each.
fn crowding(table: &LockTable, size: Size) -> Crowding {
    let holder = joined(table, Priority::LOW);
    assert_eq!(table.ask(&holder, hot(), Mode::X), Ok(Answer::Granted));
    let member = joined(table, Priority::LOW);
    let fastest = |round: usize| {
        let times = (0..5).map(|part| lock_and_unlock(table, &member, size.locks, (round * 5 + part) as u64));
        times.fold(f64::INFINITY, f64::min)
    };
    let pairs: Vec<(f64, f64)> = (0..size.rounds)
        .map(|round| {
            // Each of the two goes first every other time.
            let first = (round % 2 == 0).then(|| fastest(round));
            let beside = beside(table, size.waiters, || fastest(round));
            (first.unwrap_or_else(|| fastest(round)), beside)
        })
        .collect();
    leave(table, &member, &[]);
    leave(table, &holder, &[hot()]);
    assert_eq!(table.name_count(), 0, "locks are left");
    let mut ratios: Vec<f64> = pairs.iter().map(|(alone, beside)| beside / alone).collect();
    ratios.sort_by(f64::total_cmp);
    // The interval of a median by ranks, from the binomial distribution.
    let middle = (ratios.len() - 1) as f64 / 2.0;
    let rank = |offset: f64| (middle + offset).round().clamp(0.0, (ratios.len() - 1) as f64) as usize;
    let half = 0.98 * (ratios.len() as f64).sqrt();
    Crowding {
        alone: median(pairs.iter().map(|pair| pair.0).collect()),
        beside: median(pairs.iter().map(|pair| pair.1).collect()),
        ratio: [0.0, -half, half].map(|offset| ratios[rank(offset)]),
    }
}

/// Microseconds to begin to wait for the hot row behind a crowd, the search for cycles included.
fn behind_a_crowd(table: &LockTable, size: Size) -> f64 {
    let holder = joined(table, Priority::LOW);
    assert_eq!(table.ask(&holder, hot(), Mode::X), Ok(Answer::Granted));
    let cost = beside(table, size.waiters, || time_to_wait(table, hot(), size));
    leave(table, &holder, &[hot()]);
    cost
}

/// The same behind a chain: each waiter holds a row and waits for the one before.
fn behind_a_chain(table: &LockTable, size: Size) -> f64 {
    let row = |at: usize| LockName::row(0, at as u64);
    let chain: Vec<_> = (0..size.waiters).map(|_| joined(table, Priority::LOW)).collect();
    for (at, member) in chain.iter().enumerate() {
        assert_eq!(table.ask(member, row(at), Mode::X), Ok(Answer::Granted));
        let before = at.checked_sub(1).map(|before| table.ask(member, row(before), Mode::X));
        assert!(before.is_none_or(|answer| answer == Ok(Answer::Wait)));
    }
    let cost = time_to_wait(table, row(size.waiters - 1), size);
    chain.iter().enumerate().rev().for_each(|(at, member)| leave(table, member, &[row(at)]));
    assert_eq!(table.name_count(), 0, "locks are left");
    cost
}

fn time_to_wait(table: &LockTable, name: LockName, size: Size) -> f64 {
    let time = |_| {
        let late = joined(table, Priority::LOW);
        let began = Instant::now();
        let answer = table.ask(&late, name, Mode::X);
        let took = began.elapsed().as_nanos() as f64 / 1e3;
        assert_eq!(answer, Ok(Answer::Wait));
        leave(table, &late, &[]);
        took
    };
    median((0..size.rounds).map(time).collect())
}

/// Nanoseconds to find a row by its key and lock it to be written, its share of beginning and committing included; ten
/// rows per transaction.
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
    let mut round = |round: u64| {
        let began = Instant::now();
        for ten in 0..size.locks / 10 {
            connection.begin(Priority::LOW, 0);
            for at in 0..10 {
                let key = (round * size.locks + ten * 7_919 + at) % ROWS;
                assert!(connection.find(0, &[Value::Int(key as i64)], Purpose::Write).unwrap().is_some());
            }
            connection.commit().unwrap();
        }
        began.elapsed().as_nanos() as f64 / size.locks as f64
    };
    median((0..size.rounds as u64).map(&mut round).collect())
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let size = if is_bench {
        Size { rounds: 1_001, locks: 4_000, waiters: 300 }
    } else {
        Size { rounds: 3, locks: 100, waiters: 20 }
    };
    for scheduler in ["standard", "nprio", "pow"] {
        let clock = Arc::new(MonotonicClock::default());
        let table = LockTable::new(LockOptions::new(lock_scheduler(scheduler).unwrap(), clock));
        let Crowding { alone, beside, ratio: [ratio, low, high] } = crowding(&table, size);
        let (crowd, chain) = (behind_a_crowd(&table, size), behind_a_chain(&table, size));
        let (found, waiters) = (find(scheduler, size), size.waiters);
        println!(
            "{scheduler}: lock + unlock {alone:.1} ns, beside {waiters} waiters {beside:.1} ns: {ratio:.3} of it \
             ({low:.3} to {high:.3}); to begin to wait behind {waiters} at one row {crowd:.1} us, behind a chain of \
             {waiters} {chain:.1} us; find a row in a transaction {found:.1} ns"
        );
    }
}
