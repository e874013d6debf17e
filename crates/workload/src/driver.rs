//! Clients that run benchmarks against a database, and their measurements.
//!
//! [`drive`] runs several workloads at once. Each client is a thread with a session of its own; its requests begin
//! either a think time after the previous one ended (closed loop, [`Delay`]) or at the arrivals of a Poisson process
//! that all clients of a workload share (open loop, [`ClientOptions::rate`]). Latency runs from the *intended* start of
//! a request: a client that is woken late, or is still busy when its next request is due, does not make the database
//! look fast.
//!
//! There is one clock and one measurement window. The window opens after the warm-up, whose length is given or found
//! ([`WarmUp`]; `warm_up` has the rule by which throughput counts as steady), once the [`WindowObserver`] has
//! attached its sensors, and every figure is judged by it:
//!
//! - a request is **completed** in the window if it ended inside; its whole latency counts, wherever it began;
//! - **work done** credits a request with the share of its time that lay inside the window, at both edges. Over a steady
//!   state it has the same expectation as the count of completions and less scatter where requests are long relative to
//!   the window; it presumes that a request progresses evenly;
//! - **samples** are the same figures for each second of the window, and add up to those of the window;
//! - **throughput** is work done per second of window for an analytical benchmark, completed requests per second for
//!   all others.
//!
//! Requests that are in flight when the window ends run to their end. Until the last of them has ended, every client of
//! every workload keeps working, uncounted: if the others stopped, the last query would finish without interference,
//! and its share inside the window would look too large.
//!
//! Whether a window shows a steady state is judged for each workload ([`Doubt`]): by its throughput before, by its length
//! relative to think times and responses, and by Little's law.
//!
//! Clients can be interactive ([`ClientOptions::round_trip`]): a round trip lies between the statements of a
//! transaction, in which it keeps its locks. Lock waits and rollbacks are recorded by class ([`LockStatistics`]).
//!
//! Equal seeds give equal requests: a client's input comes from [`Benchmark::client`], its think times, round trips and
//! priorities from streams of their own, and so do the arrivals of a workload, so that no sequence depends on timing.
//! Every run with the same seed therefore replays each client's sequence from its beginning. A slower arm completes
//! less of it. If requests differ in cost, as the queries of TPC-H do, compare arms kind by kind, by
//! [`WorkloadMeasurement::transactions`], not by the total.
//!
//! In reading order: [`Drive`] and [`ClientOptions`] say what to run, [`drive`] runs it, [`DriveMeasurement`] is the
//! result; `coordinator` owns the phases, `client_loop` is the loop of one client, `recorder` keeps its measurements.

mod board;
mod client_loop;
mod client_threads;
mod clock;
mod coordinator;
mod delay;
mod doubt;
mod driven;
mod failures;
#[cfg(test)]
mod fakes;
mod latency;
mod lock_recorder;
mod lock_statistics;
mod measurement;
mod options;
mod pacing;
mod panic_message;
mod priority_rule;
mod recorder;
mod round_trip;
mod samples;
mod streams;
#[cfg(test)]
mod tests;
mod time_share;
mod warm_up;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use board::{Board, RunningRequest};
pub use delay::{Delay, ParseDelayError};
pub use doubt::{Doubt, DoubtAbout, LittlesLaw};
pub use driven::{DriveMeasurement, DrivenPart, DrivenWorkload, RequestTimes};
pub use failures::FailedRequests;
pub use hdrhistogram::Histogram;
pub use latency::Latency;
pub use lock_statistics::{Lengths, LockStatistics, MeanLength, ResponseByWaits, WaitHistograms, share_of};
pub use measurement::{AbortCounts, InFlight, LockWait, PartMeasurement, WindowCheck, WorkloadMeasurement};
pub use options::ClientOptions;
pub use priority_rule::{ParsePriorityRuleError, PriorityRule};
pub use recorder::LATENCY_MAX;
pub use samples::Sample;
pub use time_share::TimeShare;
pub use warm_up::{WarmUp, WarmUpMeasurement};

