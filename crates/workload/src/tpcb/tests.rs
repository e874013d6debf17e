//! Transactions on the reference database, and the check of the resulting data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, Int64Array, StructArray};
use arrow::record_batch::RecordBatch;

use super::client::{DELTA_MAX, Transfer};
use super::schema::*;
use super::*;
use crate::batch::Batch;
use crate::fixture::{self, check_statements, load_into, run_clients};
use crate::footprint::column_bytes_per_row;
use crate::keyed::tests::beyond;
use crate::memory::MemoryDatabase;
use crate::recording::{Recording, number};
use crate::schema::TableId;
use crate::statement::Value;

fn loaded(scale: u32) -> (Tpcb, MemoryDatabase) {
    let benchmark = Tpcb::new(scale);
    let database = fixture::loaded(&benchmark);
    (benchmark, database)
}

/// Every row of a table, its integers only.
fn rows(database: &MemoryDatabase, table: TableId) -> Vec<Vec<i64>> {
    let mut rows = Vec::new();
    let integers = |value: &Value<'_>| if let Value::Int(number) = value { Some(*number) } else { None };
    let visit = &mut |row: &[Value<'_>]| rows.push(row.iter().filter_map(integers).collect());
    database.scan(&SCHEMA, table, visit).unwrap();
    rows
}

#[test]
fn the_bank_opens_with_nothing_in_it() {
    let (_, database) = loaded(2);
    assert_eq!(rows(&database, BRANCH), [[1, 0], [2, 0]]);
    let tellers = rows(&database, TELLER);
    assert_eq!(tellers, (1..=20).map(|teller| vec![teller, 1 + teller / 11, 0]).collect::<Vec<_>>());
    let accounts = rows(&database, ACCOUNT);
    assert_eq!(accounts.len(), 200_000);
    for (account, row) in (1..).zip(&accounts) {
        assert_eq!(*row, [account, if account <= 100_000 { 1 } else { 2 }, 0]);
    }
    assert!(rows(&database, HISTORY).is_empty());
}

#[test]
fn the_books_of_four_clients_balance() {
    let (benchmark, database) = loaded(2);
    assert_eq!(run_clients(&benchmark, &database, 4, 1_000), 0, "none rolls itself back");
    assert_eq!(benchmark.completed.load(Ordering::Relaxed), 4_000);
    let history = rows(&database, HISTORY);
    assert_eq!(history.len(), 4_000);
    for (table, by) in [(TELLER, 0), (BRANCH, 1), (ACCOUNT, 2)] {
        let mut sums = BTreeMap::new();
        for row in &history {
            *sums.entry(row[by]).or_insert(0) += row[3];
        }
        for row in rows(&database, table) {
            assert_eq!(row.last(), Some(sums.get(&row[0]).unwrap_or(&0)), "{} {}", SCHEMA.tables[table].name, row[0]);
        }
    }
}

#[test]
fn a_client_is_told_the_new_balance_and_a_bank_of_another_scale_is_noticed() {
    let (benchmark, database) = loaded(1);
    let mut session = database.session(benchmark.schema()).unwrap();
    let large = Tpcb::new(50);
    let mut client = large.tpcb_client(0, 7);
    client.draw();
    assert!(client.transfer().account > 100_000, "49 of 50 are");
    let error = client.run(session.as_mut()).unwrap_err().to_string();
    assert!(error.contains("load tpcb at this scale first"), "{error}");
    assert!(rows(&database, HISTORY).is_empty(), "nothing is left of it");

    let statement = client::STATEMENTS[0];
    let mut found = crate::statement::Rows::new();
    session.begin().unwrap();
    for (delta, expect) in [(5, 5), (-12, -7)] {
        session.execute(statement, &[Value::Int(17), Value::Int(delta)], &mut found).unwrap();
        assert_eq!((found.len(), found.int(0, 0)), (1, expect));
    }
    session.commit().unwrap();
}

fn drawn(benchmark: &Tpcb, number: usize, seed: u64, count: usize) -> Vec<Transfer> {
    let mut client = benchmark.tpcb_client(number, seed);
    (0..count)
        .map(|_| {
            client.draw();
            client.transfer()
        })
        .collect()
}

#[test]
fn equal_seeds_draw_equal_transfers_by_the_rules() {
    let benchmark = Tpcb::new(4);
    let transfers = drawn(&benchmark, 0, 3, 20_000);
    assert_eq!(transfers, drawn(&Tpcb::new(4), 0, 3, 20_000));
    assert_ne!(transfers[..10], drawn(&benchmark, 1, 3, 10)[..]);
    assert_ne!(transfers[..10], drawn(&benchmark, 0, 4, 10)[..]);
    let account_branch = |transfer: &Transfer| (transfer.account - 1) / ACCOUNTS_PER_BRANCH + 1;
    let (mut tellers, mut others) = ([0u32; 41], BTreeMap::new());
    for transfer in &transfers {
        assert!((1..=400_000).contains(&transfer.account) && transfer.delta.abs() <= DELTA_MAX);
        assert_eq!(transfer.branch, (transfer.teller - 1) / 10 + 1);
        tellers[transfer.teller as usize] += 1;
        if account_branch(transfer) != transfer.branch {
            *others.entry((transfer.branch, account_branch(transfer))).or_insert(0u32) += 1;
        }
    }
    // Standard deviations are 22 of a teller's 500, and 50 of the 3000 that are at one of twelve pairs of branches.
    assert!(tellers[1..].iter().all(|count| (400..600).contains(count)), "{tellers:?}");
    assert!((2_800..3_200).contains(&others.values().sum::<u32>()), "{others:?}");
    assert!(others.len() == 12 && others.values().all(|count| (180..320).contains(count)), "{others:?}");
    assert!(transfers.iter().map(|transfer| transfer.delta).sum::<i64>().abs() < 20_000 * DELTA_MAX / 40);
    assert!(drawn(&Tpcb::new(1), 0, 3, 2_000).iter().all(|transfer| transfer.account <= 100_000));
}

#[test]
fn the_estimate_of_the_column_copy_matches_what_is_loaded() {
    let benchmark = Tpcb::new(1);
    let database = Recording::new(&SCHEMA, |_, _| number(0));
    load_into(&benchmark, &database);
    let estimated = 1e5 * column_bytes_per_row(&SCHEMA.tables[ACCOUNT], |_, bytes_max| bytes_max as f64);
    let ratio = database.bytes() as f64 / estimated;
    assert!((0.95..1.6).contains(&ratio), "{} bytes, {estimated} estimated", database.bytes());
    assert!(benchmark.estimated_bytes() as f64 > 2.0 * estimated, "rows and index come on top");
}

/// The lines of the check for a bank with `history` rows of history, where each query that does not count rows gets the
/// given answer.
fn judged(
    history: usize,
    completed: u64,
    answer: impl Fn(&str, &[RecordBatch]) -> ArrayRef + Send + Sync + 'static,
) -> Vec<CheckLine> {
    let (benchmark, database) = (Tpcb::new(2), Recording::new(&SCHEMA, answer));
    load_into(&benchmark, &database);
    let mut batch = Batch::new(&SCHEMA.tables[HISTORY], history);
    for row in 0..history as i64 {
        batch.int(1).int(1).int(1 + row).int(5).int(0).text("......................");
    }
    database.load(&SCHEMA, HISTORY, batch.finish()).unwrap();
    benchmark.completed.store(completed, Ordering::Relaxed);
    benchmark.check(&database).unwrap()
}

/// One row of integers.
fn integers(columns: &[(&'static str, i64)]) -> ArrayRef {
    let columns = columns.iter().map(|&(name, value)| (name, number(value)));
    Arc::new(StructArray::from(RecordBatch::try_from_iter(columns).unwrap()))
}

/// The answers of a correct bank whose clients drew by the rules.
fn sound(sql: &str, tables: &[RecordBatch]) -> ArrayRef {
    let rows = tables[HISTORY].num_rows();
    if sql.contains("where a_b_id <> h_b_id") {
        number(rows as i64 * 3 / 20)
    } else if sql.contains("min(h_delta)") {
        integers(&[("count", rows as i64), ("min", -999_999), ("max", 999_999), ("outside", 0)])
    } else {
        Arc::new(Int64Array::from(Vec::<i64>::new()))
    }
}

#[test]
fn the_check_finds_what_is_wrong() {
    let holds = |lines: &[CheckLine]| lines.iter().map(|line| line.holds).collect::<Vec<_>>();
    let all = vec![Some(true); 11];
    let with = |changed: &[(usize, Option<bool>)]| {
        let mut expected = all.clone();
        changed.iter().for_each(|&(line, holds)| expected[line] = holds);
        expected
    };
    assert_eq!(holds(&judged(20_000, 20_000, sound)), all);
    let (history, delta, remote) = (3, 9, 10);
    // Lost transactions, and those of others.
    assert_eq!(holds(&judged(20_000, 20_001, sound)), with(&[(history, Some(false))]));
    assert_eq!(holds(&judged(20_000, 19_999, sound)), with(&[(history, None)]));
    assert_eq!(holds(&judged(0, 0, sound)), with(&[(remote, None)]), "nothing was drawn");
    // Books that do not balance.
    for line in 4..9 {
        let lines = judged(20_000, 20_000, |sql, tables| match sql.starts_with("SELECT") {
            true => integers(&[("b_id", 2), ("b_balance", 5), ("tellers", 4)]),
            false => sound(sql, tables),
        });
        assert_eq!(lines[line].holds, Some(false));
        assert_eq!(lines[line].found, "violated by b_id 2, b_balance 5, tellers 4");
    }
    // Input that was not drawn by the rules.
    let uniform = |sql: &str, tables: &[RecordBatch]| match sql.contains("where a_b_id <> h_b_id") {
        true => number(10_000),
        false => sound(sql, tables),
    };
    assert_eq!(holds(&judged(20_000, 20_000, uniform)), with(&[(remote, Some(false))]));
    let large = |sql: &str, tables: &[RecordBatch]| match sql.contains("min(h_delta)") {
        true => integers(&[("count", 20_000), ("min", -1_000_000), ("max", 999_999), ("outside", 1)]),
        false => sound(sql, tables),
    };
    assert_eq!(holds(&judged(20_000, 20_000, large)), with(&[(delta, Some(false))]));
}

#[test]
fn statements_are_named_and_take_the_parameters_they_mention() {
    check_statements(Tpcb::statements(), 4);
    assert_eq!(beyond(&SCHEMA, Tpcb::statements()), [""; 0], "all are compiled");
}
