//! The log's own folder: fresh, on a disk, and removed with the log; folders left by killed processes are removed.
//!
//! Folders are named by process and number, and the owning process holds a lock (`flock`) on its folder; the kernel
//! releases it when the process ends in any way. So a folder whose lock is free has no owner. That holds even if the
//! number in its name now belongs to another process, or if its owner ran in another container.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::LogError;
use crate::columns::folder::memory_file_system;

const PREFIX: &str = "plimsoll-log-";

/// A folder that only this process uses.
#[derive(Debug)]
pub struct LogFolder {
    path: PathBuf,
    /// The folder itself, locked.
    _lock: File,
}

/// Distinguishes the folders of one process.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl LogFolder {
    /// A fresh folder in the first of the system's temporary folders that is on a disk: that of `TMPDIR` or `/tmp`, `/var/tmp`,
    /// the current folder.
    pub fn create_in_default() -> Result<Self, LogError> {
        let mut candidates = vec![std::env::temp_dir(), PathBuf::from("/var/tmp")];
        candidates.extend(std::env::current_dir());
        let mut first_error = None;
        for parent in &candidates {
            match LogFolder::create(parent) {
                Ok(folder) => return Ok(folder),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.expect("there was a candidate"))
    }

    /// A fresh folder in `parent`, which is made if need be. Clears away what dead processes have left there.
    pub fn create(parent: &Path) -> Result<Self, LogError> {
        let failed = |error: io::Error| LogError::Folder { path: parent.to_owned(), reason: error.to_string() };
        fs::create_dir_all(parent).map_err(failed)?;
        if let Some(kind) = memory_file_system(parent).map_err(failed)? {
            return Err(LogError::InMemory { path: parent.to_owned(), kind });
        }
        remove_abandoned(parent);
        loop {
            // Relaxed: only distinctness matters.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(error)),
            }
            // Between the two steps another process may take the folder for abandoned; then the next number is tried.
            if let Some(lock) = lock(&path) {
                return Ok(LogFolder { path, _lock: lock });
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        // If the removal fails, the folder is removed at the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Locks a folder, if it exists and its lock is free.
fn lock(path: &Path) -> Option<File> {
    let folder = File::open(path).ok()?;
    folder.try_lock().ok()?;
    // The previous owner of the lock may have removed the folder.
    path.exists().then_some(folder)
}

fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_log = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_log && let Some(_lock) = lock(&entry.path()) {
            // It may belong to another user; then it stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use plimsoll_testing::{Need, skip};

    use super::*;

    #[test]
    fn a_folder_lives_as_long_as_its_owner_and_is_cleared_after_a_kill() {
        // Beside the build, which is on a disk; the system's temporary folder need not be.
        let parent = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let abandoned = parent.path().join("plimsoll-log-1-0");
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join("segment-0000000001.log"), "x").unwrap();
        let stranger = parent.path().join("other");
        fs::create_dir(&stranger).unwrap();

        let first = LogFolder::create(parent.path()).unwrap();
        assert!(!abandoned.exists(), "nobody holds its lock");
        let second = LogFolder::create(parent.path()).unwrap();
        assert!(first.path().exists() && second.path().exists() && stranger.exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn memory_is_refused_as_a_disk() {
        let memory = Path::new("/dev/shm");
        if memory_file_system(memory).ok().flatten().is_none() {
            return skip(Need::Shm, "there is no file system in memory at /dev/shm");
        }
        let error = LogFolder::create(memory).unwrap_err().to_string();
        assert!(error.contains("is in memory (tmpfs)") && error.contains("set log_folder"), "{error}");
    }

    #[test]
    fn a_folder_that_cannot_be_had_is_named() {
        let error = LogFolder::create(Path::new("/proc/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("log folder /proc/no/such: "), "{error}");
    }
}
