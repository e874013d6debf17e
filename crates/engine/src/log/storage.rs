//! The storage of the files of a log and its checkpoints, as a trait: a folder, or in tests a storage that fails on
//! request.

use std::fmt::{self, Debug, Display};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, SystemFiles};

/// The name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// A segment of the log.
    Segment(u64),
    /// A whole checkpoint.
    Checkpoint(u64),
    /// A checkpoint that is being written.
    Draft(u64),
}

/// The prefix and the suffix of a name, around its number.
type Form = (&'static str, &'static str, fn(u64) -> FileName);

impl FileName {
    const FORMS: [Form; 3] = [
        ("segment-", ".log", FileName::Segment),
        ("checkpoint-", ".rows", FileName::Checkpoint),
        ("checkpoint-", ".draft", FileName::Draft),
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::FORMS.iter().find_map(|(prefix, suffix, make)| {
            let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            digits.parse().ok().map(make)
        })
    }
}

impl Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (form, number) = match self {
            FileName::Segment(number) => (0, number),
            FileName::Checkpoint(number) => (1, number),
            FileName::Draft(number) => (2, number),
        };
        let (prefix, suffix, _) = Self::FORMS[form];
        write!(f, "{prefix}{number:010}{suffix}")
    }
}

/// Keeps files. Calls that give a file a name are atomic, and durable when they return, except for a draft's name.
/// After an error the call may or may not have had its effect.
pub trait LogStorage: Debug + Send + Sync {
    /// Makes a file with room for `bytes` bytes.
    fn create(&self, name: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name and room for `bytes` bytes; its contents are to be overwritten.
    fn reuse(&self, old: FileName, new: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file to overwrite its contents.
    fn open_to_write(&self, name: FileName) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name.
    fn rename(&self, old: FileName, new: FileName) -> io::Result<()>;

    /// Removes a file. The removal need not be durable.
    fn remove(&self, name: FileName) -> io::Result<()>;

    /// All names, ascending.
    fn names(&self) -> io::Result<Vec<FileName>>;

    /// Reads a file from its beginning.
    fn open(&self, name: FileName) -> io::Result<Box<dyn Read>>;

    /// The contents of a file.
    fn read(&self, name: FileName) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(name)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The numbers of all segments, ascending.
    fn segments(&self) -> io::Result<Vec<u64>> {
        let number = |name| if let FileName::Segment(number) = name { Some(number) } else { None };
        Ok(self.names()?.into_iter().filter_map(number).collect())
    }
}

/// A file that is being written.
pub trait StorageFile: Send {
    /// Writes at a place, and returns how many of the bytes it has written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns when everything written is durable.
    fn sync(&mut self) -> io::Result<()>;
}

pub(crate) fn write_all_at(file: &mut dyn StorageFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::WriteZero, "nothing can be written any more")),
            Ok(count) => {
                offset += count as u64;
                bytes = &bytes[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Files of a folder.
#[derive(Debug)]
pub struct FolderStorage {
    files: Arc<dyn Files>,
    folder: PathBuf,
}

impl FolderStorage {
    /// The files of a folder, which exists. Also for reading a log left by another process.
    pub fn new(folder: &Path) -> Self {
        FolderStorage::over(Arc::new(SystemFiles), folder)
    }

    /// The files of a folder of a file system.
    pub(crate) fn over(files: Arc<dyn Files>, folder: &Path) -> Self {
        FolderStorage { files, folder: folder.to_owned() }
    }

    fn path(&self, name: FileName) -> PathBuf {
        self.folder.join(name.to_string())
    }

    fn sync_names(&self) -> io::Result<()> {
        self.files.sync_folder(&self.folder)
    }
}

impl LogStorage for FolderStorage {
    fn create(&self, name: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        let mut file = self.files.create(&self.path(name))?;
        file.reserve(bytes)?;
        // A draft counts only after its renaming, which makes both names durable.
        if !matches!(name, FileName::Draft(_)) {
            self.sync_names()?;
        }
        Ok(file)
    }

    fn reuse(&self, old: FileName, new: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        self.files.rename(&self.path(old), &self.path(new))?;
        let mut file = self.files.open_to_write(&self.path(new))?;
        file.reserve(bytes)?;
        self.sync_names()?;
        Ok(file)
    }

    fn open_to_write(&self, name: FileName) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.files.open_to_write(&self.path(name))?)
    }

    fn rename(&self, old: FileName, new: FileName) -> io::Result<()> {
        self.files.rename(&self.path(old), &self.path(new))?;
        self.sync_names()
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        self.files.remove(&self.path(name))
    }

    fn names(&self) -> io::Result<Vec<FileName>> {
        let names = self.files.names(&self.folder)?;
        let mut names: Vec<_> = names.iter().filter_map(|name| FileName::parse(name.to_str()?)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: FileName) -> io::Result<Box<dyn Read>> {
        self.files.open(&self.path(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_written() {
        for name in [FileName::Segment(7), FileName::Checkpoint(1 << 40), FileName::Draft(0)] {
            assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }
        assert_eq!(FileName::Segment(7).to_string(), "segment-0000000007.log");
        assert_eq!(FileName::parse("segment-x.log"), None);
        assert_eq!(FileName::parse("notes"), None);
    }
}
