//! The few operations on files that resctrl needs. The real ones act below a folder; a test puts a fake kernel there.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

/// The files of a resctrl mount. Paths are relative to it; the empty path is the mount itself.
pub trait ResctrlFiles: Send + Sync {
    /// The text of a file.
    fn read(&self, path: &str) -> io::Result<String>;
    /// Writes a text in one call, as the kernel wants it: each write is one command. Never makes a file.
    fn write(&self, path: &str, text: &str) -> io::Result<()>;
    /// Makes a group.
    fn make_group(&self, path: &str) -> io::Result<()>;
    /// Removes a group with all that is in it.
    fn remove_group(&self, path: &str) -> io::Result<()>;
    /// The names of the folders in a folder.
    fn folders(&self, path: &str) -> io::Result<Vec<String>>;
}

/// The files of a real mount.
#[derive(Debug, Clone)]
pub struct MountedFiles {
    folder: PathBuf,
}

impl MountedFiles {
    /// The files below `folder`.
    pub fn at(folder: impl Into<PathBuf>) -> MountedFiles {
        MountedFiles { folder: folder.into() }
    }
}

impl ResctrlFiles for MountedFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        std::fs::read_to_string(self.folder.join(path))
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        // Not `fs::write`: that would make an ordinary file where the kernel has none.
        OpenOptions::new().write(true).open(self.folder.join(path))?.write_all(text.as_bytes())
    }

    fn make_group(&self, path: &str) -> io::Result<()> {
        std::fs::create_dir(self.folder.join(path))
    }

    fn remove_group(&self, path: &str) -> io::Result<()> {
        std::fs::remove_dir(self.folder.join(path))
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.folder.join(path))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }
}
