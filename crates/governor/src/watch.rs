//! Which transactions wait for which others: looking, deciding, and carrying out decisions. See `watch/README.md`.
//!
//! One thread with one connection to the server. It sleeps until a session rings: a unit of a class above the lowest
//! has been in flight for longer than the threshold. While any such unit is late and a less important session has a
//! transaction open, the thread looks (`look`), builds a graph from the look and the sessions' cards (`graph`), asks
//! [`plimsoll_policy::decide`] and acts (`act`). It then pauses, for longer and longer while nothing changes.
//!
//! Cycles of waiters are broken, whichever classes their members have (`cycle`). For that, the thread checks now and
//! then whether several units have been in flight for a while.
//!
//! It also checks now and then whether a transaction waits for admission while admitted ones wait for a lock that its session
//! holds (`outside`).
//!
//! Beside a server no session rings: the thread itself checks which sessions exist, and which important ones wait for a
//! lock (`beside`).
//!
//! About once a second it looks which statements run (`sampling`).
//!
//! For the guards it looks now and then which statements hold up others by accident (`guards`).
//!
//! The same thread gives server processes their shares of the cores (`agent`).

mod act;
mod aimed;
mod beside;
mod control;
mod cycle;
mod elsewhere;
mod graph;
mod guards;
mod late;
mod ledger;
pub(crate) mod levers;
mod look;
mod outside;
mod pace;
mod round;
mod sampling;
pub(crate) mod statements;
mod tracked;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_pg::connection::WireError;
use rustix::time::{ClockId, clock_gettime};

use crate::agent::Agent;
use crate::governor::{Governor, Heard};
use crate::settings::Settings;
use crate::settings::levers::AWAKE;
use beside::Beside;
use control::Control;
pub(crate) use control::{Host, session as isolated_session};
use cycle::Cycles;
use guards::Guards;
use outside::Outside;
use pace::{Budget, Pace, Seen};
use round::Round;
use sampling::Sampling;

/// The longest sleep of the thread. After it, the thread checks whether the connection still works.
const SLEEP_MAX: Duration = Duration::from_millis(500);

/// The shortest sleep of the thread between two rounds, unless a session rings: a part that stays due, because what it is
/// due for cannot be done, must not take a whole core.
const SLEEP_LEAST: Duration = Duration::from_millis(1);

/// The thread that watches. Dropping it ends the thread and restores the processes that the thread has changed.
#[derive(Debug)]
pub struct Watcher {
    governor: Arc<Governor>,
    stop: Arc<AtomicBool>,
    /// Disconnected once the server has been asked, or could not be.
    asked: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to watch. The thread connects to the server in the background; the governor's health shows what works.
pub fn start(governor: Arc<Governor>) -> Watcher {
    let stop = Arc::new(AtomicBool::new(false));
    let watch = Watch::new(governor.clone(), stop.clone());
    let (asks, asked) = mpsc::channel();
    let thread = std::thread::Builder::new().name("watcher".to_owned()).spawn(move || watch.run(asks));
    // Without the thread nothing is preempted, but traffic flows; the levers' state reports it.
    let thread = thread.map_err(|error| levers::all_off(&governor, &format!("no thread can be started: {error}"))).ok();
    Watcher { governor, stop, asked, thread }
}

impl Watcher {
    /// Waits until the control connection has been made and the server asked, or neither could be, for at most two seconds.
    ///
    /// Before that, nothing shows which code is older than a transaction, so a transaction that begins is not replayed.
    pub fn wait_until_asked(&self) {
        // Nothing is ever sent: the other end is dropped, or the server is slow and clients are not to wait for it.
        let _ = self.asked.recv_timeout(control::PATIENCE);
    }

    /// Ends the thread and waits until it has ended.
    pub fn stop(self) {}
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Release: pairs with the thread's load, though it publishes no other data.
        self.stop.store(true, Ordering::Release);
        self.governor.bell.ring();
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, the panic has been reported, and its connection and its agent have been
            // dropped.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Watch {
    governor: Arc<Governor>,
    stop: Arc<AtomicBool>,
    control: Control,
    agent: Agent,
    round: Round,
    outside: Outside,
    /// The sessions that applications have opened themselves, for a governor beside its server.
    beside: Beside,
    cycles: Cycles,
    guards: Guards,
    sampling: Sampling,
    /// How much time looks for late units may take.
    budget: Budget,
    /// The last look for waiters has failed.
    has_look_failed: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let works = self.governor.awake.end(Instant::now());
        self.governor.report(AWAKE, works);
    }
}

