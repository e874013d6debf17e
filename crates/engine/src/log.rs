//! The write-ahead log: what a commit has changed is on disk before (`sync`) or soon after (`async`) the commit returns.
//!
//! # What is in it
//! At its commit a transaction's changes become one *unit*: redo records in the order of the changes and a commit record as
//! the last ([`record`]). Uncommitted changes never reach the log, so it holds no undo, and a unit is there or it is not: it
//! has one checksum (`log/format.rs`). Units get their place, the log sequence number, while all locks of their
//! transaction are held; hence whatever depends on a transaction stands behind it, and every prefix of the log is a state
//! that some serial order has produced. A transaction that changes nothing leaves no unit and waits for nothing.
//!
//! Loading is not a transaction and is not logged. Dropping the last table that has units empties the log. There is no
//! checkpoint: the log grows up to [`LogOptions::bytes_max`] and then refuses changes. What it proves is that acknowledged
//! changes are there ([`reader`]) and say what happened ([`replay`]); loaded data cannot be recovered from it.
//!
//! # Who does what
//! A committer copies its unit into the buffer of the group that gathers. One thread, the writer, takes whatever has gathered,
//! writes it with one positional write and calls `fdatasync` once; then everybody in that group is woken, and what has
//! gathered meanwhile is the next group. There is no timer under `sync`: the slower the disk, the larger the groups.
//! Under `sync` the locks of a transaction are held until it is durable, so that nobody reads what could still be lost; that
//! is what makes hot rows wait for the disk.
//! Under `async` the writer waits for [`LogOptions::lag_bytes`] or [`LogOptions::lag`], whichever comes first; a buffer that
//! is full makes committers wait. So what a crash can lose is bounded by bytes: at most the buffer and the group being written,
//! each of `buffer_bytes`; on a disk that keeps up it is [`LogOptions::lag`] and the time of two writes.
//!
//! # Faults
//! Whatever goes wrong in writing or syncing ends the log for good: after a failed sync nobody knows which pages the
//! kernel still has, and a second sync that succeeds proves nothing. The commits of that group fail and are rolled back, and
//! so does every later one that has changed something; reading goes on. Whether a unit of the group in which the failure
//! happened is found on disk later is open, as it must be; it was not acknowledged. Under `async`, units that were
//! acknowledged but not yet durable may be lost by then.
//!
//! # Why plain files
//! The write limit of a control group counts what the group's own threads submit. `fdatasync` right after the write submits
//! the pages from the writer thread, before any flusher of the kernel could do it on nobody's account: under
//! `blkio.throttle.write_bps_device` of 2 MB/s (cgroup v1, ext4), blocks of 64 KiB written so reached 1.9 MB/s instead of
//! 180 MB/s. So there is no need for `O_DIRECT` and blocks of our own. The device writes whole pages: a group that fills its last
//! page in part makes it be written again with the next, so that a device sees more bytes than
//! [`LogStatistics::written_bytes`], the more the smaller the groups are. What the file system writes about its files (its
//! journal) is not counted against the group's limit.

pub mod folder;
mod format;
mod queue;
pub mod reader;
pub mod record;
pub mod replay;
pub mod storage;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use folder::LogFolder;
use queue::Queue;
pub(crate) use queue::Ticket;
use record::Unit;
use storage::{FolderStorage, LogStorage};

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Nothing: there is no log.
    #[default]
    None,
    /// A place in the log's buffer, which is written soon.
    Async,
    /// The disk.
    Sync,
}

impl Durability {
    /// Every value, the default first.
    pub const ALL: [Durability; 3] = [Durability::None, Durability::Async, Durability::Sync];

    /// As options write it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Async => "async",
            Durability::Sync => "sync",
        }
    }
}

