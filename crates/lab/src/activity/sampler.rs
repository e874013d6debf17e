//! The thread that samples the server's processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use plimsoll_machine::cpu_time::{ThreadTimes, current_thread_id, process_times, thread_times};
use plimsoll_workload::activity::ActivityWatch;
use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::driver::WorkloadThreads;

use super::log::ServerLog;
use super::schedule::Schedule;
use super::tally::{Tally, WorkloadTally};
use super::{PERIOD, SAMPLES_MIN};
use crate::results::{Sampler, Server};

/// Looks at a server from [`start`](Sampling::start) to [`finish`](Sampling::finish).
pub struct Sampling {
    /// `None` once the thread was joined.
    thread: Option<JoinHandle<ActivityRecord>>,
    stop: Arc<AtomicBool>,
}

/// The results of the looks of a window.
#[derive(Debug, Clone, Default)]
pub struct ActivityRecord {
    /// The part that is copied to the results unchanged; `None` without looks.
    pub server: Option<Server>,
    /// By workload, in the order given.
    pub workloads: Vec<WorkloadTally>,
    pub warnings: Vec<String>,
}

/// Waits until the next look.
pub(super) trait Pace {
    /// Time since the beginning.
    fn now(&self) -> Duration;

    /// Waits until `due`; returns `false` if no further look is to be made.
    fn wait_until(&mut self, due: Duration) -> bool;
}

impl Sampling {
    /// Starts looking at the processes that serve these workloads' clients. The same seed gives the same moments.
    pub fn start(mut watch: Box<dyn ActivityWatch>, threads: &[WorkloadThreads], seed: u64) -> Sampling {
        let log = ServerLog::open(watch.as_mut());
        let (tally, schedule) = (Tally::new(threads), Schedule::new(PERIOD, seed));
        let stop = Arc::new(AtomicBool::new(false));
        let mut pace = RealTime { began: Instant::now(), stop: stop.clone() };
        let work = move || sample(watch.as_mut(), log, tally, schedule, &mut pace);
        let thread = thread::Builder::new().name("server-activity".to_owned()).spawn(work);
        Sampling { thread: Some(thread.expect("there were threads for all clients")), stop }
    }

    /// Ends the looking, without waiting for a look that is in progress.
    pub fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Ends the looking and returns the results.
    pub fn finish(mut self) -> ActivityRecord {
        self.end();
        let thread = self.thread.take().expect("it is waited for here only");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A run that fails does not wait, because the server may no longer answer.
impl Drop for Sampling {
    fn drop(&mut self) {
        self.end();
    }
}

/// Time as it passes, until `stop` is set.
struct RealTime {
    began: Instant,
    stop: Arc<AtomicBool>,
}

impl Pace for RealTime {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wait_until(&mut self, due: Duration) -> bool {
        // Relaxed: it carries no data, and a missed wake-up costs one period.
        while !self.stop.load(Ordering::Relaxed) {
            let left = due.saturating_sub(self.now());
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left);
        }
        false
    }
}

#[derive(Default)]
struct Cost {
    looks: u64,
    late: u64,
    time: Duration,
    longest: Duration,
}

/// Looks until the pace ends the looking or a look fails.
pub(super) fn sample(
    watch: &mut dyn ActivityWatch,
    log: Result<ServerLog, DatabaseError>,
    mut tally: Tally,
    mut schedule: Schedule,
    pace: &mut dyn Pace,
) -> ActivityRecord {
    let thread = || thread_times(current_thread_id());
    let server = |watch: &dyn ActivityWatch| watch.server_process().and_then(process_times);
    let (thread_before, server_before) = (thread(), server(watch));
    let mut cost = Cost::default();
    let (mut log, mut failure) = match log {
        Ok(log) => (log, None),
        Err(error) => (ServerLog::default(), Some(error)),
    };
    if failure.is_none() {
        failure = look_on(watch, &mut log, &mut tally, &mut schedule, pace, &mut cost).err();
    }
    let window = pace.now().as_secs_f64();
    let since = |now: Option<ThreadTimes>, then: Option<ThreadTimes>| Some(now?.since(then?).run.as_secs_f64());
    let (cpu_thread_s, cpu_server_s) = (since(thread(), thread_before), since(server(watch), server_before));
    let statements = match failure {
        None => log.statements(watch).unwrap_or_else(|error| {
            failure = Some(error);
            None
        }),
        Some(_) => None,
    };
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let sampler = Sampler {
        looks: cost.looks,
        looks_per_s: if window > 0.0 { cost.looks as f64 / window } else { 0.0 },
        late: cost.late,
        left_out: schedule.left_out,
        look_mean_us: (cost.looks > 0).then(|| micros(cost.time) / cost.looks as f64),
        look_max_us: (cost.looks > 0).then(|| micros(cost.longest)),
        duty: if window > 0.0 { cost.time.as_secs_f64() / window } else { 0.0 },
        cpu_thread_s,
        cpu_server_s,
        ended: failure.map(|error| error.to_string()),
    };
    let warnings = warnings(&sampler, &log);
    let server = Server { sampler, marks: log.marks, statements };
    ActivityRecord { server: Some(server), workloads: tally.workloads, warnings }
}

fn look_on(
    watch: &mut dyn ActivityWatch,
    log: &mut ServerLog,
    tally: &mut Tally,
    schedule: &mut Schedule,
    pace: &mut dyn Pace,
    cost: &mut Cost,
) -> Result<(), DatabaseError> {
    let mut seen = Vec::new();
    let mut second = Duration::from_secs(1);
    loop {
        let due = schedule.next(pace.now());
        if !pace.wait_until(due) {
            return Ok(());
        }
        let began = pace.now();
        tally.before();
        seen.clear();
        watch.look(&mut seen)?;
        let length = pace.now().saturating_sub(began);
        tally.after(&seen, &process_times);
        cost.looks += 1;
        cost.late += u64::from(schedule.is_late(due, began));
        cost.time += length;
        cost.longest = cost.longest.max(length);
        if began >= second {
            log.second(began, watch)?;
            second = Duration::from_secs(began.as_secs() + 1);
        }
    }
}

fn warnings(sampler: &Sampler, log: &ServerLog) -> Vec<String> {
    let mut warnings: Vec<String> =
        log.why_no_statements.iter().map(|why| format!("no statistics of statements: {why}")).collect();
    if let Some(why) = &sampler.ended {
        warnings.push(format!("looking at the server's processes ended before the window did: {why}"));
    } else if sampler.looks >= SAMPLES_MIN && sampler.left_out > sampler.looks / 4 {
        let Sampler { looks, left_out, .. } = sampler;
        warnings.push(format!(
            "the server's processes were looked at {looks} times, and {left_out} looks were left out because those before them took too long"
        ));
    }
    warnings
}
