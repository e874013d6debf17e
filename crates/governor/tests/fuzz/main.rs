//! What a fuzzer would find, as far as a few seconds find it.
//!
//! The targets are shared with `crates/governor/fuzz`, where `cargo fuzz` runs them for as long as one likes. Here each runs
//! over the corpus that is kept there, and over random bytes from a fixed seed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod choices;
mod society;

use society::STEP_BYTES;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRng, TestRunner};

/// Runs a target for random bytes of up to `length_max`, as often as `cases` says, twenty times as often if `PLIMSOLL_LONG` is
/// set. The shortest bytes that were found to fail are given to it once more, to tell what happens.
fn check(cases: u32, length_max: usize, target: impl Fn(&[u8], bool)) {
    let cases = if std::env::var_os("PLIMSOLL_LONG").is_some() { cases * 20 } else { cases };
    // Nothing is written beside the sources when one fails: it is printed, and the seed is fixed.
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 3_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(Default::default()));
    let steps = prop::collection::vec(prop::collection::vec(any::<u8>(), STEP_BYTES), 0..length_max);
    let outcome = runner.run(&steps, |steps| {
        target(&steps.concat(), false);
        Ok(())
    });
    if let Err(TestError::Fail(why, steps)) = &outcome {
        println!("{why}, by {steps:?}");
        target(&steps.concat(), true);
    }
    outcome.unwrap();
}

#[test]
fn a_society_keeps_the_invariants_of_sessions() {
    let tally = std::cell::RefCell::new(society::Tally::default());
    check(700, 600, |bytes, is_told| tally.borrow_mut().add(&society::live(bytes, is_told)));
    let tally = tally.into_inner();
    println!("{tally:?}");
    assert!(tally.acknowledged > 0 && tally.refused > 0, "{tally:?}");
    assert!(tally.replayed > 0 && tally.differed > 0 && tally.idle > 0, "{tally:?}");
    assert!(tally.queued > 0 && tally.timed_out > 0, "{tally:?}");
}
