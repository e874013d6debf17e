//! Why there are no hardware counters, and how to get them.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use thiserror::Error;

use crate::host::Host;

/// Why there are no hardware counters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CountersUnavailable {
    /// None of the given number of threads exists.
    #[error("none of the {0} threads to count is alive")]
    NoThreads(usize),
    /// The processor or its hypervisor offers none.
    #[error("the kernel sees no performance counters in this processor (perf_event_open: {error})")]
    NotOffered {
        /// The kernel's error.
        error: String,
        /// Whether a hypervisor may hide them.
        guest: bool,
    },
    /// The kernel's setting forbids it.
    #[error("this user may not use hardware counters: kernel.perf_event_paranoid is {paranoid}")]
    NotPermitted {
        /// The setting.
        paranoid: i32,
        /// The largest setting that would permit it.
        needed: i32,
    },
    /// The call itself is forbidden, as in containers, or the process belongs to another user.
    #[error(
        "perf_event_open is blocked here ({0}), as a container's system call filter does, or the process is another \
         user's"
    )]
    Blocked(String),
    /// Counters open, but none of the groups counts anything; the result of each group.
    #[error("the counters open and do not count: {}", .0.join("; "))]
    NothingCounts(Vec<String>),
    /// Counters cannot be bound to the folder.
    #[error("{folder} cannot be counted as a control group: {error}")]
    NotAControlGroup {
        /// The folder.
        folder: String,
        /// The kernel's error.
        error: String,
    },
    /// Too many files are open.
    #[error("too many open files for the counters of all threads (perf_event_open: {0})")]
    NoFiles(String),
    /// Anything else.
    #[error("perf_event_open failed: {0}")]
    Other(String),
}

/// Above this, `perf_event_paranoid` stops ordinary users from counting even their own threads.
const PARANOID_SELF_MAX: i32 = 2;

/// Above this, it stops them from counting a core, which counting a control group requires.
const PARANOID_CORES_MAX: i32 = 0;

impl CountersUnavailable {
    /// What a failure to open or start a counter means on `host`.
    pub fn explain(failure: &io::Error, host: &Host) -> CountersUnavailable {
        CountersUnavailable::explain_above(failure, host, PARANOID_SELF_MAX)
    }

