//! The shop over the reference database.

mod checking;
mod facts;
mod lists;

use std::collections::BTreeSet;

use super::client::{Request, Visit};
use super::schema::*;
use super::*;
use crate::database::Session;
use crate::fixture::{self, Interrupted, check_statements, digest, load_into, run_clients};
use crate::keyed::tests::beyond;
use crate::memory::MemoryDatabase;
use crate::statement::{Rows, Value};
use facts::Facts;

fn loaded(mix: &str, seed: u64) -> (Tpcw, MemoryDatabase) {
    let benchmark = Tpcw::new(1, 1_000, mix, seed);
    let database = fixture::loaded(&benchmark);
    (benchmark, database)
}

#[test]
fn equal_seeds_load_equal_shops() {
    let (benchmark, database) = loaded("shopping", 3);
    let digest = |database: &MemoryDatabase| digest(database, &SCHEMA, SCHEMA.tables.len());
    assert_eq!(digest(&database), digest(&loaded("browsing", 3).1));
    assert_ne!(digest(&database), digest(&loaded("shopping", 4).1));
    let facts = Facts::of(&database);
    facts.assert_consistent(benchmark.size);
    assert_eq!((facts.customers.len(), facts.orders.len(), facts.carts.len()), (2_880, 2_592, 0));
}

#[test]
fn the_estimate_matches_what_is_loaded() {
    let benchmark = Tpcw::new(1, 1_000, "shopping", 3);
    let database = crate::recording::Recording::new(&SCHEMA, |_, _| crate::recording::count(0));
    load_into(&benchmark, &database);
    // The column copy alone; blocks of texts are up to half empty.
    let columns = database.bytes() as f64;
    let estimated = benchmark.estimated_bytes() as f64;
    assert!((1.2..4.0).contains(&(estimated / columns)), "{estimated} bytes estimated, {columns} of columns");
}

/// Runs clients at the same time; all of their interactions commit.
fn run(benchmark: &Tpcw, database: &MemoryDatabase, clients: usize, interactions: usize) {
    assert_eq!(run_clients(benchmark, database, clients, interactions), 0);
}

#[test]
fn every_mix_leaves_a_consistent_shop() {
    for mix in MIXES {
        let (benchmark, database) = loaded(mix, 5);
        run(&benchmark, &database, 4, 2_600);
        let facts = Facts::of(&database);
        facts.assert_consistent(benchmark.size);
        assert_eq!(benchmark.audit.all(), 10_400);
        assert_eq!(facts.orders.len() as u64, 2_592 + benchmark.audit.orders());
        assert_eq!(facts.customers.len() as u64, 2_880 + benchmark.audit.customers());
        assert!(benchmark.audit.orders() > 0 && !facts.carts.is_empty());
        let judged = benchmark.audit.judge(benchmark.mix);
        assert!(judged.iter().all(|line| line.holds != Some(false)), "{mix}: {judged:?}");
        assert!(judged.iter().filter(|line| line.holds == Some(true)).count() >= 14, "{mix}: {judged:?}");
    }
}

#[test]
fn a_later_run_goes_on_with_the_numbers() {
    let (first, database) = loaded("ordering", 5);
    run(&first, &database, 1, 500);
    let orders = Facts::of(&database).orders.len();
    // Another value does not know the first one's rows.
    let second = Tpcw::new(1, 1_000, "ordering", 6);
    run(&second, &database, 2, 500);
    let facts = Facts::of(&database);
    facts.assert_consistent(second.size);
    assert_eq!(facts.orders.len(), orders + second.audit.orders() as usize);
    // After reloading, numbers start again.
    load_into(&second, &database);
    let before = second.audit.orders();
    run(&second, &database, 1, 500);
    let facts = Facts::of(&database);
    let last = *facts.orders.keys().next_back().unwrap();
    assert_eq!(last, 2_592 + (second.audit.orders() - before) as i64, "numbers have no gap");
}

fn drawn(benchmark: &Tpcw, number: usize, seed: u64, count: usize) -> Vec<(Option<Request>, Visit)> {
    let mut client = benchmark.tpcw_client(number, seed);
    (0..count)
        .map(|_| {
            client.draw();
            client.request()
        })
        .collect()
}

