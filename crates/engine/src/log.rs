//! The write-ahead log: a commit's changes are on disk before (`sync`) or soon after (`async`) the commit returns.
//!
//! # Contents
//! At its commit a transaction's changes become one *unit*: redo records in the order of the changes and a commit
//! record as the last ([`record`]). Uncommitted changes never reach the log, so it holds no undo. A unit is complete or
//! does not count: it has one checksum (`log/format.rs`). Units get their place, the log sequence number, while all
//! locks of their transaction are held. So transactions that depend on another one come after it in the log, and every
//! prefix of the log is a state that some serial order has produced. A transaction that changes nothing leaves no unit.
//!
//! Loading is not a transaction and is not logged; a checkpoint makes it durable.
//!
//! # Two kinds of logs
//! *The log of a database with a data folder* ([`LogOptions::data_folder`]) outlives the process. Creating and dropping
//! tables is logged, too. Checkpoints bound the part that recovery has to read, and recovery restores acknowledged
//! changes. Units before the last checkpoint are not needed any more. If checkpoints fail, the log grows up to
//! [`LogOptions::bytes_max`] and then refuses changes.
//!
//! *The log of any other database* is in a folder that is removed with it. It gives commits their real cost, and
//! [`reader`] and [`replay`] can show its contents. It cannot be used for recovery, because loaded rows are not in it.
//! It keeps the newest [`LogOptions::bytes_max`] bytes of units and forgets older ones. Dropping the last table that
//! has units empties it.
//!
//! # Segments
//! The log is a sequence of files of [`LogOptions::segment_bytes`]. A segment that is not needed any more is renamed to
//! the next number and overwritten, so a log in steady state needs no new space from the file system
//! (`log/segments.rs`). Old frames behind the new ones do not count: a frame's checksum covers the database's id, the
//! segment's number, which is never reused, and the log sequence number. A process that opens a database begins a new
//! segment after all existing ones. So data that a crash has left behind the last whole unit never counts again, even
//! if other units get the same log sequence numbers.
//!
//! # Who does what
//! A committer copies its unit into the buffer of the gathering group. One thread at a time takes the group, writes it
//! with one positional write and calls `fdatasync` once. Then all committers of the group are woken, and the units that
//! have gathered during the write are the next group. Under `sync`, a committer writes its group itself if no other
//! thread is writing, which saves two context switches. The log's own thread, the writer, writes the groups that gather
//! during a write. It also writes all groups under `async` and where threads have nice values, because a thread with
//! low priority should not write for others. There is no timer under `sync`: the slower the disk, the larger the
//! groups. Under `sync` the locks of a transaction are held until it is durable, so that no other transaction reads
//! changes that could still be lost. That is why hot rows wait for the disk. Under `async` the writer waits for
//! [`LogOptions::lag_bytes`] or [`LogOptions::lag`], whichever comes first; a full buffer makes committers wait. So the
//! bytes that a crash can lose are bounded: at most the buffer and the group being written, each of `buffer_bytes`. On
//! a disk that keeps up, the bound is the changes of [`LogOptions::lag`] and the time of two writes.
//!
//! A committer may also release its locks when its unit has its place (`Log::append`), and wait afterwards
//! (`Log::wait`); checkpoints take that into account.
//!
//! # Faults
//! Any error in writing or syncing ends the log permanently: after a failed sync it is unknown which pages the kernel
//! still has, and a second sync that succeeds proves nothing. The commits of that group fail and are rolled back, and
//! so does every later commit that has changed something; reads still work. A unit of the failed group may or may not
//! be found on disk later; it was not acknowledged. Under `async`, units that were acknowledged but not yet durable may
//! be lost. A data folder can be opened again, and has all changes that were acknowledged under `sync`. A full disk
//! ends the log when it needs another segment. If a checkpoint finds the disk full, the checkpoint fails and the log
//! continues.
//!
//! Tests cover crashes at any moment that lose any unsynced blocks of 512 bytes, failures of any call, damage to any
//! byte, and cuts at any length (`log/tests`, `checkpoint/tests`). Between any two calls of the file system, they cover
//! every combination of names and blocks that are not durable yet, also after a kill, a fault, or on a disk that stays
//! full. Each kind of sync is left out once, and the tests detect that (`checkpoint/tests/states.rs`). Committers, the
//! writer, a full buffer and a failing disk run in random orders of their steps (`tests/interleaving.rs`). Processes
//! are killed hundreds of times under load (`tests/kill_recovery.rs`), and under TPC-C (`target/tests/recovery.rs`).
//!
//! # Why plain files
//! The write limit of a control group counts the writes that the group's own threads submit. `fdatasync` right after
//! the write submits the pages from the thread that wrote them, before a flusher thread of the kernel submits them
//! outside the group: under `blkio.throttle.write_bps_device` of 2 MB/s (cgroup v1, ext4), blocks of 64 KiB written so
//! reached 1.9 MB/s instead of 180 MB/s. So `O_DIRECT` with separate blocks is not needed. The device writes whole
//! pages: if a group fills its last page in part, the next group writes that page again. So a device sees more bytes
//! than [`LogStatistics::written_bytes`], the more the smaller the groups are. The file system's journal is not counted
//! against the group's limit.

