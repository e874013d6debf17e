//! A control group that limits what some processes of a server read from its disk.
//!
//! It lies below the server's own group (in version 2 below the nearest one above that offers `io`), so that what limits the
//! server goes on to limit them. Nothing but that group is moved or limited, with one exception: version 1 limits each group
//! by itself, so that processes in a new group would escape a limit that the server's group has. There the limit is divided:
//! the new group gets its part, and the server's group the rest, until the new group is gone.
//!
//! Only reading is limited. A commit writes the log and waits for the disk while it holds a lock that every other commit
//! needs; held back there, the least important transaction would stop the most important one.
//!
//! Every change is in a journal before it is made, in a folder of this process below the state folder. What a process that was
//! killed has left is undone by [`restore_left_over`].

use std::path::{Path, PathBuf};

use crate::control::disk::device::Device;
use crate::control::disk::{Disk, READ_MB_S};
use crate::control::group::{DISK, Site, name_prefix, site};
use crate::control::{ControlError, Origin, Undo};
use crate::disk_watch::{device_of, read_bytes};
use crate::group_folder::GroupFolder;
use crate::host::Host;
use crate::limiter::journal::Journal;
use crate::limiter::lock::StateLock;
use crate::limiter::{LimiterError, Restored};
use crate::process_identity::ProcessIdentity;

/// The limit that is put in force, bytes per second.
const READS: &Disk = &READ_MB_S;

/// Under these words the changes are in the journal.
const GROUP: &str = "disk group";
const REST: &str = "the rest of the server's limit";

/// How the folders of processes that have such groups are called in the state folder.
const STATE_PREFIX: &str = "governor-";

/// The most that the group gets of a limit that it divides with the server's own group.
const PART_MAX: f64 = 0.75;

/// Why there is no group, or no limit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskGroupError {
    /// No group can be made here.
    #[error("{0}")]
    Unavailable(String),
    /// The kernel refused a change.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The state folder cannot be used, or something could not be put back.
    #[error(transparent)]
    State(#[from] LimiterError),
}

/// The group. Dropping it sends its processes back and removes it.
#[derive(Debug)]
pub struct DiskGroup {
    host: Host,
    device: Device,
    site: Site,
    folder: PathBuf,
    /// The limit in force.
    limit: Option<u64>,
    /// The limit of the server's group as others have set it, and what is left of it there.
    divided: Option<Divided>,
    journal: Journal,
    state: PathBuf,
    _lock: StateLock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divided {
    whole: u64,
    rest: u64,
}

/// Whether such a group can be made for the server whose first process this is: how, or why not. Changes nothing.
pub fn probe(host: &Host, postmaster: i32) -> Result<String, String> {
    let device = device_of(host, postmaster)?;
    let site = site(host, postmaster, DISK)?;
    let home = site.home.join("cgroup.procs");
    if !host.writable(&home) {
        return Err(format!("processes cannot be moved back to {}: give it to this user", home.display()));
    }
    // Without that nobody knows whether a limit is called for.
    if read_bytes(host, postmaster).is_none() {
        let why =
            "what server processes read is not shown to this user (/proc/PID/io): run as root or as the server's user";
        return Err(why.to_owned());
    }
    let version = if site.unified { 2 } else { 1 };
    Ok(format!("control groups version {version} below {}, for reads from {}", site.base.display(), device.name))
}

/// Undoes what processes that were killed have left below the state folder; what running ones have is left alone.
pub fn restore_left_over(host: &Host, state: &Path) -> Vec<Result<Restored, LimiterError>> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    let left = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(STATE_PREFIX));
    let mut restored = Vec::new();
    for folder in left.map(|entry| entry.path()) {
        match crate::limiter::restore_left_over(host, &folder) {
            // Its process runs, and looks after it itself.
            Err(LimiterError::InUse { .. }) => {}
            Ok(done) if done.failed.is_empty() => {
                // What cannot be removed has no journal, and does no harm.
                let _ = std::fs::remove_dir_all(&folder);
                restored.push(Ok(done));
            }
            other => restored.push(other),
        }
    }
    restored
}

