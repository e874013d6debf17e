//! The cost of locks, undo and accounting: TPC-C on the engine compared with the same statements on the same rows and
//! indexes without any of them ("bare"), with one client and with two.
//!
//! `cargo bench --bench tpcc_bare` measures in interleaved rounds and prints the median ratio of rounds with its range: of
//! throughput, and of transactions per second of CPU time, which other programs disturb less. Under `cargo test` it runs
//! for a moment and checks that both sides really run transactions.
//!
//! Bare is not a database: it gives up isolation and atomicity. It is the engine's upper limit with this row format and
//! these indexes.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use plimsoll_engine::table::RowTable;
use plimsoll_engine::table::heap::RowId;
use plimsoll_engine::value::Value as EngineValue;
use plimsoll_machine::cpu_time::process_cpu_time;
use plimsoll_policy::Priority;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::{Database, DatabaseError, QueryAnswer, Session, SessionUsage};
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::schema::{ColumnId, Index, Schema, TableId};
use plimsoll_workload::statement::{End, Intent, RowAccess, RowRef, Rows, Statement, Value};
use plimsoll_workload::tpcc::Tpcc;
use smallvec::SmallVec;

/// The engine's tables, used without the engine.
struct Bare {
    tables: Vec<Arc<RowTable>>,
}

impl Bare {
    fn of(embedded: &Embedded, schema: &Schema) -> Self {
        let set = embedded.tables(schema).unwrap();
        Bare { tables: (0..schema.tables.len()).map(|table| Arc::clone(set.rows(table).unwrap())).collect() }
    }
}

fn not_here<T>() -> Result<T, DatabaseError> {
    Err(DatabaseError::Unsupported("bare tables only run transactions".to_owned()))
}

impl Database for Bare {
    fn create(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        not_here()
    }
    fn load(&self, _schema: &Schema, _table: TableId, _batch: RecordBatch) -> Result<(), DatabaseError> {
        not_here()
    }
    fn finish_load(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        not_here()
    }
    fn drop_tables(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        not_here()
    }
    fn session(&self, _schema: &Schema) -> Result<Box<dyn Session>, DatabaseError> {
        Ok(Box::new(BareSession { tables: self.tables.clone(), range: Vec::new() }))
    }
    fn refresh(&self, _schema: &Schema) -> Result<(), DatabaseError> {
        Ok(())
    }
    fn query_threads(&self) -> Vec<i32> {
        Vec::new()
    }
}

struct BareSession {
    tables: Vec<Arc<RowTable>>,
    range: Vec<RowId>,
}

impl Session for BareSession {
    fn set_priority(&mut self, _priority: Priority) {}
    fn begin(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }
    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        rows.clear();
        (statement.native)(self, parameters, rows)
    }
    fn commit(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }
    fn rollback(&mut self) -> Result<(), DatabaseError> {
        Ok(())
    }
    fn query(&mut self, _sql: &str) -> Result<QueryAnswer, DatabaseError> {
        not_here()
    }
    fn usage(&self) -> SessionUsage {
        SessionUsage::default()
    }
}

fn engine_value(value: Value<'_>) -> EngineValue<'_> {
    match value {
        Value::Null => EngineValue::Null,
        Value::Int(number) => EngineValue::Int(number),
        Value::Text(text) => EngineValue::Text(text),
    }
}

fn engine_values<'a>(values: &[Value<'a>]) -> SmallVec<[EngineValue<'a>; 24]> {
    values.iter().map(|value| engine_value(*value)).collect()
}

