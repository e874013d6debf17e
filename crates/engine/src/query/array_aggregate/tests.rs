//! Aggregations in arrays give the answers of DataFusion's own operators.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, StringViewArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::prelude::SessionContext;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::columns::{Chunk, ChunkOverlay, ColumnSnapshot, ColumnTable, Patch, SnapshotTable};
use crate::query::printed::sorted_rows;
use crate::query::stock::Stock;
use crate::query::{BATCH_ROWS, QueryEngine, QueryOptions};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("flag", DataType::Utf8View, false),
        Field::new("port", DataType::Int32, false),
        Field::new("voyage", DataType::Int64, true),
        Field::new("tons", DataType::Int32, false),
        Field::new("price", DataType::Decimal128(15, 2), false),
        Field::new("share", DataType::Decimal128(9, 4), false),
        Field::new("large", DataType::Decimal128(38, 0), false),
        Field::new("gaps", DataType::Int64, true),
    ]))
}

/// Random rows. Each chunk has texts and its own range of voyages; a third of the rows are holes with values from far
/// outside.
fn chunk(number: i64, rows: usize, random: &mut Pcg64) -> Chunk {
    let live: Vec<bool> = (0..rows).map(|_| random.random_bool(0.7)).collect();
    let mut numbers = |low: i64, high: i64| -> Vec<i64> {
        let number = |live: &bool| if *live { random.random_range(low..high) } else { i64::MIN / 3 };
        live.iter().map(number).collect()
    };
    let small = |numbers: Vec<i64>| Arc::new(Int32Array::from_iter_values(numbers.into_iter().map(|n| n as i32)));
    let decimal = |numbers: Vec<i64>, factor: i128, precision, scale| {
        let values = Decimal128Array::from_iter_values(numbers.into_iter().map(|n| i128::from(n) * factor));
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let flags = numbers(number, number + 3).into_iter().map(|flag| format!("flag {flag}"));
    let voyage = numbers(number * 50 - 20, number * 50 + 70);
    let gaps = Int64Array::from_iter(numbers(0, 5).into_iter().map(|n| (n > 0).then_some(n)));
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from_iter_values(flags)),
        small(numbers(-3, 9)),
        Arc::new(Int64Array::from(voyage)),
        small(numbers(-100, 100)),
        decimal(numbers(-1_000_000, 10_000_000), 1, 15, 2),
        decimal(numbers(-9_999, 10_000), 1, 9, 4),
        decimal(numbers(-8, 9), 1_000_000_000_000_000, 38, 0),
        Arc::new(gaps),
    ];
    Chunk::encode(&schema(), &arrays, Some(BooleanBuffer::from(live)), None).unwrap()
}

fn table(seed: u64) -> ColumnTable {
    let mut random = Pcg64::seed_from_u64(seed);
    let empty = ColumnTable::build("ship", schema(), vec![], vec![]).unwrap();
    let chunks = random.random_range(1..5);
    let chunk = |number: usize| {
        let rows = random.random_range(500..5_000);
        (number, Arc::new(chunk(number as i64, rows, &mut random)))
    };
    empty.with_chunks(&(0..chunks).map(chunk).collect::<Vec<_>>()).unwrap()
}

/// DataFusion cuts averages off where ours have PostgreSQL's digits.
fn with_digits_of(mut found: Vec<Vec<String>>, expect: &[Vec<String>]) -> Vec<Vec<String>> {
    for (cell, expect) in found.iter_mut().flatten().zip(expect.iter().flatten()) {
        if expect.contains('.') && cell.starts_with(expect.as_str()) {
            cell.truncate(expect.len());
        }
    }
    found
}

fn stock(table: &ColumnTable, sql: &str) -> Vec<Vec<String>> {
    let stock = Stock::new(SessionContext::new());
    stock.register("ship", table.to_batches().unwrap());
    stock.sorted_rows(sql)
}

fn engine(dop: usize, memory_grant_mib: Option<usize>) -> QueryEngine {
    let batch_rows = if dop == 1 { 100 } else { BATCH_ROWS };
    let options = QueryOptions { dop, workers: 2, batch_rows, memory_grant_mib, ..QueryOptions::default() };
    QueryEngine::new(options).unwrap()
}

