//! Whether the scheduler keeps the times of threads.

use std::hint::black_box;

use crate::availability::Availability;
use crate::cpu_time::thread_times_on;
use crate::host::Host;
use crate::sensor::{Reader, Scope, Sensor};

/// Time on a core and waiting for one, by `schedstat`.
#[derive(Debug)]
pub(super) struct ThreadSchedulingTimes;

/// What a kernel needs to keep these times.
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

    fn reader(&self, host: &Host) -> Reader {
        let host = host.clone();
        Box::new(move || {
            black_box(thread_times_on(&host, std::process::id() as i32));
        })
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
}
