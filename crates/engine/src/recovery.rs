//! Recovery: restores a database to the state at the end of its process, from its checkpoint and its log.
//!
//! The newest checkpoint is loaded into empty tables, then the log is applied from the place that the checkpoint gives
//! ([`crate::log::replay`]) to its end, which may be torn. Indexes are built with the rows. Rows of tables without a
//! primary key, which the log names by number, get their old numbers. Recovery writes nothing, so an interruption
//! changes nothing. Afterwards the log continues in a new segment after all existing ones, so data behind a torn end
//! never counts again.
//!
//! Before anything is logged behind it, the end of the log is written once more, over itself, and synced
//! (`write_end_again`). It may be in the kernel's memory only, if a process was killed between a write and its sync, or
//! if a sync failed. Without this step, a later crash of the machine could remove units from the middle of the log, and
//! with them all later ones.
//!
//! A checkpoint has its name only when it is whole and durable, so one that cannot be read is damaged. Recovery does
//! not fall back to an older one, because that could lose tables that were loaded since.

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
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] DataFolderError),
    /// The log cannot be started.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A data folder, with durability `none`.
    #[error(
        "data folder {}: without a log its checkpoints would be no state that the database has ever had; \
         set durability to `sync` or `async`",
        path.display()
    )]
    NoLog {
        /// The folder.
        path: PathBuf,
    },
    /// Its contents cannot be recovered.
    #[error("data folder {}: {reason}", path.display())]
    Recovery {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: RecoveryError,
    },
}

/// Why the contents of a folder cannot be recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// Its files cannot be listed.
    #[error("its files cannot be listed: {0}")]
    Storage(std::io::Error),
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log cannot be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A table cannot be kept.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The end of the log cannot be made durable.
    #[error("{file} cannot be written again: {source}")]
    End {
        /// The segment.
        file: FileName,
        /// The error of the storage.
        source: std::io::Error,
    },
    /// The log is shorter than it was when the checkpoint was made.
    #[error(
        "the log ends at {end}{}, but was durable up to {wanted} when the checkpoint was made; \
         the disk has lost what it had confirmed, or a segment was removed",
        .torn.as_ref().map_or_else(String::new, |torn| format!(" ({torn})"))
    )]
    LogTooShort {
        /// The end of the log.
        end: u64,
        /// Why a unit at the end is not whole; `None` if nothing was written there.
        torn: Option<String>,
        /// The place that the log must reach.
        wanted: u64,
    },
}

impl From<ReadError> for RecoveryError {
    fn from(error: ReadError) -> Self {
        RecoveryError::Replay(error.into())
    }
}

/// The result of recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The number of the checkpoint; `None` if there was none.
    pub checkpoint: Option<u64>,
    /// The place from which on the log was applied.
    pub begin_lsn: u64,
    /// Rows of the checkpoint.
    pub checkpoint_rows: u64,
    /// Transactions applied.
    pub transactions: u64,
    /// The end of the log.
    pub end_lsn: u64,
    /// Why a unit at the end of the log was not whole; `None` if nothing was written there.
    pub torn: Option<String>,
    /// The number of tables.
    pub tables: usize,
    /// How long it took.
    pub time: Duration,
}

/// A recovered database, in memory.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) catalog: Catalog,
    pub(crate) report: RecoveryReport,
    /// The state from which its log continues.
    pub(crate) start: LogStart,
    pub(crate) numbers: Numbers,
    /// The last segment and the number of its bytes that count; `None` if nothing in the log is needed.
    pub(crate) tail: Option<(FileName, usize)>,
}

/// Recovers the database with this id. The storage is not changed.
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

/// Makes the end of the log durable, as recovery has read it. Earlier segments are durable: each was synced before the
/// next was begun. A sync alone would not do after a sync that failed, because the kernel then regards the lost pages
/// as written. Acknowledged data is not at risk: each block on disk is overwritten by the same bytes.
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
    // A key may have moved from one slot to another while the rows were read.
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

/// Opens a database according to the options: the one of a data folder, or an empty one.
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

/// The tables of a data folder that no process has open, in memory; the folder is not changed.
pub(crate) fn read(path: &Path, clock: &Arc<dyn Clock>) -> Result<Parts, OpenError> {
    let folder = DataFolder::open_for_reading(path)?;
    let failed = |reason| OpenError::Recovery { path: path.to_owned(), reason };
    let recovered = recover(&FolderStorage::new(path), folder.database(), &**clock).map_err(failed)?;
    Ok(Parts { catalog: recovered.catalog, recovery: Some(recovered.report), ..Parts::default() })
}

/// Removes the drafts of unfinished checkpoints. A draft that cannot be removed does no harm.
pub(crate) fn remove_drafts(storage: &dyn LogStorage) {
    for name in storage.names().unwrap_or_default() {
        if let FileName::Draft(_) = name {
            let _ = storage.remove(name);
        }
    }
}
