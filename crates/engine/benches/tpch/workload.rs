//! The workloads to measure: tables, and queries on them.

use std::sync::atomic::AtomicBool;

use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use plimsoll_workload::benchmark::LoadProgress;
use plimsoll_workload::database::{Database, DatabaseError, Session};
use plimsoll_workload::registry;
use plimsoll_workload::schema::{Schema, Table, TableId};
use plimsoll_workload::tpch::queries::QUERIES;
use plimsoll_workload::tpch::tables::SCHEMA;

use crate::tpch::data;

const SEED: u64 = 7;

pub struct Workload {
    pub tables: &'static [Table],
    pub queries: Vec<(String, String)>,
    source: Source,
}

/// Where rows come from.
enum Source {
    /// They are held, table by table.
    Held(Vec<Vec<RecordBatch>>),
    /// TPC-H at this scale, made whenever it is asked for.
    Made(f64),
}

impl Workload {
    /// TPC-H with its validation parameters. Rows are made again each time they are requested, unless they are to be
    /// held.
    pub fn tpch(scale: f64, hold: bool) -> Workload {
        let queries = QUERIES.iter().map(|query| (query.name.to_owned(), query.validation_sql(scale))).collect();
        let source = if hold { Source::Held(data::generate(scale)) } else { Source::Made(scale) };
        Workload { tables: SCHEMA.tables, queries, source }
    }

    /// CH-benCHmark as it is loaded, without transactions.
    pub fn ch(warehouses: f64) -> Workload {
        let (benchmark, _) = registry::benchmark(&format!("ch:{warehouses}"), SEED).expect("it is in the registry");
        // The tables of every benchmark of the registry live as long as the program.
        let tables: &'static [Table] = benchmark.schema().tables;
        let collector = Collector(tables.iter().map(|_| Mutex::default()).collect());
        let progress = LoadProgress { report: &|_, _, _| (), stop: &AtomicBool::new(false) };
        benchmark.load(&collector, &progress).expect("rows can be kept");
        let held = collector.0.into_iter().map(Mutex::into_inner).collect();
        Workload { tables, queries: benchmark.queries(), source: Source::Held(held) }
    }

    pub fn rows(&self, table: usize) -> Vec<RecordBatch> {
        match &self.source {
            Source::Held(tables) => tables[table].clone(),
            Source::Made(scale) => data::make(self.tables[table].name, *scale),
        }
    }

    /// All rows, if they are held.
    pub fn held(&self) -> Option<&[Vec<RecordBatch>]> {
        if let Source::Held(tables) = &self.source { Some(tables) } else { None }
    }

    /// Passes the rows of a table on, as many at a time as fit the memory well.
    pub fn in_parts(&self, table: usize, mut take: impl FnMut(&[RecordBatch])) {
        match &self.source {
            Source::Held(tables) => take(&tables[table]),
            Source::Made(scale) => {
                let parts = data::parts(*scale);
                let make = |part| data::make_part(self.tables[table].name, *scale, part, *parts.end());
                parts.clone().map(make).filter(|part| !part.is_empty()).for_each(|part| take(&part));
            }
        }
    }
}

/// A database that keeps the loaded rows and does nothing else.
struct Collector(Vec<Mutex<Vec<RecordBatch>>>);

impl Database for Collector {
    fn create(&self, _: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn drop_tables(&self, _: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn load(&self, _: &Schema, table: TableId, batch: RecordBatch) -> Result<(), DatabaseError> {
        self.0[table].lock().push(batch);
        Ok(())
    }

    fn finish_load(&self, _: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn session(&self, _: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Err(DatabaseError::Unsupported("rows are only collected".to_owned()))
    }

    fn refresh(&self, _: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }

    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }
}
