//! Existing control groups to which single processes are moved.
//!
//! The group's owner sets its limits on cores, disks and memory. A move takes 10 to 20 ms in version 1, because the
//! kernel waits for running forks and exits of processes, and little in version 2 mounted with `favordynmods`.

use std::io;
use std::path::{Path, PathBuf};

use crate::groups::{Cgroups, PROCESSES};
use crate::host::Host;
use crate::process_identity::ProcessIdentity;

/// The folder of a control group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupFolder(PathBuf);

/// Why a process is not in a group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The folder is not a control group.
    #[error("{0} is not a control group: it has no file {PROCESSES}; make it, or delegate it to the governor's user")]
    NoGroup(PathBuf),
    /// The process has ended. Another process with its number, if any, was not moved.
    #[error("process {0} has ended")]
    Ended(i32),
    /// The kernel refused the move.
    #[error("process {process} cannot be moved to the control group {folder}: {source}")]
    Refused {
        /// Its number.
        process: i32,
        /// The group.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel accepted the move, but `/proc` shows another group.
    #[error("process {process} was moved to the control group {folder} and is not there")]
    NotHeld {
        /// Its number.
        process: i32,
        /// The group.
        folder: PathBuf,
    },
}

impl GroupFolder {
    /// The group with this folder.
    pub fn at(host: &Host, folder: impl Into<PathBuf>) -> Result<GroupFolder, GroupError> {
        let folder = folder.into();
        let is_group = host.exists(folder.join(PROCESSES));
        if is_group { Ok(GroupFolder(folder)) } else { Err(GroupError::NoGroup(folder)) }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Whether this process may move others to it.
    pub fn is_ours(&self, host: &Host) -> bool {
        host.writable(self.0.join(PROCESSES))
    }

    /// The group of the same hierarchy that a process is in; `None` if it has ended, or the hierarchy is not mounted here.
    pub fn beside(&self, host: &Host, process: ProcessIdentity) -> Option<GroupFolder> {
        let groups = Cgroups::of_process(host, &process.id.to_string());
        let own = groups.beside(&self.0).map(|folder| GroupFolder(folder.to_owned()));
        own.filter(|_| process.is_running(host))
    }

    /// Moves a process to it, and verifies the move.
    pub fn take(&self, host: &Host, process: ProcessIdentity) -> Result<(), GroupError> {
        if !process.is_running(host) {
            return Err(GroupError::Ended(process.id));
        }
        let ended = |error: GroupError| if process.is_running(host) { error } else { GroupError::Ended(process.id) };
        host.write(self.0.join(PROCESSES), &process.id.to_string())
            .map_err(|source| ended(GroupError::Refused { process: process.id, folder: self.0.clone(), source }))?;
        match self.beside(host, process) {
            Some(group) if group == *self => Ok(()),
            _ => Err(ended(GroupError::NotHeld { process: process.id, folder: self.0.clone() })),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use plimsoll_testing::{Need, skip};

    use super::*;
    use crate::host::fake::FakeHost;

    #[test]
    fn a_folder_without_processes_is_no_group() {
        let fake = FakeHost::new(&[("/sys/fs/cgroup/low/cgroup.procs", ""), ("/tmp/low/other", "")]);
        assert!(GroupFolder::at(&fake.host(), "/sys/fs/cgroup/low").is_ok());
        let error = GroupFolder::at(&fake.host(), "/tmp/low").unwrap_err().to_string();
        assert!(error.starts_with("/tmp/low is not a control group"), "{error}");
    }

    /// Runs only where this process may make control groups.
    #[test]
    fn a_process_is_moved_there_and_back() {
        let host = Host::real();
        let own = Cgroups::read(&host);
        let Some(parent) = own.version_1_folder("cpu").or(own.version_2_folder()) else {
            return skip(Need::Cgroups, "no hierarchy of control groups is mounted");
        };
        let folder = parent.join(format!("plimsoll-test-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&folder) {
            return skip(Need::Cgroups, format!("no control group can be made: {error}"));
        }
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
        let process = ProcessIdentity::of(&host, child.id().cast_signed()).unwrap();
        let group = GroupFolder::at(&host, &folder).unwrap();
        let before = group.beside(&host, process).unwrap();
        let moved = group.take(&host, process);
        let there = group.beside(&host, process);
        let put_back = before.take(&host, process);
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir(&folder).unwrap();
        moved.unwrap();
        assert_eq!(there, Some(group.clone()));
        put_back.unwrap();
        assert!(matches!(group.take(&host, process), Err(GroupError::Ended(_))));
    }
}
