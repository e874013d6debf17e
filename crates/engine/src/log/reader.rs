//! Reading a log: every committed transaction in order, up to the first place where no whole unit stands.
//!
//! The end of a log that was killed may be torn: units of its last group are missing, cut off or full of stale blocks. Nobody
//! was told that they are there, so the reader ends before them ([`LogEnd::torn`] says what it found). Segments before the
//! last were durable before the next one was begun; damage in them is no torn end but an error, and so is a segment that is
//! missing among the others. Segments that are left of an older log, which was being emptied, have lower numbers and a gap
//! after them.

use std::io;

use super::format::{NoFrame, SEGMENT_HEADER_BYTES, SegmentHeader, read_frame};
use super::record::{LoggedTransaction, decode};
use super::storage::LogStorage;

/// Why a log cannot be read on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The storage refused.
    #[error("log segment {segment}: {source}")]
    Storage {
        /// The segment, 0 for all of them.
        segment: u64,
        /// What it said.
        source: io::Error,
    },
    /// Something durable is damaged.
    #[error("log segment {segment} is damaged at byte {at}: {reason}; transactions behind it are lost")]
    Damaged {
        /// The segment.
        segment: u64,
        /// Where in it.
        at: usize,
        /// What was found.
        reason: String,
    },
}

/// Where and why a log ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The log sequence number that the next transaction would have had.
    pub lsn: u64,
    /// What stood there instead of nothing.
    pub torn: Option<String>,
}

/// Yields the transactions of a log in the order of their commits.
#[derive(Debug)]
pub struct LogReader<'a> {
    storage: &'a dyn LogStorage,
    /// Segments to be read after the present one, ascending.
    next: std::vec::IntoIter<u64>,
    segment: u64,
    bytes: Vec<u8>,
    at: usize,
    /// Where the next unit must say that it stands; `None` before the first segment.
    lsn: Option<u64>,
    end: Option<LogEnd>,
}

impl<'a> LogReader<'a> {
    /// Reads the log in a storage that nobody is writing to.
    pub fn new(storage: &'a dyn LogStorage) -> Result<Self, ReadError> {
        let mut numbers = storage.segments().map_err(|source| ReadError::Storage { segment: 0, source })?;
        let first = (1..numbers.len()).rev().find(|&at| numbers[at] != numbers[at - 1] + 1).unwrap_or(0);
        let next = numbers.split_off(first).into_iter();
        Ok(LogReader { storage, next, segment: 0, bytes: Vec::new(), at: 0, lsn: None, end: None })
    }

    /// Where and why the log ended, once it has.
    pub fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    fn step(&mut self) -> Result<Option<LoggedTransaction>, ReadError> {
        loop {
            if self.end.is_some() {
                return Ok(None);
            }
            let lsn = self.lsn.unwrap_or(0);
            let why = match read_frame(&self.bytes[self.at..], lsn) {
                Ok(unit) => return self.transaction(lsn, unit.len()).map(Some),
                Err(NoFrame::Empty) => None,
                Err(NoFrame::Broken(reason)) => Some(reason.to_owned()),
            };
            self.next_segment(why)?;
        }
    }

    fn transaction(&mut self, lsn: u64, unit_bytes: usize) -> Result<LoggedTransaction, ReadError> {
        let start = self.at + super::format::FRAME_HEADER_BYTES;
        let end = start + unit_bytes;
        let records = decode(&self.bytes[start..end])
            .ok_or_else(|| self.damaged("a unit with a good checksum that is no unit".to_owned()))?;
        self.lsn = Some(lsn + (end - self.at) as u64);
        self.at = end;
        Ok(LoggedTransaction { lsn, records })
    }

    /// Goes on in the next segment, or ends where there is none. `broken` is what stood where a unit was looked for.
    fn next_segment(&mut self, broken: Option<String>) -> Result<(), ReadError> {
        let Some(segment) = self.next.next() else {
            self.end = Some(LogEnd { lsn: self.lsn.unwrap_or(0), torn: broken });
            return Ok(());
        };
        // What a segment holds was durable before the next one was made.
        if let Some(reason) = broken {
            return Err(self.damaged(reason));
        }
        let bytes = self.storage.read(segment).map_err(|source| ReadError::Storage { segment, source })?;
        let is_last = self.next.len() == 0;
        let header = match SegmentHeader::decode(&bytes) {
            Ok(header) if header.number == segment => header,
            // The last segment's header and first group became durable together, or not at all.
            other if is_last => {
                let reason = other.err().unwrap_or_else(|| "a header of another segment".to_owned());
                self.end = Some(LogEnd { lsn: self.lsn.unwrap_or(0), torn: Some(reason) });
                return Ok(());
            }
            other => {
                (self.segment, self.at) = (segment, 0);
                return Err(self.damaged(other.err().unwrap_or_else(|| "a header of another segment".to_owned())));
            }
        };
        // The segment before ended where this one begins, or it has lost something.
        if self.lsn.is_some_and(|lsn| lsn != header.first_lsn) {
            return Err(self.damaged("it ends before the next segment begins".to_owned()));
        }
        (self.segment, self.bytes, self.at) = (segment, bytes, SEGMENT_HEADER_BYTES);
        self.lsn = Some(header.first_lsn);
        Ok(())
    }

    fn damaged(&self, reason: String) -> ReadError {
        ReadError::Damaged { segment: self.segment, at: self.at, reason }
    }
}

impl Iterator for LogReader<'_> {
    type Item = Result<LoggedTransaction, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
