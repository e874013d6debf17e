//! Parallel workers by class: `workers_max` lowers `max_parallel_workers_per_gather` for a transaction, and its client does not
//! notice.
//!
//! In a client's block, `SET LOCAL` is sent before a unit, and the server undoes it with the block. For a statement
//! outside a block, `SET` is sent before it, and `RESET` before the next message that is not such a statement. Neither
//! takes a snapshot, so a client may still choose its isolation level. Both are sent as units of our own, and no
//! message of the client is accepted until they have been answered.
//!
//! Invariants:
//!
//! 1. The value is lowered and never raised: the server is asked for it first.
//! 2. A client that reads or sets the parameter sees the value that it would see without us. A unit whose texts may do
//!    so is read as a whole before any of it passes; the limit is undone first, and the session is never limited again.
//!    RESET is exact, because the client has not set the parameter before.
//! 3. No savepoint lies between the limit and its undoing: it is undone before the first savepoint, because returning
//!    to that savepoint would restore it.
//! 4. None of this is recorded: a replay sets the limit again where it was set (`RewindStep::Limit`), and is compared
//!    without it.
//!
//! A function that reads or sets the parameter by itself is not noticed.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_policy::Unsafe;

use super::answers::{self, END_ANSWERS, columns};
use super::client::MessageAction;
use super::frames::{Backend, Frontend, HEAD_BYTES, Head, INSPECT_MAX, Status};
use super::message::sql_of_message;
use super::migration::BoundAction;
use super::refuse::Refusal;
use super::{Flow, Gate, Outbox, Session, Unit};
use crate::statement::{has_ignoring_case, places};

const PARAMETER: &str = "max_parallel_workers_per_gather";

/// How long the server's reported value is trusted: a reload of its settings may change it.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// What is known about a session's workers.
#[derive(Debug, Default)]
pub(super) struct Workers {
    /// Some class has a limit, so texts are checked for the parameter. Never reset.
    is_watched: bool,
    /// The client has, or may have, read or set the parameter: it is never limited again.
    has_spoken: bool,
    /// The session's limit between statements outside blocks.
    in_session: Option<u32>,
    /// The value without a limit, and when the server reported it.
    known: Option<(Instant, u32)>,
}

/// A unit of our own about a parameter of the session.
#[derive(Debug, Clone)]
pub(super) enum OwnStep {
    Workers(WorkersAction),
    /// About the bound of waits for strong locks.
    LockWait(BoundAction),
}

/// A unit of our own about a parameter that is being answered.
#[derive(Debug)]
pub(super) struct Limiting {
    step: OwnStep,
    /// The number of answers still to come.
    left: usize,
    /// The first column of each row.
    values: Vec<String>,
    /// Its error, as a whole message.
    error: Option<Vec<u8>>,
}

/// The effect of such a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkersAction {
    Ask,
    /// Lowers it for the session.
    Lower(u32),
    /// Lowers it for the block.
    LowerLocally(u32),
    /// Undoes the session's limit.
    Undo,
    /// Undoes the block's limit.
    UndoLocally,
}

impl WorkersAction {
    fn sql(self) -> String {
        match self {
            WorkersAction::Ask => format!("SHOW {PARAMETER}"),
            WorkersAction::Lower(workers) => format!("SET {PARAMETER} = {workers}"),
            WorkersAction::LowerLocally(workers) => lower_locally(workers),
            WorkersAction::Undo => format!("RESET {PARAMETER}"),
            WorkersAction::UndoLocally => format!("SET LOCAL {PARAMETER} TO DEFAULT"),
        }
    }
}

/// The statement that lowers the value for a block.
pub(super) fn lower_locally(workers: u32) -> String {
    format!("SET LOCAL {PARAMETER} = {workers}")
}

impl Workers {
    /// Some class has a limit, or no class has one. If a session is older than the first limit, its client may have set
    /// the parameter.
    pub(super) fn watch(&mut self, some_class_has: bool, is_new: bool) {
        self.has_spoken |= some_class_has && !self.is_watched && !is_new;
        self.is_watched |= some_class_has;
    }

