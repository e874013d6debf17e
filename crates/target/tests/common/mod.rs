//! Helpers for tests of queries on the embedded engine.

use std::sync::atomic::AtomicBool;

use arrow::util::display::array_value_to_string;
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::database::Session;
use plimsoll_workload::registry::benchmark;

/// A benchmark and an embedded database of these options with its data.
pub fn loaded(spec: &str, options: &[&str]) -> (Box<dyn Benchmark>, Embedded) {
    let (benchmark, _) = benchmark(spec, 7).unwrap();
    let database = Embedded::new(EmbeddedOptions::parse(options.iter().copied()).unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    benchmark.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &stop }).unwrap();
    (benchmark, database)
}

/// The rows of a query, in any order.
pub fn rows(session: &mut dyn Session, sql: &str) -> Vec<String> {
    let answer = session.query(sql).unwrap_or_else(|error| panic!("{error} in\n{sql}"));
    let mut rows = Vec::new();
    for batch in &answer.batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(cells.collect::<Vec<_>>().join(" | "));
        }
    }
    rows.sort();
    rows
}
