//! TPC-C beside queries that read just committed changes: its consistency conditions hold on live snapshots.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::Database;
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::tpcc::Tpcc;
use serde_json::json;

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

#[test]
fn a_sum_has_every_update_that_was_committed_before_it_began() {
    let options = ["propagation=background", "propagation_age=5ms"];
    let database = Embedded::new(EmbeddedOptions::parse(options).unwrap()).unwrap();
    let made = |kind, parameters| {
        let parameters = serde_json::from_value(parameters).unwrap();
        plimsoll_workload::registry::make(kind, Some(0.01), &parameters, 7).unwrap().0
    };
    let (rows, query) = (made("rows", json!({ "updates": 1, "rows": 3 })), made("rows_query", json!({})));
    assert_eq!(rows.data(), query.data());
    let never = AtomicBool::new(false);
    query.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &never }).unwrap();
    let mut client = rows.client(0, 1);
    let session = || database.session(rows.schema()).unwrap();
    let (mut writes, mut reads) = (session(), session());
    let mut sum = || {
        let answer = reads.query("select cast(sum(pair_value) as bigint) as total from pairs").unwrap();
        answer.batches[0].column(0).as_primitive::<Int64Type>().value(0)
    };
    let loaded = sum();
    for transaction in 1..=200 {
        client.draw();
        client.run(writes.as_mut()).unwrap();
        assert_eq!(sum(), loaded + 3 * transaction);
    }
    for benchmark in [&rows, &query] {
        let lines = benchmark.check(&database).unwrap();
        assert!(lines.iter().all(|line| line.holds == Some(true)), "{lines:?}");
    }
    let looked = database.freshness().unwrap().unwrap().look().unwrap();
    // A transaction may have drawn a row twice.
    assert!((590..=600).contains(&looked.published) && looked.readable == looked.published, "{looked:?}");
    assert_eq!(looked.blocked.unwrap().len(), 200, "every commit is counted, whether it waited or not");
}

#[test]
fn an_older_state_that_queries_share_is_told_as_such() {
    let database =
        Embedded::new(EmbeddedOptions::parse(["propagation=background", "freshness=bounded(3600s)"]).unwrap());
    let (database, tpcc) = (database.unwrap(), Tpcc::new(1, 7));
    let never = AtomicBool::new(false);
    tpcc.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &never }).unwrap();
    let (mut client, mut session) = (tpcc.client(0, 1), database.session(tpcc.schema()).unwrap());
    session.query("select count(*) from warehouse").unwrap();
    for _ in 0..20 {
        client.draw();
        client.run(session.as_mut()).unwrap();
    }
    let looked = database.freshness().unwrap().unwrap().look().unwrap();
    assert!(looked.published > 0 && looked.readable == 0, "{looked:?}");
}

#[test]
fn transactions_larger_than_the_delta_may_be_get_in_one_by_one() {
    let mut options = EmbeddedOptions::parse(["propagation=background", "delta_full=stall"]).unwrap();
    options.delta.bytes_max = 1 << 19;
    let database = Embedded::new(options).unwrap();
    let parameters = json!({ "updates": 1, "rows": 10_000, "columns": "text" });
    let parameters = serde_json::from_value(parameters).unwrap();
    let (rows, _) = plimsoll_workload::registry::make("rows", Some(0.05), &parameters, 7).unwrap();
    let never = AtomicBool::new(false);
    rows.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &never }).unwrap();
    let (mut client, mut session) = (rows.client(0, 1), database.session(rows.schema()).unwrap());
    for _ in 0..4 {
        client.draw();
        client.run(session.as_mut()).unwrap();
    }
    let looked = database.freshness().unwrap().unwrap().look().unwrap();
    assert!(looked.published > 30_000, "{looked:?}");
    let engine = database.tables(rows.schema()).unwrap().freshness().unwrap();
    assert!(engine.delta_bytes_peak > 1 << 19, "each of them is larger than the bound: {engine:?}");
}
