//! Queries over columns in files have the answers that they have in memory, however little of the files stays there, and
//! the memory is free again when they end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use plimsoll_engine::columns::folder::DEFAULT_FOLDER;
use plimsoll_engine::columns::{ColumnCache, ColumnFiles, ColumnSnapshot, ColumnTable, DiskFolder};
use plimsoll_engine::delta::{DeltaOptions, Propagation};
use plimsoll_engine::query::{QueryEngine, QueryOptions};
use plimsoll_engine::table::IndexKind;
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::table_set::{TableDeclaration, TableSet};
use plimsoll_engine::transaction::Purpose;
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_engine::{Connection, Engine, EngineOptions, TransactionError};
use plimsoll_policy::Priority;
use plimsoll_testing::until;
use plimsoll_workload::tpch::queries::QUERIES;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

#[path = "common/tpch.rs"]
mod tpch;

use tpch::{SCALE, answer};

fn files(cache: &Arc<ColumnCache>) -> ColumnFiles {
    ColumnFiles::new(DiskFolder::open(Path::new(DEFAULT_FOLDER)).unwrap(), Arc::clone(cache))
}

fn engine(dop: usize, memory_grant_mib: Option<usize>) -> QueryEngine {
    QueryEngine::new(QueryOptions { dop, workers: 2, memory_grant_mib, ..QueryOptions::default() }).unwrap()
}

/// TPC-H in memory, and in files of which the cache keeps a part.
fn in_memory_and_files(cache: &Arc<ColumnCache>) -> [Arc<ColumnSnapshot>; 2] {
    let tables: Vec<ColumnTable> = tpch::tables().collect();
    let in_files = tables.clone().into_iter().map(|table| Arc::new(table.into_file(&files(cache)).unwrap()));
    let in_files = Arc::new(ColumnSnapshot::new("in files", in_files));
    [Arc::new(ColumnSnapshot::new("in memory", tables.into_iter().map(Arc::new))), in_files]
}

#[test]
fn every_query_of_tpch_has_the_same_answer_however_little_stays_in_memory() {
    let cache = ColumnCache::new(0);
    let [memory, in_files] = in_memory_and_files(&cache);
    let disk: u64 = in_files.tables().map(|table| table.file().unwrap().bytes()).sum();
    let least = 200 << 10;
    assert!(disk > 20 * least, "the data do not fit: {disk} bytes");
    for (dop, grant) in [(1, None), (3, None), (2, Some(64))] {
        let engine = engine(dop, grant);
        for query in &QUERIES {
            let sql = query.validation_sql(SCALE);
            let expect = answer(&engine, &memory, &sql, false);
            // Less than a single column of a chunk, less than what a query pins, and a part of the data.
            for bound in [1, least, disk / 4] {
                cache.set_bytes_max(bound);
                let shown = format!("{} at degree {dop} with {bound} bytes", query.name);
                assert_eq!(answer(&engine, &in_files, &sql, false), expect, "{shown}");
                // Reads ahead that the query did not need may still end.
                until(&shown, || cache.held_bytes() <= bound);
            }
        }
    }
}

#[test]
fn data_that_fit_are_read_once_and_of_others_the_more_the_less_fits() {
    let cache = ColumnCache::new(0);
    let [_, in_files] = in_memory_and_files(&cache);
    let disk: u64 = in_files.tables().map(|table| table.file().unwrap().bytes()).sum();
    let engine = engine(1, None);
    let mut read = Vec::new();
    for bound in [2 * disk, disk / 3, disk / 10, 0] {
        cache.set_bytes_max(bound);
        let pass = || {
            QUERIES.iter().for_each(|query| {
                answer(&engine, &in_files, &query.validation_sql(SCALE), false);
            })
        };
        pass();
        let before = cache.reads();
        pass();
        let after = cache.reads();
        read.push(after.read_bytes - before.read_bytes);
        let found = after.found_bytes.zip(before.found_bytes).map(|(after, before)| after - before);
        assert_eq!(found.is_some_and(|found| found > 0), bound > 0, "{bound}: {found:?}");
    }
    assert_eq!(read[0], 0);
    assert!(read.is_sorted_by(|more, less| more < less), "{read:?}");
}

#[test]
fn concurrent_clients_share_what_little_there_is() {
    let cache = ColumnCache::new(2 << 20);
    let [memory, in_files] = in_memory_and_files(&cache);
    let engine = engine(2, None);
    let asked: Vec<String> = QUERIES.iter().map(|query| query.validation_sql(SCALE)).collect();
    let expect: Vec<_> = asked.iter().map(|sql| answer(&engine, &memory, sql, false)).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let (engine, in_files, asked, expect) = (&engine, &in_files, &asked, &expect);
            scope.spawn(move || {
                let mut random = Pcg64::seed_from_u64(seed);
                for _ in 0..30 {
                    let query = random.random_range(0..asked.len());
                    let found = answer(engine, in_files, &asked[query], false);
                    assert_eq!(found, expect[query], "{} of client {seed}", QUERIES[query].name);
                }
            });
        }
    });
    until("all is free but what may stay", || cache.held_bytes() <= 2 << 20);
    drop((memory, in_files, engine));
    until("the files take all with them", || cache.held_bytes() == 0);
}

