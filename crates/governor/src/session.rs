//! The state machine of one session: bytes in, bytes out. Its design notes are `session/README.md`.
//!
//! It has no socket and no clock: [`Session::on_client`] and [`Session::on_server`] receive the bytes and the time, and
//! write the bytes to send into an [`Outbox`]. A session begins when the server has admitted its client and both wait
//! for the first query.
//!
//! `message` is what a client's message says. `client` handles it, and `server` the server's answers. `begin` handles the beginning of a
//! transaction (admission), `class` its class, `transaction` its known facts, `rewind` a rollback for another
//! transaction, `aborted` an abort by the server, `foresight` what is known before either, `refuse` answers in place of
//! the server, `ending` the ends of both connections. `migration` bounds how long a statement waits for a strong lock.
//! `outstanding`, `prepared` and `recording` keep track of earlier messages; `unit` looks ahead. `residue` adds up what a
//! pooled session leaves in its connection.

mod aborted;
mod answers;
mod begin;
mod class;
mod client;
mod ending;
mod foresight;
mod frames;
mod inquiring;
mod message;
mod migration;
mod outstanding;
mod prepared;
mod recording;
mod refuse;
mod residue;
mod rewind;
mod runaway;
mod server;
#[cfg(test)]
mod tests;
mod transaction;
mod unasked;
mod unit;
mod workers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::SUPPORTED;
use plimsoll_policy::{Abandoned, ClassIndex, Priority};

use crate::governor::{Governor, Outcome, SessionCommand};
use crate::registry::{Phase, SessionCard};
use crate::settings::{ClassSettings, Settings};
use crate::statement::TextRules;
use crate::statement::name::stored;
use crate::statistics::{AbortOutcome, ClassStatistics, DatabaseCount, DatabaseStatistics, count};

pub use answers::Notice;
pub(crate) use answers::{
    END_ANSWERS, OWN_STATEMENT, columns, end, error_response, is_fatal, message as message_of, notice_response,
    parameter_status, ready_for_query, run, sqlstate,
};
use begin::Queued;
use class::Identity;
use foresight::{Learning, Texts};
pub(crate) use frames::Status;
pub use frames::{HEAD_BYTES, Head, INSPECT_MAX};
use migration::Migration;
use outstanding::Outstanding;
use prepared::PreparedNotes;
use recording::Recording;
use refuse::Refusal;
use residue::Trail;
use rewind::{Rewind, RolledBack};
pub(crate) use runaway::limit_of;
use transaction::{Attempts, Transaction};
use workers::{Limiting, Workers};

/// How long a client waits for admission before it receives a notice.
const QUEUE_NOTICE_AFTER: Duration = Duration::from_secs(5);

/// How often the server hears something from a session whose client waits for admission: servers end sessions that are
/// silent (`idle_session_timeout`, `idle_in_transaction_session_timeout`), and this one is not silent by its own choice.
const KEEP_ALIVE_EVERY: Duration = Duration::from_millis(500);

/// A unit that began while no less important transaction was inside is checked again after this time.
const LATE_WITH_NOBODY_BELOW: Duration = Duration::from_millis(50);

/// The most bytes of an answer that are withheld from the client until it is known whether the unit was cancelled.
/// Servers buffer as much themselves (`PQ_SEND_BUFFER_SIZE`), so this adds no delay.
const HELD_MAX: usize = 8 * 1024;

/// The same while a cancel is on its way to a client that does not retry: it must see nothing until the cancel has met its unit.
const HELD_MAX_CANCELLED: usize = 1 << 20;

/// Receives the bytes that a session sends. An implementation keeps bytes that it cannot send at once.
pub trait Outbox {
    /// To the server.
    fn to_server(&mut self, bytes: &[u8]);
    /// To the client.
    fn to_client(&mut self, bytes: &[u8]);
}

/// Why a session cannot continue: one of its peers violated the protocol. The client receives this message if it is
/// still connected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub String);

/// The parameters that a server reports when a session begins, as far as they affect how texts are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reported {
    /// How texts are to be read.
    pub text_rules: TextRules,
    /// The server's version as in `server_version_num`; 0 if it did not say.
    pub version: u32,
}

