//! The lock table driven by one thread in seeded random orders and virtual time, against a specification.
//!
//! Clients run random transactions as real ones do: they ask for locks in all modes and for conversions, wait, commit
//! or roll back, release their locks one by one, and run victims again. Requests do not sleep
//! ([`LockTable::ask`](plimsoll_engine::lock::LockTable::ask)), so that a seed fixes the schedule.
//!
//! After each step everything that can be seen of every participant (its state, its present priority, the nice value of
//! its thread, the decision about its request) must follow from the known state before, in some order of events that
//! the definitions of the study allow, and no event may be missing. That means: holders are compatible; the best waiter
//! is served first, equals in order of arrival, or when a lock becomes free those that the rule chooses; every waiter waits for another transaction, and no wake-up is lost; no
//! cycle of waiters is left; a transaction becomes a victim exactly if the scheduler's rule says so, and at that
//! moment; a promoted transaction is not rolled back again for others. In the end all transactions must commit.
//!
//! `PLIMSOLL_LONG=1` runs more seeds.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "lock_simulation/choice.rs"]
mod choice;
#[path = "lock_simulation/clients.rs"]
mod clients;
#[path = "lock_simulation/events.rs"]
mod events;
#[path = "lock_simulation/ledger.rs"]
mod ledger;
#[path = "common/lock_host.rs"]
mod lock_host;
#[path = "lock_simulation/planted.rs"]
mod planted;
#[path = "lock_simulation/specification.rs"]
mod specification;

use std::num::NonZeroU32;
use std::sync::Arc;

use plimsoll_policy::{
    CPU_SCHEDULERS, CpuScheduler, LOCK_SCHEDULERS, LockScheduler, StarvationBound, cpu_scheduler, lock_scheduler,
};

use clients::{CLIENTS, Simulation, Tally};
use lock_host::{Host, Table};
use planted::{Fault, FaultyHost, PLANTED_CPU_SCHEDULERS, planted_schedulers};
use specification::{CpuRule, Rule, Rules};

/// The number of seeds for each lock scheduler; with each of the CPU schedulers beside it a fifth of them.
fn seed_count() -> u64 {
    if std::env::var_os("PLIMSOLL_LONG").is_some() { 30_000 } else { 1_500 }
}

#[derive(Clone)]
struct Schedulers {
    lock: Arc<dyn LockScheduler>,
    cpu: &'static dyn CpuScheduler,
}

impl Schedulers {
    fn named(lock: &str, cpu: &str) -> Self {
        let (lock, cpu) = (lock_scheduler(lock), cpu_scheduler(cpu));
        Schedulers { lock: lock.expect("listed"), cpu: cpu.expect("listed") }
    }

    fn rules(&self, seed: u64) -> Rules {
        let bound = [1, 2, 5][seed as usize % 3];
        Rules { lock: Rule::of(&self.lock.name()), cpu: CpuRule::of(self.cpu.name()), bound }
    }

    fn table(&self, seed: u64) -> Table {
        let bound = StarvationBound::after(NonZeroU32::new(self.rules(seed).bound).unwrap());
        Table::new(Arc::clone(&self.lock), self.cpu, bound, CLIENTS)
    }

    fn simulate(&self, host: &dyn Host, seed: u64) -> Result<Tally, String> {
        Simulation::new(host, self.rules(seed), seed).run()
    }

    /// Runs `seeds` seeds, none of which may fail.
    fn simulate_all(&self, seeds: u64) -> Tally {
        let mut tally = Tally::default();
        for seed in 0..seeds {
            match self.simulate(&self.table(seed), seed) {
                Ok(one) => tally += one,
                Err(error) => panic!("{} with {}, seed {seed}: {error}", self.lock.name(), self.cpu.name()),
            }
        }
        println!("{} with {}: {tally:?}", self.lock.name(), self.cpu.name());
        tally
    }

