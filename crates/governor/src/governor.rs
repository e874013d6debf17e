//! The state that all threads of a governor share.

mod bell;
mod blocked;
mod commands;
mod doors;
mod events;
mod guards;
mod lever;
mod lines;
mod peers;
mod reach;
mod waits;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};
use plimsoll_policy::{Abandoned, Admission, Asked, Claim, ClassIndex, EndedWork, Paced, Ticket, Waiting};
use plimsoll_settings::governed::Governed;

pub use bell::{Bell, Heard};
pub use blocked::{Blocked, LeftAlone};
pub use commands::{MainCommand, SessionCommand, WorkerCommand, WorkerHandle};
pub(crate) use doors::Closed;
pub use doors::Doors;
pub(crate) use events::CYCLE;
use events::Events;
pub use events::{Outcome, PreemptionEvent};
use lines::Lines;
pub(crate) use lines::Repeated;
use peers::Peers;
pub use reach::Reach;
pub use waits::{refusal_message, waits_for};

use crate::activity::Activity;
use crate::awake::Awake;
use crate::handover::Predecessor;
use crate::history::History;
use crate::registry::{EventId, Phase, Registry, SessionId};
use crate::settings::{Lever, Settings};
use crate::statistics::Statistics;
use crate::targets::Targets;

/// The state that all threads share.
#[derive(Debug)]
pub struct Governor {
    pub(crate) settings: RwLock<Arc<Settings>>,
    /// A number that changes with the settings.
    pub(crate) generation: AtomicU64,
    /// The sessions.
    pub registry: Registry,
    /// Counts and times.
    pub statistics: Statistics,
    /// The known effects of objects that transactions use.
    pub effects: crate::effects::Cache,
    /// What is known about texts before transactions that run them are rolled back.
    pub foresight: crate::effects::Foresight,
    /// What had ended at the server before a transaction that begins now.
    pub horizon: crate::effects::SharedHorizon,
    /// Some database has code that catches errors or sets timeouts: which transactions run it is to be known.
    pub(crate) code_catches: AtomicBool,
    /// Wakes the watcher.
    pub bell: Bell,
    /// Keeps idle cores awake while important transactions are at work.
    pub(crate) awake: Awake,
    /// The pools of server connections.
    pub pools: crate::pool::pools::Pools,
    /// What is known of the passwords of roles.
    pub(crate) credentials: crate::credentials::Source,
    /// The capture that is being written.
    pub capture: crate::capture::Capturing,
    /// Whether a server process now serves a class with another CPU share than before.
    shares_are_due: AtomicBool,
    /// Which parts work and which do not, for operators.
    pub health: Mutex<Health>,
    /// The version, newer than this governor, on which transactions are replayed all the same; 0 for none.
    trusted_version: AtomicU32,
    /// Which statements ran in the last minute.
    pub activity: Mutex<Activity>,
    /// The units that wait for locks, as the last look has shown them.
    pub(crate) blocked: Mutex<Vec<Blocked>>,
    /// Whether the server could be reached when it was last tried.
    pub reach: Reach,
    /// The counts of the last seconds.
    pub history: Mutex<History>,
    /// The targets of classes, and how well they are met.
    pub targets: Mutex<Targets>,
    /// Transactions of more important sessions at the server that have ended, as far as they are counted.
    pub direct_work: Mutex<EndedWork>,
    /// Statements that are governed from the console.
    pub(crate) governed: Mutex<Vec<Governed>>,
    /// The settings file, which `RELOAD` reads again.
    pub config_file: OnceLock<PathBuf>,
    /// Whether it was started with `--beside`, which overrides the file.
    pub is_beside_asked: OnceLock<bool>,
    /// Sends the request to end to the main thread.
    pub main: OnceLock<Sender<MainCommand>>,
    /// Whether it refuses new clients and waits for its sessions to end.
    pub is_draining: AtomicBool,
    pub(crate) admission: Mutex<Admission>,
    /// What classes with a rate have begun, while that is only counted.
    budgets: Mutex<BTreeMap<ClassIndex, Paced>>,
    workers: OnceLock<Vec<WorkerHandle>>,
    events: Mutex<Events>,
    lines: Lines,
    /// Databases that are closed to new clients.
    pub(crate) doors: Doors,
    peers: Peers,
    /// Earlier governors that may still have sessions.
    pub(crate) predecessors: Mutex<Vec<Predecessor>>,
    /// When the governor started: the origin of the times that policies see.
    pub started: Instant,
}