impl Reported {
    /// Whether the server's version is newer than this governor. Such a server may have functions that must not run
    /// twice and that our lists lack.
    pub(crate) fn is_newer_than_known(&self) -> bool {
        self.version / 10_000 > *SUPPORTED.end()
    }

    /// Reads the body of a `ParameterStatus`.
    pub fn on_parameter(&mut self, body: &[u8]) {
        let Some((name, rest)) = frames::text(body) else { return };
        let Some((value, _)) = frames::text(rest) else { return };
        match name {
            b"server_version" => self.version = version_number(value),
            _ => drop(self.text_rules.on_parameter(name, value)),
        }
    }
}

/// Parses a version as servers report it: `15.18 (Debian 15.18-0+deb12u1)`, `17beta1`.
fn version_number(text: &[u8]) -> u32 {
    let mut numbers = text.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut next = || numbers.next().and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    let major = next().unwrap_or(0);
    let minor = if text.get(2) == Some(&b'.') { next().unwrap_or(0) } else { 0 };
    major.saturating_mul(10_000).saturating_add(minor)
}

/// How messages of the two peers are handled.
#[derive(Debug)]
enum Flow {
    /// They are passed on.
    Relay,
    /// The client's next message waits for admission.
    Queued(Queued),
    /// The client's next unit waits until the server has answered one of our units about a parameter: parallel workers, or waits for
    /// locks.
    Limiting(Limiting),
    /// At rest: the client's next message waits until the server has answered a question of ours about earlier texts.
    Learning(Learning),
    /// We answer the client's messages with an error up to the end of its unit.
    Refusing(Refusal),
    /// The transaction was rolled back for another while its client was thinking, and the client does not know yet. Its
    /// next unit is read as a whole.
    RolledBack(RolledBack),
    /// The transaction was rolled back for another, and is being replayed or ended. The client's messages are not
    /// accepted, and the server's answers are compared or dropped.
    Rewinding(Box<Rewind>),
    /// Everything is passed on, because the server sent an answer without a request.
    Ungoverned,
    /// No more messages are accepted.
    Ended {
        /// The class whose admission the session was waiting for: the command that admits it may be on its way.
        queued: Option<ClassIndex>,
    },
}

/// Whether the client's bytes are accepted, in flows that accept any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// A cancel is on its way; the next unit waits for its arrival.
    UntilCancelArrives,
    /// The next message begins a transaction, or we answer it: it waits until everything before it has been answered.
    UntilRest,
}

/// The unit in flight; of several, the one that the server is working on.
#[derive(Debug)]
struct Unit {
    since: Instant,
    /// Since when its client waits: `since` is later if it is run again.
    asked: Instant,
    shown: Shown,
    /// Its first statement, while it is the only one and if it begins or ends a transaction; with the name of its portal.
    bound: Option<(Bound, Box<[u8]>)>,
    /// The server has chained the transaction.
    has_chained: bool,
    /// It has begun a block with its first statement, so all of it is within a block.
    is_block: bool,
    /// The server has completed one of its statements.
    has_completed: bool,
    has_rows: bool,
    has_run: bool,
    has_failed: bool,
    /// How many notices its client has received.
    notices: u32,
    /// How many of these the server, which runs it again, is still to send.
    notices_known: u32,
    /// How many more rows it may return.
    rows_left: u64,
}

/// A statement that begins or ends a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Begin,
    /// A COMMIT that chains no other transaction.
    Commit,
    /// It ends the transaction and chains another.
    Chain,
}

/// How much of the answer to the unit in flight its client receives before the unit's end is known.
#[derive(Debug)]
enum Shown {
    /// Nothing: the unit commits by itself, so it may be replayed only while its client has seen nothing.
    Nothing(Vec<u8>),
    /// Everything received so far.
    All,
}

