//! How well a database uses its disk: TPC-C under `durability=sync` compared with a loop that only commits.
//!
//! The loop has as many threads as TPC-C has clients. Each commits changes of one row of its own, as long as TPC-C's on
//! average, so that the log writes groups of the same size and no thread waits for a lock. The ratio is that of
//! transactions per second that became durable. With few clients it shows the cost of the work beside the log. With
//! more clients than warehouses it also shows the cost of holding locks until the changes are on disk, unless they are
//! released early.
//!
//! `cargo bench --bench group_commit` measures in interleaved rounds and prints the median ratio of rounds with its range.
//! Under `cargo test` it runs for a moment and checks that both sides commit. The log is in the folder that `TMPDIR` names, if
//! that is on a disk.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::transaction::Purpose;
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_engine::{Connection, Durability, Engine, EngineOptions, LogOptions, LogStatistics};
use plimsoll_policy::Priority;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::tpcc::Tpcc;

/// Bytes that a unit has besides the text that changes: the frame's header, the record, the key and the commit.
const OVERHEAD_BYTES: usize = 20 + 5 + 6 + 2 + 3 + 5;

fn log_options() -> LogOptions {
    LogOptions { durability: Durability::Sync, ..LogOptions::default() }
}

/// The transactions that became durable between two readings.
struct Rate {
    units_per_s: f64,
    unit_bytes: f64,
    units_a_group: f64,
}

fn rate(before: LogStatistics, after: LogStatistics, time: Duration) -> Rate {
    let units = (after.durable_units - before.durable_units) as f64;
    Rate {
        units_per_s: units / time.as_secs_f64(),
        unit_bytes: (after.unit_bytes - before.unit_bytes) as f64 / (after.units - before.units).max(1) as f64,
        units_a_group: units / (after.groups - before.groups).max(1) as f64,
    }
}

/// TPC-C with `clients` clients.
fn run_tpcc(database: &Embedded, tpcc: &Tpcc, clients: usize, seed: u64, time: Duration) -> Rate {
    let options = ClientOptions { clients, seed, ..ClientOptions::default() };
    let drives = [Drive { name: "tpcc", benchmark: tpcc, database, options: &options }];
    let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: time };
    let (before, began) = (database.log_statistics().unwrap(), Instant::now());
    drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap();
    rate(before, database.log_statistics().unwrap(), began.elapsed())
}

/// `threads` threads, each committing changes of a row of its own.
fn run_loop(threads: usize, unit_bytes: usize, time: Duration) -> Rate {
    let log = plimsoll_engine::Log::open(&log_options(), EngineOptions::default().clock).unwrap();
    let engine = Engine::with_log(EngineOptions::default(), log);
    let length = unit_bytes.saturating_sub(OVERHEAD_BYTES).max(1);
    let column = |name: &str, kind| ColumnSpec { name: name.to_owned(), kind, nullable: false };
    let columns = vec![column("id", ColumnType::Int64), column("text", ColumnType::Text(length as u16))];
    let spec = TableSpec { name: "own".to_owned(), columns, primary_key: vec![0], secondary: vec![] };
    let table = engine.create_table(spec).unwrap();
    let text = "x".repeat(length);
    for thread in 0..threads {
        table.load(&[Value::Int(thread as i64), Value::Text(&text)]).unwrap();
    }
    let stop = AtomicBool::new(false);
    let (before, began) = (engine.log_statistics().unwrap(), Instant::now());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (engine, text, stop, table) = (&engine, &text, &stop, table.number);
            scope.spawn(move || commit_until(engine, table, thread as i64, text, stop));
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    rate(before, engine.log_statistics().unwrap(), began.elapsed())
}

fn commit_until(engine: &Arc<Engine>, table: u32, key: i64, text: &str, stop: &AtomicBool) {
    let mut connection = engine.connect();
    while !stop.load(Ordering::Relaxed) {
        let change = |connection: &mut Connection| {
            let row = connection.find(table, &[Value::Int(key)], Purpose::Write)?.expect("it was loaded");
            connection.set(table, row, 1, Value::Text(text))
        };
        connection.transact(Priority::LOW, change).unwrap();
    }
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, time) = if is_bench { (5, Duration::from_secs(2)) } else { (1, Duration::from_millis(200)) };
    let scale = if is_bench { 2 } else { 1 };
    println!("clients  early release  TPC-C commits/s  a group  bytes   loop commits/s  a group   ratio (range)");
    for early_lock_release in [false, true] {
        let tpcc = Tpcc::new(scale, 7);
        let engine = EngineOptions { early_lock_release, ..EngineOptions::default() };
        let options = EmbeddedOptions { engine, log: log_options(), ..EmbeddedOptions::default() };
        let database = Embedded::new(options).unwrap();
        tpcc.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &AtomicBool::new(false) }).unwrap();
        for clients in [1, 2, 8] {
            let mut ratios = Vec::new();
            let mut shown = String::new();
            for round in 0..rounds {
                let whole = run_tpcc(&database, &tpcc, clients, round, time);
                let bare = run_loop(clients, whole.unit_bytes as usize, time);
                assert!(whole.units_per_s > 0.0 && bare.units_per_s > 0.0, "both sides commit");
                ratios.push(whole.units_per_s / bare.units_per_s);
                shown = format!(
                    "{clients:7}  {early_lock_release:13}  {:15.0}  {:7.2}  {:5.0}  {:15.0}  {:7.2}",
                    whole.units_per_s, whole.units_a_group, whole.unit_bytes, bare.units_per_s, bare.units_a_group,
                );
            }
            ratios.sort_by(f64::total_cmp);
            let (low, median, high) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
            println!("{shown}   {median:.3} ({low:.3} to {high:.3})");
        }
    }
}
