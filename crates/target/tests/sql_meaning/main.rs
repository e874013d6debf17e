//! What the embedded engine answers is what PostgreSQL 15 and 18 answer, or it is a refusal.
//!
//! Known cases first, then random expressions and statements over tables with nulls, extremes, decimals, texts and dates. `PLIMSOLL_SEED=7`
//! runs one seed of each and prints it, `PLIMSOLL_LONG=1` runs 10,000.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod databases;
mod expressions;
mod keyed;
mod shipped;
mod statements;

use std::collections::BTreeMap;

use databases::{Databases, Verdict};
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// The seeds of each kind in the normal suite.
const SEEDS: u64 = 300;

/// The same with `PLIMSOLL_LONG`.
const SEEDS_LONG: u64 = 10_000;

/// The seeds to run.
fn seeds() -> std::ops::Range<u64> {
    match std::env::var("PLIMSOLL_SEED").ok().map(|seed| seed.parse::<u64>().unwrap()) {
        Some(seed) => seed..seed + 1,
        None if std::env::var_os("PLIMSOLL_LONG").is_some() => 0..SEEDS_LONG,
        None => 0..SEEDS,
    }
}

/// Compares the answers to the queries of each seed; at least three in four must be answered, or nothing would be shown.
fn compare(what: &str, queries: impl Fn(&mut Pcg64) -> Vec<String>) {
    let mut databases = Databases::start();
    let (mut answered, mut failed, mut fails_here) = (0, 0, 0);
    let (mut refused, mut differ) = (BTreeMap::new(), Vec::new());
    for seed in seeds() {
        let mut random = Pcg64::seed_from_u64(seed);
        for sql in queries(&mut random) {
            match databases.compare(&sql) {
                Verdict::Same => answered += 1,
                Verdict::BothFail => failed += 1,
                Verdict::FailsHere(_) => fails_here += 1,
                Verdict::Refused(why) => *refused.entry(why).or_insert(0) += 1,
                Verdict::Differs(how) => differ.push(format!("seed {seed}: {sql}\n{how}")),
            }
        }
    }
    let refusals: u64 = refused.values().sum();
    println!(
        "{what}: {answered} answers equal, {failed} fail alike, {fails_here} fail only here, {refusals} refused: {refused:#?}"
    );
    assert!(differ.is_empty(), "{} of {what} differ:\n{}", differ.len(), differ[..differ.len().min(12)].join("\n\n"));
    let is_whole = seeds().end - seeds().start > 1;
    assert!(!is_whole || answered + failed >= 3 * (refusals + fails_here), "most are answered");
    assert!(!is_whole || answered >= failed.max(30 * fails_here), "most are answered with rows");
}

#[test]
fn random_expressions_are_postgresqls_or_refused() {
    compare("expressions", expressions::queries);
}

#[test]
fn random_statements_are_postgresqls_or_refused() {
    compare("statements", statements::queries);
}