impl Unit {
    fn new(since: Instant) -> Self {
        Unit {
            since,
            asked: since,
            shown: Shown::All,
            bound: None,
            has_chained: false,
            is_block: false,
            has_completed: false,
            has_rows: false,
            has_run: false,
            has_failed: false,
            notices: 0,
            notices_known: 0,
            rows_left: u64::MAX,
        }
    }

    /// A portal is run. If it is another one than that of the first statement, that is not the only one.
    fn runs_portal(&mut self, portal: &[u8]) {
        let portal = stored(portal);
        self.bound.take_if(|(_, first)| portal != Some(&**first));
        self.is_block |= self.bound.take_if(|(kind, _)| *kind == Bound::Begin).is_some();
    }

    /// Whether its only statement is that one.
    fn is_only(&self, bound: Bound) -> bool {
        self.bound.as_ref().is_some_and(|(kind, _)| *kind == bound)
    }

    /// Whether the client has received, or may have received, part of the answer.
    fn is_seen(&self) -> bool {
        matches!(self.shown, Shown::All)
    }
}

/// A message that is passing and whose last bytes have not arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Passing {
    left: usize,
    /// Whether it is passed on; otherwise it is dropped.
    is_passed: bool,
    /// Whether it is part of an answer that is compared.
    is_answer: bool,
}

/// The session of an admitted client. See the module.
#[derive(Debug)]
pub struct Session {
    governor: Arc<Governor>,
    card: Arc<SessionCard>,
    settings: Arc<Settings>,
    generation: u64,
    identity: Identity,
    reported: Reported,
    flow: Flow,
    gate: Gate,
    /// The transaction status that the server reported last.
    status: Status,
    transaction: Option<Transaction>,
    attempts: Attempts,
    unit: Unit,
    /// Messages of a unit have been sent, but not the message that ends it.
    is_unit_open: bool,
    /// A message in flight may change how texts are read.
    rules_may_change: bool,
    /// The number of the unit that began last.
    unit_number: u64,
    outstanding: Outstanding,
    prepared: PreparedNotes,
    texts: Texts,
    /// What it leaves in its connection, if it is pooled.
    residue: Option<Box<Trail>>,
    workers: Workers,
    migration: Migration,
    /// Kept for the next transaction that is recorded.
    spare_recording: Option<Box<Recording>>,
    from_client: Passing,
    /// The server's next `ReadyForQuery` answers a `Sync` of our own, which keeps the session alive.
    is_kept_alive: bool,
    /// How many of the client's bytes before the current message are still to be recorded.
    unrecorded: usize,
    from_server: Passing,
    /// Notifications that arrived during a replay, for the end of the client's transaction.
    notifications: Vec<u8>,
    /// When the unit in flight becomes late and the watcher is notified, or when to check again whether it should be.
    rings_at: Option<Instant>,
    /// Since when the session has been at rest, or its client thinking.
    since: Instant,
    /// The counts of its database.
    database: Arc<DatabaseStatistics>,
    /// Bytes of the client and of the server that are not counted there yet.
    bytes: (u64, u64),
}

impl Session {
    /// A session whose server is ready for its first query.
    pub fn new(governor: Arc<Governor>, card: Arc<SessionCard>, reported: Reported, now: Instant) -> Self {
        let generation = governor.generation();
        let settings = governor.settings();
        let identity = Identity::new(&card, &settings);
        let texts = Texts::new(&governor.foresight, &card);
        let database = governor.statistics.databases.of(&card.login.database);
        database.add(DatabaseCount::Logins, 1);
        database.add(DatabaseCount::Assignments, 1);
        let mut session = Session {
            governor,
            card,
            settings,
            generation,
            identity,
            reported,
            flow: Flow::Relay,
            gate: Gate::Open,
            status: Status::Idle,
            transaction: None,
            attempts: Attempts::default(),
            unit: Unit::new(now),
            is_unit_open: false,
            rules_may_change: false,
            unit_number: 0,
            outstanding: Outstanding::default(),
            prepared: PreparedNotes::default(),
            texts,
            residue: None,
            workers: Workers::default(),
            migration: Migration::default(),
            spare_recording: None,
            from_client: Passing::default(),
            is_kept_alive: false,
            unrecorded: 0,
            from_server: Passing::default(),
            notifications: Vec::new(),
            rings_at: None,
            since: now,
            database,
            bytes: (0, 0),
        };
        session.workers.watch(session.settings.limits_workers(), true);
        session.card.state().chosen_by = session.identity.chosen_by;
        session.publish();
        session
    }

