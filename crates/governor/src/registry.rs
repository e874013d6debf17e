//! The known facts about each session, for all threads except the worker that serves it.
//!
//! A card is changed by its worker a few times per transaction and read by the watcher, the console and the metrics; its lock is
//! nearly always free.
//!
//! **Invariant:** while [`Cancels::in_flight`] is above zero the session sends nothing to its server. A thread that wants to
//! cancel sets that under the card's lock, where it sees which unit is in flight; the session begins a unit under the same lock.
//! A cancel that is aimed at one unit therefore never meets another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use plimsoll_policy::{ClassIndex, CycleLoss, Login, NoReplay};

use crate::governor::EventId;

/// A session, for as long as the governor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its client is being let in.
    Starting,
    /// No transaction.
    Idle,
    /// A transaction that is not let in yet.
    Queued,
    /// The server works for it.
    Active,
    /// Within a transaction that waits for its client.
    IdleInTransaction,
    /// It was rolled back for another: it is being run again, or will be when its client speaks.
    Preempted,
    /// Everything is passed on uninspected.
    Ungoverned,
}

impl Phase {
    /// In words, as PostgreSQL says it where it has a word.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Idle => "idle",
            Phase::Queued => "queued",
            Phase::Active => "active",
            Phase::IdleInTransaction => "idle in transaction",
            Phase::Preempted => "preempted",
            Phase::Ungoverned => "ungoverned",
        }
    }
}

/// Why a transaction must not be rolled back now although its class may be. Sessions that wait for its locks go on waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Immunity {
    /// Its end was asked for, or could have been: COMMIT was sent, or a text too long to be read.
    MayHaveEnded,
    /// A statement outside of a block that may commit by itself, or has effects that no rollback undoes: CALL, DO, VACUUM.
    OutsideBlock,
    /// Data is being copied.
    Copy,
    /// The client has not ended what it asks by a Sync, and may wait for an answer to a Flush: a rollback would have no place there.
    UnitOpen,
    /// The client has asked for more before it got an answer.
    Pipeline,
    /// It has failed already, and holds no locks.
    Failed,
    /// Its client thinks, and relies on an advisory lock meanwhile.
    AdvisoryLock,
    /// The clients of its class do not retry, and it could not be replayed, or its client thinks.
    NoRetry,
}

impl Immunity {
    /// All of them.
    pub const ALL: [Immunity; 8] = [
        Immunity::MayHaveEnded,
        Immunity::OutsideBlock,
        Immunity::Copy,
        Immunity::UnitOpen,
        Immunity::Pipeline,
        Immunity::Failed,
        Immunity::AdvisoryLock,
        Immunity::NoRetry,
    ];

    /// The word that people see; it stays as it is.
    pub fn name(self) -> &'static str {
        match self {
            Immunity::MayHaveEnded => "may-have-ended",
            Immunity::OutsideBlock => "outside-block",
            Immunity::Copy => "copy",
            Immunity::UnitOpen => "unit-open",
            Immunity::Pipeline => "pipeline",
            Immunity::Failed => "failed",
            Immunity::AdvisoryLock => "advisory-lock",
            Immunity::NoRetry => "no-retry",
        }
    }
}

/// Why a transaction has its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// That rule, or none and so the default.
    Rule(Option<usize>),
    /// `SET plimsoll.class`.
    Setting,
    /// A tag in a comment.
    Tag,
}

/// Why a unit may not begin yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// A cancel is on its way.
    UntilCancelArrives,
    /// A cancel has arrived, and the unit that it was aimed at has not been answered.
    UntilAnswered,
}

/// Cancels that are under way, and whom they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cancels {
    /// How many have been sent and not been seen to arrive.
    pub in_flight: u32,
    /// The unit that we have cancelled for another's sake.
    pub preempting: Option<u64>,
    /// Whether that was to break a cycle of waiters, and not for a more important one.
    pub breaks_cycle: bool,
    /// Whether it waited for a lock when it was aimed at.
    pub was_waiting: bool,
    /// What is to be settled with the outcome of that.
    pub event: Option<EventId>,
    /// What that costs and saves, until it is counted.
    pub stake: Option<Stake>,
    /// The unit that its own client has cancelled.
    pub by_client: Option<u64>,
}

