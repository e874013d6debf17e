//! The CPU share of a process: its nice value, its scheduling policy, its slice, and the nice value of its autogroup.
//!
//! On a kernel with autogroups (`sched_autogroup_enabled`, on where desktops are expected) every session of processes, as
//! `setsid` makes them, is a group that gets as much as any other; the nice value of a process counts within its session
//! only. A server that makes each of its processes a session leader, as PostgreSQL does, has processes that do not compete
//! by their own nice values at all, but by those of their groups (`/proc/PID/autogroup`, sched(7)). So both are set.

use std::io;
use std::time::Duration;

use procfs::process::Stat;

use crate::host::Host;
use crate::process_identity::ProcessIdentity;

/// Scheduling policies as `/proc/PID/stat` numbers them, of those without real-time guarantees.
const OTHER: u32 = 0;
const BATCH: u32 = 3;
const IDLE: u32 = 5;

/// Whether there are autogroups: 0 or 1.
pub(crate) const AUTOGROUPS_FILE: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// The nice value that comes nearest to `SCHED_IDLE` for a group, which has no policy.
const NICEST: i32 = 19;

/// The shortest slice that the kernel gives. A process that wakes with a shorter slice than the running one takes its
/// core at once, unless it has had more than its share (`PREEMPT_SHORT`, Linux 6.12).
const SHORTEST: Duration = Duration::from_micros(100);

/// The CPU share of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessShare {
    /// The nice value of its first thread: -20 to 19, higher is less.
    pub nice: i32,
    /// The scheduling policy of its first thread, as the kernel numbers them: 5 is `SCHED_IDLE`.
    pub policy: u32,
    /// The nice value of its autogroup; `None` where there are no autogroups, or where it shares one with other processes.
    pub autogroup: Option<i32>,
    /// For how long its first thread keeps a core while others wait for it; `None` where the kernel does not report it
    /// (Linux before 6.12), and in a share that leaves it unchanged.
    pub slice: Option<Duration>,
}

/// A process, and its facts from `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Which process.
    pub identity: ProcessIdentity,
    /// The process that began it.
    pub parent: i32,
    /// The name of its program, at most 15 bytes.
    pub program: String,
    /// Its CPU share.
    pub share: ProcessShare,
}

/// Why a process does not have the wanted share.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShareError {
    /// The process has ended. Another process with its number, if any, was not changed.
    #[error("process {0} has ended")]
    Ended(i32),
    /// The kernel refused.
    #[error("process {process} cannot be given {what}: {source}")]
    Refused {
        /// Its number.
        process: i32,
        /// The setting, for people.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// The share was set, but `/proc` shows another one.
    #[error("process {process} was given {wanted:?} and has {has:?}")]
    NotHeld {
        /// Its number.
        process: i32,
        /// The share that was set.
        wanted: ProcessShare,
        /// The share that it has.
        has: ProcessShare,
    },
    /// It has real-time guarantees, which we do not take away.
    #[error("process {process} has the real-time policy {policy}")]
    RealTime {
        /// Its number.
        process: i32,
        /// Its policy.
        policy: u32,
    },
}