    /// Whether more of the client's bytes can be accepted now. If not, the caller should not read them either; any call
    /// of another method can make this true.
    pub fn takes_client_bytes(&self) -> bool {
        let takes_any = match self.flow {
            Flow::Relay | Flow::Refusing(_) | Flow::RolledBack(_) | Flow::Ungoverned => true,
            Flow::Queued(_) | Flow::Limiting(_) | Flow::Learning(_) | Flow::Rewinding(_) | Flow::Ended { .. } => false,
        };
        takes_any && self.gate == Gate::Open && !self.outstanding.is_full()
    }

    /// Whether nothing of the governor's own is in force in its connection.
    pub(crate) fn owes_its_connection_nothing(&self) -> bool {
        self.migration.is_free()
    }

    /// What was sent since the session was at rest will not be run: nothing needs to be known about it.
    pub(crate) fn runs_nothing(&mut self) {
        self.clear_residue();
        self.texts.asks_no_more();
    }

    /// The number of the unit that began last.
    pub(crate) fn unit_number(&self) -> u64 {
        self.unit_number
    }

    /// Whether it waits between transactions, so that a stopping governor may end it.
    pub fn is_idle(&self) -> bool {
        self.is_at_rest() && matches!(self.flow, Flow::Relay) && self.from_server.left == 0
    }

    /// Whether it has no use for a server connection: it is between transactions, and the next one may wait for admission.
    /// Those that are admitted may need the connection.
    pub(crate) fn is_between_transactions(&self) -> bool {
        self.is_at_rest() && matches!(self.flow, Flow::Relay | Flow::Queued(_)) && self.from_server.left == 0
    }

    /// Whether it is in a transaction that is not of low priority.
    pub fn is_at_important_work(&self) -> bool {
        let priority = |class| self.settings.class(class).limits.priority;
        self.transaction.as_ref().is_some_and(|inside| priority(inside.class) > Priority::LOW)
    }

    /// Whether the session has asked to be ended: the caller sends the remaining output, then closes both connections.
    pub fn has_ended(&self) -> bool {
        matches!(self.flow, Flow::Ended { .. })
    }

    /// Carries out another thread's command.
    pub fn on_command(&mut self, command: SessionCommand, now: Instant, out: &mut impl Outbox) {
        match command {
            SessionCommand::Admitted => self.on_admitted(now),
            SessionCommand::TimedOut => self.on_queue_timeout(now, out),
            SessionCommand::ClientCancelled => self.on_cancelled_in_queue(now, out),
            SessionCommand::CancelArrived => self.on_cancel_arrived(now, out),
            SessionCommand::RollBackIdle { transaction, unit, event } => {
                self.roll_back_idle(transaction, unit, event, now, out);
            }
            SessionCommand::EndIdle { transaction, why } => self.end_idle(transaction, &why, out),
            SessionCommand::End { why } => self.end("57P01", &why, out),
            // The relay ends it, once it is idle.
            SessionCommand::EndWhenIdle => {}
        }
        self.publish();
    }

    fn on_cancel_arrived(&mut self, now: Instant, out: &mut impl Outbox) {
        if self.gate == Gate::UntilCancelArrives {
            self.gate = Gate::Open;
        }
        self.forget_cancels();
        self.go_on_rewinding(now, out);
    }

    /// When [`on_time`](Self::on_time) must be called next; `None` for never. The caller asks after every other call.
    pub fn wakes_at(&self) -> Option<Instant> {
        let queued = match &self.flow {
            Flow::Queued(queued) => self.queue_wakes_at(queued),
            _ => None,
        };
        [queued, self.rings_at, self.ends_at(), self.replays_at(), self.asks_again_at()].into_iter().flatten().min()
    }

