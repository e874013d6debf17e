//! A folder of a file system. A lock on it (`flock`) keeps two exports from writing it at once; the kernel releases it
//! when the process ends in any way.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{Storage, StorageError};

/// The end of the name of a file that is being written.
pub(crate) const DRAFT_END: &str = ".new";

/// A folder.
#[derive(Debug)]
pub struct FolderStorage {
    path: PathBuf,
    /// Held for writing; `None` for reading.
    _lock: Option<File>,
    /// Whether this value made the folder.
    is_new: bool,
}

impl FolderStorage {
    /// A folder for an export, which is made if it does not exist. No other process can export to it meanwhile.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let failed = |act, error| StorageError { act, place: path.display().to_string(), error };
        let is_new = !path.exists();
        make_folder(path).map_err(|error| failed("make the folder", error))?;
        let lock = File::open(path).map_err(|error| failed("open the folder", error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            let error = match error {
                rustix::io::Errno::WOULDBLOCK => io::Error::other("another process exports to it; wait for its end"),
                other => other.into(),
            };
            failed("export to", error)
        })?;
        Ok(FolderStorage { path: path.to_owned(), _lock: Some(lock), is_new })
    }

    /// A folder with an export, for reading.
    pub fn open_to_read(path: &Path) -> Self {
        FolderStorage { path: path.to_owned(), _lock: None, is_new: false }
    }

    fn failed(&self, act: &'static str, name: &str) -> impl Fn(io::Error) -> StorageError {
        let place = self.place(name);
        move |error| StorageError { act, place: place.clone(), error }
    }

    /// Adds the names of the files in a folder and below it.
    fn add_names(&self, folder: &Path, names: &mut Vec<String>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.add_names(&entry.path(), names)?;
                continue;
            }
            let path = entry.path();
            let below = path.strip_prefix(&self.path).expect("entries are below their folder");
            names.push(below.to_string_lossy().into_owned());
        }
        Ok(())
    }
}

impl Drop for FolderStorage {
    /// Removes a folder that it made for an export of which nothing was written.
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

impl Storage for FolderStorage {
    fn place(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }

    fn names(&self) -> Result<Vec<String>, StorageError> {
        let mut names = Vec::new();
        self.add_names(&self.path, &mut names).map_err(self.failed("list", ""))?;
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StorageError> {
        match fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", name)(error)),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StorageError> {
        let path = self.path.join(name);
        let draft = self.path.join(format!("{name}{DRAFT_END}"));
        let parent = path.parent().expect("a file is in a folder");
        let written = make_folder(parent).and_then(|()| replace(&path, &draft, parent, bytes));
        written.map_err(|error| {
            // A draft that stays is removed by the next export.
            let _ = fs::remove_file(&draft);
            self.failed("write", name)(error)
        })
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(self.failed("remove", name))?;
        // The folder of a table that is gone; it is not empty otherwise.
        let _ = path.parent().filter(|parent| *parent != self.path).map(fs::remove_dir);
        Ok(())
    }
}

/// Makes a folder, durably with the folders above it that are new.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_folder(parent)?;
    match fs::create_dir(folder) {
        // Another thread was sooner.
        Err(_) if folder.is_dir() => {}
        made => made?,
    }
    File::open(parent)?.sync_all()
}

/// Gives a file its new contents in one step.
fn replace(path: &Path, draft: &Path, parent: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(draft, path)?;
    // The rename is durable with its folder.
    File::open(parent)?.sync_all()
}
