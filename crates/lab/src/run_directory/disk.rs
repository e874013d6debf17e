//! Writes files into a run's folder durably.
//!
//! A file is written under a temporary name, synced, and renamed; then the folder is synced too, because a name that is
//! only in memory is lost with the power. A test replaces the disk by one that stops at a chosen step, as a kill does.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

/// Steps of writing. A kill may come at any of them.
pub(super) trait Disk: Debug + Send + Sync {
    /// Creates an empty file, or truncates an existing one.
    fn create(&self, place: &Path) -> io::Result<File>;
    /// Syncs the contents of a file to the disk.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Renames a file in its folder, replacing any file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, place: &Path) -> io::Result<()>;
    /// Syncs the names in a folder to the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The disk itself.
#[derive(Debug)]
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, place: &Path) -> io::Result<File> {
        File::create(place)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, place: &Path) -> io::Result<()> {
        fs::remove_file(place)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        sync_folder(folder)
    }
}

/// Syncs the names in a folder to the disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    // A name without a folder is in the current one.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

/// The file of a failed step, and the error.
pub(super) type StepError = (PathBuf, io::Error);

/// Files of a folder that are written but not yet renamed. Files without a final name are removed when it is dropped.
#[derive(Debug)]
pub(super) struct Partials<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    names: Vec<&'static str>,
}

impl<'a> Partials<'a> {
    pub fn new(disk: &'a dyn Disk, folder: &'a Path) -> Self {
        Partials { disk, folder, names: Vec::new() }
    }

    fn partial(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.partial"))
    }

    /// Writes a file under a temporary name.
    pub fn write(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), StepError> {
        self.names.push(name);
        let written = self.disk.create(&self.partial(name)).and_then(|file| {
            let mut file = BufWriter::new(file);
            write(&mut file)?;
            self.disk.sync(&file.into_inner().map_err(io::IntoInnerError::into_error)?)
        });
        written.map_err(|error| (self.folder.join(name), error))
    }

    /// Renames all files, with `last` at the end: if it exists, so do the others, all of the same version. An earlier
    /// `last` is removed first, unless it is the only file and is replaced in one step.
    pub(crate) fn name_all(mut self, last: &'static str) -> Result<(), StepError> {
        let place = |name: &str| self.folder.join(name);
        let at = |name: &'static str| move |error| (place(name), error);
        let in_folder = |error| (self.folder.to_owned(), error);
        if self.names.len() > 1 {
            match self.disk.remove(&place(last)) {
                Ok(()) => self.disk.sync_folder(self.folder).map_err(in_folder)?,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err((place(last), error)),
            }
            for name in self.names.iter().copied().filter(|name| *name != last) {
                self.disk.rename(&self.partial(name), &place(name)).map_err(at(name))?;
            }
            self.disk.sync_folder(self.folder).map_err(in_folder)?;
        }
        self.disk.rename(&self.partial(last), &place(last)).map_err(at(last))?;
        self.disk.sync_folder(self.folder).map_err(in_folder)?;
        self.names.clear();
        Ok(())
    }
}

impl Drop for Partials<'_> {
    fn drop(&mut self) {
        // Nothing refers to them, and nothing more can be done about a failure.
        for name in &self.names {
            let _ = self.disk.remove(&self.partial(name));
        }
    }
}
