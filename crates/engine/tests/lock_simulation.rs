//! The lock table driven by one thread in a seeded random order, with a model beside it that checks every step.
//!
//! Requests do not sleep here ([`LockTable::ask`]), so that a seed fixes the schedule. After each step: grants of different
//! transactions are compatible; whoever waits has a reason to (no wake-up is lost); nobody waits in a circle (no deadlock
//! is left standing); under `standard` nobody is passed over by a later request for the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plimsoll_engine::clock::MonotonicClock;
use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{LockName, LockOptions, LockTable, Member, Mode};
use plimsoll_policy::{LOCK_SCHEDULERS, LockScheduler, Priority, lock_scheduler};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const MEMBERS: usize = 6;
const NAMES: u64 = 4;

/// What a member waits for, and when it asked.
#[derive(Debug, Clone, Copy)]
struct Wait {
    name: LockName,
    mode: Mode,
    is_conversion: bool,
    asked: u64,
}

struct Simulation {
    locks: LockTable,
    scheduler: Arc<dyn LockScheduler>,
    members: Vec<Arc<Member>>,
    held: BTreeMap<LockName, BTreeMap<usize, Mode>>,
    waits: BTreeMap<usize, Wait>,
    steps: u64,
    deadlocks: u64,
}

impl Simulation {
    fn new(scheduler: Arc<dyn LockScheduler>) -> Self {
        let locks = LockTable::new(LockOptions::new(Arc::clone(&scheduler), Arc::new(MonotonicClock::default())));
        let members: Vec<_> = (0..MEMBERS).map(|_| locks.join()).collect();
        members.iter().for_each(|member| locks.begin(member, Priority::LOW, 0));
        let (held, waits) = (BTreeMap::new(), BTreeMap::new());
        Simulation { locks, scheduler, members, held, waits, steps: 0, deadlocks: 0 }
    }

    fn step(&mut self, random: &mut Pcg64) {
        self.steps += 1;
        let member = random.random_range(0..MEMBERS);
        if self.waits.contains_key(&member) {
            return;
        }
        if random.random_bool(0.2) {
            let priority = Priority::USUAL[random.random_range(0..2)];
            self.release_all(member, priority);
        } else {
            let name = LockName::row(0, random.random_range(0..NAMES));
            let mode = Mode::ALL[random.random_range(0..Mode::ALL.len())];
            self.ask(member, name, mode);
        }
        self.settle();
        self.check();
    }

    fn ask(&mut self, member: usize, name: LockName, mode: Mode) {
        let before = self.held.get(&name).and_then(|holders| holders.get(&member)).copied();
        let wanted = before.map_or(mode, |before| before.supremum(mode));
        let Ok(answer) = self.locks.ask(&self.members[member], name, mode) else {
            return self.release_all(member, Priority::LOW);
        };
        match answer {
            Answer::Wait => {
                let wait = Wait { name, mode: wanted, is_conversion: before.is_some(), asked: self.steps };
                self.waits.insert(member, wait);
            }
            Answer::Held => assert_eq!(before, Some(wanted), "held what it did not hold"),
            answer => {
                assert_eq!(answer == Answer::Converted, before.is_some());
                self.grant(member, name, wanted);
            }
        }
    }

    fn grant(&mut self, member: usize, name: LockName, mode: Mode) {
        let holders = self.held.entry(name).or_default();
        holders.insert(member, mode);
        for (other, held) in holders.iter().filter(|(other, _)| **other != member) {
            assert!(held.is_compatible(mode), "{member} got {mode:?} beside {held:?} of {other}");
        }
    }

