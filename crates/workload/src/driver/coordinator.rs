//! Starts the clients, opens and closes the window, and gathers the clients' records.
//!
//! ```text
//! connect ──► warm-up ──► observer.opened ──► measure ──► observer.closed ──► finish ──► join
//! ```
//! A client that fails, or Ctrl-C before the window has ended, leads from anywhere straight to the join.

use std::iter;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::board::Board;
use super::client_loop::{Signals, Team};
use super::client_threads::{ClientThread, cut_warning, gather, spawn_clients, wait_until_ended};
use super::clock::{Clock, MonotonicClock, Nanos};
use super::doubt::doubts;
use super::driven::WorkloadFacts;
use super::pacing::Arrivals;
use super::recorder::{Bounds, Recorder};
use super::warm_up::{Reading, Verdict, WarmUp, WarmUpMeasurement, are_steady, watch_warm_up};
use super::{Drive, DriveError, DriveMeasurement, Phase, Progress, Stop, Window, WindowObserver, WorkloadThreads};

/// How often the coordinator polls: well within the 50 ms in which Ctrl-C takes effect.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The window is published this long before it begins, so that every request that ends inside can read it.
const LEAD: Duration = Duration::from_millis(2);

/// The data that coordinator and clients share for one run.
pub(super) struct Run {
    pub clock: MonotonicClock,
    pub signals: Signals,
    /// When clients begin to work, once all are connected.
    pub begin: OnceLock<Nanos>,
    /// The first thing that went wrong.
    failure: Mutex<Option<DriveError>>,
}

impl Run {
    /// Ends the run; of several failures the first is reported.
    pub(super) fn fail(&self, error: DriveError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.signals.halt.store(true, Ordering::Relaxed);
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// A client that is connected and waits for the beginning.
pub(super) struct ConnectedClient {
    pub workload: usize,
    pub client: usize,
    pub thread: i32,
    /// The server's process that serves it, if it has one of its own.
    pub server: Option<i32>,
}

/// Runs all clients of all workloads. See [`super::drive`].
pub(super) fn run(
    drives: &[Drive<'_>],
    window: Window,
    observer: &mut dyn WindowObserver,
    stop: Stop<'_>,
) -> Result<DriveMeasurement, DriveError> {
    let teams: Vec<Team<'_>> = drives.iter().map(team).collect();
    let run = Run {
        clock: MonotonicClock::start(),
        signals: Signals::new(1 + teams.iter().map(|team| team.clients).sum::<usize>()),
        begin: OnceLock::new(),
        failure: Mutex::new(None),
    };
    let (observed, recorders) = thread::scope(|scope| {
        let (sender, connected) = mpsc::channel();
        let clients = spawn_clients(scope, drives, &teams, &run, &sender);
        // Now only clients hold senders: if all of them are gone, so is the hope of further connections.
        drop(sender);
        let mut coordinator =
            Coordinator { run: &run, teams: &teams, clients: &clients, observer, stop, is_open: false };
        let observed = coordinator.phases(drives, &connected, window);
        coordinator.end(drives);
        drop(coordinator);
        let mut recorders = gather(&teams, clients);
        if let (Some(begin), Some(bounds)) = (run.begin.get(), run.signals.bounds.get()) {
            teams.iter().zip(&mut recorders).for_each(|(team, recorder)| drain(team, *begin, bounds, recorder));
        }
        (observed, recorders)
    });
    if let Some(error) = run.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let observed = observed.expect("a run without a window has failed");
    let workloads = drives.iter().zip(&recorders);
    let mut workloads: Vec<_> = workloads.map(|(drive, recorder)| about(drive, window).measurement(recorder)).collect();
    for ((drive, driven), verdict) in drives.iter().zip(&mut workloads).zip(&observed.verdicts) {
        let doubts = doubts(drive.options, (window.warmup, &observed.warmup, verdict), driven);
        driven.measured.window.doubts = doubts;
    }
    let measured = workloads.iter().map(|driven| &driven.measured);
    let silent = measured.filter(|workload| workload.all.locks.is_none());
    let notes = silent.map(|workload| {
        let name = &workload.name;
        format!("workload {name}: no lock statistics by class, for this target does not tell each lock wait")
    });
    let notes = notes.collect();
    let cut = cut_warning(run.signals.cut_count.load(Ordering::Relaxed), stop.cut_after);
    let warnings = observed.warnings.into_iter().chain(cut).collect();
    Ok(DriveMeasurement {
        window: window.measure,
        opened_at: observed.opened_at,
        warmup: observed.warmup,
        observed: observed.length,
        workloads,
        warnings,
        notes,
    })
}

fn team<'a>(drive: &Drive<'a>) -> Team<'a> {
    Team {
        workload: drive.name,
        clients: drive.options.clients,
        retry_max: drive.options.retry_max,
        hopeless: Default::default(),
        board: Board::new(drive.options.clients),
        arrivals: Arrivals::of(drive.options, drive.name),
    }
}

fn about<'a>(drive: &Drive<'a>, window: Window) -> WorkloadFacts<'a> {
    WorkloadFacts {
        name: drive.name,
        benchmark: drive.benchmark.name(),
        is_analytical: drive.benchmark.is_analytical(),
        transactions: drive.benchmark.transactions(),
        clients: drive.options.clients,
        is_open: drive.options.rate.is_some(),
        window: window.measure,
    }
}