/// What a rollback costs and saves, as expected when it was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stake {
    /// The victim's work that is thrown away: how long the server has worked for its transaction.
    pub lost: Duration,
    /// The waiting of more important transactions that is saved; `None` while too little is known to tell, and for a broken cycle.
    pub won: Option<Duration>,
    /// The class of the transaction that it is done for.
    pub waiter: ClassIndex,
    /// When the look began that decided it.
    pub looked: Instant,
}

/// What changes of a session.
#[derive(Debug, Clone)]
pub struct CardState {
    /// The class of the transaction, or of the session while there is none.
    pub class: ClassIndex,
    /// Why.
    pub chosen_by: ChosenBy,
    /// The class of the last transaction that was let in, of the login before there was one: the server's process has its
    /// share of the cores. It stays between transactions, of which the next is most likely like the last.
    pub served: ClassIndex,
    /// What it is doing.
    pub phase: Phase,
    /// Since when.
    pub since: Instant,
    /// When the transaction came in; the past one's while there is none.
    pub transaction_since: Instant,
    /// The transaction, counted within the session from 1; it changes when one begins.
    pub transaction: u64,
    /// How long the server has worked for the transaction's units that have been answered, their waiting for locks included.
    pub work: Duration,
    /// The unit (a query, or all up to a Sync), counted within the session from 1.
    pub unit: u64,
    /// How often this transaction has been rolled back for others.
    pub rollbacks: u32,
    /// How often the server has failed this transaction, or it was rolled back to break a cycle, and it was run again.
    pub aborts: u32,
    /// What its client gets if it is rolled back now to break a cycle of waiters; `None` if it must not be.
    pub cycle_loss: Option<CycleLoss>,
    /// Whether rolling it back now would be right: its class allows it, and nothing makes it immune.
    pub preemptible: bool,
    /// Why not, if its class allows it.
    pub immune: Option<Immunity>,
    /// Whether it could be replayed, as far as is known.
    pub replayable: Result<(), NoReplay>,
    /// Whether its client waits for an answer of the server, which it could cancel.
    pub is_awaited: bool,
    /// Cancels under way.
    pub cancels: Cancels,
    /// What the server shows of it; `None` for a session that comes through the governor.
    pub observed: Option<Observed>,
}

/// What a server shows of a session that others have opened there directly. Moments are the server's, microseconds since 1970:
/// together they say which statement of which transaction it was that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// When its process began.
    pub process_began: i64,
    /// When its transaction began; `None` without one.
    pub transaction_began: Option<i64>,
    /// When its last statement began; `None` before the first.
    pub statement_began: Option<i64>,
    /// When it began to do what it does.
    pub state_since: i64,
    /// Whether it waits for a lock.
    pub waits_for_lock: bool,
    /// Whether its transaction would be a victim if its class opted in.
    pub is_tracked: bool,
}

/// One session.
#[derive(Debug)]
pub struct SessionCard {
    /// Its number.
    pub id: SessionId,
    /// The worker that serves it.
    pub worker: usize,
    /// When it came.
    pub opened: Instant,
    /// From where, for people.
    pub peer: String,
    /// As whom.
    pub login: Login,
    /// Its server process and the key that cancels; set once the server has told.
    pub key: OnceLock<BackendKey>,
    state: Mutex<CardState>,
}

/// What the server gives a session for cancelling: its process and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendKey {
    /// The process id on the server's machine.
    pub process: i32,
    /// 4 bytes; 4 to 256 with protocol 3.2; none for a session beside the governor, which cannot be cancelled by it.
    pub secret: Box<[u8]>,
}

impl std::fmt::Debug for BackendKey {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BackendKey({})", self.process)
    }
}

impl SessionCard {
    /// A session that begins.
    pub fn new(id: SessionId, worker: usize, peer: String, login: Login, class: ClassIndex, now: Instant) -> Self {
        let state = CardState {
            class,
            chosen_by: ChosenBy::Rule(None),
            served: class,
            phase: Phase::Starting,
            since: now,
            transaction_since: now,
            transaction: 0,
            work: Duration::ZERO,
            unit: 0,
            rollbacks: 0,
            aborts: 0,
            cycle_loss: None,
            preemptible: false,
            immune: None,
            replayable: Ok(()),
            is_awaited: false,
            cancels: Cancels::default(),
            observed: None,
        };
        SessionCard { id, worker, opened: now, peer, login, key: OnceLock::new(), state: Mutex::new(state) }
    }

