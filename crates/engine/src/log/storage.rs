//! Where segments are kept, as a value: a folder of files, or in tests something that fails when told to.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Keeps segments by number.
pub trait LogStorage: Debug + Send {
    /// Makes a segment with room for so many bytes. When this returns, its name is durable.
    fn create(&mut self, segment: u64, bytes: u64) -> io::Result<Box<dyn Segment>>;

    /// Removes a segment.
    fn remove(&mut self, segment: u64) -> io::Result<()>;

    /// The numbers of all segments, ascending.
    fn segments(&self) -> io::Result<Vec<u64>>;

    /// All that a segment holds.
    fn read(&self, segment: u64) -> io::Result<Vec<u8>>;
}

/// A segment that is being written.
pub trait Segment: Send {
    /// Writes at a place, and says how many of the bytes.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns when everything written is durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// Segments as files of a folder.
#[derive(Debug)]
pub struct FolderStorage(PathBuf);

const PREFIX: &str = "segment-";
const SUFFIX: &str = ".log";

impl FolderStorage {
    /// The segments of that folder, which exists. Also for reading a log that somebody has left.
    pub fn new(folder: &Path) -> Self {
        FolderStorage(folder.to_owned())
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.0.join(format!("{PREFIX}{segment:010}{SUFFIX}"))
    }
}

impl LogStorage for FolderStorage {
    fn create(&mut self, segment: u64, bytes: u64) -> io::Result<Box<dyn Segment>> {
        let file = OpenOptions::new().write(true).create_new(true).open(self.path(segment))?;
        // Reserved at once, so that a full disk shows before anything is written. Not every file system can.
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        File::open(&self.0)?.sync_all()?;
        Ok(Box::new(SegmentFile(file)))
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        fs::remove_file(self.path(segment))
    }

    fn segments(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
            numbers.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn read(&self, segment: u64) -> io::Result<Vec<u8>> {
        fs::read(self.path(segment))
    }
}

/// A file.
struct SegmentFile(File);

impl Segment for SegmentFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