    /// Takes note of every decision about waiters until there are no more.
    fn settle(&mut self) {
        loop {
            let decided: Vec<_> = self
                .waits
                .keys()
                .copied()
                .collect::<Vec<_>>()
                .into_iter()
                .filter_map(|member| Some((member, self.locks.outcome(&self.members[member])?)))
                .collect();
            if decided.is_empty() {
                return;
            }
            let too: BTreeSet<usize> = decided.iter().map(|(member, _)| *member).collect();
            for (member, outcome) in decided {
                let wait = self.waits.remove(&member).expect("it waited");
                if outcome.outcome.is_ok() {
                    self.check_order(&wait, &too);
                    self.grant(member, wait.name, wait.mode);
                } else {
                    self.deadlocks += 1;
                    self.release_all(member, Priority::LOW);
                }
            }
        }
    }

    /// Under `standard` whoever asked before for the same name and still waits was not granted for a reason of its own: it
    /// must be a conversion that was passed, or the one granted is a conversion.
    fn check_order(&self, granted: &Wait, decided_too: &BTreeSet<usize>) {
        if self.scheduler.name() != "standard" || granted.is_conversion {
            return;
        }
        for (member, other) in &self.waits {
            let is_passed = other.name == granted.name && other.asked < granted.asked && !decided_too.contains(member);
            assert!(!is_passed, "{member} asked at {} and was passed over by {}", other.asked, granted.asked);
        }
    }

    fn release_all(&mut self, member: usize, next: Priority) {
        self.locks.roll_back(&self.members[member]);
        let names: Vec<_> =
            self.held.iter().filter(|(_, holders)| holders.contains_key(&member)).map(|(name, _)| *name).collect();
        for name in names {
            self.held.get_mut(&name).expect("listed").remove(&member);
            self.locks.release(&self.members[member], name);
        }
        self.locks.end(&self.members[member]);
        self.locks.begin(&self.members[member], next, 0);
    }

    /// The holders that keep a waiter from being granted.
    fn blockers(&self, member: usize) -> Vec<usize> {
        let wait = self.waits[&member];
        let holders = self.held.get(&wait.name).into_iter().flatten();
        holders
            .filter(|(other, held)| **other != member && !held.is_compatible(wait.mode))
            .map(|(other, _)| *other)
            .collect()
    }

    fn check(&self) {
        for (&member, wait) in &self.waits {
            let others_wait = self.waits.iter().any(|(&other, o)| other != member && o.name == wait.name);
            assert!(others_wait || !self.blockers(member).is_empty(), "{member} waits for nobody: {wait:?}");
            assert!(!self.reaches(member, member, &mut BTreeSet::new()), "{member} waits in a circle");
        }
        assert!(self.waits.len() < MEMBERS, "everybody waits");
    }

    fn reaches(&self, from: usize, goal: usize, seen: &mut BTreeSet<usize>) -> bool {
        self.waits.contains_key(&from)
            && self
                .blockers(from)
                .into_iter()
                .any(|next| next == goal || (seen.insert(next) && self.reaches(next, goal, seen)))
    }
}

#[test]
fn every_step_of_every_schedule_is_sound() {
    let mut deadlocks = 0;
    for seed in 0..300 {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut simulation = Simulation::new(
            lock_scheduler(LOCK_SCHEDULERS[seed as usize % LOCK_SCHEDULERS.len()].example).expect("listed"),
        );
        for _ in 0..400 {
            simulation.step(&mut random);
        }
        // Whoever does not wait ends, until nobody is left: each wait must end by itself.
        for _ in 0..MEMBERS {
            for member in (0..MEMBERS).filter(|member| !simulation.waits.contains_key(member)).collect::<Vec<_>>() {
                simulation.release_all(member, Priority::LOW);
            }
            simulation.settle();
        }
        assert!(simulation.waits.is_empty(), "seed {seed}: somebody waits for nobody");
        (0..MEMBERS).for_each(|member| simulation.release_all(member, Priority::LOW));
        assert_eq!(simulation.locks.name_count(), 0, "seed {seed}: locks are left");
        deadlocks += simulation.deadlocks;
    }
    assert!(deadlocks > 100, "the schedules are too tame: {deadlocks} deadlocks in all");
}
