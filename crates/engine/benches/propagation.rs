//! The cost of freshness: a commit of ten updates with and without publishing, in turns; merging the changes into a
//! snapshot; folding them; and scans of a table with changes (`scans.rs`), which `cargo bench --bench propagation
//! scans` runs alone.
//!
//! `cargo bench --bench propagation` prints medians of rounds; each figure is of one thread. Rows are like those of TPC-C's stock
//! table: a key, four numbers that change, ten texts that do not. Under `cargo test` it runs for a moment.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use plimsoll_engine::delta::{DeltaOptions, Propagation};
use plimsoll_engine::table::IndexKind;
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::table_set::{TableDeclaration, TableSet};
use plimsoll_engine::transaction::{Connection, Purpose};
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_engine::{Engine, EngineOptions};
use plimsoll_policy::Priority;

mod propagation {
    pub mod scans;
}

/// The amount of work: rows of the table, rounds, and commits in each.
#[derive(Clone, Copy)]
struct Size {
    rows: i64,
    rounds: usize,
    commits: i64,
}

const UPDATES: i64 = 10;
const NUMBERS: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const TEXTS: [&str; 10] = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];

/// A table `stock` with these numbers, the first of which is its key, and these texts.
fn declaration(numbers: &[&str], texts: &[&str], text_bytes: u16) -> TableDeclaration {
    let numbers = numbers.iter().map(|name| (*name, ColumnType::Int64, DataType::Int64));
    let texts = texts.iter().map(|name| (*name, ColumnType::Text(text_bytes), DataType::Utf8View));
    let both = |(name, kind, arrow): (&str, ColumnType, DataType)| {
        (ColumnSpec { name: name.to_owned(), kind, nullable: false }, Field::new(name, arrow, false))
    };
    let (columns, fields): (Vec<_>, Vec<_>) = numbers.chain(texts).map(both).unzip();
    let spec = TableSpec { name: "stock".to_owned(), columns, primary_key: vec![0], secondary: vec![] };
    TableDeclaration { spec, primary: IndexKind::Tree, arrow: Arc::new(Schema::new(fields)), keeps_rows: true }
}

/// That table with these columns in it.
fn loaded(engine: &Arc<Engine>, propagation: Propagation, table: TableDeclaration, columns: Vec<ArrayRef>) -> TableSet {
    let options = DeltaOptions { propagation, bytes_max: 8 << 30, ..DeltaOptions::default() };
    let schema = Arc::clone(&table.arrow);
    let set = TableSet::create(engine, vec![table]).unwrap().with_propagation(options);
    set.load(0, RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    set.finish_load().unwrap();
    set
}

fn stock(engine: &Arc<Engine>, propagation: Propagation, rows: i64) -> TableSet {
    let number = |_| Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef;
    let text = |at: usize| {
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("{at} of {row:0>16}")))) as ArrayRef
    };
    let columns = NUMBERS.iter().map(number).chain((0..TEXTS.len()).map(text)).collect();
    loaded(engine, propagation, declaration(&NUMBERS, &TEXTS, 24), columns)
}

/// Commits updates of ten rows each, all over the table. Nanoseconds of a commit, its updates included.
fn commit(connection: &mut Connection, table: u32, size: Size, round: usize) -> f64 {
    let began = Instant::now();
    for at in 0..size.commits {
        connection.begin(Priority::LOW, 0);
        for update in 0..UPDATES {
            let key = (round as i64 * size.commits + at).wrapping_mul(7_919) + update * 104_729;
            let row = connection.find(table, &[Value::Int(key % size.rows)], Purpose::Write).unwrap().unwrap();
            let value = connection.int(table, row, 1);
            (1..NUMBERS.len()).for_each(|column| connection.set(table, row, column, Value::Int(value + 1)).unwrap());
        }
        connection.commit().unwrap();
    }
    began.elapsed().as_nanos() as f64 / size.commits as f64
}

/// Nanoseconds to merge all unfolded changes for a query, for each changed row.
fn merge(set: &TableSet) -> f64 {
    let snapshot = set.snapshot();
    let before = set.freshness().unwrap();
    for table in snapshot.versions() {
        let overlay = table.overlay().unwrap();
        let all: Vec<usize> = (0..table.columns().schema().fields().len()).collect();
        (0..overlay.chunk_count()).for_each(|chunk| drop(overlay.chunk(chunk, &all).unwrap()));
    }
    1e9 / set.freshness().unwrap().merged_per_s(&before, 1).unwrap()
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    if !std::env::args().any(|argument| argument == "scans") {
        print_costs(is_bench);
    }
    let (rows, rounds) = if is_bench { (2_000_000, 15) } else { (1_000, 2) };
    propagation::scans::print(rows, rounds);
}

fn print_costs(is_bench: bool) {
    let size = if is_bench {
        Size { rows: 500_000, rounds: 41, commits: 2_000 }
    } else {
        Size { rows: 1_000, rounds: 2, commits: 20 }
    };
    let engine = Engine::new(EngineOptions::default());
    let [off, on] = [Propagation::Off, Propagation::Paused].map(|propagation| stock(&engine, propagation, size.rows));
    let table = |set: &TableSet| set.rows(0).unwrap().number;
    let mut connection = engine.connect();
    let (mut ratios, mut without, mut merged, mut folded) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds {
        let alone = commit(&mut connection, table(&off), size, round);
        ratios.push(alone / commit(&mut connection, table(&on), size, round));
        without.push(alone);
        // Of 500 000 rows these are 4 in 100, in each chunk.
        merged.push(merge(&on));
        let before = on.freshness().unwrap();
        on.refresh().unwrap();
        folded.push(on.freshness().unwrap().folded_per_s(&before).unwrap());
    }
    assert_eq!(on.freshness().unwrap().folded, (size.rounds as i64 * size.commits * UPDATES) as u64);
    println!(
        "a commit of {UPDATES} updates {:.0} ns, with publishing {:.3} of its speed; merged {:.0} ns a row; folded {:.0} rows/s",
        median(without),
        median(ratios),
        median(merged),
        median(folded)
    );
}
