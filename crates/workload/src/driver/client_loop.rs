//! The life of one client: draw, wait until the request is due, run it with retries, note it down.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::DriveError;
use super::clock::{Clock, Nanos};
use super::pacing::{Pacing, Urgency};
use super::recorder::{Bounds, Ended, Recorder, waited};
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session, SessionUsage};

/// A client gives up the run after this many requests in a row that failed: the database is broken, not busy.
const FAILURES_IN_A_ROW_MAX: u32 = 100;

/// What all clients of a run look at.
#[derive(Debug)]
pub(super) struct Signals {
    /// Tells every client to end as soon as its request has ended.
    ///
    /// Relaxed everywhere: it carries no data, and what clients leave behind is handed over by joining their threads.
    pub halt: AtomicBool,
    /// The window, once it is known; always published before it begins.
    pub bounds: OnceLock<Bounds>,
    /// How many have not yet passed the window's end: the clients, and the coordinator, whose sensors must be read while
    /// the clients' threads still live. The one that makes it 0 sets `halt`.
    not_past_end: AtomicUsize,
}

impl Signals {
    /// Signals for that many who have to pass the window's end.
    pub(super) fn new(participants: usize) -> Self {
        Signals { halt: AtomicBool::new(false), bounds: OnceLock::new(), not_past_end: AtomicUsize::new(participants) }
    }

    /// Says that one of the participants has passed the window's end, and will not say so again.
    pub(super) fn pass_end(&self) {
        if self.not_past_end.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.halt.store(true, Ordering::Relaxed);
        }
    }

    /// Whether clients should end.
    pub(super) fn halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }
}

/// What all clients of one workload look at.
#[derive(Debug)]
pub(super) struct Team<'a> {
    /// The workload's name.
    pub workload: &'a str,
    /// How many clients it has.
    pub clients: usize,
    /// How often a request is run again.
    pub retry_max: u32,
    /// Clients whose first request has failed.
    pub failed_at_once: AtomicUsize,
    /// How many requests each client has completed, by its number.
    pub completed: Vec<CompletedCount>,
}

impl Team<'_> {
    /// Requests that all clients have completed so far. A count.
    pub(super) fn completed(&self) -> u64 {
        self.completed.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

/// How many requests one client has completed since it began, for others to see while it works.
///
/// On a cache line of its own, and on a pair of lines that is fetched at once, so that only its reader slows its writer
/// down. Relaxed: one thread writes it, and nothing else is read on the strength of it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct CompletedCount(AtomicU64);

impl CompletedCount {
    /// Called by the client itself, so that nothing can come between reading and writing.
    fn add_one(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// One client at work.
pub(super) struct ClientLoop<'a, C> {
    pub clock: &'a C,
    pub signals: &'a Signals,
    pub team: &'a Team<'a>,
    pub number: usize,
    pub pacing: Pacing,
    pub urgency: Urgency,
    /// Whether this client has told the others that it has passed the window's end.
    pub past_end: bool,
}

/// How all attempts at one request ended.
struct Attempts {
    outcome: Result<Outcome, DatabaseError>,
    deadlocks: u32,
    preemptions: u32,
}

impl<C: Clock> ClientLoop<'_, C> {
    /// Works from `begin` until told to end.
    ///
    /// Where requests follow each other without think time the clock is read once a request: one's end is the next one's
    /// start, so that drawing the input is part of the latency. With a think time the input is drawn before the wait.
    pub(super) fn run(
        mut self,
        client: &mut dyn Client,
        session: &mut dyn Session,
        begin: Nanos,
    ) -> Result<Recorder, DriveError> {
        let mut recorder = Recorder::new();
        let mut usage = session.usage();
        let mut session_priority = None;
        let mut failures = Failures::default();
        let mut previous_end = begin;
        loop {
            let transaction = client.draw();
            let priority = self.urgency.next();
            let intended = self.pacing.next(previous_end);
            if !self.wait_until(intended, previous_end) {
                return Ok(recorder);
            }
            // Setting it may cost a server a round trip, so it is set only when it changes.
            if session_priority.replace(priority) != Some(priority) {
                session.set_priority(priority);
            }
            let attempts = attempt(client, session, self.team.retry_max);
            let end = self.clock.now();
            let used = session.usage();
            if attempts.outcome.is_ok() {
                self.team.completed[self.number].add_one();
            }
            if let Some(bounds) = self.signals.bounds.get() {
                let SessionUsage { lock_wait, lock_waits, io_wait, .. } = waited(&usage, &used);
                let request = Ended {
                    transaction,
                    priority,
                    intended,
                    ready: intended.max(previous_end),
                    end,
                    outcome: attempts.outcome.as_ref().ok().copied(),
                    deadlocks: attempts.deadlocks,
                    preemptions: attempts.preemptions,
                    lock_wait,
                    lock_waits,
                    io_wait,
                };
                recorder.note(&request, bounds);
            }
            failures.judge(attempts.outcome, self.team, self.number)?;
            usage = used;
            previous_end = end;
        }
    }

    /// Waits until a request is due; false means that the client is to end. `now` is a recent look at the clock.
    fn wait_until(&mut self, due: Nanos, mut now: Nanos) -> bool {
        loop {
            self.tell_when_past_end(now);
            if self.signals.halted() {
                return false;
            }
            if now >= due {
                return true;
            }
            self.clock.doze_until(due);
            now = self.clock.now();
        }
    }

    fn tell_when_past_end(&mut self, now: Nanos) {
        if self.past_end || self.signals.bounds.get().is_none_or(|bounds| now < bounds.end) {
            return;
        }
        self.past_end = true;
        self.signals.pass_end();
    }
}

/// Runs the request drawn last, again after each retryable error, `retry_max` times at most.
fn attempt(client: &mut dyn Client, session: &mut dyn Session, retry_max: u32) -> Attempts {
    let (mut deadlocks, mut preemptions) = (0, 0);
    loop {
        let outcome = client.run(session);
        match &outcome {
            Err(DatabaseError::Deadlock) => deadlocks += 1,
            Err(DatabaseError::Preempted) => preemptions += 1,
            _ => {}
        }
        let again = outcome.as_ref().is_err_and(DatabaseError::is_retryable) && deadlocks + preemptions <= retry_max;
        if !again {
            return Attempts { outcome, deadlocks, preemptions };
        }
    }
}

/// Failed requests of one client.
#[derive(Debug, Default)]
struct Failures {
    /// Whether any request has ended yet.
    begun: bool,
    in_a_row: u32,
}

impl Failures {
    /// Decides whether a run with such failures is worth going on with.
    fn judge(
        &mut self,
        outcome: Result<Outcome, DatabaseError>,
        team: &Team<'_>,
        client: usize,
    ) -> Result<(), DriveError> {
        let first = !std::mem::replace(&mut self.begun, true);
        let Err(error) = outcome else {
            self.in_a_row = 0;
            return Ok(());
        };
        self.in_a_row += 1;
        let workload = || team.workload.to_owned();
        if first && team.failed_at_once.fetch_add(1, Ordering::Relaxed) + 1 == team.clients {
            return Err(DriveError::NothingWorks { workload: workload(), error });
        }
        if self.in_a_row == FAILURES_IN_A_ROW_MAX {
            return Err(DriveError::KeepsFailing { workload: workload(), client, count: self.in_a_row, error });
        }
        Ok(())
    }
}