    /// When a replay continues that pauses.
    fn replays_at(&self) -> Option<Instant> {
        match &self.flow {
            Flow::Rewinding(rewind) => rewind.pauses_until(),
            _ => None,
        }
    }

    /// When the client's permitted think time within its transaction ends.
    fn ends_at(&self) -> Option<Instant> {
        let is_thinking = match &self.flow {
            Flow::Relay | Flow::Refusing(_) => !self.is_under_way(),
            Flow::RolledBack(_) => true,
            _ => false,
        };
        let timeout = self.inside_class().idle_in_transaction_timeout;
        timeout.filter(|_| is_thinking && self.transaction.is_some()).map(|timeout| self.since + timeout)
    }

    /// Handles a timer; see [`wakes_at`](Self::wakes_at).
    pub fn on_time(&mut self, now: Instant, out: &mut impl Outbox) {
        self.notice_queued(now, out);
        self.keep_alive(now, out);
        self.go_on_rewinding(now, out);
        self.ask_again(now, out);
        if self.rings_at.is_some_and(|at| at <= now) {
            if self.is_anybody_below() {
                self.rings_at = None;
                self.governor.bell.ring();
            } else {
                self.expect_lateness(now);
            }
        }
        if self.ends_at().is_some_and(|at| at <= now) {
            count(&self.statistics(self.inside_index()).idle_ended);
            let class = self.inside_class();
            let timeout = class.idle_in_transaction_timeout.unwrap_or_default();
            let why = format!(
                "terminating connection: class \"{}\" lets a transaction wait for its client for {timeout:?}",
                class.name
            );
            self.end("25P03", &why, out);
        }
        self.publish();
    }

    /// One of the two connections is closed: the session leaves queues and registry.
    pub fn close(&mut self, now: Instant) {
        self.give_up();
        let Flow::Ended { queued } = &mut self.flow else { unreachable!("it was given up") };
        if let Some(class) = queued.take()
            && self.governor.abandon_for_good(self.card.id) == Abandoned::Admitted
        {
            // It was admitted just now, and has not received the command yet.
            self.governor.leave(class, now);
        }
        self.end_transaction(now);
        self.publish();
        self.governor.registry.remove(self.card.id);
    }

    /// Ends the session if that transaction still waits for its client.
    fn end_idle(&mut self, transaction: u64, why: &str, out: &mut impl Outbox) {
        let is_idle = {
            let state = self.card.state();
            state.phase == Phase::IdleInTransaction && state.transaction == transaction
        };
        if is_idle {
            count(&self.statistics(self.inside_index()).idle_ended);
            self.end("25P03", why, out);
        }
    }

    /// Ends the session. The client receives the reason if the session is between two messages.
    fn end(&mut self, sqlstate: &'static str, why: &str, out: &mut impl Outbox) {
        if !self.has_ended() && self.from_server.left == 0 {
            out.to_client(&error_response(&Notice::new("FATAL", sqlstate, why)));
        }
        self.give_up();
    }

    /// Accepts no more messages.
    fn give_up(&mut self) {
        let queued = match &self.flow {
            Flow::Queued(queued) => Some(queued.class),
            Flow::Ended { .. } => return,
            _ => None,
        };
        let of_flow = match std::mem::replace(&mut self.flow, Flow::Ended { queued }) {
            Flow::Rewinding(rewind) => {
                if let Some(abort) = &rewind.abort {
                    self.count_abort(abort.cause, AbortOutcome::Abandoned);
                }
                rewind.event
            }
            Flow::RolledBack(rolled_back) => Some(rolled_back.event),
            _ => None,
        };
        let of_cancel = self.card.state().cancels.event.take();
        for event in [of_cancel, of_flow] {
            self.settle(event, Outcome::Abandoned);
        }
    }

    /// Whether no transaction is open and nothing is under way.
    fn is_at_rest(&self) -> bool {
        self.status == Status::Idle && !self.is_under_way()
    }

    /// Whether a unit is open or outstanding.
    fn is_under_way(&self) -> bool {
        self.is_unit_open || !self.outstanding.is_empty()
    }