    /// What changes of it; hold it briefly, and never two cards at once.
    pub fn state(&self) -> MutexGuard<'_, CardState> {
        self.state.lock()
    }

    /// The server's process for it, once that is known.
    pub fn process(&self) -> Option<i32> {
        self.key.get().map(|key| key.process)
    }

    /// Aims a cancel for another's sake at a unit, if it is still in flight and may be preempted; from now until
    /// [`cancel_arrived`](Self::cancel_arrived) the session sends nothing.
    pub fn aim_preemption(&self, transaction: u64, unit: u64) -> bool {
        self.aim(transaction, unit, false)
    }

    /// The same to break a cycle of waiters, if it may be rolled back for that.
    pub fn aim_at_cycle(&self, transaction: u64, unit: u64) -> bool {
        self.aim(transaction, unit, true)
    }

    fn aim(&self, transaction: u64, unit: u64, breaks_cycle: bool) -> bool {
        let mut state = self.state();
        let is_there = state.phase == Phase::Active && (state.transaction, state.unit) == (transaction, unit);
        let may_be_rolled_back = if breaks_cycle { state.cycle_loss.is_some() } else { state.preemptible };
        if !is_there || !may_be_rolled_back || state.cancels.preempting == Some(unit) {
            return false;
        }
        state.cancels.in_flight += 1;
        state.cancels.preempting = Some(unit);
        state.cancels.breaks_cycle = breaks_cycle;
        true
    }

    /// Begins a unit, unless a cancel is on its way or what it has done is not known; its number. `is_alone` says whether everything
    /// before it has been answered.
    pub(crate) fn begin_unit(&self, is_alone: bool) -> Result<u64, Held> {
        let mut state = self.state();
        if state.cancels.in_flight > 0 {
            return Err(Held::UntilCancelArrives);
        }
        if state.cancels.preempting.is_some() && !is_alone {
            // The error that is to come must be known as the cancelled unit's.
            return Err(Held::UntilAnswered);
        }
        state.unit += 1;
        (state.preemptible, state.cycle_loss) = (false, None);
        state.cancels.preempting = None;
        Ok(state.unit)
    }

    /// Aims a client's own cancel at whatever unit is in flight; `None` if the client waits for none, and then nothing is to be sent.
    pub fn aim_client_cancel(&self) -> Option<u64> {
        let mut state = self.state();
        if !state.is_awaited {
            return None;
        }
        state.cancels.in_flight += 1;
        state.cancels.by_client = Some(state.unit);
        Some(state.unit)
    }

    /// A cancel has arrived at the server's process, or will never: `signalled` says whether it was sent. The session must
    /// be told with [`SessionCommand::CancelArrived`](crate::governor::SessionCommand).
    pub fn cancel_arrived(&self, signalled: bool, preempting: bool) {
        let mut state = self.state();
        state.cancels.in_flight = state.cancels.in_flight.saturating_sub(1);
        if preempting && !signalled {
            state.cancels.preempting = None;
        }
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Registry {
    next: AtomicU64,
    cards: Mutex<BTreeMap<SessionId, Arc<SessionCard>>>,
}

impl Registry {
    /// A number for a session that begins.
    pub fn next_id(&self) -> SessionId {
        // Relaxed: nothing but its uniqueness matters.
        SessionId(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Takes a session in.
    pub fn insert(&self, card: Arc<SessionCard>) {
        self.cards.lock().insert(card.id, card);
    }

    /// A session has ended.
    pub fn remove(&self, id: SessionId) {
        self.cards.lock().remove(&id);
    }

    /// One session.
    pub fn get(&self, id: SessionId) -> Option<Arc<SessionCard>> {
        self.cards.lock().get(&id).cloned()
    }

    /// All sessions, oldest first.
    pub fn all(&self) -> Vec<Arc<SessionCard>> {
        self.cards.lock().values().cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cards.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The session whose server process and secret these are. Secrets are compared in constant time.
    pub fn by_key(&self, process: i32, secret: &[u8]) -> Option<Arc<SessionCard>> {
        use subtle::ConstantTimeEq;
        let cards = self.cards.lock();
        let is_it = |card: &&Arc<SessionCard>| {
            let fits = |key: &BackendKey| key.process == process && bool::from(key.secret.ct_eq(secret));
            card.key.get().is_some_and(|key| !key.secret.is_empty() && fits(key))
        };
        cards.values().find(is_it).cloned()
    }
}
