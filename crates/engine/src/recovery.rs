//! What a database was when its process ended, from its checkpoint and its log.
//!
//! The newest checkpoint is loaded into empty tables, then the log is applied from where the checkpoint wants it
//! ([`crate::log::replay`]) to its end, which may be torn. Indexes grow with the rows. Rows of tables without a primary key,
//! which the log names by number, get the numbers that they had. Nothing is written meanwhile: recovery that is interrupted
//! leaves what it found. What follows is a new segment behind all that there are, so that what stands behind a torn end
//! never counts again.
//!
//! Before anything is logged behind it, the end of the log is written once more, over itself, and synced
//! (`write_end_again`). What was read may be in the kernel's memory only: a process that was killed between a write and its
//! sync has left it there, and so has a sync that failed. Without that, a crash of the machine later on would take units
//! from the middle of the log, and with them whatever stands behind.
//!
//! A checkpoint has its name only when it is whole and durable, so one that cannot be read is damage; to go back to an older
//! one could lose tables that were loaded since, and is not done.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::checkpoint::file::{CheckpointReader, Piece};
use crate::checkpoint::{CheckpointError, Numbers};
use crate::clock::Clock;
use crate::engine::Parts;
use crate::log::data_folder::{DataFolder, DataFolderError};
use crate::log::format::Header;
use crate::log::reader::{LogReader, ReadError, former_segments};
use crate::log::record::Record;
use crate::log::replay::{RecordPlace, ReplayError, apply, row_table};
use crate::log::storage::{FileName, FolderStorage, LogStorage, write_all_at};
use crate::log::{Durability, Log, LogError, LogOptions, LogStart};
use crate::table::TableError;

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Its folder cannot be used.
    #[error(transparent)]
    Folder(#[from] DataFolderError),
    /// There can be no log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A folder without a log.
    #[error(
        "data folder {}: without a log its checkpoints would be no state that the database has ever had; \
         set durability to `sync` or `async`",
        path.display()
    )]
    NoLog {
        /// The folder.
        path: PathBuf,
    },
    /// What it holds cannot be recovered.
    #[error("data folder {}: {reason}", path.display())]
    Recovery {
        /// The folder.
        path: PathBuf,
        /// Why not.
        reason: RecoveryError,
    },
}

/// Why what a folder holds cannot be recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// Its files cannot be listed.
    #[error("its files cannot be listed: {0}")]
    Storage(std::io::Error),
    /// Its checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Its log.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A table that cannot be kept.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The end of the log cannot be made durable.
    #[error("{file} cannot be written again: {source}")]
    End {
        /// The segment.
        file: FileName,
        /// What the storage said.
        source: std::io::Error,
    },
    /// The log is shorter than it was when the checkpoint was made.
    #[error(
        "the log ends at {end}{}, but was durable up to {wanted} when the checkpoint was made; \
         the disk has lost what it had confirmed, or a segment was removed",
        .torn.as_ref().map_or_else(String::new, |torn| format!(" ({torn})"))
    )]
    LogTooShort {
        /// Where it ends.
        end: u64,
        /// What stood there.
        torn: Option<String>,
        /// How far it must reach.
        wanted: u64,
    },
}

impl From<ReadError> for RecoveryError {
    fn from(error: ReadError) -> Self {
        RecoveryError::Replay(error.into())
    }
}

/// What was recovered, and from what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The number of the checkpoint; `None` if there was none.
    pub checkpoint: Option<u64>,
    /// From where on the log was applied.
    pub begin_lsn: u64,
    /// Rows of the checkpoint.
    pub checkpoint_rows: u64,
    /// Transactions applied.
    pub transactions: u64,
    /// Where the log ended.
    pub end_lsn: u64,
    /// What stood at the end of the log instead of nothing.
    pub torn: Option<String>,
    /// Tables that there are.
    pub tables: usize,
    /// How long it took.
    pub time: Duration,
}

/// A database in memory again.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) catalog: Catalog,
    pub(crate) report: RecoveryReport,
    /// What its log goes on after.
    pub(crate) start: LogStart,
    pub(crate) numbers: Numbers,
    /// The segment in which the log ends and how much of it counts, if anything in the log is needed.
    pub(crate) tail: Option<(FileName, usize)>,
}

/// Recovers the database of that id. Nothing in the storage is changed.
pub(crate) fn recover(storage: &dyn LogStorage, database: u64, clock: &dyn Clock) -> Result<Recovered, RecoveryError> {
    let began = clock.now();
    let numbers = numbers(storage)?;
    let catalog = Catalog::default();
    let (header, end) = match numbers.live.last() {
        Some(&newest) => {
            let (header, end) = load(storage, database, newest, &catalog)?;
            (Some(header), Some(end))
        }
        None => (None, None),
    };
    let begin_lsn = header.map_or(0, |header| header.lsn);
    let wanted = end.map_or(0, |end| end.lsn);
    let mut reader = LogReader::from(storage, database, begin_lsn)?;
    let mut transactions = 0;
    for transaction in reader.by_ref() {
        let transaction = transaction?;
        let place = RecordPlace { lsn: transaction.lsn, is_fuzzy: transaction.lsn < wanted };
        transaction.records.into_iter().try_for_each(|record| apply_one(&catalog, record, place))?;
        transactions += 1;
    }
    let log_end = reader.end().expect("the reader has come to the end").clone();
    if log_end.lsn < wanted {
        return Err(RecoveryError::LogTooShort { end: log_end.lsn, torn: log_end.torn, wanted });
    }
    let tail = reader.tail().filter(|_| log_end.lsn > begin_lsn);
    let (contents, ()) = catalog.contents(|| ());
    contents.tables.iter().for_each(|table| table.heap.collect_free());
    let (last_segment, former) = former_segments(storage, database, log_end.lsn)?;
    let report = RecoveryReport {
        checkpoint: header.map(|header| header.stamp.number),
        begin_lsn,
        checkpoint_rows: end.map_or(0, |end| end.count),
        transactions,
        end_lsn: log_end.lsn,
        torn: log_end.torn,
        tables: contents.tables.len(),
        time: clock.now().saturating_sub(began),
    };
    let start = LogStart { database, first_lsn: begin_lsn, next_lsn: log_end.lsn, last_segment, former };
    let numbers = Numbers { begin_lsn: header.map(|header| header.lsn), ..numbers };
    Ok(Recovered { catalog, report, start, numbers, tail })
}