#[test]
fn equal_seeds_draw_equal_requests() {
    let make = || Tpcw::new(2, 1_000, "shopping", 1);
    let requests = drawn(&make(), 0, 1, 2_000);
    assert_eq!(requests, drawn(&make(), 0, 1, 2_000));
    assert_ne!(requests[..20], drawn(&make(), 1, 1, 20)[..]);
    assert_ne!(requests[..20], drawn(&make(), 0, 2, 20)[..]);
    let customers: BTreeSet<_> = requests.iter().filter_map(|(_, visit)| visit.customer).collect();
    assert!((8..32).contains(&customers.len()), "2000 interactions are some 16 visits: {customers:?}");
}

#[test]
fn stock_is_refilled_below_ten_and_stays_within_ten_to_thirty() {
    let (_, database) = loaded("ordering", 3);
    let mut session = database.session(&SCHEMA).unwrap();
    let statement = Tpcw::statements().find(|statement| statement.name == "tpcw_take_stock").unwrap();
    let stocks = || {
        let mut stocks = std::collections::BTreeMap::new();
        let visit = &mut |row: &[Value<'_>]| stocks.extend([(row[I_ID].int(), row[I_STOCK].int())]);
        database.scan(&SCHEMA, ITEM, visit).unwrap();
        stocks
    };
    // Of 21 items in sequence each has another stock; each 21 of them sell another quantity.
    let (before, quantity) = (stocks(), |item: i64| (item - 1) / 21 + 1);
    for item in 1..=210 {
        session.execute(statement, &[Value::Int(item), Value::Int(quantity(item))], &mut Rows::new()).unwrap();
    }
    let mut seen = BTreeSet::new();
    for (item, left) in stocks().range(1..=210) {
        let (stock, quantity) = (before[item], quantity(*item));
        let expect = if stock - quantity >= 10 { stock - quantity } else { stock - quantity + 21 };
        assert_eq!(*left, expect, "{stock} less {quantity}");
        assert!(seen.insert((stock, quantity)) && (10..=30).contains(left), "{stock} less {quantity}");
    }
    assert_eq!(seen.len(), 210);
}

#[test]
fn interrupted_requests_run_again_and_leave_no_trace() {
    let (benchmark, database) = loaded("ordering", 9);
    let mut session = database.session(&SCHEMA).unwrap();
    let mut client = benchmark.tpcw_client(0, 7);
    for round in 0..400 {
        client.draw();
        let (request, all) = (client.request(), benchmark.audit.all());
        let mut interrupted =
            Interrupted { session: session.as_mut(), statements: 0, interrupt_at: Some(1 + round % 9) };
        if let Err(error) = client.run(&mut interrupted) {
            assert_eq!(error, DatabaseError::Deadlock);
            assert_eq!((client.request(), benchmark.audit.all()), (request, all), "nothing is remembered or counted");
            client.run(session.as_mut()).unwrap();
        }
        assert_eq!(benchmark.audit.all(), all + 1);
    }
    Facts::of(&database).assert_consistent(benchmark.size);
}

#[test]
fn a_shop_of_another_scale_is_noticed() {
    let (_, database) = loaded("browsing", 1);
    let large = Tpcw::new(1, 100_000, "browsing", 1);
    let mut session = database.session(&SCHEMA).unwrap();
    let mut client = large.client(0, 7);
    client.draw();
    let error = client.run(session.as_mut()).unwrap_err().to_string();
    assert!(error.contains("load tpcw at this scale first"), "{error}");
}

#[test]
fn statements_are_named_and_take_the_parameters_they_mention() {
    check_statements(Tpcw::statements(), 40);
    let by_hand = [
        "tpcw_read_related",
        "tpcw_new_products",
        "tpcw_best_sellers",
        "tpcw_read_item",
        "tpcw_search_author",
        "tpcw_search_title",
        "tpcw_search_subject",
        "tpcw_add_to_cart",
        "tpcw_read_cart",
        "tpcw_read_cart_to_buy",
        "tpcw_read_customer",
        "tpcw_insert_card",
        "tpcw_find_last_order",
        "tpcw_read_order",
        "tpcw_read_order_lines",
        "tpcw_find_bought_together",
    ];
    assert_eq!(beyond(&SCHEMA, Tpcw::statements()), by_hand, "all others are compiled");
}
