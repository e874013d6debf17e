//! The 22 TPC-H queries on our engine and on DataFusion's own in-memory tables, interleaved in one process.
//!
//! `cargo bench -p plimsoll-engine --bench tpch -- [--scale S] [--repeats N] [--dop N] [--query N]... [--file]
//! [--changed SHARE] [--grant MIB] [--explain] [--analyze] [--export DIR]`
//!
//! Prints one line per query: our best time, the stock best time, the ratio, and what ours took from the disk. Under
//! `cargo test` the scale is tiny and only the answers are compared, with our columns in memory, in a file, and with changes
//! laid over them. `--file` keeps them in a file, `--changed` lays a share of the rows over the chunks, `--grant` limits the
//! memory of our queries. `--export` writes the data as Arrow files and the queries for other engines and stops; `--explain`
//! prints our plans, `--analyze` what each operator took.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use plimsoll_engine::columns::folder::DEFAULT_FOLDER;
use plimsoll_engine::columns::{ColumnSnapshot, ColumnTable, DiskFolder};
use plimsoll_engine::query::{QueryEngine, QueryError, QueryOptions, QueryOutput, QueryUsage};
use plimsoll_workload::tpch::queries::{QUERIES, QuerySpec};
use plimsoll_workload::tpch::tables::SCHEMA;

mod tpch {
    pub mod arguments;
    pub mod changes;
    pub mod data;
}

use tpch::arguments::Arguments;

fn main() {
    let arguments = Arguments::parse(std::env::args().skip(1)).unwrap_or_else(|message| {
        eprintln!("{message}");
        std::process::exit(2)
    });
    let started = Instant::now();
    let tables = tpch::data::generate(arguments.scale);
    if let Some(folder) = &arguments.export {
        tpch::data::export(&tables, arguments.scale, folder).expect("the folder can be written to");
        return;
    }
    eprintln!("made data at scale {} in {:.1} s", arguments.scale, started.elapsed().as_secs_f64());
    let stock = Stock::new(&tables, arguments.dop);
    let forms = match arguments.is_test {
        true => vec![(false, 0.0), (true, 0.0), (false, 0.3)],
        false => vec![(arguments.in_file, arguments.changed)],
    };
    for (in_file, changed) in forms {
        let ours = Ours::new(&tables, &arguments, in_file, changed);
        run(&arguments, &ours, &stock);
    }
}

/// Every query that is wanted.
fn run(arguments: &Arguments, ours: &Ours, stock: &Stock) {
    let mut sums = (Duration::ZERO, Duration::ZERO);
    println!("query    ours ms  stock ms  ratio  read MiB  spilled MiB  spill files");
    for query in QUERIES.iter().filter(|query| arguments.wants(query.name)) {
        let sql = query.validation_sql(arguments.scale);
        if arguments.explain {
            println!("{}\n{}", query.name, ours.explain(&sql));
        }
        if arguments.analyze {
            let analyzed = ours.query(&format!("explain analyze {sql}")).expect("it runs without the explanation, too");
            println!("{}\n{}", query.name, cell(analyzed.batches[0].column(1), 0));
        }
        match measure(query, &sql, ours, stock, arguments.repeats) {
            Ok((times, usage)) => {
                sums = (sums.0 + times.0, sums.1 + times.1);
                print_line(query.name, times, usage);
            }
            Err(error @ QueryError::Grant { .. }) => println!("{:<6} {error}", query.name),
            Err(error) => panic!("{error} in\n{sql}"),
        }
    }
    print_line("sum", sums, ours.engine.usage());
}

fn print_line(name: &str, (ours, stock): (Duration, Duration), usage: QueryUsage) {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let ratio = ours.as_secs_f64() / stock.as_secs_f64();
    let (read, spilled) = (mebibytes(usage.column_bytes_read), mebibytes(usage.spilled_bytes));
    println!(
        "{name:<6} {:>9.1} {:>9.1} {ratio:>6.2} {read:>9.1} {spilled:>12.1} {:>12}",
        milliseconds(ours),
        milliseconds(stock),
        usage.spill_files
    );
}

/// Runs a query by turns on both engines, compares the answers, and returns the best times and what ours took from the disk.
fn measure(
    query: &QuerySpec,
    sql: &str,
    ours: &Ours,
    stock: &Stock,
    repeats: usize,
) -> Result<((Duration, Duration), QueryUsage), QueryError> {
    let mut best = (Duration::MAX, Duration::MAX);
    let mut usage = QueryUsage::default();
    for repeat in 0..repeats {
        let started = Instant::now();
        let our_answer = ours.query(sql)?;
        best.0 = best.0.min(started.elapsed());
        usage = our_answer.usage;
        let started = Instant::now();
        let stock_answer = stock.query(sql);
        best.1 = best.1.min(started.elapsed());
        if repeat == 0 {
            compare(query, &our_answer.batches, &stock_answer);
        }
    }
    Ok((best, usage))
}

