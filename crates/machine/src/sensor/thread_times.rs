//! Times of threads, by `schedstat`.

use crate::availability::Availability;
use crate::cpu_time::{ThreadTimes, process_times_on, thread_times_on};
use crate::host::Host;
use crate::sensor::{Figures, Instruments, Observed, Reading, Scope, Sensor};

#[derive(Debug)]
pub(super) struct ThreadSchedulingTimes;

/// The kernel configuration that keeps these times.
pub(super) const REMEDY: &str = "a kernel with CONFIG_SCHED_INFO (CONFIG_SCHEDSTATS or CONFIG_TASK_DELAY_ACCT)";

impl Sensor for ThreadSchedulingTimes {
    fn name(&self) -> &'static str {
        "thread times"
    }

    fn figures(&self) -> &'static str {
        "on a core, waiting for one (ns)"
    }

    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Thread]
    }

    fn probe(&self, host: &Host) -> Availability {
        // The first thread of a process has its id.
        let first = host.text("/proc/self/stat").and_then(|text| text.split_whitespace().next()?.parse().ok());
        match first.and_then(|thread| thread_times_on(host, thread)) {
            Some(_) => Availability::yes("/proc/PID/task/TID/schedstat"),
            None => Availability::no("the kernel keeps no /proc/PID/task/TID/schedstat", Some(REMEDY)),
        }
    }

    fn open(&self, instruments: &Instruments, observed: &Observed) -> Result<Box<dyn Reading>, Availability> {
        let Observed::Threads(threads) = observed else {
            return Err(Availability::no("these times are of threads", None));
        };
        // Threads with their times at the last look.
        let mut threads: Vec<(i32, Option<ThreadTimes>)> = threads.iter().map(|thread| (*thread, None)).collect();
        let (host, mut has_begun) = (instruments.host().clone(), false);
        // The sum over all threads; `None` if any is not known, for a part would pass for the whole.
        Ok(Box::new(move |figures: &mut Figures| {
            let (mut sum, mut missing) = (ThreadTimes::default(), 0);
            for (thread, last) in &mut threads {
                let now = thread_times_on(&host, *thread).or_else(|| process_times_on(&host, *thread));
                match now.zip(*last) {
                    Some((now, last)) => sum = sum.plus(now.since(last)),
                    None => missing += 1,
                }
                *last = now;
            }
            if !std::mem::replace(&mut has_begun, true) {
                return;
            }
            if missing == 0 {
                figures.times = Some(sum);
                return;
            }
            let why = format!(
                "no scheduling times of {missing} of {} threads: they had ended or never ran, or the kernel keeps none",
                threads.len()
            );
            figures.miss(ThreadSchedulingTimes.name(), Availability::no(why, None));
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn a_kernel_that_keeps_them_and_one_that_writes_zeros() {
        let check = |schedstat: &str, available: bool| {
            let fake = FakeHost::new(&[("/proc/self/stat", "7 (a b) R 1\n")]);
            fake.write("/proc/self/task/7/schedstat", schedstat);
            assert_eq!(ThreadSchedulingTimes.probe(&fake.host()).available, available, "{schedstat}");
        };
        check("15 3 2\n", true);
        check("0 0 0\n", false);
    }

    #[test]
    fn times_are_of_all_threads_or_unknown() {
        let fake = FakeHost::new(&[("/proc/self/task/7/schedstat", "100 10 1\n"), ("/proc/70/schedstat", "5 1 1\n")]);
        let instruments = Instruments::of(fake.host());
        let open = |threads: &[i32]| {
            ThreadSchedulingTimes.open(&instruments, &Observed::Threads(threads.to_vec())).expect("threads")
        };
        let (mut both, mut gone) = (open(&[7, 70]), open(&[7, 8]));
        let read = |reading: &mut Box<dyn Reading>| {
            let mut figures = Figures::default();
            reading.read(&mut figures);
            figures
        };
        assert_eq!(read(&mut both), Figures::default(), "nothing is before the first");
        read(&mut gone);
        fake.write("/proc/self/task/7/schedstat", "150 12 1\n");
        fake.write("/proc/70/schedstat", "8 1 1\n");
        let times = read(&mut both).times.expect("both are known");
        assert_eq!((times.run.as_nanos(), times.wait.as_nanos()), (53, 2), "of another process too");
        let figures = read(&mut gone);
        assert_eq!(figures.times, None);
        assert!(
            figures.missing["thread times"].reason.starts_with("no scheduling times of 1 of 2 threads"),
            "{figures:?}"
        );
    }
}
