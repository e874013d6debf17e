//! Random queries have the answers of DataFusion without any of our operators, at random degrees and by every policy.
//!
//! `PLIMSOLL_RANDOM_QUERIES` says how many queries, `PLIMSOLL_RANDOM_SEED` from which seed on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/degrees_by_chance.rs"]
mod degrees_by_chance;
#[path = "random_queries/generator.rs"]
mod generator;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use plimsoll_engine::columns::{Chunk, ColumnSnapshot, ColumnTable};
use plimsoll_engine::query::threads::QueryThreads;
use plimsoll_engine::query::{QueryEngine, QueryError, QueryOptions};
use plimsoll_policy::{ParallelismPolicy, parallelism_policy};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use degrees_by_chance::DegreesByChance;
use generator::{Generator, TABLES};

/// Queries where nothing else is said.
const QUERIES: u64 = 300;

/// The longest that the suite waits for them; a loaded machine does fewer.
const TIME_MAX: Duration = Duration::from_secs(60);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("m", DataType::Int32, true),
        Field::new("t", DataType::Utf8View, true),
        Field::new("n", DataType::Int64, false),
    ]))
}

/// Chunks of a few rows, so that small tables have many partitions. Keys repeat and are missing, also in whole chunks.
fn chunk(random: &mut Pcg64) -> Vec<ArrayRef> {
    let rows = random.random_range(1..90);
    let gaps = random.random_range(0..10) as f64 / if random.random_bool(0.1) { 9.0 } else { 30.0 };
    let mut numbers = |end: i64| -> Vec<Option<i64>> {
        (0..rows).map(|_| (!random.random_bool(gaps.min(1.0))).then(|| random.random_range(0..end))).collect()
    };
    let words = ["hull", "mast", "sail", "helm", "", "Ånker", "a name too long for a view to hold it by itself"];
    let (k, m, t, n) = (numbers(150), numbers(12), numbers(7), numbers(60));
    vec![
        Arc::new(Int64Array::from(k)),
        Arc::new(Int32Array::from_iter(m.into_iter().map(|m| m.map(|m| m as i32 - 2)))),
        Arc::new(StringViewArray::from_iter(t.into_iter().map(|t| t.map(|t| words[t as usize])))),
        Arc::new(Int64Array::from_iter_values(n.into_iter().map(Option::unwrap_or_default))),
    ]
}

fn table(name: &str, chunks: usize, random: &mut Pcg64) -> Arc<ColumnTable> {
    let empty = ColumnTable::build(name, schema(), vec![], vec![]).unwrap();
    let encode = |number| (number, Arc::new(Chunk::encode(&schema(), &chunk(random), None, None).unwrap()));
    let chunks: Vec<_> = (0..chunks).map(encode).collect();
    Arc::new(empty.with_chunks(&chunks).unwrap())
}

fn engine(policy: Option<Arc<dyn ParallelismPolicy>>, options: QueryOptions) -> QueryEngine {
    QueryEngine::new(QueryOptions { workers: 2, batch_rows: 64, parallelism: policy, ..options }).unwrap()
}

/// Every policy, degrees by chance, little memory, threads of one's own, and the planner.
fn engines() -> Vec<(String, QueryEngine)> {
    let options = || QueryOptions { dop: 5, ..QueryOptions::default() };
    let named = ["static(1)", "static(2)", "static(7)", "static(16)", "adaptive", "cost"];
    let named = named.map(|name| (name.to_owned(), engine(parallelism_policy(name), options())));
    let small = QueryOptions { memory_grant_mib: Some(2), ..options() };
    let own = QueryOptions { query_threads: QueryThreads::Own, ..options() };
    let others = [
        ("chance".to_owned(), engine(Some(DegreesByChance::policy(1)), options())),
        ("chance in 2 MiB".to_owned(), engine(Some(DegreesByChance::policy(2)), small)),
        ("chance on own threads".to_owned(), engine(Some(DegreesByChance::policy(3)), own)),
        ("planner".to_owned(), engine(None, options())),
    ];
    named.into_iter().chain(others).collect()
}

