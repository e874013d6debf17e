//! TPC-C adds orders as it runs: whether the later points of a sweep find more of them than the earlier ones.

use super::*;

/// Orders that TPC-C loads for each warehouse: 3,000 in each of 10 districts (TPC-C 4.3.3.1).
const LOADED: u64 = 30_000;

/// The orders that each run of a sweep finds when it begins, and how often TPC-C was loaded.
fn orders_found(reload: &str) -> (Vec<u64>, usize) {
    let text = format!(
        "name = \"growth\"\n[target]\nurl = \"memory:\"\n[[workload]]\nname = \"oltp\"\nkind = \"tpcc\"\nscale = 1\n\
         [sweep]\ndop = [1, 2]\n[run]\nothers_max = 1000\nwarmup = \"0s\"\nmeasure = \"100ms\"\nrepeats = 1\nreload = \"{reload}\"\n"
    );
    let (_, records, seen) = run(&text);
    assert_eq!(records.len(), seen.sessions.len(), "one client each");
    (seen.sessions.iter().map(|session| session.rows).collect(), seen.loaded["tpcc"])
}

#[test]
fn every_run_begins_with_the_orders_that_were_loaded() {
    assert_eq!(orders_found("when-grown"), (vec![LOADED; 3], 3));
}

/// The canary: if data were never loaded again, later points would find more orders, and the test above would detect
/// it.
#[test]
fn without_loading_anew_later_runs_find_more_orders() {
    let (orders, loads) = orders_found("never");
    assert_eq!((orders[0], loads), (LOADED, 1));
    assert!(orders.is_sorted_by(|a, b| a < b), "{orders:?}");
}
