//! The 22 TPC-H queries on our engine, on DataFusion's own in-memory tables and on DuckDB, by turns.
//!
//! `cargo bench -p plimsoll-engine --bench tpch -- [--scale S] [--ch] [--repeats N] [--dop N]... [--clients N] [--query N]... [--file]
//! [--column-memory MIB] [--changed SHARE] [--grant MIB] [--no-stock] [--no-duckdb] [--explain] [--analyze] [--export DIR]`
//!
//! Prints one line per query: medians of ours, of stock DataFusion and of DuckDB in milliseconds, our best and our planning, and the ratios of
//! ours with their 95 % intervals (Student's t on the logarithms of each turn's ratio). DuckDB runs in a Python process that stays
//! open; without it its columns stay empty. Under `cargo test` the scale is tiny and only the answers are compared, with our
//! columns in memory, in a file, and with changes laid over them. `--file` keeps them in a file,
//! of which `--column-memory` lets a part stay in memory, `--changed` lays a share of the rows
//! over the chunks, `--grant` limits the memory of our queries. `--ch` takes the queries of CH-benCHmark, and the scale is its warehouses.
//! `--clients` runs streams of queries side by side under each policy of parallelism. `--export` writes the data as Arrow files and the
//! queries for other engines and stops; `--explain` prints our plans, `--analyze` what each operator took.
//!
//! Without stock DataFusion, rows are made twice instead of held, and from scale 4 on DuckDB has its tables in a file, compressed, which it
//! caches: scale 10 then fits 24 GiB.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use plimsoll_engine::columns::folder::DEFAULT_FOLDER;
use plimsoll_engine::columns::{ColumnCache, ColumnFiles, ColumnSnapshot, ColumnTable, DiskFolder};
use plimsoll_engine::query::{QueryEngine, QueryError, QueryOptions, QueryOutput, QueryUsage};

mod tpch {
    pub mod arguments;
    pub mod changes;
    pub mod clients;
    pub mod data;
    pub mod duckdb;
    pub mod turns;
    pub mod workload;
}

use tpch::arguments::Arguments;
use tpch::duckdb::DuckDb;
use tpch::turns::{Turns, sums};
use tpch::workload::Workload;

/// From this scale on DuckDB's tables are in a file.
const DUCKDB_FILE_SCALE: f64 = 4.0;

fn main() {
    let arguments = Arguments::parse(std::env::args().skip(1)).unwrap_or_else(|message| {
        eprintln!("{message}");
        std::process::exit(2)
    });
    if let Some(folder) = &arguments.export {
        let tables = tpch::data::generate(arguments.scale);
        tpch::data::export(&tables, arguments.scale, folder).expect("the folder can be written to");
        return;
    }
    let started = Instant::now();
    let workload = match arguments.is_ch {
        true => Workload::ch(arguments.scale.max(1.0)),
        false => Workload::tpch(arguments.scale, arguments.with_stock || arguments.is_test),
    };
    eprintln!("made data at scale {} in {:.1} s", arguments.scale, started.elapsed().as_secs_f64());
    let forms = match arguments.is_test {
        true => vec![(false, 0.0), (true, 0.0), (false, 0.3)],
        false => vec![(arguments.in_file, arguments.changed)],
    };
    let mut duckdb = None;
    for (number, (in_file, changed)) in forms.into_iter().enumerate() {
        let snapshot = load(&workload, in_file.then_some(arguments.column_memory), changed);
        // Ours first: while columns are made, memory has to hold the rows as well.
        if number == 0 && arguments.with_duckdb {
            duckdb = start_duckdb(&arguments, &workload);
        }
        for &dop in &arguments.dops {
            if let Some(duckdb) = &mut duckdb {
                duckdb.set_threads(dop).unwrap_or_else(|why| panic!("DuckDB: {why}"));
            }
            if arguments.clients == 0 || arguments.is_test {
                let contenders = Contenders::new(&arguments, &workload, &snapshot, dop);
                run(&arguments, &workload, &contenders, duckdb.as_mut());
            } else {
                tpch::clients::run(&arguments, &workload, &snapshot, duckdb.as_mut(), dop);
            }
        }
        if arguments.is_test {
            let few = Arguments { clients: 2, ..arguments.clone() };
            tpch::clients::run(&few, &workload, &snapshot, None, 2);
        }
    }
}