impl Watch {
    fn new(governor: Arc<Governor>, stop: Arc<AtomicBool>) -> Self {
        let (control, agent) = (Control::new(governor.clone()), Agent::new(governor.clone()));
        let (round, now) = (Round::new(governor.clone()), Instant::now());
        let (outside, cycles) = (Outside::new(now), Cycles::new(now));
        let (beside, budget) = (Beside::new(governor.clone()), Budget::new(now));
        let (guards, sampling) = (Guards::new(governor.clone(), now), Sampling::new(governor.clone(), now));
        Watch {
            governor,
            stop,
            control,
            agent,
            round,
            outside,
            beside,
            cycles,
            guards,
            sampling,
            budget,
            has_look_failed: false,
        }
    }

    fn run(mut self, asks: Sender<()>) {
        let mut asks = Some(asks);
        while !self.stops() {
            let now = Instant::now();
            self.count_cpu();
            let is_new = self.tend(now);
            drop(asks.take());
            // Sessions that rang while there was no connection do not ring again.
            let is_late = is_new | self.beside.take_late();
            let sleep = if is_late { SLEEP_LEAST } else { self.sleep(now) };
            let heard = self.governor.bell.wait(sleep);
            if is_late || heard == Heard::Late {
                self.watch();
            } else {
                self.break_cycles();
            }
        }
    }

    /// The time until some part is due.
    fn sleep(&self, now: Instant) -> Duration {
        let settings = self.governor.settings();
        let due = [
            self.agent.due(now),
            self.outside.due(&settings, now),
            self.beside.due(now),
            self.cycles.due(&self.governor, &settings, now),
            self.guards.due(&settings, now),
            self.governor.awake.due(now),
            self.governor.pace_due(now),
            Some(self.sampling.due(now)),
        ];
        due.into_iter().flatten().fold(SLEEP_MAX, Duration::min).max(SLEEP_LEAST)
    }