/// How an engine logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// What a commit waits for.
    pub durability: Durability,
    /// Where the log's own folder is made; `None` takes the first of the system's temporary folders that is on a disk.
    pub folder: Option<PathBuf>,
    /// Bytes of a segment, one file of the log. A transaction that needs more gets a segment of its own size.
    pub segment_bytes: u64,
    /// Bytes of units that the log takes before it is full.
    pub bytes_max: u64,
    /// Bytes of units that may wait for the writer; committers wait for room beyond that.
    pub buffer_bytes: usize,
    /// Under `async`: the writer begins when so many bytes wait.
    pub lag_bytes: usize,
    /// Under `async`: the writer begins when a unit has waited so long.
    pub lag: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            durability: Durability::None,
            folder: None,
            segment_bytes: 64 << 20,
            bytes_max: 8 << 30,
            buffer_bytes: 1 << 20,
            lag_bytes: 256 << 10,
            lag: Duration::from_millis(100),
        }
    }
}

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
        "the log is full: it holds {bytes_max} bytes, its bound, and there is no checkpoint yet to shorten it; \
         drop or reload the tables"
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
    /// Units of the largest group.
    pub group_units_max: u64,
    /// Calls of `fdatasync`; one a group, and one more where a group goes on in a new segment.
    pub syncs: u64,
    /// Time that the writer spent writing and syncing.
    pub write_time: Duration,
    /// Commits that had to wait for room in the buffer.
    pub buffer_waits: u64,
}

impl LogStatistics {
    /// Units in a group, on average; `None` before the first.
    pub fn group_units_mean(&self) -> Option<f64> {
        (self.groups > 0).then(|| self.durable_units as f64 / self.groups as f64)
    }
}

/// An engine's log.
#[derive(Debug)]
pub struct Log {
    queue: Arc<Queue>,
    is_sync: bool,
    writer: Option<JoinHandle<()>>,
    /// Removed with the log.
    folder: Option<LogFolder>,
}

impl Log {
    /// Begins a log in a fresh folder; `None` where nothing is to be logged.
    pub fn open(options: &LogOptions, clock: Arc<dyn Clock>) -> Result<Option<Log>, LogError> {
        if options.durability == Durability::None {
            return Ok(None);
        }
        let folder = match &options.folder {
            Some(parent) => LogFolder::create(parent)?,
            None => LogFolder::create_in_default()?,
        };
        let storage = Box::new(FolderStorage::new(folder.path()));
        let mut log = Log::start(storage, options, clock)?;
        log.folder = Some(folder);
        Ok(Some(log))
    }

    /// Begins a log in an empty storage. `durability` is `sync` or `async`.
    pub fn start(storage: Box<dyn LogStorage>, options: &LogOptions, clock: Arc<dyn Clock>) -> Result<Log, LogError> {
        assert_ne!(options.durability, Durability::None, "a log that nobody asked for");
        let queue = Arc::new(Queue::new(options, clock));
        let segment_bytes = options.segment_bytes;
        let of_writer = Arc::clone(&queue);
        let writer = std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || writer::run(&of_writer, storage, segment_bytes))
            .map_err(|error| LogError::Thread { reason: error.to_string() })?;
        Ok(Log { queue, is_sync: options.durability == Durability::Sync, writer: Some(writer), folder: None })
    }

    /// Adds a transaction's unit; when this returns, the transaction may be acknowledged. To be called with all of its locks
    /// held. Says how long it waited for the disk, or for room. The same as [`append`](Self::append) and
    /// [`wait`](Self::wait).
    pub(crate) fn commit(&self, unit: &Unit) -> Result<Duration, LogError> {
        let ticket = self.append(unit)?;
        Ok(ticket.waited + self.wait(ticket)?)
    }

    /// Gives a transaction's unit its place, with all of the transaction's locks held. From then on whatever depends on the
    /// transaction stands behind it, so that its locks may be given up; acknowledged it may be only when
    /// [`wait`](Self::wait) has returned. After an error the unit has no place, and the changes can be taken back.
    pub(crate) fn append(&self, unit: &Unit) -> Result<Ticket, LogError> {
        self.queue.append(unit)
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

    /// Waits until everything appended so far is durable.
    pub fn flush(&self) -> Result<(), LogError> {
        self.queue.flush()
    }

    /// No transaction will use that table any more, nor will anybody want its changes back.
    pub(crate) fn forget_table(&self, table: u32) {
        self.queue.forget_table(table);
    }

    /// What the log has done so far.
    pub fn statistics(&self) -> LogStatistics {
        self.queue.statistics()
    }

    /// Where its segments are, if they are in a folder. It is removed with the log.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(LogFolder::path)
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
