//! Reads a log: every committed transaction in order, up to the first place without a whole unit.
//!
//! A segment's units end where the next segment begins, by the log sequence number in its header. Bytes behind them are
//! left from an earlier use of the file, or were torn by a crash before the next segment was begun, and do not count.
//! So damage shows: if the units of a segment end before the next one begins, something durable is lost, and that is an
//! error. Files without their own header are not segments yet, or no longer; the same check allows them to be skipped.
//!
//! The end of a log whose process was killed may be torn: units of its last group are missing, cut off or full of stale
//! blocks. They were not acknowledged, so the reader ends before them ([`LogEnd::torn`] says what it found).

use std::io::{self, Read};

use super::format::{FRAME_HEADER_BYTES, HEADER_BYTES, Header, HeaderError, Magic, NoFrame, Stamp, read_frame};
use super::record::{LoggedTransaction, decode};
use super::segments::Former;
use super::storage::{FileName, LogStorage};

/// Why a log cannot be read further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The storage reports an error.
    #[error("{what}: {source}")]
    Storage {
        /// The file, or all of them.
        what: String,
        /// The error.
        source: io::Error,
    },
    /// Durable data is damaged.
    #[error("log segment {segment} is damaged at byte {at}: {reason}; transactions behind it are lost")]
    Damaged {
        /// The segment.
        segment: u64,
        /// The byte at which it is damaged.
        at: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A file belongs to another database or version.
    #[error("{file} is not this database's: {reason}; move it out of the folder, or open the folder that it came from")]
    Foreign {
        /// The file.
        file: FileName,
        /// How the file differs.
        reason: String,
    },
    /// The log does not begin where it should.
    #[error("the log has nothing at {wanted}, where the last checkpoint needs it{}; a segment is missing or damaged",
        .begins.map_or_else(String::new, |begins| format!(", but begins at {begins}")))]
    Missing {
        /// The log sequence number from which the log is needed.
        wanted: u64,
        /// The log sequence number with which it begins; `None` if it is empty.
        begins: Option<u64>,
    },
}

/// Where and why a log ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEnd {
    /// The log sequence number that the next transaction would have had.
    pub lsn: u64,
    /// The reason why a unit at the end is not whole; `None` if nothing was written there.
    pub torn: Option<String>,
}

/// Yields the transactions of a log in the order of their commits.
#[derive(Debug)]
pub struct LogReader<'a> {
    storage: &'a dyn LogStorage,
    segments: Vec<Header>,
    /// The segment that is being read; none before the first.
    at_segment: Option<usize>,
    bytes: Vec<u8>,
    at: usize,
    /// The log sequence number that the next unit must have.
    lsn: u64,
    /// Units before it are skipped.
    from_lsn: u64,
    /// Why the newest file is not a segment, if so.
    torn_file: Option<String>,
    end: Option<LogEnd>,
}

/// The segments among the files of a storage.
struct SegmentFiles {
    /// The segments, in order.
    segments: Vec<Header>,
    /// The numbers of the other files, and why they are not segments.
    others: Vec<(u64, &'static str)>,
    numbers: Vec<u64>,
}

impl<'a> LogReader<'a> {
    /// Reads all of the log in a storage, which must not be written at the same time. Numbers are missing if a process
    /// died while it removed an earlier log; the log begins after the last gap.
    pub fn new(storage: &'a dyn LogStorage) -> Result<Self, ReadError> {
        let mut found = find(storage, None)?;
        let numbers = &found.numbers;
        let first = (1..numbers.len()).rev().find(|&at| numbers[at] != numbers[at - 1] + 1).unwrap_or(0);
        let first = numbers.get(first).copied().unwrap_or(0);
        found.segments.retain(|segment| segment.stamp.number >= first);
        let begins_well = found.segments.first().is_none_or(|segment| segment.stamp.number == first);
        if let Some((_, reason)) = found.others.iter().find(|(number, _)| *number == first && !begins_well) {
            return Err(ReadError::Damaged { segment: first, at: 0, reason: (*reason).to_owned() });
        }
        let lsn = found.segments.first().map_or(0, |segment| segment.lsn);
        Ok(LogReader::over(storage, found, lsn))
    }

    pub(crate) fn from(storage: &'a dyn LogStorage, database: u64, lsn: u64) -> Result<Self, ReadError> {
        let mut found = find(storage, Some(database))?;
        match found.segments.iter().rposition(|segment| segment.lsn <= lsn) {
            Some(first) => drop(found.segments.drain(..first)),
            // A database that has never written anything has no segments.
            None if found.segments.is_empty() && lsn == 0 => {}
            None => {
                let begins = found.segments.first().map(|segment| segment.lsn);
                return Err(ReadError::Missing { wanted: lsn, begins });
            }
        }
        Ok(LogReader::over(storage, found, lsn))
    }

    fn over(storage: &'a dyn LogStorage, found: SegmentFiles, from_lsn: u64) -> Self {
        let last = found.numbers.last();
        let torn_file = found.others.iter().find(|(number, _)| Some(number) == last).map(|(_, why)| (*why).to_owned());
        let lsn = found.segments.first().map_or(from_lsn, |segment| segment.lsn);
        let (segments, bytes) = (found.segments, Vec::new());
        LogReader { storage, segments, at_segment: None, bytes, at: 0, lsn, from_lsn, torn_file, end: None }
    }

    /// Where and why the log ended, once it has.
    pub fn end(&self) -> Option<&LogEnd> {
        self.end.as_ref()
    }

    /// The segment in which the log ended, and the number of its bytes that count; `None` if there is none.
    pub(crate) fn tail(&self) -> Option<(FileName, usize)> {
        self.at_segment.map(|at| (FileName::Segment(self.segments[at].stamp.number), self.at))
    }

