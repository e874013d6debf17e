//! TPC-C over the reference database.

mod checking;
mod facts;
mod initial;
mod input;

use std::sync::atomic::AtomicBool;

use super::buffers::Buffers;
use super::client::Request;
use super::customer::CustomerChoice;
use super::delivery::Delivery;
use super::new_order::{Line, NewOrder};
use super::payment::Payment;
use super::schema::*;
use super::*;
use crate::benchmark::Outcome;
use crate::fixture::{self, Interrupted, check_statements, digest, run_clients};
use crate::memory::MemoryDatabase;
use crate::statement::Value;
use facts::Facts;

fn loaded(scale: u32) -> (Tpcc, MemoryDatabase) {
    let tpcc = Tpcc::new(scale, 42);
    let database = fixture::loaded(&tpcc);
    (tpcc, database)
}

fn buffers(tpcc: &Tpcc) -> Buffers {
    Buffers::new(tpcc.last_names.clone())
}

#[test]
fn two_warehouses_stay_consistent_under_four_clients() {
    let (tpcc, database) = loaded(2);
    Facts::of(&database).assert_consistent();
    run_clients(&tpcc, &database, 4, 3_000);
    let facts = Facts::of(&database);
    facts.assert_consistent();
    let remote = facts.new_lines().filter(|((warehouse, ..), line)| line.supply != *warehouse).count();
    assert!(remote > 0, "with two warehouses some lines are remote");
    assert!(facts.history.iter().any(|((warehouse, ..), (paid, _), _)| warehouse != paid), "some payments are remote");

    assert_eq!(tpcc.audit.completed(), 12_000);
    let audit = tpcc.audit.judge(2);
    assert!(audit.iter().all(|line| line.holds != Some(false)), "{audit:?}");
    assert!(audit.iter().any(|line| line.holds == Some(true)), "{audit:?}");
    assert!(audit.iter().any(|line| line.holds.is_none()), "5,217 new orders are too few: {audit:?}");
}

#[test]
fn one_warehouse_special_cases() {
    let (tpcc, database) = loaded(1);
    rolled_back_orders_leave_no_trace(&tpcc, &database);
    the_same_item_twice_is_taken_twice(&tpcc, &database);
    bad_credit_is_written_down(&tpcc, &database);
    interrupted_requests_run_again_alike(&tpcc, &database);
    nothing_is_remote(&tpcc, &database);
    drained_districts_are_skipped(&tpcc, &database);
}

fn order(item: i64, quantity: i64) -> Line {
    Line { item, supply_warehouse: 1, quantity }
}

fn rolled_back_orders_leave_no_trace(tpcc: &Tpcc, database: &MemoryDatabase) {
    let before = digest(database, &SCHEMA, 9);
    let mut session = database.session(tpcc.schema()).unwrap();
    let input = NewOrder::of(1, 3, 17, &[order(5, 1), order(6, 2), order(ITEMS + 1, 3)]);
    // The transaction has written everything but its last line when it finds the missing item.
    let mut counting = Interrupted { session: session.as_mut(), statements: 0, interrupt_at: None };
    assert_eq!(input.run(&mut counting, &mut buffers(tpcc)), Ok(Outcome::RolledBack));
    assert_eq!(counting.statements, 4 + 2 * 3 + 1, "customer, district, two inserts, two lines, the unused item");
    assert_eq!(digest(database, &SCHEMA, 9), before);
    assert_eq!(Facts::of(database).districts[&(1, 3)].1, 3_001);
}

fn the_same_item_twice_is_taken_twice(tpcc: &Tpcc, database: &MemoryDatabase) {
    let mut session = database.session(tpcc.schema()).unwrap();
    let before = Facts::of(database).stock[&(1, 5)];
    let input = NewOrder::of(1, 3, 17, &[order(5, 4), order(6, 2), order(5, 7)]);
    assert_eq!(input.run(session.as_mut(), &mut buffers(tpcc)), Ok(Outcome::Committed));
    let facts = Facts::of(database);
    facts.assert_consistent();
    let after = facts.stock[&(1, 5)];
    assert_eq!((after.ordered, after.orders), (before.ordered + 11, before.orders + 2));
    assert_eq!((before.quantity - 11 - after.quantity).rem_euclid(91), 0, "{before:?} {after:?}");
    assert_eq!(facts.lines[&(1, 3, 3_001)].iter().map(|line| line.item).collect::<Vec<_>>(), [5, 6, 5]);
}

fn customer_data(database: &MemoryDatabase, customer: i64) -> (String, String) {
    let mut found = None;
    let mut visit = |row: &[Value<'_>]| {
        if (row[C_D_ID], row[C_ID]) == (Value::Int(2), Value::Int(customer)) {
            found = Some((row[C_CREDIT].text().to_owned(), row[C_DATA].text().to_owned()));
        }
    };
    database.scan(&SCHEMA, CUSTOMER, &mut visit).unwrap();
    found.expect("the customer exists")
}

