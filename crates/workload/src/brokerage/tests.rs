//! The brokerage over the reference database.

use std::collections::BTreeMap;

use super::request::{Kind, Request};
use super::schema::*;
use super::*;
use crate::fixture::{check_statements, digest, loaded, run_clients};
use crate::keyed::tests::beyond;
use crate::memory::MemoryDatabase;
use crate::schema::{ColumnKind, TableId};
use crate::statement::Value;

/// Some columns of every row of a table, as text.
fn rows(database: &MemoryDatabase, table: TableId, columns: &[usize]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let shown = |value: Value<'_>| match value {
        Value::Text(text) => text.to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Null => "null".to_owned(),
    };
    let visit = &mut |row: &[Value<'_>]| rows.push(columns.iter().map(|&column| shown(row[column])).collect());
    database.scan(&SCHEMA, table, visit).unwrap();
    rows
}

fn number(text: &str) -> i64 {
    text.parse().unwrap()
}

/// The sums of a column by the columns before it.
fn sums(database: &MemoryDatabase, table: TableId, columns: &[usize]) -> BTreeMap<Vec<String>, i64> {
    let mut sums = BTreeMap::new();
    for mut row in rows(database, table, columns) {
        let amount = number(&row.pop().unwrap());
        *sums.entry(row).or_default() += amount;
    }
    sums
}

/// How many trades are in each state. Fails if totals and their parts disagree.
fn states(database: &MemoryDatabase) -> BTreeMap<String, u64> {
    let held = sums(database, HOLDING, &[H_CA_ID, H_S_SYMB, H_QTY]);
    assert_eq!(held, sums(database, HOLDING_SUMMARY, &[HS_CA_ID, HS_S_SYMB, HS_QTY]));
    let brokers: BTreeMap<_, _> = rows(database, CUSTOMER_ACCOUNT, &[CA_ID, CA_B_ID])
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    let cash = sums(database, CASH_TRANSACTION, &[CT_T_ID, CT_AMT]);
    let (mut states, mut totals) = (BTreeMap::new(), BTreeMap::new());
    let mut balances = BTreeMap::<String, i64>::new();
    for row in rows(database, TRADE, &[T_ID, T_ST_ID, T_CA_ID, T_COMM]) {
        if row[1] == "CMPT" {
            let broker: &mut (i64, i64) = totals.entry(brokers[&row[2]].clone()).or_default();
            *broker = (broker.0 + 1, broker.1 + number(&row[3]));
        }
        *balances.entry(row[2].clone()).or_default() += cash.get(&row[..1]).copied().unwrap_or_default();
        *states.entry(row[1].clone()).or_default() += 1;
    }
    for row in rows(database, BROKER, &[B_ID, B_NUM_TRADES, B_COMM_TOTAL]) {
        assert_eq!(totals[&row[0]], (number(&row[1]), number(&row[2])), "broker {}", row[0]);
    }
    for row in rows(database, CUSTOMER_ACCOUNT, &[CA_ID, CA_BAL]) {
        assert_eq!(number(&row[1]), size::BALANCE_OPENED + balances[&row[0]], "account {}", row[0]);
    }
    states
}

#[test]
fn what_clients_do_is_what_the_data_tell() {
    let benchmark = Brokerage::new(1, 3);
    let database = loaded(&benchmark);
    assert_eq!(states(&database), [("CMPT".to_owned(), 50_000)].into());
    let taken_back = run_clients(&benchmark, &database, 3, 5_000) as u64;
    let states = states(&database);
    let done = |kind| benchmark.audit.done(kind);
    assert_eq!(states.values().sum::<u64>(), 50_000 + done(Kind::TradeOrder));
    assert_eq!(states["CMPT"], 50_000 + done(Kind::TradeResult));
    assert_eq!(states["PNDG"], rows(&database, TRADE_REQUEST, &[TR_T_ID]).len() as u64);
    assert!(taken_back > 0 && done(Kind::TradeOrder) > 1_200 && done(Kind::MarketFeed) > 80, "{states:?}");
    // Most orders are executed soon, also those at a limit.
    assert!(done(Kind::TradeResult) * 10 > done(Kind::TradeOrder) * 9, "{states:?}");
    let wrong: Vec<_> = benchmark.audit.judge_mix().into_iter().filter(|line| line.holds == Some(false)).collect();
    assert_eq!(wrong, []);
}

