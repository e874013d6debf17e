//! Replaying the log of a TPC-C run on the same initial population gives the tables that the run has left.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_engine::log::reader::LogReader;
use plimsoll_engine::log::replay::replay;
use plimsoll_engine::log::storage::FolderStorage;
use plimsoll_engine::table::RowTable;
use plimsoll_engine::value::ColumnType;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::tpcc::Tpcc;

fn loaded(tpcc: &Tpcc, options: &[&str]) -> Embedded {
    let embedded = Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    tpcc.load(&embedded, &LoadProgress { report: &|_, _, _| (), stop: &stop }).unwrap();
    embedded
}

/// All rows as text, sorted.
fn rows(table: &RowTable) -> Vec<String> {
    let heap = &table.heap;
    let write_row = |row| {
        let mut text = String::new();
        for (column, spec) in table.spec.columns.iter().enumerate() {
            match spec.kind {
                _ if heap.is_null(row, column) => text.push_str("null"),
                ColumnType::Text(_) => heap.text(row, column, &mut text),
                _ => text.push_str(&heap.int(row, column).to_string()),
            }
            text.push('|');
        }
        text
    };
    let mut rows: Vec<_> = heap.live_rows().map(write_row).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn the_log_of_a_run_says_what_the_run_did() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("durability-{}", std::process::id()));
    let [live_tpcc, again_tpcc] = [1, 1].map(|warehouses| Tpcc::new(warehouses, 7));
    let live = loaded(&live_tpcc, &["durability=sync", &format!("log_folder={}", parent.display())]);
    let again = loaded(&again_tpcc, &[]);
    let options = ClientOptions { clients: 4, seed: 1, ..ClientOptions::default() };
    let drives = [Drive { name: "tpcc", benchmark: &live_tpcc, database: &live, options: &options }];
    let window = Window { warmup: WarmUp::For(Duration::ZERO), measure: Duration::from_millis(500) };
    drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap();

    let folder = parent.read_dir().unwrap().next().unwrap().unwrap().path();
    let storage = FolderStorage::new(&folder);
    let [live_set, again_set] = [&live, &again].map(|database| database.tables(live_tpcc.schema()).unwrap());
    let tables = 0..live_tpcc.schema().tables.len();
    let pairs: Vec<_> = tables.filter_map(|table| Some((live_set.rows(table)?, again_set.rows(table)?))).collect();
    let same_table =
        |number: u32| pairs.iter().find(|(live, _)| live.number == number).map(|(_, again)| Arc::clone(again));
    let count = replay(LogReader::new(&storage).unwrap(), same_table).unwrap();
    assert!(count > 0 && live.log_statistics().unwrap().durable_units == count, "{count}");
    for (live, again) in &pairs {
        assert!(rows(live) == rows(again), "{} differs after {count} transactions", live.spec.name);
    }
    drop((live_set, live));
    assert!(!folder.exists(), "the log is removed with the database");
    std::fs::remove_dir(&parent).unwrap();
}
