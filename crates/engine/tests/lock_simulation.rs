//! The lock table driven by one thread in seeded random orders and virtual time, against a specification.
//!
//! Clients run random transactions as real ones do: they ask for locks in all modes and for more of what they hold, wait,
//! commit or roll back, give back their locks one by one, and run again what was rolled back. Requests do not sleep here
//! ([`LockTable::ask`](plimsoll_engine::lock::LockTable::ask)), so that a seed fixes the schedule.
//!
//! After each step everything that can be seen of every participant (its state, its present priority, what was decided
//! about its request) must follow from what was known before, in some order of events that the definitions of the study
//! allow, and no event may be missing. That is to say: holders are compatible; the best waiter is served first, equals in
//! order of arrival; nobody waits for nobody and no wake-up is lost; no circle of waiters is left; every victim is one by
//! the scheduler's rule, and everyone who is one by the rule is a victim, at the moment that it says; whoever was rolled
//! back so often that it is promoted is not rolled back again for others. In the end everybody must get through.
//!
//! `PLIMSOLL_LONG=1` runs more seeds.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "lock_simulation/clients.rs"]
mod clients;
#[path = "lock_simulation/events.rs"]
mod events;
#[path = "common/lock_host.rs"]
mod lock_host;
#[path = "lock_simulation/planted.rs"]
mod planted;
#[path = "lock_simulation/specification.rs"]
mod specification;

use std::num::NonZeroU32;
use std::sync::Arc;

use plimsoll_policy::{LOCK_SCHEDULERS, LockScheduler, StarvationBound, lock_scheduler};

use clients::{CLIENTS, Simulation, Tally};
use lock_host::{Host, Table};
use planted::{Fault, FaultyHost, planted_schedulers};
use specification::Rule;

/// How many seeds each scheduler gets.
fn seed_count() -> u64 {
    if std::env::var_os("PLIMSOLL_LONG").is_some() { 100_000 } else { 2_000 }
}

/// Bounds on rollbacks, by seed.
fn bound(seed: u64) -> u32 {
    [1, 2, 5][seed as usize % 3]
}

fn table(scheduler: Arc<dyn LockScheduler>, seed: u64) -> Table {
    let bound = NonZeroU32::new(bound(seed)).unwrap();
    Table::new(scheduler, StarvationBound::after(bound), CLIENTS)
}

fn simulate(host: &dyn Host, rule: Rule, seed: u64) -> Result<Tally, String> {
    Simulation::new(host, rule, bound(seed), seed).run()
}

/// Runs every seed of one scheduler.
fn simulate_all(name: &str) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..seed_count() {
        let host = table(lock_scheduler(name).expect("listed"), seed);
        match simulate(&host, Rule::of(name), seed) {
            Ok(one) => tally += one,
            Err(error) => panic!("{name}, seed {seed}: {error}"),
        }
    }
    println!("{name}: {tally:?}");
    tally
}

/// A simulation in which nothing happens would check nothing.
fn check_that_it_was_wild(rule: Rule, tally: &Tally) {
    let seeds = seed_count();
    assert!(tally.waits > 20 * seeds && tally.committed > 20 * seeds && tally.conversions > 5 * seeds, "{tally:?}");
    assert!(tally.deadlocks > seeds / 2 && tally.promoted > seeds / 2, "{tally:?}");
    assert!(tally.merges > seeds / 2, "{tally:?}");
    let happened = |count: u64| count > seeds / 2;
    let did = [tally.raised, tally.preempted_waiting, tally.preempted_running, tally.expired].map(happened);
    let expect = match rule {
        Rule::Standard | Rule::NPrio => [false; 4],
        Rule::Inherit => [true, false, false, false],
        Rule::PAbort => [false, true, true, false],
        Rule::Pow | Rule::Wdl => [false, true, false, false],
        Rule::ConditionalRestart(_) => [false, true, true, true],
    };
    assert_eq!(did, expect, "{rule:?}: {tally:?}");
}

#[test]
fn every_step_under_every_scheduler_is_as_specified() {
    std::thread::scope(|scope| {
        for kind in LOCK_SCHEDULERS {
            scope.spawn(|| {
                let tally = simulate_all(kind.example);
                check_that_it_was_wild(Rule::of(kind.example), &tally);
            });
        }
    });
}

/// A simulation that sees no bug would be worth nothing.
#[test]
fn schedulers_with_a_planted_bug_are_caught() {
    for (bug, scheduler) in planted_schedulers() {
        let rule = Rule::of(&scheduler.name());
        let caught = (0..300).find_map(|seed| {
            simulate(&table(Arc::clone(&scheduler), seed), rule, seed).err().map(|error| (seed, error))
        });
        let (seed, error) = caught.unwrap_or_else(|| panic!("not caught: {bug}"));
        println!("{bug}: seed {seed}, {}", error.lines().next().unwrap_or_default());
    }
}

#[test]
fn hosts_with_a_planted_bug_are_caught() {
    for (fault, scheduler) in Fault::ALL {
        let caught = (0..300).find_map(|seed| {
            let host = FaultyHost::new(table(lock_scheduler(scheduler).expect("listed"), seed), fault);
            simulate(&host, Rule::of(scheduler), seed).err().map(|error| (seed, error))
        });
        let (seed, error) = caught.unwrap_or_else(|| panic!("not caught: {fault:?} under {scheduler}"));
        println!("{fault:?}: seed {seed}, {}", error.lines().next().unwrap_or_default());
    }
}
