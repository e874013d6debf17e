//! Leftovers of servers whose Plimsoll was killed.

use std::path::{Path, PathBuf};

use super::home::{PREFIX, clear, default_bases, marked};
use super::record::Note;

/// Ends the servers, and removes the folders, of every Plimsoll that was killed before it could do so itself. Returns
/// what was done and what failed. Does nothing to servers whose owner still runs.
pub fn clean_up_leftovers() -> Vec<String> {
    clean_up(&plimsoll_machine::limiter::default_state_folder(), &default_bases())
}

/// As [`clean_up_leftovers`], with the records of a state folder, and with base folders whose servers may have lost
/// their records: the state folder is often in memory, and lost by a reboot.
pub(super) fn clean_up(state: &Path, bases: &[PathBuf]) -> Vec<String> {
    let _alone = Note::lock(state);
    let mut told = Vec::new();
    for note in Note::all(state).into_iter().filter(|note| !note.record.has_owner()) {
        let owner = note.record.owner.id;
        match clear(&note.record) {
            Ok(done) => {
                note.remove();
                told.extend(done.into_iter().map(|done| format!("{done} (left by process {owner})")));
            }
            Err(why) => told.push(format!("{why} (left by process {owner})")),
        }
    }
    for folder in bases.iter().flat_map(|base| with_prefix(base)) {
        let Some(record) = marked(&folder).filter(|record| !record.has_owner()) else { continue };
        match clear(&record) {
            Ok(done) => told.extend(done),
            Err(why) => told.push(why),
        }
    }
    told
}

/// The entries of a folder that are named like a server's folder.
fn with_prefix(base: &Path) -> Vec<PathBuf> {
    let Ok(base) = base.canonicalize() else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(base) else { return Vec::new() };
    let is_called_so = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_called_so).collect();
    found.sort();
    found
}
