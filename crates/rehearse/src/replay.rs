//! The replay: a thread for each session sends its units at their times, waits where the plan has waits, and notes what the
//! server answers.
//!
//! A unit begins at its recorded time, divided by the speed, unless its session still waits for the answer before, or the
//! plan for another session; then it begins at once afterwards. A unit whose value does not come is not sent, and its
//! transaction is given up, as is one in which a unit fails that had not failed in the recording: no value of the
//! recording is sent in place of one of this run.

mod board;
mod listener;
mod session;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use plimsoll_postgres::load::Exchange;

use crate::plan::{Answered, Plan, Script};
use crate::skip::Reason;
pub(crate) use board::Board;
pub(crate) use listener::Listener;
use session::SessionRun;
pub(crate) use session::{Standing, end, rewritten};

/// The stack of a session's thread, which is shallow.
const STACK_BYTES: usize = 256 << 10;

/// A session of a server.
pub trait Peer: Exchange {
    /// Whether no transaction is open.
    fn is_idle(&self) -> bool;
}

/// What a replay runs against.
pub trait Server: Sync {
    /// Opens a session.
    fn open(&self, script: &Script) -> Result<Box<dyn Peer>, String>;

    /// Cancels the statements of all sessions.
    fn cancel_all(&self);
}

/// The pace of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// Times are divided by this number.
    Times(f64),
    /// Nothing waits but for answers and for values.
    Max,
}

impl Speed {
    /// When something is due that was due `at_us` microseconds after the beginning.
    pub fn due(self, at_us: u64) -> Duration {
        match self {
            Speed::Times(times) => Duration::from_micros(at_us).div_f64(times),
            Speed::Max => Duration::ZERO,
        }
    }
}

/// How a plan is carried out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The speed.
    pub speed: Speed,
    /// How often each session runs; each copy has values of its own.
    pub copies: usize,
    /// How long a unit waits for one of another session.
    pub patience: Duration,
}

/// A unit that was replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Its session's place in the plan.
    pub session: usize,
    /// Its place in the session.
    pub unit: usize,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was not sent.
    Skipped(Reason),
    /// The server has answered.
    Ran(Ran),
}

/// An answer and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// Microseconds until the answer was complete.
    pub took_us: u64,
    /// Microseconds after its time at which it began, for whatever reason.
    pub lag_us: u64,
    /// The part of that for which nothing but the machine of the replay is to blame.
    pub late_us: u64,
    /// What the server answered.
    pub answered: Answered,
}

/// A whole replay.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Its units, in no particular order.
    pub done: Vec<Done>,
    /// How long it took.
    pub elapsed: Duration,
    /// Why sessions could not be opened or were lost, each reason once.
    pub lost: Vec<String>,
}

/// Carries a plan out. Ends early when `stop` is set.
pub fn replay(plan: &Plan, server: &dyn Server, pace: Pace, stop: &AtomicBool) -> Run {
    let boards: Vec<Board> = (0..pace.copies).map(|_| Board::new(plan.slot_count, plan.awaited_count)).collect();
    let began = Instant::now();
    let (results, gate) = (Mutex::new(Run::default()), Gate::new(room(plan, pace)));
    let watch = Watch::default();
    thread::scope(|scope| {
        scope.spawn(|| watch.over(stop, server));
        // Also if a session's thread panics: the scope would wait for the watch forever.
        let _end = EndOnDrop(&watch);
        thread::scope(|sessions| {
            for (opens, at, copy) in openings(plan, pace) {
                sleep_until(began + opens, stop);
                gate.enter();
                let (script, board) = (&plan.sessions[at], &boards[copy]);
                let origin = began + apart(pace, copy);
                let run = SessionRun { script, at, board, pace, origin, server, stop };
                let (results, gate) = (&results, &gate);
                let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(sessions, move || {
                    let (done, lost) = run.run();
                    note(&mut results.lock(), done, lost);
                    gate.leave();
                });
                if let Err(error) = spawned {
                    let why = format!("a session's thread cannot be started: {error}");
                    note(&mut results.lock(), session::all_skipped(script, at, board), [why]);
                    gate.leave();
                }
            }
        });
    });
    let mut run = results.into_inner();
    run.elapsed = began.elapsed();
    run
}

fn note(run: &mut Run, done: Vec<Done>, lost: impl IntoIterator<Item = String>) {
    run.done.extend(done);
    for why in lost {
        if !run.lost.contains(&why) {
            run.lost.push(why);
        }
    }
}

/// When each copy of each session opens, in order, by the places of both.
fn openings(plan: &Plan, pace: Pace) -> Vec<(Duration, usize, usize)> {
    let of_script = |(at, script): (usize, &Script)| {
        let opens = pace.speed.due(script.opens_us);
        (0..pace.copies).map(move |copy| (opens + apart(pace, copy), at, copy)).collect::<Vec<_>>()
    };
    let mut all: Vec<(Duration, usize, usize)> = plan.sessions.iter().enumerate().flat_map(of_script).collect();
    all.sort_by_key(|(opens, _, _)| *opens);
    all
}

/// Copies of a session begin apart, within a second, so that they do not all ask for the same rows at once.
fn apart(pace: Pace, copy: usize) -> Duration {
    match pace.speed {
        Speed::Times(_) => Duration::from_secs(1).mul_f64(copy as f64 / pace.copies as f64),
        Speed::Max => Duration::ZERO,
    }
}

/// How many sessions may be open at once: without times, sessions that had followed each other would all be open.
fn room(plan: &Plan, pace: Pace) -> usize {
    match pace.speed {
        Speed::Times(_) => usize::MAX,
        Speed::Max => plan.sessions_at_once().max(1) * pace.copies,
    }
}

/// Sleeps, but wakes when the replay is stopped.
fn sleep_until(when: Instant, stop: &AtomicBool) {
    const GLANCE: Duration = Duration::from_millis(100);
    loop {
        let left = when.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(left.min(GLANCE));
    }
}

/// Bounds how many sessions are open.
struct Gate {
    free: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    fn new(room: usize) -> Self {
        Gate { free: Mutex::new(room), changed: Condvar::new() }
    }

    fn enter(&self) {
        let mut free = self.free.lock();
        while *free == 0 {
            self.changed.wait(&mut free);
        }
        *free -= 1;
    }

    fn leave(&self) {
        let mut free = self.free.lock();
        *free = free.saturating_add(1);
        self.changed.notify_one();
    }
}

/// Cancels statements under way when the replay is stopped.
#[derive(Default)]
struct Watch {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Watch {
    fn over(&self, stop: &AtomicBool, server: &dyn Server) {
        const GLANCE: Duration = Duration::from_millis(100);
        let mut is_over = self.is_over.lock();
        while !*is_over {
            self.changed.wait_for(&mut is_over, GLANCE);
            if stop.load(Ordering::Relaxed) && !*is_over {
                server.cancel_all();
            }
        }
    }
}

struct EndOnDrop<'a>(&'a Watch);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.is_over.lock() = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
