//! A participant of the lock table: the state of its transaction, its place to sleep, and what others leave with it.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use plimsoll_policy::Priority;

use super::head::{Answer, Slot};
use super::intents::Intent;
use super::name::LockName;
use crate::cpu_priority::ThreadPriority;

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Granting it to everybody in a cycle is impossible, and this transaction was chosen to give way.
    #[error("deadlock victim")]
    Deadlock,
    /// The transaction is to be rolled back for the sake of a more important one.
    #[error("preempted by a more important transaction")]
    Preempted,
}

/// Where a participant is in the life of a transaction. The [manual](super) has the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has no transaction, holds nothing and waits for nothing.
    Idle,
    /// Its transaction works.
    Running,
    /// Its transaction is in the queue of one name.
    Waiting,
    /// Its transaction has been chosen as a victim. Its next request fails, and so does its commit.
    Doomed(RequestError),
    /// It commits or rolls back, and nobody can roll it back any more.
    Ending,
}

/// One lock request that had to wait (MW 3.7), as [the table](super::LockTable) decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockWait {
    /// QueueTime: from the request until it was granted or refused.
    pub queue_time: Duration,
    /// WaitExcess: from the request until the name was granted to the first of its waiters. All of the queue time if the
    /// request was refused before.
    pub excess: Duration,
}

/// What became of a request that had to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// [`Answer::Granted`], [`Answer::Converted`], or why not.
    pub outcome: Result<Answer, RequestError>,
    /// How long it took.
    pub wait: LockWait,
}

/// A participant: one transaction at a time, with its place to sleep.
#[derive(Debug)]
pub struct Member {
    pub(super) slot: Slot,
    /// A [`Life`], packed so that a verdict and a commit can race for it in one atomic step.
    life: AtomicU64,
    rollbacks: AtomicU32,
    /// The level of the priority that its transaction began with.
    initial_priority: AtomicU8,
    /// How many names it holds: for the choice of a victim, and to see that it ends with none.
    locks: AtomicU32,
    pub(super) waiting: Mutex<Waiting>,
    pub(super) wake: Condvar,
    /// What it has asked of tables.
    pub(super) intents: Mutex<Vec<Intent>>,
    /// Gaps it came to hold because others merged.
    pub(super) inherited: Mutex<Vec<LockName>>,
    /// Names that it holds and others have waited for behind it. Only for schedulers that do not leave holders alone.
    contended: Mutex<Vec<LockName>>,
    pub(super) thread_priority: ThreadPriority,
}

/// What a member waits for, and whether it still does. The name changes under the lock of its partition only.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The name in whose queue it is, until it is woken.
    pub(super) name: Option<LockName>,
    /// The transaction that waits.
    pub(super) serial: u64,
    /// Grows with each wait and with each better place, so that one wait can be told from the next.
    pub(super) sequence: u64,
    /// When it asked.
    pub(super) requested: Duration,
    /// What it waited for last and what came of it, until it takes note.
    pub(super) decision: Option<(LockName, Decision)>,
    /// What is to become of holders that it still waits for at a certain time.
    pub(super) reprieves: Vec<Reprieve>,
}

/// A holder that has some time left to get out of the way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reprieve {
    pub(super) holder: Slot,
    /// Its transaction.
    pub(super) serial: u64,
    /// When the time is over, on the table's clock.
    pub(super) ends: Duration,
}

impl Waiting {
    /// When somebody's time will be over.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.name?;
        self.reprieves.iter().map(|reprieve| reprieve.ends).min()
    }
}

/// A member's transaction, at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    /// Which transaction, so that nobody is punished for the one before.
    pub(super) serial: u64,
    /// Its present priority, inherited or promoted included.
    pub(super) priority: Priority,
    /// Its CPU priority: never below the present one.
    pub(super) cpu: Priority,
    pub(super) state: State,
}

impl Life {
    const IDLE: Life = Life { serial: 0, priority: Priority::LOW, cpu: Priority::LOW, state: State::Idle };

    /// A million transactions a second for a year are fewer than the 2^45 that there is room for.
    fn pack(self) -> u64 {
        let state = match self.state {
            State::Idle => 0,
            State::Running => 1,
            State::Waiting => 2,
            State::Doomed(RequestError::Deadlock) => 3,
            State::Doomed(RequestError::Preempted) => 4,
            State::Ending => 5,
        };
        self.serial << 19 | u64::from(self.cpu.level()) << 11 | u64::from(self.priority.level()) << 3 | state
    }

    fn unpack(bits: u64) -> Self {
        let priority = |level: u64| priority_of(level as u8);
        let state = match bits & 7 {
            0 => State::Idle,
            1 => State::Running,
            2 => State::Waiting,
            3 => State::Doomed(RequestError::Deadlock),
            4 => State::Doomed(RequestError::Preempted),
            _ => State::Ending,
        };
        Life { serial: bits >> 19, priority: priority(bits >> 3), cpu: priority(bits >> 11), state }
    }
}