impl DiskGroup {
    /// Makes the group, without members, with a limit in bytes per second.
    pub fn make(
        host: &Host,
        state: &Path,
        postmaster: ProcessIdentity,
        limit: u64,
    ) -> Result<DiskGroup, DiskGroupError> {
        probe(host, postmaster.id).map_err(DiskGroupError::Unavailable)?;
        let device = device_of(host, postmaster.id).map_err(DiskGroupError::Unavailable)?;
        let site = site(host, postmaster.id, DISK).map_err(DiskGroupError::Unavailable)?;
        let own = std::process::id();
        let state = state.join(format!("{STATE_PREFIX}{own}"));
        let lock = StateLock::take(&state)?;
        let left = Journal::restore_old(host, &state)?;
        let mut journal = Journal::new(host, &state);
        if !left.failed.is_empty() {
            let journal = journal.path().to_owned();
            return Err(LimiterError::NotRestored { failed: left.failed, journal }.into());
        }
        let folder = site.base.join(format!("{}{}-disk", name_prefix(own), postmaster.id));
        let home = site.home.display().to_string();
        let came_from = vec![Origin { process: postmaster.id, started: postmaster.began, folder: home }];
        note(&mut journal, GROUP, Undo::RemoveControlGroup { folder: folder.display().to_string(), came_from })?;
        let mut group = DiskGroup {
            host: host.clone(),
            device,
            site,
            folder,
            limit: None,
            divided: None,
            journal,
            state,
            _lock: lock,
        };
        if !host.exists(&group.folder) {
            let made = host.make_folder(&group.folder);
            made.map_err(|error| ControlError::refused("make the control group", group.folder.display(), error))?;
        }
        group.limit(limit)?;
        Ok(group)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The limit in force, bytes per second.
    pub fn in_force(&self) -> Option<u64> {
        self.limit
    }

    /// Whether it divides a limit with the server's own group.
    pub fn is_dividing(&self) -> bool {
        self.divided.is_some()
    }

    /// Whether no process is in it.
    pub fn is_empty(&self) -> bool {
        self.host.text(self.folder.join("cgroup.procs")).is_none_or(|text| text.is_empty())
    }

    /// Limits what its processes read together, bytes per second, and looks whether it is so. Where it divides a limit with the
    /// server's group it gets no more than three quarters of that, and both together never more.
    pub fn limit(&mut self, bytes_per_s: u64) -> Result<(), DiskGroupError> {
        let whole = self.whole();
        self.note_whole(whole)?;
        let limit = match whole {
            Some(whole) => bytes_per_s.min((whole as f64 * PART_MAX) as u64),
            None => bytes_per_s,
        };
        // First what becomes less: at no moment do both have more than there is.
        let is_more = self.limit.is_none_or(|before| limit > before);
        if is_more {
            self.leave_rest(whole, limit)?;
        }
        if self.limit != Some(limit) {
            self.set(&self.folder, limit)?;
            self.limit = Some(limit);
        }
        if !is_more {
            self.leave_rest(whole, limit)?;
        }
        Ok(())
    }

    /// The limit that others have set for the server's group; `None` if there is none, or if groups within it share it anyway.
    fn whole(&self) -> Option<u64> {
        if self.site.unified {
            return None;
        }
        let now = READS.limit_of(&self.host, &self.site.home, false, &self.device)?;
        match self.divided {
            Some(divided) if divided.rest == now => Some(divided.whole),
            // Others have changed it since.
            _ => Some(now),
        }
    }

    /// Sees to it that the journal has the limit that is to be put back.
    fn note_whole(&mut self, whole: Option<u64>) -> Result<(), DiskGroupError> {
        if self.divided.map(|divided| divided.whole) == whole {
            return Ok(());
        }
        self.journal.forget(REST)?;
        self.divided = None;
        let Some(whole) = whole else { return Ok(()) };
        let path = self.site.home.join(READS.file(false)).display().to_string();
        let text = READS.order(false, &self.device, Some(whole));
        note(&mut self.journal, REST, Undo::WriteFile { path, text })?;
        self.divided = Some(Divided { whole, rest: whole });
        Ok(())
    }

    fn leave_rest(&mut self, whole: Option<u64>, part: u64) -> Result<(), DiskGroupError> {
        let Some(whole) = whole else { return Ok(()) };
        let rest = whole.saturating_sub(part).max(1);
        // Others may have set the whole again, as an experiment does that puts its limits in force once more.
        if READS.limit_of(&self.host, &self.site.home, false, &self.device) != Some(rest) {
            self.set(&self.site.home, rest)?;
        }
        self.divided = Some(Divided { whole, rest });
        Ok(())
    }

    /// Writes a limit and looks whether it is in force.
    fn set(&self, group: &Path, limit: u64) -> Result<(), DiskGroupError> {
        let unified = self.site.unified;
        let (file, order) = (group.join(READS.file(unified)), READS.order(unified, &self.device, Some(limit)));
        let written = self.host.write(&file, &order);
        written.map_err(|error| ControlError::refused(format!("write {order:?} to"), file.display(), error))?;
        match READS.limit_of(&self.host, group, unified, &self.device) {
            Some(now) if now == limit => Ok(()),
            now => {
                let now = now.map_or("none".to_owned(), |now| format!("{now} bytes/s"));
                let why = format!("{} was given a limit of {limit} bytes/s, and has {now}", group.display());
                Err(DiskGroupError::Unavailable(why))
            }
        }
    }

    /// Sends its processes back, lifts its limit and removes it. Does nothing the second time.
    pub fn remove(&mut self) -> Result<Restored, DiskGroupError> {
        if self.divided.is_some() && self.whole() != self.divided.map(|divided| divided.whole) {
            // Others have set another limit, or lifted it: theirs stays.
            self.journal.forget(REST)?;
        }
        let restored = self.journal.undo_all(&self.host)?;
        if !restored.failed.is_empty() {
            let journal = self.journal.path().to_owned();
            return Err(LimiterError::NotRestored { failed: restored.failed, journal }.into());
        }
        (self.limit, self.divided) = (None, None);
        Ok(restored)
    }

    /// The group as one that processes can be moved to.
    pub fn as_folder(&self) -> Option<GroupFolder> {
        GroupFolder::at(&self.host, &self.folder).ok()
    }
}

fn note(journal: &mut Journal, control: &str, undo: Undo) -> Result<(), DiskGroupError> {
    let path = journal.path().display().to_string();
    let noted = journal.note(control, undo);
    Ok(noted.map_err(|error| ControlError::refused("note how to undo a change in", path, error))?)
}

impl Drop for DiskGroup {
    fn drop(&mut self) {
        // What cannot be put back now is in the journal, for the next start.
        if self.remove().is_ok() {
            let _ = std::fs::remove_dir_all(&self.state);
        }
    }
}

#[cfg(test)]
mod tests;
