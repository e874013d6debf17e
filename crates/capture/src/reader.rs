//! Reads a capture, also one that was cut off or damaged.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::description::{Description, ReadError};
use crate::encoding::decode;
use crate::event::Event;
use crate::format::{BLOCK_HEAD_BYTES, BlockHead, HEAD_BYTES, Head, VERSION, read_head, segment_number};

/// A place from which a segment cannot be read. The events before it are used, and those of the next segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The segment's file.
    pub file: PathBuf,
    /// The byte at which the damage begins.
    pub at: u64,
    /// What it is.
    pub kind: FaultKind,
}

/// What is wrong with a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// It ends within a block, as after a crash, or while it is being written.
    Cut,
    /// A byte has changed.
    Damaged,
    /// The segments before it are missing; the number is of the first one.
    Missing(u32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        match self.kind {
            FaultKind::Cut => write!(f, "{file} was cut at byte {}: the events until then are used", self.at),
            FaultKind::Damaged => {
                write!(f, "{file} is damaged from byte {} on: the events until then are used", self.at)
            }
            FaultKind::Missing(first) => write!(f, "segment {first} is missing before {file}: the others are used"),
        }
    }
}

/// A capture on disk.
#[derive(Debug, Clone)]
pub struct Capture {
    /// What it is.
    pub description: Description,
    segments: Vec<(u32, PathBuf)>,
}

impl Capture {
    /// Opens the capture in that folder.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        let description = Description::read(folder)?;
        let wrong = |error| ReadError::Io(folder.to_owned(), error);
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if let Some(number) = name.and_then(segment_number) {
                segments.push((number, path));
            }
        }
        segments.sort();
        Ok(Capture { description, segments })
    }

    /// The size of all segments in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().filter_map(|(_, path)| path.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Its events, in the order in which they were recorded.
    pub fn events(&self) -> Reader {
        let segments = self.segments.clone().into_iter();
        Reader { segments, next_number: 1, open: None, block: Vec::new(), at: 0, faults: Vec::new() }
    }
}

/// The events of a capture. An error ends it; a fault does not.
#[derive(Debug)]
pub struct Reader {
    segments: std::vec::IntoIter<(u32, PathBuf)>,
    next_number: u32,
    open: Option<Open>,
    /// The plain events of a block, of which those from `at` on have not been decoded.
    block: Vec<u8>,
    at: usize,
    faults: Vec<Fault>,
}

#[derive(Debug)]
struct Open {
    file: PathBuf,
    from: BufReader<File>,
    /// The byte at which the next block begins.
    at: u64,
}

impl Reader {
    /// The faults that were met so far.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Opens the next segment; returns whether there is one.
    fn open_next(&mut self) -> Result<bool, ReadError> {
        let Some((number, file)) = self.segments.next() else { return Ok(false) };
        if number > self.next_number {
            let kind = FaultKind::Missing(self.next_number);
            self.faults.push(Fault { file: file.clone(), at: 0, kind });
        }
        self.next_number = number + 1;
        let wrong = |error| ReadError::Io(file.clone(), error);
        let mut from = BufReader::new(File::open(&file).map_err(wrong)?);
        let mut head = [0; HEAD_BYTES];
        let kind = match read_up_to(&mut from, &mut head).map_err(wrong)? {
            HEAD_BYTES => match read_head(&head) {
                Head::Segment(told) if told == number => {
                    self.open = Some(Open { file, from, at: HEAD_BYTES as u64 });
                    return Ok(true);
                }
                Head::Version(found) => return Err(ReadError::Version { file, found, known: VERSION }),
                _ => FaultKind::Damaged,
            },
            _ => FaultKind::Cut,
        };
        self.faults.push(Fault { file, at: 0, kind });
        Ok(true)
    }

    /// Reads the next block of the open segment, which is closed at its end and at a fault.
    fn read_block(&mut self) -> Result<(), ReadError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let wrong = |error| ReadError::Io(open.file.clone(), error);
        let mut head = [0; BLOCK_HEAD_BYTES];
        let kind = match read_up_to(&mut open.from, &mut head).map_err(wrong)? {
            0 => return Ok(()),
            BLOCK_HEAD_BYTES => match BlockHead::read(head) {
                Some(block) => {
                    let mut packed = vec![0; block.packed];
                    let read = read_up_to(&mut open.from, &mut packed).map_err(wrong)?;
                    match block.unpack(&packed) {
                        _ if read < block.packed => FaultKind::Cut,
                        None => FaultKind::Damaged,
                        Some(plain) => {
                            (self.block, self.at) = (plain, 0);
                            open.at += (BLOCK_HEAD_BYTES + block.packed) as u64;
                            self.open = Some(open);
                            return Ok(());
                        }
                    }
                }
                None => FaultKind::Damaged,
            },
            _ => FaultKind::Cut,
        };
        self.faults.push(Fault { file: open.file, at: open.at, kind });
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Event>, ReadError> {
        loop {
            if self.at < self.block.len() {
                let mut rest = &self.block[self.at..];
                match decode(&mut rest) {
                    Ok(event) => {
                        self.at = self.block.len() - rest.len();
                        return Ok(Some(event));
                    }
                    // Its checksum was right, so it was written so.
                    Err(_) => {
                        self.at = self.block.len();
                        if let Some(open) = self.open.take() {
                            self.faults.push(Fault { file: open.file, at: open.at, kind: FaultKind::Damaged });
                        }
                    }
                }
            } else if self.open.is_some() {
                self.read_block()?;
            } else if !self.open_next()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let stepped = self.step().transpose();
        if matches!(stepped, Some(Err(_))) {
            (self.segments, self.open) = (Vec::new().into_iter(), None);
            self.at = self.block.len();
        }
        stepped
    }
}

/// Fills the buffer, or as much of it as there is.
fn read_up_to(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match from.read(&mut buffer[read..]) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
