//! What a server leaves in the kernel if its first process is killed: a segment of System V shared memory that guards the
//! data folder, and a file of POSIX shared memory in which it keeps a list of others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_machine::process_identity::ProcessIdentity;
use procfs::process::{MMapPath, Process};
use procfs::{Current, Shm};
use serde::{Deserialize, Serialize};

/// Where the kernel shows POSIX shared memory, and how PostgreSQL's files there are called.
const FILES: &str = "/dev/shm/PostgreSQL.";

/// Shared memory by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SharedMemory {
    /// Files of `/dev/shm`.
    files: Vec<PathBuf>,
    segments: Vec<Segment>,
}

/// A segment of System V shared memory. An identifier may be given away again, hardly ever with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Segment {
    id: u64,
    key: i32,
}

impl SharedMemory {
    /// What a process has mapped.
    pub fn of(process: ProcessIdentity) -> SharedMemory {
        let mut found = SharedMemory::default();
        let maps = Process::new(process.id).and_then(|process| process.maps());
        for map in maps.map(|maps| maps.0).unwrap_or_default() {
            match map.pathname {
                MMapPath::Path(path) if path.to_string_lossy().starts_with(FILES) => found.files.push(path),
                // For a segment the kernel shows its identifier in the place of a file's number.
                MMapPath::Vsys(key) => found.segments.push(Segment { id: map.inode, key }),
                _ => {}
            }
        }
        found
    }

    /// Removes what is still there, once no process has it any more.
    pub fn remove(&self) {
        for file in &self.files {
            if file.parent() == Some(Path::new("/dev/shm")) && file.to_string_lossy().starts_with(FILES) {
                // The server that ends in order takes it away itself.
                let _ = std::fs::remove_file(file);
            }
        }
        let present = procfs::SharedMemorySegments::current().map(|segments| segments.0).unwrap_or_default();
        for segment in &self.segments {
            let is_orphan = |shm: &&Shm| shm.shmid == segment.id && shm.key == segment.key && shm.nattch == 0;
            if present.iter().any(|shm| is_orphan(&shm)) {
                let mut command = Command::new("ipcrm");
                let command = command.arg("-m").arg(segment.id.to_string()).stdin(Stdio::null());
                // A few bytes that stay if there is no such command.
                let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            }
        }
    }
}
