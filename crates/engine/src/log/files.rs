//! The file system calls on which durability rests, as a trait: tests replay the states that a crash may leave between
//! any two.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::storage::StorageFile;

/// A file system. Names are durable when their folder has been synced, data when the file has. A failed call may still
/// have had its effect.
pub(crate) trait Files: Debug + Send + Sync {
    /// Makes a folder and its missing parents.
    fn make_folders(&self, path: &Path) -> io::Result<()>;

    /// Makes a file that does not exist yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;

    /// Opens a file to overwrite its contents.
    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;

    /// Opens a file to read it from its beginning.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;

    /// Gives a file another name in the same folder.
    fn rename(&self, old: &Path, new: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// Returns when the names in a folder are durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

pub(crate) trait WritableFile: StorageFile {
    /// Makes the file at least `bytes` long, so that a full disk shows before anything is written. Does nothing on file
    /// systems that cannot do so.
    fn reserve(&mut self, bytes: u64) -> io::Result<()>;
}

/// The file system of this machine.
#[derive(Debug)]
pub(crate) struct SystemFiles;

impl Files for SystemFiles {
    fn make_folders(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(SystemFile(OpenOptions::new().write(true).create_new(true).open(path)?)))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(SystemFile(OpenOptions::new().write(true).open(path)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn rename(&self, old: &Path, new: &Path) -> io::Result<()> {
        fs::rename(old, new)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

struct SystemFile(File);

impl StorageFile for SystemFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

impl WritableFile for SystemFile {
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
