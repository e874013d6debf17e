//! Where a capture is written: a folder, or for tests something that fills up, tears writes and fails.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::format::{DESCRIPTION, segment_name};

/// Only the account that records may read what clients have sent.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// How many folders are tried for a capture whose own is taken.
const FOLDERS_MAX: u32 = 10_000;

/// Where a capture is written.
pub trait Storage: Send {
    /// Replaces the description as a whole.
    fn describe(&mut self, text: &str) -> io::Result<()>;
    /// A new, empty segment.
    fn create(&mut self, number: u32) -> io::Result<Box<dyn Segment>>;
}

/// A segment that is being written.
pub trait Segment: Send {
    /// Appends bytes. After an error, any part of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Removes everything from that byte on.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Waits until the device has everything.
    fn sync(&mut self) -> io::Result<()>;
}

/// A folder on disk.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes the folder for a capture. One that exists must be empty.
    pub fn create(path: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        if std::fs::read_dir(path)?.next().is_some() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the folder is not empty; name another"));
        }
        Ok(Folder(path.to_owned()))
    }

    /// Makes the folder `path`, or if that is taken `path-2`, and so on: a program that is started again with the same
    /// settings goes on recording, and touches no earlier capture.
    pub fn create_next_to(path: &Path) -> io::Result<Self> {
        let named = |number: u32| match number {
            1 => path.to_owned(),
            _ => {
                let mut name = path.as_os_str().to_owned();
                name.push(format!("-{number}"));
                PathBuf::from(name)
            }
        };
        let mut taken = None;
        for number in 1..=FOLDERS_MAX {
            match Folder::create(&named(number)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = Some(error),
                done => return done,
            }
        }
        Err(taken.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(self.0.join(name))
    }
}

impl Storage for Folder {
    fn describe(&mut self, text: &str) -> io::Result<()> {
        let part = format!("{DESCRIPTION}.part");
        let written = self.open(&part).and_then(|mut file| file.write_all(text.as_bytes()));
        let done = written.and_then(|()| std::fs::rename(self.0.join(&part), self.0.join(DESCRIPTION)));
        if done.is_err() {
            // If it cannot be removed, either, the next attempt fails in the same way.
            let _ = std::fs::remove_file(self.0.join(part));
        }
        done
    }

    fn create(&mut self, number: u32) -> io::Result<Box<dyn Segment>> {
        Ok(Box::new(FileSegment { file: self.open(&segment_name(number))? }))
    }
}

struct FileSegment {
    file: File,
}

impl Segment for FileSegment {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        use std::io::Seek;
        self.file.set_len(length)?;
        self.file.seek(io::SeekFrom::Start(length)).map(drop)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_is_taken_is_left_alone_and_the_next_is_made() {
        let around = tempfile::tempdir().expect("a folder");
        let path = around.path().join("deep/traffic");
        let mut first = Folder::create(&path).expect("made");
        first.describe("one").expect("described");
        first.describe("two").expect("described again");
        let refused = Folder::create(&path).expect_err("it is not empty");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let second = Folder::create_next_to(&path).expect("made");
        assert_eq!(second.path(), around.path().join("deep/traffic-2"));
        assert_eq!(std::fs::read_to_string(path.join(DESCRIPTION)).expect("read"), "two");
    }

    #[test]
    fn nobody_else_can_read_what_is_recorded() {
        let around = tempfile::tempdir().expect("a folder");
        let path = around.path().join("traffic");
        let mut folder = Folder::create(&path).expect("made");
        folder.create(1).and_then(|mut segment| segment.append(b"x")).expect("written");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join(segment_name(1)))), (0o700, 0o600));
    }
}
