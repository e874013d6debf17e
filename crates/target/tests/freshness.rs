//! TPC-C beside queries that read what it has just committed: its consistency conditions hold on live snapshots.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::Database;
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::tpcc::Tpcc;

/// Longer than all checks take, also on a busy machine; the run ends with them.
const RUN_MAX: Duration = Duration::from_secs(900);

/// Ends the run, also if a check has failed.
struct EndRun<'a>(&'a AtomicBool);

impl Drop for EndRun<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn the_conditions_of_tpcc_hold_on_snapshots_while_clients_run() {
    let options = ["propagation=background", "propagation_age=20ms", "propagation_threads=2", "dop=2"];
    let database = Embedded::new(EmbeddedOptions::parse(options).unwrap()).unwrap();
    let tpcc = Tpcc::new(1, 7);
    let is_over = AtomicBool::new(false);
    tpcc.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &is_over }).unwrap();
    let options = ClientOptions { clients: 3, seed: 1, ..ClientOptions::default() };
    let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: RUN_MAX };
    thread::scope(|scope| {
        let drives = [Drive { name: "tpcc", benchmark: &tpcc, database: &database, options: &options }];
        let is_over = &is_over;
        scope.spawn(move || drive(&drives, window, &mut (), is_over));
        let _end = EndRun(is_over);
        let mut watch = database.freshness().unwrap().unwrap();
        let mut published = || watch.look().unwrap().published;
        let mut before = 0;
        for _ in 0..2 {
            while published() < before + 200 {
                thread::sleep(Duration::from_millis(5));
            }
            before = published();
            let lines = tpcc.check(&database).unwrap();
            let broken: Vec<_> = lines.iter().filter(|line| line.holds == Some(false)).collect();
            assert!(broken.is_empty(), "{broken:?}");
            assert!(published() > before, "the clients have stopped");
        }
    });
    let last = database.freshness().unwrap().unwrap().look().unwrap();
    assert!(last.applied > 0 && last.merged.unwrap().changes > 0, "{last:?}");
    assert!(last.applied <= last.published && last.applying.unwrap() > Duration::ZERO, "{last:?}");
    let off = Embedded::new(EmbeddedOptions::default()).unwrap();
    assert!(off.freshness().unwrap().is_none(), "queries read the state as loaded");
}