impl RowAccess for BareSession {
    fn find(&mut self, index: Index, key: &[Value<'_>], _: Intent) -> Result<Option<RowRef>, DatabaseError> {
        let tree = &self.tables[index.table].indexes[index.number];
        Ok(tree.get(&tree.keys.low(&engine_values(key))).map(|row| RowRef { table: index.table, row }))
    }
    fn find_end(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        end: End,
        _: Intent,
    ) -> Result<Option<RowRef>, DatabaseError> {
        let tree = &self.tables[index.table].indexes[index.number];
        let (low, high) = (tree.keys.low(&engine_values(low)), tree.keys.high(&engine_values(high)));
        let row = if end == End::First { tree.first(&low, &high) } else { tree.last(&low, &high) };
        Ok(row.map(|row| RowRef { table: index.table, row }))
    }
    fn find_all(
        &mut self,
        index: Index,
        low: &[Value<'_>],
        high: &[Value<'_>],
        _: Intent,
        found: &mut Vec<RowRef>,
    ) -> Result<(), DatabaseError> {
        let tree = &self.tables[index.table].indexes[index.number];
        let (low, high) = (tree.keys.low(&engine_values(low)), tree.keys.high(&engine_values(high)));
        self.range.clear();
        tree.collect(&low, &high, &mut self.range);
        found.extend(self.range.iter().map(|&row| RowRef { table: index.table, row }));
        Ok(())
    }
    fn int(&self, row: RowRef, column: ColumnId) -> i64 {
        self.tables[row.table].heap.int(row.row, column)
    }
    fn is_null(&self, row: RowRef, column: ColumnId) -> bool {
        self.tables[row.table].heap.is_null(row.row, column)
    }
    fn text(&self, row: RowRef, column: ColumnId, into: &mut String) {
        self.tables[row.table].heap.text(row.row, column, into);
    }
    fn set(&mut self, row: RowRef, column: ColumnId, value: Value<'_>) -> Result<(), DatabaseError> {
        self.tables[row.table].heap.set(row.row, column, engine_value(value));
        Ok(())
    }
    fn insert(&mut self, table: TableId, row: &[Value<'_>]) -> Result<(), DatabaseError> {
        self.tables[table].load(&engine_values(row)).unwrap();
        Ok(())
    }
    fn delete(&mut self, row: RowRef) -> Result<(), DatabaseError> {
        let table = &self.tables[row.table];
        for index in &table.indexes {
            let key = table.key_of(index, row.row);
            index.remove_latched(&index.place(&key), &key, row.row);
        }
        table.heap.free(row.row);
        Ok(())
    }
}

/// A loaded database; each side has its own, so that neither works on data that the other has changed.
fn loaded(tpcc: &Tpcc) -> Embedded {
    let embedded = Embedded::new(EmbeddedOptions::default()).unwrap();
    let stop = AtomicBool::new(false);
    tpcc.load(&embedded, &LoadProgress { report: &|_, _, _| (), stop: &stop }).unwrap();
    embedded
}

/// Transactions per second, and per second of CPU time of the whole process.
#[derive(Clone, Copy)]
struct Rate {
    per_s: f64,
    per_cpu_s: f64,
}

fn rate(database: &dyn Database, tpcc: &Tpcc, clients: usize, window: Window, seed: u64) -> Rate {
    let options = ClientOptions { clients, seed, ..ClientOptions::default() };
    let drives = [Drive { name: "tpcc", benchmark: tpcc, database, options: &options }];
    let (before, began) = (process_cpu_time(), Instant::now());
    let measured = drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap();
    let cpus = (process_cpu_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let per_s = measured.workloads[0].measured.all.throughput_per_s;
    assert!(per_s > 0.0, "one side ran nothing");
    Rate { per_s, per_cpu_s: per_s / cpus }
}

/// Median, least and largest.
fn middle(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, seconds) = if is_bench { (7, 2.0) } else { (1, 0.2) };
    let window = Window {
        warmup: WarmUp::For(Duration::from_secs_f64(seconds / 4.0)),
        measure: Duration::from_secs_f64(seconds),
    };
    // Clients count their work in their benchmark value; separate values keep the counts of the two sides apart.
    let [engine_tpcc, bare_tpcc] = [2, 2].map(|warehouses| Tpcc::new(warehouses, 7));
    let engine = loaded(&engine_tpcc);
    let bare_tables = loaded(&bare_tpcc);
    let bare = Bare::of(&bare_tables, bare_tpcc.schema());
    println!("clients  engine tx/s  bare tx/s  engine / bare  the same per CPU second");
    for clients in [1, 2] {
        let (mut ratios, mut cpu_ratios) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            let bare = rate(&bare, &bare_tpcc, clients, window, round);
            let engine = rate(&engine, &engine_tpcc, clients, window, round);
            let (ratio, cpu_ratio) = (engine.per_s / bare.per_s, engine.per_cpu_s / bare.per_cpu_s);
            println!("{clients:>7}  {:>11.0}  {:>9.0}  {ratio:>13.2}  {cpu_ratio:.2}", engine.per_s, bare.per_s);
            ratios.push(ratio);
            cpu_ratios.push(cpu_ratio);
        }
        println!("{clients} clients, median and range: {}; per CPU second {}", middle(ratios), middle(cpu_ratios));
    }
}