    /// The error of the first seed that fails.
    fn catch(&self, host: impl Fn(Table) -> Box<dyn Host>, bug: &str) -> String {
        let wrong = (0..300).find_map(|seed| {
            let error = self.simulate(&*host(self.table(seed)), seed).err()?;
            Some((seed, error))
        });
        let (seed, error) = wrong.unwrap_or_else(|| panic!("not caught: {bug}"));
        println!("{bug}: seed {seed}, {}", error.lines().next().unwrap_or_default());
        error
    }
}

/// A simulation in which nothing happens would check nothing.
fn check_that_it_was_wild(rules: Rules, tally: &Tally, seeds: u64) {
    assert!(tally.waits > 20 * seeds && tally.committed > 15 * seeds && tally.conversions > 5 * seeds, "{tally:?}");
    assert!(tally.deadlocks > seeds / 3 && tally.promoted > seeds / 2 && tally.merges > seeds, "{tally:?}");
    let (at_wait, later) = match rules.lock {
        _ if rules.cpu == CpuRule::Preempt => (true, true),
        Rule::Standard | Rule::NPrio | Rule::Inherit | Rule::Chosen(_) => (false, false),
        Rule::Pow | Rule::Wdl | Rule::WdlHolders => (true, false),
        Rule::PAbort | Rule::ConditionalRestart(_) => (true, true),
    };
    let is_reprieved = matches!(rules.lock, Rule::ConditionalRestart(_)) && rules.cpu != CpuRule::Preempt;
    // Where every blocking transaction of lower priority is rolled back, none is left to inherit.
    let is_raised = rules.lock == Rule::Inherit && rules.cpu != CpuRule::Preempt;
    let is_hurried = match rules.cpu {
        CpuRule::None | CpuRule::Preempt => false,
        CpuRule::Prio => is_raised,
        // Victims too, so that they release their locks soon.
        CpuRule::Inherit => true,
    };
    let expect = [at_wait, later, is_reprieved, is_raised, is_hurried];
    let counts = [tally.preempted_waiting, tally.preempted_running, tally.expired, tally.raised, tally.hurried];
    for (count, expect) in counts.into_iter().zip(expect) {
        assert!(if expect { count > seeds / 3 } else { count < seeds / 3 }, "{rules:?}: {tally:?}");
    }
}

#[test]
fn every_step_under_every_scheduler_is_as_specified() {
    std::thread::scope(|scope| {
        for kind in LOCK_SCHEDULERS {
            scope.spawn(|| {
                for cpu in CPU_SCHEDULERS {
                    let schedulers = Schedulers { lock: lock_scheduler(kind.example).expect("listed"), cpu: *cpu };
                    let seeds = if cpu.name() == "none" { seed_count() } else { seed_count() / 5 };
                    let tally = schedulers.simulate_all(seeds);
                    check_that_it_was_wild(schedulers.rules(0), &tally, seeds);
                }
            });
        }
    });
}

/// A simulation that detects no bug would prove nothing.
#[test]
fn schedulers_with_a_planted_bug_are_caught() {
    let none = cpu_scheduler("none").expect("listed");
    for (bug, lock) in planted_schedulers() {
        Schedulers { lock, cpu: none }.catch(|table| Box::new(table), bug);
    }
    for (bug, cpu) in PLANTED_CPU_SCHEDULERS {
        let lock = lock_scheduler("standard").expect("listed");
        Schedulers { lock, cpu }.catch(|table| Box::new(table), bug);
    }
}

#[test]
fn hosts_with_a_planted_bug_are_caught() {
    for (fault, lock) in Fault::ALL {
        let host = |table| Box::new(FaultyHost::new(table, fault)) as _;
        let error = Schedulers::named(lock, "none").catch(host, &format!("{fault:?} under {lock}"));
        // The clients themselves detect these two, from the answers that they have had.
        match fault {
            Fault::GrantsWhatMustWait => assert!(error.contains("is told that it has"), "{error}"),
            Fault::ForgetsRelease => assert!(error.contains("which nobody holds against them"), "{error}"),
            _ => {}
        }
    }
}
