//! Preemptions, recorded for operators: the decision, the reason, and the outcome.
//!
//! An event is noted before any action, so that the victim's session can always settle it. The first outcome stands.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, SystemTime};

use plimsoll_policy::NoReplay;

use super::blocked::LeftAlone;
use super::lines::LineLimit;
use crate::registry::{EventId, SessionId, Stake};

/// The lever that breaks cycles of waiters.
pub(crate) const CYCLE: &str = "cycle";

/// How many preemptions are kept.
const EVENTS_KEPT: usize = 200;

/// The outcome of a preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The victim's session has not reported it yet.
    Pending,
    /// The policy is `track`: nothing was done. Whether a replay would have been possible, as far as was known then.
    Tracked(Result<(), NoReplay>),
    /// The policy is `track`, or the victim's class does not opt in to cancels beside a server: nothing was done.
    TrackedBeside,
    /// Beside a server: its statement was cancelled, and its application got 57014.
    Cancelled,
    /// Nothing was done, because the victim must not be rolled back while it waits for its client.
    Spared(NoReplay),
    /// Nothing is done about a holder of important work, for this reason.
    LeftAlone(LeftAlone),
    /// The victim's unit had already ended.
    TooLate,
    /// It was replayed, and its client did not notice.
    Replayed,
    /// The answer to the statement with that number, from 1, differed in the replay; the client got 40001.
    Differed(usize),
    /// It was rolled back again while it was replayed; the later event has the outcome.
    Superseded,
    /// It could not be replayed, for this reason; the client got 40001.
    NotReplayed(NoReplay),
    /// Its client ended it, so there was nothing to replay.
    EndedByClient,
    /// Its client cancelled or disconnected in the meantime.
    Abandoned,
}

impl Outcome {
    /// Whether the victim's client got 40001.
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Outcome::Differed(_) | Outcome::NotReplayed(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Pending => f.write_str("pending"),
            Outcome::Tracked(Ok(())) => f.write_str("tracked: could be replayed"),
            Outcome::Tracked(Err(why)) => write!(f, "tracked: 40001 to be expected ({why})"),
            Outcome::TrackedBeside => f.write_str("tracked: would be cancelled"),
            Outcome::Cancelled => f.write_str("57014: left to its application"),
            Outcome::Spared(why) => write!(f, "spared ({why})"),
            Outcome::LeftAlone(why) => write!(f, "left alone: {why}"),
            Outcome::TooLate => f.write_str("too late"),
            Outcome::Replayed => f.write_str("replayed"),
            Outcome::Differed(statement) => write!(f, "40001: answer {statement} differed"),
            Outcome::Superseded => f.write_str("rolled back again in its replay"),
            Outcome::NotReplayed(why) => write!(f, "40001: not replayed ({why})"),
            Outcome::EndedByClient => f.write_str("ended by its client"),
            Outcome::Abandoned => f.write_str("its client cancelled or left"),
        }
    }
}

/// A preemption, for operators.
#[derive(Debug, Clone)]
pub struct PreemptionEvent {
    /// Set by [`Governor::note`](super::Governor::note).
    pub id: EventId,
    /// When it was decided.
    pub at: SystemTime,
    /// The session that was rolled back, or is in the way, and its server process. The session is 0 if the governor does not
    /// know it.
    pub victim: (SessionId, i32),
    /// The victim's class.
    pub victim_class: String,
    /// The session that waited for the victim, and its server process.
    pub waiter: (SessionId, i32),
    /// The waiter's class.
    pub waiter_class: String,
    /// The policy that decided it: `pow`, `after(50ms)`, …
    pub lever: String,
    /// How long the waiter had waited.
    pub waited: Duration,
    /// What the victim was doing: `waited for a lock`, `waited for its client`, `ran`, `prepared`.
    pub victim_was: &'static str,
    /// The action: `cancelled`, `rolled back`, `tracked`, `left alone`, `too late`.
    pub done: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// The expected cost and saving; `None` if they were not weighed.
    pub stake: Option<Stake>,
}