    /// A text arrives in a unit that was not read as a whole.
    pub(super) fn reads(&mut self, ask: Frontend, body: Option<&[u8]>, is_whole: bool) {
        if self.is_watched && matches!(ask, Frontend::Query | Frontend::Parse | Frontend::FunctionCall) {
            self.has_spoken |= !is_whole || body.is_none_or(|body| Speech::of(ask, body).of_workers);
        }
    }
}

impl Limiting {
    /// Receives the server's answer.
    pub(super) fn hears(&mut self, answer: Backend, body: &[u8]) {
        if let (Backend::DataRow, Some(&[Some(value)])) = (answer, columns(body).as_deref()) {
            self.values.push(String::from_utf8_lossy(value).into_owned());
        }
    }

    /// Whether a client waits for what comes after it, and may cancel that.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(self.step, OwnStep::LockWait(BoundAction::Undo))
    }

    /// Keeps its error, in the form that is passed on.
    pub(super) fn fails(&mut self, body: &[u8]) {
        self.error = Some(answers::error_with_body(body));
    }
}

impl Session {
    /// Sets or undoes the limit before the unit at the start of `bytes`, which passes, or stays until the server has
    /// answered.
    pub(super) fn limit_workers(&mut self, bytes: &[u8], now: Instant, out: &mut impl Outbox) -> MessageAction {
        let Some(inside) = self.transaction.as_mut().filter(|_| self.workers.is_watched) else {
            return MessageAction::Pass;
        };
        let is_limited = self.workers.in_session.is_some() || inside.workers.is_some();
        if self.workers.has_spoken && !is_limited {
            return MessageAction::Pass;
        }
        let Some(speech) = Speech::of_unit(bytes) else { return MessageAction::Stay };
        self.workers.has_spoken |= speech.of_workers;
        inside.keeps_workers |= speech.of_workers || speech.of_savepoints;
        let step = match self.status {
            Status::Block => self.step_in_block(now),
            Status::Idle => self.step_at_rest(bytes, speech, now),
            Status::Failed => None,
        };
        match step {
            None => MessageAction::Pass,
            Some(step) if self.outstanding.is_empty() => self.ask_own(OwnStep::Workers(step), &[step.sql()], now, out),
            // Setting a limit can wait until the next unit; undoing it must happen before this one.
            Some(WorkersAction::Undo | WorkersAction::UndoLocally) => {
                self.gate = Gate::UntilRest;
                MessageAction::Stay
            }
            Some(_) => MessageAction::Pass,
        }
    }

    /// The limit that the session has set for itself, as a setting, when its connection goes to another one.
    pub(crate) fn leaves_worker_limit(&mut self) -> Option<(&'static [u8], String)> {
        let limit = self.workers.in_session.take()?;
        Some((PARAMETER.as_bytes(), limit.to_string()))
    }

    fn step_in_block(&self, now: Instant) -> Option<WorkersAction> {
        let inside = self.transaction.as_ref()?;
        if inside.keeps_workers {
            return inside.workers.map(|_| WorkersAction::UndoLocally);
        }
        let wanted = self.settings.class(inside.class).workers_in_force().filter(|_| inside.workers.is_none())?;
        // The session's limit would be mistaken for the server's own value. It is undone before a BEGIN, unless the
        // BEGIN was not recognized.
        if self.workers.in_session.is_some() {
            None
        } else {
            self.lower(wanted, WorkersAction::LowerLocally(wanted), now)
        }
    }

    fn step_at_rest(&self, bytes: &[u8], speech: Speech, now: Instant) -> Option<WorkersAction> {
        let is_single = || {
            let runs = self.shape_of(bytes).and_then(|shape| shape.runs);
            runs.is_some_and(|runs| !runs.begins && !runs.may_end) && !speech.of_session
        };
        let may = !self.workers.has_spoken && !self.transaction.as_ref()?.keeps_workers;
        let wanted = self.inside_class().workers_in_force().filter(|_| may && is_single());
        match (self.workers.in_session, wanted) {
            (None, Some(wanted)) => self.lower(wanted, WorkersAction::Lower(wanted), now),
            (has, wanted) if has == wanted => None,
            _ => Some(WorkersAction::Undo),
        }
    }