pub(crate) mod data_folder;
pub(crate) mod files;
mod folder;
pub(crate) mod format;
mod options;
pub(crate) mod queue;
pub mod reader;
pub mod record;
pub mod replay;
mod segments;
pub mod storage;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use data_folder::{DataFolder, random_number};
use folder::LogFolder;
pub use options::{Durability, LogOptions};
pub(crate) use queue::Ticket;
use queue::{Pen, Queue};
use record::Unit;
use segments::{Former, Segments};
use storage::{FolderStorage, LogStorage};

/// Why a log cannot be opened or a change cannot be logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Its folder cannot be used.
    #[error("log folder {}: {reason}; set log_folder to a folder that can be written", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// Its folder is in memory.
    #[error(
        "log folder {} is in memory ({kind}), where a commit would wait for no disk; set log_folder to a folder on a disk",
        path.display()
    )]
    InMemory {
        /// The folder.
        path: PathBuf,
        /// The file system's name.
        kind: &'static str,
    },
    /// The size bound is reached.
    #[error(
        "the log is full: {bytes_max} bytes, its bound, have come since the last checkpoint; \
         the next one has failed or is not done: make room on the disk, or wait"
    )]
    Full {
        /// The bound.
        bytes_max: u64,
    },
    /// The changes of a transaction do not fit a unit.
    #[error(
        "the changes of a transaction take {bytes} bytes, and the log takes less than 4 GiB from one; \
         commit its work in smaller transactions"
    )]
    TooLarge {
        /// The unit's length.
        bytes: u64,
    },
    /// Writing failed; nothing is written any more.
    #[error("the log has failed ({reason}); changes are refused until the database is opened anew")]
    Dead {
        /// The first error.
        reason: String,
    },
    /// The writer thread could not be started.
    #[error("the log's writer thread cannot be started: {reason}")]
    Thread {
        /// The error of the system.
        reason: String,
    },
}

/// What a log has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStatistics {
    /// Units appended, each the changes of a transaction. A count.
    pub units: u64,
    /// Bytes of these units with their headers.
    pub unit_bytes: u64,
    /// Units that have become durable. Units that still wait when their tables are dropped never do.
    pub durable_units: u64,
    /// Bytes written, segment headers included. See [`crate::log`] on the bytes that a device writes for them.
    pub written_bytes: u64,
    /// Groups written.
    pub groups: u64,
    /// Groups among them that a committer wrote itself, because no other thread was writing.
    pub own_groups: u64,
    /// Units of the largest group.
    pub group_units_max: u64,
    /// Calls of `fdatasync`: one per group, and one more when a group continues in a new segment.
    pub syncs: u64,
    /// Time spent writing and syncing.
    pub write_time: Duration,
    /// Commits that had to wait for room in the buffer.
    pub buffer_waits: u64,
    /// Segments that were reused instead of making a new one.
    pub recycled_segments: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub checkpoint_failures: u64,
    /// Bytes of the checkpoints made.
    pub checkpoint_bytes: u64,
}

/// An engine's log.
#[derive(Debug)]
pub struct Log {
    pub(crate) queue: Arc<Queue>,
    storage: Arc<dyn LogStorage>,
    database: u64,
    is_sync: bool,
    writer: Option<JoinHandle<()>>,
    folder: Folder,
}

/// The folder that a log holds.
#[derive(Debug)]
enum Folder {
    /// Not a folder.
    None,
    /// Removed with the log.
    Temporary(LogFolder),
    /// The database's folder.
    Data(DataFolder),
}

/// The state from which a log continues.
#[derive(Debug, Default)]
pub(crate) struct LogStart {
    pub(crate) database: u64,
    /// The place from which on units are needed.
    pub(crate) first_lsn: u64,
    pub(crate) next_lsn: u64,
    /// The last number given to a segment.
    pub(crate) last_segment: u64,
    pub(crate) former: Vec<Former>,
}