use crate::benchmark::Benchmark;
use crate::cancelling::cancelling;
use crate::database::{Database, DatabaseError};

/// One workload of a run.
#[derive(Clone, Copy)]
pub struct Drive<'a> {
    /// Its name in the experiment; part of its clients' seeds.
    pub name: &'a str,
    /// The benchmark that its clients run, with its tables loaded.
    pub benchmark: &'a dyn Benchmark,
    /// The database that they use.
    pub database: &'a dyn Database,
    /// How many clients there are and how they behave.
    pub options: &'a ClientOptions,
}

/// How long to run before measuring, and how long to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The warm-up that runs first. Opening the observer's sensors takes additional time.
    pub warmup: WarmUp,
    /// Then measure this long.
    pub measure: Duration,
}

/// What ends a run before it is complete.
#[derive(Debug, Clone, Copy)]
pub struct Stop<'a> {
    /// Set by Ctrl-C. Statements that are under way are then cancelled.
    pub asked: &'a AtomicBool,
    /// Whether a window that is open is measured to its end all the same.
    pub spares_window: bool,
    /// Requests that are under way this long after the clients began are cancelled, if the window has ended; `None` if all run
    /// to their end.
    pub cut_after: Option<Duration>,
}

impl<'a> From<&'a AtomicBool> for Stop<'a> {
    fn from(asked: &'a AtomicBool) -> Self {
        Stop { asked, spares_window: false, cut_after: None }
    }
}

/// The threads that work for one workload, by the kernel's ids.
#[derive(Debug, Clone)]
pub struct WorkloadThreads {
    /// The workload's name.
    pub workload: String,
    /// Its clients' threads, in order of client number.
    pub clients: Vec<i32>,
    /// The database's query threads, which all analytical workloads on that database share, also those of workers that it
    /// has started; empty if queries run on a server. `None` if the benchmark is not analytical: its clients' threads do all the work.
    pub workers: Option<Vec<i32>>,
    /// The server's process that serves each client, in order of client number; `None` where the database is in this process
    /// or on another machine.
    pub servers: Vec<Option<i32>>,
    /// The current activity of each client.
    pub board: Board,
}

/// The phases of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Clients run, nothing is counted.
    WarmUp,
    /// The window is open.
    Measure,
    /// Requests that were in flight at the window's end run to their end.
    Finish,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// The time since it began.
    pub elapsed: Duration,
    /// The phase's length or longest length; `None` if unknown.
    pub length: Option<Duration>,
}

/// Notified when the measurement window opens and closes, so that sensors cover the same window as the clients.
///
/// All methods run on the thread that called [`drive`], while the clients work.
pub trait WindowObserver {
    /// The warm-up is over: attach. The window begins as soon as this returns, so attaching is not part of it.
    fn opened(&mut self, threads: &[WorkloadThreads]);

    /// The window has ended: read. The clients' threads still live. Not called for a run that fails or is stopped before this.
    fn closed(&mut self);

    /// A whole second of the window has passed, and more of it is left: the end of every [`Sample`] but the last, whose
    /// end is [`closed`](Self::closed).
    ///
    /// Called about 20 ms after it at most if a processor is free, before any further `tick`; a coordinator that is
    /// seconds late calls it once for each of them.
    fn second(&mut self) {}

    /// Called a few times per second.
    fn tick(&mut self, progress: Progress) {
        let _ = progress;
    }
}

/// An observer that looks at nothing.
impl WindowObserver for () {
    fn opened(&mut self, _threads: &[WorkloadThreads]) {}

    fn closed(&mut self) {}
}

