//! The life of one client: draw, wait until the request is due, run it with retries, note it down.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::DriveError;
use super::board::{Board, RunningRequest};
use super::clock::{Clock, Nanos};
use super::coordinator::nanos;
use super::pacing::{Arrivals, Pacing, Urgency};
use super::recorder::{Bounds, EndedRequest, Recorder, waited};
use super::round_trip::RoundTrips;
use crate::benchmark::{Between, Client, Outcome};
use crate::database::{DatabaseError, LockWait, Session, SessionUsage};

/// A client whose first requests fail, this many of them, has no hope of better ones: it or its data are broken.
const FAILURES_AT_FIRST_MAX: u32 = 100;

/// The signals that all clients of a run share.
#[derive(Debug)]
pub(super) struct Signals {
    /// Tells every client to end as soon as its request has ended.
    ///
    /// Relaxed everywhere: it carries no data, and joining the clients' threads publishes their results.
    pub halt: AtomicBool,
    /// The window, once it is known; always published before it begins.
    pub bounds: OnceLock<Bounds>,
    /// Whether requests that are under way after the window are cancelled.
    pub is_cut: AtomicBool,
    /// How many were.
    pub cut_count: AtomicUsize,
    /// How many participants have not yet passed the window's end: the clients, and the coordinator, whose sensors must
    /// be read while the clients' threads still live. The participant that decrements it to 0 sets `halt`.
    not_past_end: AtomicUsize,
}

impl Signals {
    /// Signals for this number of participants, which must pass the window's end.
    pub(super) fn new(participants: usize) -> Self {
        Signals {
            halt: AtomicBool::new(false),
            bounds: OnceLock::new(),
            is_cut: AtomicBool::new(false),
            cut_count: AtomicUsize::new(0),
            not_past_end: AtomicUsize::new(participants),
        }
    }

    /// Records that one of the participants has passed the window's end. Called once by each.
    pub(super) fn pass_end(&self) {
        if self.not_past_end.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.halt.store(true, Ordering::Relaxed);
        }
    }

    /// Notes how the last request of a client ended, when the run was over. One that fails then was most likely cancelled, and says
    /// nothing about the database.
    fn note_last(&self, outcome: &Result<Outcome, DatabaseError>) {
        let is_cut = outcome.is_err() && self.is_cut.load(Ordering::Relaxed);
        self.cut_count.fetch_add(usize::from(is_cut), Ordering::Relaxed);
    }

    /// Whether clients should end.
    pub(super) fn halted(&self) -> bool {
        self.halt.load(Ordering::Relaxed)
    }
}

/// The data that all clients of one workload share.
#[derive(Debug)]
pub(super) struct Team<'a> {
    /// The workload's name.
    pub workload: &'a str,
    /// How many clients it has.
    pub clients: usize,
    /// How often a request is run again.
    pub retry_max: u32,
    /// Clients whose first [`FAILURES_AT_FIRST_MAX`] requests have failed.
    pub hopeless: AtomicUsize,
    /// The activity of each client, by its number.
    pub board: Board,
    /// When requests arrive, in open loop.
    pub arrivals: Option<Arrivals>,
}

pub(super) struct ClientLoop<'a, C> {
    pub clock: &'a C,
    pub signals: &'a Signals,
    pub team: &'a Team<'a>,
    pub number: usize,
    pub pacing: Pacing<'a>,
    pub urgency: Urgency,
    /// Whether this client has recorded that it passed the window's end.
    pub past_end: bool,
}

/// How all attempts at one request ended.
struct Attempts {
    outcome: Result<Outcome, DatabaseError>,
    /// When the last one began.
    last_began: Nanos,
    deadlocks: u32,
    preemptions: u32,
    conflicts: u32,
    /// Time spent on undoing those that were rolled back; `None` if the target does not report it.
    rollback_time: Option<Duration>,
}

/// The lock waits and rollbacks of the current request; kept to reuse its memory.
#[derive(Default)]
struct Incidents {
    lock_waits: Vec<LockWait>,
    /// Of each preempted attempt, how old it was.
    work_lost: Vec<Duration>,
}

impl Incidents {
    /// The lock waits since the last call, in place of those before.
    fn take_lock_waits(&mut self, session: &mut dyn Session) {
        self.lock_waits.clear();
        session.take_lock_waits(&mut self.lock_waits);
    }

    /// Each lock wait of a request that has used that; `None` if the target counts waits but does not report each of
    /// them: it has lost some, and it is unknown which.
    fn each_lock_wait(&self, used: &SessionUsage) -> Option<&[LockWait]> {
        let is_each_known = used.lock_wait.is_some() && self.lock_waits.len() as u64 == used.lock_waits;
        is_each_known.then_some(self.lock_waits.as_slice())
    }
}