    /// Whether the unit in flight may reach a commit by itself: it began outside of a block, and does not begin one.
    fn may_commit(&self) -> bool {
        self.status == Status::Idle && !self.unit.is_block
    }

    /// From now on the unit in flight may be late. The watcher is notified if less important transactions may block it.
    ///
    /// Without less important transactions inside, nothing needs to be watched, and setting a timer for each of many
    /// quick units costs a twentieth of the relay's work for them. So the session only checks occasionally whether one
    /// has entered.
    fn expect_lateness(&mut self, now: Instant) {
        let preemption = &self.settings.preemption;
        let is_watched = preemption.policy.watches() || self.settings.cpu.inheritance;
        self.rings_at = (is_watched && self.classes_below().next().is_some()).then(|| {
            let nobody_below = preemption.threshold.max(LATE_WITH_NOBODY_BELOW);
            now + if self.is_anybody_below() { preemption.threshold } else { nobody_below }
        });
    }

    /// Statistics of the classes that are less important than the transaction's own.
    fn classes_below(&self) -> impl Iterator<Item = &ClassStatistics> {
        let own = self.transaction.as_ref().map(|inside| self.settings.class(inside.class).limits.priority);
        let classes = self.settings.classes.iter().zip(self.governor.statistics.classes());
        let below = classes.filter(move |(class, _)| own.is_some_and(|own| class.limits.priority < own));
        below.map(|(_, statistics)| statistics)
    }

    /// Whether a transaction of these classes is inside.
    fn is_anybody_below(&self) -> bool {
        // Relaxed: a transaction that enters a moment later is seen with the next unit.
        self.classes_below().any(|class| class.inside.load(Ordering::Relaxed) > 0)
    }

    fn inside_index(&self) -> ClassIndex {
        self.transaction.as_ref().map_or(self.identity.class, |inside| inside.class)
    }

    fn inside_class(&self) -> &ClassSettings {
        self.settings.class(self.inside_index())
    }

    fn statistics(&self, class: ClassIndex) -> &ClassStatistics {
        self.governor.statistics.class(class)
    }

    /// The transaction has ended, by commit or rollback.
    fn end_transaction(&mut self, now: Instant) {
        self.since = now;
        self.attempts.aborts = 0;
        self.texts.end_transaction(now);
        let Some(mut inside) = self.transaction.take() else { return };
        (self.attempts.rollbacks, self.attempts.is_retry) = match inside.failure {
            // Its client may retry it, and the retry continues the count, so that the bound on rollbacks holds for
            // both.
            Some(_) => (self.attempts.rollbacks, true),
            None => (0, false),
        };
        if let Some(mut recording) = inside.recording.take() {
            recording.clear();
            self.spare_recording = Some(recording);
        }
        if inside.is_admitted {
            self.governor.leave(inside.class, now);
        }
        self.count_transaction(&inside, now);
        self.statistics(inside.class).inside.fetch_sub(1, Ordering::Relaxed);
    }

    fn count_transaction(&self, ended: &Transaction, now: Instant) {
        let statistics = self.statistics(ended.class);
        count(&statistics.transactions);
        let took = now.saturating_duration_since(ended.since);
        statistics.times.transaction.record(took);
        self.database.add(DatabaseCount::Transactions, 1);
        self.database.add(DatabaseCount::TransactionNanos, took.as_nanos() as u64);
        if let Some(waited) = ended.waited {
            self.database.add(DatabaseCount::WaitNanos, waited.as_nanos() as u64);
            statistics.times.queue.record(waited);
        }
    }

    /// A unit has ended: it and the bytes since the last one are counted for its database.
    fn count_for_database(&mut self, took: Duration) {
        let (received, sent) = std::mem::take(&mut self.bytes);
        self.database.add(DatabaseCount::Units, 1);
        self.database.add(DatabaseCount::UnitNanos, took.as_nanos() as u64);
        self.database.add(DatabaseCount::Received, received);
        self.database.add(DatabaseCount::Sent, sent);
    }