    /// What a failure to count the control group `folder` means.
    pub(super) fn explain_control_group(failure: &io::Error, host: &Host, folder: &Path) -> CountersUnavailable {
        match Errno::from_io_error(failure) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::BADF | Errno::INVAL) => CountersUnavailable::NotAControlGroup {
                folder: folder.display().to_string(),
                error: failure.to_string(),
            },
            _ => CountersUnavailable::explain_above(failure, host, PARANOID_CORES_MAX),
        }
    }

    fn explain_above(failure: &io::Error, host: &Host, paranoid_max: i32) -> CountersUnavailable {
        let error = failure.to_string();
        let paranoid: Option<i32> = host.value("/proc/sys/kernel/perf_event_paranoid");
        match Errno::from_io_error(failure) {
            Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::NXIO) => {
                CountersUnavailable::NotOffered { error, guest: crate::facts::guest::hypervisor(host).is_some() }
            }
            Some(Errno::ACCESS | Errno::PERM) if paranoid > Some(paranoid_max) => {
                CountersUnavailable::NotPermitted { paranoid: paranoid.unwrap_or_default(), needed: paranoid_max }
            }
            Some(Errno::ACCESS | Errno::PERM | Errno::NOSYS) => CountersUnavailable::Blocked(error),
            Some(Errno::MFILE | Errno::NFILE) => CountersUnavailable::NoFiles(error),
            _ => CountersUnavailable::Other(error),
        }
    }

    /// How to make counters available; `None` if there is no advice.
    pub fn remedy(&self) -> Option<String> {
        let remedy = match self {
            CountersUnavailable::NotOffered { guest: true, .. } => {
                "run on bare metal, or in a guest with a virtual PMU (QEMU: -cpu host,pmu=on; clouds: a metal or \
                 full-socket size)"
            }
            CountersUnavailable::NotOffered { guest: false, .. } => {
                "check that the firmware and the kernel (CONFIG_PERF_EVENTS, CONFIG_HW_PERF_EVENTS) have performance \
                 counters enabled"
            }
            CountersUnavailable::NotPermitted { needed, .. } => {
                return Some(format!(
                    "as root: sysctl -w kernel.perf_event_paranoid={needed}, or give the program CAP_PERFMON (setcap \
                     cap_perfmon=ep)"
                ));
            }
            CountersUnavailable::NothingCounts(_) => "stop other profilers, or run on bare metal",
            CountersUnavailable::NotAControlGroup { .. } => {
                "name a folder of the version 2 hierarchy or of version 1's perf_event (mount -t cgroup -o perf_event none \
                 /sys/fs/cgroup/perf_event)"
            }
            CountersUnavailable::Blocked(_) => {
                "start the container with --cap-add PERFMON and a seccomp profile that lets perf_event_open through"
            }
            CountersUnavailable::NoFiles(_) => "raise the hard limit of open files: ulimit -Hn 65536",
            CountersUnavailable::NoThreads(_) | CountersUnavailable::Other(_) => return None,
        };
        Some(remedy.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn control_groups_need_more_than_threads() {
        let check = |errno: Errno, paranoid: &str, reason: &str, remedy: &str| {
            let fake = FakeHost::new(&[("/proc/sys/kernel/perf_event_paranoid", paranoid)]);
            let folder = Path::new("/sys/fs/cgroup/a");
            let unavailable = CountersUnavailable::explain_control_group(&errno.into(), &fake.host(), folder);
            let told = unavailable.to_string();
            assert!(told.contains(reason), "{errno:?}: {told}");
            let advised = unavailable.remedy().unwrap_or_default();
            assert!(advised.contains(remedy), "{errno:?}: {advised}");
        };
        check(Errno::ACCESS, "2", "perf_event_paranoid is 2", "perf_event_paranoid=0");
        check(Errno::NOENT, "2", "/sys/fs/cgroup/a cannot be counted", "perf_event");
        check(Errno::BADF, "0", "/sys/fs/cgroup/a cannot be counted", "perf_event");
    }

    #[test]
    fn every_refusal_has_its_reason_and_remedy() {
        let check = |errno: Errno, paranoid: &str, flags: &str, reason: &str, remedy: &str| {
            let fake = FakeHost::new(&[
                ("/proc/sys/kernel/perf_event_paranoid", paranoid),
                ("/proc/cpuinfo", &format!("processor\t: 0\nflags\t\t: fpu {flags}\n")),
            ]);
            let unavailable = CountersUnavailable::explain(&errno.into(), &fake.host());
            let told = unavailable.to_string();
            assert!(told.contains(reason), "{errno:?}: {told}");
            let advised = unavailable.remedy().unwrap_or_default();
            assert!(advised.contains(remedy), "{errno:?}: {advised}");
            assert!(advised.is_empty() == remedy.is_empty(), "{errno:?}: {advised}");
        };
        check(Errno::NOENT, "2", "hypervisor", "sees no performance counters", "virtual PMU");
        check(Errno::OPNOTSUPP, "2", "", "sees no performance counters", "CONFIG_PERF_EVENTS");
        check(Errno::ACCESS, "4", "", "perf_event_paranoid is 4", "perf_event_paranoid=2");
        check(Errno::PERM, "3", "", "perf_event_paranoid is 3", "CAP_PERFMON");
        check(Errno::PERM, "2", "", "blocked", "--cap-add PERFMON");
        check(Errno::NOSYS, "", "", "blocked", "seccomp");
        check(Errno::MFILE, "2", "", "too many open files", "ulimit");
        check(Errno::INVAL, "2", "", "perf_event_open failed", "");
    }
}