/// Aggregations that are done in arrays.
const TAKEN: [&str; 10] = [
    "select flag, count(*), sum(price), avg(price), sum(tons) from ship group by flag",
    "select port, flag, sum(price * (1 - share)), sum(price * (1 - share) * (1 + share)), avg(share) from ship group by 1, 2",
    "select voyage, count(1), sum(price - share) from ship where tons > 0 group by voyage",
    "select sum(large), port from ship where price < 1000 group by port",
    "select flag as port, port as flag, sum(price + 7) from ship group by 1, 2 having count(*) > 3",
    "select port from ship where flag <> 'flag 1' group by port",
    "select port, avg(price + 7) from ship group by port",
    "select port, count(distinct tons) from ship group by port",
    "select s.port, total, tons from ship s, (select port as p, sum(tons) as total from ship group by port) t \
     where s.port = p and price < 10000",
    "select voyage, total from (select voyage, sum(price) as total from ship group by voyage) t where voyage > 100",
];

/// Aggregations that are not: nulls, other functions, expressions that could overflow, no groups, too many.
const LEFT: [&str; 9] = [
    "select gaps, count(*) from ship group by gaps",
    "select port, sum(gaps), count(gaps) from ship group by port",
    "select port, min(price) from ship group by port",
    "select port, sum(large * price) from ship group by port",
    "select sum(price) from ship",
    "select tons * 2, count(*) from ship group by 1",
    "select port, sum(price) filter (where tons > 3) from ship group by port",
    "select price, count(*) from ship group by price",
    // A number of ten digits need not be an integer of 32 bits.
    "select port, sum(cast(cast(tons as decimal(10, 0)) as int)) from ship group by port",
];

#[test]
fn answers_are_those_of_hashing() {
    for seed in 0..12 {
        let table = table(seed);
        let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [Arc::new(table.clone())]));
        for (sql, is_taken) in TAKEN.iter().map(|sql| (sql, true)).chain(LEFT.iter().map(|sql| (sql, false))) {
            let expect = stock(&table, sql);
            for (dop, grant) in [(1, None), (2, None), (7, None), (2, Some(16))] {
                let engine = engine(dop, grant);
                let plan = engine.explain(&snapshot, sql, None).unwrap();
                assert_eq!(plan.contains("ArrayAggregateExec"), is_taken, "{sql}:\n{plan}");
                let output = engine.query(&snapshot, sql, None).unwrap();
                assert_eq!(
                    with_digits_of(sorted_rows(&output.batches), &expect),
                    expect,
                    "seed {seed}, degree {dop}, grant {grant:?}: {sql}\n{plan}"
                );
            }
        }
    }
}

#[test]
fn what_does_not_fit_the_grant_is_hashed() {
    let voyages = Arc::new(Int64Array::from_iter_values((0..200_000).map(|row| row / 2)));
    let batch = RecordBatch::try_from_iter([("voyage", voyages as ArrayRef)]).unwrap();
    let table = Arc::new(ColumnTable::build("ship", batch.schema(), vec![], vec![batch]).unwrap());
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table]));
    let sql = "select voyage, count(*) as rows, sum(voyage) as total from ship group by voyage";
    let sql = format!("select count(*), min(rows), max(rows), max(total) from ({sql}) t");
    // Two threads' arrays take 2.4 MB, for which a grant of 2 MiB has no room.
    for grant in [None, Some(16), Some(2)] {
        let engine = engine(2, grant);
        assert!(engine.explain(&snapshot, &sql, None).unwrap().contains("ArrayAggregateExec"));
        let output = engine.query(&snapshot, &sql, None).unwrap();
        assert_eq!(sorted_rows(&output.batches), [["100000", "2", "2", "199998"]], "{grant:?}");
    }
}

