//! Time that threads and this process have spent on a core or waiting for one.

use std::time::Duration;

use procfs::process::Schedstat;

use crate::host::Host;

/// The times of one thread since it began, by the scheduler.
///
/// The kernel brings these up to date when the thread leaves a core, and at each clock tick (1 to 10 ms) while it is on one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadTimes {
    /// On a core.
    pub run: Duration,
    /// Runnable, waiting for a core.
    pub wait: Duration,
}

impl ThreadTimes {
    /// The times added since `earlier`, a reading of the same thread.
    pub fn since(self, earlier: ThreadTimes) -> ThreadTimes {
        ThreadTimes { run: self.run.saturating_sub(earlier.run), wait: self.wait.saturating_sub(earlier.wait) }
    }

    pub(crate) fn plus(self, other: ThreadTimes) -> ThreadTimes {
        ThreadTimes { run: self.run + other.run, wait: self.wait + other.wait }
    }
}

/// The times of a thread of this process. `None` if the thread does not exist, has never run, or the kernel does not
/// keep these times; the last two look the same.
pub fn thread_times(tid: i32) -> Option<ThreadTimes> {
    thread_times_on(&Host::real(), tid)
}

/// As [`thread_times`], on a given host.
pub(crate) fn thread_times_on(host: &Host, tid: i32) -> Option<ThreadTimes> {
    times_in(host, format!("/proc/self/task/{tid}/schedstat"))
}

/// The times of the first thread of a process, which is the only one of a single-threaded process. `None` as for
/// [`thread_times`].
pub fn process_times(pid: i32) -> Option<ThreadTimes> {
    process_times_on(&Host::real(), pid)
}

/// As [`process_times`], on a given host.
pub(crate) fn process_times_on(host: &Host, pid: i32) -> Option<ThreadTimes> {
    times_in(host, format!("/proc/{pid}/schedstat"))
}

fn times_in(host: &Host, file: String) -> Option<ThreadTimes> {
    let kept: Schedstat = host.parsed(file)?;
    // A kernel that does not keep the times writes "0 0 0". A thread that has run at all has had a turn.
    let keeps = kept.pcount > 0 || kept.sum_exec_runtime > 0;
    keeps.then(|| ThreadTimes {
        run: Duration::from_nanos(kept.sum_exec_runtime),
        wait: Duration::from_nanos(kept.run_delay),
    })
}

/// CPU time of all threads of this process, including ended ones, in user and kernel mode.
pub fn process_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The kernel's id of the calling thread.
pub fn current_thread_id() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn schedstat_of_many_kinds() {
        let check = |text: &str, expect: Option<(u64, u64)>| {
            let fake = FakeHost::new(&[("/proc/self/task/7/schedstat", text)]);
            let times = thread_times_on(&fake.host(), 7);
            let nanoseconds = |time: Duration| time.as_nanos() as u64;
            assert_eq!(times.map(|times| (nanoseconds(times.run), nanoseconds(times.wait))), expect, "{text}");
        };
        check("1500 30 4\n", Some((1500, 30)));
        check("0 72748 1\n", Some((0, 72748)));
        check("0 0 0\n", None);
        check("", None);
        check("a b c", None);
        assert_eq!(thread_times_on(&FakeHost::new(&[]).host(), 7), None);
    }

    #[test]
    fn this_thread_and_a_thread_that_ended() {
        let before = process_cpu_time();
        let mut sum = 0u64;
        while process_cpu_time() - before < Duration::from_millis(2) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(process_cpu_time() > before);

        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || sender.send(current_thread_id()).unwrap());
        let tid = receiver.recv().unwrap();
        thread.join().unwrap();
        assert_ne!(tid, current_thread_id());
        // A joined thread may linger in /proc for a moment, so only an id that no thread can have is certain to be
        // absent.
        assert_eq!(thread_times(0), None);
    }

    #[test]
    fn a_process_of_one_thread_is_its_thread() {
        let own = std::process::id().cast_signed();
        let (thread, process) = (thread_times(own), process_times(own));
        assert_eq!(thread.is_some(), process.is_some());
        assert!(process >= thread, "it was read later: {process:?} after {thread:?}");
        assert_eq!(process_times(0), None);
    }

    #[test]
    fn differences_never_wrap() {
        let times = |run, wait| ThreadTimes { run: Duration::from_nanos(run), wait: Duration::from_nanos(wait) };
        assert_eq!(times(10, 4).since(times(3, 1)), times(7, 3));
        assert_eq!(times(1, 1).since(times(3, 1)), times(0, 0));
    }
}
