//! An export from its beginning to its end.
//!
//! 1. The storage must be empty or have an export. An empty one is marked ([`UNFINISHED`]), so that the remains of a
//!    first export that was interrupted are recognised.
//! 2. Threads write the chunks. A file's name depends on its contents, so no file of the last export is overwritten by
//!    other contents.
//! 3. `manifest.json` is replaced in one step. Before it the last export is complete, after it the new one is.
//! 4. Files that neither of the two names are removed. Those of the last export stay until the next one, because a
//!    program may still read them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arrow::record_batch::RecordBatch;
use sha2::{Digest, Sha256};

use crate::manifest::{ExportedFile, ExportedTable, MANIFEST, Manifest, ManifestError, columns};
use crate::parquet_file::encode;
use crate::source::{ChunkIdentity, ChunkReader, Source, SourceError, TableShape};
use crate::storage::{Storage, StorageError};

/// Marks a storage in which the first export has begun.
pub const UNFINISHED: &str = "unfinished-export";

/// The folder of the Parquet files.
const DATA: &str = "data/";

/// Digits of the SHA-256 in a file's name.
const NAME_DIGITS: usize = 16;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The manifest of the last export.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The storage has other files.
    #[error("{place} is not a file of an export; export to an empty folder, or to one with an earlier export")]
    Foreign {
        /// One of them.
        place: String,
    },
    /// There is no export to read.
    #[error("{place} does not exist: no export was finished there; run `plimsoll export`")]
    NoExport {
        /// The place of its manifest.
        place: String,
    },
    /// The database.
    #[error("cannot read table {table}: {source}")]
    Source {
        /// The table.
        table: String,
        /// The reason.
        source: SourceError,
    },
    /// A chunk cannot be written as Parquet.
    #[error("cannot write table {table} as Parquet: {reason}")]
    Parquet {
        /// The table.
        table: String,
        /// The reason.
        reason: String,
    },
    /// It was interrupted.
    #[error("stopped while exporting; an earlier export there is unchanged")]
    Stopped,
}

/// How an export is carried out.
pub struct ExportOptions<'a> {
    /// The number of threads.
    pub threads: usize,
    /// Receives the number of finished chunks and of all chunks.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
    /// Set to end it early.
    pub stop: &'a AtomicBool,
    /// The chunks of the last export to this storage, if this process made it and no other changes the files. Chunks that
    /// are the same are then neither read nor encoded, and their files are not looked at.
    pub known: Option<&'a KnownChunks>,
}

/// The files of an export by the chunks that they were made of.
#[derive(Debug, Default)]
pub struct KnownChunks(Mutex<BTreeMap<ChunkPlace, (ChunkIdentity, Option<ExportedFile>)>>);

/// The schema and table of a chunk, and its number.
type ChunkPlace = (String, String, usize);

impl KnownChunks {
    /// The file of a chunk if that is still the same; `Some(None)` if it has no rows.
    fn file(&self, place: &ChunkPlace, identity: &ChunkIdentity) -> Option<Option<ExportedFile>> {
        let known = self.0.lock().expect("no thread panics while holding it");
        known.get(place).filter(|(known, _)| known == identity).map(|(_, file)| file.clone())
    }
}

/// What an export did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportReport {
    /// The result.
    pub manifest: Manifest,
    /// The number of files that were written; all others were there.
    pub files_written: usize,
    /// Their length.
    pub bytes_written: u64,
}

/// Exports a source.
pub fn export(
    source: &dyn Source,
    storage: &dyn Storage,
    options: &ExportOptions<'_>,
) -> Result<ExportReport, ExportError> {
    let before = begin(storage)?;
    let files_before = paths(before.as_ref());
    let work = Work::new(source, storage, &files_before, options);
    let tables = work.run()?;
    let identified = work.identified();
    let manifest = Manifest::new(source.origin(), source.as_of(), BTreeMap::new(), tables);
    let report = end(storage, &files_before, manifest, &work.written)?;
    if let Some(known) = options.known {
        *known.0.lock().expect("no thread panics while holding it") = identified;
    }
    Ok(report)
}

/// Marks that an export has begun; returns the manifest of the last one.
pub(crate) fn begin(storage: &dyn Storage) -> Result<Option<Manifest>, ExportError> {
    let before = check(storage)?;
    if before.is_none() {
        storage.write(UNFINISHED, b"An export has begun here. Run it again to finish it.\n")?;
    }
    Ok(before)
}

/// Makes the manifest that of the export, when all of its files are written.
pub(crate) fn end(
    storage: &dyn Storage,
    files_before: &BTreeSet<String>,
    manifest: Manifest,
    written: &Files,
) -> Result<ExportReport, ExportError> {
    storage.write(MANIFEST, &manifest.to_bytes())?;
    remove_others(storage, files_before, Some(&manifest));
    // Relaxed: the threads that counted have ended.
    let (files_written, bytes_written) = (written.count.load(Ordering::Relaxed), written.bytes.load(Ordering::Relaxed));
    Ok(ExportReport { manifest, files_written, bytes_written })
}

