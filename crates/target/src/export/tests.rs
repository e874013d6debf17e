//! What was exported while transactions ran is one state, which a database has after some first commits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::FieldRef;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plimsoll_export::{ExportOptions, ExportReport, FolderStorage, KnownChunks, export, verify};
use plimsoll_testing::until;
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::Database;
use plimsoll_workload::tpcb::Tpcb;
use plimsoll_workload::tpcc::Tpcc;

use super::*;
use crate::embedded::EmbeddedOptions;

fn opened<'a>(options: impl IntoIterator<Item = &'a str>) -> Embedded {
    Embedded::new(EmbeddedOptions::parse(options).unwrap()).unwrap()
}

fn loaded<'a>(benchmark: &dyn Benchmark, options: impl IntoIterator<Item = &'a str>) -> Embedded {
    let database = opened(options);
    benchmark.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &AtomicBool::new(false) }).unwrap();
    database
}

fn exported(source: &EngineSource, folder: &Path) -> ExportReport {
    exported_knowing(source, folder, None)
}

fn exported_knowing(source: &EngineSource, folder: &Path, known: Option<&KnownChunks>) -> ExportReport {
    let storage = FolderStorage::open(folder).unwrap();
    let stop = AtomicBool::new(false);
    export(source, &storage, &ExportOptions { threads: 2, progress: &|_, _| {}, stop: &stop, known }).unwrap()
}

/// A database with the tables of an export, which must be whole.
fn imported(schema: &Schema, folder: &Path) -> Embedded {
    let (manifest, faults) = verify(&FolderStorage::open_to_read(folder)).unwrap();
    assert_eq!(faults, Vec::<String>::new());
    let database = opened([]);
    database.create(schema).unwrap();
    for (number, table) in schema.tables.iter().enumerate() {
        let exported = manifest.tables.iter().find(|exported| exported.name == table.name).unwrap();
        assert_eq!(exported.schema, schema.name);
        for file in &exported.files {
            let file = File::open(folder.join(&file.path)).unwrap();
            for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
                let (batch, columns) = (batch.unwrap(), table.arrow());
                let column = |(column, field): (&ArrayRef, &FieldRef)| cast(column, field.data_type());
                let arrays = batch.columns().iter().zip(columns.fields()).map(column);
                let arrays = arrays.collect::<Result<_, _>>().unwrap();
                database.load(schema, number, RecordBatch::try_new(columns, arrays).unwrap()).unwrap();
            }
        }
    }
    database.finish_load(schema).unwrap();
    database
}

