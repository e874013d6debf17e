//! The input that clients draw.

use super::super::audit::Audit;
use super::*;
use crate::benchmark::Client;

/// Draws for `clients` clients in turn, counting as if every transaction completed.
fn drawn(tpcc: &Tpcc, seed: u64, clients: usize, draws: usize, visit: &mut dyn FnMut(usize, &Request)) -> Audit {
    let audit = Audit::default();
    let mut clients = (0..clients).map(|number| tpcc.tpcc_client(number, seed)).collect::<Vec<_>>();
    let client_count = clients.len();
    for draw in 0..draws {
        let number = draw % client_count;
        let kind = clients[number].draw();
        let request = clients[number].request().expect("just drawn");
        assert_eq!(kind, position(request));
        let tally = audit.of(number);
        match request {
            Request::NewOrder(input) => {
                let is_unused = input.lines().iter().any(|line| line.item > ITEMS);
                tally.new_order(input, if is_unused { Outcome::RolledBack } else { Outcome::Committed });
            }
            Request::Payment(input) => tally.payment(input),
            Request::OrderStatus(input) => tally.order_status(input),
            Request::Delivery(_) => tally.delivery(0),
            Request::StockLevel(_) => tally.stock_level(),
        }
        visit(number, request);
    }
    audit
}

#[test]
fn every_audit_holds_over_many_draws_of_many_seeds() {
    for seed in [1, 42, 4_711] {
        let tpcc = Tpcc::new(5, seed);
        let audit = drawn(&tpcc, seed + 1, 40, 400_000, &mut |_, _| {}).judge(5);
        for line in &audit {
            assert_eq!(line.holds, Some(true), "seed {seed}: {line:?}");
        }
        assert_eq!(audit.len(), 4 + 2 + 11 + 2 + 1 + 1);
    }
}

#[test]
fn input_stays_within_what_is_prescribed() {
    let tpcc = Tpcc::new(3, 9);
    let mut names = std::collections::BTreeSet::new();
    drawn(&tpcc, 7, 60, 100_000, &mut |number, request| {
        let home = number as i64 % 3 + 1;
        match request {
            Request::NewOrder(input) => {
                assert_eq!(input.warehouse, home);
                assert!((1..=10).contains(&input.district) && (1..=3_000).contains(&input.customer));
                assert!((5..=15).contains(&input.lines().len()));
                let (last, others) = input.lines().split_last().expect("there are lines");
                assert!(others.iter().all(|line| (1..=ITEMS).contains(&line.item)), "only the last may be unused");
                assert!((1..=ITEMS + 1).contains(&last.item));
                for line in input.lines() {
                    assert!((1..=3).contains(&line.supply_warehouse) && (1..=10).contains(&line.quantity));
                }
            }
            Request::Payment(input) => {
                assert_eq!(input.warehouse, home);
                assert!((100..=500_000).contains(&input.amount));
                assert!((1..=3).contains(&input.customer_warehouse) && (1..=10).contains(&input.customer_district));
                assert!(input.is_remote() || input.customer_district == input.district);
                if let CustomerChoice::ByLastName(name) = input.customer {
                    names.insert(name);
                }
            }
            Request::OrderStatus(input) => assert_eq!(input.warehouse, home),
            Request::Delivery(input) => {
                assert!(input.warehouse == home && (1..=10).contains(&input.carrier));
            }
            Request::StockLevel(input) => {
                assert!(input.warehouse == home && (10..=20).contains(&input.threshold));
                assert_eq!(input.district, number as i64 / 3 % 10 + 1, "fixed for each terminal");
            }
        }
    });
    assert!(names.len() > 900 && names.iter().all(|name| (0..=999).contains(name)));
}

