//! One session of a replay.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::board::Board;
use super::listener::Listener;
use super::{Done, Outcome, Pace, Peer, Ran, Server, Speed, sleep_until};
use crate::message::{Ask, Edit, ask, edited, message, messages, query};
use crate::plan::{Planned, Script};
use crate::skip::Reason;
use crate::value::Value;

/// A session to run.
pub(super) struct SessionRun<'a> {
    pub script: &'a Script,
    /// Its place in the plan.
    pub at: usize,
    pub board: &'a Board,
    pub pace: Pace,
    /// When the replay began for this copy.
    pub origin: Instant,
    pub server: &'a dyn Server,
    pub stop: &'a AtomicBool,
}

/// The state of a session that runs.
struct State {
    peer: Box<dyn Peer>,
    standing: Standing,
    /// When the answer before was complete.
    free_at: Instant,
}

/// How a session stands to its recording, between two units.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Why the session was lost.
    pub lost: Option<String>,
    /// Whether the rest of the transaction is skipped.
    pub gave_up: bool,
}

/// The outcome of each unit of a session that could not begin.
pub(super) fn all_skipped(script: &Script, at: usize, board: &Board) -> Vec<Done> {
    let skipped = |(unit, planned): (usize, &Planned)| {
        end(planned, board);
        Done { session: at, unit, outcome: Outcome::Skipped(planned.skip.unwrap_or(Reason::SessionLost)) }
    };
    script.units.iter().enumerate().map(skipped).collect()
}

/// Tells other sessions that a unit is over, and that values it has not made will not come.
pub(crate) fn end(planned: &Planned, board: &Board) {
    for made in &planned.makes {
        board.put(made.slot, None);
    }
    if let Some(awaited) = planned.awaited {
        board.end(awaited);
    }
}

impl SessionRun<'_> {
    /// Runs all units. Also returns why the session was lost.
    pub fn run(&self) -> (Vec<Done>, impl Iterator<Item = String>) {
        let peer = match self.server.open(self.script) {
            Ok(peer) => peer,
            Err(why) => return (all_skipped(self.script, self.at, self.board), Some(why).into_iter()),
        };
        let mut state = State { peer, standing: Standing::default(), free_at: Instant::now() };
        for request in &self.script.prelude {
            state.standing.send_aside(&mut *state.peer, request);
        }
        let mut done = Vec::with_capacity(self.script.units.len());
        for (unit, planned) in self.script.units.iter().enumerate() {
            let outcome = self.unit(planned, &mut state);
            end(planned, self.board);
            done.push(Done { session: self.at, unit, outcome });
        }
        (done, state.standing.lost.into_iter())
    }

    fn unit(&self, planned: &Planned, state: &mut State) -> Outcome {
        let before = match () {
            () if self.stop.load(Ordering::Relaxed) => Some(Reason::Ended),
            () if state.standing.lost.is_some() => Some(Reason::SessionLost),
            () if state.standing.gave_up => Some(Reason::TransactionGivenUp),
            () => planned.skip,
        };
        if let Some(reason) = before {
            state.standing.leave_out(&mut *state.peer, planned, reason);
            return Outcome::Skipped(reason);
        }
        let due = match self.pace.speed {
            Speed::Times(_) => self.origin + self.pace.speed.due(planned.at_us),
            Speed::Max => state.free_at,
        };
        sleep_until(due, self.stop);
        let mut ready = due.max(state.free_at);
        if !planned.waits.is_empty() {
            let until = Instant::now() + self.pace.patience;
            let all_ended = planned.waits.iter().all(|awaited| self.board.wait(*awaited, until, self.stop));
            ready = ready.max(Instant::now());
            if !all_ended {
                let reason = if self.stop.load(Ordering::Relaxed) { Reason::Ended } else { Reason::ValueMissing };
                state.standing.give_up(&mut *state.peer, planned);
                return Outcome::Skipped(reason);
            }
        }
        let Some(request) = rewritten(planned, &|slot| self.board.value(slot).cloned()) else {
            state.standing.give_up(&mut *state.peer, planned);
            return Outcome::Skipped(Reason::ValueMissing);
        };
        self.send(planned, &request, state, (due, ready))
    }

    fn send(&self, planned: &Planned, request: &[u8], state: &mut State, (due, ready): (Instant, Instant)) -> Outcome {
        let mut listener = Listener::new(&planned.makes);
        let began = Instant::now();
        let result = state.peer.exchange(request, &mut |tag, body| listener.hear(tag, body));
        state.free_at = Instant::now();
        for (slot, value) in listener.made {
            self.board.put(slot, Some(value));
        }
        let answered = listener.answered;
        match result {
            Ok(()) => state.standing.settle(&mut *state.peer, planned, answered.error.is_some()),
            Err(why) => {
                state.standing.lost = Some(why);
                if answered.error.is_none() {
                    return Outcome::Skipped(Reason::SessionLost);
                }
            }
        }
        let us = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Outcome::Ran(Ran {
            took_us: us(state.free_at - began),
            lag_us: us(began.saturating_duration_since(due)),
            late_us: us(began.saturating_duration_since(ready)),
            answered,
        })
    }
}