impl PreemptionEvent {
    /// The outcome, with the SQLSTATE that the client got.
    pub fn told(&self) -> String {
        let told = self.outcome.to_string();
        // A broken cycle is a deadlock for its victim.
        match told.strip_prefix("40001").filter(|_| self.lever == CYCLE) {
            Some(rest) => format!("40P01{rest}"),
            None => told,
        }
    }
}

/// The last preemptions, oldest first, and the counts of lines for them.
#[derive(Debug, Default)]
pub(super) struct Events {
    kept: VecDeque<PreemptionEvent>,
    rollbacks: LineLimit,
    outcomes: LineLimit,
    /// How many of the outcomes that were not logged are 40001.
    failures_unlogged: u64,
}

/// A line of the log. It is written after the lock on the events is released, because the log may be slow.
#[derive(Debug, Clone)]
pub(super) enum Line {
    /// A transaction is about to be rolled back.
    Rollback(PreemptionEvent),
    /// The outcome is known.
    Settled(PreemptionEvent),
    /// Rollbacks and outcomes of an earlier second that were not logged, and how many of the outcomes are 40001.
    Unlogged { rollbacks: u64, outcomes: u64, failures: u64 },
}

impl Events {
    /// Keeps an event under a new number. `second` is the present one, by any clock that does not go backwards.
    pub(super) fn note(&mut self, event: PreemptionEvent, second: u64) -> (EventId, Vec<Line>) {
        let id = EventId(self.kept.back().map_or(0, |last| last.id.0) + 1);
        if self.kept.len() == EVENTS_KEPT {
            self.kept.pop_front();
        }
        let event = PreemptionEvent { id, ..event };
        let mut lines = self.unlogged(second);
        if event.outcome == Outcome::Pending && self.rollbacks.takes(second) {
            lines.push(Line::Rollback(event.clone()));
        }
        self.kept.push_back(event);
        (id, lines)
    }

    /// Sets the outcome of an event. Has no effect if there is one already, or if the event is no longer kept.
    pub(super) fn settle(&mut self, id: EventId, outcome: Outcome, second: u64) -> Vec<Line> {
        let place = self.kept.binary_search_by_key(&id, |event| event.id).ok();
        let event = place.map(|place| &mut self.kept[place]).filter(|event| event.outcome == Outcome::Pending);
        let Some(event) = event else { return Vec::new() };
        event.outcome = outcome;
        if outcome == Outcome::TooLate {
            event.done = "too late";
        }
        let event = event.clone();
        let mut lines = self.unlogged(second);
        if self.outcomes.takes(second) {
            lines.push(Line::Settled(event));
        } else {
            self.failures_unlogged += u64::from(outcome.is_failure());
        }
        lines
    }

    /// The line that sums up unlogged events of an earlier second, if there were any.
    pub(super) fn unlogged(&mut self, second: u64) -> Vec<Line> {
        if self.rollbacks.second >= second && self.outcomes.second >= second {
            return Vec::new();
        }
        let (rollbacks, outcomes) = (self.rollbacks.begin(second), self.outcomes.begin(second));
        let failures = std::mem::take(&mut self.failures_unlogged);
        let has_any = rollbacks + outcomes > 0;
        has_any.then_some(Line::Unlogged { rollbacks, outcomes, failures }).into_iter().collect()
    }

    pub(super) fn list(&self) -> Vec<PreemptionEvent> {
        self.kept.iter().cloned().collect()
    }
}

