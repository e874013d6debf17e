//! The folder of a database that outlives its process: its identity, and the lock that only one process has it open.
//!
//! It holds an identity (a text file: format version, the database's id, a checksum), segments and checkpoints. Every
//! segment and checkpoint carries the id too, so files that were copied from another database are not mistaken for this
//! one's. The process that has it open holds a lock (`flock`) on the folder; the kernel releases it when the process
//! ends in any way.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::files::{Files, SystemFiles};
use super::format::VERSION;
use super::storage::write_all_at;
use crate::columns::folder::memory_file_system;

const IDENTITY: &str = "plimsoll-database";
const DRAFT: &str = "plimsoll-database.draft";
/// The first line of an identity.
const TITLE: &str = "plimsoll database";

/// Why a folder cannot be used for a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataFolderError {
    /// The system reports an error.
    #[error("data folder {}: {source}; set data_folder to a folder on a disk that can be written", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The folder is in memory.
    #[error("data folder {} is in memory ({kind}) and outlives nothing; set data_folder to a folder on a disk", path.display())]
    InMemory {
        /// The folder.
        path: PathBuf,
        /// The file system's name.
        kind: &'static str,
    },
    /// Another process has it open.
    #[error("data folder {} is open in another process; close that one, or set data_folder to another folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The folder has other files and is not a database.
    #[error(
        "data folder {} holds `{found}` and no database; set data_folder to an empty folder or to one that Plimsoll has made",
        path.display()
    )]
    NoDatabase {
        /// The folder.
        path: PathBuf,
        /// One of the files in it.
        found: String,
    },
    /// Another version made it.
    #[error(
        "data folder {} has format version {found}, and this program reads version {VERSION}; open it with the program \
         that made it, or set data_folder to another folder",
        path.display()
    )]
    Version {
        /// The folder.
        path: PathBuf,
        /// Its format version.
        found: u32,
    },
    /// Its identity is damaged.
    #[error("data folder {}: its file {IDENTITY} is damaged ({reason}); put it back from a copy", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// A database's folder, which no other process has open.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    database: u64,
    /// The folder itself, locked.
    _lock: File,
}

impl DataFolder {
    /// Takes a database's folder, or makes one in a folder that is empty or does not exist.
    pub fn open(path: &Path) -> Result<Self, DataFolderError> {
        let failed = |source: io::Error| DataFolderError::Unusable { path: path.to_owned(), source };
        SystemFiles.make_folders(path).map_err(failed)?;
        if let Some(kind) = memory_file_system(path).map_err(failed)? {
            return Err(DataFolderError::InMemory { path: path.to_owned(), kind });
        }
        let lock = lock(path)?;
        let database = take_identity(&SystemFiles, path)?;
        Ok(DataFolder { path: path.to_owned(), database, _lock: lock })
    }

