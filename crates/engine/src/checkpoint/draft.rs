//! Makes a checkpoint block by block, while transactions run.

use std::io;
use std::sync::Arc;

use plimsoll_policy::Priority;

use super::file::CheckpointWriter;
use super::{CheckpointError, CheckpointReport};
use crate::catalog::{Catalog, Contents};
use crate::lock::head::Answer;
use crate::lock::{LockName, LockTable, Member, Mode};
use crate::log::Log;
use crate::log::record::Unit;
use crate::log::storage::FileName;
use crate::table::RowTable;
use crate::table::heap::{RowId, RowState};

pub(super) struct Draft<'a> {
    log: &'a Log,
    reader: Reader<'a>,
    number: u64,
    begin_lsn: u64,
    writer: CheckpointWriter,
    contents: Contents,
    /// The table being read, and the next row to read.
    at_table: usize,
    next_row: RowId,
    unit: Unit,
    block_bytes: usize,
    rows: u64,
}

impl<'a> Draft<'a> {
    /// Notes the end of the log, and begins the file with this number. Each step writes about `block_bytes` bytes.
    pub(super) fn begin(
        log: &'a Log,
        locks: &'a LockTable,
        catalog: &Catalog,
        number: u64,
        block_bytes: usize,
    ) -> Result<Self, CheckpointError> {
        let (contents, begin_lsn) = catalog.contents(|| log.queue.next_lsn());
        let failed = |source| CheckpointError::Storage { file: FileName::Draft(number), source };
        let writer = CheckpointWriter::begin(log.storage(), log.database(), number, begin_lsn, contents.next_table);
        let writer = writer.map_err(failed)?;
        let reader = Reader::new(locks);
        let (unit, at_table, next_row, rows) = (Unit::default(), 0, 0, 0);
        Ok(Draft { log, reader, number, begin_lsn, writer, contents, at_table, next_row, unit, block_bytes, rows })
    }

    /// Writes the next block; false if all blocks are written.
    pub(super) fn step(&mut self) -> Result<bool, CheckpointError> {
        let Some(table) = self.contents.tables.get(self.at_table).map(Arc::clone) else { return Ok(false) };
        self.unit.clear();
        if self.next_row == 0 {
            self.unit.create_table(table.number, &table.spec);
        }
        // Later rows are in the log. A table that is being loaded becomes durable when loading has ended.
        let end = if table.is_loading() { 0 } else { table.heap.slot_count() };
        while self.next_row < end {
            self.read_row(&table, self.next_row);
            self.next_row += 1;
            if self.unit.len() >= self.block_bytes {
                break;
            }
        }
        if self.next_row >= end {
            (self.at_table, self.next_row) = (self.at_table + 1, 0);
        }
        self.write_unit()?;
        Ok(true)
    }

    /// Ends the draft and makes it the current checkpoint.
    pub(super) fn finish(mut self) -> Result<CheckpointReport, CheckpointError> {
        self.unit.clear();
        let sets = std::mem::take(&mut self.contents.sets);
        sets.iter().for_each(|(name, tables)| self.unit.keep_set(name, tables));
        self.write_unit()?;
        // All rows read were written by units before this place. Those units must be on disk before the checkpoint is:
        // a transaction may release its locks earlier, and a checkpoint ahead of the log would hold half transactions.
        let end_lsn = self.log.queue.next_lsn();
        self.log.flush()?;
        let (number, begin_lsn, rows) = (self.number, self.begin_lsn, self.rows);
        let (storage, draft) = (self.log.storage(), FileName::Draft(number));
        let publish = |writer: CheckpointWriter| -> io::Result<u64> {
            let bytes = writer.finish(end_lsn, rows)?;
            storage.rename(draft, FileName::Checkpoint(number))?;
            Ok(bytes)
        };
        let bytes = publish(self.writer).map_err(|source| CheckpointError::Storage { file: draft, source })?;
        Ok(CheckpointReport { number, begin_lsn, end_lsn, rows, bytes })
    }

    fn write_unit(&mut self) -> Result<(), CheckpointError> {
        self.unit.finish();
        let file = FileName::Draft(self.number);
        self.writer.unit(&self.unit).map_err(|source| CheckpointError::Storage { file, source })
    }

    /// Adds a row as the last committed transaction left it; waits for a transaction that is writing it.
    fn read_row(&mut self, table: &RowTable, row: RowId) {
        // A slot that is free now was free before the checkpoint began, or the log has the change that freed it. The
        // log also has any row that comes there later.
        while table.heap.state(row) != RowState::Free {
            let name = LockName::row(table.number, row);
            if self.reader.lock(name) {
                if table.heap.state(row) == RowState::Live {
                    self.unit.insert(table, row);
                    self.rows += 1;
                }
                self.reader.locks.release(&self.reader.member, name);
                return;
            }
        }
    }
}

/// Reads the rows under locks.
struct Reader<'a> {
    locks: &'a LockTable,
    member: Arc<Member>,
    /// How often a scheduler chose it as the victim at the current row.
    refusals: u32,
}

impl<'a> Reader<'a> {
    fn new(locks: &'a LockTable) -> Self {
        let reader = Reader { locks, member: locks.join(), refusals: 0 };
        reader.begin();
        reader
    }

    /// It has the lowest priority until it has been the victim too often.
    fn begin(&self) {
        self.locks.begin(&self.member, Priority::LOW, self.refusals);
    }

    fn end(&self) {
        self.locks.roll_back(&self.member);
        self.locks.end(&self.member);
    }

    /// Locks a row, waiting for it if need be. False if a scheduler made the checkpoint a victim, as it may any holder
    /// or waiter; the checkpoint then holds no lock.
    fn lock(&mut self, name: LockName) -> bool {
        let is_granted = match self.locks.ask(&self.member, name, Mode::S) {
            Ok(Answer::Wait) => self.locks.wait(&self.member).outcome.is_ok(),
            Ok(_) => true,
            Err(_) => false,
        };
        if is_granted {
            self.refusals = 0;
        } else {
            self.refusals = self.refusals.saturating_add(1);
            self.end();
            self.begin();
        }
        is_granted
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.end();
        self.locks.leave(&self.member);
    }
}
