//! The cost of a fresh column copy for transactions: TPC-C with changes published, and with changes published and
//! applied to the columns, compared with neither, with one client and with two. Also how long a commit waits for
//! snapshots, folds and other commits while a thread takes one snapshot after the other.
//!
//! `cargo bench --bench tpcc_publishing` measures in interleaved rounds and prints the median ratio of rounds with its range. Under `cargo
//! test` it runs for a moment.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::Database;
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::tpcc::Tpcc;

/// Each with the database that it is about, and the baseline first.
const MODES: [&str; 3] = ["off", "paused", "background"];

/// How long the thread that takes snapshots pauses.
const BETWEEN_SNAPSHOTS: Duration = Duration::from_millis(2);

struct Side {
    database: Embedded,
    tpcc: Tpcc,
}

impl Side {
    fn loaded(mode: &str) -> Side {
        let options = EmbeddedOptions::parse([format!("propagation={mode}").as_str(), "delta_full=grow"]).unwrap();
        let (database, tpcc) = (Embedded::new(options).unwrap(), Tpcc::new(1, 7));
        let never = AtomicBool::new(false);
        tpcc.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &never }).unwrap();
        Side { database, tpcc }
    }

    /// Transactions per second.
    fn rate(&self, clients: usize, window: Window, round: u64) -> f64 {
        if self.database.freshness().unwrap().is_some() {
            // The backlog of a paused propagation would make the next round slower.
            self.database.refresh(self.tpcc.schema()).unwrap();
        }
        let options = ClientOptions { clients, seed: 11 + round, ..ClientOptions::default() };
        let drives = [Drive { name: "tpcc", benchmark: &self.tpcc, database: &self.database, options: &options }];
        let measured = drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap();
        measured.workloads[0].measured.all.throughput_per_s
    }
}

/// Median, least and largest.
fn middle(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", values[values.len() / 2], values[0], values[values.len() - 1])
}

/// Runs clients while a thread takes snapshots, and prints the waits of commits.
fn print_waits(side: &Side, clients: usize, window: Window) {
    let mut watch = side.database.freshness().unwrap().unwrap();
    let before = watch.look().unwrap();
    let is_over = AtomicBool::new(false);
    let mut snapshots = 0;
    let per_s = thread::scope(|scope| {
        let rate = scope.spawn(|| {
            let rate = side.rate(clients, window, 0);
            is_over.store(true, Ordering::SeqCst);
            rate
        });
        let tables = side.database.tables(side.tpcc.schema()).unwrap();
        while !is_over.load(Ordering::SeqCst) {
            drop(tables.read().unwrap());
            snapshots += 1;
            thread::sleep(BETWEEN_SNAPSHOTS);
        }
        rate.join().unwrap()
    });
    let waits = watch.look().unwrap().blocked.unwrap().since(&before.blocked.unwrap());
    let at_most = |share| waits.at_most(share).unwrap_or_default().as_secs_f64() * 1e6;
    println!(
        "{clients} clients, {per_s:.0} tx/s, {snapshots} snapshots: of {} commits 99 % waited at most {:.1} µs, 99.9 % {:.1}, all {:.1}",
        waits.len(),
        at_most(0.99),
        at_most(0.999),
        at_most(1.0)
    );
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, seconds) = if is_bench { (9, 2.0) } else { (1, 0.2) };
    let window = Window {
        warmup: WarmUp::For(Duration::from_secs_f64(seconds / 4.0)),
        measure: Duration::from_secs_f64(seconds),
    };
    let sides = MODES.map(Side::loaded);
    for clients in [1, 2] {
        let mut ratios: [Vec<f64>; MODES.len()] = [const { Vec::new() }; MODES.len()];
        for round in 0..rounds {
            let rates: Vec<f64> = sides.iter().map(|side| side.rate(clients, window, round)).collect();
            assert!(rates.iter().all(|rate| *rate > 0.0), "one side ran nothing: {rates:?}");
            rates.iter().zip(&mut ratios).for_each(|(rate, ratios)| ratios.push(rate / rates[0]));
        }
        for (mode, ratios) in MODES.iter().zip(ratios).skip(1) {
            println!("{clients} clients, propagation={mode} over off, median and range: {}", middle(ratios));
        }
    }
    for clients in [1, 2] {
        print_waits(&sides[2], clients, window);
    }
}
