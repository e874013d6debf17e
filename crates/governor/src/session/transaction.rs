//! The admitted transaction: its known facts, and whether it may be rolled back for another and replayed.

use std::time::{Duration, Instant};

use plimsoll_policy::{ClassIndex, NoReplay, ReplayFacts, Unsafe, may_replay};

use super::foresight::Forecast;
use super::frames::Status;
use super::prepared::{Names, Note};
use super::recording::{Lost, Recording};
use super::{Flow, Session, Unit};
use crate::effects::Horizon;
use crate::registry::{ChosenBy, Immunity, have_used};
use crate::statement::name::stored;

/// How many cursors of a transaction are known as its own; any further one counts as another transaction's.
const CURSORS_MAX: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Began {
    /// By a statement that does something.
    AtWork,
    /// By a BEGIN, and no statement has followed.
    Bare,
    /// By a message that was not recorded: AND CHAIN at the end of the previous transaction, or a BEGIN in a class that
    /// is not replayed. Only ROLLBACK AND CHAIN can create an empty block like its own.
    Unrecorded,
}

/// How often the transaction has been run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempts {
    /// How often it was rolled back for others, including the earlier attempts that its client retries.
    pub rollbacks: u32,
    /// How often it was replayed after the server aborted it, or after it was rolled back to break a cycle of waiters.
    pub aborts: u32,
    /// We made the previous transaction fail with 40001.
    pub is_retry: bool,
}

/// The transaction that is inside.
#[derive(Debug)]
pub(super) struct Transaction {
    pub class: ClassIndex,
    /// Whether admission counts it.
    pub is_admitted: bool,
    pub since: Instant,
    /// How long the server has worked on its answered units.
    pub work: Duration,
    /// How long it waited for admission.
    pub waited: Option<Duration>,
    pub began: Began,
    /// Whether its class may be rolled back for others.
    pub is_watched: bool,
    /// What its texts may do has been looked up since its beginning.
    pub is_foreseen: bool,
    /// Its end was requested, or may have been.
    pub may_end: bool,
    /// A text that is not known was run, and has not been answered: it may contain the end.
    pub runs_unread: bool,
    /// Units overlapped in it.
    pub overlapped: bool,
    /// Why the unit in flight must not be cancelled, if so: its effects are not undone by a rollback, or it may commit
    /// by itself.
    pub unit_immunity: Option<Immunity>,
    /// It has taken advisory locks, on which the application relies for mutual exclusion even while it thinks.
    pub relies_on_lock: bool,
    /// It was admitted and has exported a snapshot, which other sessions of its client import.
    pub exports_snapshot: bool,
    /// It has set how long the server waits for its client; a rollback would undo that while its client thinks.
    pub has_patience: bool,
    /// What had ended at the server before it began; `None` if that is not known.
    pub horizon: Option<Horizon>,
    /// Why it may not be run twice.
    pub unsafe_because: Option<Unsafe>,
    /// Why it may not be run twice once its unit in flight has done what it is to do.
    pub unsafe_once_done: Option<Unsafe>,
    /// What its texts let expect of a replay.
    pub forecast: Forecast,
    /// It has created, released or rolled back to a savepoint.
    pub has_savepoint: bool,
    /// Its cursors and portals, by their stored names.
    pub declared: Vec<Box<[u8]>>,
    /// It has prepared the unnamed statement that it runs.
    pub has_unnamed: bool,
    /// Present if it may be replayed.
    pub recording: Option<Box<Recording>>,
    /// If the session has made it fail, the error for its client if it returns to a savepoint.
    pub failure: Option<Vec<u8>>,
    /// The limit of its parallel workers that was set in its block, and the unit before which it was set.
    pub workers: Option<(usize, u32)>,
    /// Its parallel workers are not, or no longer, limited.
    pub keeps_workers: bool,
    /// The session's class before this transaction chose another one: a rollback restores it.
    pub class_before: Option<(ClassIndex, ChosenBy)>,
}

