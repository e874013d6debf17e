//! TPC-B and TPC-W on PostgreSQL: every statement returns what its native form returns and leaves the same rows behind,
//! and the checks find violations.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/twin.rs"]
mod twin;

use std::thread;

use plimsoll_workload::benchmark::{Benchmark, CheckLine};
use plimsoll_workload::database::Database;
use plimsoll_workload::tpcb::Tpcb;
use plimsoll_workload::tpcw::Tpcw;
use twin::Twin;

/// The lines that are violated, without those that were not judged.
fn violated(benchmark: &dyn Benchmark, twin: &Twin) -> Vec<CheckLine> {
    let lines = benchmark.check(twin.sql()).unwrap();
    lines.into_iter().filter(|line| line.holds == Some(false)).collect()
}

fn assert_sql_equals_native(benchmark: &dyn Benchmark, requests: usize) -> Twin {
    let twin = Twin::loaded(benchmark);
    twin.assert_equal_tables(benchmark);
    assert_eq!(violated(benchmark, &twin), []);
    twin.run(benchmark, &[0, 1, 2], requests);
    twin.assert_equal_tables(benchmark);
    assert_eq!(violated(benchmark, &twin), []);
    twin
}

/// Runs clients on the server at the same time. No client may have to run a request again.
fn run_at_once(benchmark: &dyn Benchmark, twin: &Twin, clients: usize, requests: usize) {
    thread::scope(|scope| {
        for number in 0..clients {
            scope.spawn(move || {
                let mut session = twin.sql().session(benchmark.schema()).unwrap();
                let mut client = benchmark.client(number, 7);
                for _ in 0..requests {
                    client.draw();
                    client.run(session.as_mut()).unwrap();
                }
            });
        }
    });
}

/// Breaks something, compares the lines that the check then finds violated, and mends it.
fn assert_found(benchmark: &dyn Benchmark, twin: &Twin, breaking: &str, mending: &str, lines: &[&str]) {
    twin.sql().run_script(benchmark.schema(), breaking).unwrap();
    let found = violated(benchmark, twin);
    let found: Vec<_> = found.iter().map(|line| line.what.as_str()).collect();
    assert_eq!(found.len(), lines.len(), "{breaking}: {found:#?}");
    for line in lines {
        assert!(found.iter().any(|found| found.starts_with(line)), "{breaking}: `{line}` is not in {found:#?}");
    }
    twin.sql().run_script(benchmark.schema(), mending).unwrap();
}

#[test]
fn tpcb_does_the_same_and_its_check_finds_faults() {
    let tpcb = Tpcb::new(2);
    let twin = assert_sql_equals_native(&tpcb, 300);
    run_at_once(&tpcb, &twin, 6, 200);
    assert_eq!(violated(&tpcb, &twin), []);
    let balance = |table: &str, id: i64, number: i64| {
        let letter = &table[..1];
        format!("UPDATE {table} SET {letter}_balance = {letter}_balance + {number} WHERE {letter}_id = {id}")
    };
    let sums = "the sums of accounts, tellers, branches and the history";
    let branches = "each branch's balance";
    assert_found(&tpcb, &twin, &balance("branch", 1, 1), &balance("branch", 1, -1), &[sums, branches]);
    let tellers = [sums, branches, "each teller's balance"];
    assert_found(&tpcb, &twin, &balance("teller", 3, 1), &balance("teller", 3, -1), &tellers);
    let accounts = [sums, "each account's balance"];
    assert_found(&tpcb, &twin, &balance("account", 5, 1), &balance("account", 5, -1), &accounts);
    // Two errors that cancel out in the sums.
    let both = |number| format!("{}; {}", balance("account", 5, number), balance("account", 6, -number));
    assert_found(&tpcb, &twin, &both(9), &both(-9), &["each account's balance"]);
    let unknown = "INSERT INTO history VALUES (1, 2, 1, 0, '2024-01-02', '......................')";
    let known = "DELETE FROM history WHERE h_t_id = 1 AND h_b_id = 2";
    assert_found(&tpcb, &twin, unknown, known, &["the history names accounts there are"]);
    assert_eq!(violated(&tpcb, &twin), []);
}