#[test]
fn remote_warehouses_are_any_but_the_home() {
    let tpcc = Tpcc::new(4, 9);
    let mut payments = [[0u32; 5]; 5];
    drawn(&tpcc, 7, 40, 200_000, &mut |_, request| {
        if let Request::Payment(input) = request {
            payments[input.warehouse as usize][input.customer_warehouse as usize] += 1;
        }
    });
    for home in 1..=4 {
        let remote = (1..=4).filter(|&other| other != home).map(|other| payments[home][other]).collect::<Vec<_>>();
        let mean = remote.iter().sum::<u32>() / 3;
        assert!(remote.iter().all(|count| count.abs_diff(mean) < mean / 5), "{payments:?}");
    }
}

#[test]
fn equal_numbers_draw_equal_sequences_and_others_do_not() {
    let sequence = |tpcc: &Tpcc, number, seed| {
        let mut client = tpcc.tpcc_client(number, seed);
        (0..100)
            .map(|_| {
                client.draw();
                *client.request().expect("just drawn")
            })
            .collect::<Vec<_>>()
    };
    let (first, second) = (Tpcc::new(2, 5), Tpcc::new(2, 5));
    assert_eq!(sequence(&first, 7, 1), sequence(&second, 7, 1));
    assert_ne!(sequence(&first, 7, 1), sequence(&first, 9, 1));
    assert_ne!(sequence(&first, 7, 1), sequence(&first, 7, 2));
}

/// A TPC-C whose clients draw warehouse and district for each transaction.
fn with_drawn_homes(scale: u32, seed: u64) -> Tpcc {
    Tpcc { home: Home::Drawn, ..Tpcc::new(scale, seed) }
}

#[test]
fn drawn_homes_are_every_warehouse_and_district_alike() {
    let mut homes = [[0u32; 11]; 5];
    drawn(&with_drawn_homes(4, 9), 7, 3, 200_000, &mut |_, request| {
        let (warehouse, district) = match request {
            Request::NewOrder(input) => (input.warehouse, input.district),
            Request::Payment(input) => (input.warehouse, input.district),
            Request::OrderStatus(input) => (input.warehouse, input.district),
            Request::Delivery(input) => (input.warehouse, 0),
            Request::StockLevel(input) => (input.warehouse, input.district),
        };
        homes[warehouse as usize][district as usize] += 1;
    });
    // 192,000 transactions at a district, 8,000 Deliveries.
    for of_warehouse in &homes[1..] {
        assert!(of_warehouse[0].abs_diff(2_000) < 300, "{homes:?}");
        assert!(of_warehouse[1..].iter().all(|count| count.abs_diff(4_800) < 500), "{homes:?}");
    }
}

#[test]
fn every_audit_holds_where_homes_are_drawn() {
    let audit = drawn(&with_drawn_homes(5, 42), 43, 40, 400_000, &mut |_, _| {}).judge(5);
    assert!(audit.iter().all(|line| line.holds == Some(true)), "{audit:?}");
}

#[test]
fn a_home_stays_unless_it_is_to_be_drawn() {
    let made = |home: &str| {
        let parameters = [("home".to_owned(), home.into())].into();
        crate::registry::make("tpcc", Some(2.0), &parameters, 42).map(|(made, _)| made)
    };
    let (_, database) = loaded(2);
    let mut ordered = Vec::new();
    for home in ["fixed", "drawn"] {
        let benchmark = made(home).unwrap();
        assert_eq!(benchmark.data(), Tpcc::new(2, 42).data(), "both share their data");
        let mut session = database.session(benchmark.schema()).unwrap();
        let mut client = benchmark.client(0, 7);
        for _ in 0..100 {
            client.draw();
            client.run(session.as_mut()).unwrap();
        }
        let facts = Facts::of(&database);
        let new = facts.orders.keys().filter(|(_, _, number)| *number > 3_000).map(|(warehouse, ..)| *warehouse);
        ordered.push(new.collect::<std::collections::BTreeSet<i64>>().len());
    }
    assert_eq!(ordered, [1, 2]);
    let refused = made("drown").map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("drawn"), "{refused}");
}
