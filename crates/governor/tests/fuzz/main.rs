//! A short run of the fuzz targets, for a few seconds.
//!
//! The targets are shared with `crates/governor/fuzz`, where `cargo fuzz` runs them for any length of time: arbitrary
//! messages from both peers ([`messages`]), arbitrary text ([`sql`]), and a society of sessions whose transactions are
//! recorded and replayed ([`society`]). Here each runs over the corpus in that directory, and over random mutations of
//! it, from a fixed seed. `PLIMSOLL_LONG` runs twenty times as many.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod choices;
mod messages;
mod society;
mod sql;
mod world;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRng, TestRunner};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use society::STEP_BYTES;

fn times(count: u32) -> u32 {
    if std::env::var_os("PLIMSOLL_LONG").is_some() { count * 20 } else { count }
}

/// The corpus of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new("fuzz/corpus").join(target);
    let mut files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Changes bytes as fuzzers do: flips, adds, removes or copies a few.
fn mutated(bytes: &[u8], other: &[u8], random: &mut Pcg64Mcg) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..6) {
        let place = random.random_range(0..=bytes.len());
        let rest = bytes.len() - place;
        match random.random_range(0..5) {
            0 if rest > 0 => bytes[place] ^= 1 << random.random_range(0..8),
            1 => bytes.insert(place, random.random()),
            2 => drop(bytes.drain(place..place + random.random_range(0..=rest.min(16)))),
            3 => {
                let begin = random.random_range(0..=other.len());
                let end = random.random_range(begin..=other.len());
                bytes.splice(place..place, other[begin..end].iter().copied());
            }
            _ if rest > 0 => bytes[place] = random.random(),
            _ => {}
        }
    }
    bytes
}

/// Runs a target over its corpus, and `count` times over random mutations of it.
fn check_corpus(target: &str, count: u32, run: impl Fn(&[u8])) {
    let corpus = corpus(target);
    corpus.iter().for_each(|bytes| run(bytes));
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..times(count) {
        let mut one = || &corpus[random.random_range(0..corpus.len())];
        let (bytes, other) = (one(), one());
        let bytes = mutated(bytes, other, &mut random);
        let told = Told(&bytes);
        run(&bytes);
        std::mem::forget(told);
    }
}

/// Prints the bytes with which a target has failed.
struct Told<'a>(&'a [u8]);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        println!("it has failed with \"{}\"", self.0.escape_ascii());
    }
}

#[test]
fn any_text_is_read() {
    check_corpus("sql", 20_000, sql::read);
}

#[test]
fn any_messages_are_taken() {
    check_corpus("messages", 5_000, messages::feed);
}

#[test]
fn what_was_found_once_is_kept() {
    corpus("society").iter().for_each(|bytes| {
        society::live(bytes, false);
    });
}

#[test]
fn a_society_keeps_the_invariants_of_sessions() {
    let tally = std::cell::RefCell::new(society::Tally::default());
    // Failures are not written beside the sources: the case is printed, and the seed is fixed.
    let config = Config { cases: times(700), failure_persistence: None, max_shrink_iters: 3_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(Default::default()));
    let steps = prop::collection::vec(prop::collection::vec(any::<u8>(), STEP_BYTES), 0..600);
    let outcome = runner.run(&steps, |steps| {
        tally.borrow_mut().add(&society::live(&steps.concat(), false));
        Ok(())
    });
    if let Err(TestError::Fail(why, steps)) = &outcome {
        // The shortest failing steps show the course of events.
        println!("{why}, by \"{}\"", steps.concat().escape_ascii());
        society::live(&steps.concat(), true);
    }
    outcome.unwrap();
    let tally = tally.into_inner();
    println!("{tally:?}");
    assert!(tally.acknowledged > 0 && tally.refused > 0, "{tally:?}");
    assert!(tally.replayed > 0 && tally.differed > 0 && tally.idle > 0, "{tally:?}");
    assert!(tally.queued > 0 && tally.timed_out > 0, "{tally:?}");
}
