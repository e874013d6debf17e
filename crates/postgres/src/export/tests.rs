//! Exports of a private server while transactions change it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use arrow::compute::concat_batches;
use arrow::util::pretty::pretty_format_batches;
use plimsoll_export::{ExportOptions, FolderStorage, export, verify};
use plimsoll_testing::until;

use super::*;
use crate::server::{PrivateServer, ServerSettings};

fn server() -> PrivateServer {
    let options = [("shared_buffers", "32MB"), ("fsync", "off")];
    PrivateServer::start(ServerSettings::for_this_machine().with(&options).unwrap()).unwrap()
}

/// All rows of a table.
fn contents(source: &ServerSource, name: &str) -> RecordBatch {
    let table = source.tables().iter().position(|table| table.name == name).unwrap();
    let mut reader = source.reader().unwrap();
    let shape = &source.tables()[table];
    let chunks: Vec<RecordBatch> = (0..shape.chunks).map(|chunk| reader.read(table, chunk).unwrap()).collect();
    concat_batches(&shape.columns, &chunks).unwrap()
}

#[test]
fn every_type_is_exported_with_its_values() {
    let server = server();
    let mut connection = Connection::open(&server.url()).unwrap();
    connection
        .run(
            "CREATE SCHEMA \"a shop\"; CREATE TYPE mood AS ENUM ('calm'); CREATE TABLE nothing (); \
             CREATE TABLE \"a shop\".\"all\" (b boolean NOT NULL, s smallint, i integer, l bigint, f real, d double precision, \
             n numeric(12,2), m numeric, t text, v varchar(9), c char(3), y bytea, a date, w timestamp, z timestamptz, \
             u uuid, j jsonb, e mood, x integer[]); \
             INSERT INTO \"a shop\".\"all\" VALUES (true, -2, 3, 4, 0.5, 0.25, -12.34, 1e40, 'ä', 'v', 'c', '\\x00ff', \
             '1969-12-31', '2000-01-01 00:00:00.000001', '2000-01-01 02:00:00+02', \
             '00000000-0000-0000-0000-000000000001', '{\"a\": 1}', 'calm', '{1,NULL}'); \
             INSERT INTO \"a shop\".\"all\" (b) VALUES (false)",
        )
        .unwrap();
    let source = ServerSource::open(&server.url()).unwrap();
    assert_eq!(source.tables().len(), 1, "a table without columns holds nothing");
    assert_eq!(source.tables()[0].schema, "a shop");
    assert!(!source.tables()[0].columns.field(0).is_nullable() && source.tables()[0].columns.field(1).is_nullable());
    let shown = pretty_format_batches(&[contents(&source, "all")]).unwrap().to_string();
    let cells: Vec<&str> = shown.lines().nth(3).unwrap().split('|').map(str::trim).collect();
    let expect = [
        "true",
        "-2",
        "3",
        "4",
        "0.5",
        "0.25",
        "-12.34",
        "10000000000000000000000000000000000000000",
        "ä",
        "v",
        "c",
        "00ff",
        "1969-12-31",
        "2000-01-01T00:00:00.000001",
        "2000-01-01T00:00:00Z",
        "00000000-0000-0000-0000-000000000001",
        "{\"a\": 1}",
        "calm",
        "{1,NULL}",
    ];
    assert_eq!(cells[1..=expect.len()], expect);
    let nulls: Vec<&str> = shown.lines().nth(4).unwrap().split('|').map(str::trim).collect();
    assert!(nulls[1] == "false" && nulls[2..=expect.len()].iter().all(|cell| cell.is_empty()), "{shown}");

    connection.run("INSERT INTO \"a shop\".\"all\" (b, a) VALUES (false, 'infinity')").unwrap();
    let source = ServerSource::open(&server.url()).unwrap();
    let error = source.reader().unwrap().read(0, 0).unwrap_err().to_string();
    assert!(error.starts_with("column a: a date that is infinite or that files cannot hold; change"), "{error}");
}

#[test]
fn an_export_has_one_state_while_transactions_run_and_a_missing_right_is_reported() {
    let server = server();
    let mut connection = Connection::open(&server.url()).unwrap();
    connection
        .run(
            "CREATE TABLE debit (id integer PRIMARY KEY, amount bigint, filler char(800)); \
             CREATE TABLE credit (id integer PRIMARY KEY, amount bigint); \
             INSERT INTO debit SELECT n, 0, '' FROM generate_series(1, 20000) n; \
             INSERT INTO credit SELECT n, 0 FROM generate_series(1, 100) n; \
             CREATE ROLE guest LOGIN",
        )
        .unwrap();
    let (is_over, ended, stop) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (is_over, ended, url) = (&is_over, &ended, server.url());
        scope.spawn(move || {
            let mut connection = Connection::open(&url).unwrap();
            let mut turn = 0;
            while !is_over.load(Ordering::SeqCst) {
                turn += 1;
                let (debit, credit) = (turn * 7919 % 20_000 + 1, turn % 100 + 1);
                let sql = format!(
                    "BEGIN; UPDATE debit SET amount = amount - 5 WHERE id = {debit}; \
                     UPDATE credit SET amount = amount + 5 WHERE id = {credit}; COMMIT"
                );
                connection.run(&sql).unwrap();
                ended.fetch_add(1, Ordering::SeqCst);
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let storage = FolderStorage::open(folder.path()).unwrap();
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..3 {
                let before = ended.load(Ordering::SeqCst);
                until("more transactions", || ended.load(Ordering::SeqCst) > before + 50);
                let source = ServerSource::open(&server.url()).unwrap();
                until("more transactions", || ended.load(Ordering::SeqCst) > before + 100);
                let options = ExportOptions { threads: 3, progress: &|_, _| {}, stop: &stop, known: None };
                let report = export(&source, &storage, &options).unwrap();
                assert_eq!(report.manifest.rows(), 20_100);
                assert!(report.manifest.tables[1].files.len() >= 2, "several chunks: {:?}", report.manifest);
                assert_eq!(verify(&storage).unwrap().1, Vec::<String>::new());
                let sum = |name: &str| {
                    let rows = contents(&source, name);
                    let amounts = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(rows.column(1));
                    arrow::compute::sum(amounts).unwrap()
                };
                let moved = sum("credit");
                assert!(moved >= 5 * (before as i64 + 50) && sum("debit") == -moved, "{moved}");
            }
        }));
        is_over.store(true, Ordering::SeqCst);
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let error = ServerSource::open(&server.url().with_user("guest")).unwrap_err().to_string();
    assert!(error.contains("permission denied for table credit"), "{error}");
}
