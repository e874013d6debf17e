//! A control group of our own for some of a server's processes, which leaves nothing behind.
//!
//! It lies below the server's own group (in version 2 below the nearest one above that offers the controller), so that
//! the limits of the server still apply to them. A journal in a folder below the state folder records how to undo the
//! group before it is made; [`restore_left_over`] undoes the groups of killed processes.

use std::path::{Path, PathBuf};

use crate::control::group::{Controller, Site, name_prefix, site};
use crate::control::{ControlError, Origin, Undo, UndoNotes};
use crate::group_folder::GroupFolder;
use crate::host::Host;
use crate::limiter::journal::Journal;
use crate::limiter::lock::StateLock;
use crate::limiter::{LimiterError, Restored};
use crate::process_identity::ProcessIdentity;

/// Prefix of the folders, in the state folder, of processes that have such groups.
const STATE_PREFIX: &str = "governor-";

/// Why the group, or one of its settings, could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnGroupError {
    /// No group can be made here.
    #[error("{0}")]
    Unavailable(String),
    /// The kernel refused a change.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The state folder cannot be used, or a change could not be undone.
    #[error(transparent)]
    State(#[from] LimiterError),
}

/// The group. Dropping it sends its processes back and removes it.
#[derive(Debug)]
pub(crate) struct OwnGroup {
    pub(crate) host: Host,
    pub(crate) site: Site,
    folder: PathBuf,
    journal: Journal,
    state: PathBuf,
    _lock: StateLock,
}

/// Where such a group can be made for the server whose first process is `postmaster`, so that processes can be moved
/// back; otherwise the reason.
pub(crate) fn site_of_server(host: &Host, postmaster: i32, controller: Controller) -> Result<Site, String> {
    let site = site(host, postmaster, controller)?;
    let home = site.home.join("cgroup.procs");
    if host.writable(&home) {
        Ok(site)
    } else {
        Err(format!("processes cannot be moved back to {}: give it to this user", home.display()))
    }
}

/// The folder of the journal of this process's group `name`.
pub(crate) fn state_of(state: &Path, name: &str) -> PathBuf {
    state.join(format!("{STATE_PREFIX}{}-{name}", std::process::id()))
}

/// Undoes the groups of killed processes below the state folder; those of running processes are left alone.
pub fn restore_left_over(host: &Host, state: &Path) -> Vec<Result<Restored, LimiterError>> {
    let entries = std::fs::read_dir(state).into_iter().flatten().flatten();
    let left = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(STATE_PREFIX));
    let mut restored = Vec::new();
    for folder in left.map(|entry| entry.path()) {
        match crate::limiter::restore_left_over(host, &folder) {
            // Its process is running and removes the group itself.
            Err(LimiterError::InUse(_)) => {}
            Ok(done) if done.failed.is_empty() => {
                // A folder that cannot be removed has no journal, and does no harm.
                let _ = std::fs::remove_dir_all(&folder);
                restored.push(Ok(done));
            }
            other => restored.push(other),
        }
    }
    restored
}

impl OwnGroup {
    /// Makes a group without members. A process has at most one group of each name.
    pub(crate) fn make(
        host: &Host,
        state: &Path,
        postmaster: ProcessIdentity,
        site: Site,
        name: &str,
    ) -> Result<OwnGroup, OwnGroupError> {
        let state = state_of(state, name);
        let (lock, journal, _) = Journal::begin(host, &state)?;
        let folder = site.base.join(format!("{}{}-{name}", name_prefix(std::process::id()), postmaster.id));
        let home = site.home.display().to_string();
        let mut group = OwnGroup { host: host.clone(), site, folder, journal, state, _lock: lock };
        let came_from = vec![Origin { process: postmaster.id, started: postmaster.began, folder: home }];
        let folder = group.folder.display().to_string();
        group.note(&format!("{name} group"), Undo::RemoveControlGroup { folder, came_from })?;
        if !host.exists(&group.folder) {
            let made = host.make_folder(&group.folder);
            made.map_err(|error| ControlError::refused("make the control group", group.folder.display(), error))?;
        }
        Ok(group)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.host.text(self.folder.join("cgroup.procs")).is_none_or(|text| text.is_empty())
    }

    pub(crate) fn as_folder(&self) -> Option<GroupFolder> {
        GroupFolder::at(&self.host, &self.folder).ok()
    }

    /// Records how to undo a change of another group, before it is made.
    pub(crate) fn note(&mut self, control: &str, undo: Undo) -> Result<(), OwnGroupError> {
        Ok(self.journal.notes_of(control).note(undo)?)
    }

    /// Forgets the notes under this key, so that they are not undone.
    pub(crate) fn forget(&mut self, control: &str) -> Result<(), OwnGroupError> {
        Ok(self.journal.forget(control)?)
    }

    pub(crate) fn write(&self, group: &Path, file: &str, text: &str) -> Result<(), OwnGroupError> {
        let file = group.join(file);
        let written = self.host.write(&file, text);
        Ok(written.map_err(|error| ControlError::refused(format!("write {text:?} to"), file.display(), error))?)
    }

    /// Undoes all notes: sends the group's processes back and removes it. A second call does nothing.
    pub(crate) fn remove(&mut self) -> Result<Restored, OwnGroupError> {
        let restored = self.journal.undo_all(&self.host)?;
        Ok(self.journal.all_of(restored)?)
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // Changes that cannot be undone now stay in the journal for the next start.
        if self.remove().is_ok() {
            let _ = std::fs::remove_dir_all(&self.state);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use super::*;
    use crate::control::fake::Machine;

    /// Kills the result of `make` after a number of changes, and checks that the next start undoes them. Returns
    /// whether `make` made no further changes.
    pub(crate) fn is_over_when_killed_after<T>(
        changes: usize,
        machine: &Machine,
        state: &Path,
        name: &str,
        make: impl FnOnce() -> T,
    ) -> bool {
        let journal = state_of(state, name).join("restore.jsonl");
        machine.watch(journal.clone());
        let before = machine.snapshot();
        machine.trouble(changes, usize::MAX);
        let made = make();
        let is_over = machine.left().is_none();
        machine.kill(made, &journal);
        let restored = restore_left_over(&machine.host(), state);
        assert!(restored.iter().all(Result::is_ok), "{:?} {changes}: {restored:?}", machine.groups);
        assert_eq!(machine.snapshot(), before, "{:?}, killed after {changes} changes", machine.groups);
        assert!(fs::read_dir(state).unwrap().next().is_none(), "{:?} {changes}", machine.groups);
        is_over
    }
}
