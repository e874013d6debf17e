//! Data of the three benchmarks, their queries, and checks that find wrong answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StructArray};
use arrow::datatypes::{DataType, Field};

use super::group::Group;
use super::key_join::KeyJoin;
use super::scan::Scan;
use super::*;
use crate::benchmark::Benchmark;
use crate::database::Database;
use crate::fixture::load_into;
use crate::recording::{Answer, Recording, count, ints};

/// The benchmark's data in a database that answers like this.
fn loaded(benchmark: &dyn Benchmark, answer: Answer) -> Recording {
    let database = Recording::new(benchmark.schema(), answer);
    load_into(benchmark, &database);
    database
}

/// Whether each line of the check holds.
fn check(benchmark: &dyn Benchmark, answer: Answer) -> Vec<bool> {
    let lines = benchmark.check(&loaded(benchmark, answer)).unwrap();
    lines.iter().map(|line| line.holds.unwrap()).collect()
}

/// Whether the numbers are uniform over 1 to `high`: all of its tenths are met within 5 standard deviations.
fn assert_uniform(numbers: &[i64], high: i64) {
    let mut tenths = [0.0; 10];
    for &number in numbers {
        assert!((1..=high).contains(&number), "{number}");
        tenths[((number - 1) * 10 / high) as usize] += 1.0;
    }
    let expected = numbers.len() as f64 / 10.0;
    for found in tenths {
        assert!((found - expected).abs() < 5.0 * (expected * 0.9).sqrt(), "{tenths:?}");
    }
}

fn assert_bytes(benchmark: &dyn Benchmark) {
    let bytes = loaded(benchmark, |_, _| count(0)).bytes() as f64;
    let ratio = bytes / benchmark.estimated_bytes() as f64;
    assert!((0.99..1.01).contains(&ratio), "{bytes} bytes, {} estimated", benchmark.estimated_bytes());
}

const SCAN: Scan = Scan { scale: 0.1, values: 1_000, seed: 7 };

fn above(sql: &str, tables: &[RecordBatch]) -> ArrayRef {
    let bound: i64 = sql.strip_prefix("select count(*) from a where x > ").unwrap().parse().unwrap();
    count(ints(&tables[0], 0).into_iter().filter(|&x| x > bound).count())
}

#[test]
fn scanned_numbers_are_uniform_and_follow_from_the_seed() {
    let numbers = |seed| ints(&loaded(&Scan { seed, ..SCAN }, above).table(0), 0);
    assert_eq!(numbers(7).len(), 100_000);
    assert_uniform(&numbers(7), 1_000);
    assert_eq!(numbers(7), numbers(7));
    assert_ne!(numbers(7), numbers(8));
    assert_bytes(&SCAN);
}

#[test]
fn the_check_of_scan_finds_wrong_counts() {
    assert_eq!(check(&SCAN, above), [true; 5]);
    // Counts all rows without regard to the bound, which is right for the first one only.
    assert_eq!(check(&SCAN, |_, tables| count(tables[0].num_rows())), [true, false, false, false, false]);
    assert_eq!(check(&Scan { values: 3, ..SCAN }, above), [true; 5]);
}

#[test]
fn a_scan_draws_its_bound_anew() {
    let database = loaded(&SCAN, above);
    let mut session = database.session(SCAN.schema()).unwrap();
    let mut client = SCAN.client(0, 7);
    for _ in 0..10 {
        assert_eq!(SCAN.transactions()[client.draw()], "scan");
        client.run(session.as_mut()).unwrap();
    }
}

const GROUP: Group = Group { scale: 0.05, values: 100_000, groups: 300, seed: 7 };

/// The greatest value by group.
fn greatest(sql: &str, tables: &[RecordBatch]) -> BTreeMap<i64, i64> {
    assert_eq!(sql, "select max(v), g from b group by g");
    let mut greatest = BTreeMap::new();
    for (value, group) in ints(&tables[0], 0).into_iter().zip(ints(&tables[0], 1)) {
        let known = greatest.entry(group).or_insert(value);
        *known = value.max(*known);
    }
    greatest
}

fn two_columns(rows: impl IntoIterator<Item = (i64, i64)>) -> ArrayRef {
    let (groups, values): (Vec<_>, Vec<_>) =
        rows.into_iter().map(|(group, value)| (group as i32, value as i32)).unzip();
    let column = |name, numbers: Vec<i32>| {
        (Arc::new(Field::new(name, DataType::Int32, false)), Arc::new(Int32Array::from(numbers)) as ArrayRef)
    };
    Arc::new(StructArray::from(vec![column("max", values), column("g", groups)]))
}

#[test]
fn grouped_columns_are_uniform_and_independent() {
    let table = loaded(&GROUP, |_, _| count(0)).table(0);
    let (values, groups) = (ints(&table, 0), ints(&table, 1));
    assert_uniform(&values, 100_000);
    assert_uniform(&groups, 300);
    let of_one_group = values.iter().zip(&groups).filter(|(_, group)| **group <= 30).map(|(value, _)| *value);
    assert_uniform(&of_one_group.collect::<Vec<_>>(), 100_000);
    assert_bytes(&GROUP);
}

#[test]
fn the_check_of_group_finds_wrong_values_and_groups() {
    assert_eq!(check(&GROUP, |sql, tables| two_columns(greatest(sql, tables))), [true, true]);
    let wrong: [Answer; 5] = [
        // A value too small, a group missing, a group twice, a group that cannot be, and no group column.
        |sql, tables| two_columns(greatest(sql, tables).into_iter().map(|(g, v)| (g, if g == 9 { v - 1 } else { v }))),
        |sql, tables| two_columns(greatest(sql, tables).into_iter().skip(1)),
        |sql, tables| two_columns(greatest(sql, tables).into_iter().chain(greatest(sql, tables).into_iter().take(1))),
        |sql, tables| two_columns(greatest(sql, tables).into_iter().chain([(301, 1)])),
        |_, _| count(1),
    ];
    for answer in wrong {
        assert_eq!(check(&GROUP, answer), [true, false]);
    }
}

/// More groups than rows: many are empty, and an answer without them is right.
#[test]
fn groups_without_rows_are_not_missed() {
    let sparse = Group { scale: 0.01, values: 5, groups: 50_000, seed: 1 };
    assert_eq!(check(&sparse, |sql, tables| two_columns(greatest(sql, tables))), [true, true]);
}

const KEY_JOIN: KeyJoin = KeyJoin { scale: 0.05, keys: 40_000, seed: 7 };

fn joined(sql: &str, tables: &[RecordBatch]) -> ArrayRef {
    if sql == "select sum(f) from s" {
        return count(ints(&tables[1], 0).iter().sum::<i64>() as usize);
    }
    assert_eq!(sql, "select count(*) from r, s where r.p = s.f");
    let keys: std::collections::HashSet<i64> = ints(&tables[0], 0).into_iter().collect();
    count(ints(&tables[1], 0).into_iter().filter(|key| keys.contains(key)).count())
}

#[test]
fn references_are_uniform_over_the_keys() {
    let database = loaded(&KEY_JOIN, joined);
    assert_eq!(ints(&database.table(0), 0), (1..=40_000).collect::<Vec<_>>());
    assert_uniform(&ints(&database.table(1), 0), 40_000);
    assert_bytes(&KEY_JOIN);
}

#[test]
fn the_check_of_key_join_finds_wrong_counts() {
    assert_eq!(check(&KEY_JOIN, joined), [true; 3]);
    assert_eq!(check(&KEY_JOIN, |_, tables| count(tables[1].num_rows() - 1)), [true, false, false]);
}