fn priority_of(level: u8) -> Priority {
    Priority::of_level(level).unwrap_or(Priority::PROMOTED)
}

impl Member {
    pub(super) fn new(slot: Slot) -> Self {
        Member {
            slot,
            life: AtomicU64::new(Life::IDLE.pack()),
            rollbacks: AtomicU32::new(0),
            initial_priority: AtomicU8::new(0),
            locks: AtomicU32::new(0),
            waiting: Mutex::default(),
            wake: Condvar::new(),
            intents: Mutex::default(),
            inherited: Mutex::default(),
            contended: Mutex::default(),
            thread_priority: ThreadPriority::default(),
        }
    }

    /// Its present priority, inherited or promoted included.
    pub fn priority(&self) -> Priority {
        self.life().priority
    }

    /// Where it is in the life of its transaction.
    pub fn state(&self) -> State {
        self.life().state
    }

    pub(super) fn life(&self) -> Life {
        Life::unpack(self.life.load(Ordering::Acquire))
    }

    /// Changes its life in one atomic step, unless `change` wants none; returns it as it was. All the races between a member
    /// and those who decide about it are decided here.
    pub(super) fn shift(&self, mut change: impl FnMut(Life) -> Option<Life>) -> Option<Life> {
        // Acquire and release: whoever sees a state sees what was written before it came to be. That a member which
        // begins to wait and somebody who begins to wait behind it do not miss each other rests on the mutex of
        // `contended`.
        let change = |bits| change(Life::unpack(bits)).map(Life::pack);
        self.life.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok().map(Life::unpack)
    }

    /// Marks one transaction of this member as a victim, if it is in one of these states. Exactly one of all who try
    /// succeeds, and none when the transaction has passed its commit point (invariant 6). Nobody is preempted who has been
    /// promoted, or has just inherited that (invariant 8).
    pub(super) fn doom(&self, serial: u64, from: &[State], error: RequestError) -> Option<Life> {
        self.shift(|life| {
            (life.serial == serial && from.contains(&life.state))
                .then_some(Life { state: State::Doomed(error), ..life })
        })
    }

    /// An error if it is a victim.
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        match self.state() {
            State::Doomed(error) => Err(error),
            state => {
                assert_eq!(state, State::Running, "invariant 5: only a running transaction asks");
                Ok(())
            }
        }
    }

    /// How often the work of its transaction was rolled back before.
    pub(super) fn rollbacks(&self) -> u32 {
        // Relaxed: it changes before the state says that the transaction has begun.
        self.rollbacks.load(Ordering::Relaxed)
    }

    /// The priority that its transaction began with, promotion included.
    pub(super) fn initial_priority(&self) -> Priority {
        priority_of(self.initial_priority.load(Ordering::Relaxed))
    }

    /// What stays the same as long as a transaction lives. To be called before it begins.
    pub(super) fn set_initial(&self, priority: Priority, rollbacks: u32) {
        self.initial_priority.store(priority.level(), Ordering::Relaxed);
        self.rollbacks.store(rollbacks, Ordering::Relaxed);
    }

    /// The number of a wait that begins, or goes on from a better place.
    pub(super) fn next_wait(&self) -> u64 {
        let mut waiting = self.waiting.lock();
        waiting.sequence += 1;
        waiting.sequence
    }

    /// How many names it holds that it has asked for.
    pub(super) fn locks(&self) -> u32 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Counts a grant. Relaxed and in two steps: it is called by the member's own thread, or by the one that grants while
    /// that one waits; the wake-up orders the two.
    pub(super) fn count_grant(&self) {
        self.locks.store(self.locks() + 1, Ordering::Relaxed);
    }

    /// Counts a release, by the member's own thread.
    pub(super) fn count_release(&self) {
        let locks = self.locks();
        assert!(locks > 0, "invariant 2: a lock is released that is not held");
        self.locks.store(locks - 1, Ordering::Relaxed);
    }

    /// Remembers that somebody waits behind it for a name. To be called before its state is looked at: either who calls sees
    /// that the member waits, or the member, which looks at these names after it has begun to wait, sees the name.
    pub(super) fn note_contended(&self, name: LockName) {
        let mut contended = self.contended.lock();
        if !contended.contains(&name) {
            contended.push(name);
        }
    }

    /// The names that others have waited for behind it.
    pub(super) fn contended(&self) -> Vec<LockName> {
        self.contended.lock().clone()
    }

    pub(super) fn forget_contended(&self) {
        self.contended.lock().clear();
    }

    /// The name in whose queue one of its transactions is.
    pub(super) fn waits_for(&self, serial: u64) -> Option<LockName> {
        let waiting = self.waiting.lock();
        waiting.name.filter(|_| waiting.serial == serial)
    }
}