/// Three chunks.
const ACCOUNTS: i64 = 150_000;
const START: i64 = 1_000;

fn declaration() -> TableDeclaration {
    let columns = [
        ("id", ColumnType::Int64, DataType::Int64),
        ("balance", ColumnType::Int64, DataType::Int64),
        ("note", ColumnType::Text(20), DataType::Utf8View),
    ];
    let column = |(name, kind, _): &(&str, ColumnType, DataType)| ColumnSpec {
        name: (*name).to_owned(),
        kind: *kind,
        nullable: false,
    };
    let fields: Vec<Field> = columns.iter().map(|(name, _, kind)| Field::new(*name, kind.clone(), false)).collect();
    let spec = TableSpec {
        name: "account".to_owned(),
        columns: columns.iter().map(column).collect(),
        primary_key: vec![0],
        secondary: vec![],
    };
    TableDeclaration { spec, primary: IndexKind::Tree, arrow: Arc::new(Schema::new(fields)), keeps_rows: true }
}

fn loaded(engine: &Arc<Engine>, propagation: Propagation, cache: &Arc<ColumnCache>) -> TableSet {
    let options = DeltaOptions { propagation, chunk_changes: 20, ..DeltaOptions::default() };
    let set = TableSet::create(engine, vec![declaration()]).unwrap().with_propagation(options);
    let set = set.with_columns_in(files(cache));
    let notes = StringViewArray::from_iter_values((0..ACCOUNTS).map(|id| format!("account {}", id * 7919 % ACCOUNTS)));
    let batch = RecordBatch::try_new(
        Arc::clone(&declaration().arrow),
        vec![
            Arc::new(Int64Array::from_iter_values(0..ACCOUNTS)),
            Arc::new(Int64Array::from_iter_values((0..ACCOUNTS).map(|_| START))),
            Arc::new(notes),
        ],
    );
    set.load(0, batch.unwrap()).unwrap();
    set.finish_load().unwrap();
    set
}

/// Moves money between two accounts; sometimes one of them gets a new row.
fn transfer(connection: &mut Connection, table: u32, random: &mut Pcg64) -> Result<(), TransactionError> {
    let (from, to) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
    let amount = random.random_range(1..100);
    for (id, amount) in [(from, -amount), (to, amount)] {
        let row = connection.find(table, &[Value::Int(id)], Purpose::Write)?.expect("every account exists");
        let balance = connection.int(table, row, 1) + amount;
        if random.random_bool(0.2) {
            connection.delete(table, row)?;
            connection.insert(table, &[Value::Int(id), Value::Int(balance), Value::Text("moved")])?;
        } else {
            connection.set(table, row, 1, Value::Int(balance))?;
        }
    }
    Ok(())
}

/// Queries read states between transfers while chunks are replaced below them.
fn money_is_neither_made_nor_lost(propagation: Propagation, seed: u64) {
    let cache = ColumnCache::new(700 << 10);
    let engine = Engine::new(EngineOptions::default());
    let set = loaded(&engine, propagation, &cache);
    let queries = self::engine(2, None);
    let writing = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        let (engine, set, queries, writing) = (&engine, &set, &queries, &writing);
        for writer in 0..2 {
            scope.spawn(move || {
                let mut random = Pcg64::seed_from_u64(seed * 2 + writer);
                let table = set.rows(0).unwrap().number;
                for number in 0..300 {
                    engine
                        .connect()
                        .transact(Priority::LOW, |connection| transfer(connection, table, &mut random))
                        .unwrap();
                    if number % 60 == 0 {
                        set.refresh().unwrap();
                    }
                }
                writing.fetch_sub(1, Ordering::Relaxed);
            });
        }
        for _ in 0..2 {
            scope.spawn(move || {
                while writing.load(Ordering::Relaxed) > 0 {
                    let reading = set.read().unwrap();
                    let sql = "select count(*), sum(balance), count(distinct note) > 1000 from account";
                    let found = answer(queries, reading.snapshot(), sql, true);
                    assert_eq!(found, [format!("{ACCOUNTS} | {} | true", ACCOUNTS * START)], "seed {seed}");
                }
            });
        }
    });
    drop(set);
    drop(queries);
    until("no version of a chunk is left", || cache.held_bytes() == 0);
}

#[test]
fn queries_read_whole_states_while_chunks_that_they_have_pinned_are_replaced() {
    for seed in 0..2 {
        for propagation in [Propagation::Off, Propagation::Background, Propagation::BeforeQuery] {
            money_is_neither_made_nor_lost(propagation, seed);
        }
    }
}