    /// The given step if the value is known to be higher, or the question for the value.
    fn lower(&self, wanted: u32, step: WorkersAction, now: Instant) -> Option<WorkersAction> {
        match self.workers.known.filter(|(at, _)| now.saturating_duration_since(*at) < KNOWN_FOR) {
            Some((_, value)) => (value > wanted).then_some(step),
            None => Some(WorkersAction::Ask),
        }
    }

    /// Sends a unit of our own that consists of these statements; the client's next unit stays.
    pub(super) fn ask_own(
        &mut self,
        step: OwnStep,
        statements: &[String],
        now: Instant,
        out: &mut impl Outbox,
    ) -> MessageAction {
        let Ok(number) = self.card.begin_unit(true) else {
            self.gate = Gate::UntilCancelArrives;
            return MessageAction::Stay;
        };
        self.unit_number = number;
        self.unit = Unit::new(now);
        (0..END_ANSWERS).for_each(|_| self.outstanding.sent(number, false));
        self.flow = Flow::Limiting(Limiting { step, left: END_ANSWERS, values: Vec::new(), error: None });
        let mut request: Vec<u8> = statements.iter().flat_map(|sql| answers::run(sql, &[])).collect();
        request.extend(answers::end());
        out.to_server(&request);
        MessageAction::Stay
    }

    /// The server is ready after a unit of ours about a parameter.
    pub(super) fn own_answered(&mut self, now: Instant, out: &mut impl Outbox) {
        let Flow::Limiting(limiting) = &mut self.flow else { return };
        limiting.left = limiting.left.saturating_sub(1);
        if limiting.left > 0 {
            return;
        }
        let Flow::Limiting(limiting) = std::mem::replace(&mut self.flow, Flow::Relay) else { return };
        self.forget_cancels();
        self.unit = Unit::new(now);
        match limiting.step {
            OwnStep::Workers(step) => self.workers_answered(step, &limiting.values, limiting.error, now),
            OwnStep::LockWait(action) => self.bound_answered(action, &limiting.values, limiting.error, now, out),
        }
    }

    fn workers_answered(&mut self, step: WorkersAction, values: &[String], error: Option<Vec<u8>>, now: Instant) {
        if let Some(error) = error {
            return self.workers_failed(step, error);
        }
        let workers = &mut self.workers;
        let inside = self.transaction.as_mut();
        match step {
            WorkersAction::Ask => match values.last().and_then(|value| value.parse().ok()) {
                Some(value) => {
                    workers.known = Some((now, value));
                    let class = inside.map_or(self.identity.class, |inside| inside.class);
                    // Relaxed: a figure for targets, which orders nothing.
                    self.governor.statistics.class(class).server_workers.store(value.into(), Ordering::Relaxed);
                }
                // The server answered with an unknown value.
                None => workers.has_spoken = true,
            },
            WorkersAction::Lower(limit) => workers.in_session = Some(limit),
            WorkersAction::Undo => workers.in_session = None,
            WorkersAction::LowerLocally(limit) => {
                if let Some(inside) = inside {
                    let unit = inside.recording.as_ref().map_or(0, |recording| recording.unit_count());
                    inside.workers = Some((unit, limit));
                }
            }
            WorkersAction::UndoLocally => {
                if let Some(inside) = inside {
                    inside.workers = None;
                }
            }
        }
    }

    /// Our unit has failed: the client cancelled it while waiting for its own unit, or it timed out. A block has failed
    /// with it, and the client receives that error for its own unit. Otherwise the session continues without a limit.
    fn workers_failed(&mut self, step: WorkersAction, error: Vec<u8>) {
        let was_cancelled = answers::sqlstate(&error[HEAD_BYTES..]) == Some(b"57014");
        if let Some(inside) = self.transaction.as_mut().filter(|_| self.status != Status::Idle) {
            // A replay would not meet this error.
            inside.is_unsafe(Unsafe::Refused);
        }
        if self.status != Status::Idle || was_cancelled || step == WorkersAction::Undo {
            self.flow = Flow::Refusing(Refusal::new(error, self.status));
        } else {
            self.workers.has_spoken = true;
        }
    }
}

/// What the texts of a unit may do about workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Speech {
    /// They may read or set the parameter.
    of_workers: bool,
    of_savepoints: bool,
    /// They reset the settings of the session.
    of_session: bool,
}