/// Which parts work and which do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// When the control connection was established; `None` while it is down.
    pub control_up: Option<SystemTime>,
    /// Why it is down.
    pub control_error: Option<String>,
    /// Whether another governor is active beside the server, so that nothing is expected of this one.
    pub stands_by: bool,
    /// Why the governor does not see the sessions that it should govern, if so.
    pub blind: Option<String>,
    /// What is known from each pooler in front of the server, in words.
    pub poolers: Vec<String>,
    /// When `synchronous_standby_names` was last seen to be set.
    pub standbys_seen: Option<Instant>,
    /// The levers in words: `preemption`, on or off, why.
    pub levers: Vec<Lever>,
    /// Server processes whose CPU share cannot be changed, and why.
    pub untouchable: Vec<(i32, String)>,
    /// The number of the server's cores; `None` while unknown, as for a server on another machine.
    pub server_cores: Option<u32>,
    /// Why SQL alone remains, and whether the machine is out of reach; `None` if processes can be changed, or unknown.
    pub by_sql_alone: Option<(String, bool)>,
    /// Why nothing is replayed on this version of the server; `None` if replays are possible.
    pub replay_off: Option<String>,
    /// How many server processes are confined to a part of the last-level cache.
    pub cache_confined: usize,
    /// The limit of the disk reads of classes that yield, together, in bytes per second; `None` if unlimited.
    pub disk_limit: Option<u64>,
    /// Their disk reads; `None` while unknown, or if they cannot be limited.
    pub disk_reading: Option<DiskReading>,
}

impl Health {
    /// Whether commits of the server may wait for standbys, as far as is known. They may for some time after the setting is
    /// gone: sessions read it at a moment of their own, and the checkpointer, which wakes those that wait, has other work.
    pub(crate) fn commits_may_wait(&self, now: Instant) -> bool {
        const AFTERWARDS: Duration = Duration::from_secs(15);
        self.standbys_seen.is_some_and(|seen| now.saturating_duration_since(seen) < AFTERWARDS)
    }
}

/// Disk reads of the classes that yield, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskReading {
    /// Their recent rate, in bytes per second.
    pub read_bytes_per_s: u64,
    /// The lowest limit, in bytes per second, by `floor_percent` and the observed throughput of the disk.
    pub least: u64,
}