struct Ours {
    engine: QueryEngine,
    snapshot: Arc<ColumnSnapshot>,
}

impl Ours {
    fn new(tables: &[Vec<RecordBatch>], arguments: &Arguments, in_file: bool, changed: f64) -> Self {
        let started = Instant::now();
        let folder = DiskFolder::open(Path::new(DEFAULT_FOLDER));
        let build = |(table, batches): (&plimsoll_workload::schema::Table, &Vec<RecordBatch>)| {
            let keys = vec![table.primary_key.to_vec()];
            let built = ColumnTable::build(table.name, table.arrow(), keys, batches.clone());
            let built = built.expect("the generator makes batches of the declared schema");
            let built = match (in_file, &folder) {
                (false, _) => built,
                (true, Ok(folder)) => built.into_file(folder).expect("there is room on the disk"),
                (true, Err(error)) => panic!("{error}"),
            };
            tpch::changes::with_changes(Arc::new(built), changed).expect("the columns can be read")
        };
        let snapshot = ColumnSnapshot::at("as loaded", 0, SCHEMA.tables.iter().zip(tables).map(build));
        let memory = snapshot.memory_bytes() >> 20;
        let disk = snapshot.tables().filter_map(|table| table.file()).map(|file| file.bytes()).sum::<u64>() >> 20;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("built column tables in {seconds:.1} s, {memory} MiB in memory, {disk} MiB on disk");
        let (dop, grant) = (arguments.dop, arguments.grant);
        let options = QueryOptions { dop, workers: dop, memory_grant_mib: grant, ..QueryOptions::default() };
        let engine = QueryEngine::new(options).expect("threads can be started");
        Ours { engine, snapshot: Arc::new(snapshot) }
    }

    fn query(&self, sql: &str) -> Result<QueryOutput, QueryError> {
        self.engine.query(&self.snapshot, sql, None)
    }

    fn explain(&self, sql: &str) -> String {
        self.engine.explain(&self.snapshot, sql, None).unwrap_or_else(|error| panic!("{error} in\n{sql}"))
    }
}

/// DataFusion as it comes: default settings, tables in memory, one partition per thread.
struct Stock {
    runtime: tokio::runtime::Runtime,
    context: SessionContext,
}

impl Stock {
    fn new(tables: &[Vec<RecordBatch>], dop: usize) -> Self {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(dop));
        for (table, batches) in SCHEMA.tables.iter().zip(tables) {
            let share = batches.len().div_ceil(dop).max(1);
            let mut partitions: Vec<Vec<RecordBatch>> = batches.chunks(share).map(<[RecordBatch]>::to_vec).collect();
            partitions.resize(dop, Vec::new());
            let memory = MemTable::try_new(table.arrow(), partitions).expect("batches of the declared schema");
            context.register_table(table.name, Arc::new(memory)).expect("table names differ");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(dop).enable_all().build();
        Stock { runtime: runtime.expect("threads can be started"), context }
    }

    fn query(&self, sql: &str) -> Vec<RecordBatch> {
        let (context, text) = (self.context.clone(), sql.to_string());
        let task = self.runtime.spawn(async move { context.sql(&text).await?.collect().await });
        let answer = self.runtime.block_on(task).expect("stock operators do not panic");
        answer.unwrap_or_else(|error| panic!("stock: {error} in\n{sql}"))
    }
}

/// Panics if two answers differ. Rows that the query does not order may come in any order; averages are binary fractions or
/// decimals depending on the engine's types and are compared with a tolerance.
fn compare(query: &QuerySpec, ours: &[RecordBatch], stock: &[RecordBatch]) {
    let (mut ours, mut stock) = (rows(ours), rows(stock));
    assert_eq!(ours.len(), stock.len(), "{}: {} rows instead of {}", query.name, ours.len(), stock.len());
    ours.sort();
    stock.sort();
    for (our_row, stock_row) in ours.iter().zip(&stock) {
        assert_eq!(our_row, stock_row, "{}: rows differ", query.name);
    }
}

fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let cells = |batch: &RecordBatch, row: usize| batch.columns().iter().map(|column| cell(column, row)).collect();
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| cells(batch, row))).collect()
}

fn cell(column: &ArrayRef, row: usize) -> String {
    match column.data_type() {
        DataType::Float64 => format!("{:.6e}", column.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(_, scale) if column.is_valid(row) => {
            format!("{}e-{scale}", column.as_primitive::<Decimal128Type>().value(row))
        }
        _ => array_value_to_string(column, row).expect("every type of the answers can be printed"),
    }
}
