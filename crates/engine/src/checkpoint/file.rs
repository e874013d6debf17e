//! A checkpoint's file: a header, frames of units, an end.
//!
//! The frames have the format of the log (`log/format.rs`); a frame's place is its offset in the file. The header says
//! from which place the log is to be read and which number the next table gets. The end has the same format and says
//! how far the log must reach and how many rows the file has. A file without an end is not a checkpoint.

use std::io::{self, BufReader, Read};

use super::CheckpointError;
use crate::log::format::{
    FRAME_HEADER_BYTES, HEADER_BYTES, Header, HeaderError, Magic, Stamp, append_frame, is_whole, read_frame_header,
    stamp_frame,
};
use crate::log::reader::check_database;
use crate::log::record::{Record, Unit, decode};
use crate::log::storage::{FileName, LogStorage, StorageFile, write_all_at};

/// Written bytes after which the file is synced: a larger amount would make commits wait for the disk.
const SYNC_BYTES: u64 = 4 << 20;

pub(super) struct CheckpointWriter {
    file: Box<dyn StorageFile>,
    stamp: Stamp,
    written: u64,
    synced: u64,
    frame: Vec<u8>,
}

impl CheckpointWriter {
    pub(super) fn begin(
        storage: &dyn LogStorage,
        database: u64,
        number: u64,
        begin_lsn: u64,
        next_table: u32,
    ) -> io::Result<Self> {
        let file = storage.create(FileName::Draft(number), 0)?;
        let stamp = Stamp { magic: Magic::Checkpoint, database, number };
        let mut writer = CheckpointWriter { file, stamp, written: 0, synced: 0, frame: Vec::new() };
        let header = Header { stamp, lsn: begin_lsn, count: u64::from(next_table) };
        writer.write(&header.encode())?;
        Ok(writer)
    }

    /// Adds a complete unit.
    pub(super) fn unit(&mut self, unit: &Unit) -> io::Result<()> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        append_frame(&mut frame, self.written, unit.bytes(), unit.checksum());
        stamp_frame(&mut frame, self.stamp);
        let outcome = self.write(&frame);
        self.frame = frame;
        outcome?;
        if self.written - self.synced >= SYNC_BYTES {
            self.file.sync()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Ends the draft, which is durable when this returns. Returns the length of the file in bytes.
    pub(super) fn finish(mut self, end_lsn: u64, rows: u64) -> io::Result<u64> {
        let stamp = Stamp { magic: Magic::CheckpointEnd, ..self.stamp };
        self.write(&Header { stamp, lsn: end_lsn, count: rows }.encode())?;
        self.file.sync()?;
        Ok(self.written)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&mut *self.file, bytes, self.written)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

pub(crate) struct CheckpointReader {
    file: BufReader<Box<dyn Read>>,
    name: FileName,
    stamp: Stamp,
    at: u64,
    pub(crate) header: Header,
}

/// The next part of a checkpoint.
pub(crate) enum Piece {
    Records(Vec<Record>),
    /// The end; nothing follows it.
    End(Header),
}

impl CheckpointReader {
    pub(crate) fn open(storage: &dyn LogStorage, database: u64, number: u64) -> Result<Self, CheckpointError> {
        let name = FileName::Checkpoint(number);
        let file = storage.open(name).map_err(|source| CheckpointError::Storage { file: name, source })?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let bytes = read_up_to(&mut file, HEADER_BYTES, name)?;
        let damaged = |reason: String| CheckpointError::Damaged { file: name, at: 0, reason };
        let header = Header::decode(Magic::Checkpoint, &bytes).map_err(|error| match error {
            HeaderError::NoHeader(reason) => damaged(reason.to_owned()),
            error @ HeaderError::Version(_) => CheckpointError::Foreign { file: name, reason: error.to_string() },
        })?;
        check_database(name, header.stamp, Some(database))
            .map_err(|error| CheckpointError::Foreign { file: name, reason: error.to_string() })?;
        if header.stamp.number != number {
            return Err(damaged(format!("its header has the number {}", header.stamp.number)));
        }
        Ok(CheckpointReader { file, name, stamp: header.stamp, at: HEADER_BYTES as u64, header })
    }

    /// Reads the next part. Nothing follows the end.
    pub(crate) fn next_piece(&mut self) -> Result<Piece, CheckpointError> {
        let mut bytes = read_up_to(&mut self.file, FRAME_HEADER_BYTES, self.name)?;
        if let Ok(length) = read_frame_header(&bytes, self.at, self.stamp) {
            let unit = read_up_to(&mut self.file, length, self.name)?;
            let records = (unit.len() == length && is_whole(&bytes, &unit)).then(|| decode(&unit)).flatten();
            let records = records.ok_or_else(|| self.damaged("a unit is cut off or its checksum is wrong"))?;
            self.at += (FRAME_HEADER_BYTES + length) as u64;
            return Ok(Piece::Records(records));
        }
        let rest = read_up_to(&mut self.file, HEADER_BYTES - FRAME_HEADER_BYTES + 1, self.name)?;
        bytes.extend_from_slice(&rest);
        let is_end = |end: &Header| {
            let stamp = Stamp { magic: Magic::CheckpointEnd, ..self.stamp };
            end.stamp == stamp && bytes.len() == HEADER_BYTES
        };
        let end = Header::decode(Magic::CheckpointEnd, &bytes).ok().filter(is_end);
        end.map(Piece::End).ok_or_else(|| self.damaged("neither a unit nor the end"))
    }

    fn damaged(&self, reason: &str) -> CheckpointError {
        CheckpointError::Damaged { file: self.name, at: self.at, reason: reason.to_owned() }
    }
}

/// Reads `count` bytes, or fewer if the file ends before.
fn read_up_to(file: &mut impl Read, count: usize, name: FileName) -> Result<Vec<u8>, CheckpointError> {
    let mut bytes = Vec::new();
    let read = file.take(count as u64).read_to_end(&mut bytes);
    read.map_err(|source| CheckpointError::Storage { file: name, source })?;
    Ok(bytes)
}
