//! A control group of our own for some of a server's processes, which leaves nothing behind.
//!
//! It lies below the server's own group (in version 2 below the nearest one above that offers the controller), so that
//! the limits of the server still apply to them. A journal in a folder below the state folder records how to undo the
//! group before it is made; [`restore_left_over`] undoes the groups of killed processes.

use std::path::{Path, PathBuf};

use super::Site;
use crate::control::{ControlError, Origin, Undo, UndoNotes};
use crate::groups::{PROCESSES, make_folder, name_prefix};
use crate::host::Host;
use crate::limiter::journal::{Journal, Notes};
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

/// The changes for groups of one kind, with a journal and a state folder of their own. Dropping it undoes them.
#[derive(Debug)]
pub(in crate::groups) struct OwnChanges {
    host: Host,
    journal: Journal,
    state: PathBuf,
    _lock: StateLock,
}

/// The group. Dropping it sends its processes back and removes it.
#[derive(Debug)]
pub struct OwnGroup {
    pub(super) host: Host,
    pub(super) site: Site,
    folder: PathBuf,
    pub(super) changes: OwnChanges,
}

/// The folder of the journal of this process's groups `name`.
pub(in crate::groups) fn state_of(state: &Path, name: &str) -> PathBuf {
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

impl OwnChanges {
    /// No changes yet. A process has at most one journal of each name.
    pub(in crate::groups) fn begin(host: &Host, state: &Path, name: &str) -> Result<OwnChanges, LimiterError> {
        let state = state_of(state, name);
        let (lock, journal, _) = Journal::begin(host, &state)?;
        Ok(OwnChanges { host: host.clone(), journal, state, _lock: lock })
    }

    /// Where to note how the changes under this key are undone, before they are made.
    pub(in crate::groups) fn notes_of<'a>(&'a mut self, key: &'a str) -> Notes<'a> {
        self.journal.notes_of(key)
    }

    /// Forgets the notes under this key, so that they are not undone.
    pub(super) fn forget(&mut self, key: &str) -> Result<(), LimiterError> {
        self.journal.forget(key)
    }

    /// Undoes all changes. A second call does nothing.
    pub(super) fn undo(&mut self) -> Result<Restored, LimiterError> {
        let restored = self.journal.undo_all(&self.host)?;
        self.journal.all_of(restored)
    }
}

impl Drop for OwnChanges {
    fn drop(&mut self) {
        // Changes that cannot be undone now stay in the journal for the next start.
        if self.undo().is_ok() {
            let _ = std::fs::remove_dir_all(&self.state);
        }
    }
}

impl OwnGroup {
    /// Makes a group without members. A process has at most one group of each name.
    pub(super) fn make(
        host: &Host,
        state: &Path,
        postmaster: ProcessIdentity,
        site: Site,
        name: &str,
    ) -> Result<OwnGroup, OwnGroupError> {
        let mut changes = OwnChanges::begin(host, state, name)?;
        let folder = site.base.join(format!("{}{}-{name}", name_prefix(std::process::id()), postmaster.id));
        let home = site.home.display().to_string();
        let came_from = vec![Origin { process: postmaster.id, started: postmaster.began, folder: home }];
        let undo = Undo::RemoveControlGroup { folder: folder.display().to_string(), came_from };
        changes.notes_of(&format!("{name} group")).note(undo)?;
        make_folder(host, &folder)?;
        Ok(OwnGroup { host: host.clone(), site, folder, changes })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is of version 2, where a process is in one group for all controllers.
    pub fn is_unified(&self) -> bool {
        self.site.unified
    }

    /// Whether no process is in it.
    pub fn is_empty(&self) -> bool {
        self.host.text(self.folder.join(PROCESSES)).is_none_or(|text| text.is_empty())
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