/// DuckDB with the same data, if it is installed.
fn start_duckdb(arguments: &Arguments, workload: &Workload) -> Option<DuckDb> {
    let started = Instant::now();
    match DuckDb::start(workload, !arguments.is_ch && arguments.scale >= DUCKDB_FILE_SCALE) {
        Ok(duckdb) => {
            eprintln!("DuckDB {} loaded the data in {:.1} s", duckdb.version, started.elapsed().as_secs_f64());
            Some(duckdb)
        }
        Err(why) => {
            eprintln!("no DuckDB, its columns stay empty: {why}");
            None
        }
    }
}

fn run(arguments: &Arguments, workload: &Workload, contenders: &Contenders, mut duckdb: Option<&mut DuckDb>) {
    let mut all = Vec::new();
    println!("{} threads\n{}", contenders.dop, Turns::HEAD);
    for (name, sql) in workload.queries.iter().filter(|(name, _)| arguments.wants(name)) {
        if arguments.explain {
            println!("{name}\n{}", contenders.ours.explain(sql));
        }
        if arguments.analyze {
            let analyzed = contenders.ours.query(&format!("explain analyze {sql}"));
            let analyzed = analyzed.expect("it runs without the explanation, too");
            println!("{name}\n{}", cell(analyzed.batches[0].column(1), 0));
        }
        match measure(name, sql, contenders, duckdb.as_deref_mut(), arguments.repeats) {
            Ok((turns, usage)) => {
                println!("{}", turns.line(name));
                if usage.column_bytes_read + usage.spilled_bytes > 0 {
                    print_usage(usage);
                }
                all.push(turns);
            }
            Err(error @ QueryError::Grant { .. }) => println!("{name:<6} {error}"),
            Err(error) => panic!("{error} in\n{sql}"),
        }
    }
    println!("{}", sums(&all).line("sum"));
}

fn print_usage(usage: QueryUsage) {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let (read, spilled) = (mebibytes(usage.column_bytes_read), mebibytes(usage.spilled_bytes));
    println!("       read {read:.1} MiB, spilled {spilled:.1} MiB to {} files", usage.spill_files);
}

/// Runs a query by turns on all engines, compares the answers, and returns the times and the disk accesses of our
/// engine.
fn measure(
    name: &str,
    sql: &str,
    contenders: &Contenders,
    mut duckdb: Option<&mut DuckDb>,
    repeats: usize,
) -> Result<(Turns, QueryUsage), QueryError> {
    let (mut turns, mut usage) = (Turns::default(), QueryUsage::default());
    for repeat in 0..repeats {
        let started = Instant::now();
        contenders.ours.explain(sql);
        turns.planning.push(started.elapsed());
        let started = Instant::now();
        let our_answer = contenders.ours.query(sql)?;
        turns.ours.push(started.elapsed());
        usage = our_answer.usage;
        if let Some(stock) = &contenders.stock {
            let started = Instant::now();
            let stock_answer = stock.query(sql);
            turns.stock.push(started.elapsed());
            if repeat == 0 {
                compare(name, &our_answer.batches, &stock_answer);
            }
        }
        if let Some(duckdb) = duckdb.as_deref_mut() {
            let taken = duckdb.query(name).unwrap_or_else(|why| panic!("DuckDB: {why} in\n{sql}"));
            let rows: usize = our_answer.batches.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows, taken.rows, "{name}: other rows than DuckDB");
            turns.duckdb.push(taken.whole);
            turns.duckdb_planning.push(taken.planning);
        }
    }
    Ok((turns, usage))
}

