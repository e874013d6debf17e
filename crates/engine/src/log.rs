//! The write-ahead log: what a commit has changed is on disk before (`sync`) or soon after (`async`) the commit returns.
//!
//! # What is in it
//! At its commit a transaction's changes become one *unit*: redo records in the order of the changes and a commit record as
//! the last ([`record`]). Uncommitted changes never reach the log, so it holds no undo, and a unit is there or it is not: it
//! has one checksum (`log/format.rs`). Units get their place, the log sequence number, while all locks of their
//! transaction are held; hence whatever depends on a transaction stands behind it, and every prefix of the log is a state
//! that some serial order has produced. A transaction that changes nothing leaves no unit.
//!
//! Loading is not a transaction and is not logged; what makes it durable is a checkpoint.
//!
//! # Two kinds of logs
//! *Of a database with a data folder* ([`LogOptions::data_folder`]): it outlives the process. Making and
//! dropping tables is logged, too. Checkpoints bound what has to be read again, and
//! recovery brings back what was acknowledged. Units before the last checkpoint are needed no more; if
//! checkpoints fail, the log grows up to [`LogOptions::bytes_max`] and then refuses changes.
//!
//! *Of any other database*: it lies in a folder that is removed with it. It makes commits cost what they cost, and
//! [`reader`] and [`replay`] can show what is in it; nobody will recover from it, for what was loaded is not there. It keeps
//! the newest [`LogOptions::bytes_max`] bytes of units and forgets older ones. Dropping the last table that has
//! units empties it.
//!
//! # Segments
//! The log is a sequence of files of [`LogOptions::segment_bytes`]. One that holds nothing that is still needed is renamed to
//! the next number and written over, so that a log in its stride takes no room from the file system
//! (`log/segments.rs`). Old frames behind the new ones do not count: a frame's checksum covers the database's id and the
//! segment's number, which is never given twice, and the log sequence number. A process that opens a database begins a new
//! segment behind all that there are, so that what a crash has left behind the last whole unit never counts again, even if
//! the same log sequence numbers are given to other units.
//!
//! # Who does what
//! A committer copies its unit into the buffer of the group that gathers. One at a time takes whatever has gathered, writes it
//! with one positional write and calls `fdatasync` once; then everybody in that group is woken, and what has gathered
//! meanwhile is the next group. Under `sync` that is the committer itself if nobody is writing, which spares it two changes
//! of threads; what has gathered while it wrote is left to the log's own thread, the writer, as is everything under `async`
//! and where threads have nice values, lest one that is to be slow writes for all. There is no timer under `sync`: the
//! slower the disk, the larger the groups.
//! Under `sync` the locks of a transaction are held until it is durable, so that nobody reads what could still be lost; that
//! is what makes hot rows wait for the disk.
//! Under `async` the writer waits for [`LogOptions::lag_bytes`] or [`LogOptions::lag`], whichever comes first; a buffer that
//! is full makes committers wait. So what a crash can lose is bounded by bytes: at most the buffer and the group being written,
//! each of `buffer_bytes`; on a disk that keeps up it is [`LogOptions::lag`] and the time of two writes.
//!
//! A committer may also give up its locks when its unit has its place (`Log::append`) and wait afterwards
//! (`Log::wait`); checkpoints take that into account.
//!
//! # Faults
//! Whatever goes wrong in writing or syncing ends the log for good: after a failed sync nobody knows which pages the
//! kernel still has, and a second sync that succeeds proves nothing. The commits of that group fail and are rolled back, and
//! so does every later one that has changed something; reading goes on. Whether a unit of the group in which the failure
//! happened is found on disk later is open, as it must be; it was not acknowledged. Under `async`, units that were
//! acknowledged but not yet durable may be lost by then. A data folder can be opened anew, and has all that was acknowledged
//! under `sync`. A disk that is full ends the log when it needs another segment; a checkpoint that finds it full fails, and
//! the log goes on.
//!
//! What is tested: crashes at any moment, any blocks of 512 bytes that were not synced lost; any call failing; any byte
//! damaged, any length cut (`log/tests`, `checkpoint/tests`). Between any two calls of the file system: every combination of names and
//! blocks that are not durable yet, also after a kill, a fault, or on a disk that stays full; each kind of sync is left out once, and
//! missed (`checkpoint/tests/states.rs`). Committers, the writer, a full buffer and a failing disk in orders of their steps that seeds
//! draw (`tests/interleaving.rs`). Processes killed hundreds of times under load
//! (`tests/kill_recovery.rs`), and under TPC-C (`target/tests/recovery.rs`).
//!
//! # Why plain files
//! The write limit of a control group counts what the group's own threads submit. `fdatasync` right after the write submits
//! the pages from the thread that wrote them, before any flusher of the kernel could do it on nobody's account: under
//! `blkio.throttle.write_bps_device` of 2 MB/s (cgroup v1, ext4), blocks of 64 KiB written so reached 1.9 MB/s instead of
//! 180 MB/s. So there is no need for `O_DIRECT` and blocks of our own. The device writes whole pages: a group that fills its last
//! page in part makes it be written again with the next, so that a device sees more bytes than
//! [`LogStatistics::written_bytes`], the more the smaller the groups are. What the file system writes about its files (its
//! journal) is not counted against the group's limit.

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

