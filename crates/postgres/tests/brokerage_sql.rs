//! The brokerage on PostgreSQL: every statement returns what its native form returns and leaves the same rows behind,
//! and the check finds violations.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/twin.rs"]
mod twin;

use std::thread;

use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::brokerage::Brokerage;
use plimsoll_workload::database::Database;
use plimsoll_workload::tpch::cells::text_rows;
use twin::Twin;

/// The lines that are violated, without those that were not judged.
fn violated(brokerage: &Brokerage, twin: &Twin) -> Vec<String> {
    let lines = brokerage.check(twin.sql()).unwrap();
    lines.into_iter().filter(|line| line.holds == Some(false)).map(|line| line.what).collect()
}

/// How many trades are in these states.
fn trades(brokerage: &Brokerage, twin: &Twin, states: &str) -> String {
    let sql = format!("SELECT count(*) FROM trade WHERE t_st_id IN ({states})");
    let answer = twin.sql().session(brokerage.schema()).unwrap().query(&sql).unwrap();
    text_rows(&answer.batches).unwrap()[0][0].clone().unwrap()
}

#[test]
fn sql_does_what_the_native_forms_do() {
    let brokerage = Brokerage::new(1, 7);
    let twin = Twin::loaded(&brokerage);
    twin.assert_equal_tables(&brokerage);
    twin.run(&brokerage, &[1, 2, 5], 1_500);
    // All ten calls of Data-Maintenance, which only this client makes.
    twin.run(&brokerage, &[0], 6_000);
    twin.assert_equal_tables(&brokerage);
    assert_eq!(violated(&brokerage, &twin), [""; 0]);
}

/// Clients of which some have to wait for each other; a deadlock's victim runs again, as the driver has it.
#[test]
fn nothing_is_lost_under_clients_that_run_at_once_and_orders_left_behind_are_cancelled() {
    let brokerage = Brokerage::new(1, 8);
    let twin = Twin::loaded(&brokerage);
    thread::scope(|scope| {
        for number in 0..6 {
            let (brokerage, twin) = (&brokerage, &twin);
            scope.spawn(move || {
                let mut session = twin.sql().session(brokerage.schema()).unwrap();
                let mut client = brokerage.client(number, 7);
                for _ in 0..500 {
                    client.draw();
                    while let Err(error) = client.run(session.as_mut()) {
                        assert!(error.is_retryable(), "{error}");
                    }
                }
            });
        }
    });
    assert_eq!(violated(&brokerage, &twin), [""; 0]);
    assert_ne!(trades(&brokerage, &twin, "'PNDG', 'SBMT'"), "0");
    brokerage.prepare(twin.sql()).unwrap();
    assert_eq!(trades(&brokerage, &twin, "'PNDG', 'SBMT'"), "0");
    assert_eq!(violated(&brokerage, &twin), [""; 0]);
}

#[test]
fn the_check_finds_what_is_wrong() {
    let brokerage = Brokerage::new(1, 9);
    let twin = Twin::loaded(&brokerage);
    let find = |breaking: &str, mending: &str, lines: &[&str]| {
        twin.sql().run_script(brokerage.schema(), breaking).unwrap();
        assert_eq!(violated(&brokerage, &twin), lines, "{breaking}");
        twin.sql().run_script(brokerage.schema(), mending).unwrap();
    };
    let add = |table: &str, column: &str, number: i64, key: &str| {
        format!("UPDATE {table} SET {column} = {column} + {number} WHERE {key} = 3")
    };
    for (table, column, key, lines) in [
        ("broker", "b_comm_total", "b_id", &["B_COMM_TOTAL = the commissions on them"][..]),
        ("customer_account", "ca_bal", "ca_id", &["CA_BAL = 100,000 and the account's cash transactions"]),
        (
            "holding_history",
            "hh_after_qty",
            "hh_t_id",
            &["H_QTY = the sum of the lot's changes", "every trade's lots have changed by its shares"],
        ),
    ] {
        find(&add(table, column, 1, key), &add(table, column, -1, key), lines);
    }
    let summary = |number| format!("UPDATE holding_summary SET hs_qty = hs_qty + {number} WHERE hs_ca_id = 3");
    find(&summary(1), &summary(-1), &["HS_QTY = the sum of the account's holdings of the security"]);
    find(
        "DELETE FROM trade_history WHERE th_t_id = 3 AND th_st_id = 'CMPT'",
        "INSERT INTO trade_history VALUES (3, 'CMPT', '2023-12-01')",
        &["every trade's history has the trade's state", "a trade's history has as many states as it went through"],
    );
    find(
        "INSERT INTO trade_request VALUES (3, 'TLB', 'AAAAB', 100, 20, 1)",
        "DELETE FROM trade_request",
        &["every trade under a limit that waits has a request, and no other has one"],
    );
    find(
        "UPDATE cash_transaction SET ct_amt = ct_amt + 1 WHERE ct_t_id IN (SELECT min(ct_t_id) FROM cash_transaction)",
        "UPDATE cash_transaction SET ct_amt = ct_amt - 1 WHERE ct_t_id IN (SELECT min(ct_t_id) FROM cash_transaction)",
        &[
            "CA_BAL = 100,000 and the account's cash transactions",
            "trades that are paid in cash have a cash transaction of the settlement's amount, and no others have one",
        ],
    );
    assert_eq!(violated(&brokerage, &twin), [""; 0]);
}