impl Speech {
    /// Reads the unit that begins here; `None` while its end has not arrived and the client does not wait for an answer
    /// yet. The rest of a unit that is too long to be held is read as it arrives; the worst is assumed of a text that
    /// is too long.
    fn of_unit(mut bytes: &[u8]) -> Option<Speech> {
        let is_long = bytes.len() > INSPECT_MAX / 2;
        let mut speech = Speech::default();
        loop {
            // The session ends when the protocol is violated.
            let Ok(head) = Head::read(bytes) else { return Some(speech) };
            let Some(head) = head else { return is_long.then_some(speech) };
            let ask = Frontend::of(head.tag);
            if ask == Frontend::Flush || !ask.is_of_unit() {
                // Later messages are read as they arrive.
                return Some(speech);
            }
            let Some(body) = bytes.get(HEAD_BYTES..head.bytes) else {
                let is_text = matches!(ask, Frontend::Query | Frontend::Parse);
                let unknown = Speech { of_workers: true, of_savepoints: true, of_session: true };
                return is_long.then_some(if is_text { unknown } else { speech });
            };
            bytes = &bytes[head.bytes..];
            let of_message = Speech::of(ask, body);
            speech = Speech {
                of_workers: speech.of_workers | of_message.of_workers,
                of_savepoints: speech.of_savepoints | of_message.of_savepoints,
                of_session: speech.of_session | of_message.of_session,
            };
            if ask.ends_unit() {
                return Some(speech);
            }
        }
    }

    fn of(ask: Frontend, body: &[u8]) -> Speech {
        let sql = match ask {
            Frontend::Query | Frontend::Parse => sql_of_message(ask, body).unwrap_or(body),
            // The called function is unknown.
            Frontend::FunctionCall => return Speech { of_workers: true, ..Speech::default() },
            _ => return Speech::default(),
        };
        let has = |word: &[u8]| has_ignoring_case(sql, word);
        Speech {
            of_workers: NAMES.iter().any(|name| has(name)) || has(b"explain") && has(b"settings") || shows_all(sql),
            of_savepoints: has(b"savepoint"),
            of_session: has(b"discard") || has(b"reset"),
        }
    }
}

/// Words in texts that read or set the parameter: its name, and functions and views for all parameters. An identifier
/// with escapes may be each of them.
const NAMES: [&[u8]; 6] =
    [b"per_gather", b"pg_settings", b"pg_show_all_settings", b"current_setting", b"set_config", b"u&"];

/// Whether a text may contain `SHOW ALL`: a comment after `SHOW` counts as `ALL`.
fn shows_all(sql: &[u8]) -> bool {
    places(sql, b"show").any(|rest| {
        let rest = rest.trim_ascii_start();
        let name = rest.strip_prefix(b"\"").unwrap_or(rest);
        name.get(..3).is_some_and(|name| name.eq_ignore_ascii_case(b"all"))
            || rest.starts_with(b"/*")
            || rest.starts_with(b"--")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speech(sql: &str) -> Speech {
        Speech::of(Frontend::Query, &[sql.as_bytes(), b"\0"].concat())
    }

    #[test]
    fn texts_that_may_read_or_set_the_parameter_are_known() {
        for sql in [
            "SHOW max_parallel_workers_per_gather",
            "set local MAX_PARALLEL_WORKERS_PER_GATHER to 3",
            "select 1; show  all",
            "show\n\"all\"",
            "SHOW/**/ALL",
            "select setting from pg_catalog.PG_SETTINGS",
            "select current_setting($1)",
            "select set_config('max_parallel_workers' || '_per_' || 'gather', '4', false)",
            "set U&\"max\\005fparallel\\005fworkers\" = 1",
            "explain (analyze, settings) select 1",
        ] {
            assert!(speech(sql).of_workers, "{sql}");
        }
        for sql in [
            "select show_id from shows where allowed",
            "SHOW TRANSACTION ISOLATION LEVEL",
            "select * from user_settings",
            "explain select 1",
            "reset all",
        ] {
            assert!(!speech(sql).of_workers, "{sql}");
        }
        assert!(
            speech("SAVEPOINT a").of_savepoints && speech("Discard all").of_session && speech("reset all").of_session
        );
    }
}
