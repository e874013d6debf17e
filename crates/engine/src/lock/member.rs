//! A participant of the lock table: the state of its transaction, its place to sleep, and the data that other threads
//! leave with it.

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
    /// A cycle of waits cannot be granted, and this transaction was chosen as the victim.
    #[error("deadlock victim")]
    Deadlock,
    /// The transaction is to be rolled back for the sake of a more important one.
    #[error("preempted by a more important transaction")]
    Preempted,
}

/// The state of a participant's transaction. The [manual](super) has the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has no transaction, holds nothing and waits for nothing.
    Idle,
    /// Its transaction is running.
    Running,
    /// Its transaction is in the queue of one name.
    Waiting,
    /// Its transaction has been chosen as a victim. Its next request fails, and so does its commit.
    Doomed(RequestError),
    /// It commits or rolls back; no other transaction can roll it back any more.
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
    /// Whether a holder that blocked the request was preempted, and rolled back, while it waited.
    pub preempted: bool,
}

/// The outcome of a request that had to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// [`Answer::Granted`], [`Answer::Converted`], or an error.
    pub outcome: Result<Answer, RequestError>,
    /// How long it waited.
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
    /// The number of names it holds: for the choice of a victim, and to check that it ends with none.
    locks: AtomicU32,
    pub(super) waiting: Mutex<Waiting>,
    pub(super) wake: Condvar,
    /// Its requests for tables.
    pub(super) intents: Mutex<Vec<Intent>>,
    /// Gaps that it inherited because gaps merged.
    pub(super) inherited: Mutex<Vec<LockName>>,
    /// Names that it holds and for which others have waited behind it. Only for schedulers that do not leave holders
    /// alone.
    contended: Mutex<Vec<LockName>>,
    pub(super) thread_priority: ThreadPriority,
}

/// A member's wait, which may have ended. The name changes under the lock of its partition only.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The name in whose queue it is, until it is woken.
    pub(super) name: Option<LockName>,
    /// The transaction that waits.
    pub(super) serial: u64,
    /// Increases with each wait and with each better place, so that waits can be told apart.
    pub(super) sequence: u64,
    /// When it asked.
    pub(super) requested: Duration,
    /// Whether a holder that blocks it was preempted, since it asked.
    pub(super) preempted: bool,
    /// The last name that it waited for and the decision, until the member has read it.
    pub(super) decision: Option<(LockName, Decision)>,
    /// Deadlines of holders for which it still waits.
    pub(super) reprieves: Vec<Reprieve>,
}

/// A holder that has some time left before it is rolled back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reprieve {
    pub(super) holder: Slot,
    /// Its transaction.
    pub(super) serial: u64,
    /// When the time is over, on the table's clock.
    pub(super) ends: Duration,
}

impl Waiting {
    /// The earliest deadline of a reprieve.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.name?;
        self.reprieves.iter().map(|reprieve| reprieve.ends).min()
    }
}

/// A member's transaction, at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    /// Identifies the transaction, so that a decision never hits a later one.
    pub(super) serial: u64,
    /// Its present priority, inherited or promoted included.
    pub(super) priority: Priority,
    /// Its CPU priority: never below the present one.
    pub(super) cpu: Priority,
    pub(super) state: State,
}

impl Life {
    const IDLE: Life = Life { serial: 0, priority: Priority::LOW, cpu: Priority::LOW, state: State::Idle };

    /// At a million transactions per second, the 2^45 serial numbers last for more than a year.
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

    /// The state of its transaction.
    pub fn state(&self) -> State {
        self.life().state
    }

    pub(super) fn life(&self) -> Life {
        Life::unpack(self.life.load(Ordering::Acquire))
    }

    /// Changes its life in one atomic step, unless `change` returns `None`; returns the life before. All races between
    /// a member and threads that decide about it are decided here.
    pub(super) fn shift(&self, mut change: impl FnMut(Life) -> Option<Life>) -> Option<Life> {
        // Acquire and release: a thread that sees a state sees everything written before the state was set. A member
        // that begins to wait, and another that begins to wait behind it, cannot miss each other; the mutex of
        // `contended` ensures that.
        let change = |bits| change(Life::unpack(bits)).map(Life::pack);
        self.life.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok().map(Life::unpack)
    }

    /// Marks one transaction of this member as a victim, if it is in one of these states. Exactly one of several
    /// attempts succeeds, and none after the transaction has passed its commit point (invariant 6). A promoted
    /// transaction is not preempted, nor one that has just inherited promotion (invariant 8).
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

    /// Sets the values that stay the same throughout a transaction. To be called before it begins.
    pub(super) fn set_initial(&self, priority: Priority, rollbacks: u32) {
        self.initial_priority.store(priority.level(), Ordering::Relaxed);
        self.rollbacks.store(rollbacks, Ordering::Relaxed);
    }

    /// The number of a wait that begins, or that continues at a better place.
    pub(super) fn next_wait(&self) -> u64 {
        let mut waiting = self.waiting.lock();
        waiting.sequence += 1;
        waiting.sequence
    }

    /// The number of names that it holds by its own requests.
    pub(super) fn locks(&self) -> u32 {
        self.locks.load(Ordering::Relaxed)
    }

    /// Counts a grant. Relaxed and in two steps: the caller is the member's own thread, or the granting thread while
    /// that one waits. The wake-up orders the two.
    pub(super) fn count_grant(&self) {
        self.locks.store(self.locks() + 1, Ordering::Relaxed);
    }

    /// Counts a release, by the member's own thread.
    pub(super) fn count_release(&self) {
        let locks = self.locks();
        assert!(locks > 0, "invariant 2: a lock is released that is not held");
        self.locks.store(locks - 1, Ordering::Relaxed);
    }

    /// Records that a request waits behind it for a name. To be called before its state is read: either the caller sees
    /// that the member waits, or the member sees the name, because it reads these names after it has begun to wait.
    pub(super) fn note_contended(&self, name: LockName) {
        let mut contended = self.contended.lock();
        if !contended.contains(&name) {
            contended.push(name);
        }
    }

    /// The names for which others have waited behind it.
    pub(super) fn contended(&self) -> Vec<LockName> {
        self.contended.lock().clone()
    }

    pub(super) fn forget_contended(&self) {
        self.contended.lock().clear();
    }

    /// The name in whose queue this transaction waits.
    pub(super) fn waits_for(&self, serial: u64) -> Option<LockName> {
        let waiting = self.waiting.lock();
        waiting.name.filter(|_| waiting.serial == serial)
    }
}