    /// Stores the CPU time that this thread has used so far, for operators.
    fn count_cpu(&self) {
        let used = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        // Relaxed: a counter for operators.
        self.governor.statistics.watch_cpu_nanos.store(used.as_nanos() as u64, Ordering::Relaxed);
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Connects if that is due, checks the connection, gives processes their shares, and admits transactions that
    /// admitted ones wait for. Returns whether the connection was opened or lost.
    fn tend(&mut self, now: Instant) -> bool {
        let settings = self.governor.settings();
        let is_new = self.control.tend(&settings, now);
        if self.beside.tend(&mut self.control, &settings, now) | is_new {
            let here = self.control.here.clone();
            let idle = self.beside.idle_because().map(str::to_owned);
            let is_asked = idle.is_none() && self.control.connection().is_some();
            self.agent.server(idle.map_or(here, Err));
            let why = self.agent.is_kept_out().filter(|_| is_asked);
            levers::by_sql_alone(&self.governor, why.map(|why| (why.to_owned(), self.control.is_elsewhere)));
        }
        self.agent.tend(&settings, now);
        if let Some(works) = self.governor.awake.tend(&settings, now) {
            self.governor.report(AWAKE, works);
        }
        self.governor.log_left_out();
        self.governor.keep_pace(now);
        self.guard(&settings, now);
        self.sample(now);
        self.admit_holders(&settings, now);
        is_new
    }

    /// Looks for work that holds up others by accident, if that is due and this governor is the active one.
    fn guard(&mut self, settings: &Settings, now: Instant) {
        if !self.guards.is_due(settings, now) {
            return;
        }
        let is_active = self.beside.idle_because().is_none();
        let Some(up) = self.control.connection().filter(|_| is_active) else {
            // A look that cannot be made must not remain due: this thread would not sleep.
            return self.guards.postpone(now);
        };
        if let Err(error) = self.guards.look(up, settings, now) {
            self.control.lost_or_refused(&error);
        }
    }

    /// Looks which statements run, if that is due and this governor is the active one.
    fn sample(&mut self, now: Instant) {
        if !self.sampling.due(now).is_zero() {
            return;
        }
        let is_active = self.beside.idle_because().is_none();
        let Some(up) = self.control.connection().filter(|_| is_active) else { return self.sampling.postpone(now) };
        if let Err(error) = self.sampling.look(up, now) {
            self.control.lost_or_refused(&error);
        }
    }

    /// Checks now and then whether a session that waits for admission blocks admitted ones.
    fn admit_holders(&mut self, settings: &Settings, now: Instant) {
        let Some(inside) = self.outside.begin(&self.governor, settings, now) else { return };
        let Some(up) = self.control.connection() else { return };
        if let Err(error) = self.outside.go(up, &self.governor, &inside) {
            self.control.lost_or_refused(&error);
        }
    }

    /// Looks for cycles of waiters if that is due and no important unit is late.
    fn break_cycles(&mut self) {
        let (settings, now) = (self.governor.settings(), Instant::now());
        let suspects = self.cycles.suspects(&self.governor, &settings, now);
        if suspects.is_empty() {
            return;
        }
        let Some(up) = self.control.connection() else { return };
        let outcome = self.round.go(up, &settings, &suspects, &mut self.agent);
        self.note_look(outcome);
        self.looked_for_cycles(&settings, now);
        if !self.cycles.is_pending {
            self.round.forget();
        }
    }

    /// A look for cycles, which began then, has ended.
    fn looked_for_cycles(&mut self, settings: &Settings, began: Instant) {
        let (now, took) = (Instant::now(), began.elapsed());
        self.budget.spend(took, self.round.take_won(), now);
        self.cycles.looked(took, self.round.has_pending_cycle, settings, self.budget.want(now), now);
    }

    /// Reports a look that has failed until one succeeds.
    fn note_look(&mut self, outcome: Result<Seen, WireError>) -> Seen {
        let has_failed = outcome.is_err();
        let seen = outcome.unwrap_or_else(|error| {
            if !self.control.lost_or_refused(&error) {
                levers::look_failed(&self.governor, &error);
            }
            Seen::default()
        });
        if std::mem::replace(&mut self.has_look_failed, has_failed) && !has_failed {
            self.control.tell_preemption();
        }
        seen
    }

    /// Looks, decides and acts for as long as a unit is late.
    fn watch(&mut self) {
        let mut pace = Pace::new();
        while !self.stops() {
            let now = Instant::now();
            self.count_cpu();
            self.tend(now);
            let settings = self.governor.settings();
            let rules = round::rules(&settings, &self.agent);
            let late = late::late(&self.governor, &settings, now);
            let is_over = rules.is_none() || late.processes.is_empty();
            let Some(up) = self.control.connection().filter(|_| !is_over) else { break };
            let suspects = self.cycles.suspects(&self.governor, &settings, now);
            let may_look = late.may_be_blocked && self.budget.want(now).is_zero();
            let mut from = if may_look { late.processes } else { Vec::new() };
            from.extend(&suspects);
            from.sort_unstable();
            from.dedup();
            let outcome = match from.is_empty() {
                false => self.round.go(up, &settings, &from, &mut self.agent),
                true => Ok(Seen::default()),
            };
            let seen = self.note_look(outcome);
            pace.note(now.elapsed(), seen);
            if !suspects.is_empty() {
                self.looked_for_cycles(&settings, now);
            } else if !from.is_empty() {
                self.budget.spend(now.elapsed(), self.round.take_won(), Instant::now());
            }
            let cycles_due = self.cycles.due(&self.governor, &settings, Instant::now());
            // If another unit is late, the next look is due soon.
            let interval = settings.preemption.look_interval;
            let want = self.budget.want(Instant::now());
            let pause = cycles_due.map_or(Duration::MAX, |due| due.max(interval)).min(pace.pause(interval).max(want));
            if self.rest(pause) {
                let want = self.budget.want(Instant::now());
                let until = Instant::now() + pace.rest(interval, now.elapsed()).max(want);
                while self.rest(until.saturating_duration_since(Instant::now())) {}
                pace.hurry();
            }
        }
        self.round.forget();
    }

    /// Does not look for that long, or until another unit is late; returns whether one is. Processes still get their
    /// shares, which do not depend on looks.
    fn rest(&mut self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most.min(SLEEP_MAX);
        loop {
            let now = Instant::now();
            let left = until.saturating_duration_since(now);
            if left.is_zero() || self.stops() {
                return false;
            }
            let due = self.agent.due(now).map_or(left, |due| due.min(left));
            if self.governor.bell.wait(due) == Heard::Late {
                return true;
            }
            self.agent.tend(&self.governor.settings(), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