fn bad_credit_is_written_down(tpcc: &Tpcc, database: &MemoryDatabase) {
    let mut session = database.session(tpcc.schema()).unwrap();
    let mut buffers = buffers(tpcc);
    let bad = (1..).find(|&customer| customer_data(database, customer).0 == "BC").expect("one in ten is");
    let good = (1..).find(|&customer| customer_data(database, customer).0 == "GC").expect("nine in ten are");
    let payment = |customer| Payment {
        warehouse: 1,
        district: 4,
        customer_warehouse: 1,
        customer_district: 2,
        customer,
        amount: 123_405,
        time: 1,
    };
    let (good_before, bad_before) = (customer_data(database, good).1, customer_data(database, bad).1);
    payment(CustomerChoice::ById(good)).run(session.as_mut(), &mut buffers).unwrap();
    // Customers 1 to 1000 have the last names 0 to 999, but of namesakes the middle one pays.
    payment(CustomerChoice::ByLastName(7)).run(session.as_mut(), &mut buffers).unwrap();
    assert_eq!(buffers.more_rows.text(0, 3), tpcc.last_names[7]);
    for _ in 0..30 {
        payment(CustomerChoice::ById(bad)).run(session.as_mut(), &mut buffers).unwrap();
    }
    assert_eq!(customer_data(database, good).1, good_before);
    let line = format!("{bad} 2 1 4 1 1234.05 | ");
    let expected = line.repeat(30) + &bad_before;
    assert_eq!(customer_data(database, bad).1, expected[..500.min(expected.len())]);
    Facts::of(database).assert_consistent();
}

fn interrupted_requests_run_again_alike(tpcc: &Tpcc, database: &MemoryDatabase) {
    let mut session = database.session(tpcc.schema()).unwrap();
    let mut client = tpcc.tpcc_client(0, 7);
    for round in 0..60 {
        client.draw();
        let request = *client.request().expect("just drawn");
        let before = tpcc.audit.completed();
        let mut statements = 1 + round % 5;
        let mut interrupted = Interrupted { session: session.as_mut(), statements: 0, interrupt_at: Some(statements) };
        match client.run(&mut interrupted) {
            Err(error) => {
                assert_eq!(error, DatabaseError::Deadlock);
                assert_eq!(tpcc.audit.completed(), before, "what failed is not counted");
                assert_eq!(client.request(), Some(&request), "the input stays");
                client.run(session.as_mut()).unwrap();
            }
            Ok(_) => statements = 0,
        }
        assert_eq!(tpcc.audit.completed(), before + 1, "interrupted at {statements}");
    }
    Facts::of(database).assert_consistent();
}

fn nothing_is_remote(tpcc: &Tpcc, database: &MemoryDatabase) {
    let mut session = database.session(tpcc.schema()).unwrap();
    let mut client = tpcc.client(1, 7);
    for _ in 0..2_000 {
        client.draw();
        client.run(session.as_mut()).unwrap();
    }
    let facts = Facts::of(database);
    assert!(facts.new_lines().all(|(_, line)| line.supply == 1));
    assert!(facts.orders.values().all(|order| order.all_local == 1));
    assert!(facts.stock.values().all(|stock| stock.remote == 0));
    let audit = tpcc.audit.judge(1);
    let remote = audit.iter().filter(|line| line.what.contains("remote")).map(|line| line.holds).collect::<Vec<_>>();
    assert_eq!(remote, [Some(true), Some(true)]);
}

fn drained_districts_are_skipped(tpcc: &Tpcc, database: &MemoryDatabase) {
    let mut session = database.session(tpcc.schema()).unwrap();
    let mut buffers = buffers(tpcc);
    let delivery = Delivery { warehouse: 1, carrier: 7, time: 5 };
    let backlog = Facts::of(database).new_orders.len() as u64;
    let (mut delivered, mut skipped) = (0, 0);
    while skipped < 10 {
        skipped = delivery.run(session.as_mut(), &mut buffers).unwrap().1;
        delivered += 10 - skipped;
    }
    assert_eq!(delivered, backlog);
    let facts = Facts::of(database);
    assert!(facts.new_orders.is_empty());
    facts.assert_consistent();

    NewOrder::of(1, 9, 8, &[order(77, 1)]).run(session.as_mut(), &mut buffers).unwrap();
    assert_eq!(delivery.run(session.as_mut(), &mut buffers), Ok((Outcome::Committed, 9)));
    Facts::of(database).assert_consistent();
}

#[test]
fn statements_are_named_and_take_the_parameters_they_mention() {
    check_statements(Tpcc::statements(), 21);
}

#[test]
fn loading_stops_when_told_to() {
    let database = MemoryDatabase::new();
    let stop = AtomicBool::new(true);
    let result = Tpcc::new(1, 1).load(&database, &LoadProgress { report: &|_, _, _| {}, stop: &stop });
    assert!(matches!(result, Err(LoadError::Stopped)), "{result:?}");
}

#[test]
fn progress_ends_at_all_rows() {
    let database = MemoryDatabase::new();
    let stop = AtomicBool::new(false);
    let most = std::sync::Mutex::new((0, 0));
    let report = |done, all, _: &str| {
        let mut most = most.lock().unwrap();
        *most = (*most).max((done, all));
    };
    let tpcc = Tpcc::new(1, 3);
    tpcc.load(&database, &LoadProgress { report: &report, stop: &stop }).unwrap();
    let (done, all) = *most.lock().unwrap();
    assert_eq!(done, all);
    let mut rows = 0;
    for table in 0..SCHEMA.tables.len() {
        database.scan(&SCHEMA, table, &mut |_| rows += 1).unwrap();
    }
    assert_eq!(done, rows);
}

/// The kind that a request is of, as a position.
fn position(request: &Request) -> usize {
    match request {
        Request::NewOrder(_) => 0,
        Request::Payment(_) => 1,
        Request::OrderStatus(_) => 2,
        Request::Delivery(_) => 3,
        Request::StockLevel(_) => 4,
    }
}
