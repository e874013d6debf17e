//! Checkpoints: the rows of all tables in a file, from which the log needs to be read on only.
//!
//! # What it is
//! A checkpoint is *fuzzy*: it is made while transactions run, and each row in it is as the last transaction that had
//! committed left it at the moment at which that row was read. It says where the log stood when it began, B, and when the
//! last row had been read, E. Loaded into empty tables and followed by the log from B on, it gives the state of the
//! database; why is shown at [`crate::log::replay`], and tested there with random histories.
//!
//! # How rows are read
//! Transactions change rows in place before they commit, so that a row must not be read as it lies there. The checkpoint goes
//! over all slots of a table and takes for each row that it finds a lock of its own (S) as long as it takes to copy the
//! row: it waits for transactions that have written it and never holds a second lock, so that it cannot be part of a
//! deadlock. A free row costs two short visits to the lock table, about the same as reading it in a transaction.
//! A hot row, for which transactions queue, is kept from them once in a checkpoint for the time between two threads'
//! waking, tens of microseconds; under schedulers that order queues by priority the checkpoint asks with the lowest.
//! New rows are locked before they are written (`transaction/write.rs`), so that none is read half written.
//!
//! # When
//! When the log has grown by [`LogOptions::checkpoint_bytes`](crate::log::LogOptions::checkpoint_bytes) since the last one
//! began, on a thread of its own; when tables have been loaded, which is not logged; and when the engine is closed.
//!
//! # How it becomes durable
//! It is written under another name (a draft) and synced every few megabytes, lest the disk make commits wait for all of
//! it; then the log is flushed up to E, the draft synced and renamed, and the folder synced. Only then are older
//! checkpoints removed and segments before B free to be used again. A crash anywhere in between leaves the older
//! checkpoint with the log that it needs, or both checkpoints; drafts are removed when the database is opened.
//! Whatever fails in it leaves everything as it was, is counted in the log's statistics and told by
//! [`Engine::checkpoint_failure`](crate::Engine::checkpoint_failure); another try is made a quarter of the interval
//! later. The log goes on meanwhile until its bound.

mod draft;
pub(crate) mod file;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::lock::LockTable;
use crate::log::queue::CheckpointNote;
use crate::log::storage::FileName;
use crate::log::{Log, LogError};
use draft::Draft;

/// About how many bytes are written at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// Why a checkpoint could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The storage refused.
    #[error("{file}: {source}")]
    Storage {
        /// The file.
        file: FileName,
        /// What it said.
        source: io::Error,
    },
    /// The log did not become durable up to its end.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The engine was closed meanwhile.
    #[error("the checkpoint was given up because the database is being closed")]
    Closing,
    /// It is damaged.
    #[error("{file} is damaged at byte {at}: {reason}")]
    Damaged {
        /// The file.
        file: FileName,
        /// Where.
        at: u64,
        /// What was found.
        reason: String,
    },
    /// It is of another database or version.
    #[error("{reason}")]
    Foreign {
        /// The file.
        file: FileName,
        /// What was found.
        reason: String,
    },
    /// There is no folder to write it to.
    #[error("the database has no data folder, so there is nothing to make a checkpoint in")]
    NoFolder,
}

/// A checkpoint that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// From where on the log is to be read.
    pub begin_lsn: u64,
    /// How far the log had come when all rows had been read.
    pub end_lsn: u64,
    /// How many rows it has.
    pub rows: u64,
    /// Bytes of its file.
    pub bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Checkpointer {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Core {
    log: Arc<Log>,
    locks: Arc<LockTable>,
    catalog: Arc<Catalog>,
    block_bytes: usize,
    is_closing: AtomicBool,
    /// One checkpoint at a time.
    state: Mutex<Numbers>,
    failure: Mutex<Option<String>>,
}

/// Which checkpoints there are.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The number given last, to a draft perhaps. Numbers are never given twice.
    pub(crate) last: u64,
    /// Those whose files are there.
    pub(crate) live: Vec<u64>,
    /// Where the newest one wants the log to be read from; `None` if there is none.
    pub(crate) begin_lsn: Option<u64>,
}

impl Checkpointer {
    /// Begins to make checkpoints whenever they are due.
    pub(crate) fn start(
        log: Arc<Log>,
        locks: Arc<LockTable>,
        catalog: Arc<Catalog>,
        numbers: Numbers,
    ) -> Result<Self, LogError> {
        let core = Arc::new(Core {
            log,
            locks,
            catalog,
            block_bytes: BLOCK_BYTES,
            is_closing: AtomicBool::new(false),
            state: Mutex::new(numbers),
            failure: Mutex::default(),
        });
        let of_thread = Arc::clone(&core);
        let thread = std::thread::Builder::new()
            .name("checkpoints".to_owned())
            .spawn(move || {
                while of_thread.log.queue.wait_until_checkpoint_is_due() {
                    // Noted by the core; there will be another try.
                    let _ = of_thread.run();
                }
            })
            .map_err(|error| LogError::Thread { reason: error.to_string() })?;
        Ok(Checkpointer { core, thread: Some(thread) })
    }

    /// Makes a checkpoint now, after the one that is perhaps being made.
    pub(crate) fn run(&self) -> Result<CheckpointReport, CheckpointError> {
        self.core.run()
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.core.failure.lock().clone()
    }
}

impl Drop for Checkpointer {
    /// The last checkpoint, if there is anything that the one before has not. If it fails, the log has everything.
    fn drop(&mut self) {
        // Relaxed: it only makes a checkpoint end sooner that nobody needs any more.
        self.core.is_closing.store(true, Ordering::Relaxed);
        self.core.log.queue.end_checkpoints();
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so, and what it was making was a draft.
            let _ = thread.join();
        }
        self.core.is_closing.store(false, Ordering::Relaxed);
        let is_all_in = self.core.state.lock().begin_lsn.unwrap_or(0) == self.core.log.queue.next_lsn();
        if !is_all_in {
            let _ = self.core.run();
        }
    }
}

impl Core {
    fn run(&self) -> Result<CheckpointReport, CheckpointError> {
        let mut numbers = self.state.lock();
        numbers.last += 1;
        let outcome = self.make(numbers.last);
        match &outcome {
            Ok(report) => {
                self.log.queue.note_checkpoint(Ok(CheckpointNote { begin_lsn: report.begin_lsn, bytes: report.bytes }));
                // What cannot be removed now is tried again after the next one, and passed by when the database is opened.
                numbers.live.retain(|&older| self.log.storage().remove(FileName::Checkpoint(older)).is_err());
                numbers.live.push(report.number);
                numbers.begin_lsn = Some(report.begin_lsn);
                *self.failure.lock() = None;
            }
            Err(CheckpointError::Closing) => {}
            Err(error) => {
                self.log.queue.note_checkpoint(Err(()));
                *self.failure.lock() = Some(error.to_string());
            }
        }
        if outcome.is_err() {
            // It may have its name already, if only the sync of the folder has failed.
            let names = [FileName::Draft(numbers.last), FileName::Checkpoint(numbers.last)];
            names.into_iter().for_each(|name| drop(self.log.storage().remove(name)));
        }
        outcome
    }

    fn make(&self, number: u64) -> Result<CheckpointReport, CheckpointError> {
        let mut draft = Draft::begin(&self.log, &self.locks, &self.catalog, number, self.block_bytes)?;
        while draft.step()? {
            if self.is_closing.load(Ordering::Relaxed) {
                return Err(CheckpointError::Closing);
            }
        }
        draft.finish()
    }
}
