//! Where the files of a log and its checkpoints are kept, as a value: a folder, or in tests something that fails when told to.

use std::fmt::{self, Debug, Display};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

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

/// What a name begins and ends with, and how it is made of its number.
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

/// Keeps files. Whatever changes names is durable when it returns, and happens wholly or not at all.
pub trait LogStorage: Debug + Send + Sync {
    /// Makes a file with room for so many bytes.
    fn create(&self, name: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name, with room for so many bytes, to be written anew over what it holds.
    fn reuse(&self, old: FileName, new: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>>;

    /// Gives a file another name.
    fn rename(&self, old: FileName, new: FileName) -> io::Result<()>;

    /// Removes a file. That it is gone need not be durable.
    fn remove(&self, name: FileName) -> io::Result<()>;

    /// All names, ascending.
    fn names(&self) -> io::Result<Vec<FileName>>;

    /// Reads a file from its beginning.
    fn open(&self, name: FileName) -> io::Result<Box<dyn Read>>;

    /// All that a file holds.
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
    /// Writes at a place, and says how many of the bytes.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns when everything written is durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Writes all of these bytes at a place.
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
pub struct FolderStorage(PathBuf);

impl FolderStorage {
    /// The files of that folder, which exists. Also for reading a log that somebody has left.
    pub fn new(folder: &Path) -> Self {
        FolderStorage(folder.to_owned())
    }

    fn path(&self, name: FileName) -> PathBuf {
        self.0.join(name.to_string())
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

impl LogStorage for FolderStorage {
    fn create(&self, name: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(self.path(name))?;
        reserve(&file, bytes)?;
        self.sync_names()?;
        Ok(Box::new(DiskFile(file)))
    }

    fn reuse(&self, old: FileName, new: FileName, bytes: u64) -> io::Result<Box<dyn StorageFile>> {
        fs::rename(self.path(old), self.path(new))?;
        let file = OpenOptions::new().write(true).open(self.path(new))?;
        reserve(&file, bytes)?;
        self.sync_names()?;
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, old: FileName, new: FileName) -> io::Result<()> {
        fs::rename(self.path(old), self.path(new))?;
        self.sync_names()
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn names(&self) -> io::Result<Vec<FileName>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().to_str().and_then(FileName::parse));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: FileName) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(self.path(name))?))
    }
}

/// Reserves room at once, so that a full disk shows before anything is written. Not every file system can.
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file on disk.
struct DiskFile(File);

impl StorageFile for DiskFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
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
