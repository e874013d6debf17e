//! Cache allocation, memory bandwidth limits and their monitoring by the kernel's resctrl file system
//! (Intel RDT, AMD QoS; kernel Documentation/filesystems/resctrl.rst).
//!
//! A group is a folder. Its `schemata` says which ways of each cache and how much memory bandwidth its tasks may use,
//! its `tasks` lists them, its `mon_data` counts the bytes that they hold and transfer. This module reads, writes and
//! checks; it never mounts the file system, and it never changes the default group.
//!
//! In reading order: [`Resctrl::open`] finds the mount or returns why there is none, [`Capabilities`] describes what
//! can be allocated, [`Group`] is one allocation, `subject` puts whole processes into a group, and [`class_groups`]
//! puts some threads of this process, or some processes of a server, into groups with fewer ways. [`ResctrlFiles`] is
//! the interface behind which a test puts a fake kernel ([`fake`]).
//!
//! The group's own counters show whether a limit takes effect. Sapphire Rapids has a direct proof besides: its event
//! `INT_MISC.MBA_STALLS` (0xAD, umask 0x20) counts the cycles in which a core waited because of a bandwidth limit.

pub(crate) mod absent;
mod bandwidth;
mod cache;
mod capabilities;
pub mod class_groups;
pub(crate) mod conflict;
pub mod fake;
mod files;
mod group;
mod schemata;
pub(crate) mod subject;
mod traffic;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use bandwidth::{BandwidthControl, BandwidthUnit};
pub use cache::{CacheControl, CacheMask};
pub use capabilities::{Capabilities, Monitoring};
pub use files::{MountedFiles, ResctrlFiles};
pub use group::{ByDomain, Group, NotRead, Traffic};
pub use schemata::Schemata;
pub use traffic::{CacheSample, CacheUse};

use crate::availability::Availability;
use crate::control::{ControlError, Undo, UndoNotes};
use crate::groups::{OURS, is_of_plimsoll};
use crate::host::Host;

/// A mounted resctrl file system.
#[derive(Clone)]
pub struct Resctrl {
    files: Arc<dyn ResctrlFiles>,
    mount: PathBuf,
    capabilities: Capabilities,
}

/// Bytes for people.
pub(crate) fn mebibytes(bytes: f64) -> String {
    format!("{:.2} MiB", bytes / f64::from(1 << 20))
}

impl Resctrl {
    /// The resctrl file system of `host`; if none can be used, the reason and the remedy. Changes nothing.
    pub fn open(host: &Host) -> Result<Resctrl, Availability> {
        let mount = absent::find_mount(host)?;
        if let Some(absent) = conflict::rival(host) {
            return Err(absent);
        }
        let files = Arc::new(MountedFiles::at(host.clone(), &mount.folder));
        Ok(Resctrl::over(files, mount.folder, mount.unit))
    }

    /// The file system behind `files`, presented as mounted at `mount`, with bandwidth in `unit`.
    pub fn over(files: Arc<dyn ResctrlFiles>, mount: impl Into<PathBuf>, unit: BandwidthUnit) -> Resctrl {
        let capabilities = Capabilities::read(&*files, unit);
        Resctrl { files, mount: mount.into(), capabilities }
    }

    /// The resources that can be allocated and counted.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Where it is mounted.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// The default group, to which all tasks belong that are in no other. To read; the controls leave it as it is.
    pub(crate) fn default_group(&self) -> Group {
        self.at(String::new())
    }

    /// The group of this name directly below the mount, if there is one.
    pub fn find(&self, name: &str) -> Option<Group> {
        self.group_names().iter().any(|found| found == name).then(|| self.at(name.to_owned()))
    }

    /// The default group and all others.
    pub fn groups(&self) -> Vec<Group> {
        [String::new()].into_iter().chain(self.group_names()).map(|path| self.at(path)).collect()
    }

    pub(crate) fn group_of(&self, thread: i32) -> Option<Group> {
        self.groups().into_iter().find(|group| group.tasks().is_ok_and(|tasks| tasks.contains(&thread)))
    }

    /// The names of all groups but the default one.
    pub fn group_names(&self) -> Vec<String> {
        let mut names = self.files.folders("").unwrap_or_default();
        names.retain(|name| !["info", "mon_data", "mon_groups"].contains(&name.as_str()));
        names.sort();
        names
    }

    /// Makes a group with the shares that these lines of `schemata` give it. If the kernel refuses them, the group is removed again.
    pub(crate) fn group(
        &self,
        name: &str,
        shares: &str,
        tasks_to: Option<String>,
        undo: &mut dyn UndoNotes,
    ) -> Result<Group, ControlError> {
        let group = self.make(name, tasks_to, undo)?;
        if let Err(error) = group.set(shares) {
            // The note stands: should this fail too, undoing tries again.
            let _ = group.remove();
            return Err(error);
        }
        Ok(group)
    }

    /// Makes a group, which may use everything; its name must begin with `plimsoll-`. Its removal is noted first, with
    /// `tasks_to` as the folder, absolute on the host, to which its tasks go then (the default group if `None`). An existing group
    /// belongs to another program, and undoing must not remove it, so it is refused before anything is noted.
    fn make(&self, path: &str, tasks_to: Option<String>, undo: &mut dyn UndoNotes) -> Result<Group, ControlError> {
        let refuse = |error| {
            Err(ControlError::Refused { doing: "make".to_owned(), path: self.absolute(path), error, told: None })
        };
        if !is_of_plimsoll(path) {
            return refuse(std::io::Error::other(format!("the names of our groups begin with {OURS}")));
        }
        if self.files.read(&format!("{path}/tasks")).is_ok() {
            return refuse(std::io::Error::from(std::io::ErrorKind::AlreadyExists));
        }
        undo.note(Undo::RemoveGroup { folder: self.absolute(path), tasks_to })?;
        self.files.make_group(path).map_err(|error| self.refused("make", path, error))?;
        Ok(self.at(path.to_owned()))
    }

    fn at(&self, path: String) -> Group {
        Group::new(self.clone(), path)
    }

    /// A path below the mount as the host knows it.
    fn absolute(&self, path: &str) -> String {
        self.mount.join(path).display().to_string()
    }

    /// The error, with what the kernel says about it in `info/last_cmd_status`. An `ok` in that file explains nothing
    /// and is left out.
    fn refused(&self, doing: impl Into<String>, path: &str, error: std::io::Error) -> ControlError {
        let told = self.files.read("info/last_cmd_status").ok().map(|text| text.trim().replace('\n', "; "));
        let told = told.filter(|text| !text.is_empty() && text != "ok");
        ControlError::Refused { doing: doing.into(), path: self.absolute(path), error, told }
    }
}

impl fmt::Debug for Resctrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Resctrl").field("mount", &self.mount).field("capabilities", &self.capabilities).finish()
    }
}

#[cfg(test)]
mod tests;