impl Log {
    /// Begins a log in a fresh folder that is removed with it; `None` without durability. A database that outlives the
    /// process is opened by [`Engine::open`](crate::Engine::open).
    pub fn open(options: &LogOptions, clock: Arc<dyn Clock>) -> Result<Option<Log>, LogError> {
        if options.durability == Durability::None {
            return Ok(None);
        }
        let folder = match &options.folder {
            Some(parent) => LogFolder::create(parent)?,
            None => LogFolder::create_in_default()?,
        };
        let path = folder.path().to_owned();
        let database = random_number().map_err(|error| LogError::Folder { path, reason: error.to_string() })?;
        let storage = Arc::new(FolderStorage::new(folder.path()));
        let options = LogOptions { data_folder: None, ..options.clone() };
        let start = LogStart { database, ..LogStart::default() };
        let mut log = Log::resume(storage, &options, clock, start)?;
        log.folder = Folder::Temporary(folder);
        Ok(Some(log))
    }

    /// Begins a log in an empty storage. `durability` is `sync` or `async`.
    pub fn start(storage: Box<dyn LogStorage>, options: &LogOptions, clock: Arc<dyn Clock>) -> Result<Log, LogError> {
        Log::resume(Arc::from(storage), options, clock, LogStart::default())
    }

    pub(crate) fn resume(
        storage: Arc<dyn LogStorage>,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
        start: LogStart,
    ) -> Result<Log, LogError> {
        assert_ne!(options.durability, Durability::None, "a log that nobody asked for");
        let LogStart { database, first_lsn, next_lsn, last_segment, former } = start;
        let segments = Segments::new(Arc::clone(&storage), database, options.segment_bytes, last_segment, former);
        let queue = Arc::new(Queue::new(options, clock, Pen(segments), first_lsn, next_lsn));
        let of_writer = Arc::clone(&queue);
        let writer = std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || queue::run(&of_writer))
            .map_err(|error| LogError::Thread { reason: error.to_string() })?;
        let is_sync = options.durability == Durability::Sync;
        Ok(Log { queue, storage, database, is_sync, writer: Some(writer), folder: Folder::None })
    }

    /// Keeps the database's folder as long as the log lives.
    pub(crate) fn keep_folder(&mut self, folder: DataFolder) {
        self.folder = Folder::Data(folder);
    }

    /// Gives a transaction's unit its place, with all of the transaction's locks held. From then on, transactions that
    /// depend on it come after it in the log, so its locks may be released. It may be acknowledged only when
    /// [`wait`](Self::wait) has returned. After an error the unit has no place, and the changes can be rolled back.
    pub(crate) fn append(&self, unit: &Unit) -> Result<Ticket, LogError> {
        self.queue.append(unit, true)
    }

    /// Adds a change of the catalog; it becomes durable with the next unit that does.
    pub(crate) fn append_catalog_change(&self, unit: &mut Unit) -> Result<(), LogError> {
        unit.finish();
        let _ = self.queue.append(unit, false)?;
        Ok(())
    }

    /// Waits until a unit is durable; returns at once under `async`. Returns how long it slept. After an error the unit
    /// may or may not be on disk; no later unit will be acknowledged either.
    pub(crate) fn wait(&self, ticket: Ticket) -> Result<Duration, LogError> {
        if self.is_sync { self.queue.wait(ticket) } else { Ok(Duration::ZERO) }
    }

    /// Waits until everything appended so far is durable; returns at once under `async`. Returns how long it slept. For
    /// a transaction that has changed nothing, but may have read changes that are not durable because their locks were
    /// released early.
    pub(crate) fn wait_for_others(&self) -> Result<Duration, LogError> {
        if self.is_sync { self.queue.wait_for_all() } else { Ok(Duration::ZERO) }
    }

    /// The place of the last unit appended, if it may not be durable yet.
    pub(crate) fn last_ticket(&self) -> Option<Ticket> {
        self.queue.last_ticket().filter(|_| self.is_sync)
    }

    /// Waits until everything appended so far is durable.
    pub fn flush(&self) -> Result<(), LogError> {
        self.queue.flush()
    }

    /// What the log has done so far.
    pub fn statistics(&self) -> LogStatistics {
        self.queue.statistics()
    }

    /// The folder of its segments, if they are in one.
    pub fn folder(&self) -> Option<&Path> {
        match &self.folder {
            Folder::None => None,
            Folder::Temporary(folder) => Some(folder.path()),
            Folder::Data(folder) => Some(folder.path()),
        }
    }

    pub(crate) fn storage(&self) -> &dyn LogStorage {
        &*self.storage
    }

    pub(crate) fn database(&self) -> u64 {
        self.database
    }
}

impl Drop for Log {
    /// Writes the remaining units, then ends the writer; the folder goes last.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has marked the log as failed for those who waited.
            let _ = writer.join();
        }
    }
}
