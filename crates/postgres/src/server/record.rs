//! What must be known to clean up after a Plimsoll that was killed: a file for each server, in a folder that a later one
//! looks into, written before there is anything to clean up.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use serde::{Deserialize, Serialize};

use super::error::ServerError;
use super::shared_memory::SharedMemory;

/// A server and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// No process outlives a boot. `None` where the kernel does not tell.
    pub boot: Option<String>,
    /// The process that has started the server.
    pub owner: ProcessIdentity,
    /// The server's own folder.
    pub folder: PathBuf,
    /// The server's first process, once there is one.
    pub postmaster: Option<ProcessIdentity>,
    /// What stays behind if that is killed.
    pub shared_memory: SharedMemory,
}

/// A record and its file, which stays until it is removed.
#[derive(Debug)]
pub(super) struct Note {
    pub path: PathBuf,
    pub record: Record,
}

impl Record {
    /// Of a server that this process is about to start in a folder.
    pub fn new(folder: PathBuf) -> Record {
        let boot = boot(&Host::real());
        let shared_memory = SharedMemory::default();
        Record { boot, owner: ProcessIdentity::own(), folder, postmaster: None, shared_memory }
    }

    /// Whether its processes may still be there.
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
    /// Writes a record to a new file of the state folder, which is made if there is none.
    pub(crate) fn write_new(state: &Path, name: &str, record: Record) -> Result<Note, ServerError> {
        let folder = folder_of_records(state);
        let failed = |error| ServerError::State { path: folder.clone(), error };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
        // What records say is killed and removed with all our rights, so that nobody else may have a say in it.
        for folder in [state, &folder] {
            if !is_ours_alone(folder) {
                return Err(failed(io::Error::other("others may write to this folder: chmod go-w")));
            }
        }
        let note = Note { path: folder.join(format!("{name}.json")), record };
        note.write().map_err(failed)?;
        Ok(note)
    }

    /// Brings the file to what the record says now.
    pub fn write(&self) -> io::Result<()> {
        write_file(&self.path, &self.record)
    }

    /// Takes the file away: there is nothing to clean up any more.
    pub fn remove(&self) {
        // One that stays is found by the next start, which sees that there is nothing.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Waits until nobody else cleans up by the records of the state folder, and keeps others from it until what this
    /// returns is dropped. `None` if there are no records yet.
    pub fn lock(state: &Path) -> Option<File> {
        let path = folder_of_records(state).join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).ok()?;
        file.lock().ok().map(|()| file)
    }

    /// Every record of the state folder. A file that cannot be read was never followed by a server.
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

/// Whether this is a folder that belongs to us, and to which nobody else may write.
pub(super) fn is_ours_alone(folder: &Path) -> bool {
    let is_ours = |found: std::fs::Metadata| found.is_dir() && found.uid() == own_user() && found.mode() & 0o022 == 0;
    std::fs::symlink_metadata(folder).is_ok_and(is_ours)
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
