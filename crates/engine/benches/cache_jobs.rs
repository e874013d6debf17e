//! What dividing queries into jobs costs where all classes may fill the whole cache: the 22 TPC-H queries undivided, on a pool for each
//! class, and on one pool with a switch per task, by turns.
//!
//! `cargo bench -p plimsoll-engine --bench cache_jobs -- [SCALE [TURNS [DOP]]]`
//!
//! Prints for both the ratio of times to undivided queries, all 22 as one, with its 95 % interval (Student's t on the logarithms of each
//! turn's ratio), and how many jobs and switches there were. Nothing is bound, so that a switch costs what finding out about it does. Under
//! `cargo test` the scale is tiny, and answers are compared.

use std::sync::Arc;
use std::time::Instant;

use arrow::util::pretty::pretty_format_batches;
use plimsoll_engine::columns::{ColumnSnapshot, ColumnTable};
use plimsoll_engine::query::jobs::{CacheBinder, CacheJobs, CacheSwitch};
use plimsoll_engine::query::{QueryEngine, QueryOptions};
use plimsoll_model::statistics::{Samples, compare_settings};
use plimsoll_policy::cache_class::CacheClass;
use plimsoll_workload::tpch::queries::QUERIES;
use plimsoll_workload::tpch::tables::SCHEMA;

#[path = "tpch/data.rs"]
#[allow(dead_code, reason = "what it exports is for the other bench")]
mod data;

/// Gives every class the whole of a cache of 32 MiB.
#[derive(Debug)]
struct WholeCache;

impl CacheBinder for WholeCache {
    fn bind(&self, _: i32, _: CacheClass) {}

    fn cache_bytes(&self) -> Option<u64> {
        Some(32 << 20)
    }
}

fn engine(dop: usize, switch: Option<CacheSwitch>) -> QueryEngine {
    let cache = switch.map(|switch| CacheJobs { binder: Arc::new(WholeCache), switch });
    let options = QueryOptions { dop, workers: dop, cache, ..QueryOptions::default() };
    QueryEngine::new(options).expect("threads can be started")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_test = !std::env::args().any(|word| word == "--bench");
    let number = |place: usize, otherwise: f64| -> f64 {
        words.get(place).map_or(otherwise, |word| word.parse().expect("a number"))
    };
    let (scale, turns) = if is_test { (0.01, 1) } else { (number(0, 1.0), number(1, 10.0) as usize) };
    let dop = number(2, 2.0) as usize;
    let tables = data::generate(scale);
    let build = |(table, batches): (&plimsoll_workload::schema::Table, _)| {
        let built = ColumnTable::build(table.name, table.arrow(), vec![table.primary_key.to_vec()], batches);
        Arc::new(built.expect("the generator makes batches of the declared schema"))
    };
    let snapshot = Arc::new(ColumnSnapshot::new("as loaded", SCHEMA.tables.iter().zip(tables).map(build)));
    let engines = [None, Some(CacheSwitch::PerPool), Some(CacheSwitch::PerTask)].map(|switch| engine(dop, switch));
    // The first turn finds caches cold and sizes of joins unknown, and is left out.
    let mut times = vec![Vec::new(); engines.len()];
    for turn in 0..=turns {
        let mut answers = vec![Vec::new(); engines.len()];
        for place in 0..engines.len() {
            // Each begins as often as the others.
            let at = (turn + place) % engines.len();
            let began = Instant::now();
            for spec in &QUERIES {
                let output = engines[at].query(&snapshot, &spec.validation_sql(scale), None);
                let output = output.unwrap_or_else(|error| panic!("{error} in {}", spec.name));
                if is_test {
                    let text = pretty_format_batches(&output.batches).expect("rows can be shown").to_string();
                    // Equal rows may come in any order.
                    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
                    rows.sort();
                    answers[at].push(rows);
                }
            }
            if turn > 0 {
                times[at].push(began.elapsed().as_secs_f64());
            }
        }
        assert!(answers.iter().all(|of_engine| *of_engine == answers[0]), "answers depend on jobs");
    }
    if is_test {
        return;
    }
    let samples = Samples::complete(&times);
    for (place, switch) in CacheSwitch::ALL.into_iter().enumerate().map(|(place, switch)| (place + 1, switch)) {
        let ratio = compare_settings(&samples, place, 0, None).ratio;
        let ratio = ratio.map_or("-".to_owned(), |ratio| match ratio.low.zip(ratio.high) {
            Some((low, high)) => format!("{:.3} ({low:.3} to {high:.3})", ratio.value),
            None => format!("{:.3}", ratio.value),
        });
        println!("{}: {ratio} of undivided queries, {:?}", switch.name(), engines[place].jobs().expect("it has jobs"));
    }
}