    /// Records the outcome of a preemption.
    fn settle(&self, event: Option<crate::registry::EventId>, outcome: Outcome) {
        if let Some(event) = event {
            self.governor.settle(event, outcome);
        }
    }

    /// A cancel that arrived and hit nothing is over once every unit that it could have hit has been answered.
    fn forget_cancels(&mut self) {
        if matches!(self.flow, Flow::Rewinding(_)) {
            return;
        }
        let oldest = self.outstanding.oldest();
        let event = {
            let mut state = self.card.state();
            if state.cancels.in_flight > 0 {
                return;
            }
            let is_over = |unit: u64| oldest.is_none_or(|oldest| unit < oldest);
            state.cancels.by_client = state.cancels.by_client.filter(|unit| !is_over(*unit));
            state.cancels.event.take_if(|_| oldest.is_none())
        };
        self.settle(event, Outcome::TooLate);
    }

    /// Publishes what this session is doing. It is derived only here.
    fn publish(&mut self) {
        let (phase, since) = match &self.flow {
            Flow::Ungoverned => (Phase::Ungoverned, self.since),
            Flow::Queued(queued) => (Phase::Queued, queued.since),
            Flow::Limiting(_) => (Phase::Active, self.unit.since),
            Flow::RolledBack(_) => (Phase::Preempted, self.since),
            Flow::Rewinding(rewind) if rewind.runs_again() => (Phase::Active, self.unit.since),
            Flow::Rewinding(_) => (Phase::Preempted, self.unit.since),
            Flow::Relay | Flow::Refusing(_) if self.is_under_way() => (Phase::Active, self.unit.since),
            Flow::Relay | Flow::Refusing(_) if self.transaction.is_some() => (Phase::IdleInTransaction, self.since),
            Flow::Relay | Flow::Refusing(_) | Flow::Learning(_) | Flow::Ended { .. } => (Phase::Idle, self.since),
        };
        let is_awaited = match &self.flow {
            // If a session was ended, its statement on the server is cancelled, as for a client that disconnected.
            Flow::Relay | Flow::Refusing(_) | Flow::Ended { .. } => self.is_under_way(),
            Flow::Rewinding(rewind) => !rewind.is_unnoticed(),
            Flow::Limiting(limiting) => limiting.is_awaited(),
            Flow::Ungoverned => true,
            // A cancel must not meet a question of ours.
            Flow::Queued(_) | Flow::Learning(_) | Flow::RolledBack(_) => false,
        };
        let watched = self.transaction.as_ref().filter(|inside| inside.is_watched);
        let immune = watched.and_then(|inside| self.immunity(inside));
        let replayable = watched.map_or(Ok(()), |inside| self.replay_forecast(inside));
        let is_candidate = matches!(phase, Phase::Active | Phase::IdleInTransaction);
        let preemptible = watched.is_some() && immune.is_none() && is_candidate;
        let waits = self.transaction.as_ref().filter(|_| phase == Phase::Active);
        let cycle_loss = waits.and_then(|inside| self.cycle_loss(inside));
        let may_commit = self.may_commit();
        let must_replay = watched.is_some_and(|inside| !self.settings.class(inside.class).retries);
        let mut state = self.card.state();
        (state.phase, state.since, state.rollbacks) = (phase, since, self.attempts.rollbacks);
        (state.asked, state.must_replay) = (self.unit.asked, must_replay);
        state.may_commit = may_commit;
        state.may_catch = self.transaction.as_ref().is_none_or(Transaction::may_catch);
        state.exports_snapshot = self.transaction.as_ref().is_some_and(|inside| inside.exports_snapshot);
        (state.preemptible, state.immune, state.replayable) = (preemptible, immune, replayable);
        (state.aborts, state.cycle_loss) = (self.attempts.aborts, cycle_loss);
        state.work = self.transaction.as_ref().map_or(Duration::ZERO, |inside| inside.work);
        state.is_awaited = is_awaited;
        if self.transaction.is_none() && phase != Phase::Queued {
            (state.class, state.chosen_by) = (self.identity.class, self.identity.chosen_by);
        }
    }
}