/// Makes durable what recovery has read at the end of the log. Segments before are: each was synced before the next was begun. To
/// write the same bytes once more rather than to sync only is needed after a sync that failed, when the kernel takes pages
/// for written that are not. Nothing that was acknowledged is at stake: each block on disk is the old one or the same.
pub(crate) fn write_end_again(storage: &dyn LogStorage, recovered: &Recovered) -> Result<(), RecoveryError> {
    let Some((name, length)) = recovered.tail else { return Ok(()) };
    let write = || {
        let bytes = storage.read(name)?;
        let mut file = storage.open_to_write(name)?;
        write_all_at(&mut *file, &bytes[..length], 0)?;
        file.sync()
    };
    write().map_err(|source| RecoveryError::End { file: name, source })
}

fn numbers(storage: &dyn LogStorage) -> Result<Numbers, RecoveryError> {
    let names = storage.names().map_err(RecoveryError::Storage)?;
    let (mut last, mut live) = (0, Vec::new());
    for name in names {
        match name {
            FileName::Checkpoint(number) => {
                live.push(number);
                last = last.max(number);
            }
            FileName::Draft(number) => last = last.max(number),
            FileName::Segment(_) => {}
        }
    }
    live.sort_unstable();
    Ok(Numbers { last, live, begin_lsn: None })
}

/// Loads a checkpoint into an empty catalog; returns its header and its end.
fn load(
    storage: &dyn LogStorage,
    database: u64,
    number: u64,
    catalog: &Catalog,
) -> Result<(Header, Header), RecoveryError> {
    let mut reader = CheckpointReader::open(storage, database, number)?;
    // A key may have gone from one slot to another while the rows were read.
    let place = RecordPlace { lsn: reader.header.lsn, is_fuzzy: true };
    loop {
        match reader.next_piece()? {
            Piece::Records(records) => {
                records.into_iter().try_for_each(|record| apply_one(catalog, record, place))?;
            }
            Piece::End(end) => {
                catalog.skip_to(reader.header.count as u32);
                return Ok((reader.header, end));
            }
        }
    }
}

fn apply_one(catalog: &Catalog, record: Record, place: RecordPlace) -> Result<(), RecoveryError> {
    match (row_table(&record), record) {
        (Some(number), record) => {
            let table = catalog.get(number).ok_or(ReplayError::NoSuchTable { lsn: place.lsn, table: number })?;
            apply(&table, record, place)?;
        }
        (None, Record::CreateTable { table, spec }) => drop(catalog.restore(table, spec)?),
        (None, Record::DropTable { table }) => catalog.remove(table, None),
        (None, Record::KeepSet { name, tables }) => catalog.keep_set(&name, tables),
        (None, _) => unreachable!("records about rows name their table"),
    }
    Ok(())
}

/// Opens a database as these options say: the one of a data folder, or an empty one.
pub(crate) fn open(options: &LogOptions, clock: &Arc<dyn Clock>) -> Result<Parts, OpenError> {
    let Some(path) = &options.data_folder else {
        let log = Log::open(options, Arc::clone(clock))?;
        return Ok(Parts { log, ..Parts::default() });
    };
    if options.durability == Durability::None {
        return Err(OpenError::NoLog { path: path.clone() });
    }
    let folder = DataFolder::open(path)?;
    let storage = Arc::new(FolderStorage::new(path));
    let failed = |reason| OpenError::Recovery { path: path.clone(), reason };
    let recovered = recover(&*storage, folder.database(), &**clock).map_err(failed)?;
    write_end_again(&*storage, &recovered).map_err(failed)?;
    remove_drafts(&*storage);
    let Recovered { catalog, report, start, numbers, .. } = recovered;
    let mut log = Log::resume(storage, options, Arc::clone(clock), start)?;
    log.keep_folder(folder);
    Ok(Parts { catalog, log: Some(log), numbers: Some(numbers), recovery: Some(report) })
}

/// The tables of a data folder that no process has open, in memory; nothing in the folder is changed.
pub(crate) fn read(path: &Path, clock: &Arc<dyn Clock>) -> Result<Parts, OpenError> {
    let folder = DataFolder::open_for_reading(path)?;
    let failed = |reason| OpenError::Recovery { path: path.to_owned(), reason };
    let recovered = recover(&FolderStorage::new(path), folder.database(), &**clock).map_err(failed)?;
    Ok(Parts { catalog: recovered.catalog, recovery: Some(recovered.report), ..Parts::default() })
}

/// Removes what checkpoints that were not ended have left. What cannot be removed is in nobody's way.
pub(crate) fn remove_drafts(storage: &dyn LogStorage) {
    for name in storage.names().unwrap_or_default() {
        if let FileName::Draft(_) = name {
            let _ = storage.remove(name);
        }
    }
}
