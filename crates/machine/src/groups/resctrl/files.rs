//! The few operations on files that resctrl needs. The real ones act below a folder; a test puts a fake kernel there.

use std::io;
use std::path::PathBuf;

use crate::host::Host;

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

/// The files of a mount on a host.
#[derive(Debug, Clone)]
pub struct MountedFiles {
    host: Host,
    folder: PathBuf,
}

impl MountedFiles {
    /// The files below `folder`, absolute on `host`.
    pub fn at(host: Host, folder: impl Into<PathBuf>) -> MountedFiles {
        MountedFiles { host, folder: folder.into() }
    }
}

impl ResctrlFiles for MountedFiles {
    fn read(&self, path: &str) -> io::Result<String> {
        std::fs::read_to_string(self.host.path(self.folder.join(path)))
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        self.host.write(self.folder.join(path), text)
    }

    fn make_group(&self, path: &str) -> io::Result<()> {
        self.host.make_folder(self.folder.join(path))
    }

    fn remove_group(&self, path: &str) -> io::Result<()> {
        self.host.remove_folder(self.folder.join(path))
    }

    fn folders(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.host.path(self.folder.join(path)))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }
}