#[test]
fn data_are_maintained_once_a_minute_by_one_client() {
    let benchmark = Brokerage::new(1, 3);
    let maintained = |number| {
        let mut client = benchmark.brokerage_client(number, 7);
        (0..6_000).filter(|_| client.draw() == Kind::DataMaintenance as usize).count()
    };
    assert_eq!([maintained(0), maintained(1)], [10, 0]);
}

#[test]
fn every_table_is_maintained_in_turn() {
    let benchmark = Brokerage::new(1, 3);
    let database = loaded(&benchmark);
    let before = digest(&database, &SCHEMA, SCHEMA.tables.len());
    let mut session = database.session(&SCHEMA).unwrap();
    let mut found = crate::statement::Rows::new();
    for call in 0..10 {
        session.begin().unwrap();
        let input = data_maintenance::DataMaintenance { call, customer: 17, security: 600 };
        let mut transaction =
            transaction::Transaction { session: session.as_mut(), rows: &mut found, now: LOAD_TIME_US + 1 };
        input.run(&mut transaction, benchmark.sizes).unwrap();
        session.commit().unwrap();
    }
    assert_ne!(before, digest(&database, &SCHEMA, SCHEMA.tables.len()));
}

#[test]
fn equal_seeds_load_equal_data_and_draw_equal_requests() {
    let digest_of = |seed| digest(&loaded(&Brokerage::new(1, seed)), &SCHEMA, SCHEMA.tables.len());
    assert_eq!(digest_of(5), digest_of(5));
    assert_ne!(digest_of(5), digest_of(6));
    let benchmark = Brokerage::new(1, 9);
    let sequence = |seed, number| {
        let database = loaded(&benchmark);
        let mut session = database.session(&SCHEMA).unwrap();
        let mut client = benchmark.brokerage_client(number, seed);
        let mut next = || {
            client.draw();
            let request = client.drawn().cloned().unwrap();
            client.run(session.as_mut()).unwrap();
            request
        };
        (0..300).map(|_| next()).collect::<Vec<Request>>()
    };
    assert_eq!(sequence(5, 2), sequence(5, 2));
    assert_ne!(sequence(5, 2), sequence(5, 3));
    assert_ne!(sequence(5, 2), sequence(6, 2));
}

#[test]
fn a_wrong_scale_is_noticed() {
    let database = loaded(&Brokerage::new(1, 1));
    let large = Brokerage::new(50, 1);
    let mut session = database.session(&SCHEMA).unwrap();
    let mut client = large.brokerage_client(0, 7);
    let mut failures = Vec::new();
    for _ in 0..100 {
        client.draw();
        failures.extend(client.run(session.as_mut()).err().map(|error| error.to_string()));
    }
    assert!(failures.len() > 10);
    assert!(failures.iter().all(|error| error.contains("load the benchmark at this scale first")), "{failures:?}");
}

#[test]
fn statements_are_named_and_take_the_parameters_they_mention() {
    check_statements(Brokerage::statements(), 77);
    let by_hand = [
        "watch_listed",
        "watch_held",
        "watch_industry",
        "assets",
        "last_states",
        "last_trades",
        "profile",
        "competition",
        "headlines",
        "articles",
        "volume",
    ];
    assert_eq!(beyond(&SCHEMA, Brokerage::statements()), by_hand, "all others are compiled");
}

#[test]
fn the_estimate_of_rows_and_text_matches_what_is_made() {
    let benchmark = Brokerage::new(1, 1);
    let database = loaded(&benchmark);
    let (mut found, mut expected, mut wrong) = (0.0, 0.0, Vec::new());
    for (table, declared) in SCHEMA.tables.iter().enumerate() {
        let mut count = 0.0;
        let visit = &mut |row: &[Value<'_>]| {
            count += 1.0;
            for (column, value) in declared.columns.iter().zip(row) {
                if let (ColumnKind::Text(bytes_max), Value::Text(text)) = (column.kind, value) {
                    found += text.len() as f64;
                    expected += TEXT_FILLED * bytes_max as f64;
                }
            }
        };
        database.scan(&SCHEMA, table, visit).unwrap();
        let (units, rows_per_unit) = benchmark.sizes.units(table);
        let rows = units as f64 * rows_per_unit;
        if (count - rows).abs() > 0.02 * rows {
            wrong.push(format!("{}: {count} rows, {rows} expected", declared.name));
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!((found / expected - 1.0).abs() < 0.05, "{found} bytes of text, {expected} expected");
}
