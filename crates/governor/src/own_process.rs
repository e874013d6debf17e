//! The resources that the governor's own process uses.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The resources in use; `None` or zero if the kernel does not report one.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnProcess {
    /// Memory that is in RAM.
    pub resident_bytes: Option<u64>,
    /// The peak of `resident_bytes`.
    pub resident_peak_bytes: Option<u64>,
    /// Address space in use, most of it without memory.
    pub virtual_bytes: Option<u64>,
    /// Open files and sockets.
    pub files_open: Option<u64>,
    /// The limit of `files_open`.
    pub files_max: Option<u64>,
    pub threads: Option<u64>,
    /// CPU time of all threads, in user and kernel mode.
    pub cpu: Duration,
}

impl OwnProcess {
    /// Reads the values from /proc.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
        };
        let kilobytes = |key| number(key).map(|number| number * 1024);
        OwnProcess {
            resident_bytes: kilobytes("VmRSS"),
            resident_peak_bytes: kilobytes("VmHWM"),
            virtual_bytes: kilobytes("VmSize"),
            // One of them is the folder being read.
            files_open: fs::read_dir("/proc/self/fd").ok().map(|files| (files.count() as u64).saturating_sub(1)),
            files_max: getrlimit(Resource::Nofile).current,
            threads: number("Threads"),
            cpu: Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let own = OwnProcess::read();
        assert!(own.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{own:?}");
        assert!(own.resident_peak_bytes >= own.resident_bytes && own.virtual_bytes >= own.resident_bytes, "{own:?}");
        assert!(own.files_open.is_some_and(|files| files >= 3) && own.files_max > own.files_open, "{own:?}");
        assert!(own.threads.is_some_and(|threads| threads > 0) && own.cpu > Duration::ZERO, "{own:?}");
    }
}