impl Line {
    pub(super) fn write(self) {
        match self {
            Line::Rollback(event) => tracing::info!(
                event = event.id.0,
                lever = event.lever,
                victim = event.victim.0.0,
                victim_process = event.victim.1,
                victim_class = event.victim_class,
                waiter = event.waiter.0.0,
                waiter_process = event.waiter.1,
                waiter_class = event.waiter_class,
                waited_ms = event.waited.as_millis() as u64,
                "rolling back a transaction that {}",
                event.victim_was
            ),
            Line::Settled(event) => tracing::info!(
                event = event.id.0,
                lever = event.lever,
                victim = event.victim.0.0,
                victim_class = event.victim_class,
                outcome = event.told(),
                "a rollback was settled"
            ),
            Line::Unlogged { rollbacks, outcomes, failures } => tracing::info!(
                rollbacks,
                outcomes,
                failures,
                "more rollbacks and outcomes in the last second than are logged; `failures` clients got 40001"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::LINES_PER_SECOND;
    use super::*;
    use crate::testing::preemption;

    #[test]
    fn the_first_outcome_stands() {
        let mut events = Events::default();
        let (id, lines) = events.note(preemption(), 0);
        assert!(matches!(lines[..], [Line::Rollback(_)]));
        assert_eq!(events.settle(id, Outcome::Differed(3), 0).len(), 1);
        assert!(
            events.settle(id, Outcome::TooLate, 0).is_empty()
                && events.settle(EventId(7), Outcome::TooLate, 0).is_empty()
        );
        assert_eq!(events.list()[0].outcome, Outcome::Differed(3));
        // A tracked victim was not rolled back: nothing is logged, and its outcome does not change.
        let (id, lines) = events.note(PreemptionEvent { outcome: Outcome::Tracked(Ok(())), ..preemption() }, 0);
        assert!(lines.is_empty() && events.settle(id, Outcome::Replayed, 0).is_empty());
    }

    #[test]
    fn the_victim_of_a_cycle_got_the_sqlstate_of_a_deadlock() {
        let told = |lever: &str, outcome| PreemptionEvent { lever: lever.to_owned(), outcome, ..preemption() }.told();
        assert_eq!(told("pow", Outcome::Differed(3)), "40001: answer 3 differed");
        assert_eq!(told("cycle", Outcome::Differed(3)), "40P01: answer 3 differed");
        assert_eq!(
            told("cycle", Outcome::NotReplayed(NoReplay::TooOften)),
            told("pow", Outcome::NotReplayed(NoReplay::TooOften)).replace("40001", "40P01")
        );
        assert_eq!(told("cycle", Outcome::Replayed), "replayed");
    }

    #[test]
    fn a_cancel_that_met_nobody_says_so() {
        let mut events = Events::default();
        let (id, _) = events.note(preemption(), 0);
        let _ = events.settle(id, Outcome::TooLate, 0);
        assert_eq!((events.list()[0].done, events.list()[0].outcome), ("too late", Outcome::TooLate));
    }

    /// Hundreds of rollbacks per second filled the disk with a log that was too long to read.
    #[test]
    fn a_flood_is_summed_up_once_a_second() {
        let mut events = Events::default();
        let mut lines = Vec::new();
        for _ in 0..25 {
            let (id, noted) = events.note(preemption(), 4);
            lines.extend(noted);
            lines.extend(events.settle(id, Outcome::NotReplayed(NoReplay::TooOften), 4));
        }
        assert_eq!(lines.len(), 2 * LINES_PER_SECOND as usize);
        assert!(events.unlogged(4).is_empty(), "the second has not ended");
        let summary = events.unlogged(5);
        assert!(matches!(summary[..], [Line::Unlogged { rollbacks: 15, outcomes: 15, failures: 15 }]), "{summary:?}");
        assert!(events.unlogged(6).is_empty(), "it is said once");
        assert_eq!(events.note(preemption(), 6).1.len(), 1);
    }

    #[test]
    fn no_more_than_some_are_kept() {
        let mut events = Events::default();
        for _ in 0..EVENTS_KEPT + 3 {
            let _ = events.note(preemption(), 0);
        }
        let list = events.list();
        assert_eq!((list.len(), list[0].id), (EVENTS_KEPT, EventId(4)));
        assert!(events.settle(EventId(3), Outcome::Replayed, 0).is_empty(), "it is no longer kept");
    }
}
