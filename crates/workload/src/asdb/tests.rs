//! ASDB-like over the reference database, and its check over prepared answers.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;

use super::request::{Request, TransactionKind};
use super::schema::*;
use super::*;
use crate::fixture::{check_statements, load_into, loaded, run_clients};
use crate::keyed::tests::beyond;
use crate::memory::MemoryDatabase;
use crate::recording::{Answer, Recording, count};
use crate::schema::{ColumnKind, TableId};
use crate::statement::{Rows, Value};

/// Some integer columns of every row of a table.
fn ints(database: &MemoryDatabase, table: TableId, columns: &[usize]) -> Vec<Vec<i64>> {
    let mut rows = Vec::new();
    let visit = &mut |row: &[Value<'_>]| rows.push(columns.iter().map(|&column| row[column].int()).collect());
    database.scan(&SCHEMA, table, visit).unwrap();
    rows
}

/// Fails if an account and its entries disagree; returns the sums of balances, updates, versions, and the number of
/// entries inserted and deleted since loading.
fn facts(database: &MemoryDatabase) -> [i64; 5] {
    let prices: BTreeMap<_, _> =
        ints(database, PRODUCT, &[P_ID, P_PRICE]).into_iter().map(|row| (row[0], row[1])).collect();
    let mut entries = BTreeMap::<i64, (Vec<i64>, i64)>::new();
    for row in ints(database, schema::ENTRY, &[E_ACCOUNT, E_NUMBER, E_PRODUCT, E_QUANTITY, E_AMOUNT]) {
        assert_eq!(row[4], row[3] * prices[&row[2]], "{row:?}");
        let account = entries.entry(row[0]).or_default();
        account.0.push(row[1]);
        account.1 += row[4];
    }
    let [mut balances, mut updates, mut inserted, mut deleted] = [0; 4];
    for row in ints(database, ACCOUNT, &[A_ID, A_FIRST, A_NEXT, A_TOTAL, A_BALANCE, A_UPDATES]) {
        let (mut numbers, total) = entries.remove(&row[0]).unwrap_or_default();
        numbers.sort_unstable();
        assert_eq!((numbers, total), ((row[1]..row[2]).collect(), row[3]), "account {}", row[0]);
        balances += row[4];
        updates += row[5];
        inserted += row[2] - 1 - ENTRIES_PER_ACCOUNT;
        deleted += row[1] - 1;
    }
    assert!(entries.is_empty(), "entries without an account: {entries:?}");
    let revisions = ints(database, DOCUMENT, &[D_VERSION]).iter().map(|row| row[0] - 1).sum();
    [balances, updates, revisions, inserted, deleted]
}

#[test]
fn what_clients_do_is_what_the_data_tell() {
    let benchmark = Asdb::new(2, 3);
    let database = loaded(&benchmark);
    assert_eq!(facts(&database), [2_000 * 100_000, 0, 0, 0, 0]);
    assert_eq!(run_clients(&benchmark, &database, 3, 4_000), 0, "none rolls itself back");
    let done = benchmark.audit.done();
    let told = [200_000_000 + done.added, done.updates, done.revisions, done.inserted, done.deleted];
    assert_eq!(facts(&database), told);
    assert!(
        done.updates > 2_000 && done.revisions > 2_000 && done.inserted > 2_000 && done.deleted > 2_000,
        "{done:?}"
    );
    let drift = (done.inserted - done.deleted).abs();
    assert!(drift < done.inserted / 4, "inserts and deletes are in balance: {done:?}");
    for line in done.judge_mix() {
        assert_eq!(line.holds, Some(true), "{line:?}");
    }
}

#[test]
fn nothing_but_the_growing_table_changes_its_size() {
    let benchmark = Asdb::new(1, 1);
    let database = loaded(&benchmark);
    run_clients(&benchmark, &database, 1, 1_000);
    for table in [RATE, SAMPLE, ACCOUNT, PRODUCT, DOCUMENT] {
        assert_eq!(ints(&database, table, &[0]).len() as u64, benchmark.sizes.rows(table));
    }
}

#[test]
fn drained_accounts_lose_nothing() {
    let benchmark = Asdb::new(1, 1);
    let database = loaded(&benchmark);
    let mut session = database.session(&SCHEMA).unwrap();
    let mut rows = Rows::new();
    let mut delete = |count| {
        session.begin().unwrap();
        let deleted = inserts::delete(&[(7, count)], session.as_mut(), &mut rows).unwrap();
        session.commit().unwrap();
        deleted
    };
    assert_eq!([delete(15), delete(15), delete(1)], [15, 5, 0]);
    assert_eq!(facts(&database)[4], 20);
}

#[test]
fn the_heavy_computation_is_what_it_says() {
    let benchmark = Asdb::new(1, 1);
    let database = loaded(&benchmark);
    let mut session = database.session(&SCHEMA).unwrap();
    let mut rows = Rows::new();
    let samples = ints(&database, SAMPLE, &[S_VALUE, S_WEIGHT]);
    for addend in [0, 17] {
        session.execute(&reads::SUM_PAIRS, &[Value::Int(addend)], &mut rows).unwrap();
        let pairs = samples.iter().flat_map(|a| samples.iter().map(move |b| (a[0] * b[1] + addend) % 9_973));
        assert_eq!(rows.int(0, 0), pairs.sum::<i64>());
    }
}

#[test]
fn a_wrong_scale_is_noticed_and_nothing_is_left_behind() {
    let small = Asdb::new(1, 1);
    let database = loaded(&small);
    let before = facts(&database);
    let large = Asdb::new(50, 1);
    let mut session = database.session(&SCHEMA).unwrap();
    let mut client = large.asdb_client(0, 7);
    let mut failures = 0;
    for _ in 0..300 {
        client.draw();
        if matches!(client.drawn(), Some((TransactionKind::InsertHeavy | TransactionKind::Delete, _))) {
            let error = client.run(session.as_mut()).unwrap_err().to_string();
            assert!(error.contains("load the benchmark at this scale first"), "{error}");
            failures += 1;
        }
    }
    assert!(failures > 3);
    assert_eq!(facts(&database), before);
}

#[test]
fn input_stays_within_the_tables_and_lite_ones_among_the_hot() {
    let benchmark = Asdb::new(3, 9);
    let mut client = benchmark.asdb_client(1, 7);
    let sizes = benchmark.sizes;
    let mut hot_branches = 0;
    let mut branches = 0;
    for _ in 0..20_000 {
        let kind = client.draw();
        let (drawn, request) = client.drawn().unwrap();
        assert_eq!(*drawn as usize, kind);
        let accounts = 1..=sizes.accounts();
        match request {
            Request::ReadLite { account } | Request::UpdateLite { account, .. } => {
                assert!((1..=sizes.accounts() / 100).contains(account));
            }
            Request::ReadMedium { branch, place } => {
                assert!((1..=sizes.branches()).contains(branch) && *place < 10);
                branches += 1;
                hot_branches += u32::from(*branch <= sizes.branches() / 100);
            }
            Request::ReadHeavy { topic } => assert!((1..=sizes.topics()).contains(topic)),
            Request::UpdateHeavy { documents } => {
                assert!(documents.is_sorted() && documents.iter().all(|one| (1..=sizes.documents()).contains(one)));
            }
            Request::InsertLite(entries) => {
                assert!(entries.iter().all(|entry| entry.account == entries[0].account));
                assert!(entries[0].account <= sizes.accounts() / 100 && entries[0].product <= sizes.products() / 100);
            }
            Request::InsertHeavy(entries) => {
                assert!(entries.is_sorted_by_key(|entry| entry.account));
                assert!(entries.iter().all(|entry| accounts.contains(&entry.account)));
                assert!(entries.iter().all(|entry| (1..=sizes.products()).contains(&entry.product)));
            }
            Request::Delete(deleted) => {
                assert!(deleted.is_sorted() && deleted.iter().all(|(account, _)| accounts.contains(account)));
                assert_eq!(deleted.iter().map(|(_, count)| count).sum::<i64>(), 15);
            }
            Request::CpuHeavy { addend } => assert!((0..10_000).contains(addend)),
        }
    }
    assert!(hot_branches * 100 > branches * 85, "{hot_branches} of {branches}");
    assert_eq!(MIX.iter().map(|(.., percent)| percent).sum::<u32>(), 100);
    assert!(MIX.iter().enumerate().all(|(at, (kind, ..))| *kind as usize == at));
}

#[test]
fn equal_seeds_and_numbers_draw_equal_sequences_and_others_do_not() {
    let sequence = |seed, number| {
        let mut client = Asdb::new(1, 9).asdb_client(number, seed);
        let mut draw = || {
            client.draw();
            client.drawn().cloned().unwrap()
        };
        (0..100).map(|_| draw()).collect::<Vec<_>>()
    };
    assert_eq!(sequence(5, 2), sequence(5, 2));
    assert_ne!(sequence(5, 2), sequence(5, 3));
    assert_ne!(sequence(5, 2), sequence(6, 2));
}

#[test]
fn statements_are_named_and_take_the_parameters_they_mention() {
    check_statements(Asdb::statements(), 13);
    let by_hand = ["read_account", "sum_pairs"];
    assert_eq!(beyond(&SCHEMA, Asdb::statements()), by_hand, "all others are compiled");
}

#[test]
fn the_estimate_of_text_matches_what_is_made() {
    let benchmark = Asdb::new(2, 1);
    let database = loaded(&benchmark);
    let (mut found, mut expected) = (0.0, 0.0);
    for (table, declared) in SCHEMA.tables.iter().enumerate() {
        let visit = &mut |row: &[Value<'_>]| {
            for (column, value) in declared.columns.iter().zip(row) {
                if let (ColumnKind::Text(bytes_max), Value::Text(text)) = (column.kind, value) {
                    found += text.len() as f64;
                    expected += 0.8 * bytes_max as f64;
                }
            }
        };
        database.scan(&SCHEMA, table, visit).unwrap();
    }
    assert!((found / expected - 1.0).abs() < 0.1, "{found} bytes of text, {expected} expected");
    assert_eq!([1, 5, 10, 500].map(|scale| Asdb::new(scale, 1).client_count_max()), [1, 1, 2, 100].map(Some));
}

/// The answers of a database that was loaded at scale 1 and on which no client has run.
fn untouched(sql: &str, _: &[RecordBatch]) -> ArrayRef {
    match sql {
        "SELECT CAST(sum(a_next - 1) AS bigint) FROM account"
        | "SELECT count(*) FROM entry"
        | "SELECT CAST(sum(a_next - a_first) AS bigint) FROM account" => count(20_000),
        "SELECT CAST(sum(a_balance) * 100 AS bigint) FROM account" => count(100_000_000),
        _ if sql.starts_with("SELECT CAST") => count(0),
        _ => new_empty_array(&DataType::Int64),
    }
}

/// The lines of a check that do not hold or were not judged.
fn findings(answer: Answer, updates: u64) -> Vec<(String, Option<bool>, String)> {
    let benchmark = Asdb::new(1, 1);
    for _ in 0..updates {
        let request = Request::UpdateLite { account: 1, amount: 50 };
        benchmark.audit.of(0).completed(TransactionKind::UpdateLite, &request, 0);
    }
    let database = Recording::new(&SCHEMA, answer);
    load_into(&benchmark, &database);
    let lines = benchmark.check(&database).unwrap();
    let unusual = lines.into_iter().filter(|line| line.holds != Some(true) && !line.what.starts_with("mix"));
    unusual.map(|line| (line.what, line.holds, line.found)).collect()
}

#[test]
fn the_check_finds_planted_faults() {
    assert_eq!(findings(untouched, 0), []);
    let fails = |answer, updates, expect: &[(&str, Option<bool>, &str)]| {
        let expect = expect.iter().map(|(what, holds, found)| ((*what).to_owned(), *holds, (*found).to_owned()));
        assert_eq!(findings(answer, updates), expect.collect::<Vec<_>>());
    };
    fails(
        untouched,
        3,
        &[
            ("the data tell of 3 updates of balances since loading", Some(false), "3 are missing"),
            ("the sum of all balances is 100000150 hundredths", Some(false), "100000000"),
        ],
    );
    fails(
        |sql, tables| match sql {
            "SELECT count(*) FROM entry" => count(19_999),
            _ => untouched(sql, tables),
        },
        0,
        &[(
            "rows of entry = those loaded + inserted - deleted",
            Some(false),
            "19999, while the accounts tell of 20000",
        )],
    );
    fails(
        |sql, tables| if sql.contains("a_total <> ") { count(4) } else { untouched(sql, tables) },
        0,
        &[("A_TOTAL = the sum of the account's entries", Some(false), "violated by answer 4")],
    );
    // Others may have run on the same data before.
    fails(
        |sql, tables| if sql.contains("sum(a_updates)") { count(5) } else { untouched(sql, tables) },
        0,
        &[
            (
                "the data tell of 0 updates of balances since loading",
                None,
                "not judged: others have run too, or 5 were done twice",
            ),
            ("the sum of all balances is 100000000 hundredths", None, "not judged: others have run too"),
        ],
    );
}