/// The paths of the files of an export.
pub(crate) fn paths(manifest: Option<&Manifest>) -> BTreeSet<String> {
    manifest.into_iter().flat_map(Manifest::files).map(|file| file.path.clone()).collect()
}

/// Checks that an export may be written there; returns the manifest of the last one.
pub fn check(storage: &dyn Storage) -> Result<Option<Manifest>, ExportError> {
    if let Some(bytes) = storage.read(MANIFEST)? {
        return Ok(Some(Manifest::parse(&bytes, &storage.place(MANIFEST))?));
    }
    let names = storage.names()?;
    let is_begun = names.iter().any(|name| name.starts_with(UNFINISHED));
    match names.first() {
        Some(name) if !is_begun => Err(ExportError::Foreign { place: storage.place(name) }),
        _ => Ok(None),
    }
}

/// Removes the files of ours that no manifest names. One that cannot be removed is removed by a later export.
pub(crate) fn remove_others(storage: &dyn Storage, before: &BTreeSet<String>, manifest: Option<&Manifest>) {
    let named = paths(manifest);
    for name in storage.names().unwrap_or_default() {
        let is_needed = named.contains(&*name) || before.contains(&*name);
        if !is_needed && (is_ours(&name) || name.starts_with(UNFINISHED)) {
            let _ = storage.remove(&name);
        }
    }
}

/// Whether a name is one that [`file_name`] makes, perhaps of a draft.
fn is_ours(name: &str) -> bool {
    let base = name.strip_suffix(".new").unwrap_or(name).strip_suffix(".parquet");
    let last = base.filter(|base| base.starts_with(DATA)).and_then(|base| base.rsplit('/').next());
    last.and_then(|last| last.split_once('-')).is_some_and(|(number, digits)| {
        number.bytes().all(|byte| byte.is_ascii_digit())
            && digits.len() == NAME_DIGITS
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The name of a chunk's file.
fn file_name(table: &TableShape, chunk: usize, sha256: &str) -> String {
    let (schema, name) = (path_part(&table.schema), path_part(&table.name));
    format!("{DATA}{schema}.{name}/{chunk:06}-{}.parquet", &sha256[..NAME_DIGITS])
}

/// A name in letters that every file system and URL takes; others are written as `%2e`.
fn path_part(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => part.push(byte.into()),
            other => write!(part, "%{other:02x}").expect("a text takes all"),
        }
    }
    part
}

/// The SHA-256 of these bytes in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The chunks that threads take from a common list, and what became of them.
struct Work<'a> {
    source: &'a dyn Source,
    storage: &'a dyn Storage,
    /// The files of the last export.
    before: &'a BTreeSet<String>,
    options: &'a ExportOptions<'a>,
    /// Table and chunk.
    chunks: Vec<(usize, usize)>,
    next: AtomicUsize,
    /// Set when a thread fails, so that the others end.
    has_failed: AtomicBool,
    finished: AtomicU64,
    /// What became of each chunk.
    done: Vec<Mutex<Done>>,
    written: Files,
}

/// The files that were written, not counting those that were already there.
#[derive(Debug, Default)]
pub(crate) struct Files {
    count: AtomicUsize,
    bytes: AtomicU64,
}

impl Files {
    /// Writes some rows of a table as the file of this number, unless the last export has it.
    pub(crate) fn write(
        &self,
        storage: &dyn Storage,
        before: &BTreeSet<String>,
        shape: &TableShape,
        number: usize,
        rows: &RecordBatch,
    ) -> Result<ExportedFile, ExportError> {
        let bytes = encode(rows)
            .map_err(|error| ExportError::Parquet { table: shape.name.clone(), reason: error.to_string() })?;
        let sha256 = digest(&bytes);
        let path = file_name(shape, number, &sha256);
        let is_undamaged = |path: &str| Ok(storage.read(path)?.is_some_and(|bytes| digest(&bytes) == sha256));
        let is_there = before.contains(&*path) && is_undamaged(&path).map_err(ExportError::Storage)?;
        if !is_there {
            storage.write(&path, &bytes)?;
            self.count.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(ExportedFile { path, rows: rows.num_rows() as u64, bytes: bytes.len() as u64, sha256 })
    }
}

/// A table of the manifest with these files, of which there must be one: `write` makes one without rows.
pub(crate) fn exported_table(
    shape: &TableShape,
    mut files: Vec<ExportedFile>,
    write: impl FnOnce(&RecordBatch) -> Result<ExportedFile, ExportError>,
) -> Result<ExportedTable, ExportError> {
    if files.is_empty() {
        files.push(write(&RecordBatch::new_empty(shape.columns.clone()))?);
    }
    let columns =
        columns(&shape.columns).map_err(|source| ExportError::Source { table: shape.name.clone(), source })?;
    let (schema, name) = (shape.schema.clone(), shape.name.clone());
    Ok(ExportedTable { schema, name, columns, rows: files.iter().map(|file| file.rows).sum(), files })
}

/// What became of a chunk.
#[derive(Debug, Clone, Default)]
struct Done {
    /// `None` if the chunk has no rows.
    file: Option<ExportedFile>,
    identity: Option<ChunkIdentity>,
}

impl<'a> Work<'a> {
    fn new(
        source: &'a dyn Source,
        storage: &'a dyn Storage,
        before: &'a BTreeSet<String>,
        options: &'a ExportOptions<'a>,
    ) -> Self {
        let tables = source.tables().iter().enumerate();
        let chunks: Vec<_> = tables.flat_map(|(table, shape)| (0..shape.chunks).map(move |at| (table, at))).collect();
        let done = chunks.iter().map(|_| Mutex::default()).collect();
        Work {
            source,
            storage,
            before,
            options,
            chunks,
            next: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            finished: AtomicU64::new(0),
            done,
            written: Files::default(),
        }
    }