/// Why there is no log, or no room in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// Its folder cannot be used.
    #[error("log folder {}: {reason}; set log_folder to a folder that can be written", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What went wrong.
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
    /// A transaction has changed more than a unit can say.
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
        /// What failed first.
        reason: String,
    },
    /// The writer thread could not be started.
    #[error("the log's writer thread cannot be started: {reason}")]
    Thread {
        /// What the system said.
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
    /// Units that have become durable. Those that wait when their tables are dropped never do.
    pub durable_units: u64,
    /// Bytes written, segment headers included. See [`crate::log`] on what a device makes of them.
    pub written_bytes: u64,
    /// Groups written.
    pub groups: u64,
    /// Groups among them that a committer wrote itself, because nobody was writing.
    pub own_groups: u64,
    /// Units of the largest group.
    pub group_units_max: u64,
    /// Calls of `fdatasync`; one a group, and one more where a group goes on in a new segment.
    pub syncs: u64,
    /// Time spent writing and syncing.
    pub write_time: Duration,
    /// Commits that had to wait for room in the buffer.
    pub buffer_waits: u64,
    /// Segments that were used again instead of making a new one.
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

/// What a log keeps as long as it lives.
#[derive(Debug)]
enum Folder {
    /// Something that is no folder.
    None,
    /// Removed with the log.
    Temporary(LogFolder),
    /// The database's.
    Data(DataFolder),
}

/// What a log goes on after.
#[derive(Debug, Default)]
pub(crate) struct LogStart {
    pub(crate) database: u64,
    /// From where on units are needed.
    pub(crate) first_lsn: u64,
    pub(crate) next_lsn: u64,
    /// The number that was given to a segment last.
    pub(crate) last_segment: u64,
    pub(crate) former: Vec<Former>,
}

impl Log {
    /// Begins a log in a fresh folder that is removed with it; `None` where nothing is to be logged. A database that is to
    /// outlive the process is opened by [`Engine::open`](crate::Engine::open).
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

    /// Gives a transaction's unit its place, with all of the transaction's locks held. From then on whatever depends on the
    /// transaction stands behind it, so that its locks may be given up; acknowledged it may be only when
    /// [`wait`](Self::wait) has returned. After an error the unit has no place, and the changes can be taken back.
    pub(crate) fn append(&self, unit: &Unit) -> Result<Ticket, LogError> {
        self.queue.append(unit, true)
    }

    /// Adds what has happened to a table; it becomes durable with whatever comes next.
    pub(crate) fn append_catalog_change(&self, unit: &mut Unit) -> Result<(), LogError> {
        unit.finish();
        let _ = self.queue.append(unit, false)?;
        Ok(())
    }

    /// Waits until a unit is durable; under `async` for nothing. Says how long it slept. After an error nobody knows whether
    /// the unit will be found on disk; nothing that was appended later will be acknowledged either.
    pub(crate) fn wait(&self, ticket: Ticket) -> Result<Duration, LogError> {
        if self.is_sync { self.queue.wait(ticket) } else { Ok(Duration::ZERO) }
    }

    /// Waits until everything appended so far is durable; under `async` for nothing. Says how long it slept. For a
    /// transaction that has changed nothing, but may have read what is not durable because its locks were given up early.
    pub(crate) fn wait_for_others(&self) -> Result<Duration, LogError> {
        if self.is_sync { self.queue.wait_for_all() } else { Ok(Duration::ZERO) }
    }

    /// The place of the unit that was appended last, if it may not be durable yet.
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

    /// Where its segments are, if they are in a folder.
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
    /// Writes what is left, then ends the writer; the folder goes last.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so, and has marked the log as dead for those who waited.
            let _ = writer.join();
        }
    }
}
