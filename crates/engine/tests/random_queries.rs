//! Random queries have the answers of SQLite, which has nothing in common with DataFusion or our operators, at random degrees and by every
//! policy.
//!
//! `PLIMSOLL_RANDOM_QUERIES` says how many queries, `PLIMSOLL_RANDOM_SEED` from which seed on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/degrees_by_chance.rs"]
mod degrees_by_chance;
#[path = "random_queries/generator.rs"]
mod generator;

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Int64Type, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;
use plimsoll_engine::columns::{Chunk, ColumnSnapshot, ColumnTable};
use plimsoll_engine::query::threads::QueryThreads;
use plimsoll_engine::query::{QueryEngine, QueryError, QueryOptions};
use plimsoll_policy::{ParallelismPolicy, parallelism_policy};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use degrees_by_chance::DegreesByChance;
use generator::{Generator, Query, TABLES};

/// Queries where nothing else is said.
const QUERIES: u64 = 300;

/// Queries that had wrong answers once. In the first two a condition on one of two columns `k` was taken for one on the other; in the
/// third one of two inputs' keys was taken for a key of their join.
const FOUND: [u64; 3] = [90_108, 200_496, 90_704];

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
/// `unique` has the next values of `n`, if they do not repeat.
fn chunk(random: &mut Pcg64, unique: &mut Option<Range<i64>>) -> Vec<ArrayRef> {
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
        Arc::new(Int64Array::from_iter_values(
            n.into_iter().map(|n| unique.as_mut().and_then(Iterator::next).unwrap_or(n.unwrap_or_default())),
        )),
    ]
}

/// A table whose `n` is its key or says nothing.
fn table(name: &str, chunks: usize, has_key: bool, random: &mut Pcg64) -> Arc<ColumnTable> {
    let (keys, mut unique) = if has_key { (vec![vec![3]], Some(0..i64::MAX)) } else { (vec![], None) };
    let empty = ColumnTable::build(name, schema(), keys, vec![]).unwrap();
    let mut encode = |number| {
        let columns = chunk(random, &mut unique);
        (number, Arc::new(Chunk::encode(&schema(), &columns, None, None).unwrap()))
    };
    let chunks: Vec<_> = (0..chunks).map(&mut encode).collect();
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
        // Averages have PostgreSQL's digits, SQLite's are of binary fractions.
        DataType::Decimal256(..) => {
            let exact: f64 = array_value_to_string(column, row).unwrap().parse().unwrap();
            format!("{exact:.6e}")
        }
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

/// SQLite with the same tables.
struct Sqlite(Connection);

impl Sqlite {
    fn new(tables: &[Arc<ColumnTable>]) -> Self {
        let sqlite = Connection::open_in_memory().unwrap();
        for table in tables {
            let name = table.name();
            sqlite
                .execute_batch(&format!("begin; create table {name} (k integer, m integer, t text, n integer)"))
                .unwrap();
            let mut insert = sqlite.prepare(&format!("insert into {name} values (?, ?, ?, ?)")).unwrap();
            for batch in table.to_batches().unwrap() {
                for row in 0..batch.num_rows() {
                    insert.execute(params_from_iter(batch.columns().iter().map(|column| value(column, row)))).unwrap();
                }
            }
            drop(insert);
            sqlite.execute_batch("commit").unwrap();
        }
        Sqlite(sqlite)
    }

    /// The rows as [`rows`] prints them.
    fn answer(&self, query: &Query) -> Vec<String> {
        let mut statement = self.0.prepare(&query.sql).unwrap_or_else(|error| panic!("{error}\n{}", query.sql));
        let columns = statement.column_count();
        let cell = |value| match value {
            Value::Null => "NULL".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => format!("{number:.6e}"),
            Value::Text(text) => text,
            Value::Blob(_) => panic!("no column has bytes"),
        };
        let line = |row: &rusqlite::Row| -> rusqlite::Result<String> {
            Ok((0..columns).map(|column| row.get(column).map(cell)).collect::<Result<Vec<_>, _>>()?.join(" | "))
        };
        let mut rows: Vec<_> = statement.query_map([], line).unwrap().map(Result::unwrap).collect();
        if !query.is_ordered {
            rows.sort();
        }
        rows
    }
}

fn value(column: &ArrayRef, row: usize) -> Value {
    match column.data_type() {
        _ if column.is_null(row) => Value::Null,
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        _ => column.as_string_view().value(row).to_owned().into(),
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

#[test]
fn random_queries_have_the_answers_of_sqlite_at_every_parallelism() {
    let (count, first) = (number("PLIMSOLL_RANDOM_QUERIES", QUERIES), number("PLIMSOLL_RANDOM_SEED", 1));
    let is_bounded = std::env::var_os("PLIMSOLL_RANDOM_QUERIES").is_none();
    let engines = engines();
    let databases = [[false; 4], [true, false, true, true]].map(|has_key| {
        let mut random = Pcg64::seed_from_u64(7);
        let sizes = TABLES.iter().zip([9, 5, 2, 0]).zip(has_key);
        let tables: Vec<_> = sizes.map(|((name, chunks), has_key)| table(name, chunks, has_key, &mut random)).collect();
        (Sqlite::new(&tables), Arc::new(ColumnSnapshot::new("as loaded", tables)))
    });
    let (began, mut compared, mut filled, mut refused) = (Instant::now(), 0_u64, 0_u64, 0_u64);
    for seed in FOUND.into_iter().chain(first..first + count) {
        if is_bounded && began.elapsed() > TIME_MAX {
            break;
        }
        let mut random = Pcg64::seed_from_u64(seed);
        let query = Generator::query(&mut random);
        // Two ways to run it on each database, or all; each twice: `adaptive` chooses otherwise the second time.
        for (sqlite, snapshot) in &databases {
            let expect = sqlite.answer(&query);
            filled += u64::from(!expect.is_empty());
            let ways = if FOUND.contains(&seed) { engines.len() } else { 2 };
            for (name, engine) in engines.sample(&mut random, ways).flat_map(|way| [way, way]) {
                match engine.query(snapshot, &query.sql, None) {
                    Ok(had) => {
                        let had = rows(&had.batches, query.is_ordered);
                        assert_eq!(had, expect, "seed {seed} by {name}:\n{}", query.sql);
                        compared += 1;
                    }
                    Err(QueryError::Grant { .. }) if name.ends_with("MiB") => refused += 1,
                    Err(error) => panic!("seed {seed} by {name}: {error}\n{}", query.sql),
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