impl Standing {
    /// Brings the session's transaction to where the recorded one was, after a unit was answered.
    pub fn settle(&mut self, peer: &mut dyn Peer, planned: &Planned, failed: bool) {
        if failed && planned.recorded.error.is_none() && planned.leaves_open {
            self.give_up(peer, planned);
        } else if !planned.leaves_open && !peer.is_idle() {
            self.send_aside(peer, &query("ROLLBACK"));
        }
    }

    /// Ends the transaction, and skips the rest of it.
    pub fn give_up(&mut self, peer: &mut dyn Peer, planned: &Planned) {
        if !peer.is_idle() {
            self.send_aside(peer, &query("ROLLBACK"));
        }
        self.gave_up = planned.leaves_open;
        self.prepare_all(peer, planned);
    }

    /// Passes a unit that is not sent for a reason.
    pub fn leave_out(&mut self, peer: &mut dyn Peer, planned: &Planned, reason: Reason) {
        if reason == Reason::TransactionGivenUp {
            self.gave_up = planned.leaves_open;
            self.prepare_all(peer, planned);
        } else if !planned.leaves_open && self.lost.is_none() && !peer.is_idle() {
            // The unit that is not sent had ended the transaction.
            self.send_aside(peer, &query("ROLLBACK"));
        }
    }

    /// Prepares the named statements of a unit that is not sent, which later units may run.
    fn prepare_all(&mut self, peer: &mut dyn Peer, planned: &Planned) {
        let has_values_in_texts = planned.uses.iter().any(|one| one.format.is_none());
        if self.lost.is_some() || has_values_in_texts {
            return;
        }
        for parse in messages(&planned.request) {
            if matches!(ask(&parse), Some(Ask::Parse { name, .. }) if !name.is_empty()) {
                self.send_aside(peer, &[message(b'P', parse.body), message(b'S', b"")].concat());
            }
        }
    }

    /// Sends something that is no unit of the recording.
    pub fn send_aside(&mut self, peer: &mut dyn Peer, request: &[u8]) {
        if self.lost.is_none()
            && let Err(why) = peer.exchange(request, &mut |_, _| {})
        {
            self.lost = Some(why);
        }
    }
}

/// The request with the values of this run, by their numbers; `None` if one has not come, or has no room.
pub(crate) fn rewritten<'a>(planned: &'a Planned, value: &dyn Fn(usize) -> Option<Value>) -> Option<Cow<'a, [u8]>> {
    if planned.uses.is_empty() {
        return Some(Cow::Borrowed(&planned.request));
    }
    let edit = |one: &crate::plan::Use| {
        let value = value(one.slot)?;
        let recorded = &planned.request[one.range.clone()];
        let bytes = match one.format {
            Some(format) => value.write(format, recorded.len())?,
            None => value.write_token(recorded)?,
        };
        Some(Edit { range: one.range.clone(), bytes, has_length: one.format.is_some() })
    };
    let edits: Vec<Edit> = planned.uses.iter().map(edit).collect::<Option<_>>()?;
    Some(Cow::Owned(edited(&planned.request, &edits)))
}