/// All conditions on the data hold; those on the input of clients are not judged, because none has run.
fn assert_consistent(benchmark: &dyn Benchmark, folder: &Path) {
    let lines = benchmark.check(&imported(benchmark.schema(), folder)).unwrap();
    let failed: Vec<_> = lines.iter().filter(|line| line.holds == Some(false)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert!(lines.iter().filter(|line| line.holds == Some(true)).count() >= 3, "{lines:?}");
}

/// Calls `observe` while two clients run transactions; it receives the number of those that have ended.
fn while_running(benchmark: &dyn Benchmark, database: &Embedded, observe: impl FnOnce(&AtomicU64)) {
    let (is_over, ended) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..2 {
            let (is_over, ended) = (&is_over, &ended);
            scope.spawn(move || {
                let mut session = database.session(benchmark.schema()).unwrap();
                let mut client = benchmark.client(number, 11);
                while !is_over.load(Ordering::SeqCst) {
                    client.draw();
                    while let Err(error) = client.run(&mut *session) {
                        assert!(error.is_retryable(), "{error}");
                    }
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let observed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| observe(&ended)));
        is_over.store(true, Ordering::SeqCst);
        observed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn text(database: &Embedded, schema: &Schema, sql: &str) -> String {
    let answer = database.session(schema).unwrap().query(sql).unwrap();
    arrow::util::display::array_value_to_string(answer.batches[0].column(0), 0).unwrap()
}

#[test]
fn balances_of_tpcb_are_equal_in_every_export_and_the_commit_number_counts_the_transactions() {
    let tpcb = Tpcb::new(1);
    let database = loaded(&tpcb, ["propagation=background", "propagation_age=10ms"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    while_running(&tpcb, &database, |ended| {
        for round in 0..4 {
            let before = ended.load(Ordering::SeqCst);
            until("more transactions", || ended.load(Ordering::SeqCst) > before + 200);
            let least = ended.load(Ordering::SeqCst);
            let source = database.export_source(tpcb.schema()).unwrap();
            // The transactions that run while files are written are not in it.
            until("more transactions", || ended.load(Ordering::SeqCst) > least + 200);
            let report = exported(&source, &out);
            let AsOf::Commit(commit) = report.manifest.as_of else { panic!("{:?}", report.manifest) };
            assert!(commit >= least, "{commit} of {least}");
            let copy = imported(tpcb.schema(), &out);
            let sum = |table: &str, column| text(&copy, tpcb.schema(), &format!("select sum({column}) from {table}"));
            let deltas = sum("history", "h_delta");
            for (table, column) in [("account", "a_balance"), ("teller", "t_balance"), ("branch", "b_balance")] {
                assert_eq!(sum(table, column), deltas, "{table} in round {round}");
            }
            let history = text(&copy, tpcb.schema(), "select count(*) from history");
            assert_eq!(history, commit.to_string(), "each transaction adds a row");
        }
    });
}

#[test]
fn the_consistency_conditions_of_tpcc_hold_in_exports_made_while_transactions_run() {
    let tpcc = Tpcc::new(1, 7);
    let database = loaded(&tpcc, ["propagation=background", "propagation_age=10ms"]);
    let folder = tempfile::tempdir().unwrap();
    while_running(&tpcc, &database, |ended| {
        for _ in 0..2 {
            let before = ended.load(Ordering::SeqCst);
            until("more transactions", || ended.load(Ordering::SeqCst) > before + 500);
            exported(&database.export_source(tpcc.schema()).unwrap(), folder.path());
            assert_consistent(&Tpcc::new(1, 7), folder.path());
        }
    });
}

/// A chunk that is wrongly taken for unchanged would stay in an old state.
#[test]
fn exports_that_keep_unchanged_chunks_equal_those_that_read_all() {
    let tpcc = Tpcc::new(1, 7);
    let database = loaded(&tpcc, ["propagation=background", "propagation_age=10ms"]);
    let (folder, known) = (tempfile::tempdir().unwrap(), KnownChunks::default());
    while_running(&tpcc, &database, |ended| {
        for _ in 0..6 {
            let before = ended.load(Ordering::SeqCst);
            until("more transactions", || ended.load(Ordering::SeqCst) > before + 300);
            let source = database.export_source(tpcc.schema()).unwrap();
            let kept = exported_knowing(&source, &folder.path().join("known"), Some(&known));
            let all = exported(&source, &folder.path().join("all"));
            assert_eq!(kept.manifest, all.manifest);
        }
    });
    let (_, faults) = verify(&FolderStorage::open_to_read(&folder.path().join("known"))).unwrap();
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn without_propagation_an_export_is_refused_with_the_option() {
    let tpcb = Tpcb::new(1);
    let error = loaded(&tpcb, []).export_source(tpcb.schema()).unwrap_err().to_string();
    assert!(error.contains("set the option propagation=background"), "{error}");
}

/// The bytes of a folder's files by name.
fn bytes(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let file = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        (path.display().to_string(), fs::read(path).unwrap())
    };
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(file).collect();
    files.sort();
    files
}

#[test]
fn a_data_folder_is_exported_without_changing_it_and_only_changed_chunks_are_written_again() {
    let tpcb = Tpcb::new(1);
    // On a disk, because the log refuses memory.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    let data_folder = format!("data_folder={}", data.display());
    let options = ["durability=async", data_folder.as_str()];
    let database = loaded(&tpcb, options);
    while_running(&tpcb, &database, |ended| until("transactions", || ended.load(Ordering::SeqCst) > 100));
    let error = Embedded::stored(&data).unwrap_err().to_string();
    assert!(error.contains("is open in another process"), "{error}");
    drop(database);

    let before = bytes(&data);
    let stored = Embedded::stored(&data).unwrap();
    assert_eq!(stored.kept_schemas(), ["tpcb"]);
    let first = exported(&stored.export_source(tpcb.schema()).unwrap(), &out);
    assert_consistent(&tpcb, &out);
    assert!(matches!(first.manifest.as_of, AsOf::LogPosition(position) if position > 0));
    drop(stored);
    assert_eq!(bytes(&data), before);
    let again = exported(&Embedded::stored(&data).unwrap().export_source(tpcb.schema()).unwrap(), &out);
    assert_eq!((again.files_written, &again.manifest), (0, &first.manifest));

    // One account of the first chunk of two, its teller and branch, and a row of history.
    let database = opened(options);
    let mut session = database.session(tpcb.schema()).unwrap();
    let mut client = tpcb.client(0, 23);
    client.draw();
    client.run(&mut *session).unwrap();
    drop((session, database));
    let changed = exported(&Embedded::stored(&data).unwrap().export_source(tpcb.schema()).unwrap(), &out);
    assert_eq!((changed.manifest.files().count(), changed.files_written), (5, 4));
    assert_consistent(&tpcb, &out);
}
