//! Round trips in time that jumps.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::fakes::{FakeDatabase, PREEMPTED};
use super::*;
use crate::database::Database;
use crate::schema::Schema;

static SCHEMA: Schema = Schema { name: Cow::Borrowed("fake"), tables: &[] };

static STATEMENT: Statement = Statement { name: "succeeds", sql: "select 1", native: &|_, _, _| Ok(()) };

/// Time passes only in sleep, and every sleep is 100 ns too long.
#[derive(Default)]
struct LateClock(AtomicU64);

impl Clock for LateClock {
    fn now(&self) -> Nanos {
        self.0.load(Ordering::Relaxed)
    }

    fn doze_until(&self, deadline: Nanos) {
        self.0.store(deadline + 100, Ordering::Relaxed);
    }
}

fn options(round_trip: &str, seed: u64) -> ClientOptions {
    ClientOptions { round_trip: round_trip.parse().expect("a delay"), seed, ..ClientOptions::default() }
}

/// How long each of `statements` statements of one transaction keeps client number `client` asleep.
fn sleeps(options: &ClientOptions, client: usize, statements: usize) -> Vec<Nanos> {
    let (clock, signals) = (LateClock::default(), Signals::new(1));
    let session = FakeDatabase::quick().session(&SCHEMA).expect("it opens sessions");
    let mut session = RoundTrips::new(session, options, "w", client, &clock, &signals);
    session.begin().expect("it succeeds");
    assert_eq!(clock.now(), 0, "nothing is locked yet");
    let sleeps = (0..statements).map(|_| {
        let before = clock.now();
        session.execute(&STATEMENT, &[], &mut Rows::default()).expect("it succeeds");
        clock.now() - before
    });
    let sleeps: Vec<_> = sleeps.collect();
    session.commit().expect("it succeeds");
    assert_eq!(clock.now(), sleeps.iter().sum::<Nanos>(), "nothing is locked any more");
    assert_eq!(session.slept(), Duration::from_nanos(clock.now()), "late wake-ups are part of the round trip");
    sleeps
}

#[test]
fn there_is_one_after_each_statement() {
    assert_eq!(sleeps(&options("const 2us", 7), 0, 3), [2_100; 3]);
    assert_eq!(sleeps(&options("none", 7), 0, 3), [0; 3]);
}

#[test]
fn equal_seeds_give_equal_sequences() {
    let exponential = |seed| options("exp 1ms", seed);
    let drawn = sleeps(&exponential(7), 0, 10_000);
    assert_eq!(drawn[..50], sleeps(&exponential(7), 0, 50));
    assert_ne!(drawn[..50], sleeps(&exponential(8), 0, 50));
    assert_ne!(drawn[..50], sleeps(&exponential(7), 1, 50));
    let mean = drawn.iter().sum::<Nanos>() as f64 / drawn.len() as f64;
    // The standard error of the mean is 1 ms / sqrt(10 000) = 10 us.
    assert!((mean - 1e6).abs() < 50_000.0, "{mean}");
}

#[test]
fn what_fails_is_run_again_at_once() {
    let (clock, signals) = (LateClock::default(), Signals::new(1));
    let session = FakeDatabase::quick().session(&SCHEMA).expect("it opens sessions");
    let mut session = RoundTrips::new(session, &options("const 2us", 7), "w", 0, &clock, &signals);
    assert_eq!(session.execute(&PREEMPTED, &[], &mut Rows::default()), Err(DatabaseError::Preempted));
    assert_eq!(session.slept(), Duration::ZERO);
}

#[test]
fn nobody_sleeps_once_the_run_is_over() {
    let (clock, signals) = (LateClock::default(), Signals::new(1));
    let session = FakeDatabase::quick().session(&SCHEMA).expect("it opens sessions");
    let mut session = RoundTrips::new(session, &options("const 600s", 7), "w", 0, &clock, &signals);
    signals.halt.store(true, Ordering::Relaxed);
    session.execute(&STATEMENT, &[], &mut Rows::default()).expect("it succeeds");
    assert_eq!(clock.now(), 0);
}