impl Transaction {
    pub(super) fn new(class: ClassIndex, since: Instant, horizon: Option<Horizon>) -> Self {
        Transaction {
            class,
            is_admitted: false,
            since,
            work: Duration::ZERO,
            waited: None,
            began: Began::AtWork,
            is_watched: false,
            is_foreseen: false,
            may_end: false,
            runs_unread: false,
            overlapped: false,
            unit_immunity: None,
            relies_on_lock: false,
            exports_snapshot: false,
            has_patience: false,
            horizon,
            unsafe_because: None,
            unsafe_once_done: None,
            forecast: Forecast::default(),
            has_savepoint: false,
            declared: Vec::new(),
            has_unnamed: false,
            recording: None,
            failure: None,
            workers: None,
            keeps_workers: false,
            class_before: None,
        }
    }

    /// It begins: whether its class is watched, its recording, and whether some database has code that catches errors.
    pub(super) fn begins(&mut self, (is_watched, recording): (bool, Option<Box<Recording>>), code_catches: bool) {
        self.is_foreseen = is_watched || recording.is_some() && code_catches;
        (self.is_watched, self.recording) = (is_watched, recording);
    }

    /// Whether its statements are read: it may be rolled back, or replayed.
    pub(super) fn is_read(&self) -> bool {
        self.is_watched || self.recording.is_some()
    }

    /// Whether its end may be on its way, or over.
    pub(super) fn may_have_ended(&self) -> bool {
        self.may_end || self.runs_unread
    }

    /// The server has carried out a command of a text that is not known.
    pub(super) fn hears_command(&mut self, tag: &[u8]) {
        const ENDS: [&[u8]; 3] = [b"COMMIT", b"ROLLBACK", b"PREPARE TRANSACTION"];
        self.may_end |= self.runs_unread && ENDS.iter().any(|end| tag.starts_with(end));
        self.has_patience |= self.runs_unread && tag == b"SET\0";
    }

    /// The server has answered everything, and a block is open: the texts that are not known did not end it, unless they
    /// did it by a command that was heard.
    pub(super) fn is_answered_in_block(&mut self) {
        self.runs_unread = false;
    }

    /// Why another run must not be attempted, or is expected to fail.
    pub(super) fn foreseen_unsafe(&self) -> Option<Unsafe> {
        self.unsafe_because.or(self.unsafe_once_done).or(self.forecast.unsafe_because)
    }

    /// Whether code that it runs may catch errors or set timeouts, as far as is known.
    pub(super) fn may_catch(&self) -> bool {
        !self.is_foreseen || self.foreseen_unsafe().is_some() || self.forecast.may_catch
    }

    /// A request may not run twice; the first reason is kept.
    pub(super) fn is_unsafe(&mut self, because: Unsafe) {
        if self.unsafe_because.is_none() {
            self.unsafe_because = Some(because);
            if let Some(recording) = &mut self.recording {
                recording.abandon();
            }
        }
    }

    /// A statement is run. `note_of` looks up the statements that it executes by name.
    pub(super) fn runs(&mut self, note: &Note, status: Status, note_of: impl Fn(&[u8]) -> Note) {
        self.runs_itself(note, status);
        for name in note.names.iter().flat_map(|names| &names.executes) {
            // It was prepared by a message, or by SQL, which cannot prepare an EXECUTE.
            self.runs_itself(&note_of(name), status);
        }
    }