impl Governor {
    /// A new governor with these settings.
    pub fn new(settings: Settings, now: Instant) -> Self {
        let limits = settings.classes.iter().map(|class| class.limits.clone()).collect();
        let mut admission = Admission::new(settings.total_mpl, limits);
        admission.set_paces(settings.paces());
        Governor {
            statistics: Statistics::new(settings.classes.iter().map(|class| class.name.clone())),
            admission: Mutex::new(admission),
            budgets: Mutex::default(),
            settings: RwLock::new(Arc::new(settings)),
            generation: AtomicU64::new(0),
            registry: Registry::default(),
            effects: crate::effects::Cache::default(),
            foresight: crate::effects::Foresight::default(),
            horizon: crate::effects::SharedHorizon::default(),
            code_catches: AtomicBool::new(false),
            bell: Bell::default(),
            awake: Awake::new(now),
            pools: crate::pool::pools::Pools::default(),
            credentials: crate::credentials::Source::default(),
            capture: crate::capture::Capturing::default(),
            shares_are_due: AtomicBool::new(false),
            health: Mutex::default(),
            trusted_version: AtomicU32::new(0),
            activity: Mutex::default(),
            blocked: Mutex::default(),
            reach: Reach::default(),
            history: Mutex::default(),
            targets: Mutex::default(),
            direct_work: Mutex::default(),
            governed: Mutex::default(),
            config_file: OnceLock::new(),
            is_beside_asked: OnceLock::new(),
            main: OnceLock::new(),
            is_draining: AtomicBool::new(false),
            workers: OnceLock::new(),
            events: Mutex::default(),
            lines: Lines::default(),
            doors: Doors::default(),
            peers: Peers::default(),
            predecessors: Mutex::default(),
            started: now,
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    /// A number that changes whenever the settings do, so that a thread can keep a copy of them until then.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A session's question has shown a horizon. The control connection, if there is one, knows better.
    pub(crate) fn shows_horizon(&self, settings: &Settings, seen: Option<crate::effects::Horizon>) {
        if settings.control.is_none() && seen.is_some() {
            self.horizon.set(seen);
        }
    }

    /// A moment in the form that policies receive.
    pub fn clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    /// Sets the workers; called once, before any of them accepts a client.
    pub fn set_workers(&self, workers: Vec<WorkerHandle>) {
        assert!(self.workers.set(workers).is_ok(), "workers are started once");
    }

    /// Sends a session a command, through its worker.
    pub fn tell(&self, worker: usize, session: SessionId, command: SessionCommand) {
        if let Some(handle) = self.workers.get().and_then(|workers| workers.get(worker)) {
            handle.send(WorkerCommand::Session(session, command));
        }
    }

    pub(crate) fn tell_all(&self, command: impl Fn() -> WorkerCommand) {
        self.workers.get().into_iter().flatten().for_each(|worker| worker.send(command()));
    }

    /// Whether it serves no client; a governor beside its server serves none.
    pub(crate) fn serves_nobody(&self) -> bool {
        self.settings().is_beside || self.registry.relayed() == 0
    }

    /// Whether a drain is over.
    pub(crate) fn awaits_nobody(&self) -> bool {
        self.settings().is_beside || self.registry.awaited() == 0
    }

    /// Requests admission for a transaction. Its session's number is the ticket.
    pub(crate) fn ask_admission(&self, claim: Claim, now: Instant) -> Asked {
        self.admission.lock().ask(claim, self.clock(now))
    }

    /// A transaction of that class has left; sessions that are now admitted are notified.
    pub fn leave(&self, class: ClassIndex, now: Instant) {
        let admitted = self.admission.lock().leave(class, self.clock(now));
        self.tell_admitted(admitted);
    }

    /// A session no longer waits for admission; if it was admitted, it must leave. If its wait has expired, the command
    /// for that is on its way.
    pub fn abandon(&self, session: SessionId) -> Abandoned {
        self.admission.lock().abandon(Ticket(session.0))
    }

    /// The same for a session that ends, and receives no more commands.
    pub(crate) fn abandon_for_good(&self, session: SessionId) -> Abandoned {
        let mut admission = self.admission.lock();
        let abandoned = admission.abandon(Ticket(session.0));
        admission.confirm_expired(Ticket(session.0));
        abandoned
    }

    /// A session has learned that its transaction has waited for too long.
    pub fn confirm_expired(&self, session: SessionId) {
        self.admission.lock().confirm_expired(Ticket(session.0));
    }

    /// The transactions that wait for admission.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.admission.lock().waiting()
    }

    /// How many transactions of a class are inside.
    pub fn inside(&self, class: ClassIndex) -> u32 {
        self.admission.lock().inside(class)
    }

    pub(crate) fn tell_admitted(&self, admitted: impl IntoIterator<Item = Ticket>) {
        for ticket in admitted {
            self.tell_ticket(ticket, SessionCommand::Admitted);
        }
    }

    fn tell_ticket(&self, Ticket(session): Ticket, command: SessionCommand) {
        if let Some(card) = self.registry.get(SessionId(session)) {
            self.tell(card.worker, card.id, command);
        }
    }

    /// A server process is to get another CPU share now.
    pub(crate) fn change_shares(&self) {
        // Release: pairs with `take_changed_shares`; the class was written under the card's lock before.
        if !self.shares_are_due.swap(true, Ordering::Release) {
            self.bell.wake(Heard::Shares);
        }
    }

    /// Whether `change_shares` was called since the last call of this function.
    pub(crate) fn take_changed_shares(&self) -> bool {
        self.shares_are_due.swap(false, Ordering::Acquire)
    }

    /// The units that wait for locks and still do as far as their sessions know, by the last look.
    pub fn blocked(&self) -> Vec<Blocked> {
        let all = self.blocked.lock().clone();
        let waits = |blocked: &Blocked| {
            self.registry.get(blocked.waiter).is_some_and(|card| {
                let state = card.state();
                state.phase == Phase::Active && (state.transaction, state.unit) == blocked.unit
            })
        };
        all.into_iter().filter(waits).collect()
    }

    /// Records a preemption, under a new number, before it is carried out.
    pub fn note(&self, event: PreemptionEvent) -> EventId {
        let (id, lines) = self.events.lock().note(event, self.second());
        lines.into_iter().for_each(events::Line::write);
        id
    }

    /// Sets the outcome of a preemption. The first outcome stands; one for a forgotten event is discarded.
    pub fn settle(&self, id: EventId, outcome: Outcome) {
        let lines = self.events.lock().settle(id, outcome, self.second());
        lines.into_iter().for_each(events::Line::write);
    }

    /// Whether a line of that kind is logged now, or only counted because there were too many in this second.
    pub(crate) fn logs(&self, kind: Repeated) -> bool {
        self.lines.takes(kind, self.second())
    }

    /// Logs how many lines of an earlier second were only counted, if any.
    pub(crate) fn log_left_out(&self) {
        self.lines.tell_left_out(self.second());
        let lines = self.events.lock().unlogged(self.second());
        lines.into_iter().for_each(events::Line::write);
    }

    /// The last preemptions, oldest first.
    pub fn events(&self) -> Vec<PreemptionEvent> {
        self.events.lock().list()
    }

    /// The current second since the governor's start.
    fn second(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}

#[cfg(test)]
mod tests;
