//! The known facts about each session, for all threads except the worker that serves it.
//!
//! A card is changed by its worker a few times per transaction and read by the watcher, the console and the metrics; its lock is
//! nearly always free.
//!
//! **Invariant:** while [`Cancels::in_flight`] is above zero the session sends nothing to its server. A thread that
//! wants to cancel increments it under the card's lock, where it sees which unit is in flight; the session begins a
//! unit under the same lock. A cancel that is aimed at one unit therefore never hits another.

mod aiming;
mod cancels;
mod claim;
mod immunity;
mod key;
mod leaving;
mod timeouts;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use plimsoll_policy::{ClassIndex, CycleLoss, Login, NoReplay};

use crate::statement::patience::Timeouts;
pub use cancels::{Cancels, Stake};
pub use immunity::Immunity;
pub use key::BackendKey;
pub(crate) use timeouts::have_used;

/// Identifies a session while the governor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A preemption that was noted, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u64);

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its client is logging in.
    Starting,
    /// No transaction is open.
    Idle,
    /// Its transaction is waiting for admission.
    Queued,
    /// The server is working on its unit.
    Active,
    /// A transaction is open, and the server waits for the client.
    IdleInTransaction,
    /// Its transaction was rolled back for another: it is being replayed, or will be when its client sends a unit.
    Preempted,
    /// All messages are passed on unread.
    Ungoverned,
}

impl Phase {
    /// Whether the server works for a transaction of the session, or keeps it open.
    pub(crate) fn is_inside(self) -> bool {
        matches!(self, Phase::Active | Phase::IdleInTransaction | Phase::Preempted)
    }

    /// The phase in words: PostgreSQL's where one exists.
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

/// Why a transaction has its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// The rule with this index, or the default if no rule matched.
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

/// The variable state of a session.
#[derive(Debug, Clone)]
pub struct CardState {
    /// The class of the transaction, or of the session if no transaction is open.
    pub class: ClassIndex,
    /// Why it has this class.
    pub chosen_by: ChosenBy,
    /// Whether the class is known to be that of the transaction: which client a pooler's server process serves takes a
    /// moment to find out.
    pub is_class_certain: bool,
    /// The class of the last admitted transaction, or of the login before the first: the server's process has its CPU
    /// share. It is kept between transactions, because the next is most likely in the same class.
    pub served: ClassIndex,
    /// What the session is doing.
    pub phase: Phase,
    /// Since when it has been in this phase.
    pub since: Instant,
    /// When the transaction entered; between transactions, when the previous one did.
    pub transaction_since: Instant,
    /// The transaction's number, counted within the session from 1; it changes when a transaction begins.
    pub transaction: u64,
    /// How long the server has worked on the transaction's answered units, including waits for locks.
    pub work: Duration,
    /// The number of the unit (a query, or all messages up to a Sync), counted within the session from 1.
    pub unit: u64,
    /// How often this transaction has been rolled back for others.
    pub rollbacks: u32,
    /// How often this transaction was replayed after the server aborted it, or after it was rolled back to break a
    /// cycle.
    pub aborts: u32,
    /// How a rollback now, to break a cycle of waiters, would affect its client; `None` if it must not be rolled back.
    pub cycle_loss: Option<CycleLoss>,
    /// The shortest timeouts that its client may have set: the server ends its statements by itself.
    pub(crate) timeouts: Timeouts,
    /// The shortest timeouts of its role, its database and the server, and when the server was asked.
    pub(crate) default_timeouts: Option<(Timeouts, Instant)>,
    /// Since when its client waits for its unit in flight, in earlier runs of it, too.
    pub asked: Instant,
    /// The clients of its class do not retry.
    pub must_replay: bool,
    /// Whether it may be rolled back now: its class permits it, and nothing makes it immune.
    pub preemptible: bool,
    /// Why it is immune, if its class permits rollbacks.
    pub immune: Option<Immunity>,
    /// Whether its unit in flight may reach a commit by itself: it began outside of a block.
    pub may_commit: bool,
    /// Whether it could be replayed, as far as is known.
    pub replayable: Result<(), NoReplay>,
    /// Code that its transaction runs may catch errors or set timeouts, as far as is known.
    pub may_catch: bool,
    /// Whether its transaction has exported a snapshot, in a class with a limit.
    pub exports_snapshot: bool,
    /// Whether its client waits for a server's answer, which it could cancel.
    pub is_awaited: bool,
    /// Since when it waits for a connection of its pool.
    pub waits_for_connection: Option<Instant>,
    /// Why it keeps its connection of the pool.
    pub pinned: Option<String>,
    /// Its pool puts its settings in force on a connection: a cancel would meet that in place of its own statement.
    pub is_being_prepared: bool,
    /// The unit that has returned more rows than its class permits.
    pub exceeds_rows: Option<u64>,
    /// Cancels under way.
    pub cancels: Cancels,
    /// The server's own view of it, for a session beside the governor; otherwise `None`.
    pub observed: Option<Observed>,
}

impl CardState {
    /// Whether its client waits for admission or for a connection of its pool.
    pub(crate) fn is_waiting(&self) -> bool {
        self.phase == Phase::Queued || self.waits_for_connection.is_some()
    }