fn cell(column: &ArrayRef, row: usize) -> String {
    match column.data_type() {
        // Sums of binary fractions depend on the order of their addition.
        DataType::Float64 if column.is_valid(row) => format!("{:.6e}", column.as_primitive::<Float64Type>().value(row)),
        _ if column.is_null(row) => "NULL".to_owned(),
        _ => array_value_to_string(column, row).unwrap(),
    }
}

fn rows(batches: &[RecordBatch], is_ordered: bool) -> Vec<String> {
    let line = |batch: &RecordBatch, row| {
        batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" | ")
    };
    let mut rows: Vec<_> =
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| line(batch, row))).collect();
    if !is_ordered {
        rows.sort();
    }
    rows
}

/// DataFusion by itself, on tables of its own.
struct Stock {
    runtime: tokio::runtime::Runtime,
    context: SessionContext,
}

impl Stock {
    fn new(tables: &[Arc<ColumnTable>]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        for table in tables {
            let memory = MemTable::try_new(schema(), vec![table.to_batches().unwrap()]).unwrap();
            context.register_table(table.name(), Arc::new(memory)).unwrap();
        }
        Stock { runtime, context }
    }

    fn answer(&self, sql: &str) -> Result<Vec<RecordBatch>, String> {
        let answer = async { self.context.sql(sql).await?.collect().await };
        self.runtime.block_on(answer).map_err(|error| error.to_string())
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

#[test]
fn random_queries_have_the_answers_of_stock_datafusion_at_every_parallelism() {
    let (count, first) = (number("PLIMSOLL_RANDOM_QUERIES", QUERIES), number("PLIMSOLL_RANDOM_SEED", 1));
    let is_bounded = std::env::var_os("PLIMSOLL_RANDOM_QUERIES").is_none();
    let mut random = Pcg64::seed_from_u64(7);
    let tables: Vec<_> =
        TABLES.iter().zip([9, 5, 2, 0]).map(|(name, chunks)| table(name, chunks, &mut random)).collect();
    let (stock, engines) = (Stock::new(&tables), engines());
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", tables));
    let (began, mut compared, mut filled, mut refused) = (Instant::now(), 0_u64, 0_u64, 0_u64);
    for seed in first..first + count {
        if is_bounded && began.elapsed() > TIME_MAX {
            break;
        }
        let mut random = Pcg64::seed_from_u64(seed);
        let query = Generator::query(&mut random);
        let expect = stock.answer(&query.sql);
        filled += u64::from(expect.as_ref().is_ok_and(|batches| batches.iter().any(|batch| batch.num_rows() > 0)));
        // Three of the ways to run it, each twice: `adaptive` chooses otherwise the second time.
        for _ in 0..3 {
            let (name, engine) = &engines[random.random_range(0..engines.len())];
            for _ in 0..2 {
                let what = || format!("seed {seed} by {name}:\n{}", query.sql);
                match (&expect, engine.query(&snapshot, &query.sql, None)) {
                    (Ok(expect), Ok(had)) => {
                        let is_ordered = query.is_ordered;
                        assert_eq!(rows(&had.batches, is_ordered), rows(expect, is_ordered), "{}", what());
                        compared += 1;
                    }
                    (_, Err(QueryError::Grant { .. })) if name.ends_with("MiB") => refused += 1,
                    (Err(_), Err(_)) => refused += 1,
                    (Ok(_), Err(error)) => panic!("{error}\n{}", what()),
                    (Err(error), Ok(_)) => panic!("only stock DataFusion refuses it: {error}\n{}", what()),
                }
            }
        }
    }
    println!(
        "{compared} answers compared, {filled} queries with rows, {refused} runs refused, in {:?}",
        began.elapsed()
    );
    assert!(compared > 10 * refused && filled * 6 > compared / 4, "most queries say something");
    let cut = engines.iter().filter_map(|(_, engine)| engine.parallelism());
    let unknown: u64 = cut.flat_map(|figures| figures.unknown.into_values()).sum();
    assert!(unknown < compared / 2, "most plans are cut into pipelines, but {unknown} of {compared} were not");
}
