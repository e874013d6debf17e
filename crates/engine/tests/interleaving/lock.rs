//! Lock waits: grants, verdicts, deadlocks and commits of a few transactions that want the same two rows.

#[path = "../../src/lock/choice.rs"]
mod choice;
#[path = "../../src/lock/deadlock.rs"]
mod deadlock;
#[path = "../../src/lock/gaps.rs"]
mod gaps;
#[path = "../../src/lock/head.rs"]
mod head;
#[path = "../../src/lock/heads.rs"]
mod heads;
#[path = "../../src/lock/intents.rs"]
mod intents;
#[path = "../../src/lock/member.rs"]
mod member;
#[path = "../../src/lock/mode.rs"]
mod mode;
#[path = "../../src/lock/name.rs"]
mod name;
#[path = "../../src/lock/statistics.rs"]
mod statistics;
#[path = "../../src/lock/table.rs"]
mod table;
#[path = "../../src/lock/verdicts.rs"]
mod verdicts;
#[path = "../../src/lock/wait.rs"]
mod wait;

use system::sync::atomic::{AtomicU64, Ordering};
use system::sync::{Arc, Mutex};
use system::time::Duration;

use plimsoll_policy::{Priority, lock_scheduler};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::clock::Clock;
use crate::scheduler::{self, Fault, Work};
use crate::{check, check_that_it_is_noticed};
use head::Answer;
use member::{Member, RequestError, State};
use mode::Mode;
use name::LockName;
use table::{LockOptions, LockTable};

const TRANSACTIONS: usize = 3;
const ROWS: u64 = 2;
/// This test's lock table also has a table, whose intentions are kept in a different way.
const TABLE: u32 = 0;

/// A clock that advances each time it is read.
#[derive(Debug, Default)]
struct CountingClock(AtomicU64);

impl Clock for CountingClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

struct Shared {
    locks: LockTable,
    /// The locks of each transaction, as it was answered.
    held: Mutex<Vec<(usize, LockName, Mode)>>,
}

impl Shared {
    /// A transaction was answered that it holds a name in a mode.
    fn note_grant(&self, who: usize, name: LockName, mode: Mode) {
        let mut held = self.held.lock().expect("nobody panics under it");
        let mut conflicts = held.iter().filter(|(other, at, _)| *other != who && *at == name);
        let conflict = conflicts.find(|(_, _, theirs)| !theirs.is_compatible(mode)).copied();
        held.push((who, name, mode));
        drop(held);
        assert!(conflict.is_none(), "{who} holds {name:?} in {mode:?} beside {conflict:?}");
    }

    fn forget(&self, who: usize, name: Option<LockName>) {
        let is_meant = |held: &(usize, LockName, Mode)| held.0 == who && name.is_none_or(|name| name == held.1);
        self.held.lock().expect("nobody panics under it").retain(|held| !is_meant(held));
    }

    fn request(&self, member: &Member, name: LockName, mode: Mode) -> Result<Answer, RequestError> {
        match self.locks.ask(member, name, mode)? {
            Answer::Wait => self.locks.wait(member).outcome,
            answer => Ok(answer),
        }
    }

    /// Asks for two or three locks, commits, and releases them.
    fn attempt(
        &self,
        who: usize,
        member: &Member,
        names: &mut Vec<LockName>,
        random: &mut Pcg64,
    ) -> Result<(), RequestError> {
        for _ in 0..random.random_range(2..4) {
            let (name, modes) = match random.random_range(0..5) {
                0 => (LockName::table(TABLE), [Mode::IX, Mode::IS, Mode::S]),
                _ => (LockName::row(TABLE, random.random_range(0..ROWS)), [Mode::X, Mode::U, Mode::S]),
            };
            let mode = modes[random.random_range(0..modes.len())];
            let answer = self.request(member, name, mode)?;
            if answer == Answer::Granted {
                names.push(name);
            }
            self.note_grant(who, name, mode);
        }
        self.locks.commit_point(member)
    }

    fn transact(&self, who: usize, member: &Member, random: &mut Pcg64) {
        let priority = if random.random_bool(0.4) { Priority::HIGH } else { Priority::LOW };
        for rollbacks in 0.. {
            self.locks.begin(member, priority, rollbacks);
            let mut names = Vec::new();
            let outcome = self.attempt(who, member, &mut names, random);
            match outcome {
                Ok(()) => assert_eq!(member.state(), State::Ending, "nobody is a victim that has committed"),
                Err(_) => self.locks.roll_back(member),
            }
            for name in names {
                self.forget(who, Some(name));
                self.locks.release(member, name);
            }
            self.forget(who, None);
            self.locks.release_inherited(member);
            self.locks.end(member);
            if outcome.is_ok() {
                return;
            }
        }
    }
}

fn run(policy: &str, seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let options = LockOptions::new(lock_scheduler(policy).expect("listed"), Arc::new(CountingClock::default()));
    let shared = Arc::new(Shared { locks: LockTable::new(options), held: Mutex::default() });
    let work = |who: usize| {
        let shared = Arc::clone(&shared);
        let mut random = Pcg64::seed_from_u64(seed << 8 | who as u64);
        Box::new(move || {
            let member = shared.locks.join();
            for _ in 0..2 {
                shared.transact(who, &member, &mut random);
            }
            shared.locks.leave(&member);
        }) as Work
    };
    scheduler::run(seed, fault, (0..TRANSACTIONS).map(work).collect())?;
    let left = (shared.locks.name_count(), shared.locks.waiter_count());
    if left == (0, 0) { Ok(()) } else { Err(format!("{left:?} names and waiters are left")) }
}

#[test]
fn every_transaction_gets_through_in_any_order_of_steps() {
    for policy in
        ["standard", "pow", "wdl", "wdl-holders", "nprio-inherit", "pabort", "cr(5ms)", "vats", "ldsf", "bldsf"]
    {
        check(200, |seed| run(policy, seed, None).map_err(|error| format!("{policy}: {error}")));
    }
}

#[test]
fn a_lost_wake_up_of_a_lock_is_noticed() {
    for fault in [Fault::LosesNotification(2), Fault::WaitsAfterUnlock] {
        check_that_it_is_noticed(|seed| run("standard", seed, Some(fault)), "sleep for ever");
    }
}