    /// Takes a database's folder for reading only: the folder is not changed.
    pub fn open_for_reading(path: &Path) -> Result<Self, DataFolderError> {
        let lock = lock(path)?;
        let database = read_identity(&SystemFiles, path)?
            .ok_or_else(|| DataFolderError::NoDatabase { path: path.to_owned(), found: "nothing".to_owned() })?;
        Ok(DataFolder { path: path.to_owned(), database, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database's id: a number that no other database is likely to have.
    pub fn database(&self) -> u64 {
        self.database
    }
}

fn lock(path: &Path) -> Result<File, DataFolderError> {
    let failed = |source: io::Error| DataFolderError::Unusable { path: path.to_owned(), source };
    let folder = File::open(path).map_err(failed)?;
    match folder.try_lock() {
        Ok(()) => Ok(folder),
        Err(TryLockError::WouldBlock) => Err(DataFolderError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// The id of the database in a locked folder; a new one if there is none.
pub(crate) fn take_identity(files: &dyn Files, path: &Path) -> Result<u64, DataFolderError> {
    let failed = |source: io::Error| DataFolderError::Unusable { path: path.to_owned(), source };
    let identity = read_identity(files, path)?;
    let draft = path.join(DRAFT);
    match files.remove(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    match identity {
        Some(database) => {
            // Shows now, and not at the first commit, whether files can be created in it.
            files.create(&draft).and_then(|_| files.remove(&draft)).map_err(failed)?;
            // The process that made the identity may have been killed before this sync.
            files.sync_folder(path).map_err(failed)?;
            Ok(database)
        }
        None => make_identity(files, path).map_err(failed),
    }
}

/// The database's id; `None` if the folder has never held a database.
fn read_identity(files: &dyn Files, path: &Path) -> Result<Option<u64>, DataFolderError> {
    let failed = |source: io::Error| DataFolderError::Unusable { path: path.to_owned(), source };
    let damaged = |reason| DataFolderError::Damaged { path: path.to_owned(), reason };
    let read = |mut file: Box<dyn Read>| {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map(|_| bytes)
    };
    let text = match files.open(&path.join(IDENTITY)).and_then(read) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| damaged("it is not a text"))?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            for name in files.names(path).map_err(failed)? {
                // A draft remains if a process was killed while it made the identity.
                if name != DRAFT {
                    let found = name.to_string_lossy().into_owned();
                    return Err(DataFolderError::NoDatabase { path: path.to_owned(), found });
                }
            }
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return Err(damaged("it does not begin as it should"));
    }
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let version = field("format").and_then(|version| version.parse().ok()).ok_or(damaged("it has no version"))?;
    if version != VERSION {
        return Err(DataFolderError::Version { path: path.to_owned(), found: version });
    }
    let id = field("id").and_then(|id| u64::from_str_radix(id, 16).ok()).ok_or(damaged("it has no id"))?;
    let is_whole = text == identity(id);
    if is_whole { Ok(Some(id)) } else { Err(damaged("its checksum is wrong")) }
}

/// The text of an identity.
fn identity(id: u64) -> String {
    let text = format!("{TITLE}\nformat {VERSION}\nid {id:016x}\n");
    let checksum = crc32fast::hash(text.as_bytes());
    format!("{text}checksum {checksum:08x}\n")
}

/// Writes a new identity, atomically. An identity exists only if the folder's own name is durable.
fn make_identity(files: &dyn Files, path: &Path) -> io::Result<u64> {
    let database = random_number()?;
    let mut draft = files.create(&path.join(DRAFT))?;
    write_all_at(&mut *draft, identity(database).as_bytes(), 0)?;
    draft.sync()?;
    // Any folder above may be new, perhaps made by a process that was killed. The last one is a root or the current
    // folder.
    for folder in path.ancestors().filter(|folder| folder.parent().is_some()) {
        match files.sync_folder(&folder.join("..")) {
            // Then the folder is not ours: a process that makes a folder may also read the parent.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {}
            outcome => outcome?,
        }
    }
    files.rename(&path.join(DRAFT), &path.join(IDENTITY))?;
    files.sync_folder(path)?;
    Ok(database)
}

/// A number from the system's random source.
pub(super) fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs;

    use super::*;

    /// Beside the build, which is on a disk where the system's temporary folder need not be.
    fn parent() -> tempfile::TempDir {
        tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
    }

    #[test]
    fn a_folder_keeps_its_identity_and_has_one_owner() {
        let parent = parent();
        let path = parent.path().join("new/base");
        let first = DataFolder::open(&path).unwrap();
        let database = first.database();
        let error = DataFolder::open(&path).unwrap_err().to_string();
        assert!(error.contains("is open in another process"), "{error}");
        drop(first);
        assert_eq!(DataFolder::open(&path).unwrap().database(), database);
        assert_eq!(DataFolder::open_for_reading(&path).unwrap().database(), database);
        assert_ne!(DataFolder::open(&parent.path().join("other")).unwrap().database(), database);
        // A process was killed while it made an identity.
        let half = parent.path().join("half");
        fs::create_dir(&half).unwrap();
        fs::write(half.join(DRAFT), "plimso").unwrap();
        DataFolder::open(&half).unwrap();
        assert!(!half.join(DRAFT).exists());
    }

    #[test]
    fn what_is_no_database_of_this_version_is_refused_and_left_alone() {
        let parent = parent();
        let path = parent.path();
        let refuse = |expect: &str| {
            let error = DataFolder::open(path).unwrap_err().to_string();
            assert!(error.contains(expect) && error.contains(&path.display().to_string()), "{error}");
        };
        fs::write(path.join("letters.txt"), "dear").unwrap();
        refuse("holds `letters.txt` and no database");
        assert_eq!(fs::read(path.join("letters.txt")).unwrap(), b"dear");
        fs::remove_file(path.join("letters.txt")).unwrap();
        let good = identity(7);
        for (text, expect) in [
            (good.replace("format 2", "format 3"), "has format version 3, and this program reads version 2"),
            (good.replace("id 0", "id 1"), "is damaged (its checksum is wrong)"),
            (good.replace("plimsoll", "Plimsoll"), "is damaged (it does not begin as it should)"),
            (good[..20].to_owned(), "is damaged (it has no version)"),
        ] {
            fs::write(path.join(IDENTITY), text).unwrap();
            refuse(expect);
        }
        fs::write(path.join(IDENTITY), good).unwrap();
        assert_eq!(DataFolder::open(path).unwrap().database(), 7);
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let error = DataFolder::open(Path::new("/proc/no/such")).unwrap_err().to_string();
        assert!(error.starts_with("data folder /proc/no/such: "), "{error}");
        if memory_file_system(Path::new("/dev/shm")).ok().flatten().is_some() {
            let error = DataFolder::open(Path::new("/dev/shm")).unwrap_err().to_string();
            assert!(error.contains("is in memory (tmpfs)"), "{error}");
        }
    }
}
