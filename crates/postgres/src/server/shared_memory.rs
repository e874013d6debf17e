//! Resources that remain in the kernel if a server's first process is killed: a segment of System V shared memory that
//! guards the data folder, and files of POSIX shared memory. One of these files lists the others.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_machine::process_identity::ProcessIdentity;
use procfs::process::{MMapPath, Process};
use procfs::{Current, Shm};
use serde::{Deserialize, Serialize};

/// Where the kernel shows POSIX shared memory, with the prefix of PostgreSQL's files there.
const FILES: &str = "/dev/shm/PostgreSQL.";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SharedMemory {
    /// Files of `/dev/shm`.
    files: Vec<PathBuf>,
    segments: Vec<Segment>,
}

/// A segment of System V shared memory. An identifier may be reused, but hardly ever with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Segment {
    id: u64,
    key: i32,
}

impl SharedMemory {
    /// The shared memory that a process has mapped.
    pub fn of(process: ProcessIdentity) -> SharedMemory {
        let mut found = SharedMemory::default();
        let maps = Process::new(process.id).and_then(|process| process.maps());
        for map in maps.map(|maps| maps.0).unwrap_or_default() {
            match map.pathname {
                MMapPath::Path(path) if is_of_postgresql(&path) => found.files.push(path),
                // For a segment the kernel shows its identifier in the place of a file's number.
                MMapPath::Vsys(key) => found.segments.push(Segment { id: map.inode, key }),
                _ => {}
            }
        }
        found
    }

    /// Removes the remaining shared memory, once no process uses it.
    pub fn remove(&self) {
        for file in self.files.iter().filter(|file| is_of_postgresql(file)) {
            // A server that shuts down cleanly removes its files itself.
            let Ok(owner) = file.symlink_metadata() else { continue };
            for other in listed_in(&std::fs::read(file).unwrap_or_default()) {
                if other.symlink_metadata().is_ok_and(|other| other.uid() == owner.uid()) {
                    let _ = std::fs::remove_file(other);
                }
            }
            let _ = std::fs::remove_file(file);
        }
        let present = procfs::SharedMemorySegments::current().map(|segments| segments.0).unwrap_or_default();
        for segment in &self.segments {
            let is_orphan = |shm: &&Shm| shm.shmid == segment.id && shm.key == segment.key && shm.nattch == 0;
            if present.iter().any(|shm| is_orphan(&shm)) {
                let mut command = Command::new("ipcrm");
                let command = command.arg("-m").arg(segment.id.to_string()).stdin(Stdio::null());
                // If the command does not exist, a few bytes remain.
                let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            }
        }
    }
}

fn is_of_postgresql(file: &Path) -> bool {
    file.parent() == Some(Path::new("/dev/shm")) && file.to_string_lossy().starts_with(FILES)
}

/// The other files of a server, if these bytes are of the file with the list.
///
/// The list (`dsm_control_header` in PostgreSQL's `dsm.c`) begins with three 32-bit numbers: a mark, the number of
/// places used so far, and the number of places. From byte 16 on it has the places. Each begins with the number in a
/// file's name and the number of its users. The length of a place depends on the version, and follows from the total
/// length.
fn listed_in(bytes: &[u8]) -> Vec<PathBuf> {
    const MARK: u32 = 0x9a50_3d32;
    const PLACES: usize = 16;
    let number = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (Some(MARK), Some(used), Some(places @ 1..)) = (number(0), number(4), number(8)) else { return Vec::new() };
    let length = bytes.len().saturating_sub(PLACES) / places as usize;
    if length < 16 || used > places {
        return Vec::new();
    }
    let file = |place: usize| {
        let (name, users) = (number(PLACES + place * length)?, number(PLACES + place * length + 4)?);
        // Odd numbers denote memory without a file of its own.
        (users > 0 && name % 2 == 0).then(|| PathBuf::from(format!("{FILES}{name}")))
    };
    (0..used as usize).filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_from_the_list_whatever_the_length_of_a_place() {
        let list = |mark: u32, used: u32, length: usize| {
            let mut bytes = vec![0; 16 + 4 * length];
            let mut put = |at: usize, number: u32| bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
            [mark, used, 4].into_iter().enumerate().for_each(|(place, number)| put(place * 4, number));
            // One in use, one that is free again, one without a file, one beyond those that were ever used.
            for (place, (name, users)) in [(1234, 2), (88, 0), (77, 2), (66, 2)].into_iter().enumerate() {
                put(16 + place * length, name);
                put(16 + place * length + 4, users);
            }
            bytes
        };
        for length in [24, 40] {
            assert_eq!(listed_in(&list(0x9a50_3d32, 3, length)), [PathBuf::from("/dev/shm/PostgreSQL.1234")]);
        }
        for nothing in
            [list(1, 3, 40), list(0x9a50_3d32, 5, 40), Vec::new(), vec![0x32, 0x3d, 0x50, 0x9a], vec![0; 100]]
        {
            assert_eq!(listed_in(&nothing), Vec::<PathBuf>::new());
        }
        assert!(!is_of_postgresql(Path::new("/dev/shm/PostgreSQL.1/../other")));
        assert!(
            !is_of_postgresql(Path::new("/tmp/PostgreSQL.1")) && is_of_postgresql(Path::new("/dev/shm/PostgreSQL.1"))
        );
    }
}