/// Notes the requests that arrived before the window's end and that no client has ever begun.
fn drain(team: &Team<'_>, begin: Nanos, bounds: &Bounds, recorder: &mut Recorder) {
    let Some(arrivals) = &team.arrivals else { return };
    let late = iter::repeat_with(|| begin + arrivals.take()).take_while(|arrival| *arrival < bounds.end);
    late.for_each(|arrival| recorder.note_unserved(arrival, bounds));
}

/// The result of the window.
struct WindowResult {
    /// Its beginning on the run's clock, which starts when the run does.
    opened_at: Duration,
    warmup: WarmUpMeasurement,
    /// How steady each workload was when the window opened.
    verdicts: Vec<Verdict>,
    /// From the observer's `opened` to its `closed`.
    length: Duration,
    warnings: Vec<String>,
}

/// A stretch of the run whose length is known.
#[derive(Clone, Copy)]
struct Stage {
    phase: Phase,
    begin: Nanos,
    length: Nanos,
}

struct Coordinator<'a, 'scope> {
    run: &'a Run,
    teams: &'a [Team<'a>],
    clients: &'a [ClientThread<'scope>],
    observer: &'a mut dyn WindowObserver,
    stop: Stop<'a>,
    /// Whether the window has begun.
    is_open: bool,
}

