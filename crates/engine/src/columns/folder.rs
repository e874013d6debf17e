//! A folder on a real disk, for files that no other process sees.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The default folder for files: on disk and not emptied at boot, by the Filesystem Hierarchy Standard.
pub const DEFAULT_FOLDER: &str = "/var/tmp";

/// File systems that keep files in memory, where a measurement would not be one of a disk (numbers of `linux/magic.h`).
const MEMORY_FILE_SYSTEMS: [(i64, &str); 3] =
    [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x9584_58f6, "hugetlbfs")];

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder does not exist, or files cannot be created in it.
    #[error("cannot use the folder {path}: {source}; name one that exists and can be written to")]
    Unusable {
        /// The folder.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The folder is in memory.
    #[error("the folder {path} is on a {kind}, which is memory and not a disk; name a folder on a disk")]
    InMemory {
        /// The folder.
        path: String,
        /// The kind of file system.
        kind: &'static str,
    },
}

/// A source of files without names, which vanish with their last user.
pub trait FileSource: fmt::Debug + fmt::Display + Send + Sync {
    /// A new file, for reading and writing.
    fn make_file(&self) -> Result<File, FolderError>;
}

/// A folder on a real disk.
#[derive(Debug, Clone)]
pub struct DiskFolder {
    path: PathBuf,
}

impl DiskFolder {
    /// Accepts a folder if it is on a disk and files can be created in it.
    pub fn open(path: &Path) -> Result<Self, FolderError> {
        let folder = DiskFolder { path: path.to_owned() };
        if let Some(kind) = memory_file_system(path).map_err(|error| folder.unusable(error))? {
            return Err(FolderError::InMemory { path: folder.to_string(), kind });
        }
        folder.make_file()?;
        Ok(folder)
    }

    /// A new file without a name, for reading and writing. The system removes it with its last descriptor, so even a
    /// killed process leaves nothing behind.
    pub fn make_file(&self) -> Result<File, FolderError> {
        tempfile::tempfile_in(&self.path).map_err(|error| self.unusable(error))
    }

    fn unusable(&self, source: io::Error) -> FolderError {
        FolderError::Unusable { path: self.to_string(), source }
    }
}

impl FileSource for DiskFolder {
    fn make_file(&self) -> Result<File, FolderError> {
        DiskFolder::make_file(self)
    }
}

impl fmt::Display for DiskFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// The name of a folder's file system, if that keeps files in memory.
pub fn memory_file_system(folder: &Path) -> io::Result<Option<&'static str>> {
    let kind = rustix::fs::statfs(folder)?.f_type;
    // The numbers have 32 bits, and some systems sign-extend them.
    let found = MEMORY_FILE_SYSTEMS.iter().find(|(number, _)| *number as u32 == kind as u32);
    Ok(found.map(|(_, name)| *name))
}

#[cfg(test)]
mod tests {
    use plimsoll_testing::{Need, skip};

    use super::*;

    #[test]
    fn memory_and_missing_folders_are_refused_with_the_reason() {
        let error = DiskFolder::open(Path::new("/no/such/folder")).expect_err("not there").to_string();
        assert!(error.contains("/no/such/folder") && error.contains("No such file"), "{error}");
        if !Path::new("/dev/shm").is_dir() {
            return skip(Need::Shm, "there is no /dev/shm to refuse");
        }
        let error = DiskFolder::open(Path::new("/dev/shm")).expect_err("in memory").to_string();
        assert_eq!(error, "the folder /dev/shm is on a tmpfs, which is memory and not a disk; name a folder on a disk");
    }
}