    fn step(&mut self) -> Result<Option<LoggedTransaction>, ReadError> {
        while self.end.is_none() {
            let Some(at_segment) = self.at_segment else {
                self.begin_segment(0)?;
                continue;
            };
            let next = self.segments.get(at_segment + 1);
            let missing = match next.map(|next| next.lsn) {
                Some(next_lsn) if self.lsn == next_lsn => {
                    self.begin_segment(at_segment + 1)?;
                    continue;
                }
                Some(next_lsn) if self.lsn > next_lsn => {
                    Some("its units go on where the next segment begins".to_owned())
                }
                _ => None,
            };
            let stamp = self.segments[at_segment].stamp;
            match (missing, read_frame(&self.bytes[self.at..], self.lsn, stamp)) {
                (None, Ok(unit)) => {
                    let length = unit.len();
                    let transaction = self.transaction(length)?;
                    if transaction.lsn >= self.from_lsn {
                        return Ok(Some(transaction));
                    }
                }
                (Some(reason), _) => return Err(self.damaged(reason)),
                (None, Err(why)) => self.end_segment(why)?,
            }
        }
        Ok(None)
    }

    fn transaction(&mut self, unit_bytes: usize) -> Result<LoggedTransaction, ReadError> {
        let start = self.at + FRAME_HEADER_BYTES;
        let end = start + unit_bytes;
        let records = decode(&self.bytes[start..end])
            .ok_or_else(|| self.damaged("a unit with a good checksum that is no unit".to_owned()))?;
        let lsn = self.lsn;
        self.lsn += (end - self.at) as u64;
        self.at = end;
        Ok(LoggedTransaction { lsn, end_lsn: self.lsn, records })
    }

    fn begin_segment(&mut self, at_segment: usize) -> Result<(), ReadError> {
        let Some(segment) = self.segments.get(at_segment) else {
            self.end = Some(LogEnd { lsn: self.lsn, torn: self.torn_file.take() });
            return Ok(());
        };
        let name = FileName::Segment(segment.stamp.number);
        self.bytes = self.storage.read(name).map_err(|source| ReadError::Storage { what: name.to_string(), source })?;
        (self.at_segment, self.at) = (Some(at_segment), HEADER_BYTES);
        Ok(())
    }

    /// A place without a unit: the end of the log, or damage.
    fn end_segment(&mut self, why: NoFrame) -> Result<(), ReadError> {
        let torn = if let NoFrame::Broken(reason) = why { Some(reason.to_owned()) } else { None };
        if self.at_segment.is_some_and(|at| at + 1 < self.segments.len()) {
            let reason = torn.unwrap_or_else(|| "it ends before the next segment begins".to_owned());
            return Err(self.damaged(reason));
        }
        self.end = Some(LogEnd { lsn: self.lsn, torn: torn.or(self.torn_file.take()) });
        Ok(())
    }

    fn damaged(&self, reason: String) -> ReadError {
        let segment = self.at_segment.map_or(0, |at| self.segments[at].stamp.number);
        ReadError::Damaged { segment, at: self.at, reason }
    }
}

impl Iterator for LogReader<'_> {
    type Item = Result<LoggedTransaction, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// The existing files, for a writer that continues after a log which ends at `end_lsn`: their last number, and the end
/// of each.
pub(crate) fn former_segments(
    storage: &dyn LogStorage,
    database: u64,
    end_lsn: u64,
) -> Result<(u64, Vec<Former>), ReadError> {
    let found = find(storage, Some(database))?;
    let mut former: Vec<_> = found.others.iter().map(|&(number, _)| Former { number, end_lsn: 0 }).collect();
    for (at, segment) in found.segments.iter().enumerate() {
        let end_lsn = found.segments.get(at + 1).map_or(end_lsn, |next| next.lsn);
        former.push(Former { number: segment.stamp.number, end_lsn });
    }
    former.sort_unstable_by_key(|former| former.number);
    Ok((found.numbers.last().copied().unwrap_or(0), former))
}

/// Looks at the headers of all segments. Those of another database or version are an error, because nothing should be
/// written beside them.
fn find(storage: &dyn LogStorage, database: Option<u64>) -> Result<SegmentFiles, ReadError> {
    let failed = |what: String| move |source| ReadError::Storage { what, source };
    let numbers = storage.segments().map_err(failed("the log's files".to_owned()))?;
    let (mut segments, mut others) = (Vec::<Header>::new(), Vec::new());
    for &number in &numbers {
        let file = FileName::Segment(number);
        let mut bytes = Vec::new();
        let reader = storage.open(file).map_err(failed(file.to_string()))?;
        reader.take(HEADER_BYTES as u64).read_to_end(&mut bytes).map_err(failed(file.to_string()))?;
        match Header::decode(Magic::Segment, &bytes) {
            Ok(header) => {
                let wanted = database.or_else(|| segments.first().map(|first| first.stamp.database));
                check_database(file, header.stamp, wanted)?;
                if header.stamp.number == number {
                    segments.push(header);
                } else {
                    others.push((number, "a header of another segment"));
                }
            }
            Err(HeaderError::NoHeader(reason)) => others.push((number, reason)),
            Err(error @ HeaderError::Version(_)) => {
                return Err(ReadError::Foreign { file, reason: error.to_string() });
            }
        }
    }
    Ok(SegmentFiles { segments, others, numbers })
}

pub(crate) fn check_database(file: FileName, found: Stamp, wanted: Option<u64>) -> Result<(), ReadError> {
    match wanted {
        Some(wanted) if wanted != found.database => {
            let reason = format!("it belongs to database {:016x}, not to {wanted:016x}", found.database);
            Err(ReadError::Foreign { file, reason })
        }
        _ => Ok(()),
    }
}