    /// Why it must not be rolled back now, if its class permits rollbacks; `commits_wait` says whether commits of the
    /// server may wait for standbys.
    pub(crate) fn immunity(&self, commits_wait: bool, now: Instant) -> Option<Immunity> {
        let may_wait = self.preemptible && self.may_wait_for_standby(commits_wait);
        let is_late = self.preemptible && self.must_replay && self.has_used_timeout(now);
        let standby = may_wait.then_some(Immunity::Standby);
        self.immune.or(standby).or(is_late.then_some(Immunity::Timeout))
    }

    /// Whether its unit in flight may be waiting for a standby, or may begin to; `commits_wait` says whether commits of the
    /// server may wait.
    pub(crate) fn may_wait_for_standby(&self, commits_wait: bool) -> bool {
        commits_wait && self.may_commit && self.phase == Phase::Active
    }

    /// Whether the server's process works for that transaction.
    pub(crate) fn is_working_on(&self, transaction: u64) -> bool {
        self.phase.is_inside() && self.transaction == transaction
    }
}

/// A server's view of a session that a client opened there directly. Times are the server's, in microseconds since
/// 1970: together they identify the statement and the transaction that were observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observed {
    /// When its server process began.
    pub process_began: i64,
    /// When its transaction began; `None` if none is open.
    pub transaction_began: Option<i64>,
    /// When its last statement began; `None` before the first.
    pub statement_began: Option<i64>,
    /// When its present state began.
    pub state_since: i64,
    /// Whether it waits for a lock.
    pub waits_for_lock: bool,
    /// Whether its transaction would be a victim if its class opted in.
    pub is_tracked: bool,
}

/// In place of a worker's number: no worker serves the session, and commands to it are discarded.
pub const NO_WORKER: usize = usize::MAX;

/// One session.
#[derive(Debug)]
pub struct SessionCard {
    /// Its number.
    pub id: SessionId,
    /// The worker that serves it, or [`NO_WORKER`].
    pub worker: usize,
    /// When its client connected.
    pub opened: Instant,
    /// The client's address, in readable form.
    pub peer: String,
    /// User, database and application.
    pub login: Login,
    /// A hash of that by which room is shared evenly within a class (`fair_by`).
    pub tenant: u64,
    /// The key by which its client cancels its statements: the server's own, or, for a session of a pool, one that the
    /// governor has made up.
    pub key: OnceLock<BackendKey>,
    /// For a session of a pool: the key of the server process that serves it now, if one does.
    loan: OnceLock<Mutex<Option<Arc<BackendKey>>>>,
    /// A hash of the start-up parameters besides its login, once they are known.
    pub parameters: OnceLock<u64>,
    /// The start-up parameters besides user and database, in the client's order, once they are known.
    pub startup: OnceLock<Box<[(String, String)]>>,
    /// Whether it ends as soon as it is idle, so that its client connects again.
    ends_when_idle: AtomicBool,
    state: Mutex<CardState>,
}

impl SessionCard {
    /// A new session.
    pub fn new(id: SessionId, worker: usize, peer: String, login: Login, class: ClassIndex, now: Instant) -> Self {
        let state = CardState {
            class,
            chosen_by: ChosenBy::Rule(None),
            is_class_certain: true,
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
            timeouts: Timeouts::default(),
            default_timeouts: None,
            asked: now,
            must_replay: false,
            preemptible: false,
            immune: None,
            may_commit: true,
            replayable: Ok(()),
            may_catch: true,
            exports_snapshot: false,
            is_awaited: false,
            waits_for_connection: None,
            pinned: None,
            is_being_prepared: false,
            exceeds_rows: None,
            cancels: Cancels::default(),
            observed: None,
        };
        let (key, parameters, startup) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (ends_when_idle, state, loan) = (AtomicBool::new(false), Mutex::new(state), OnceLock::new());
        SessionCard {
            id,
            worker,
            opened: now,
            peer,
            login,
            tenant: 0,
            key,
            loan,
            parameters,
            startup,
            ends_when_idle,
            state,
        }
    }