/// Why a run has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// Ctrl-C before the window had ended.
    #[error("stopped before the measurement was complete")]
    Stopped,
    /// The settings make no sense.
    #[error("workload {workload}: {what}")]
    Options {
        /// The workload; empty if it concerns the whole run.
        workload: String,
        /// The fault and the remedy.
        what: String,
    },
    /// No thread could be started for a client.
    #[error(
        "workload {workload}: no thread for client {client}: {reason}; lower the number of clients or raise the process limit"
    )]
    NoThread {
        /// The workload.
        workload: String,
        /// The client's number.
        client: usize,
        /// The system's words.
        reason: String,
    },
    /// The database opened no session for a client.
    #[error("workload {workload}: client {client} could not connect: {error}")]
    NoSession {
        /// The workload.
        workload: String,
        /// The client's number.
        client: usize,
        /// The database's words.
        error: DatabaseError,
    },
    /// The data that the benchmark's clients need are missing or wrong.
    #[error("workload {workload}: {error}")]
    NotPrepared {
        /// The workload.
        workload: String,
        /// The missing or wrong data.
        error: DatabaseError,
    },
    /// The first requests of every client failed, so there is nothing to measure.
    #[error("workload {workload}: the first {count} requests of every client failed, {}", last_of_all(*run_again, error))]
    NothingWorks {
        /// The workload.
        workload: String,
        /// How many of each client.
        count: u32,
        /// How often each was run again, if its last error is one after which requests are.
        run_again: u32,
        /// The error of the last one.
        error: DatabaseError,
    },
    /// The server went away, or ended a client's session.
    #[error("workload {workload}: client {client}: {error}")]
    ServerLost {
        /// The workload.
        workload: String,
        /// The client's number.
        client: usize,
        /// The database's words.
        error: DatabaseError,
    },
    /// A client's thread panicked: an error in the benchmark or the database.
    #[error("workload {workload}: client {client} panicked: {message}")]
    ClientPanicked {
        /// The workload.
        workload: String,
        /// The client's number.
        client: usize,
        /// The panic's message and where it happened.
        message: String,
    },
}

/// The end of a message about requests that all failed. An error after which requests are run again is worded by us, so its
/// code is added.
fn last_of_all(run_again: u32, error: &DatabaseError) -> String {
    match error.code().filter(|_| error.is_retryable()) {
        Some(code) => format!("each after it was run again {run_again} times, the last one with: {code} {error}"),
        None => format!("the last one with: {error}"),
    }
}

impl DriveError {
    /// Whether the server is gone or has ended a session, which is not the fault of the run.
    pub fn is_server_lost(&self) -> bool {
        match self {
            DriveError::ServerLost { .. } => true,
            DriveError::NoSession { error, .. } => error.is_server_lost(),
            _ => false,
        }
    }

    /// Whether the database refused the work of this run, which says nothing about runs of other settings or inputs.
    pub fn is_refused_work(&self) -> bool {
        matches!(self, DriveError::NothingWorks { .. } | DriveError::NoSession { .. })
    }
}

/// Runs all workloads at once and returns their clients' measurements.
///
/// Returns early with [`DriveError::Stopped`] if `stop` is set before the window has ended: it is checked at least
/// every 50 ms, and statements under way are cancelled. If set later, it does not spoil the measurement.
pub fn drive<'a>(
    drives: &[Drive<'_>],
    window: Window,
    observer: &mut dyn WindowObserver,
    stop: impl Into<Stop<'a>>,
) -> Result<DriveMeasurement, DriveError> {
    let stop = stop.into();
    options::validate(drives, window)?;
    for Drive { name, benchmark, database, .. } in drives {
        let prepared = cancelling(*database, stop.asked, || benchmark.prepare(*database));
        prepared.map_err(|error| match stop.asked.load(Ordering::Relaxed) {
            true => DriveError::Stopped,
            false => DriveError::NotPrepared { workload: (*name).to_owned(), error },
        })?;
    }
    options::check_sessions(drives)?;
    coordinator::run(drives, window, observer, stop)
}