    fn runs_itself(&mut self, note: &Note, status: Status) {
        self.may_end |= note.may_end && !note.is_unread;
        self.runs_unread |= note.is_unread;
        if let Some(names) = &note.names {
            self.uses_cursors(names);
            if status == Status::Idle && !names.declares.is_empty() {
                // A commit keeps a cursor WITH HOLD, also one that fails afterwards: a second DECLARE would find it.
                self.is_unsafe(Unsafe::Cursor);
            }
        }
        if note.changes_code {
            self.is_unsafe(note.unsafe_because.unwrap_or(Unsafe::Function));
        }
        self.has_savepoint |= note.uses_savepoint;
        self.has_patience |= note.changes_patience;
        self.relies_on_lock |= note.takes_advisory_lock;
        let Some(because) = note.unsafe_because else { return };
        if status == Status::Idle && matches!(because, Unsafe::OutsideEffect | Unsafe::FunctionCall | Unsafe::Copy) {
            // Outside a block it may commit before it ends, or has consumed copied data that cannot be sent again.
            let copies = because == Unsafe::Copy;
            self.unit_immunity = Some(if copies { Immunity::Copy } else { Immunity::OutsideBlock });
        }
        self.is_unsafe(because);
    }

    fn uses_cursors(&mut self, names: &Names) {
        if names.moves.iter().any(|cursor| !self.is_declared(cursor)) {
            self.is_unsafe(Unsafe::Cursor);
        }
        names.declares.iter().for_each(|cursor| self.declares(cursor));
    }

    fn is_declared(&self, cursor: &[u8]) -> bool {
        stored(cursor).is_some_and(|name| self.declared.iter().any(|known| **known == *name))
    }

    fn declares(&mut self, cursor: &[u8]) {
        if let Some(name) = stored(cursor).filter(|_| self.declared.len() < CURSORS_MAX && !self.is_declared(cursor)) {
            self.declared.push(name.into());
        }
    }

    /// A portal is run by its name, which cursors share with portals.
    pub(super) fn runs_portal(&mut self, name: &[u8]) {
        if !name.is_empty() && !self.is_declared(name) {
            self.is_unsafe(Unsafe::Cursor);
        }
    }

    /// A portal was created: it ends with the transaction, like the cursors that the transaction declares.
    pub(super) fn binds(&mut self, portal: &[u8], statement: &[u8]) {
        if statement.is_empty() && !self.has_unnamed {
            // The unnamed statement is older than the transaction, and may have been replaced by the time of a replay.
            self.is_unsafe(Unsafe::PreparedStatement);
        }
        if !portal.is_empty() {
            self.declares(portal);
        }
    }

    /// The unnamed statement is prepared.
    pub(super) fn parses_unnamed(&mut self) {
        self.has_unnamed = true;
    }

    /// A statement that a replay needs was prepared or closed.
    pub(super) fn keeps(&mut self, kept: impl FnOnce(&mut Recording) -> Result<(), Lost>) {
        if self.recording.as_mut().is_some_and(|recording| kept(recording).is_err()) {
            self.is_unsafe(Unsafe::PreparedStatement);
        }
    }
}

impl Session {
    /// The server has answered a unit of the transaction.
    pub(super) fn note_answered(&mut self, answered: &Unit, status: Status, is_alone: bool, now: Instant) {
        if let Some(inside) = &mut self.transaction {
            inside.work += now.saturating_duration_since(answered.since);
            inside.unit_immunity = None;
            if answered.has_rows && status != Status::Idle {
                // They were withheld while the unit might have committed by itself.
                inside.forecast.shows_rows();
            }
            if let Some(because) = inside.unsafe_once_done.take() {
                inside.is_unsafe(because);
            }
            if status == Status::Block || status == Status::Idle && !is_alone {
                // Its end was sent together with the next unit.
                inside.failure = None;
            }
        }
    }