    /// The variable state; hold the lock briefly, and never those of two cards at once.
    pub fn state(&self) -> MutexGuard<'_, CardState> {
        self.state.lock()
    }

    /// Its server process, once it is known; of a session of a pool, the one that serves it now.
    pub fn process(&self) -> Option<i32> {
        match self.loan.get() {
            Some(loan) => loan.lock().as_ref().map(|key| key.process),
            None => self.key.get().map(|key| key.process),
        }
    }

    /// The key that cancels what its server process does now.
    pub fn server_key(&self) -> Option<BackendKey> {
        match self.loan.get() {
            Some(loan) => loan.lock().as_deref().cloned(),
            None => self.key.get().cloned(),
        }
    }

    /// The session is of a pool: that server process serves it from now on, or none.
    pub(crate) fn is_served_by(&self, key: Option<Arc<BackendKey>>) {
        *self.loan.get_or_init(Mutex::default).lock() = key;
    }

    /// Aims a cancel for another transaction at a unit, if the unit is still in flight and may be preempted; from now
    /// until [`cancel_arrived`](Self::cancel_arrived) the session sends nothing.
    pub fn aim_preemption(&self, transaction: u64, unit: u64) -> bool {
        self.aim(transaction, unit, false)
    }

    /// As [`aim_preemption`](Self::aim_preemption), but to break a cycle of waiters, if the transaction may be rolled
    /// back for that.
    pub fn aim_at_cycle(&self, transaction: u64, unit: u64) -> bool {
        self.aim(transaction, unit, true)
    }

    fn aim(&self, transaction: u64, unit: u64, breaks_cycle: bool) -> bool {
        let mut state = self.state();
        let is_there = state.phase == Phase::Active && (state.transaction, state.unit) == (transaction, unit);
        let may_be_rolled_back = if breaks_cycle { state.cycle_loss.is_some() } else { state.preemptible };
        if !is_there || state.is_being_prepared || !may_be_rolled_back || state.cancels.preempting == Some(unit) {
            return false;
        }
        state.cancels.in_flight += 1;
        state.cancels.preempting = Some(unit);
        state.cancels.breaks_cycle = breaks_cycle;
        true
    }

    /// Begins a unit and returns its number, unless a cancel is on its way or its effect is not known yet. `is_alone`
    /// says whether everything before the unit has been answered.
    pub(crate) fn begin_unit(&self, is_alone: bool) -> Result<u64, Held> {
        let mut state = self.state();
        if state.cancels.in_flight > 0 {
            return Err(Held::UntilCancelArrives);
        }
        if state.cancels.preempting.is_some() && !is_alone {
            // The error that will come must be attributed to the cancelled unit.
            return Err(Held::UntilAnswered);
        }
        state.unit += 1;
        (state.preemptible, state.cycle_loss) = (false, None);
        (state.cancels.preempting, state.cancels.runaway) = (None, None);
        Ok(state.unit)
    }

    /// A cancel has arrived at the server's process, or never will: `signalled` says whether it was sent. The caller
    /// must then send the session `SessionCommand::CancelArrived`.
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
    /// A number for a new session.
    pub fn next_id(&self) -> SessionId {
        // Relaxed: it only has to be unique.
        SessionId(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Adds a session.
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

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.cards.lock().len()
    }

    /// Whether no sessions are open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of sessions whose clients come through the governor.
    pub fn relayed(&self) -> usize {
        self.cards.lock().values().filter(|card| !card.is_direct()).count()
    }

    /// The number of those for which a drain waits: it cannot know when one that is not governed is between two
    /// transactions, and a standby never is.
    pub fn awaited(&self) -> usize {
        let is_awaited = |card: &&Arc<SessionCard>| !card.is_direct() && card.state().phase != Phase::Ungoverned;
        self.all().iter().filter(is_awaited).count()
    }

    /// The known server processes of these sessions.
    pub(crate) fn relayed_processes(&self) -> BTreeSet<i32> {
        self.cards.lock().values().filter(|card| !card.is_direct()).filter_map(|card| card.process()).collect()
    }

    /// The session with this server process and secret. Secrets are compared in constant time.
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