impl Coordinator<'_, '_> {
    /// Goes through the phases; `None` if the run failed or was stopped before the window had ended.
    fn phases(
        &mut self,
        drives: &[Drive<'_>],
        connected: &Receiver<ConnectedClient>,
        window: Window,
    ) -> Option<WindowResult> {
        let mut threads = self.wait_for_connections(drives, connected)?;
        let begin = self.run.clock.now();
        self.run.begin.set(begin).expect("set here only");
        self.wake_all();
        let mut warnings = Vec::new();
        let verdicts = self.warm_up(begin, window.warmup)?;
        // Asked for as late as possible: an embedded database may start its workers with the first query.
        for (drive, threads) in drives.iter().zip(&mut threads) {
            if drive.benchmark.is_analytical() {
                threads.workers = Some(drive.database.query_threads());
            }
        }
        self.observer.opened(&threads);
        let opened = self.run.clock.now();
        let bounds = Bounds { begin: opened + nanos(LEAD), end: opened + nanos(LEAD) + nanos(window.measure) };
        self.run.signals.bounds.set(bounds).expect("set here only");
        self.is_open = true;
        let late = self.run.clock.now().saturating_sub(bounds.begin);
        if late > 0 {
            let late = Duration::from_nanos(late);
            warnings.push(format!(
                "the window was announced {late:?} after it began, because the coordinator got no processor; requests that ended before are not counted"
            ));
        }
        self.measure(&bounds)?;
        let closed = self.run.clock.now();
        self.observer.closed();
        self.run.signals.pass_end();
        self.finish(begin, bounds.end);
        Some(WindowResult {
            opened_at: Duration::from_nanos(bounds.begin),
            warmup: WarmUpMeasurement {
                lasted: Duration::from_nanos(bounds.begin - begin),
                is_steady: are_steady(&verdicts),
            },
            verdicts,
            length: Duration::from_nanos(closed - opened),
            warnings,
        })
    }

    /// Lets the clients warm up; returns how steady each workload is then. `None` as for `watch`.
    fn warm_up(&mut self, begin: Nanos, warm_up: WarmUp) -> Option<Vec<Verdict>> {
        let length = nanos(warm_up.at_most());
        watch_warm_up(begin, warm_up, self.teams.len(), |moment| {
            self.watch(Stage { phase: Phase::WarmUp, begin, length }, moment)?;
            let completed = self.teams.iter().map(|team| team.board.completed()).collect();
            Some(Reading { at: self.run.clock.now(), completed })
        })
    }

    /// Waits until the window has ended, and calls the observer at every whole second within. `None` as for `watch`.
    fn measure(&mut self, window: &Bounds) -> Option<()> {
        let stage = Stage { phase: Phase::Measure, begin: window.begin, length: window.end - window.begin };
        for second in window.whole_seconds() {
            self.watch(stage, second)?;
            self.observer.second();
        }
        self.watch(stage, window.end)
    }

    /// Waits until every client has a session; its thread's id is then known.
    fn wait_for_connections(
        &mut self,
        drives: &[Drive<'_>],
        connected: &Receiver<ConnectedClient>,
    ) -> Option<Vec<WorkloadThreads>> {
        let mut threads: Vec<WorkloadThreads> = drives
            .iter()
            .zip(self.teams)
            .map(|(drive, team)| WorkloadThreads {
                workload: drive.name.to_owned(),
                clients: vec![0; drive.options.clients],
                workers: None,
                servers: vec![None; drive.options.clients],
                board: team.board.clone(),
            })
            .collect();
        let mut missing: usize = drives.iter().map(|drive| drive.options.clients).sum();
        while missing > 0 {
            if !self.may_go_on() {
                return None;
            }
            match connected.recv_timeout(LOOK_EVERY) {
                Ok(ConnectedClient { workload, client, thread, server }) => {
                    threads[workload].clients[client] = thread;
                    threads[workload].servers[client] = server;
                    missing -= 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The last client has failed; `may_go_on` is about to see that.
                Err(RecvTimeoutError::Disconnected) => thread::yield_now(),
            }
        }
        Some(threads)
    }

    /// Waits until a moment within a stage; `None` if the run fails or is stopped before.
    fn watch(&mut self, stage: Stage, end: Nanos) -> Option<()> {
        loop {
            let now = self.run.clock.now();
            if now >= end {
                return Some(());
            }
            if !self.may_go_on() {
                return None;
            }
            let elapsed = Duration::from_nanos(now.saturating_sub(stage.begin));
            let length = Some(Duration::from_nanos(stage.length));
            self.observer.tick(Progress { phase: stage.phase, elapsed, length });
            self.run.clock.doze_until(end.min(now + nanos(LOOK_EVERY)));
        }
    }

    /// Keeps up the load until every request that was in flight at the window's end has ended. Ctrl-C ends it early, and so
    /// does the time after which requests are cut.
    fn finish(&mut self, begin: Nanos, end: Nanos) {
        let cut_at = self.stop.cut_after.map(|after| begin + nanos(after));
        while !self.run.signals.halted() && !self.is_stopped() {
            if cut_at.is_some_and(|cut_at| self.run.clock.now() >= cut_at) {
                self.run.signals.is_cut.store(true, Ordering::Relaxed);
                return;
            }
            // A sleeping client must be woken to see that the window has ended. Repeatedly, because a session may park
            // the thread for its own purposes and consume a wake-up.
            self.wake_all();
            let now = self.run.clock.now();
            let elapsed = Duration::from_nanos(now - end);
            self.observer.tick(Progress { phase: Phase::Finish, elapsed, length: None });
            self.run.clock.doze_until(now + nanos(LOOK_EVERY));
        }
    }

    fn wake_all(&self) {
        self.clients.iter().for_each(|client| client.handle.thread().unpark());
    }

    /// Whether neither a client nor Ctrl-C has ended the run.
    fn may_go_on(&self) -> bool {
        if self.is_stopped() {
            self.run.fail(DriveError::Stopped);
        }
        !self.run.signals.halted()
    }

    fn is_stopped(&self) -> bool {
        self.stop.asked.load(Ordering::Relaxed) && !(self.is_open && self.stop.spares_window)
    }

    /// Waits until every client has ended. The statements of a run that failed, was stopped or is cut are cancelled.
    fn end(&self, drives: &[Drive<'_>]) {
        let run = self.run;
        let is_unwanted = || run.signals.is_cut.load(Ordering::Relaxed) || self.is_stopped() || run.has_failed();
        wait_until_ended(drives, self.clients, run, &is_unwanted);
    }
}

impl Drop for Coordinator<'_, '_> {
    /// Ends the clients, also when an observer has panicked: the scope would wait for them forever.
    fn drop(&mut self) {
        self.run.signals.halt.store(true, Ordering::Relaxed);
        self.wake_all();
    }
}

/// A span of time on the run's clock.
pub(super) fn nanos(length: Duration) -> Nanos {
    length.as_nanos() as Nanos
}
