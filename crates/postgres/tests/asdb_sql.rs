//! ASDB-like on PostgreSQL: every statement returns what its native form returns and leaves the same rows behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/twin.rs"]
mod twin;

use std::thread;

use plimsoll_workload::asdb::Asdb;
use plimsoll_workload::benchmark::Benchmark;
use plimsoll_workload::database::Database;
use twin::Twin;

fn assert_holds(asdb: &Asdb, twin: &Twin) {
    let lines = asdb.check(twin.sql()).unwrap();
    let wrong = lines.iter().filter(|line| line.holds != Some(true) && !line.what.starts_with("mix"));
    let wrong = wrong.collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn sql_does_what_the_native_forms_do() {
    let asdb = Asdb::new(1, 7);
    let twin = Twin::loaded(&asdb);
    twin.assert_equal_tables(&asdb);
    assert_holds(&asdb, &twin);
    twin.run(&asdb, &[0, 1, 5], 1_500);
    twin.assert_equal_tables(&asdb);
    assert_holds(&asdb, &twin);
}

#[test]
fn nothing_is_lost_under_clients_that_run_at_once() {
    let asdb = Asdb::new(1, 8);
    let twin = Twin::loaded(&asdb);
    thread::scope(|scope| {
        for number in 0..6 {
            let (asdb, twin) = (&asdb, &twin);
            scope.spawn(move || {
                let mut session = twin.sql().session(asdb.schema()).unwrap();
                let mut client = asdb.client(number, 7);
                for _ in 0..500 {
                    client.draw();
                    client.run(session.as_mut()).unwrap();
                }
            });
        }
    });
    assert_holds(&asdb, &twin);
}