#[test]
fn tpcw_does_the_same_in_every_mix() {
    for (mix, requests) in [("browsing", 700), ("shopping", 1_000), ("ordering", 1_500)] {
        assert_sql_equals_native(&Tpcw::new(1, 1_000, mix, 7), requests);
    }
}

#[test]
fn tpcw_keeps_its_books_under_clients_at_once_and_its_check_finds_faults() {
    let tpcw = Tpcw::new(1, 1_000, "ordering", 8);
    let twin = Twin::loaded(&tpcw);
    run_at_once(&tpcw, &twin, 6, 400);
    assert_eq!(violated(&tpcw, &twin), []);
    for (breaking, mending, lines) in [
        (
            "UPDATE item SET i_stock = i_stock - 1 WHERE i_stock = 20",
            "UPDATE item SET i_stock = i_stock + 1 WHERE (10 + i_id * 8 % 21 - i_stock - COALESCE((SELECT sum(ol_qty) \
             FROM order_line WHERE ol_i_id = i_id AND ol_o_id > 2592), 0)) % 21 <> 0",
            &["I_STOCK = what was loaded"][..],
        ),
        (
            "UPDATE item SET i_stock = i_stock + 42 WHERE i_id = 7",
            "UPDATE item SET i_stock = i_stock - 42 WHERE i_id = 7",
            &["I_STOCK is 10 to 30"],
        ),
        (
            "UPDATE cc_xacts SET cx_xact_amt = cx_xact_amt + 0.01 WHERE cx_o_id = 2600",
            "UPDATE cc_xacts SET cx_xact_amt = cx_xact_amt - 0.01 WHERE cx_o_id = 2600",
            &["each order has one credit card record"],
        ),
        (
            "UPDATE orders SET o_tax = o_tax + 0.02, o_total = o_total + 0.02 WHERE o_id = 9; \
             UPDATE cc_xacts SET cx_xact_amt = cx_xact_amt + 0.02 WHERE cx_o_id = 9",
            "UPDATE orders SET o_tax = o_tax - 0.02, o_total = o_total - 0.02 WHERE o_id = 9; \
             UPDATE cc_xacts SET cx_xact_amt = cx_xact_amt - 0.02 WHERE cx_o_id = 9",
            &["O_TAX is 8.25 %"],
        ),
        (
            "UPDATE order_line SET ol_id = 99 WHERE ol_o_id = 2593 AND ol_id = 1",
            "UPDATE order_line SET ol_id = 1 WHERE ol_o_id = 2593 AND ol_id = 99",
            &["each order has lines"],
        ),
        (
            "UPDATE item SET i_related1 = i_related2 WHERE i_id = 3",
            "UPDATE item SET i_related1 = (SELECT min(j.i_id) FROM item AS j WHERE j.i_id NOT IN \
             (item.i_id, item.i_related2, item.i_related3, item.i_related4, item.i_related5)) WHERE i_id = 3",
            &["an item's five related items"],
        ),
        (
            "INSERT INTO shopping_cart_line VALUES (1000000, 1, 11)",
            "DELETE FROM shopping_cart_line WHERE scl_sc_id = 1000000",
            &["a line of a cart has 1 to 10", "lines of carts have carts"],
        ),
        (
            "UPDATE customer SET c_addr_id = -1 WHERE c_id = 5; UPDATE orders SET o_c_id = -1 WHERE o_id = 5",
            "UPDATE customer SET c_addr_id = 1 WHERE c_id = 5; UPDATE orders SET o_c_id = 1 WHERE o_id = 5",
            &["customers have addresses", "orders have customers"],
        ),
    ] {
        assert_found(&tpcw, &twin, breaking, mending, lines);
    }
    assert_eq!(violated(&tpcw, &twin), []);
}