    /// Why the transaction must not be rolled back for another now, if so.
    pub(super) fn immunity(&self, transaction: &Transaction) -> Option<Immunity> {
        let is_idle = !self.is_under_way();
        if matches!(self.flow, Flow::Limiting(_)) {
            // A cancel would hit a unit of ours.
            return Some(Immunity::UnitOpen);
        }
        if transaction.may_have_ended() {
            return Some(Immunity::MayHaveEnded);
        }
        if let Some(immunity) = transaction.unit_immunity {
            return Some(immunity);
        }
        if self.is_unit_open {
            return Some(Immunity::UnitOpen);
        }
        if self.outstanding.count() > 1 {
            return Some(Immunity::Pipeline);
        }
        if transaction.failure.is_some() {
            return Some(Immunity::Failed);
        }
        if !is_idle && self.may_commit() && transaction.forecast.may_act_outside() {
            // A cancel may meet it in its commit, when another server has already committed its part.
            return Some(Immunity::OutsideBlock);
        }
        if is_idle && transaction.relies_on_lock {
            return Some(Immunity::AdvisoryLock);
        }
        if is_idle && transaction.has_patience {
            return Some(Immunity::Timeout);
        }
        let class = self.settings.class(transaction.class);
        if !class.retries && (is_idle || self.replay_forecast(transaction).is_err()) {
            return Some(Immunity::NoRetry);
        }
        None
    }

    /// Whether a replay is expected to succeed if the transaction is rolled back now.
    pub(super) fn replay_forecast(&self, transaction: &Transaction) -> Result<(), NoReplay> {
        let facts = self.replay_facts(transaction);
        let (unsafe_because, foreseen) = (transaction.foreseen_unsafe(), transaction.forecast.foreseen());
        may_replay(&ReplayFacts { unsafe_because, foreseen, ..facts })
    }

    /// Whether the transaction, whose client was thinking, may be replayed as far as is known without asking the server.
    pub(super) fn replay_verdict(
        &self,
        transaction: &Transaction,
        attempts: u32,
        now: Instant,
    ) -> Result<(), NoReplay> {
        let out_of_time = self.has_used_timeout(transaction, now, now);
        may_replay(&ReplayFacts { attempts, out_of_time, ..self.replay_facts(transaction) })
    }

    /// The same, with its unit in flight.
    pub(super) fn replay_verdict_in_flight(&self, transaction: &Transaction, now: Instant) -> Result<(), NoReplay> {
        // If a client does not retry, the thread that cancels has decided that.
        let retries = self.settings.class(transaction.class).retries;
        let out_of_time = retries && self.has_used_timeout(transaction, self.unit.asked, now);
        may_replay(&ReplayFacts { attempts: self.attempts.rollbacks, out_of_time, ..self.replay_facts(transaction) })
    }

    /// Whether the transaction and its unit, for which its client waits since `asked`, have used up too much of a timeout of
    /// the session.
    pub(super) fn has_used_timeout(&self, transaction: &Transaction, asked: Instant, now: Instant) -> bool {
        let since = |at| now.saturating_duration_since(at);
        have_used(self.card.state().shortest_timeouts(), (since(asked), since(transaction.since)))
    }

    /// The facts that decide whether the transaction may be replayed after it was rolled back for another.
    pub(super) fn replay_facts(&self, transaction: &Transaction) -> ReplayFacts {
        let class = self.settings.class(transaction.class);
        let bound = self.settings.preemption.bound.rollbacks();
        ReplayFacts {
            is_off: !class.replay
                || self.reported.is_newer_than_known() && !self.governor.trusts_version(self.reported.version),
            commit_sent: transaction.may_have_ended(),
            answered: self.is_under_way() && self.status == Status::Idle && self.unit.is_seen(),
            units_outstanding: if transaction.overlapped || self.is_unit_open { 2 } else { 1 },
            bytes: transaction.recording.as_ref().map_or(0, |recording| recording.size()),
            bytes_max: self.settings.preemption.replay_bytes_max as u64,
            attempts: self.attempts.rollbacks,
            attempts_max: bound.unwrap_or(u32::MAX),
            out_of_time: false,
            unsafe_because: transaction.unsafe_because.or(transaction.unsafe_once_done),
            could_go_on: false,
            foreseen: None,
        }
    }
}
