//! The segments of a log that is being written: the current one, earlier ones, and those that are not needed any more.
//!
//! A segment whose units are all forgotten is reused: renamed to the next number and overwritten from its beginning, so
//! a log in steady state neither takes space from the file system nor returns any. Its name is durable before a byte of
//! it is written. Until its new header is durable, the number in its header differs from its name, and a reader does
//! not accept it as a segment. Old frames may follow the new ones; they have the [stamp](super::format::Stamp) of the
//! old number.

use std::io;
use std::sync::Arc;

use super::format::{HEADER_BYTES, Header, Magic, Stamp, measure_frame, stamp_frame};
use super::queue::{Group, Written};
use super::storage::{FileName, LogStorage, StorageFile, write_all_at};

/// The most segments to keep for reuse. More can remain after a log was long for a while; they are removed.
const SPARE_MAX: usize = 8;

pub(super) struct Segments {
    storage: Arc<dyn LogStorage>,
    database: u64,
    segment_bytes: u64,
    /// The last number given. Numbers are never reused.
    last: u64,
    /// All segments except the current one, in the order of their numbers.
    former: Vec<Former>,
    current: Option<Current>,
}

/// A segment that is not written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Former {
    pub(crate) number: u64,
    /// The log sequence number after its last unit; 0 if it has none.
    pub(crate) end_lsn: u64,
}

/// The segment that is being written.
struct Current {
    number: u64,
    file: Box<dyn StorageFile>,
    used: u64,
    bytes: u64,
    end_lsn: u64,
}

impl Segments {
    /// The segments of a database, after its existing ones.
    pub(super) fn new(
        storage: Arc<dyn LogStorage>,
        database: u64,
        segment_bytes: u64,
        last: u64,
        former: Vec<Former>,
    ) -> Self {
        Segments { storage, database, segment_bytes, last, former, current: None }
    }

    /// The segment being written, for messages.
    pub(super) fn place(&self) -> String {
        match &self.current {
            Some(current) => format!("segment {} at byte {}", current.number, current.used),
            None => format!("beginning segment {}", self.last),
        }
    }

    /// Writes a group; it is durable when this returns.
    pub(super) fn write_group(&mut self, group: &mut Group) -> io::Result<Written> {
        let mut written = Written::default();
        if group.is_emptied {
            self.remove_all()?;
        }
        let keep_from = group.keep_from;
        let mut rest = &mut group.frames[..];
        while !rest.is_empty() {
            let (first_length, first_lsn) = measure_frame(rest);
            let has_room = |current: &Current| current.used + first_length as u64 <= current.bytes;
            if !self.current.as_ref().is_some_and(has_room) {
                written.recycled += u64::from(self.begin_segment(first_lsn, first_length, keep_from)?);
                written.bytes += HEADER_BYTES as u64;
            }
            let current = self.current.as_mut().expect("it was begun");
            let stamp = Stamp { magic: Magic::Segment, database: self.database, number: current.number };
            let fits = stamp_those_that_fit(rest, current.bytes - current.used, stamp);
            let (now, later) = rest.split_at_mut(fits);
            current.write(now)?;
            current.file.sync()?;
            current.end_lsn += now.len() as u64;
            written.bytes += now.len() as u64;
            written.syncs += 1;
            rest = later;
        }
        Ok(written)
    }

    /// Begins the next segment; returns whether it is a reused one. The segment before is durable: each write is
    /// followed by a sync.
    fn begin_segment(&mut self, first_lsn: u64, first_length: usize, keep_from: u64) -> io::Result<bool> {
        if let Some(current) = self.current.take() {
            self.former.push(Former { number: current.number, end_lsn: current.end_lsn });
        }
        self.last += 1;
        let number = self.last;
        let bytes = self.segment_bytes.max((HEADER_BYTES + first_length) as u64);
        let old = self.take_forgotten(keep_from)?;
        let name = FileName::Segment(number);
        let file = match old {
            Some(old) => self.storage.reuse(FileName::Segment(old), name, bytes)?,
            None => self.storage.create(name, bytes)?,
        };
        let current = self.current.insert(Current { number, file, used: 0, bytes, end_lsn: first_lsn });
        let stamp = Stamp { magic: Magic::Segment, database: self.database, number };
        current.write(&Header { stamp, lsn: first_lsn, count: 0 }.encode())?;
        Ok(old.is_some())
    }

    /// Takes the oldest segment that holds nothing from `keep_from` on, and removes superfluous ones. The newest is
    /// never taken: until the header of the new segment is durable, only the newest one shows a reader that the log
    /// reaches the place that the last checkpoint needs.
    fn take_forgotten(&mut self, keep_from: u64) -> io::Result<Option<u64>> {
        let newest = self.former.iter().map(|former| former.end_lsn).max().unwrap_or(0);
        let is_forgotten = |former: &Former| former.end_lsn <= keep_from && former.end_lsn < newest;
        let forgotten = self.former.iter().filter(|former| is_forgotten(former)).count();
        for _ in SPARE_MAX..forgotten {
            let oldest = self.former.iter().position(is_forgotten).expect("they were counted");
            self.storage.remove(FileName::Segment(self.former.remove(oldest).number))?;
        }
        Ok(self.former.iter().position(is_forgotten).map(|oldest| self.former.remove(oldest).number))
    }

    /// The newest first: then a crash leaves a log that ended earlier.
    fn remove_all(&mut self) -> io::Result<()> {
        let current = self.current.take().map(|current| current.number);
        let mut numbers: Vec<u64> = self.former.drain(..).map(|former| former.number).chain(current).collect();
        while let Some(number) = numbers.pop() {
            self.storage.remove(FileName::Segment(number))?;
        }
        Ok(())
    }
}

impl Current {
    /// Writes all bytes at the end of the current segment.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&mut *self.file, bytes, self.used)?;
        self.used += bytes.len() as u64;
        Ok(())
    }
}

/// Stamps the whole frames that fit in `room` bytes, and returns their length.
fn stamp_those_that_fit(frames: &mut [u8], room: u64, stamp: Stamp) -> usize {
    let mut end = 0;
    while end < frames.len() {
        let (length, _) = measure_frame(&frames[end..]);
        if (end + length) as u64 > room {
            break;
        }
        stamp_frame(&mut frames[end..], stamp);
        end += length;
    }
    end
}
