//! Checkpoints: the rows of all tables in a file, so that recovery needs only the log written since.
//!
//! # Definition
//! A checkpoint is *fuzzy*: it is made while transactions run, and each row in it is as the last transaction that had
//! committed left it at the moment at which that row was read. It records the place in the log when it began, B, and
//! when the last row had been read, E. Loaded into empty tables and followed by the log from B on, it gives the state
//! of the database. The argument is at [`crate::log::replay`]; random histories test it there.
//!
//! # How rows are read
//! Transactions change rows in place before they commit, so the checkpoint must not read a row without a lock. It scans
//! all slots of a table and locks each row (S) while it copies it. It waits for transactions that have written the row
//! and never holds a second lock, so it cannot be part of a deadlock. Locking an uncontended row takes two short
//! accesses to the lock table, about the same as reading it in a transaction. Once per checkpoint, transactions that
//! queue for a hot row wait for it as long as a thread takes to wake, tens of microseconds. Under schedulers that order
//! queues by priority, the checkpoint requests locks with the lowest one. New rows are locked before they are written
//! (`transaction/write.rs`), so no row is read half written.
//!
//! # When
//! A checkpoint is made when the log has grown by
//! [`LogOptions::checkpoint_bytes`](crate::log::LogOptions::checkpoint_bytes) since the last one began (on a separate
//! thread), when tables have been loaded, which is not logged, and when the engine is closed.
//!
//! # How it becomes durable
//! It is written under another name (a draft) and synced every few megabytes so that commits do not wait while the disk
//! writes all of it at once. Then the log is flushed up to E, the draft synced and renamed, and the folder synced. Only
//! then are older checkpoints removed and the segments before B freed for reuse. A crash anywhere in between leaves the
//! older checkpoint with the log that it needs, or both checkpoints; drafts are removed when the database is opened. A
//! failure leaves everything unchanged; the log's statistics count it, and
//! [`Engine::checkpoint_failure`](crate::Engine::checkpoint_failure) reports it. The next attempt follows a quarter of
//! the interval later. Until then the log grows, up to its bound.

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
    /// The storage reported an error.
    #[error("{file}: {source}")]
    Storage {
        /// The file.
        file: FileName,
        /// The error of the storage.
        source: io::Error,
    },
    /// The log did not become durable up to its end.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The engine was closed during the checkpoint.
    #[error("the checkpoint was given up because the database is being closed")]
    Closing,
    /// The file is damaged.
    #[error("{file} is damaged at byte {at}: {reason}")]
    Damaged {
        /// The file.
        file: FileName,
        /// The byte of the file at which the damage was found.
        at: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The file belongs to another database or version.
    #[error("{reason}")]
    Foreign {
        /// The file.
        file: FileName,
        /// How the file differs.
        reason: String,
    },
    /// The database has no data folder.
    #[error("the database has no data folder, so there is nothing to make a checkpoint in")]
    NoFolder,
}

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// The place from which recovery reads the log.
    pub begin_lsn: u64,
    /// The end of the log when all rows had been read.
    pub end_lsn: u64,
    /// The number of rows in it.
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
    /// Locked while a checkpoint is made, so that only one is made at a time.
    state: Mutex<Numbers>,
    failure: Mutex<Option<String>>,
}

/// The checkpoints that exist.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The last number given, perhaps to a draft. Numbers are never reused.
    pub(crate) last: u64,
    /// The checkpoints whose files exist.
    pub(crate) live: Vec<u64>,
    /// The place from which the newest checkpoint needs the log; `None` without a checkpoint.
    pub(crate) begin_lsn: Option<u64>,
}

impl Checkpointer {
    /// Starts the thread that makes checkpoints when they are due.
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
                    // The core records the error and tries again later.
                    let _ = of_thread.run();
                }
            })
            .map_err(|error| LogError::Thread { reason: error.to_string() })?;
        Ok(Checkpointer { core, thread: Some(thread) })
    }

    /// Makes a checkpoint now, after the one in progress, if any.
    pub(crate) fn run(&self) -> Result<CheckpointReport, CheckpointError> {
        self.core.run()
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.core.failure.lock().clone()
    }
}

impl Drop for Checkpointer {
    /// Makes a last checkpoint if anything has changed since the one before. If it fails, the log has everything.
    fn drop(&mut self) {
        // Relaxed: it only ends an obsolete checkpoint early.
        self.core.is_closing.store(true, Ordering::Relaxed);
        self.core.log.queue.end_checkpoints();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has reported that; the file that it was writing was only a draft.
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
                // A file that cannot be removed now is tried again after the next checkpoint, and ignored when the
                // database is opened.
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