/// Our column tables, in memory or in files of which this many MiB stay in memory.
fn load(workload: &Workload, in_files: Option<u64>, changed: f64) -> Arc<ColumnSnapshot> {
    let started = Instant::now();
    let files = in_files.map(|mebibytes| {
        let folder = DiskFolder::open(Path::new(DEFAULT_FOLDER)).unwrap_or_else(|error| panic!("{error}"));
        ColumnFiles::new(folder, ColumnCache::new(mebibytes << 20))
    });
    let build = |(place, table): (usize, &plimsoll_workload::schema::Table)| {
        let keys = vec![table.primary_key.to_vec()];
        let keys = keys.into_iter().filter(|key| !key.is_empty()).collect();
        let built = ColumnTable::build(table.name, table.arrow(), keys, workload.rows(place));
        let built = built.expect("the generator makes batches of the declared schema");
        let built = match &files {
            None => built,
            Some(files) => built.into_file(files).expect("there is room on the disk"),
        };
        // SAFETY: it only gives pages back that nothing uses.
        unsafe { libc::malloc_trim(0) };
        tpch::changes::with_changes(Arc::new(built), changed).expect("the columns can be read")
    };
    let snapshot = ColumnSnapshot::at("as loaded", 0, workload.tables.iter().enumerate().map(build));
    let memory = snapshot.memory_bytes() >> 20;
    let disk = snapshot.tables().filter_map(|table| table.file()).map(|file| file.bytes()).sum::<u64>() >> 20;
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("built column tables in {seconds:.1} s, {memory} MiB in memory, {disk} MiB on disk");
    Arc::new(snapshot)
}

/// The engines of this process at one degree of parallelism.
struct Contenders {
    dop: usize,
    ours: Ours,
    stock: Option<Stock>,
}

impl Contenders {
    fn new(arguments: &Arguments, workload: &Workload, snapshot: &Arc<ColumnSnapshot>, dop: usize) -> Self {
        let options = QueryOptions { dop, workers: dop, memory_grant_mib: arguments.grant, ..QueryOptions::default() };
        let engine = QueryEngine::new(options).expect("threads can be started");
        let held = workload.held().filter(|_| arguments.with_stock);
        let stock = held.map(|tables| Stock::new(workload, tables, dop));
        Contenders { dop, ours: Ours { engine, snapshot: Arc::clone(snapshot) }, stock }
    }
}

struct Ours {
    engine: QueryEngine,
    snapshot: Arc<ColumnSnapshot>,
}

impl Ours {
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
    fn new(workload: &Workload, tables: &[Vec<RecordBatch>], dop: usize) -> Self {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(dop));
        for (table, batches) in workload.tables.iter().zip(tables) {
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
fn compare(query: &str, ours: &[RecordBatch], stock: &[RecordBatch]) {
    let (mut ours, mut stock) = (rows(ours), rows(stock));
    assert_eq!(ours.len(), stock.len(), "{query}: {} rows instead of {}", ours.len(), stock.len());
    ours.sort();
    stock.sort();
    for (our_row, stock_row) in ours.iter().zip(&stock) {
        let is_same = our_row.iter().zip(stock_row).all(|(ours, stock)| are_equal(ours, stock));
        assert!(is_same, "{query}: rows differ: {our_row:?}, {stock_row:?}");
    }
}

/// Stock DataFusion cuts averages and quotients off after a few digits, and computes some as binary fractions.
fn are_equal(ours: &str, stock: &str) -> bool {
    let fraction = |text: &str| text.parse::<f64>().ok().filter(|_| ours.contains('.') || stock.contains('.'));
    let is_near = |(a, b): (f64, f64)| (a - b).abs() <= 2e-6 + 1e-6 * a.abs();
    ours == stock || fraction(ours).zip(fraction(stock)).is_some_and(is_near)
}

fn rows(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let cells = |batch: &RecordBatch, row: usize| batch.columns().iter().map(|column| cell(column, row)).collect();
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| cells(batch, row))).collect()
}

fn cell(column: &ArrayRef, row: usize) -> String {
    array_value_to_string(column, row).expect("every type of the answers can be printed")
}