impl<C: Clock> ClientLoop<'_, C> {
    /// Works from `begin` until it is signalled to end.
    ///
    /// Without think time the clock is read once per request: one request's end is the next one's start, so that
    /// drawing the input is part of the latency. With a think time the input is drawn before the wait.
    pub(super) fn run(
        mut self,
        client: &mut dyn Client,
        session: &mut RoundTrips<'_, C>,
        begin: Nanos,
    ) -> Result<Recorder, DriveError> {
        let mut recorder = Recorder::new();
        let mut incidents = Incidents::default();
        let (mut usage, mut slept) = (session.usage(), session.slept());
        let mut session_priority = None;
        let mut failed_at_first = Some(0);
        let mut previous_end = begin;
        let mut number = 0u32;
        loop {
            let between = client.between(session);
            let transaction = client.draw();
            let priority = self.urgency.next(transaction);
            let intended = self.intended(between, previous_end);
            let Some(began) = self.wait_until(intended, previous_end) else {
                self.signals.bounds.get().inspect(|bounds| recorder.note_unserved(intended, bounds));
                return Ok(recorder);
            };
            // Setting it may cost a server a round trip, so it is set only when it changes.
            if session_priority.replace(priority) != Some(priority) {
                session.set_priority(priority);
            }
            self.team.board.begin(self.number, RunningRequest { transaction: transaction as u16, priority, number });
            number = number.wrapping_add(1);
            let attempts = self.attempt(client, session, began, &usage, &mut incidents.work_lost, &mut recorder);
            let end = self.clock.now();
            self.team.board.end(self.number);
            let (used, slept_by_now) = (session.usage(), session.slept());
            incidents.take_lock_waits(session);
            if attempts.outcome.is_ok() {
                self.team.board.complete(self.number);
            }
            if let Some(bounds) = self.signals.bounds.get() {
                let of_request = waited(&usage, &used);
                let request = EndedRequest {
                    transaction,
                    priority,
                    intended,
                    ready: intended.max(previous_end),
                    last_attempt: attempts.last_began,
                    end,
                    outcome: attempts.outcome.as_ref().copied(),
                    deadlocks: attempts.deadlocks,
                    preemptions: attempts.preemptions,
                    conflicts: attempts.conflicts,
                    lock_wait: of_request.lock_wait,
                    lock_waits: of_request.lock_waits,
                    each_lock_wait: incidents.each_lock_wait(&of_request),
                    work_lost: &incidents.work_lost,
                    rollback_time: attempts.rollback_time,
                    io_wait: of_request.io_wait,
                    round_trip: slept_by_now - slept,
                    query_memory: of_request.query_memory,
                    network_bytes: of_request.network_bytes,
                };
                recorder.note(&request, bounds);
            }
            match self.signals.halted() {
                true => self.signals.note_last(&attempts.outcome),
                false => self.judge(attempts.outcome, &mut failed_at_first)?,
            }
            (usage, slept) = (used, slept_by_now);
            previous_end = end;
        }
    }

    /// The intended start of the next request; the previous one ended at `previous_end`.
    fn intended(&mut self, between: Between, previous_end: Nanos) -> Nanos {
        match between {
            Between::Nothing => self.pacing.next(previous_end),
            Between::Worked => self.pacing.next(self.clock.now()),
            Between::Paused(pause) => self.clock.now().max(previous_end.saturating_add(nanos(pause))),
        }
    }

    /// Runs the request drawn last, again at once after each retryable error, `retry_max` times at most, and not again once
    /// the run is over. `before` is the session's usage as the request begins.
    fn attempt(
        &self,
        client: &mut dyn Client,
        session: &mut dyn Session,
        began: Nanos,
        before: &SessionUsage,
        work_lost: &mut Vec<Duration>,
        recorder: &mut Recorder,
    ) -> Attempts {
        work_lost.clear();
        let (mut last_began, mut before) = (began, *before);
        let (mut deadlocks, mut preemptions, mut conflicts, mut rollback_time) = (0, 0, 0, Some(Duration::ZERO));
        loop {
            let outcome = client.run(session);
            let Some(error) = outcome.as_ref().err().filter(|error| error.is_retryable()) else {
                return Attempts { outcome, last_began, deadlocks, preemptions, conflicts, rollback_time };
            };
            let (now, after) = (self.clock.now(), session.usage());
            let taking_back = waited(&before, &after).rollback_time;
            rollback_time = rollback_time.zip(taking_back).map(|(sum, time)| sum + time);
            match error {
                DatabaseError::Preempted => {
                    let age = Duration::from_nanos(now - last_began).saturating_sub(taking_back.unwrap_or_default());
                    work_lost.push(age);
                    preemptions += 1;
                }
                DatabaseError::Conflict(_) => conflicts += 1,
                _ => deadlocks += 1,
            }
            if deadlocks + preemptions + conflicts > self.team.retry_max || self.signals.halted() {
                return Attempts { outcome, last_began, deadlocks, preemptions, conflicts, rollback_time };
            }
            self.signals.bounds.get().inspect(|bounds| recorder.note_run_again(error, now, bounds));
            (last_began, before) = (now, after);
        }
    }

    /// Waits until a request is due and returns the actual time; `None` means that the client must end. `now` is a
    /// recent reading of the clock.
    fn wait_until(&mut self, due: Nanos, mut now: Nanos) -> Option<Nanos> {
        loop {
            self.tell_when_past_end(now);
            if self.signals.halted() {
                return None;
            }
            if now >= due {
                return Some(now);
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

    /// Decides whether the run can go on after a request. Failed requests are counted and told with the figures; only a
    /// workload of which nothing has ever worked ends its run early. `failed_at_first` counts the requests that have failed
    /// before any succeeded.
    fn judge(
        &self,
        outcome: Result<Outcome, DatabaseError>,
        failed_at_first: &mut Option<u32>,
    ) -> Result<(), DriveError> {
        let Err(error) = outcome else {
            *failed_at_first = None;
            return Ok(());
        };
        let workload = || self.team.workload.to_owned();
        // From here on, the measurements of the other clients do not belong to the requested workload.
        if error.is_server_lost() {
            return Err(DriveError::ServerLost { workload: workload(), client: self.number, error });
        }
        let Some(count) = failed_at_first else { return Ok(()) };
        *count = count.saturating_add(1);
        if *count == FAILURES_AT_FIRST_MAX
            && self.team.hopeless.fetch_add(1, Ordering::Relaxed) + 1 == self.team.clients
        {
            let run_again = self.team.retry_max;
            return Err(DriveError::NothingWorks { workload: workload(), count: *count, run_again, error });
        }
        Ok(())
    }
}
