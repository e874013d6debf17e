//! The infinite loop: takes processors, and neither memory nor caches (GA 4.3).
//!
//! It competes for its cores with all threads that run there, so its CPU share depends as much on them as on the loop.
//! Its strength is the number of competing threads: those that run or wait for a core, as the scheduler reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::{Achieved, Crew, HogError, HogKind, HogPlace, Leave, Running, pin_to_one};
use crate::cpu_time::{ThreadTimes, current_thread_id, thread_times};

/// Iterations between two looks at the clock: some hundred microseconds.
const BATCH: u64 = 1 << 18;

/// More threads than this are taken for a typing error.
const THREADS_MAX: f64 = 4096.0;

/// The kind `cpu`.
pub struct Cpu;

impl HogKind for Cpu {
    fn key(&self) -> &'static str {
        "cpu"
    }

    fn unit(&self) -> &'static str {
        "threads"
    }

    fn meaning(&self) -> &'static str {
        "as many threads that loop forever, without memory"
    }

    fn shortfall(&self) -> &'static str {
        "its threads were stopped for part of the time, as by a limit of a control group"
    }

    fn refuse(&self, strength: f64) -> Option<String> {
        let is_whole = strength.fract() == 0.0 && strength <= THREADS_MAX;
        (!is_whole).then(|| format!("it takes a whole number of threads, at most {THREADS_MAX}"))
    }

    fn start(&self, strength: f64, place: &HogPlace) -> Result<Box<dyn Running>, HogError> {
        let loops: Arc<[Loop]> = (0..strength as usize).map(|_| Loop::default()).collect();
        let (inside, cores) = (Arc::clone(&loops), place.cores.clone());
        let crew = Crew::start(loops.len(), move |index| {
            pin_to_one(&cores, index)?;
            let loops = Arc::clone(&inside);
            loops[index].thread.store(current_thread_id(), Ordering::Relaxed);
            Ok(move |leave: &Leave| loops[index].run(leave))
        })?;
        Ok(Box::new(RunningLoops { loops, before: Totals::default(), _crew: crew }))
    }
}

/// The work of one thread. Relaxed: the counters guard no other data.
#[derive(Debug, Default)]
struct Loop {
    /// The kernel's id of the thread; 0 before it has begun.
    thread: AtomicI32,
    iterations: AtomicU64,
    cpu_ns: AtomicU64,
}

impl Loop {
    fn run(&self, leave: &Leave) {
        let mut iterations = 0u64;
        while !leave.is_asked() {
            for _ in 0..BATCH {
                iterations = std::hint::black_box(iterations + 1);
            }
            self.iterations.store(iterations, Ordering::Relaxed);
            let on_cpu = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
            self.cpu_ns.store(on_cpu.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    iterations: u64,
    cpu: Duration,
    /// Times of all threads on a core and waiting for one; `None` if the kernel does not keep these times.
    ready: Option<ThreadTimes>,
}

struct RunningLoops {
    loops: Arc<[Loop]>,
    before: Totals,
    _crew: Crew,
}

impl Running for RunningLoops {
    fn achieved(&mut self, window: Duration) -> Achieved {
        let sum = |figure: fn(&Loop) -> &AtomicU64| -> u64 {
            self.loops.iter().map(|one| figure(one).load(Ordering::Relaxed)).sum()
        };
        let now = Totals {
            iterations: sum(|one| &one.iterations),
            cpu: Duration::from_nanos(sum(|one| &one.cpu_ns)),
            ready: self.loops.iter().try_fold(ThreadTimes::default(), |sum, one| {
                Some(sum.plus(thread_times(one.thread.load(Ordering::Relaxed))?))
            }),
        };
        let before = std::mem::replace(&mut self.before, now);
        let seconds = window.as_secs_f64();
        let iterations = (now.iterations - before.iterations) as f64 / seconds;
        let cores = (now.cpu.saturating_sub(before.cpu)).as_secs_f64() / seconds;
        let ready = now.ready.map(|now| now.since(before.ready.unwrap_or_default()));
        let mut figures =
            BTreeMap::from([("iterations_per_s".to_owned(), iterations), ("cores_busy".to_owned(), cores)]);
        let mut notes = Vec::new();
        match ready {
            Some(times) => figures.extend([("threads_waiting".to_owned(), times.wait.as_secs_f64() / seconds)]),
            None => {
                notes.push("this kernel does not keep the time that threads wait for a core (schedstat)".to_owned())
            }
        }
        let amount = ready.map(|times| (times.run + times.wait).as_secs_f64() / seconds);
        Achieved { amount, figures, notes, ..Achieved::default() }
    }
}