impl ShareError {
    /// Whether a retry a moment later may succeed: the kernel limits how often unprivileged processes may change
    /// autogroups.
    pub fn is_passing(&self) -> bool {
        matches!(self, ShareError::Refused { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }
}

impl ProcessFacts {
    /// The facts about the process with this number; `None` if it does not exist or has ended.
    pub fn of(host: &Host, process: i32) -> Option<ProcessFacts> {
        let stat: Stat = host.parsed(format!("/proc/{process}/stat"))?;
        if matches!(stat.state, 'Z' | 'X' | 'x') {
            return None;
        }
        let autogroup = (stat.session == process).then(|| autogroup(host, process)).flatten();
        let (nice, policy) = (stat.nice as i32, stat.policy.unwrap_or(OTHER));
        let share = ProcessShare { nice, policy, autogroup, slice: host.slice(process) };
        let identity = ProcessIdentity { id: process, began: stat.starttime };
        Some(ProcessFacts { identity, parent: stat.ppid, program: stat.comm, share })
    }
}

impl ProcessShare {
    /// With that nice value, under the normal policy.
    #[must_use]
    pub fn with_nice(self, nice: i32) -> Self {
        let policy = if self.policy == IDLE { OTHER } else { self.policy };
        ProcessShare { nice, policy, autogroup: self.autogroup.map(|_| nice), ..self }
    }

    /// With the shortest slice, where the kernel supports slices per process.
    #[must_use]
    pub fn prompt(self) -> Self {
        ProcessShare { slice: self.slice.map(|_| SHORTEST), ..self }
    }

    /// Only idle time of the cores; of an autogroup, the smallest possible share. The kernel ignores slices of such a
    /// process.
    #[must_use]
    pub fn idle(self) -> Self {
        ProcessShare { policy: IDLE, autogroup: self.autogroup.map(|_| NICEST), slice: None, ..self }
    }

    /// Gives a process this share, and verifies it. Never changes another process that has reused the number.
    pub fn give(self, host: &Host, process: ProcessIdentity) -> Result<(), ShareError> {
        let has = share_of(host, process)?;
        for policy in [has.policy, self.policy] {
            if ![OTHER, BATCH, IDLE].contains(&policy) {
                return Err(ShareError::RealTime { process: process.id, policy });
            }
        }
        let refused = |what: String| {
            move |source: io::Error| match source.raw_os_error() {
                Some(code) if code == libc::ESRCH => ShareError::Ended(process.id),
                _ => ShareError::Refused { process: process.id, what, source },
            }
        };
        if has.nice != self.nice {
            host.set_nice(process.id, self.nice).map_err(refused(format!("nice {}", self.nice)))?;
        }
        if has.policy != self.policy {
            let set = host.set_scheduling_policy(process.id, self.policy as i32);
            set.map_err(refused(format!("the scheduling policy {}", self.policy)))?;
        }
        if let (Some(wanted), Some(now)) = (self.slice, has.slice)
            && wanted != now
        {
            host.set_slice(process.id, wanted).map_err(refused(format!("a slice of {wanted:?}")))?;
        }
        // Setting the same nice value again is not an error, but the kernel counts it against its limit.
        if let (Some(wanted), Some(now)) = (self.autogroup, has.autogroup)
            && wanted != now
        {
            let written = host.write(format!("/proc/{}/autogroup", process.id), &wanted.to_string());
            written.map_err(refused(format!("an autogroup of nice {wanted}")))?;
        }
        let has = share_of(host, process)?;
        if self.is_held_by(has) { Ok(()) } else { Err(ShareError::NotHeld { process: process.id, wanted: self, has }) }
    }

    /// Whether the share `has` satisfies this one. Autogroups may have been turned on or off since this share was
    /// chosen.
    fn is_held_by(self, has: ProcessShare) -> bool {
        let autogroup = self.autogroup.and(has.autogroup);
        let slice = self.slice.and(has.slice);
        let wanted = ProcessShare {
            autogroup: self.autogroup.filter(|_| autogroup.is_some()),
            slice: self.slice.filter(|_| slice.is_some()),
            ..self
        };
        wanted == ProcessShare { autogroup, slice, ..has }
    }
}

fn share_of(host: &Host, process: ProcessIdentity) -> Result<ProcessShare, ShareError> {
    let facts = ProcessFacts::of(host, process.id).filter(|facts| facts.identity == process);
    facts.map(|facts| facts.share).ok_or(ShareError::Ended(process.id))
}

/// Whether process sessions are scheduling groups. Policies have no effect between groups, and nice values only as
/// those of groups.
pub fn has_autogroups(host: &Host) -> bool {
    host.value::<u8>(AUTOGROUPS_FILE).is_some_and(|enabled| enabled != 0)
}

/// The nice value of a process's autogroup: `/autogroup-123 nice 0`.
fn autogroup(host: &Host, process: i32) -> Option<i32> {
    if !has_autogroups(host) {
        return None;
    }
    host.text(format!("/proc/{process}/autogroup"))?.rsplit_once(" nice ")?.1.parse().ok()
}

/// The processes that a process has begun and that have not ended; `None` where the kernel does not list them.
pub fn children(host: &Host, process: i32) -> Option<Vec<i32>> {
    let text = host.text(format!("/proc/{process}/task/{process}/children"))?;
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// The number that the kernel last assigned to a process or thread, in this process's namespace: while it stays the
/// same, none has begun. `None` where the kernel does not report it.
pub fn newest_process(host: &Host) -> Option<i32> {
    host.text("/proc/loadavg")?.rsplit_once(' ')?.1.parse().ok()
}

/// The title of a process (`/proc/PID/cmdline`, arguments separated by spaces); `None` if it has ended.
pub fn title(host: &Host, process: i32) -> Option<String> {
    let text = host.text(format!("/proc/{process}/cmdline"))?;
    Some(text.replace('\0', " ").trim_end().to_owned())
}

/// When a process began, in seconds since 1970, to the second; `None` if it has ended.
pub fn began_at(host: &Host, process: ProcessIdentity) -> Option<u64> {
    Some(host.line_value("/proc/stat", "btime")? + process.began / procfs::ticks_per_second())
}

/// The process's number in each namespace from ours inwards; a single one if it is in ours. `None` if it has ended or
/// the kernel does not report it.
pub fn namespaced_numbers(host: &Host, process: i32) -> Option<Vec<i32>> {
    let status = host.text(format!("/proc/{process}/status"))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use super::*;
    use crate::host::fake::FakeHost;

    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Sleeper {
            let mut command = Command::new("sleep");
            Sleeper(command.arg("1000").process_group(0).spawn().unwrap())
        }

        fn facts(&self) -> ProcessFacts {
            ProcessFacts::of(&Host::real(), self.0.id().cast_signed()).unwrap()
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn a_process_gets_its_share_and_gets_back_what_it_had() {
        let (sleeper, host) = (Sleeper::new(), Host::real());
        let before = sleeper.facts();
        assert_eq!(
            (before.parent, before.share.autogroup),
            (std::process::id().cast_signed(), None),
            "no session leader"
        );
        let nicer = before.share.with_nice((before.share.nice + 3).min(19));
        nicer.give(&host, before.identity).unwrap();
        assert_eq!(sleeper.facts().share, nicer);
        nicer.idle().give(&host, before.identity).unwrap();
        assert_eq!(sleeper.facts().share.policy, 5);
        // Only a privileged process can restore it; others get an error.
        match before.share.give(&host, before.identity) {
            Ok(()) => assert_eq!(sleeper.facts(), before),
            Err(error) => assert!(matches!(error, ShareError::Refused { .. }), "{error}"),
        }
    }

    /// A slice is set, survives the idle policy, and is restored.
    #[test]
    fn a_slice_is_given_and_taken_back() {
        let (sleeper, host) = (Sleeper::new(), Host::real());
        let before = sleeper.facts();
        let Some(usual) = before.share.slice else { return };
        assert!(usual > SHORTEST, "{usual:?}");
        before.share.prompt().give(&host, before.identity).unwrap();
        assert_eq!(sleeper.facts().share, before.share.prompt());
        if before.share.idle().give(&host, before.identity).is_ok() && before.share.give(&host, before.identity).is_ok()
        {
            assert_eq!(sleeper.facts(), before);
        }
    }

    #[test]
    fn who_has_got_the_number_since_is_not_touched() {
        let (sleeper, host) = (Sleeper::new(), Host::real());
        let before = sleeper.facts();
        let stranger = ProcessIdentity { began: before.identity.began + 1, ..before.identity };
        let error = before.share.with_nice(19).give(&host, stranger).unwrap_err();
        assert!(matches!(error, ShareError::Ended(_)), "{error}");
        assert_eq!(sleeper.facts(), before);
    }

    #[test]
    fn session_leaders_have_a_group_of_their_own() {
        let zeros = |count: usize| " 0".repeat(count);
        let stat = |session: i32| {
            format!("7 (postgres) S 3 7 {session}{} 20 5 1 0 99{} 17 1{}\n", zeros(11), zeros(15), zeros(13))
        };
        let check = |session: i32, enabled: &str, autogroup: &str, expect: Option<i32>| {
            let fake = FakeHost::new(&[
                ("/proc/7/stat", &stat(session)),
                ("/proc/7/autogroup", autogroup),
                ("/proc/sys/kernel/sched_autogroup_enabled", enabled),
            ]);
            let facts = ProcessFacts::of(&fake.host(), 7);
            assert_eq!(facts.map(|facts| facts.share.autogroup), Some(expect), "{session} {enabled} {autogroup}");
        };
        check(7, "1\n", "/autogroup-12 nice 4\n", Some(4));
        check(7, "1\n", "/autogroup-12 nice -20\n", Some(-20));
        check(7, "0\n", "/autogroup-12 nice 4\n", None);
        check(6, "1\n", "/autogroup-12 nice 4\n", None);
        check(7, "1\n", "", None);
    }

    #[test]
    fn shares_are_given_to_groups_too() {
        let slice = Some(Duration::from_millis(3));
        let share = ProcessShare { nice: 0, policy: OTHER, autogroup: Some(0), slice };
        assert_eq!(share.with_nice(5), ProcessShare { nice: 5, policy: OTHER, autogroup: Some(5), slice });
        assert_eq!(share.idle(), ProcessShare { nice: 0, policy: IDLE, autogroup: Some(19), slice: None });
        assert_eq!(share.prompt(), ProcessShare { slice: Some(SHORTEST), ..share });
        assert_eq!(ProcessShare { slice: None, ..share }.prompt().slice, None, "a kernel without slices");
        let batch = ProcessShare { policy: BATCH, autogroup: None, ..share };
        assert_eq!(batch.with_nice(5), ProcessShare { nice: 5, ..batch });
    }

    #[test]
    fn what_proc_tells() {
        let fake = FakeHost::new(&[
            ("/proc/7/task/7/children", "12 15 \n"),
            ("/proc/7/cmdline", "postgres: parallel worker for PID 12 \0\0\0"),
            ("/proc/7/status", "Name:\tpostgres\nNSpid:\t7\t2\n"),
            ("/proc/stat", "cpu 1 2\nbtime 1000\n"),
        ]);
        let host = fake.host();
        assert_eq!((children(&host, 7), children(&host, 8)), (Some(vec![12, 15]), None));
        assert_eq!(title(&host, 7).as_deref(), Some("postgres: parallel worker for PID 12"));
        assert_eq!(namespaced_numbers(&host, 7), Some(vec![7, 2]));
        let second = procfs::ticks_per_second();
        assert_eq!(began_at(&host, ProcessIdentity { id: 7, began: 3 * second }), Some(1003));
        assert_eq!(ProcessFacts::of(&host, 7), None);
    }
}
