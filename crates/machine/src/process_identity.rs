//! Processes by number and start time: the kernel reuses numbers, so a number alone may belong to another process.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use procfs::process::Stat;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::host::Host;

/// One process or thread, distinct from all others that ever have its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its number.
    pub id: i32,
    /// When it began, in clock ticks since boot.
    pub began: u64,
}

impl ProcessIdentity {
    /// The process that has this number now; `None` if there is none, or if it is a zombie.
    pub fn of(host: &Host, id: i32) -> Option<ProcessIdentity> {
        let stat: Stat = host.parsed(format!("/proc/{id}/stat"))?;
        let runs = !matches!(stat.state, 'Z' | 'X' | 'x');
        runs.then_some(ProcessIdentity { id, began: stat.starttime })
    }

    /// This process.
    pub fn own() -> ProcessIdentity {
        let id = std::process::id().cast_signed();
        ProcessIdentity::of(&Host::real(), id).unwrap_or(ProcessIdentity { id, began: 0 })
    }

    /// The processes whose working folder is or was this one, by number. Only root sees those of other users.
    ///
    /// This finds a server that works in a folder of its own, with all its descendants, even if processes in between
    /// have ended.
    pub fn working_in(host: &Host, folder: &Path) -> Vec<ProcessIdentity> {
        let works_there = |id: &i32| {
            let there = std::fs::read_link(host.path(format!("/proc/{id}/cwd"))).unwrap_or_default();
            there == folder
                || there.as_os_str().as_bytes().strip_suffix(b" (deleted)") == Some(folder.as_os_str().as_bytes())
        };
        let ids = host.numbers("/proc").into_iter();
        let mut found: Vec<_> = ids.filter(works_there).filter_map(|id| ProcessIdentity::of(host, id)).collect();
        found.sort_by_key(|process| process.id);
        found
    }

    /// Whether it has not ended.
    pub fn is_running(&self, host: &Host) -> bool {
        ProcessIdentity::of(host, self.id).as_ref() == Some(self)
    }

    /// Sends it a signal. Does nothing if it has ended, and never reaches another process.
    pub fn signal(&self, signal: Signal) -> std::io::Result<()> {
        // `from_raw` asserts that the number is not negative.
        let Some(pid) = Some(self.id).filter(|id| *id > 0).and_then(Pid::from_raw) else { return Ok(()) };
        // Open the process before comparing its start time: the descriptor refers to this process even if the number is
        // reused.
        let gone = |error: Errno| if error == Errno::SRCH { Ok(()) } else { Err(error.into()) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) if self.is_running(&Host::real()) => pidfd_send_signal(&process, signal).or_else(gone),
            Ok(_) => Ok(()),
            // Linux before 5.3: the number can be reused only within a short moment.
            Err(Errno::NOSYS) if self.is_running(&Host::real()) => kill_process(pid, signal).or_else(gone),
            Err(Errno::NOSYS) => Ok(()),
            Err(error) => gone(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_known_until_it_ends_and_nobody_else_is_hit() {
        let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
        let host = Host::real();
        let identity = ProcessIdentity::of(&host, child.id().cast_signed()).unwrap();
        assert!(identity.is_running(&host));
        let stranger = ProcessIdentity { began: identity.began + 1, ..identity };
        assert!(!stranger.is_running(&host));
        stranger.signal(Signal::KILL).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it began at another time");
        identity.signal(Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(!identity.is_running(&host));
        identity.signal(Signal::KILL).unwrap();
        ProcessIdentity { id: -1, began: 0 }.signal(Signal::KILL).unwrap();
        assert!(ProcessIdentity::own().is_running(&host));
    }

    #[test]
    fn processes_are_found_by_the_folder_they_work_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let host = Host::real();
        assert_eq!(ProcessIdentity::working_in(&host, &path), []);
        // The shell's child is found, too.
        let mut child = Command::new("sh").args(["-c", "sleep 1000; true"]).current_dir(&path).spawn().unwrap();
        let found = loop {
            let found = ProcessIdentity::working_in(&host, &path);
            if found.len() == 2 {
                break found;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        assert_eq!(found[0].id, child.id().cast_signed());
        folder.close().unwrap();
        assert_eq!(ProcessIdentity::working_in(&host, &path), found, "the folder is gone");
        found.iter().for_each(|process| process.signal(Signal::KILL).unwrap());
        child.wait().unwrap();
    }

    #[test]
    fn who_has_ended_and_waits_to_be_waited_for_does_not_run() {
        let mut child = Command::new("true").spawn().unwrap();
        let host = Host::real();
        let id = child.id().cast_signed();
        while ProcessIdentity::of(&host, id).is_some() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(host.exists(format!("/proc/{id}")), "nobody has waited for it");
        child.wait().unwrap();
    }
}