    /// Writes all chunks; returns the tables of the manifest.
    fn run(&self) -> Result<Vec<ExportedTable>, ExportError> {
        let threads = self.options.threads.clamp(1, self.chunks.len().max(1));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.write_chunks())).collect();
            let ended = threads.into_iter().map(|thread| thread.join().expect("an export's thread does not panic"));
            // All threads have ended before the first error is returned.
            ended.collect::<Vec<_>>().into_iter().collect::<Result<(), ExportError>>()
        })?;
        let tables = self.source.tables().iter().enumerate();
        tables.map(|(number, table)| self.table(number, table)).collect()
    }

    /// Writes chunks until there are none left.
    fn write_chunks(&self) -> Result<(), ExportError> {
        let written = self.write_chunks_with(&mut None);
        if written.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        written
    }

    fn write_chunks_with(&self, reader: &mut Option<Box<dyn ChunkReader + 'a>>) -> Result<(), ExportError> {
        loop {
            // Relaxed: the list does not change, and the results are behind locks.
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(table, chunk)) = self.chunks.get(at) else { return Ok(()) };
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(ExportError::Stopped);
            }
            if self.has_failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let failed = |source| ExportError::Source { table: self.source.tables()[table].name.clone(), source };
            let reader = match reader {
                Some(reader) => reader,
                None => reader.insert(self.source.reader().map_err(failed)?),
            };
            let identity = match self.options.known {
                Some(_) => reader.identity(table, chunk).map_err(failed)?,
                None => None,
            };
            let file = match self.known(table, chunk, identity.as_ref()) {
                Some(file) => file,
                None => {
                    let batch = reader.read(table, chunk).map_err(failed)?;
                    (batch.num_rows() > 0).then(|| self.write(table, chunk, &batch)).transpose()?
                }
            };
            *self.done[at].lock().expect("no thread panics while holding it") = Done { file, identity };
            let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
            (self.options.progress)(finished, self.chunks.len() as u64);
        }
    }

    /// The file of a chunk that is the same as in the last export; `Some(None)` if it has no rows.
    fn known(&self, table: usize, chunk: usize, identity: Option<&ChunkIdentity>) -> Option<Option<ExportedFile>> {
        let file = self.options.known?.file(&self.place(table, chunk), identity?)?;
        // Another process may have exported since.
        file.as_ref().is_none_or(|file| self.before.contains(&*file.path)).then_some(file)
    }

    fn place(&self, table: usize, chunk: usize) -> ChunkPlace {
        let shape = &self.source.tables()[table];
        (shape.schema.clone(), shape.name.clone(), chunk)
    }

    /// The chunks with an identity, when all are written.
    fn identified(&self) -> BTreeMap<ChunkPlace, (ChunkIdentity, Option<ExportedFile>)> {
        let identified = |(&(table, chunk), done): (&(usize, usize), &Mutex<Done>)| {
            let Done { file, identity } = done.lock().expect("no thread panics while holding it").clone();
            Some((self.place(table, chunk), (identity?, file)))
        };
        self.chunks.iter().zip(&self.done).filter_map(identified).collect()
    }

    fn write(&self, table: usize, chunk: usize, batch: &RecordBatch) -> Result<ExportedFile, ExportError> {
        self.written.write(self.storage, self.before, &self.source.tables()[table], chunk, batch)
    }

    /// A table of the manifest, of whose chunks all are written.
    fn table(&self, number: usize, shape: &TableShape) -> Result<ExportedTable, ExportError> {
        let chunks = self.chunks.iter().zip(&self.done).filter(|((table, _), _)| *table == number);
        let file = |(_, done): (_, &Mutex<Done>)| done.lock().expect("no thread panics while holding it").file.clone();
        exported_table(shape, chunks.filter_map(file).collect(), |batch| self.write(number, 0, batch))
    }
}

#[cfg(test)]
mod tests;