/// Groups in the order of the rows, so that a thread adds to few of them; groups in another order; and places without a
/// row.
#[test]
fn many_groups_are_read_off_by_several_partitions() {
    let rows = 400_000;
    let of_row = |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter_values((0..rows).map(of))) as ArrayRef;
    let columns = [
        ("voyage", of_row(|row| row / 4 / 30_000 * 60_000 + row / 4 % 30_000)),
        ("harbour", of_row(|row| row * 7919 % 100_003)),
        ("tons", of_row(|row| row % 1000 - 300)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = Arc::new(ColumnTable::build("ship", batch.schema(), vec![], vec![batch]).unwrap());
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", [table]));
    let ask = |engine: &QueryEngine, sql: &str| engine.query(&snapshot, sql, None).unwrap().batches;
    for (key, places, most) in [("voyage", 190_000, 5), ("harbour", 100_003, 3)] {
        for condition in ["", "where tons > 0 "] {
            let groups =
                format!("select {key}, count(*) as rows, sum(tons) as total from ship {condition}group by {key}");
            // An expression of the key is hashed.
            let hashed = groups.replace(key, &format!("{key} + 0"));
            let expect = sorted_rows(&ask(&engine(1, None), &hashed.replacen("+ 0", &format!("+ 0 as {key}"), 1)));
            for dop in [1, 2, 7] {
                let engine = engine(dop, None);
                let plan = engine.explain(&snapshot, &groups, None).unwrap();
                let expect_plan = format!("places={places}, partitions={}", most.min(dop));
                assert!(plan.contains(&expect_plan), "{key}, degree {dop}:\n{plan}");
                assert!(sorted_rows(&ask(&engine, &groups)) == expect, "{key} {condition}, degree {dop}");
                let some = ask(&engine, &format!("{groups} limit 5"));
                assert_eq!(some.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
            }
        }
    }
}

/// Ships of two flags at four ports, each of ten tons but the first; the last one is of a separate kind.
fn ships(first_tons: i32, last: Option<(&str, i32)>) -> RecordBatch {
    let flags = (0..64).map(|row| ["malta", "panama"][row % 2]).chain(last.map(|(flag, _)| flag));
    let ports = (0..64).map(|row| row / 2 % 4).chain(last.map(|(_, port)| port));
    let tons = (0..64 + last.iter().len()).map(|row| if row == 0 { first_tons } else { 10 });
    let columns: [ArrayRef; 3] = [
        Arc::new(StringViewArray::from_iter_values(flags)),
        Arc::new(Int32Array::from_iter_values(ports)),
        Arc::new(Int32Array::from_iter_values(tons)),
    ];
    let field = |name, kind| Field::new(name, kind, false);
    let fields = [("flag", DataType::Utf8View), ("port", DataType::Int32), ("tons", DataType::Int32)];
    RecordBatch::try_new(Arc::new(Schema::new(fields.map(|(name, kind)| field(name, kind)).to_vec())), columns.into())
        .unwrap()
}

/// Groups ships; the first has new tons and the last was added after the columns were made. Returns whether that was
/// done in arrays.
fn group_changed(first_tons: i32, last: (&str, i32)) -> bool {
    let built = |batch: RecordBatch| Arc::new(ColumnTable::build("ship", batch.schema(), vec![], vec![batch]).unwrap());
    let changed = ships(first_tons, Some(last));
    let patch = Patch { column: 2, positions: vec![0], values: changed.column(2).slice(0, 1) };
    let images = changed.slice(64, 1).into();
    let overlay = ChunkOverlay { masked: vec![].into(), images, patches: vec![patch], entries: 2 };
    let overlay = BTreeMap::from([(0, Arc::new(overlay))]);
    let version = SnapshotTable::new(built(ships(10, None)), Some(Arc::new(overlay)));
    let snapshot = Arc::new(ColumnSnapshot::at("changed", 1, [version]));
    let plain = Arc::new(ColumnSnapshot::new("as loaded", [built(changed)]));
    let sql = "select flag, port, count(*), sum(tons) from ship where tons > 0 group by flag, port";
    let engine = engine(1, None);
    let ask = |snapshot| sorted_rows(&engine.query(snapshot, sql, None).unwrap().batches);
    assert_eq!(ask(&snapshot), ask(&plain), "{first_tons} {last:?}");
    let explained = engine.query(&snapshot, &format!("explain analyze {sql}"), None).unwrap();
    let text = sorted_rows(&explained.batches).concat().join("\n");
    let line = text.lines().find(|line| line.contains("ArrayAggregateExec")).unwrap();
    line.contains("output_rows=")
}

#[test]
fn changes_are_grouped_in_arrays_as_long_as_there_is_room_for_them() {
    assert!(group_changed(11, ("malta", 3)));
    assert!(group_changed(900, ("panama", 12)), "a margin is left beyond minima and maxima");
    assert!(!group_changed(11, ("cyprus", 3)), "no chunk has this text");
    assert!(!group_changed(11, ("malta", 500)));
    assert!(!group_changed(50_000, ("malta", 3)));
}
