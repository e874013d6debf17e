//! Records for cleaning up after a Plimsoll that was killed: a file for each server, in a folder that a later process
//! reads, written before anything else is created.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use serde::{Deserialize, Serialize};

use super::error::ServerError;
use super::shared_memory::SharedMemory;

/// A server and its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// No process outlives a boot. `None` if the kernel does not report it.
    pub boot: Option<String>,
    /// The process that started the server.
    pub owner: ProcessIdentity,
    /// The server's own folder.
    pub folder: PathBuf,
    /// The server's first process, once there is one.
    pub postmaster: Option<ProcessIdentity>,
    /// The shared memory that stays behind if the first process is killed.
    pub shared_memory: SharedMemory,
}

/// A record and its file, which stays until it is removed.
#[derive(Debug)]
pub(super) struct Note {
    pub path: PathBuf,
    pub record: Record,
}

impl Record {
    /// The record of a server that this process is about to start in a folder.
    pub fn new(folder: PathBuf) -> Record {
        let boot = boot(&Host::real());
        let shared_memory = SharedMemory::default();
        Record { boot, owner: ProcessIdentity::own(), folder, postmaster: None, shared_memory }
    }

    /// Whether its processes may still exist.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot == boot(&Host::real())
    }

    pub(crate) fn has_owner(&self) -> bool {
        self.is_of_this_boot() && self.owner.is_running(&Host::real())
    }
}

fn boot(host: &Host) -> Option<String> {
    host.text("/proc/sys/kernel/random/boot_id")
}

fn folder_of_records(state: &Path) -> PathBuf {
    state.join("servers")
}

impl Note {
    /// Writes a record to a new file of the state folder, which is created if it does not exist.
    pub(crate) fn write_new(state: &Path, name: &str, record: Record) -> Result<Note, ServerError> {
        let folder = folder_of_records(state);
        let failed = |error| ServerError::State { path: folder.clone(), error };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        // Processes and folders in records are killed and removed with all our rights, so no other user may write
        // records.
        for folder in [state, &folder] {
            if !is_ours_alone(folder) {
                return Err(failed(io::Error::other("others may write to this folder: chmod go-w")));
            }
        }
        let note = Note { path: folder.join(format!("{name}.json")), record };
        note.write().map_err(failed)?;
        Ok(note)
    }

    /// Writes the current record to the file.
    pub fn write(&self) -> io::Result<()> {
        write_file(&self.path, &self.record)
    }

    /// Removes the file: there is nothing left to clean up.
    pub fn remove(&self) {
        // A file that stays is found by the next start, which has nothing to clean up.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Waits until no other process cleans up by the records of the state folder, and excludes others until the
    /// returned file is dropped. `None` if there are no records yet.
    pub fn lock(state: &Path) -> Option<File> {
        let path = folder_of_records(state).join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).ok()?;
        file.lock().ok().map(|()| file)
    }

    /// Every record of the state folder. A file that cannot be read was written before any server started.
    pub fn all(state: &Path) -> Vec<Note> {
        let folder = folder_of_records(state);
        if !is_ours_alone(state) || !is_ours_alone(&folder) {
            return Vec::new();
        }
        let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        paths.into_iter().filter_map(|path| Some(Note { record: read_file(&path)?, path })).collect()
    }
}

/// Writes a record so that the file holds either the old one or the new one.
pub(super) fn write_file(path: &Path, record: &Record) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(serde_json::to_string(record)?.as_bytes())?;
    drop(file);
    std::fs::rename(&new, path)
}

/// The record in a file that is ours.
pub(super) fn read_file(path: &Path) -> Option<Record> {
    let is_ours = std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.uid() == own_user());
    if !is_ours {
        return None;
    }
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// Whether this is a folder that we own, and to which no other user may write.
pub(super) fn is_ours_alone(folder: &Path) -> bool {
    let is_ours = |found: std::fs::Metadata| found.is_dir() && found.uid() == own_user() && found.mode() & 0o022 == 0;
    std::fs::symlink_metadata(folder).is_ok_and(is_ours)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
